//! An NFSv4.1 client's reactions to a server's answers, without a socket: slots and their sequence numbers,
//! lost sessions, states of files, and wrong answers.

mod delegations;
mod rig;

use dyno_files::{Call, Disposition, Handle, PageRun, Reply, Stability};
use dyno_measure::Fault;
use dyno_nfs::session::Data;
use dyno_nfs::wire::Reader;
use proptest::prelude::*;
use rig::*;

#[test]
fn each_request_has_its_own_slot_and_each_slot_counts_its_requests() {
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
fn a_write_from_pages_looks_the_same_to_the_server() {
    let data: Vec<u8> = (0..5001).map(|at: u32| (at % 251) as u8).collect();
    let (offset, stability) = (7, Stability::Unstable);
    let mut sent = Vec::new();
    for pages in [None, Some(PageRun::of(&data))] {
        let mut rig = Rig::new(2);
        let handle = rig.open("file");
        match pages {
            Some(pages) => {
                let begun = rig.conversation.begin_write(handle, offset, &pages, stability, 0);
                begun.expect("a session");
            }
            None => rig.begin(&Call::Write {
                handle,
                offset,
                data: &data,
                stability,
            }),
        }
        let (message, _) = rig.conversation.next_departure(0).expect("one is due");
        sent.push(message.pieces().collect::<Vec<_>>().concat());
    }
    assert!(sent[0] == sent[1]);
}

#[test]
fn the_client_uses_no_more_slots_than_the_server_wants() {
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
fn a_request_delayed_before_its_execution_keeps_its_sequence_number_and_otherwise_gets_the_next() {
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
fn after_a_lost_connection_requests_keep_their_slots_and_uncached_replies_are_requested_again() {
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
fn in_another_session_unanswered_requests_are_sent_again() {
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
fn a_file_is_closed_with_its_last_handle_unless_it_was_reopened_meanwhile() {
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

/// Locks two ranges of a file, closes it, and returns the CLOSE that was sent.
fn close_locked(rig: &mut Rig) -> Seen {
    let handle = rig.open("file");
    for offset in [0, 20] {
        let bytes = 10;
        rig.begin(&Call::Lock {
            handle,
            offset,
            bytes,
        });
        assert_eq!(rig.ends().result, Ok(Reply::Done));
    }
    rig.begin(&Call::Close { handle });
    rig.only()
}

#[test]
fn locked_ranges_are_unlocked_in_the_compound_that_closes_the_file() {
    let mut rig = Rig::new(4);
    let close = close_locked(&mut rig);
    assert_eq!(close.operation, LOCKU);
    let mut reader = Reader::new(&close.arguments);
    assert_eq!((reader.u32(), reader.u32()), (Ok(2), Ok(0)));
    assert_eq!(reader.bytes(16), Ok(&[[0; 4].as_slice(), &[9; 12]].concat()[..]));
    assert_eq!(
        (reader.u64(), reader.u64()),
        (Ok(0), Ok(u64::MAX)),
        "the whole file"
    );
    assert_eq!(reader.u32(), Ok(CLOSE));
    let ended = rig.answer(&close, 0, &right(&close)).expect("well formed");
    assert_eq!(ended.expect("it has ended").result, Ok(Reply::Done));
}

#[test]
fn unlocked_ranges_are_not_unlocked_again() {
    let mut rig = Rig::new(4);
    let handle = rig.open("file");
    let (offset, bytes) = (0, 10);
    rig.begin(&Call::Lock {
        handle,
        offset,
        bytes,
    });
    rig.ends();
    rig.begin(&Call::Unlock {
        handle,
        offset,
        bytes,
    });
    rig.ends();
    rig.begin(&Call::Close { handle });
    assert_eq!(rig.only().operation, CLOSE);
}

/// After a restart, the server has lost the locks but not the open: its answer ends before CLOSE.
#[test]
fn a_file_whose_locks_cannot_be_released_is_closed_without_unlocking() {
    for (last, is_done) in [(0, true), (BAD_STATEID, false)] {
        let mut rig = Rig::new(4);
        let both = close_locked(&mut rig);
        assert!(rig
            .answer(&both, BAD_STATEID, &[])
            .expect("well formed")
            .is_none());
        let close = rig.only();
        assert_eq!(close.operation, CLOSE);
        let results = if last == 0 { right(&close) } else { vec![] };
        let ended = rig.answer(&close, last, &results).expect("well formed");
        let result = ended.expect("it has ended").result;
        assert_eq!(result.is_ok(), is_done, "{result:?}");
    }
}

/// The answer was lost with the session: whether the server executed the request or forgot the client, the
/// file is closed.
#[test]
fn a_close_with_locks_that_is_sent_again_in_another_session_has_closed_the_file() {
    for status in [0, BAD_STATEID] {
        let mut rig = Rig::new(4);
        let close = close_locked(&mut rig);
        rig.take(&refused(&close, BAD_SESSION));
        assert!(rig.receive().expect("well formed").is_none());
        rig.conversation.go_on_in(state(ANOTHER, 4));
        let again = rig.only();
        assert_eq!(again.arguments, close.arguments);
        let results = if status == 0 { right(&again) } else { vec![] };
        let ended = rig.answer(&again, status, &results).expect("well formed");
        assert_eq!(ended.expect("it has ended").result, Ok(Reply::Done));
    }
}

#[test]
fn a_lock_of_another_client_is_a_conflict_and_a_missing_name_is_an_answer() {
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

/// A lock that was outstanding when the session was lost contains the file's old lock state ID.
#[test]
fn a_lock_request_with_a_lock_state_of_a_lost_session_is_rewritten_once() {
    for (answers, is_done) in [
        (&[BAD_STATEID, 0][..], true),
        (&[BAD_STATEID, BAD_STATEID], false),
    ] {
        let mut rig = Rig::new(4);
        let handle = rig.open("file");
        rig.begin(&Call::Lock {
            handle,
            offset: 0,
            bytes: 10,
        });
        let lock = rig.only();
        rig.take(&refused(&lock, BAD_SESSION));
        assert!(rig.receive().expect("well formed").is_none());
        rig.conversation.go_on_in(state(ANOTHER, 4));
        let mut ended = None;
        for &status in answers {
            assert!(ended.is_none(), "it goes on");
            let lock = rig.only();
            assert_eq!(lock.operation, LOCK);
            let results = if status == 0 { right(&lock) } else { vec![] };
            ended = rig.answer(&lock, status, &results).expect("well formed");
        }
        let result = ended.expect("it has ended").result;
        assert_eq!(result.is_ok(), is_done, "{result:?}");
    }
}

#[test]
fn an_open_that_must_create_the_file_reports_the_creation() {
    let mut rig = Rig::new(4);
    rig.begin(&open("file", Disposition::Create));
    let ended = rig.ends();
    assert!(
        matches!(ended.result, Ok(Reply::Opened { created: true, .. })),
        "{ended:?}"
    );
}

#[test]
fn a_protocol_violation_ends_the_session() {
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

/// Returns several calls of each kind, with those that use `handle`.
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
    /// Correct answers in which some bytes are changed, removed or repeated.
    #[test]
    fn calls_end_or_fail_whatever_happens_to_an_answer(changes in prop::collection::vec(
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
