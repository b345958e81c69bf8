//! Clients that violate the protocol: calls of every kind are sent with changed bytes, and the server must
//! keep working.

use super::raw::{server, Raw, EXPORT};
use dyno_files::Stability;
use dyno_nfs::wire::{
    mount, parse_mount, Body, Credential, FileHandle, How, Message, Node, Payload, Records, Request,
    SetAttributes, NFS, RECORD_MARK_BYTES,
};
use dyno_testserver::nfs::{After, Dialogue, Options};

const ROUNDS: usize = 10_000;
/// A READ may return 1 MiB. Everything else is shorter.
const MOST_REPLY_BYTES: usize = (1 << 20) + 4096;

fn credential() -> Credential {
    Credential {
        machine: "test".to_owned(),
        uid: 0,
        gid: 0,
    }
}

fn dialogue() -> Dialogue {
    let options = Options {
        capacity_bytes: 1 << 20,
        files: vec![("there".to_owned(), vec![7; 5000])],
        ..Options::on_loopback(EXPORT)
    };
    Dialogue::alone(&options).expect("nothing contradicts itself")
}

/// Mounts the export.
fn root(dialogue: &mut Dialogue) -> FileHandle {
    let (mut message, mut out) = (Message::default(), Vec::new());
    mount(&mut message, 1, EXPORT, &credential());
    let after = dialogue.answer(&message.bytes()[RECORD_MARK_BYTES..], &mut out);
    assert_eq!(after, Ok(After::GoOn));
    let Ok((1, Body::Accepted(at))) = Body::parse(&out[RECORD_MARK_BYTES..]) else {
        panic!("it is carried out");
    };
    let mounted = parse_mount(&out[RECORD_MARK_BYTES + at..]).expect("well formed");
    mounted.expect("an export").root
}

fn of_files(file: FileHandle) -> Vec<Request<'static>> {
    let (set, offset, bytes) = (SetAttributes::mode(0o644), 0, 100);
    vec![
        Request::Null,
        Request::GetAttributes { file },
        Request::SetAttributes {
            file,
            set,
            guard: Some((1, 2)),
        },
        Request::Access { file, rights: 63 },
        Request::ReadLink { link: file },
        Request::Read { file, offset, bytes },
        Request::Write {
            file,
            offset,
            data: Payload::Whole(b"data"),
            stability: Stability::Unstable,
        },
        Request::FsStat { root: file },
        Request::FsInfo { root: file },
        Request::PathConf { file },
        Request::commit_of_all(file),
    ]
}

fn of_names(at: FileHandle) -> Vec<Request<'static>> {
    let (name, set) = (b"name".as_slice(), SetAttributes::mode(0o644));
    let (kind, device) = (7, (0, 0));
    let create = |how| Request::Create { at, name, how };
    vec![
        Request::Lookup { at, name: b"there" },
        create(How::Unchecked(set)),
        create(How::Exclusive(1)),
        Request::MakeDirectory { at, name, set },
        Request::SymbolicLink {
            at,
            name,
            set,
            target: name,
        },
        Request::MakeNode {
            at,
            name,
            node: Node { kind, set, device },
        },
        Request::Remove { at, name },
        Request::RemoveDirectory { at, name },
        Request::Rename {
            from_at: at,
            from: b"there",
            to_at: at,
            to: name,
        },
        Request::Link { file: at, at, name },
        Request::List {
            directory: at,
            cookie: 0,
            verifier: 0,
            bytes: 4096,
            plus: true,
        },
    ]
}

/// Returns a call of every kind, as records.
fn calls(at: FileHandle) -> Vec<Vec<u8>> {
    let record = |(xid, request): (u32, &Request<'_>)| {
        let mut message = Message::default();
        request.write(&mut message, xid, &credential());
        message.bytes()[RECORD_MARK_BYTES..].to_vec()
    };
    let requests = [of_files(at), of_names(at)].concat();
    (10..).zip(&requests).map(record).collect()
}

#[test]
fn every_call_is_answered_once_and_within_limits_whatever_it_contains() {
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut carried_out, mut refused, mut broken) = (0, 0, 0);
    let mut dialogue = dialogue();
    let at = root(&mut dialogue);
    let calls = calls(at);
    for _ in 0..ROUNDS {
        let mut record = calls[random(calls.len())].clone();
        // Rarely change the header, because there is more to break after it, or the handle, because it is
        // secret.
        let first = [8, 64, 92][random(3)].min(record.len() - 1);
        for _ in 0..=random(3) {
            let place = first + random(record.len() - first);
            record[place] = [0, 1, 0x7f, 0xff, random(256) as u8][random(5)];
        }
        if random(8) == 0 {
            record.truncate(random(record.len()));
        }
        let mut out = b"before".to_vec();
        match dialogue.answer(&record, &mut out) {
            Err(_) => broken += 1,
            Ok(_) => {
                let mut records = Records::new(MOST_REPLY_BYTES);
                let reply = &out[6..];
                records.room(); // At least enough for a record mark.
                let mut taken = 0;
                while taken < reply.len() {
                    let room = records.room();
                    let count = room.len().min(reply.len() - taken);
                    room[..count].copy_from_slice(&reply[taken..taken + count]);
                    records.filled(count);
                    taken += count;
                }
                let range = records
                    .next_record()
                    .expect("within bounds")
                    .expect("a whole reply");
                let (xid, body) = Body::parse(&records.bytes()[range]).expect("a reply");
                assert_eq!(xid.to_be_bytes(), record[..4], "to that call");
                assert_eq!(records.waiting_bytes(), 0, "one reply");
                match body {
                    Body::Accepted(_) => carried_out += 1,
                    _ => refused += 1,
                }
            }
        }
    }
    assert!(carried_out > ROUNDS / 3 && refused > ROUNDS / 100 && broken > ROUNDS / 100);
}

#[test]
fn a_record_beyond_all_limits_ends_only_its_connection() {
    let server = server();
    let mut other = Raw::connect(server.address());
    let root = other.root();
    for bytes in [
        &b"\xff\xff\xff\xff"[..],
        b"\0\0\0\0",
        b"\x80\0\0\x04abcd",
        b"\x80\0\0\x08\0\0\0\x01\0\0\0\x01",
    ] {
        let mut raw = Raw::connect(server.address());
        raw.send(bytes);
        assert!(raw.receive().is_none(), "{bytes:?}");
    }
    assert_eq!(other.attributes(root).links, 2);
    assert_eq!(other.call(NFS, 0, &[]).1, [0_u8; 0]);
}
