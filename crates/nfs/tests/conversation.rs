//! What a client makes of a server's answers, without a socket: requests that are put off, sent twice, carried out in part,
//! or answered wrong.

use dyno_files::{Access, Ask};
use dyno_files::{Call, Disposition, Handle, Open, Reply, Stability, Verifier};
use dyno_measure::Fault;
use dyno_nfs::session::{Conversation, Data, Ended, Options, TransferSizes};
use dyno_nfs::wire::{FileHandle, Procedure, Reader, Records, Writer};
use proptest::prelude::*;
use std::rc::Rc;

const OK: u32 = 0;
const NOENT: u32 = 2;
const EXIST: u32 = 17;
const STALE: u32 = 70;
const JUKEBOX: u32 = 10_008;
const MOST_RECORD_BYTES: usize = 1 << 16;

/// A request as the server sees it.
struct Seen {
    xid: u32,
    procedure: Procedure,
    arguments: Vec<u8>,
}

/// A client and what goes to and fro.
struct Rig {
    conversation: Conversation,
    records: Records,
    now_ns: u64,
}

impl Rig {
    fn new() -> Self {
        let mut conversation = Conversation::new(Rc::new(Options::default()), 7);
        let agreed = TransferSizes {
            max_read_bytes: 4096,
            max_write_bytes: 4096,
            listing_bytes: 4096,
        };
        conversation.establish(handle(0), agreed);
        Self {
            conversation,
            records: Records::new(MOST_RECORD_BYTES),
            now_ns: 0,
        }
    }

    fn begin(&mut self, call: &Call<'_>) {
        self.conversation.begin(call, self.now_ns).expect("a session");
    }

    /// The only request that is sent now.
    fn sent(&mut self) -> Seen {
        let (message, more) = self.conversation.next_departure(self.now_ns).expect("one is due");
        assert!(!more);
        let mut reader = Reader::new(&message.bytes()[4..]);
        let numbers: Vec<u32> = (0..6).map(|_| reader.u32().expect("a header")).collect();
        assert_eq!(numbers[1..5], [0, 2, 100_003, 3]);
        for _ in 0..2 {
            reader.u32().expect("a flavour");
            reader.opaque(400).expect("a body");
        }
        Seen {
            xid: numbers[0],
            procedure: Procedure::ALL[numbers[5] as usize],
            arguments: message.bytes()[4 + reader.position()..].to_vec(),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
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

    fn answer(&mut self, xid: u32, status: u32, results: &[u8]) -> Result<Option<Ended>, Fault> {
        let mut record = Vec::new();
        let mut writer = Writer(&mut record);
        writer.u32(xid).u32(1).u32(0).u32(0).u32(0).u32(0).u32(status);
        record.extend_from_slice(results);
        let mark = (1 << 31) | u32::try_from(record.len()).expect("short");
        self.take(&[&mark.to_be_bytes()[..], &record].concat());
        self.receive()
    }

    /// Opens `file`, which is there.
    fn open(&mut self) -> Handle {
        self.begin(&open("file", Disposition::Open));
        let look = self.sent();
        assert_eq!(look.procedure, Procedure::Lookup);
        let ended = self.answer(look.xid, OK, &found(1)).expect("well formed");
        match ended.expect("it has come to its end").result {
            Ok(Reply::Opened { handle, .. }) => handle,
            other => panic!("{other:?}"),
        }
    }
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

fn results(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer(&mut bytes));
    bytes
}

fn attributes(writer: &mut Writer<'_>, kind: u32) {
    writer
        .u32(kind)
        .u32(0o644)
        .u32(1)
        .u32(0)
        .u32(0)
        .u64(10_000)
        .u64(12_288);
    writer.u64(0).u64(1).u64(99);
    for _ in 0..3 {
        writer.u32(1).u32(2);
    }
}

fn found(number: u8) -> Vec<u8> {
    results(|writer| {
        writer.opaque(handle(number).as_bytes()).u32(1);
        attributes(writer, 1);
        writer.u32(0);
    })
}

fn was_read(data: &[u8], is_end: bool) -> Vec<u8> {
    results(|writer| {
        let count = u32::try_from(data.len()).expect("short");
        writer.u32(0).u32(count).u32(u32::from(is_end)).opaque(data);
    })
}

fn was_written(bytes: u32, stability: u32, verifier: u64) -> Vec<u8> {
    results(|writer| {
        writer.u32(0).u32(0).u32(bytes).u32(stability).u64(verifier);
    })
}

#[test]
fn what_the_server_puts_off_is_asked_again_later_under_another_number_and_counted() {
    let mut rig = Rig::new();
    let handle = rig.open();
    rig.begin(&Call::Flush { handle });
    let first = rig.sent();
    assert!(rig
        .answer(first.xid, JUKEBOX, &[])
        .expect("well formed")
        .is_none());
    assert!(rig.conversation.next_departure(rig.now_ns).is_none());
    let due_ns = rig.conversation.due_ns().expect("it is put off");
    rig.now_ns = due_ns;
    let second = rig.sent();
    assert_ne!(first.xid, second.xid);
    assert_eq!(first.arguments, second.arguments);
    rig.answer(second.xid, JUKEBOX, &[]).expect("well formed");
    assert_eq!(
        rig.conversation.due_ns(),
        Some(due_ns + 2 * due_ns),
        "each pause is twice as long"
    );
    assert_eq!(
        (
            rig.conversation.counts().jukeboxes,
            rig.conversation.counts().resent
        ),
        (2, 0)
    );
}

#[test]
fn a_write_that_was_taken_in_part_goes_on_with_the_rest() {
    let mut rig = Rig::new();
    let handle = rig.open();
    let data: Vec<u8> = (0..=200).collect();
    rig.begin(&Call::Write {
        handle,
        offset: 5,
        data: &data,
        stability: Stability::Unstable,
    });
    let first = rig.sent();
    assert!(rig
        .answer(first.xid, OK, &was_written(150, 0, 7))
        .expect("well formed")
        .is_none());
    let rest = rig.sent();
    let mut arguments = Reader::new(&rest.arguments);
    arguments.opaque(64).expect("a handle");
    assert_eq!((arguments.u64(), arguments.u32()), (Ok(155), Ok(51)));
    arguments.u32().expect("a stability");
    assert_eq!(arguments.opaque(51), Ok(&data[150..]));
    let ended = rig
        .answer(rest.xid, OK, &was_written(51, 2, 8))
        .expect("well formed")
        .expect("all is taken");
    assert_eq!(ended.result, Ok(Reply::Written { bytes: 201 }));
    // Another run of the server has the second part: what the first promised is what counts.
    let stored = ended.piggyback.stored.expect("is told");
    assert_eq!(
        (stored.stability, stored.verifier),
        (Stability::Unstable, Verifier(7))
    );
}

#[test]
fn a_read_that_came_in_part_is_joined() {
    let mut rig = Rig::new();
    let handle = rig.open();
    rig.begin(&Call::Read {
        handle,
        offset: 0,
        bytes: 10,
    });
    let first = rig.sent();
    assert!(rig
        .answer(first.xid, OK, &was_read(b"abc", false))
        .expect("well formed")
        .is_none());
    let rest = rig.sent();
    let ended = rig
        .answer(rest.xid, OK, &was_read(b"de", true))
        .expect("well formed")
        .expect("the file ends");
    assert_eq!(ended.result, Ok(Reply::Read { bytes: 5 }));
    assert_eq!(ended.data, Data::Joined(b"abcde".to_vec()));
}

#[test]
fn of_what_was_sent_twice_a_refusal_may_mean_that_it_was_done() {
    for (call, status) in [
        (Call::Delete { path: "file" }, NOENT),
        (Call::RemoveDirectory { path: "file" }, NOENT),
        (Call::MakeDirectory { path: "file" }, EXIST),
    ] {
        let mut rig = Rig::new();
        rig.begin(&call);
        let once = rig.sent();
        let ended = rig.answer(
            once.xid,
            status,
            &results(|w| {
                w.u32(0).u32(0);
            }),
        );
        assert!(
            ended.expect("well formed").expect("ended").result.is_err(),
            "{call:?}"
        );
        rig.begin(&call);
        let first = rig.sent();
        rig.conversation.reconnected();
        let second = rig.sent();
        assert_eq!(first.xid, second.xid, "the server may know the number");
        let ended = rig.answer(
            second.xid,
            status,
            &results(|w| {
                w.u32(0).u32(0);
            }),
        );
        assert_eq!(
            ended.expect("well formed").expect("ended").result,
            Ok(Reply::Done),
            "{call:?}"
        );
        assert_eq!(rig.conversation.counts().resent, 1);
    }
}

#[test]
fn a_directory_on_the_way_that_was_made_anew_is_looked_up_again() {
    let mut rig = Rig::new();
    for expected in [Procedure::Lookup, Procedure::Lookup] {
        if expected == Procedure::Lookup && rig.conversation.is_quiet() {
            rig.begin(&Call::QueryPath { path: "a/b" });
        }
        let asked = rig.sent();
        assert_eq!(asked.procedure, expected);
        let is_directory = Reader::new(&asked.arguments).opaque(64) == Ok(handle(0).as_bytes());
        let answered = rig.answer(asked.xid, OK, &found(if is_directory { 1 } else { 2 }));
        assert_eq!(answered.expect("well formed").is_some(), !is_directory);
    }
    rig.begin(&Call::QueryPath { path: "a/c" });
    let asked = rig.sent();
    assert!(rig.answer(asked.xid, STALE, &[]).expect("well formed").is_none());
    let again = rig.sent();
    assert_eq!(
        Reader::new(&again.arguments).opaque(64),
        Ok(handle(0).as_bytes()),
        "from the root on"
    );
}

#[test]
fn what_breaks_the_protocol_ends_the_session() {
    let read = |results: Vec<u8>| {
        let mut rig = Rig::new();
        let handle = rig.open();
        rig.begin(&Call::Read {
            handle,
            offset: 0,
            bytes: 4,
        });
        let asked = rig.sent();
        rig.answer(asked.xid, OK, &results).map(|_| ())
    };
    assert_eq!(
        read(was_read(b"abcde", true)),
        Err(Fault::MalformedMessage),
        "more than was asked for"
    );
    assert_eq!(
        read(was_read(b"abcd", true)[..8].to_vec()),
        Err(Fault::MalformedMessage)
    );
    assert_eq!(read(was_read(b"abcd", true)), Ok(()));

    let mut rig = Rig::new();
    assert_eq!(
        rig.answer(1, OK, &[]).map(|_| ()),
        Err(Fault::MalformedMessage),
        "nobody asked"
    );

    let mut rig = Rig::new();
    let handle = rig.open();
    rig.begin(&Call::Write {
        handle,
        offset: 0,
        data: b"abcd",
        stability: Stability::File,
    });
    let asked = rig.sent();
    let less = rig.answer(asked.xid, OK, &was_written(4, 0, 7)).map(|_| ());
    assert_eq!(
        less,
        Err(Fault::MalformedMessage),
        "FILE_SYNC was asked for, and UNSTABLE given"
    );

    let mut rig = Rig::new();
    rig.begin(&Call::Find {
        directory: "",
        pattern: "*",
    });
    let asked = rig.sent();
    let nothing = results(|writer| {
        writer.u32(0).u64(1).u32(0).u32(0);
    });
    let endless = rig.answer(asked.xid, OK, &nothing).map(|_| ());
    assert_eq!(endless, Err(Fault::MalformedMessage), "it would go on for ever");
}

proptest! {
    #[test]
    fn whatever_a_server_answers_calls_end_or_fail(answers in prop::collection::vec(
        (any::<bool>(), prop_oneof![Just(0_u32), Just(2), Just(70), Just(10_008), any::<u32>()],
         prop::collection::vec(prop_oneof![3 => Just(0_u8), 2 => Just(1_u8), 1 => any::<u8>()], 0..300)),
        1..30,
    )) {
        let mut rig = Rig::new();
        let calls = [
            open("d/file", Disposition::Create),
            open("file", Disposition::OverwriteIf),
            Call::Find { directory: "d", pattern: "*" },
            Call::Rename { from: "a", to: "d/b" },
            Call::QuerySpace { directory: "" },
            Call::QueryPath { path: "d/e/f" },
        ];
        let mut next = calls.iter().cycle();
        for (known, status, results) in answers {
            rig.begin(next.next().expect("without end"));
            rig.now_ns += 10_000_000_000;
            let mut xid = 0;
            while let Some((message, _)) = rig.conversation.next_departure(rig.now_ns) {
                xid = u32::from_be_bytes(message.bytes()[4..8].try_into().expect("a number"));
            }
            if rig.answer(if known { xid } else { status }, status, &results).is_err() {
                return Ok(());
            }
            while let Ok(Some(_)) = rig.receive() {}
            prop_assert!(rig.records.held_bytes() <= 4 * MOST_RECORD_BYTES);
        }
    }
}
