//! Each named fault has the expected effect on this project's client, and never makes it wait forever.

use super::raw::{url, EXPORT, UDP, VERSIONS};
use dyno_files::{Access, Ask, Call, Disposition, Event, FileClient, Open, Reply, Stability};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::{Dialer, Executor};
use dyno_nfs::{NfsTarget, Session};
use dyno_testserver::nfs::{faults, Options, Server};
use std::cell::RefCell;
use std::rc::Rc;
use std::thread;

/// Time limits for faults that end and for faults that never end.
const PATIENCE_NS: u64 = 20_000_000_000;
const SHORT_PATIENCE_NS: u64 = 700_000_000;

/// Creates a file, writes it and reads it, as far as possible. Returns the data read, or the failure.
pub(super) async fn exercise(
    session: &mut Session,
    executor: &Executor,
    patience_ns: u64,
) -> Result<Vec<u8>, Failure> {
    executor.set_deadline(monotonic_ns() + patience_ns);
    session.connect().await?;
    let mut read = Vec::new();
    let open = Open {
        path: "x",
        access: Access::ReadWrite,
        disposition: Disposition::OpenIf,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    };
    let Reply::Opened { handle, .. } = carried_out(session, &Call::Open(open), &mut read).await? else {
        panic!("it is made where it is not there");
    };
    let write = Call::Write {
        handle,
        offset: 0,
        data: b"0123456789",
        stability: Stability::Unstable,
    };
    carried_out(session, &write, &mut read).await?;
    carried_out(session, &Call::Flush { handle }, &mut read).await?;
    let (offset, bytes) = (0, 10);
    carried_out(
        session,
        &Call::Read {
            handle,
            offset,
            bytes,
        },
        &mut read,
    )
    .await?;
    Ok(read)
}

async fn carried_out(session: &mut Session, call: &Call<'_>, read: &mut Vec<u8>) -> Result<Reply, Failure> {
    session.begin(call).await?;
    loop {
        if let Event::Ended { result, data, .. } = session.next().await? {
            *read = data.to_vec();
            return result;
        }
    }
}

/// Returns the result of a session with a faulty server, and the number of replies that the server sent
/// again.
fn met(name: &str, version: &str, patience_ns: u64) -> (Result<Vec<u8>, Fault>, u64) {
    let options = Options {
        fault: Some(name.parse().expect("a fault")),
        udp: true,
        ..Options::on_loopback(EXPORT)
    };
    let server = Server::start(&options).expect("it starts");
    let url = url(server.port(), version);
    let target = NfsTarget::open(&url, vec![], dyno_nfs::Options::default(), None, None).expect("loopback");
    let executor = Executor::new().expect("an epoll instance");
    let dialer = Rc::new(Dialer::new(executor.clone(), target.address(), 0));
    let mut session = target.session(&executor, &dialer, EXPORT, 1);
    let outcome = Rc::new(RefCell::new(None));
    let (slot, own) = (outcome.clone(), executor.clone());
    executor.spawn(async move {
        let met = exercise(&mut session, &own, patience_ns).await;
        slot.replace(Some(met.map_err(|failure| failure.fault)));
    });
    executor.run(|| false).expect("the loop runs");
    let met = outcome.take().expect("it came to its end");
    (met, server.replies_given_again())
}

/// Returns the expected result over NFSv4.1. The fault also affects look-ups on the path to the export, so
/// the session does not even start.
fn by_version_4(name: &str, outcome: &Result<Vec<u8>, Fault>) -> Result<Vec<u8>, Fault> {
    match name {
        "close" | "early-close" => Err(Fault::ClosedEarly),
        "denied" | "stale" => Err(Fault::SessionRefused),
        _ => outcome.clone(),
    }
}

/// Returns the expected result over UDP: lost messages are sent again, invalid ones are ignored, and there is
/// no connection to close.
fn over_udp(name: &str, outcome: &Result<Vec<u8>, Fault>) -> Result<Vec<u8>, Fault> {
    match name {
        "dropped-reply=3" | "dropped-call=3" | "double-reply=1" | "oversized" => Ok(b"0123456789".to_vec()),
        "early-close" | "garbage" | "wrong-number" => Err(Fault::ResponseTimeout),
        _ => outcome.clone(),
    }
}

#[test]
fn every_fault_has_the_expected_effect() {
    let content = || Ok(b"0123456789".to_vec());
    let expected = [
        ("delay=5ms", content()),
        ("stall", Err(Fault::ResponseTimeout)),
        ("dropped-reply=3", Err(Fault::ResponseTimeout)),
        ("dropped-call=3", Err(Fault::ResponseTimeout)),
        ("double-reply=1", Err(Fault::MalformedMessage)),
        ("lost-reply=3", content()),
        ("restart=60000ms", content()),
        ("other-verifier=1", content()),
        ("jukebox=3", content()),
        ("close", Err(Fault::ResponseTimeout)),
        ("early-close", Err(Fault::ResponseTimeout)),
        ("truncated", Err(Fault::MalformedMessage)),
        ("oversized", Err(Fault::MalformedMessage)),
        ("garbage", Err(Fault::MalformedMessage)),
        ("wrong-number", Err(Fault::MalformedMessage)),
        ("denied", Err(Fault::AccessDenied)),
        ("stale", Err(Fault::SessionLost)),
        ("disk-full", Err(Fault::NoSpace)),
        ("short-read", content()),
        ("short-write", content()),
        ("wrong-content", Ok(b"1123456789".to_vec())),
        ("no-recall", content()),
        ("silent-recall", content()),
        ("double-recall", content()),
        ("unknown-recall", content()),
        ("lost-writes", Ok(vec![0; 10])),
    ];
    let kind = |name: &str| name.split('=').next().map(str::to_owned);
    let listed: Vec<_> = faults().iter().map(|(name, _)| kind(name)).collect();
    let tried: Vec<_> = expected.iter().map(|(name, _)| kind(name)).collect();
    assert_eq!(tried, listed, "each of them");
    let each = |version| {
        for (name, outcome) in &expected {
            let outcome = match version {
                "3" => outcome.clone(),
                UDP => over_udp(name, outcome),
                _ => by_version_4(name, outcome),
            };
            let patience_ns = match outcome {
                Err(Fault::ResponseTimeout) => SHORT_PATIENCE_NS,
                _ => PATIENCE_NS,
            };
            let met = met(name, version, patience_ns).0;
            assert_eq!(met, outcome, "{name} by version {version}");
        }
    };
    thread::scope(|scope| {
        for version in [VERSIONS[0], VERSIONS[1], UDP] {
            scope.spawn(move || each(version)); // The threads mostly wait.
        }
    });
}

#[test]
fn a_creation_whose_reply_was_lost_gets_the_cached_reply() {
    // LOOKUP, then CREATE, which is executed but not answered.
    let (outcome, given_again) = met("lost-reply=2", "3", PATIENCE_NS);
    assert_eq!((outcome, given_again), (Ok(b"0123456789".to_vec()), 1));
}

#[test]
fn over_udp_a_creation_whose_reply_was_lost_gets_the_cached_reply() {
    let (outcome, given_again) = met("dropped-reply=2", UDP, PATIENCE_NS);
    assert_eq!((outcome, given_again), (Ok(b"0123456789".to_vec()), 1));
}

#[test]
fn an_unknown_fault_is_refused_by_name() {
    assert!("sulk".parse::<dyno_testserver::nfs::Fault>().is_err());
}
