//! The client's reactions to a server's answers, without a socket: delayed, retransmitted, partly executed
//! and wrongly answered requests.

use dyno_files::{Access, Ask, PageRun};
use dyno_files::{Call, Disposition, Handle, Open, Reply, Stability, Verifier};
use dyno_measure::Fault;
use dyno_nfs::session::{Conversation, Data, Ended, Options, TransferSizes};
use dyno_nfs::wire::{FileHandle, Procedure, Reader, Records, Transport, Writer};
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

/// A client and its messages.
struct Rig {
    conversation: Conversation,
    records: Records,
    now_ns: u64,
}

impl Rig {
    fn new() -> Self {
        Self::over(Transport::Tcp)
    }

    fn over(transport: Transport) -> Self {
        let options = Options {
            transport,
            ..Options::default()
        };
        let mut conversation = Conversation::new(Rc::new(options), 7);
        let agreed = TransferSizes {
            max_read_bytes: 4096,
            max_write_bytes: 4096,
            listing_bytes: 4096,
        };
        conversation.establish(handle(0), agreed);
        Self {
            conversation,
            records: Records::over(transport, MOST_RECORD_BYTES),
            now_ns: 0,
        }
    }

    fn begin(&mut self, call: &Call<'_>) {
        self.conversation.begin(call, self.now_ns).expect("a session");
    }

    /// Returns the only request that is sent now.
    fn sent(&mut self) -> Seen {
        let (message, more) = self.conversation.next_departure(self.now_ns).expect("one is due");
        assert!(!more);
        let bytes = message.pieces().collect::<Vec<_>>().concat();
        assert_eq!(bytes.len(), message.len());
        let mut reader = Reader::new(&bytes[4..]);
        let numbers: Vec<u32> = (0..6).map(|_| reader.u32().expect("a header")).collect();
        assert_eq!(numbers[1..5], [0, 2, 100_003, 3]);
        for _ in 0..2 {
            reader.u32().expect("a flavour");
            reader.opaque(400).expect("a body");
        }
        Seen {
            xid: numbers[0],
            procedure: Procedure::ALL[numbers[5] as usize],
            arguments: bytes[4 + reader.position()..].to_vec(),
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
        if self.records.are_datagrams() {
            self.records.room()[..record.len()].copy_from_slice(&record);
            self.records.filled(record.len());
            return self.receive();
        }
        let mark = (1 << 31) | u32::try_from(record.len()).expect("short");
        self.take(&[&mark.to_be_bytes()[..], &record].concat());
        self.receive()
    }

    /// Opens `file`, which exists.
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
fn a_request_that_the_server_delays_is_sent_again_later_under_another_number_and_counted() {
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
fn a_partial_write_continues_with_the_rest() {
    let data: Vec<u8> = (0..=200).collect();
    for in_pages in [false, true] {
        let mut rig = Rig::new();
        let handle = rig.open();
        let (offset, stability) = (5, Stability::Unstable);
        if in_pages {
            let begun = rig
                .conversation
                .begin_write(handle, offset, &PageRun::of(&data), stability, 0);
            begun.expect("a session");
        } else {
            rig.begin(&Call::Write {
                handle,
                offset,
                data: &data,
                stability,
            });
        }
        goes_on_with_the_rest(&mut rig, &data);
    }
}

fn goes_on_with_the_rest(rig: &mut Rig, data: &[u8]) {
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
    // The server restarted before the second part, so the verifier of the first part applies.
    let stored = ended.piggyback.stored.expect("is told");
    assert_eq!(
        (stored.stability, stored.verifier),
        (Stability::Unstable, Verifier(7))
    );
}

#[test]
fn a_write_larger_than_the_servers_maximum_is_sent_in_parts() {
    let data: Vec<u8> = (0..10_001_u32).map(|number| (number % 251) as u8).collect();
    for in_pages in [false, true] {
        let mut rig = Rig::new();
        let handle = rig.open();
        let stability = Stability::Unstable;
        if in_pages {
            let pages = PageRun::of(&data);
            let begun = rig.conversation.begin_write(handle, 7, &pages, stability, 0);
            begun.expect("a session");
        } else {
            rig.begin(&Call::Write {
                handle,
                offset: 7,
                data: &data,
                stability,
            });
        }
        let mut at = 0;
        // The second write is short.
        for (asked, taken) in [(4096, 4096), (4096, 1001), (3095, 3095), (1809, 1809)] {
            let sent = rig.sent();
            let mut arguments = Reader::new(&sent.arguments);
            arguments.opaque(64).expect("a handle");
            let (offset, bytes) = (7 + at as u64, u32::try_from(asked).expect("few"));
            assert_eq!((arguments.u64(), arguments.u32()), (Ok(offset), Ok(bytes)));
            arguments.u32().expect("a stability");
            assert_eq!(arguments.opaque(asked), Ok(&data[at..at + asked]));
            at += taken;
            let taken = u32::try_from(taken).expect("few");
            let ended = rig
                .answer(sent.xid, OK, &was_written(taken, 0, 7))
                .expect("well formed");
            let done = ended.map(|ended| ended.result);
            let whole = Ok(Reply::Written { bytes: 10_001 });
            assert_eq!(done, (at == data.len()).then_some(whole));
        }
    }
}

#[test]
fn a_partial_read_is_joined() {
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
fn after_a_repeated_request_a_refusal_may_mean_success() {
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

/// Results of a refused removal, without attributes of the directory.
const NOTHING_OF_IT: [u8; 8] = [0; 8];

#[test]
fn over_udp_a_request_without_an_answer_in_time_is_sent_again_with_its_number_and_counted() {
    let mut rig = Rig::over(Transport::Udp);
    rig.begin(&Call::Delete { path: "file" });
    let first = rig.sent();
    let due_ns = rig.conversation.due_ns().expect("it waits for an answer");
    rig.now_ns = due_ns - 1;
    assert!(rig.conversation.next_departure(rig.now_ns).is_none());
    rig.now_ns = due_ns;
    let second = rig.sent();
    assert_eq!((first.xid, first.arguments), (second.xid, second.arguments));
    let pause_ns = rig.conversation.due_ns().expect("it waits still") - due_ns;
    assert_eq!(pause_ns, 2 * due_ns, "the next time-out is twice as long");
    let ended = rig.answer(second.xid, NOENT, &NOTHING_OF_IT);
    let ended = ended.expect("well formed").expect("ended");
    assert_eq!(ended.result, Ok(Reply::Done), "the first has removed it");
    // The answer to the first transmission also arrives, and so do datagrams that are not answers.
    for datagram in [second.xid, 77] {
        assert!(rig
            .answer(datagram, OK, &NOTHING_OF_IT)
            .expect("passed over")
            .is_none());
    }
    rig.records.room()[..3].copy_from_slice(b"abc");
    rig.records.filled(3);
    assert!(rig.receive().expect("passed over").is_none());
    let counts = rig.conversation.counts();
    assert_eq!((counts.retransmitted, counts.resent, counts.strays), (1, 0, 3));
    assert!(rig.conversation.is_quiet());
}

#[test]
fn over_udp_a_late_answer_counts_if_its_request_has_not_been_sent_again() {
    let mut rig = Rig::over(Transport::Udp);
    let removal = Call::Delete { path: "file" };
    let departures = |rig: &mut Rig| {
        let mut xids = Vec::new();
        while let Some((message, _)) = rig.conversation.next_departure(rig.now_ns) {
            xids.push(u32::from_be_bytes(
                message.bytes()[4..8].try_into().expect("a number"),
            ));
        }
        xids
    };
    (0..3).for_each(|_| rig.begin(&removal));
    let alone = departures(&mut rig);
    assert_eq!(alone.len(), 1, "the window begins with one request");
    rig.answer(alone[0], OK, &NOTHING_OF_IT)
        .expect("well formed")
        .expect("ended");
    let both = departures(&mut rig);
    assert_eq!(both.len(), 2, "and grows");
    rig.now_ns = rig.conversation.due_ns().expect("they wait");
    assert_eq!(
        departures(&mut rig),
        both[..1],
        "and is halved: the older is sent again"
    );
    for xid in both {
        let ended = rig
            .answer(xid, OK, &NOTHING_OF_IT)
            .expect("well formed")
            .expect("ended");
        assert_eq!(ended.result, Ok(Reply::Done));
    }
    assert!(rig.conversation.is_quiet());
    assert_eq!(departures(&mut rig), [0; 0]);
    assert_eq!(rig.conversation.counts().retransmitted, 1);
}

#[test]
fn over_udp_outstanding_answers_fit_into_the_socket_buffer() {
    let mut rig = Rig::over(Transport::Udp);
    let handle = rig.open();
    rig.conversation.set_receive_buffer(8 * 4096);
    let read = Call::Read {
        handle,
        offset: 0,
        bytes: 4096,
    };
    (0..2).for_each(|_| rig.begin(&read));
    assert!(rig.conversation.next_departure(0).is_some());
    assert!(
        rig.conversation.next_departure(0).is_none(),
        "a quarter of the buffer holds one"
    );
    rig.conversation.set_receive_buffer(usize::MAX);
    assert!(rig.conversation.next_departure(0).is_some());
}

#[test]
fn a_recreated_directory_on_the_path_is_looked_up_again() {
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
fn a_protocol_violation_ends_the_session() {
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
    fn calls_end_or_fail_whatever_the_server_answers(is_udp in any::<bool>(), answers in prop::collection::vec(
        (any::<bool>(), prop_oneof![Just(0_u32), Just(2), Just(70), Just(10_008), any::<u32>()],
         prop::collection::vec(prop_oneof![3 => Just(0_u8), 2 => Just(1_u8), 1 => any::<u8>()], 0..300)),
        1..30,
    )) {
        let mut rig = Rig::over(if is_udp { Transport::Udp } else { Transport::Tcp });
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
