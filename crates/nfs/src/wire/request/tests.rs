//! Writes and parses requests of every kind.

use super::super::arguments::{SetTime, BLOCK_DEVICE, PIPE};
use super::*;

const SET: SetAttributes = SetAttributes {
    mode: Some(0o640),
    uid: None,
    gid: Some(7),
    bytes: Some(1 << 40),
    accessed: SetTime::Client((3, 4)),
    modified: SetTime::Server,
};

fn of_files(file: FileHandle) -> Vec<Request<'static>> {
    let set = |set, guard| Request::SetAttributes { file, set, guard };
    let (offset, bytes) = (1 << 33, 9);
    vec![
        Request::Null,
        Request::GetAttributes { file },
        set(SET, Some((1, 2))),
        set(SetAttributes::default(), None),
        Request::Access { file, rights: 0x3f },
        Request::ReadLink { link: file },
        Request::Read { file, offset, bytes },
        Request::Write {
            file,
            offset,
            data: Payload::Whole(b"12345"),
            stability: Stability::Data,
        },
        Request::FsStat { root: file },
        Request::FsInfo { root: file },
        Request::PathConf { file },
        Request::commit_of_all(file),
    ]
}

fn of_names(at: FileHandle, file: FileHandle) -> Vec<Request<'static>> {
    let (name, set) = (b"name".as_slice(), SetAttributes::default());
    let create = |how| Request::Create { at, name, how };
    let make_node = |kind, device| Request::MakeNode {
        at,
        name,
        node: Node {
            kind,
            set: SET,
            device,
        },
    };
    let list = |plus| Request::List {
        directory: at,
        cookie: 5,
        verifier: 6,
        bytes: 4096,
        plus,
    };
    vec![
        Request::Lookup { at, name },
        create(How::Unchecked(SET)),
        create(How::Guarded(set)),
        create(How::Exclusive(8)),
        Request::MakeDirectory { at, name, set: SET },
        Request::SymbolicLink {
            at,
            name,
            set,
            target: b"../elsewhere",
        },
        make_node(PIPE, (0, 0)),
        make_node(BLOCK_DEVICE, (8, 1)),
        Request::Remove { at, name },
        Request::RemoveDirectory { at, name },
        Request::Rename {
            from_at: at,
            from: name,
            to_at: file,
            to: b"another",
        },
        Request::Link { file, at, name },
        list(true),
        list(false),
    ]
}

fn handle(bytes: &[u8]) -> FileHandle {
    FileHandle::of(bytes).expect("short")
}

#[test]
fn each_request_is_parsed_as_it_was_written_but_never_if_truncated() {
    let mut seen = Vec::new();
    let (file, at) = (handle(b"file"), handle(b"a directory"));
    for request in [of_files(file), of_names(at, file)].concat() {
        let mut bytes = Vec::new();
        request.write_arguments(&mut Writer(&mut bytes));
        assert_eq!(Request::parse(request.procedure(), &bytes), Ok(request));
        for end in 0..bytes.len() {
            let cut = Request::parse(request.procedure(), &bytes[..end]);
            assert_eq!(cut, Err(Malformed), "{request:?} cut at {end}");
        }
        seen.push(request.procedure());
    }
    seen.dedup();
    assert_eq!(seen.len(), Procedure::ALL.len(), "every procedure");
}

#[test]
fn a_write_whose_count_differs_from_its_data_is_malformed() {
    let mut bytes = Vec::new();
    let mut writer = Writer(&mut bytes);
    handle(b"f").write(&mut writer);
    writer.u64(0).u32(4).u32(0).opaque(b"12345");
    assert_eq!(Request::parse(Procedure::Write, &bytes), Err(Malformed));
}
