//! A directory behind the server: what can't be reached, what survives, and what is synced.

use super::raw::{in_directory, Raw, OK};
use dyno_files::Stability;
use dyno_nfs::status::Status;
use dyno_nfs::wire::{parse_commit, parse_read, FileHandle, Payload, Request};
use dyno_reference::nfs::{Flush, Options, Server};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;
use tempfile::{tempdir_in, TempDir};

fn place() -> TempDir {
    tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn started(place: &Path) -> (Server, Raw) {
    let server = Server::start(&in_directory(place)).expect("it starts");
    let raw = Raw::connect(server.address());
    (server, raw)
}

fn write(raw: &mut Raw, file: FileHandle, data: &[u8], stability: Stability) {
    let offset = 0;
    let request = Request::Write {
        file,
        offset,
        data: Payload::Whole(data),
        stability,
    };
    assert_eq!(raw.ask(&request).status, OK);
}

fn read(raw: &mut Raw, file: FileHandle) -> Result<Vec<u8>, u32> {
    let (offset, bytes) = (0, 65_536);
    let reply = raw.ask(&Request::Read { file, offset, bytes });
    match reply.status {
        OK => {
            let data = parse_read(&reply.results, bytes).expect("well formed").data;
            Ok(reply.results[data].to_vec())
        }
        status => Err(status),
    }
}

#[test]
fn what_is_served_is_what_lies_there_and_what_is_written_lies_there() {
    let place = place();
    fs::create_dir(place.path().join("d")).expect("made");
    fs::write(place.path().join("d/there"), "from before").expect("written");
    let (_server, mut raw) = started(place.path());
    let root = raw.root();
    let directory = raw.look_up(root, "d").expect("there");
    let there = raw.look_up(directory, "there").expect("there");
    assert_eq!(read(&mut raw, there), Ok(b"from before".to_vec()));
    let made = raw.create(directory, "made");
    write(&mut raw, made, b"content", Stability::File);
    assert_eq!(fs::read(place.path().join("d/made")).expect("there"), b"content");
}

#[test]
fn nothing_outside_of_the_directory_is_reached() {
    let (place, other) = (place(), place());
    fs::write(other.path().join("secret"), "secret").expect("written");
    symlink(other.path(), place.path().join("away")).expect("made");
    symlink(other.path().join("secret"), place.path().join("file")).expect("made");
    fs::create_dir(place.path().join("d")).expect("made");
    fs::write(place.path().join("d/secret"), "mine").expect("written");
    let (_server, mut raw) = started(place.path());
    let root = raw.root();
    assert_eq!(raw.look_up(root, ".."), Ok(root));
    assert!(raw.look_up(root, "../secret").is_err());
    // A link is a link: what it leads to is the client's to find.
    let away = raw.look_up(root, "away").expect("there");
    assert_eq!(raw.look_up(away, "secret"), Err(Status::NotDir as u32));
    let file = raw.look_up(root, "file").expect("there");
    assert_eq!(read(&mut raw, file), Err(Status::Inval as u32));
    // Nor does a directory that has become a link lead there, whatever handles are known.
    let directory = raw.look_up(root, "d").expect("there");
    let mine = raw.look_up(directory, "secret").expect("there");
    fs::rename(place.path().join("d"), place.path().join("was-d")).expect("renamed");
    symlink(other.path(), place.path().join("d")).expect("made");
    let found = read(&mut raw, mine);
    assert!(found == Ok(b"mine".to_vec()) || found == Err(Status::Stale as u32));
    let (_server, mut raw) = started(place.path());
    let root = raw.root();
    let link = raw.look_up(root, "d").expect("there");
    assert_eq!(raw.look_up(link, "secret"), Err(Status::NotDir as u32));
}

#[test]
fn a_handle_survives_renames_of_all_above_it_and_more_open_files_than_are_kept() {
    let place = place();
    let (_server, mut raw) = started(place.path());
    let root = raw.root();
    let above = raw.make_directory(root, "above");
    let directory = raw.make_directory(above, "directory");
    let file = raw.create(directory, "file");
    write(&mut raw, file, b"still there", Stability::Unstable);
    for number in 0..700 {
        let other = raw.create(root, &format!("other{number}"));
        write(&mut raw, other, b"x", Stability::Unstable);
    }
    let (from_at, from, to_at, to) = (root, b"above".as_slice(), root, b"below".as_slice());
    let renamed = raw.ask(&Request::Rename {
        from_at,
        from,
        to_at,
        to,
    });
    assert_eq!(renamed.status, OK);
    assert_eq!(read(&mut raw, file), Ok(b"still there".to_vec()));
    assert_eq!(raw.look_up(directory, ".."), Ok(above));
    // What others put in a file's place is another file.
    fs::remove_file(place.path().join("other0")).expect("there");
    fs::write(place.path().join("other0"), "new").expect("written");
    let other = raw.look_up(root, "other0").expect("there");
    assert_eq!(read(&mut raw, other), Ok(b"new".to_vec()));
}

#[test]
fn stable_writes_and_commits_are_synced_once_each_or_never() {
    for (flush, syncs) in [(Flush::Honour, 3), (Flush::Ignore, 0)] {
        let place = place();
        let options = Options {
            flush,
            ..in_directory(place.path())
        };
        let server = Server::start(&options).expect("it starts");
        let mut raw = Raw::connect(server.address());
        let root = raw.root();
        let file = raw.create(root, "file");
        write(&mut raw, file, b"x", Stability::Unstable);
        assert_eq!(server.syncs(), 0);
        write(&mut raw, file, b"x", Stability::Data);
        write(&mut raw, file, b"x", Stability::File);
        let (offset, bytes) = (0, 0);
        let committed = raw.ask(&Request::Commit { file, offset, bytes });
        let verifier = parse_commit(committed.results()).expect("well formed").verifier;
        assert_eq!(server.syncs(), syncs, "{flush:?}");
        // The kernel has what was written, but clients must take it for lost.
        assert_eq!(server.restart(Duration::ZERO), 0);
        let mut raw = Raw::connect(server.address());
        let committed = raw.ask(&Request::Commit { file, offset, bytes });
        let now = parse_commit(committed.results()).expect("well formed").verifier;
        assert!(now != verifier);
        assert_eq!(read(&mut raw, file), Ok(b"x".to_vec()));
    }
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let error = Server::start(&in_directory(Path::new("/nowhere/at/all"))).expect_err("refused");
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}
