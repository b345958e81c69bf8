//! Handwritten NFSv4.1 calls: sessions and their slots, opens, locks, refusals and unusual requests.

use super::raw::{server, Raw, EXPORT, OK};
use dyno_nfs::status::{Status, Status4};
use dyno_nfs::wire::{Body, Credential, Message, Program, Reader, Writer};
use dyno_testserver::nfs::{After, Dialogue, Options};

pub const NFS4: Program = Program(100_003, 4);
pub const COMPOUND: u32 = 1;
const PUTROOTFH: u32 = 24;
const LOOKUP: u32 = 15;
const READ: u32 = 25;
const REMOVE: u32 = 28;
pub const OPEN: u32 = 18;
const LOCK: u32 = 12;
pub const CLOSE: u32 = 4;
pub const SEQUENCE: u32 = 53;

/// Returns the bytes that `write` appends.
pub fn bytes(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer(&mut bytes));
    bytes
}

/// Returns the arguments of a compound.
pub fn compound(minor_version: u32, operations: &[Vec<u8>]) -> Vec<u8> {
    bytes(|writer| {
        writer.u32(0).u32(minor_version).u32(operations.len() as u32);
        for operation in operations {
            writer.bytes(operation);
        }
    })
}

pub fn exchange_id(owner: &[u8]) -> Vec<u8> {
    bytes(|writer| {
        writer.u32(42).u64(7).opaque(owner).u32(0).u32(0).u32(0);
    })
}

fn create_session(client: u64, number: u32) -> Vec<u8> {
    bytes(|writer| {
        writer.u32(43).u64(client).u32(number).u32(0);
        for slots in [4, 1] {
            writer
                .u32(0)
                .u32(1 << 20)
                .u32(1 << 20)
                .u32(4096)
                .u32(16)
                .u32(slots)
                .u32(0);
        }
        writer.u32(0x4000_0000).u32(1).u32(0);
    })
}

/// Returns the operations that lead to the export: PUTROOTFH and LOOKUP.
pub fn to_export() -> [Vec<u8>; 2] {
    let name = EXPORT.trim_start_matches('/').as_bytes();
    [
        bytes(|writer| {
            writer.u32(PUTROOTFH);
        }),
        bytes(|writer| {
            writer.u32(LOOKUP).opaque(name);
        }),
    ]
}

/// Returns an OPEN that creates a file; `deny`: access denied to others.
fn open(name: &[u8], owner: &[u8], access: u32, deny: u32) -> Vec<u8> {
    bytes(|writer| {
        writer.u32(OPEN).u32(0).u32(access).u32(deny).u64(0).opaque(owner);
        writer.u32(1).u32(0).u32(0).u32(0); // UNCHECKED creation without attributes.
        writer.u32(0).opaque(name);
    })
}

fn remove(name: &[u8]) -> Vec<u8> {
    bytes(|writer| {
        writer.u32(REMOVE).opaque(name);
    })
}

fn lock(stateid: &[u8], owner: &[u8], range: (u64, u64)) -> Vec<u8> {
    bytes(|writer| {
        writer.u32(LOCK).u32(2).u32(0).u64(range.0).u64(range.1).u32(1);
        writer.u32(0).bytes(stateid).u32(0).u64(0).opaque(owner);
    })
}

/// A client with a session.
struct Client<'a> {
    raw: &'a mut Raw,
    session: [u8; 16],
    number: u32,
}

/// Sends a compound. Returns its status, and its results after the tag.
pub fn ask(raw: &mut Raw, arguments: &[u8]) -> (u32, Vec<u8>) {
    let (body, results) = raw.call(NFS4, COMPOUND, arguments);
    assert!(matches!(body, Body::Accepted(_)), "{body:?}");
    let mut reader = Reader::new(&results);
    let status = reader.u32().expect("a status");
    reader.opaque(1024).expect("a tag");
    (status, results[reader.position()..].to_vec())
}

impl<'a> Client<'a> {
    fn new(raw: &'a mut Raw, owner: &[u8]) -> Self {
        let (status, results) = ask(raw, &compound(1, &[exchange_id(owner)]));
        assert_eq!(status, OK);
        let mut reader = Reader::new(&results[12..]);
        let (client, number) = (reader.u64().expect("told"), reader.u32().expect("told"));
        let (status, results) = ask(raw, &compound(1, &[create_session(client, number)]));
        assert_eq!(status, OK);
        let again = ask(raw, &compound(1, &[create_session(client, number)]));
        assert_eq!(again, (OK, results.clone()), "sent twice, made once");
        Self {
            raw,
            session: results[12..28].try_into().expect("a session"),
            number: 0,
        }
    }

    fn sequence(&self) -> Vec<u8> {
        bytes(|writer| {
            writer.u32(SEQUENCE).bytes(&self.session);
            writer.u32(self.number).u32(0).u32(0).u32(1);
        })
    }

    /// Runs operations in the export. Returns the status, and the results of the last operation after its
    /// status.
    fn ask(&mut self, operations: &[Vec<u8>]) -> (u32, Vec<u8>) {
        self.number += 1;
        self.ask_again(operations)
    }

    /// Repeats a request with the same sequence number.
    fn ask_again(&mut self, operations: &[Vec<u8>]) -> (u32, Vec<u8>) {
        let all = [&[self.sequence()], &to_export()[..], operations].concat();
        let (status, results) = ask(self.raw, &compound(1, &all));
        // Skip the number of results, SEQUENCE, PUTROOTFH and LOOKUP.
        let before = 4 + 8 + 36 + 8 + 8;
        (status, results.get(before..).unwrap_or_default().to_vec())
    }

    fn open(&mut self, name: &[u8], owner: &[u8], access: u32, deny: u32) -> Result<Vec<u8>, u32> {
        match self.ask(&[open(name, owner, access, deny)]) {
            (OK, results) => Ok(results[8..24].to_vec()),
            (status, _) => Err(status),
        }
    }
}

#[test]
fn a_repeated_request_in_a_slot_is_executed_once() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let mut client = Client::new(&mut raw, b"one");
    client.open(b"file", b"me", 3, 0).expect("made");
    let first = client.ask(&[remove(b"file")]);
    assert_eq!(first.0, OK);
    assert_eq!(client.ask_again(&[remove(b"file")]), first);
    assert_eq!(
        client.ask_again(&[remove(b"other")]).0,
        10_076,
        "not the same request"
    );
    assert_eq!(client.ask(&[remove(b"file")]).0, Status::NoEnt as u32);
    client.number += 5;
    assert_eq!(
        client.ask(&[remove(b"file")]).0,
        Status4::SequenceMisordered as u32
    );
}

#[test]
fn opens_and_locks_of_one_client_restrict_another() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let stateid = {
        let mut client = Client::new(&mut raw, b"one");
        let stateid = client.open(b"file", b"me", 3, 2).expect("made");
        let locked = client.ask(&[
            open(b"file", b"me", 3, 0),
            lock(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], b"me", (5, 10)),
        ]);
        assert_eq!(locked.0, OK, "by the state that the compound has made");
        stateid
    };
    let mut other = Client::new(&mut raw, b"two");
    let denied = Err(Status4::ShareDenied as u32);
    assert_eq!(other.open(b"file", b"you", 2, 0), denied);
    assert_eq!(other.open(b"file", b"you", 1, 0).map(|_| ()), Ok(()));
    let theirs = other.open(b"another", b"you", 3, 0).expect("made");
    let mut lock_bytes = |range| other.ask(&[open(b"file", b"you", 1, 0), lock(&theirs, b"you", range)]);
    let (status, results) = lock_bytes((0, 6));
    assert_eq!(status, Status4::Denied as u32);
    let mut reader = Reader::new(&results[results.len() - 36..]);
    let met = (reader.u64(), reader.u64(), reader.u32());
    assert_eq!(met, (Ok(5), Ok(10), Ok(2)), "what is in the way");
    let (status, _) = lock_bytes((0, 5));
    assert_eq!(status, Status4::BadStateid as u32, "of another file");
    let close = bytes(|writer| {
        writer.u32(CLOSE).u32(0).bytes(&stateid);
    });
    let lookup = bytes(|writer| {
        writer.u32(LOOKUP).opaque(b"file");
    });
    let (status, _) = other.ask(&[lookup, close]);
    assert_eq!(status, Status4::BadStateid as u32, "of another client");
}

#[test]
fn an_invalid_compound_is_refused_with_the_right_status() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let root = to_export()[0].clone();
    let illegal = bytes(|writer| {
        writer.u32(4_000_000);
    });
    let raw = &mut raw;
    assert_eq!(
        ask(raw, &compound(0, std::slice::from_ref(&root))).0,
        Status4::MinorVersionMismatch as u32
    );
    assert_eq!(
        ask(raw, &compound(1, std::slice::from_ref(&root))).0,
        Status4::OperationNotInSession as u32
    );
    assert_eq!(
        ask(raw, &compound(1, &[exchange_id(b"x"), root])).0,
        10_081,
        "not alone"
    );
    assert_eq!(
        ask(raw, &compound(1, std::slice::from_ref(&illegal))).0,
        Status4::OperationIllegal as u32
    );
    assert_eq!(ask(raw, &compound(1, &[])), (OK, vec![0; 4]));
    let mut client = Client::new(raw, b"one");
    assert_eq!(client.ask(&[illegal]).0, Status4::OperationIllegal as u32);
    let many = vec![to_export()[0].clone(); 40];
    assert_eq!(client.ask(&many).0, Status4::TooManyOperations as u32);
}

/// Returns the record of a call.
fn call(arguments: &[u8]) -> Vec<u8> {
    let credential = Credential {
        machine: "test".to_owned(),
        uid: 0,
        gid: 0,
    };
    let mut message = Message::default();
    message
        .begin(7, NFS4, COMPOUND, Some(&credential))
        .bytes(arguments);
    message.end();
    message.bytes()[4..].to_vec()
}

/// Returns lists of operations in the export, to follow `to_export`.
fn tails() -> [Vec<Vec<u8>>; 5] {
    let read = bytes(|writer| {
        writer.u32(READ).bytes(&[0; 16]).u64(0).u32(u32::MAX);
    });
    [
        vec![open(b"file", b"me", 3, 0), read],
        vec![remove(b"file")],
        vec![open(b"file", b"me", 3, 3), lock(&[0; 16], b"me", (0, 1))],
        vec![bytes(|writer| {
            writer
                .u32(26)
                .u64(0)
                .u64(0)
                .u32(4096)
                .u32(4096)
                .u32(3)
                .u32(u32::MAX)
                .u32(u32::MAX)
                .u32(u32::MAX);
        })],
        vec![bytes(|writer| {
            writer
                .u32(34)
                .bytes(&[0; 16])
                .u32(2)
                .u32(1 << 4)
                .u32(1 << 1)
                .opaque(&[1; 12]);
        })],
    ]
}

#[test]
fn every_compound_is_answered_once_whatever_it_contains() {
    let mut dialogue = Dialogue::alone(&Options::on_loopback(EXPORT)).expect("it starts");
    let mut out = Vec::new();
    dialogue
        .answer(&call(&compound(1, &[exchange_id(b"x")])), &mut out)
        .expect("a call");
    let mut reader = Reader::new(&out[28 + 4 + 4 + 4 + 8..]);
    let client = reader.u64().expect("told");
    out.clear();
    dialogue
        .answer(&call(&compound(1, &[create_session(client, 1)])), &mut out)
        .expect("a call");
    let session: [u8; 16] = out[28 + 20..28 + 36].try_into().expect("a session");
    let tails = tails();
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        (state >> 33) as usize % below
    };
    for number in 1..4_000_u32 {
        let sequence = bytes(|writer| {
            writer
                .u32(SEQUENCE)
                .bytes(&session)
                .u32(number)
                .u32(0)
                .u32(0)
                .u32(1);
        });
        let tail = &tails[random(tails.len())];
        let mut arguments = compound(1, &[&[sequence], &to_export()[..], tail].concat());
        let spoiled_from = 12 + 36;
        for _ in 0..random(3) {
            let at = spoiled_from + random(arguments.len() - spoiled_from);
            arguments[at] = [0, 1, 0xff, 4][random(4)];
        }
        if random(8) == 0 {
            arguments.truncate(spoiled_from + random(arguments.len() - spoiled_from));
        }
        out.clear();
        let after = dialogue.answer(&call(&arguments), &mut out).expect("a call");
        assert_eq!(after, After::GoOn);
        let length = u32::from_be_bytes(out[..4].try_into().expect("a mark")) & 0x7fff_ffff;
        assert_eq!(length as usize, out.len() - 4, "one record");
        assert!(out.len() < 1 << 17);
    }
}
