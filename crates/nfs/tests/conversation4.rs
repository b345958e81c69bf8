//! What a client makes of the answers of a server of NFSv4.1, without a socket: slots and their numbers, sessions that are
//! lost, states of files, and answers that are wrong.

use dyno_files::{Access, Ask, Call, Disposition, Handle, Open, Reply, Stability};
use dyno_measure::Fault;
use dyno_nfs::session::{Conversation, Data, Ended, Options, TransferSizes, Version};
use dyno_nfs::v4::{Agreed4, State};
use dyno_nfs::wire::{FileHandle, Reader, Records, Writer};
use proptest::prelude::*;
use std::rc::Rc;

const MOST_RECORD_BYTES: usize = 1 << 16;
const SESSION: [u8; 16] = [7; 16];
const ANOTHER: [u8; 16] = [8; 16];
const NO_TARGET: u32 = u32::MAX;

const NOENT: u32 = 2;
const DELAY: u32 = 10_008;
const DENIED: u32 = 10_010;
const OLD_STATEID: u32 = 10_024;
const BAD_SESSION: u32 = 10_052;
const RETRY_UNCACHED: u32 = 10_068;

const CLOSE: u32 = 4;
const COMMIT: u32 = 5;
const CREATE: u32 = 6;
const GETATTR: u32 = 9;
const GETFH: u32 = 10;
const LOCK: u32 = 12;
const LOCKU: u32 = 14;
const LOOKUP: u32 = 15;
const OPEN: u32 = 18;
const PUTFH: u32 = 22;
const READ: u32 = 25;
const READDIR: u32 = 26;
const REMOVE: u32 = 28;
const SAVEFH: u32 = 32;
const SETATTR: u32 = 34;
const WRITE: u32 = 38;
const SEQUENCE: u32 = 53;

/// A request as the server sees it.
#[derive(Debug, Clone)]
struct Seen {
    xid: u32,
    session: [u8; 16],
    number: u32,
    slot: u32,
    highest: u32,
    /// What is asked for; of a compound of SEQUENCE alone nothing.
    operation: u32,
    /// Its arguments and what follows.
    arguments: Vec<u8>,
}

struct Rig {
    conversation: Conversation,
    records: Records,
    now_ns: u64,
    target: u32,
}

fn state(session: [u8; 16], slots: u32) -> State {
    State::new(Agreed4 {
        client_id: 1,
        session,
        slots,
        kept_reply_bytes: 4096,
        lease_s: 60,
    })
}

impl Rig {
    fn new(slots: u32) -> Self {
        let options = Options {
            version: Version::V4_1,
            ..Options::default()
        };
        let mut conversation = Conversation::new(Rc::new(options), 7);
        let agreed = TransferSizes {
            max_read_bytes: 4096,
            max_write_bytes: 4096,
            listing_bytes: 4096,
        };
        conversation.establish4(handle(0), agreed, state(SESSION, slots));
        Self {
            conversation,
            records: Records::new(MOST_RECORD_BYTES),
            now_ns: 0,
            target: NO_TARGET - 1,
        }
    }

    fn begin(&mut self, call: &Call<'_>) {
        self.conversation.begin(call, self.now_ns).expect("a session");
    }

    /// The requests that are sent now.
    fn sent(&mut self) -> Vec<Seen> {
        let mut sent = Vec::new();
        while let Some((message, _)) = self.conversation.next_departure(self.now_ns) {
            sent.push(seen(&message.bytes()[4..]).expect("a compound"));
        }
        sent
    }

    /// The only request that is sent now.
    fn only(&mut self) -> Seen {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    fn take(&mut self, record: &[u8]) {
        let mark = (1 << 31) | u32::try_from(record.len()).expect("short");
        let bytes = [&mark.to_be_bytes()[..], record].concat();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let room = self.records.room();
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            self.records.filled(count);
            rest = &rest[count..];
        }
    }

    fn receive(&mut self) -> Result<Option<Ended>, Fault> {
        self.conversation
            .receive(&mut self.records, self.now_ns)
            .map_err(|failure| failure.fault)
    }

    fn answer(&mut self, asked: &Seen, status: u32, results: &[u8]) -> Result<Option<Ended>, Fault> {
        self.take(&reply(asked, status, self.target, results));
        self.receive()
    }

    /// The end of the only call under way, whose requests succeed.
    fn ends(&mut self) -> Ended {
        loop {
            let asked = self.only();
            let results = right(&asked);
            if let Some(ended) = self.answer(&asked, 0, &results).expect("well formed") {
                return ended;
            }
        }
    }

    fn open(&mut self, path: &str) -> Handle {
        self.begin(&open(path, Disposition::Open));
        match self.ends().result {
            Ok(Reply::Opened { handle, .. }) => handle,
            other => panic!("{other:?}"),
        }
    }
}

fn seen(record: &[u8]) -> Option<Seen> {
    let mut reader = Reader::new(record);
    let numbers: Vec<u32> = (0..6).map(|_| reader.u32()).collect::<Result<_, _>>().ok()?;
    assert_eq!(numbers[1..6], [0, 2, 100_003, 4, 1]);
    for _ in 0..2 {
        reader.u32().ok()?;
        reader.opaque(400).ok()?;
    }
    assert_eq!(reader.opaque(0), Ok(&b""[..]));
    assert_eq!(reader.u32(), Ok(1), "the minor version");
    let operations = reader.u32().ok()?;
    assert_eq!(reader.u32(), Ok(SEQUENCE));
    let session = reader.bytes(16).ok()?.try_into().ok()?;
    let (number, slot, highest) = (reader.u32().ok()?, reader.u32().ok()?, reader.u32().ok()?);
    reader.bool().ok()?;
    let mut operation = 0;
    if operations > 1 {
        assert_eq!(reader.u32(), Ok(PUTFH));
        reader.opaque(128).ok()?;
        operation = reader.u32().ok()?;
    }
    Some(Seen {
        xid: numbers[0],
        session,
        number,
        slot,
        highest,
        operation,
        arguments: record[reader.position()..].to_vec(),
    })
}

fn reply(asked: &Seen, status: u32, target: u32, results: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    let mut writer = Writer(&mut record);
    writer.u32(asked.xid).u32(1).u32(0).u32(0).u32(0).u32(0);
    writer.u32(status).opaque(b"").u32(5);
    writer.u32(SEQUENCE).u32(0).bytes(&asked.session);
    writer.u32(asked.number).u32(asked.slot).u32(asked.highest);
    writer.u32(target).u32(0);
    record.extend_from_slice(results);
    record
}

/// A reply whose SEQUENCE is refused.
fn refused(asked: &Seen, status: u32) -> Vec<u8> {
    let mut record = Vec::new();
    let mut writer = Writer(&mut record);
    writer.u32(asked.xid).u32(1).u32(0).u32(0).u32(0).u32(0);
    writer.u32(status).opaque(b"").u32(1);
    writer.u32(SEQUENCE).u32(status);
    record
}

fn handle(number: u8) -> FileHandle {
    FileHandle::of(&[number; 8]).expect("short")
}

fn open(path: &str, disposition: Disposition) -> Call<'_> {
    Call::Open(Open {
        path,
        access: Access::ReadWrite,
        disposition,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    })
}

/// GETATTR of type, change, size, number, permissions and room.
fn attributes(writer: &mut Writer<'_>, kind: u32) {
    let mut values = Vec::new();
    let mut of_values = Writer(&mut values);
    of_values.u32(kind).u64(77).u64(10_000).u64(99);
    of_values.u32(0o644).u64(12_288);
    writer.u32(GETATTR).u32(0).u32(2);
    writer.u32(1 << 1 | 1 << 3 | 1 << 4 | 1 << 20);
    writer.u32(1 << 1 | 1 << 13).opaque(&values);
}

fn stateid(writer: &mut Writer<'_>) {
    writer.u32(1).bytes(&[9; 12]);
}

/// Results of an open, with the delegation that is given.
fn opened(delegation: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer(&mut bytes);
    writer.u32(PUTFH).u32(0).u32(OPEN).u32(0);
    stateid(&mut writer);
    writer.u32(1).u64(1).u64(2).u32(0); // the directory changed
    writer.u32(2).u32(0).u32(1 << 1); // permissions were set
    writer.u32(delegation);
    if delegation == 3 {
        writer.u32(0);
    }
    writer.u32(GETFH).u32(0).opaque(handle(1).as_bytes());
    attributes(&mut writer, 1);
    bytes
}

/// Results of a request that has succeeded.
fn right(asked: &Seen) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer(&mut bytes);
    writer.u32(PUTFH).u32(0).u32(asked.operation).u32(0);
    match asked.operation {
        OPEN => return opened(3),
        LOOKUP => {
            writer.u32(GETFH).u32(0).opaque(handle(2).as_bytes());
            attributes(&mut writer, 2);
        }
        CREATE => {
            writer.u32(1).u64(1).u64(2).u32(0);
            writer.u32(GETFH).u32(0).opaque(handle(3).as_bytes());
            attributes(&mut writer, 2);
        }
        CLOSE | LOCK | LOCKU => stateid(&mut writer),
        READ => {
            writer.u32(1).opaque(b"abcd");
        }
        WRITE => {
            writer.u32(4).u32(2).u64(5);
            attributes(&mut writer, 1);
        }
        COMMIT => {
            writer.u64(5);
        }
        SETATTR => {
            writer.u32(0);
            attributes(&mut writer, 1);
        }
        READDIR => {
            writer.u64(1).u32(1).u64(3).opaque(b"abc").u32(0).opaque(b"");
            writer.u32(0).u32(1);
        }
        REMOVE | SAVEFH => {
            writer.u32(1).u64(1).u64(2);
        }
        GETATTR => {
            bytes.truncate(8);
            attributes(&mut Writer(&mut bytes), 1);
        }
        _ => {}
    }
    bytes
}

#[test]
fn each_request_has_a_slot_of_its_own_and_each_slot_counts_its_requests() {
    let mut rig = Rig::new(2);
    let handle = rig.open("file");
    for _ in 0..3 {
        rig.begin(&Call::QueryHandle { handle });
    }
    let sent = rig.sent();
    let slots: Vec<_> = sent
        .iter()
        .map(|seen| (seen.slot, seen.number, seen.highest))
        .collect();
    assert_eq!(slots, [(0, 2, 0), (1, 1, 1)], "the third waits");
    let ended = rig.answer(&sent[1], 0, &right(&sent[1])).expect("well formed");
    assert!(ended.is_some());
    let third = rig.only();
    assert_eq!((third.slot, third.number), (1, 2));
}

#[test]
fn a_server_that_wants_fewer_slots_used_gets_what_it_wants() {
    let mut rig = Rig::new(8);
    rig.target = 0;
    let handle = rig.open("file");
    for _ in 0..3 {
        rig.begin(&Call::QueryHandle { handle });
    }
    for _ in 0..3 {
        let asked = rig.only();
        assert_eq!(asked.slot, 0);
        assert!(rig
            .answer(&asked, 0, &right(&asked))
            .expect("well formed")
            .is_some());
    }
}

#[test]
fn what_the_server_puts_off_before_it_began_keeps_its_number_and_else_gets_the_next() {
    let mut rig = Rig::new(4);
    let handle = rig.open("file");
    rig.begin(&Call::QueryHandle { handle });
    let first = rig.only();
    rig.take(&refused(&first, DELAY));
    assert!(rig.receive().expect("well formed").is_none());
    rig.now_ns = rig.conversation.due_ns().expect("it is put off");
    let second = rig.only();
    assert_eq!((second.slot, second.number), (first.slot, first.number));
    assert_ne!(second.xid, first.xid);
    assert!(rig.answer(&second, DELAY, &[]).expect("well formed").is_none());
    rig.now_ns = rig.conversation.due_ns().expect("it is put off");
    let third = rig.only();
    assert_eq!((third.slot, third.number), (second.slot, second.number + 1));
    assert_eq!(rig.conversation.counts().jukeboxes, 2);
}

#[test]
fn after_a_lost_connection_the_same_bytes_go_in_the_same_slot_and_an_answer_that_was_not_kept_is_asked_for_anew(
) {
    let mut rig = Rig::new(4);
    let handle = rig.open("file");
    rig.begin(&Call::QueryHandle { handle });
    let first = rig.only();
    rig.conversation.reconnected();
    let second = rig.only();
    assert_eq!(
        (first.xid, first.slot, first.number, &first.arguments),
        (second.xid, second.slot, second.number, &second.arguments)
    );
    rig.take(&refused(&second, RETRY_UNCACHED));
    assert!(rig.receive().expect("well formed").is_none());
    let third = rig.only();
    assert_eq!((third.slot, third.number), (second.slot, second.number + 1));
    assert!(rig
        .answer(&third, 0, &right(&third))
        .expect("well formed")
        .is_some());
}

#[test]
fn in_another_session_what_was_not_answered_is_sent_again() {
    let mut rig = Rig::new(4);
    let handle = rig.open("file");
    rig.begin(&Call::QueryHandle { handle });
    rig.begin(&Call::Flush { handle });
    let sent = rig.sent();
    rig.take(&refused(&sent[0], BAD_SESSION));
    assert!(rig.receive().expect("well formed").is_none());
    assert!(rig.conversation.needs_session());
    assert!(rig.sent().is_empty(), "nothing goes out without a session");
    rig.conversation.go_on_in(state(ANOTHER, 4));
    let again = rig.sent();
    assert_eq!(again.len(), 2);
    for asked in &again {
        assert_eq!((asked.session, asked.number), (ANOTHER, 1));
        assert!(rig
            .answer(asked, 0, &right(asked))
            .expect("well formed")
            .is_some());
    }
    assert!(rig.conversation.is_quiet());
}

#[test]
fn a_file_is_closed_with_the_last_of_its_handles_and_one_that_was_opened_meanwhile_stays_open() {
    let mut rig = Rig::new(4);
    let (one, other) = (rig.open("file"), rig.open("file"));
    rig.begin(&Call::Close { handle: one });
    assert!(rig.sent().is_empty());
    assert!(matches!(
        rig.receive().expect("well formed").expect("it has ended").result,
        Ok(Reply::Done)
    ));
    rig.begin(&Call::Close { handle: other });
    let close = rig.only();
    assert_eq!(close.operation, CLOSE);
    let ended = rig.answer(&close, OLD_STATEID, &[]).expect("well formed");
    assert_eq!(ended.expect("it has ended").result, Ok(Reply::Done));
}

#[test]
fn a_lock_that_another_has_is_a_conflict_and_a_name_that_is_not_there_is_an_answer() {
    let mut rig = Rig::new(4);
    let handle = rig.open("file");
    rig.begin(&Call::Lock {
        handle,
        offset: 0,
        bytes: 10,
    });
    let lock = rig.only();
    assert_eq!(lock.operation, LOCK);
    let ended = rig
        .answer(&lock, DENIED, &[])
        .expect("well formed")
        .expect("it has ended");
    assert_eq!(
        ended.result.map_err(|failure| failure.fault),
        Err(Fault::LockConflict)
    );
    rig.begin(&open("nothing", Disposition::Open));
    let asked = rig.only();
    let ended = rig
        .answer(&asked, NOENT, &[])
        .expect("well formed")
        .expect("it has ended");
    assert_eq!(ended.result, Ok(Reply::NotThere));
}

#[test]
fn an_open_that_must_make_the_file_says_that_it_did() {
    let mut rig = Rig::new(4);
    rig.begin(&open("file", Disposition::Create));
    let ended = rig.ends();
    assert!(
        matches!(ended.result, Ok(Reply::Opened { created: true, .. })),
        "{ended:?}"
    );
}

#[test]
fn what_breaks_the_protocol_ends_the_session() {
    let answered = |change: &dyn Fn(&mut Seen, &mut Vec<u8>)| {
        let mut rig = Rig::new(4);
        let handle = rig.open("file");
        rig.begin(&Call::Read {
            handle,
            offset: 0,
            bytes: 4,
        });
        let mut asked = rig.only();
        let mut results = right(&asked);
        change(&mut asked, &mut results);
        rig.answer(&asked, 0, &results).map(|ended| ended.is_some())
    };
    let wrong = Err(Fault::MalformedMessage);
    assert_eq!(answered(&|_, _| ()), Ok(true));
    assert_eq!(answered(&|asked, _| asked.slot += 1), wrong, "another slot");
    assert_eq!(answered(&|asked, _| asked.number += 1), wrong, "another number");
    assert_eq!(
        answered(&|asked, _| asked.session = ANOTHER),
        wrong,
        "another session"
    );
    assert_eq!(answered(&|asked, _| asked.xid += 1), wrong, "nobody asked");
    assert_eq!(
        answered(&|_, results| results[11] += 1),
        wrong,
        "another operation"
    );
    assert_eq!(answered(&|_, results| results.truncate(20)), wrong, "too short");
    assert_eq!(
        answered(&|_, results| results[23] += 1),
        wrong,
        "more than was asked for"
    );

    for (delegation, is_right) in [(0, true), (1, false), (2, false), (3, true), (4, false)] {
        let mut rig = Rig::new(4);
        rig.begin(&open("file", Disposition::Open));
        let asked = rig.only();
        let told = rig
            .answer(&asked, 0, &opened(delegation))
            .map(|ended| ended.is_some());
        assert_eq!(
            told,
            if is_right { Ok(true) } else { wrong },
            "delegation {delegation}"
        );
    }
}

/// Some of each kind of call, with what a handle allows.
fn calls(handle: Option<Handle>) -> Vec<Call<'static>> {
    let mut calls = vec![
        open("d/file", Disposition::Create),
        open("file", Disposition::OverwriteIf),
        open("file", Disposition::Overwrite),
        Call::Find {
            directory: "d",
            pattern: "*",
        },
        Call::Rename { from: "a", to: "d/b" },
        Call::QuerySpace { directory: "" },
        Call::QueryPath { path: "d/e/f" },
        Call::MakeDirectory { path: "e" },
        Call::Delete { path: "f" },
    ];
    if let Some(handle) = handle {
        calls.extend([
            Call::Read {
                handle,
                offset: 0,
                bytes: 4,
            },
            Call::Write {
                handle,
                offset: 0,
                data: b"abcd",
                stability: Stability::Unstable,
            },
            Call::Lock {
                handle,
                offset: 0,
                bytes: 4,
            },
            Call::Unlock {
                handle,
                offset: 0,
                bytes: 4,
            },
            Call::SetEnd { handle, bytes: 3 },
            Call::Flush { handle },
            Call::QueryHandle { handle },
            Call::Close { handle },
        ]);
    }
    calls
}

proptest! {
    /// Right answers of which some bytes are changed, cut or sent twice.
    #[test]
    fn whatever_becomes_of_an_answer_calls_end_or_fail(changes in prop::collection::vec(
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0..6_u8), 1..60,
    )) {
        let mut rig = Rig::new(3);
        let mut known = None;
        let mut ended_calls = std::collections::HashSet::new();
        for (which, place, byte, change) in changes {
            let calls = calls(known);
            if rig.conversation.begin(which.get(&calls), rig.now_ns).is_err() {
                return Ok(());
            }
            rig.now_ns += 10_000_000_000;
            for asked in rig.sent() {
                let mut record = reply(&asked, 0, rig.target, &right(&asked));
                match change {
                    0 => {
                        let at = place.index(record.len());
                        record[at] = byte;
                    }
                    1 => record.truncate(place.index(record.len()).max(1)),
                    2 => record = refused(&asked, [DELAY, BAD_SESSION, RETRY_UNCACHED, 10_065][usize::from(byte % 4)]),
                    3 => record = reply(&asked, u32::from(byte), u32::from(byte), &[]),
                    _ => {}
                }
                rig.take(&record);
                loop {
                    match rig.receive() {
                        Ok(Some(ended)) => {
                            prop_assert!(ended_calls.insert(ended.id), "a call ends once");
                            if let Data::Received(range) = &ended.data {
                                prop_assert!(range.end <= rig.records.bytes().len());
                            }
                            match ended.result {
                                Ok(Reply::Opened { handle, .. }) => known = Some(handle),
                                Err(failure) if failure.fault == Fault::SessionLost => known = None,
                                _ => {}
                            }
                        }
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                if rig.conversation.needs_session() {
                    rig.conversation.go_on_in(state(SESSION, 3));
                    break;
                }
            }
            prop_assert!(rig.records.held_bytes() <= 4 * MOST_RECORD_BYTES);
        }
    }
}
