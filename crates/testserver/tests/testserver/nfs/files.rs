//! Contents and attributes of files.

use super::raw::{server, Raw, OK};
use dyno_files::Stability;
use dyno_nfs::status::Status;
use dyno_nfs::wire::{
    parse, parse_fs_info, parse_fs_stat, parse_read, parse_write, Committed, Payload, Reader, Request,
    SetAttributes, SetTime, Wcc, Written,
};
use dyno_nfs::wire::{FileHandle, DIRECTORY, REGULAR};
use dyno_testserver::nfs::{Options, Server};

fn write(raw: &mut Raw, file: FileHandle, offset: u64, data: &[u8], stability: Stability) -> Written {
    let reply = raw.ask(&Request::Write {
        file,
        offset,
        data: Payload::Whole(data),
        stability,
    });
    let most = u32::try_from(data.len()).expect("short");
    parse_write(reply.results(), most, stability).expect("well formed")
}

fn read(raw: &mut Raw, file: FileHandle, offset: u64, bytes: u32) -> (Vec<u8>, bool) {
    let reply = raw.ask(&Request::Read { file, offset, bytes });
    let read = parse_read(reply.results(), bytes).expect("well formed");
    (reply.results[read.data].to_vec(), read.is_end)
}

#[test]
fn written_data_are_read_back_and_the_end_is_reported() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let root = raw.root();
    let file = raw.create(root, "file");
    let written = write(&mut raw, file, 3, b"abcde", Stability::Unstable);
    assert_eq!((written.bytes, written.stability), (5, Stability::Unstable));
    let (before, after) = (
        written.wcc.before.expect("told"),
        written.wcc.after.expect("told"),
    );
    assert!(before != after.before());
    assert_eq!(after.bytes, 8);
    assert_eq!(read(&mut raw, file, 0, 100), (b"\0\0\0abcde".to_vec(), true));
    assert_eq!(read(&mut raw, file, 3, 2), (b"ab".to_vec(), false));
    assert_eq!(read(&mut raw, file, 6, 2), (b"de".to_vec(), true));
    assert_eq!(read(&mut raw, file, 8, 1), (vec![], true));
    assert_eq!(read(&mut raw, file, u64::MAX, 1), (vec![], true));
    let (offset, bytes) = (0, 0);
    let committed = raw.ask(&Request::Commit { file, offset, bytes });
    let committed: Committed = parse(committed.results()).expect("well formed");
    assert_eq!(committed.verifier, written.verifier);
    let stable = write(&mut raw, file, 0, b"x", Stability::File);
    assert_eq!(
        (stable.stability, stable.verifier),
        (Stability::File, written.verifier)
    );
    let far = raw.ask(&Request::Write {
        file,
        offset: u64::MAX,
        data: Payload::Whole(b"x"),
        stability: Stability::File,
    });
    assert_eq!(far.status, Status::FBig as u32);
}

#[test]
fn attributes_are_stored_and_each_change_has_a_different_time() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let root = raw.root();
    let file = raw.create(root, "file");
    let made = raw.attributes(file);
    let told = (made.kind, made.mode, made.links, made.uid, made.gid, made.bytes);
    assert_eq!(told, (REGULAR, 0o600, 1, 1000, 100, 0));
    let set = SetAttributes {
        mode: Some(0o4711),
        uid: Some(7),
        bytes: Some(10),
        accessed: SetTime::Client((1, 2)),
        modified: SetTime::Client((3, 4)),
        ..SetAttributes::default()
    };
    let guard = Some(made.changed);
    let reply = raw.ask(&Request::SetAttributes { file, set, guard });
    let wcc: Wcc = parse(reply.results()).expect("well formed");
    let after = wcc.after.expect("told");
    let told = (
        after.mode,
        after.uid,
        after.gid,
        after.bytes,
        after.accessed,
        after.modified,
    );
    assert_eq!(told, (0o4711, 7, 100, 10, (1, 2), (3, 4)));
    assert!(after.changed > made.changed);
    let late = raw.ask(&Request::SetAttributes { file, set, guard });
    assert_eq!(late.status, Status::NotSync as u32);
    let mut last = after.changed;
    for _ in 0..50 {
        write(&mut raw, file, 0, b"x", Stability::Unstable);
        let now = raw.attributes(file).changed;
        assert!(now > last);
        last = now;
    }
    assert_eq!(raw.attributes(root).kind, DIRECTORY);
}

#[test]
fn rights_space_and_sizes_are_reported() {
    let options = Options {
        capacity_bytes: 1 << 20,
        max_transfer_bytes: 65_536,
        ..Options::on_loopback("/export")
    };
    let server = Server::start(&options).expect("it starts");
    let mut raw = Raw::connect(server.address());
    let root = raw.root();
    let file = raw.create(root, "file");
    let rights = |raw: &mut Raw, file| {
        let reply = raw.ask(&Request::Access { file, rights: 0xff });
        let mut reader = Reader::new(reply.results());
        reader.bytes(4 + 84).expect("attributes");
        reader.u32().expect("rights")
    };
    assert_eq!((rights(&mut raw, root), rights(&mut raw, file)), (0x1f, 0x0d));
    let info = raw.ask(&Request::FsInfo { root });
    let info = parse_fs_info(info.results()).expect("well formed");
    assert_eq!(
        (info.max_read_bytes, info.preferred_write_bytes),
        (65_536, 65_536)
    );
    // A larger write is shortened to the maximum.
    let data = [7; 70_000];
    assert_eq!(write(&mut raw, file, 0, &data, Stability::Unstable).bytes, 65_536);
    assert_eq!(read(&mut raw, file, 0, 70_000).0.len(), 65_536);
    let space = |raw: &mut Raw| {
        let reply = raw.ask(&Request::FsStat { root });
        parse_fs_stat(reply.results()).expect("well formed")
    };
    let before = space(&mut raw);
    assert_eq!(before.total_bytes, 1 << 20);
    assert_eq!(before.free_bytes, (1 << 20) - 1024 - 65_536);
    let mut status = OK;
    for place in 1..20 {
        let reply = raw.ask(&Request::Write {
            file,
            offset: place << 16,
            data: Payload::Whole(&data[..65_536]),
            stability: Stability::Unstable,
        });
        status = reply.status;
    }
    assert_eq!(status, Status::NoSpc as u32);
    let name = b"file";
    assert_eq!(raw.ask(&Request::Remove { at: root, name }).status, OK);
    assert_eq!(space(&mut raw).free_bytes, 1 << 20);
    assert_eq!(
        raw.ask(&Request::GetAttributes { file }).status,
        Status::Stale as u32
    );
    let names = raw.ask(&Request::PathConf { file: root });
    let mut reader = Reader::new(names.results());
    reader.bytes(4 + 84 + 4).expect("attributes and links");
    assert_eq!(reader.u32(), Ok(255));
}
