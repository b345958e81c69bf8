//! A server that violates the protocol causes a failure of the right kind, but no panic, hang or memory growth.

use crate::client::{create, existing, run, Client};
use crate::scripted::{
    asynchronous, at, break_notice, failed, frame, pending, Answer, Request, Scripted, CLOSE, CREATE,
    FILE_ID, FLUSH, NEGOTIATE, QUERY_DIRECTORY, READ, SESSION_SETUP, TREE_CONNECT, WRITE,
};
use dyno_files::{Access, Ask, Caching, Call, Event, FileClient, Open, Reply, Stability};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_smb::{Dialect, Encryption, Options, Signing};
use std::cell::Cell;
use std::rc::Rc;

/// Enough for calls that don't wait.
const PATIENCE_NS: u64 = 400_000_000;

/// How far a client got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Got {
    /// Every call succeeded.
    Through,
    /// A call failed, and the session continues.
    Call(Fault),
    /// The session ended.
    Lost(Fault),
}

fn asked() -> Options {
    Options {
        guest: true,
        max_dialect: Dialect::Smb210,
        ..Options::default()
    }
}

/// How far a client got, and the failure.
type Broken = (Got, Failure);

fn lost(failure: Failure) -> Broken {
    (Got::Lost(failure.fault), failure)
}

async fn one(client: &mut Client, call: &Call<'_>) -> Result<Reply, Broken> {
    let id = client.session.begin(call).await.map_err(lost)?;
    loop {
        match client.session.next().await.map_err(lost)? {
            Event::Ended {
                id: ended, result, ..
            } if ended == id => {
                return result.map_err(|failure| (Got::Call(failure.fault), failure));
            }
            Event::Ended { .. } => {}
            Event::Break(broken) => client.breaks.push(broken),
        }
    }
}

/// Makes each kind of request once, on one file.
async fn use_it(client: &mut Client) -> Result<(), Broken> {
    client.session.connect().await.map_err(lost)?;
    let open = Open {
        ask: Ask::Oplock(Caching::ALL),
        access: Access::ReadWrite,
        ..create("a")
    };
    let Reply::Opened { handle, .. } = one(client, &Call::Open(open)).await? else {
        panic!("opens are answered with `Opened`");
    };
    let write = Call::Write {
        handle,
        offset: 0,
        data: b"data",
        stability: Stability::Unstable,
    };
    let read = Call::Read {
        handle,
        offset: 0,
        bytes: 100,
    };
    for call in [
        write,
        read,
        Call::Flush { handle },
        Call::Flush { handle },
        Call::Close { handle },
    ] {
        one(client, &call).await?;
    }
    Ok(())
}

fn check_with(
    options: Options,
    expected: Got,
    script: impl Fn(&Request, Vec<u8>) -> Answer + Send + 'static,
) {
    let got = broken(options, script).map_or(Got::Through, |(got, _)| got);
    assert_eq!(got, expected);
}

/// Returns how far a client got, and the failure, or None if everything succeeded.
fn broken(options: Options, script: impl Fn(&Request, Vec<u8>) -> Answer + Send + 'static) -> Option<Broken> {
    let server = Scripted::start(script);
    let got = Rc::new(Cell::new(None));
    let slot = got.clone();
    run(|executor| async move {
        let mut client = Client::new(&executor, server.address, options, "share");
        executor.set_deadline(monotonic_ns() + PATIENCE_NS);
        if let Err(failed) = use_it(&mut client).await {
            slot.set(Some(failed));
            if let (Got::Lost(_), _) = failed {
                assert!(client.session.agreed().is_none(), "the session is over");
            }
        }
        drop(client);
        drop(server);
    });
    got.get()
}

fn check(expected: Got, script: impl Fn(&Request, Vec<u8>) -> Answer + Send + 'static) {
    check_with(asked(), expected, script);
}

/// Returns a script that changes the correct answer in place.
fn patch(
    command: u16,
    change: impl Fn(&mut Vec<u8>) + Send + 'static,
) -> impl Fn(&Request, Vec<u8>) -> Answer + Send + 'static {
    at(command, move |_, mut honest| {
        change(&mut honest);
        Answer::Messages(vec![honest])
    })
}

const MALFORMED: Got = Got::Lost(Fault::MalformedMessage);

#[test]
fn a_violation_is_reported_with_command_field_and_byte() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(u16, Change, &str); 10] = [
        (
            SESSION_SETUP,
            |sent| sent[68] = 1,
            "SESSION_SETUP response, SecurityBufferOffset or SecurityBufferLength at byte 68",
        ),
        (
            TREE_CONNECT,
            |sent| sent.truncate(70),
            "TREE_CONNECT response, which ends before byte 80",
        ),
        (
            CREATE,
            |sent| sent[64] = 88,
            "CREATE response, StructureSize at byte 64",
        ),
        (WRITE, |sent| sent[68] = 100, "WRITE response, Count at byte 68"),
        (
            READ,
            |sent| sent[66] = 8,
            "READ response, DataOffset or DataLength at byte 66",
        ),
        (
            FLUSH,
            |sent| sent[24] ^= 0x40,
            "FLUSH response, MessageId at byte 24",
        ),
        (FLUSH, |sent| sent[12] = 6, "CLOSE response, Command at byte 12"),
        (FLUSH, |sent| sent[0] = 0, "header, ProtocolId at byte 0"),
        (FLUSH, |sent| sent[16] = 0, "header, Flags at byte 16"),
        (CLOSE, |sent| sent[20] = 8, "header, NextCommand at byte 20"),
    ];
    for (command, change, place) in cases {
        let (_, failure) = broken(asked(), patch(command, change)).expect("it breaks the protocol");
        let words = format!("a message from the server violates the protocol: {place}");
        assert_eq!(failure.to_string(), words);
    }
}

#[test]
fn an_honest_server_works_even_if_it_is_slow_or_chatty() {
    check(Got::Through, |_, honest| Answer::Messages(vec![honest]));
    check(Got::Through, |_, honest| Answer::Drip(frame(&honest)));
    check(
        Got::Through,
        at(FLUSH, |request, honest| {
            Answer::Messages(vec![pending(request), asynchronous(honest)])
        }),
    );
    check(
        Got::Through,
        at(FLUSH, |_, honest| {
            let mut messages = vec![break_notice([1; 16], 1); 100];
            messages.push(honest);
            Answer::Messages(messages)
        }),
    );
    check(
        Got::Through,
        at(WRITE, |_, honest| {
            Answer::Messages(vec![break_notice(FILE_ID, 1), honest])
        }),
    );
}

#[test]
fn an_endless_message_is_a_failure_in_time() {
    check(
        Got::Lost(Fault::ClosedEarly),
        at(READ, |_, honest| Answer::End(frame(&honest)[..100].to_vec())),
    );
    check(
        Got::Lost(Fault::ClosedEarly),
        at(READ, |_, _| Answer::End(vec![])),
    );
    check(
        Got::Lost(Fault::ResponseTimeout),
        at(READ, |_, _| Answer::Silence),
    );
    for command in [NEGOTIATE, SESSION_SETUP, TREE_CONNECT, CREATE] {
        check(
            Got::Lost(Fault::ResponseTimeout),
            at(command, |_, _| Answer::Silence),
        );
        check(
            Got::Lost(Fault::ClosedEarly),
            at(command, |_, _| Answer::End(vec![0, 0])),
        );
    }
}

#[test]
fn frames_out_of_bounds_are_refused() {
    for length in [
        [0, 0xff, 0xff, 0xff],
        [0, 0, 0, 63],
        [0, 0, 0, 0],
        [0x85, 0, 0, 0],
        [0xff; 4],
    ] {
        check(MALFORMED, at(FLUSH, move |_, _| Answer::Bytes(length.to_vec())));
        check(
            MALFORMED,
            at(NEGOTIATE, move |_, _| Answer::Bytes(length.to_vec())),
        );
    }
    check(
        MALFORMED,
        at(FLUSH, |_, _| Answer::Flood((0..=255).rev().collect())),
    );
}

#[test]
fn headers_that_answer_none_of_our_requests_are_refused() {
    check(MALFORMED, patch(FLUSH, |message| message[0] = b'x'));
    check(
        MALFORMED,
        patch(FLUSH, |message| message[..4].copy_from_slice(b"\xfdSMB")),
    );
    check(MALFORMED, patch(FLUSH, |message| message[4] = 0));
    check(MALFORMED, patch(FLUSH, |message| message[12] = CLOSE as u8));
    check(MALFORMED, patch(FLUSH, |message| message[12] = 200));
    check(MALFORMED, patch(FLUSH, |message| message[16] = 0));
    check(MALFORMED, patch(FLUSH, |message| message[20] = 8));
    check(MALFORMED, patch(FLUSH, |message| message[23] = 0x80));
    check(MALFORMED, patch(FLUSH, |message| message[24] ^= 1));
    check(MALFORMED, patch(FLUSH, |message| message[31] = 1));
    check(MALFORMED, patch(FLUSH, |message| message[36] ^= 1));
    check(MALFORMED, patch(FLUSH, |message| message[40] ^= 1));
    check(
        MALFORMED,
        at(FLUSH, |_, honest| Answer::Messages(vec![honest.clone(), honest])),
    );
}

#[test]
fn contradictory_bodies_are_refused() {
    check(MALFORMED, patch(CREATE, |message| message.truncate(64 + 40)));
    check(MALFORMED, patch(CREATE, |message| message[64] = 88));
    check(MALFORMED, patch(CREATE, |message| message[64 + 2] = 0xff));
    check(
        MALFORMED,
        patch(CREATE, |message| message[64 + 80..64 + 88].fill(0xff)),
    );
    check(MALFORMED, patch(WRITE, |message| message[64 + 4] = 5));
    check(MALFORMED, patch(READ, |message| message[64 + 4] = 101));
    check(MALFORMED, patch(READ, |message| message[64 + 2] = 79));
    check(MALFORMED, patch(READ, |message| message[64 + 2] = 81));
    check(MALFORMED, patch(READ, |message| message[64 + 7] = 0xff));
    check(MALFORMED, patch(CLOSE, |message| message[64] = 0));
    check(MALFORMED, patch(FLUSH, |message| message.truncate(64)));
    check(MALFORMED, patch(FLUSH, |message| message[11] = 0xC0));
}

#[test]
fn unacceptable_negotiations_are_refused() {
    check(MALFORMED, patch(NEGOTIATE, |message| message[64 + 5] = 3));
    check(
        MALFORMED,
        patch(NEGOTIATE, |message| {
            message[64 + 4..64 + 6].copy_from_slice(&[0xff, 2])
        }),
    );
    check(
        MALFORMED,
        patch(NEGOTIATE, |message| message[64 + 32..64 + 36].fill(0)),
    );
    check(MALFORMED, patch(NEGOTIATE, |message| message[64 + 58] = 1));
    check(
        Got::Lost(Fault::SessionRefused),
        at(NEGOTIATE, |request, _| {
            Answer::Messages(vec![failed(request, 0xC000_00BB)])
        }),
    );
    check(
        MALFORMED,
        patch(SESSION_SETUP, |message| message[64 + 6..64 + 8].fill(0xff)),
    );
    check(
        MALFORMED,
        patch(SESSION_SETUP, |message| message[80..].fill(0xff)),
    );
    let again = |request: &Request, mut honest: Vec<u8>| {
        if request.command == SESSION_SETUP {
            honest[8..12].copy_from_slice(&0xC000_0016u32.to_le_bytes());
        }
        Answer::Messages(vec![honest])
    };
    check(Got::Lost(Fault::SessionRefused), again);
}

#[test]
fn endless_interim_responses_are_bounded() {
    check(
        MALFORMED,
        at(FLUSH, |request, _| Answer::Flood(frame(&pending(request)))),
    );
    check(
        Got::Lost(Fault::ResponseTimeout),
        at(FLUSH, |request, _| Answer::Bytes(frame(&pending(request)))),
    );
    check(
        MALFORMED,
        at(FLUSH, |request, honest| {
            let mut other = asynchronous(honest);
            other[32] ^= 1;
            Answer::Messages(vec![pending(request), other])
        }),
    );
    check(
        Got::Lost(Fault::ResponseTimeout),
        at(FLUSH, |_, _| Answer::Flood(frame(&break_notice([1; 16], 1)))),
    );
    check(
        MALFORMED,
        at(FLUSH, |_, _| Answer::Messages(vec![break_notice(FILE_ID, 9)])),
    );
}

#[test]
fn a_server_that_grants_no_credits_is_distinguished_from_a_slow_one() {
    check(Got::Lost(Fault::NoCredit), |_, mut honest| {
        honest[14] = 0;
        Answer::Messages(vec![honest])
    });
    check(Got::Lost(Fault::NoCredit), |request, mut honest| {
        // One credit for each log-on request, then none.
        honest[14] = u8::from(request.command < CREATE);
        Answer::Messages(vec![honest])
    });
}

#[test]
fn a_status_fails_its_call_or_ends_the_session() {
    for (status, expected) in [
        (0xC000_1234, Got::Call(Fault::ErrorStatus)),
        (0x8000_0005, Got::Call(Fault::ErrorStatus)),
        (0xC000_0128, Got::Call(Fault::SessionLost)),
        (0xC000_0203, Got::Lost(Fault::SessionLost)),
        (0xC000_035C, Got::Lost(Fault::SessionLost)),
        (0xC000_00C9, Got::Lost(Fault::SessionLost)),
    ] {
        let script = at(FLUSH, move |request, _| {
            Answer::Messages(vec![failed(request, status)])
        });
        check(expected, script);
    }
}

#[test]
fn the_client_insists_on_negotiated_signatures_and_encryption() {
    let signed = || Options {
        guest: false,
        user: "user".to_owned(),
        password: "password".to_owned(),
        signing: Signing::Required,
        ..asked()
    };
    // The session is not a guest's, but the server signs nothing.
    let unsigned = |request: &Request, mut honest: Vec<u8>| {
        if request.command == SESSION_SETUP {
            honest[64 + 2] = 0;
        }
        Answer::Messages(vec![honest])
    };
    check_with(signed(), Got::Lost(Fault::WrongSignature), unsigned);
    // The server claims that the message is signed.
    let wrongly_signed = move |request: &Request, mut honest: Vec<u8>| {
        honest[16] |= 8 * u8::from(request.command == TREE_CONNECT);
        unsigned(request, honest)
    };
    check_with(signed(), Got::Lost(Fault::WrongSignature), wrongly_signed);
    let encrypted = Options {
        max_dialect: Dialect::Smb302,
        encryption: Encryption::Required,
        ..signed()
    };
    let plain = move |request: &Request, mut honest: Vec<u8>| {
        if request.command == NEGOTIATE {
            honest[64 + 4..64 + 6].copy_from_slice(&0x0302u16.to_le_bytes());
            honest[64 + 24] = 0x46;
        }
        unsigned(request, honest)
    };
    check_with(encrypted, Got::Lost(Fault::WrongSignature), plain);
}

#[test]
fn an_endless_listing_ends_at_the_deadline() {
    let server = Scripted::start(|_, honest| Answer::Messages(vec![honest]));
    run(|executor| async move {
        let mut client = Client::new(&executor, server.address, asked(), "share");
        executor.set_deadline(monotonic_ns() + PATIENCE_NS);
        client.session.connect().await.expect("a session");
        let find = Call::Find {
            directory: "a",
            pattern: "*",
        };
        let found = one(&mut client, &find).await.map_err(|(got, _)| got);
        assert_eq!(found, Err(Got::Lost(Fault::ResponseTimeout)));
        drop(client);
        drop(server);
    });
}

#[test]
fn a_listing_without_progress_is_refused() {
    let server = Scripted::start(|request, mut honest| {
        if request.command == QUERY_DIRECTORY {
            honest.truncate(72);
            honest[64 + 4] = 0;
        }
        Answer::Messages(vec![honest])
    });
    run(|executor| async move {
        let mut client = Client::new(&executor, server.address, asked(), "share");
        executor.set_deadline(monotonic_ns() + PATIENCE_NS);
        client.session.connect().await.expect("a session");
        let find = Call::Find {
            directory: "a",
            pattern: "*",
        };
        let found = one(&mut client, &find).await.map_err(|(got, _)| got);
        assert_eq!(found, Err(MALFORMED));
        // A lost session can be re-established, but here the server is gone.
        assert!(client.session.begin(&Call::Open(existing("a"))).await.is_err());
        drop(client);
        drop(server);
    });
}
