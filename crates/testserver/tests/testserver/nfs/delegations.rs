//! Handwritten calls for read delegations: who gets one, who must return one, and what happens if one is not
//! returned.

use super::compounds::{ask, bytes, compound, exchange_id, to_export, OPEN, SEQUENCE};
use super::raw::{Raw, EXPORT, OK};
use dyno_files::Stability;
use dyno_nfs::status::{Status, Status4};
use dyno_nfs::wire::{FileHandle, Header, Payload, Reader, Request, SetAttributes};
use dyno_testserver::nfs::{Options, Server};
use std::time::{Duration, Instant};

const CALLBACKS: u32 = 0x4000_0000;
const WANTS_ONE: u32 = 0x0100;
const WANTS_NONE: u32 = 0x0400;
const READ: u32 = 1;
const WRITE: u32 = 2;
const REVOKED: u32 = 0x40;
const PATH_DOWN: u32 = 0x201;
const JUKEBOX: u32 = Status::JukeBox as u32;
const PATIENCE: Duration = Duration::from_secs(20);

fn server(limit: Duration, fault: Option<&str>) -> Server {
    let options = Options {
        delegations: Some(u64::try_from(limit.as_nanos()).expect("short")),
        files: vec![("file".to_owned(), b"0123456789".to_vec())],
        fault: fault.map(|name| name.parse().expect("a fault")),
        ..Options::on_loopback(EXPORT)
    };
    Server::start(&options).expect("it starts")
}

/// A client with a session and a back channel.
struct Called {
    raw: Raw,
    session: Vec<u8>,
    number: u32,
}

/// A delegation granted by an open, and its file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Delegated {
    stateid: Vec<u8>,
    file: Vec<u8>,
}

impl Called {
    fn new(server: &Server, owner: &[u8]) -> Self {
        let mut raw = Raw::connect(server.address());
        let (_, results) = ask(&mut raw, &compound(1, &[exchange_id(owner)]));
        let mut reader = Reader::new(&results[12..]);
        let (client, number) = (reader.u64().expect("told"), reader.u32().expect("told"));
        let create = bytes(|writer| {
            writer.u32(43).u64(client).u32(number).u32(2);
            for _ in 0..2 {
                writer
                    .u32(0)
                    .u32(1 << 20)
                    .u32(1 << 20)
                    .u32(4096)
                    .u32(16)
                    .u32(1)
                    .u32(0);
            }
            writer.u32(CALLBACKS).u32(1).u32(0);
        });
        let (status, results) = ask(&mut raw, &compound(1, &[create]));
        assert_eq!(
            (status, results[32..36].to_vec()),
            (OK, vec![0, 0, 0, 2]),
            "it is called"
        );
        let session = results[12..28].to_vec();
        Self {
            raw,
            session,
            number: 0,
        }
    }

    /// Runs operations. Returns the status flags of SEQUENCE, the status, and everything after SEQUENCE.
    fn ask(&mut self, operations: &[Vec<u8>]) -> (u32, u32, Vec<u8>) {
        self.number += 1;
        let sequence = bytes(|writer| {
            writer.u32(SEQUENCE).bytes(&self.session);
            writer.u32(self.number).u32(0).u32(0).u32(0);
        });
        let all = [&[sequence], operations].concat();
        let (status, results) = ask(&mut self.raw, &compound(1, &all));
        let flags = Reader::new(&results[44..]).u32().expect("flags");
        (flags, status, results[48..].to_vec())
    }

    /// Opens the file. Returns the delegation, if any.
    fn open(&mut self, access: u32) -> Result<Option<Delegated>, u32> {
        let open = bytes(|writer| {
            writer.u32(OPEN).u32(0).u32(access).u32(0).u64(0).opaque(b"me");
            writer.u32(0).u32(0).opaque(b"file");
        });
        let get_handle = bytes(|writer| {
            writer.u32(10);
        });
        let (_, status, results) = self.ask(&[&to_export()[..], &[open, get_handle]].concat());
        if status != OK {
            return Err(status);
        }
        let mut reader = Reader::new(&results[8 + 8 + 8..]); // PUTROOTFH, LOOKUP, OPEN
        reader.bytes(16 + 20 + 4).expect("a state, a change, flags");
        for _ in 0..reader.u32().expect("a bitmap") {
            reader.u32().expect("a bitmap");
        }
        let kind = reader.u32().expect("a delegation or none");
        if kind == 0 {
            return Ok(None);
        }
        assert_eq!(kind, 1, "for reading");
        let stateid = reader.bytes(16).expect("a state").to_vec();
        assert_eq!(reader.u32(), Ok(0), "not recalled");
        reader.bytes(12).expect("who may not read");
        assert_eq!(reader.opaque(16).expect("nobody"), b"");
        reader.u64().expect("GETFH");
        let file = reader.opaque(128).expect("a handle").to_vec();
        Ok(Some(Delegated { stateid, file }))
    }

    /// Receives the next recall and answers it with `status`.
    fn recalled(&mut self, number: u32, status: u32) -> Delegated {
        let record = self.raw.receive().expect("a call");
        let (xid, header) = Header::parse(&record).expect("a call");
        let header = header.expect("that is believed");
        assert_eq!(
            (header.program.0, header.program.1, header.procedure),
            (CALLBACKS, 1, 1)
        );
        let mut reader = Reader::new(&record[header.arguments..]);
        let mut words =
            |count: usize| -> Vec<u32> { (0..count).map(|_| reader.u32().expect("a word")).collect() };
        assert_eq!(words(5), [0, 1, 0, 2, 11]);
        assert_eq!(reader.bytes(16).expect("a session"), self.session);
        let mut words =
            |count: usize| -> Vec<u32> { (0..count).map(|_| reader.u32().expect("a word")).collect() };
        assert_eq!(words(6), [number, 0, 0, 0, 0, 4]);
        let stateid = reader.bytes(16).expect("a state").to_vec();
        assert_eq!(reader.u32(), Ok(0), "not truncated");
        let file = reader.opaque(128).expect("a handle").to_vec();
        assert!(reader.is_at_end());
        let answer = bytes(|writer| {
            writer.u32(xid).u32(1).u32(0).u32(0).u32(0).u32(0);
            writer.u32(status).u32(0).u32(2);
            writer
                .u32(11)
                .u32(0)
                .bytes(&self.session)
                .u32(number)
                .u32(0)
                .u32(0)
                .u32(0);
            writer.u32(4).u32(status);
        });
        let mark = (1 << 31) | u32::try_from(answer.len()).expect("short");
        self.raw.send(&[&mark.to_be_bytes()[..], &answer].concat());
        Delegated { stateid, file }
    }

    fn with_state(&mut self, operation: u32, delegated: &Delegated) -> (u32, u32) {
        let put = bytes(|writer| {
            writer.u32(22).opaque(&delegated.file);
        });
        let of_state = bytes(|writer| {
            writer.u32(operation).bytes(&delegated.stateid);
        });
        let (flags, status, _) = self.ask(&[put, of_state]);
        (flags, status)
    }

    fn give_back(&mut self, delegated: &Delegated) -> u32 {
        self.with_state(8, delegated).1
    }
}

/// Writes to the file over NFSv3.
fn write(raw: &mut Raw, file: FileHandle) -> u32 {
    let request = Request::Write {
        file,
        offset: 0,
        data: Payload::Whole(b"x"),
        stability: Stability::Unstable,
    };
    raw.ask(&request).status
}

/// Repeats a call until it does not return JUKEBOX.
fn until_done(mut ask: impl FnMut() -> u32) -> u32 {
    let end = Instant::now() + PATIENCE;
    loop {
        match ask() {
            JUKEBOX if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            status => return status,
        }
    }
}

#[test]
fn an_nfsv3_writer_waits_until_readers_have_returned_their_delegations() {
    let server = server(PATIENCE, None);
    let (mut one, mut two) = (Called::new(&server, b"one"), Called::new(&server, b"two"));
    assert_eq!(one.open(READ | WANTS_NONE), Ok(None));
    let of_one = one.open(READ | WANTS_ONE).expect("opened").expect("delegated");
    let of_two = two.open(READ).expect("opened").expect("delegated, unasked");
    assert_eq!(one.open(READ | WANTS_ONE), Ok(None), "it has one");
    let mut three = Raw::connect(server.address());
    let root = three.root();
    let file = three.look_up(root, "file").expect("there");
    assert_eq!(write(&mut three, file), JUKEBOX);
    assert_eq!(one.recalled(1, OK), of_one);
    assert_eq!(two.recalled(1, OK), of_two);
    assert_eq!(one.give_back(&of_one), OK);
    assert_eq!(write(&mut three, file), JUKEBOX, "there is another");
    assert_eq!(two.give_back(&of_two), OK);
    assert_eq!(two.give_back(&of_two), Status4::BadStateid as u32);
    assert_eq!(write(&mut three, file), OK);
    assert_eq!(
        one.open(READ | WANTS_ONE),
        Ok(None),
        "just now somebody had to wait"
    );
}

#[test]
fn every_change_by_another_client_recalls_but_no_own_change_does() {
    let changes: [fn(&mut Raw, FileHandle, FileHandle) -> u32; 5] = [
        |raw, _, file| write(raw, file),
        |raw, _, file| {
            let (set, guard) = (SetAttributes::mode(0o600), None);
            raw.ask(&Request::SetAttributes { file, set, guard }).status
        },
        |raw, at, file| {
            raw.ask(&Request::Link {
                file,
                at,
                name: b"other",
            })
            .status
        },
        |raw, at, _| {
            let (from_at, to_at) = (at, at);
            let (from, to) = (&b"file"[..], &b"new"[..]);
            raw.ask(&Request::Rename {
                from_at,
                from,
                to_at,
                to,
            })
            .status
        },
        |raw, at, _| raw.ask(&Request::Remove { at, name: b"file" }).status,
    ];
    for change in changes {
        let server = server(PATIENCE, None);
        let mut one = Called::new(&server, b"one");
        let delegated = one.open(READ).expect("opened").expect("delegated");
        assert_eq!(one.open(READ | WRITE), Ok(None), "its own, without a recall");
        let mut three = Raw::connect(server.address());
        let root = three.root();
        let file = three
            .look_up(root, "file")
            .expect("looking it up changes nothing");
        assert_eq!(change(&mut three, root, file), JUKEBOX);
        assert_eq!(one.recalled(1, OK), delegated);
        assert_eq!(one.give_back(&delegated), OK);
        assert_eq!(change(&mut three, root, file), OK);
    }
}

#[test]
fn another_clients_open_for_writing_recalls_but_one_for_reading_does_not() {
    let server = server(PATIENCE, None);
    let (mut one, mut two) = (Called::new(&server, b"one"), Called::new(&server, b"two"));
    let delegated = one.open(READ).expect("opened").expect("delegated");
    assert!(two.open(READ | WANTS_NONE).is_ok());
    assert_eq!(two.open(READ | WRITE), Err(JUKEBOX));
    assert_eq!(two.open(READ | WRITE), Err(JUKEBOX), "asked again, recalled once");
    assert_eq!(one.recalled(1, OK), delegated);
    assert_eq!(one.give_back(&delegated), OK);
    assert_eq!(two.open(READ | WRITE), Ok(None));
    assert_eq!(one.open(READ), Ok(None), "somebody may write");
}

#[test]
fn a_delegation_that_is_not_returned_in_time_is_revoked_and_reported() {
    let server = server(Duration::from_millis(100), None);
    let mut one = Called::new(&server, b"one");
    let delegated = one.open(READ).expect("opened").expect("delegated");
    let mut three = Raw::connect(server.address());
    let root = three.root();
    let file = three.look_up(root, "file").expect("there");
    assert_eq!(until_done(|| write(&mut three, file)), OK);
    assert_eq!(one.recalled(1, OK), delegated);
    let revoked = Status4::DelegationRevoked as u32;
    assert_eq!(one.with_state(8, &delegated), (REVOKED, revoked));
    assert_eq!(one.with_state(45, &delegated), (REVOKED, OK), "freed");
    assert_eq!(one.with_state(45, &delegated), (0, Status4::BadStateid as u32));
}

#[test]
fn a_recall_uses_the_connection_to_which_the_session_is_bound() {
    let server = server(PATIENCE, None);
    let mut one = Called::new(&server, b"one");
    let delegated = one.open(READ).expect("opened").expect("delegated");
    one.raw = Raw::connect(server.address());
    let read = [&to_export()[..], &[]].concat();
    let end = Instant::now() + PATIENCE;
    while one.ask(&read).0 != PATH_DOWN {
        assert!(Instant::now() < end, "the old connection has ended");
    }
    let mut three = Raw::connect(server.address());
    let root = three.root();
    let file = three.look_up(root, "file").expect("there");
    assert_eq!(write(&mut three, file), JUKEBOX);
    let bind = bytes(|writer| {
        writer.u32(41).bytes(&one.session).u32(3).u32(0);
    });
    let (status, results) = ask(&mut one.raw, &compound(1, &[bind]));
    assert_eq!((status, results[28..32].to_vec()), (OK, vec![0, 0, 0, 3]));
    assert_eq!(one.recalled(1, OK), delegated);
    assert_eq!(one.give_back(&delegated), OK);
    assert_eq!(write(&mut three, file), OK);
    assert_eq!(one.ask(&read).0, 0);
}

#[test]
fn a_client_that_has_not_accepted_a_recall_is_asked_again() {
    let server = server(PATIENCE, None);
    let mut one = Called::new(&server, b"one");
    let delegated = one.open(READ).expect("opened").expect("delegated");
    let mut three = Raw::connect(server.address());
    let root = three.root();
    let file = three.look_up(root, "file").expect("there");
    assert_eq!(write(&mut three, file), JUKEBOX);
    assert_eq!(one.recalled(1, JUKEBOX), delegated);
    // The answer may still be in transit. If so, a waiting client triggers the recall again.
    let again = std::thread::spawn(move || {
        let status = until_done(|| write(&mut three, file));
        (status, three)
    });
    assert_eq!(one.recalled(2, OK), delegated);
    assert_eq!(one.give_back(&delegated), OK);
    assert_eq!(again.join().expect("no panic").0, OK);
}

#[test]
fn the_faults_of_recalls_are_injected() {
    let silent = server(Duration::from_millis(50), Some("silent-recall"));
    let mut one = Called::new(&silent, b"one");
    let delegated = one.open(READ).expect("opened").expect("delegated");
    let mut three = Raw::connect(silent.address());
    let root = three.root();
    let file = three.look_up(root, "file").expect("there");
    assert_eq!(until_done(|| write(&mut three, file)), OK);
    assert_eq!(one.give_back(&delegated), Status4::DelegationRevoked as u32);

    let none = server(PATIENCE, Some("no-recall"));
    let mut one = Called::new(&none, b"one");
    one.open(READ).expect("opened").expect("delegated");
    let mut three = Raw::connect(none.address());
    let root = three.root();
    let file = three.look_up(root, "file").expect("there");
    assert_eq!(write(&mut three, file), OK);

    for (fault, first_is_it) in [("double-recall", true), ("unknown-recall", false)] {
        let twice = server(PATIENCE, Some(fault));
        let mut one = Called::new(&twice, b"one");
        let delegated = one.open(READ).expect("opened").expect("delegated");
        let mut three = Raw::connect(twice.address());
        let root = three.root();
        let file = three.look_up(root, "file").expect("there");
        assert_eq!(write(&mut three, file), JUKEBOX);
        assert_eq!(
            one.recalled(1, Status4::BadStateid as u32) == delegated,
            first_is_it
        );
        assert_eq!(one.recalled(2, OK), delegated);
    }
}
