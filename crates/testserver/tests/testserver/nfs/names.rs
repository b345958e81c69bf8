//! Names: creating, removing, renaming, linking, listing.

use super::raw::{server, Raw, OK};
use dyno_nfs::status::Status;
use dyno_nfs::wire::{
    parse, Created, Entries, FileHandle, How, Node, Reader, Request, SetAttributes, DIRECTORY, SYMBOLIC_LINK,
};
use std::collections::BTreeSet;

/// Lists the names of a directory part by part, and runs `meanwhile` between the parts.
fn list(
    raw: &mut Raw,
    directory: FileHandle,
    plus: bool,
    bytes: u32,
    mut meanwhile: impl FnMut(&mut Raw, usize),
) -> Vec<String> {
    let (mut names, mut cookie, mut parts) = (Vec::new(), 0, 0);
    loop {
        let reply = raw.ask(&Request::List {
            directory,
            cookie,
            verifier: 0,
            bytes,
            plus,
        });
        assert!(reply.results().len() <= bytes as usize);
        let mut entries = Entries::parse(reply.results(), plus).expect("well formed");
        while let Some(entry) = entries.next_entry().expect("well formed") {
            assert_eq!(entry.attributes.is_some(), plus);
            if let (Some(attributes), Some(file)) = (entry.attributes, entry.file) {
                assert_eq!(attributes.file_id, entry.file_id);
                assert_eq!(raw.attributes(file).file_id, entry.file_id);
            }
            cookie = entry.cookie;
            names.push(String::from_utf8(entry.name.to_vec()).expect("a name of ours"));
        }
        if entries.is_last_part().expect("well formed") {
            return names;
        }
        meanwhile(raw, parts);
        parts += 1;
    }
}

#[test]
fn a_listing_in_parts_has_each_remaining_name_once() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let at = raw.root();
    let mut stays: BTreeSet<String> = [".", ".."].map(str::to_owned).into();
    for number in 0..300 {
        let name = format!("name{number}");
        raw.create(at, &name);
        stays.insert(name);
    }
    for plus in [false, true] {
        let mut removed = Vec::new();
        let names = list(&mut raw, at, plus, 4096, |raw, part| {
            let (gone, new) = (
                format!("name{}", part + if plus { 100 } else { 0 }),
                format!("new{plus}{part}"),
            );
            raw.create(at, &new);
            let name = gone.as_bytes();
            assert_eq!(raw.ask(&Request::Remove { at, name }).status, OK);
            removed.push(gone);
        });
        assert!(removed.len() > 1);
        stays.retain(|name| !removed.contains(name));
        let listed: BTreeSet<String> = names.iter().cloned().collect();
        assert_eq!(listed.len(), names.len(), "none twice");
        assert!(listed.is_superset(&stays));
        stays = list(&mut raw, at, plus, 1 << 20, |_, _| {}).into_iter().collect();
    }
    let too_small = Request::List {
        directory: at,
        cookie: 0,
        verifier: 0,
        bytes: 100,
        plus: true,
    };
    assert_eq!(raw.ask(&too_small).status, Status::TooSmall as u32);
}

#[test]
fn a_rename_replaces_only_what_may_be_replaced() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let root = raw.root();
    let (a, b) = (raw.make_directory(root, "a"), raw.make_directory(root, "b"));
    let below = raw.make_directory(a, "below");
    let (one, two) = (raw.create(a, "one"), raw.create(b, "two"));
    let links = |raw: &mut Raw, file| raw.attributes(file).links;
    assert_eq!((links(&mut raw, root), links(&mut raw, a)), (4, 3));
    let rename = |raw: &mut Raw, from_at, from: &str, to_at, to: &str| {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        raw.ask(&Request::Rename {
            from_at,
            from,
            to_at,
            to,
        })
        .status
    };
    assert_eq!(rename(&mut raw, a, "one", b, "two"), OK);
    assert_eq!(raw.look_up(b, "two"), Ok(one));
    assert_eq!(
        raw.ask(&Request::GetAttributes { file: two }).status,
        Status::Stale as u32
    );
    assert_eq!(raw.look_up(a, "one"), Err(Status::NoEnt as u32));
    for (from_at, from, to_at, to, status) in [
        (root, "a", below, "x", Status::Inval),
        (root, "a", a, "x", Status::Inval),
        (root, "b", root, "a", Status::NotEmpty),
        (root, "a", b, "two", Status::NotDir),
        (b, "two", root, "a", Status::IsDir),
        (b, "nothing", root, "x", Status::NoEnt),
        (b, "two", one, "x", Status::NotDir),
        (b, "..", root, "x", Status::Inval),
        (b, "two", root, "with/slash", Status::Inval),
    ] {
        assert_eq!(
            rename(&mut raw, from_at, from, to_at, to),
            status as u32,
            "{from} {to}"
        );
    }
    assert_eq!(rename(&mut raw, b, "two", b, "two"), OK);
    assert_eq!(rename(&mut raw, a, "below", b, "moved"), OK);
    assert_eq!((links(&mut raw, a), links(&mut raw, b)), (2, 3));
    assert_eq!(raw.look_up(below, ".."), Ok(b));
    assert_eq!(
        rename(&mut raw, b, "moved", root, "a"),
        OK,
        "an empty directory is replaced"
    );
    assert_eq!(links(&mut raw, root), 4);
}

#[test]
fn a_file_exists_as_long_as_it_has_a_name() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let root = raw.root();
    let file = raw.create(root, "one");
    let (at, name) = (root, b"two".as_slice());
    assert_eq!(raw.ask(&Request::Link { file, at, name }).status, OK);
    assert_eq!(
        raw.ask(&Request::Link { file, at, name }).status,
        Status::Exist as u32
    );
    assert_eq!(raw.attributes(file).links, 2);
    let directory = raw.make_directory(root, "d");
    let of_directory = raw.ask(&Request::Link {
        file: directory,
        at,
        name: b"x",
    });
    assert_eq!(of_directory.status, Status::IsDir as u32);
    assert_eq!(raw.ask(&Request::Remove { at, name: b"one" }).status, OK);
    assert_eq!(raw.attributes(file).links, 1);
    assert_eq!(raw.ask(&Request::Remove { at, name }).status, OK);
    assert_eq!(
        raw.ask(&Request::GetAttributes { file }).status,
        Status::Stale as u32
    );
    for (request, status) in [
        (Request::Remove { at, name: b"d" }, Status::IsDir),
        (Request::Remove { at, name: b"two" }, Status::NoEnt),
        (Request::Remove { at, name: b".." }, Status::Inval),
        (Request::RemoveDirectory { at, name: b"." }, Status::Inval),
    ] {
        assert_eq!(raw.ask(&request).status, status as u32, "{request:?}");
    }
    raw.create(directory, "in");
    let name = b"d".as_slice();
    assert_eq!(
        raw.ask(&Request::RemoveDirectory { at, name }).status,
        Status::NotEmpty as u32
    );
    assert_eq!(
        raw.ask(&Request::Remove {
            at: directory,
            name: b"in"
        })
        .status,
        OK
    );
    assert_eq!(raw.ask(&Request::RemoveDirectory { at, name }).status, OK);
}

#[test]
fn a_creation_is_exactly_as_exclusive_as_requested() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let at = raw.root();
    let name = b"file".as_slice();
    let create = |raw: &mut Raw, how| {
        let reply = raw.ask(&Request::Create { at, name, how });
        match reply.status {
            OK => Ok(parse::<Created>(&reply.results).expect("well formed").file),
            status => Err(status),
        }
    };
    let set = SetAttributes {
        bytes: Some(0),
        mode: Some(0o640),
        ..SetAttributes::default()
    };
    let made = create(&mut raw, How::Exclusive(5)).expect("it is not there");
    assert_eq!(create(&mut raw, How::Exclusive(5)), Ok(made), "sent twice");
    assert_eq!(create(&mut raw, How::Exclusive(6)), Err(Status::Exist as u32));
    assert_eq!(create(&mut raw, How::Guarded(set)), Err(Status::Exist as u32));
    assert_eq!(create(&mut raw, How::Unchecked(set)), Ok(made));
    let long = [b'n'; 256];
    for (name, status) in [
        (&long[..], Status::NameTooLong),
        (b"", Status::Inval),
        (b"a/b", Status::Inval),
        (b"a\0b", Status::Inval),
        (b"..", Status::Exist),
    ] {
        let how = How::Guarded(set);
        assert_eq!(raw.ask(&Request::Create { at, name, how }).status, status as u32);
    }
}

#[test]
fn links_pipes_and_devices_keep_their_properties() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let at = raw.root();
    let (set, target) = (SetAttributes::default(), b"../elsewhere".as_slice());
    let name = b"link".as_slice();
    let made = raw.ask(&Request::SymbolicLink {
        at,
        name,
        set,
        target,
    });
    let link = parse::<Created>(made.results())
        .expect("well formed")
        .file
        .expect("told");
    assert_eq!(raw.attributes(link).kind, SYMBOLIC_LINK);
    let read = raw.ask(&Request::ReadLink { link });
    let mut reader = Reader::new(read.results());
    reader.bytes(4 + 84).expect("attributes");
    assert_eq!(reader.opaque(100), Ok(target));
    assert_eq!(
        raw.ask(&Request::ReadLink { link: at }).status,
        Status::Inval as u32
    );
    for (kind, device, status) in [
        (7, (0, 0), OK),
        (4, (8, 1), OK),
        (DIRECTORY, (0, 0), Status::BadType as u32),
    ] {
        let name = format!("node{kind}");
        let made = raw.ask(&Request::MakeNode {
            at,
            name: name.as_bytes(),
            node: Node { kind, set, device },
        });
        assert_eq!(made.status, status);
        if status == OK {
            let file = raw.look_up(at, &name).expect("it is there");
            let found = raw.attributes(file);
            assert_eq!((found.kind, found.device), (kind, device));
            let (offset, bytes) = (0, 1);
            let read = raw.ask(&Request::Read { file, offset, bytes });
            assert_eq!(read.status, Status::Inval as u32);
        }
    }
}
