//! Each named fault has the expected effect on this project's client, and never makes it wait forever.

use super::client::{create, fault, options, run, Client};
use super::samba::{server_options, Samba};
use dyno_files::{Ask, Caching, Call, Event, FileClient, Open, Reply, Stability};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_smb::Signing;
use dyno_testserver::smb::Options;

const PATIENCE_NS: u64 = 500_000_000;

/// Creates a file, writes it and reads it, as far as possible. Returns the data read, or the failure.
async fn exercise(client: &mut Client) -> Result<Vec<u8>, Failure> {
    let open: Open<'_> = create("x");
    let Reply::Opened { handle, .. } = carried_out(client, &Call::Open(open)).await? else {
        panic!("it is made where it is not there");
    };
    let data = b"0123456789";
    carried_out(
        client,
        &Call::Write {
            handle,
            offset: 0,
            data,
            stability: Stability::Unstable,
        },
    )
    .await?;
    carried_out(
        client,
        &Call::Read {
            handle,
            offset: 0,
            bytes: 10,
        },
    )
    .await?;
    Ok(client.data.clone())
}

async fn carried_out(client: &mut Client, call: &Call<'_>) -> Result<Reply, Failure> {
    client.executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    client.session.begin(call).await?;
    loop {
        if let Event::Ended { result, data, .. } = client.session.next().await? {
            client.data = data.to_vec();
            return result;
        }
    }
}

fn check(name: &'static str, expected: Result<&'static [u8], Fault>) {
    let samba = Samba::with(&Options {
        fault: Some(name.parse().expect("a fault")),
        ..server_options()
    });
    run(|executor| async move {
        let signed = dyno_smb::Options {
            signing: Signing::Required,
            ..options()
        };
        let mut client = Client::try_connect(&executor, &samba, signed)
            .await
            .expect("a session");
        let outcome = exercise(&mut client).await;
        match expected {
            Ok(data) => assert_eq!(outcome.as_deref().ok(), Some(data), "{name}"),
            Err(wanted) => assert_eq!(fault(outcome), Some(wanted), "{name}"),
        }
    });
}

#[test]
fn every_fault_has_the_expected_effect() {
    for (name, expected) in [
        ("delay=5ms", Ok(&b"0123456789"[..])),
        ("stall", Err(Fault::ResponseTimeout)),
        ("pending", Err(Fault::ResponseTimeout)),
        ("endless-pending", Err(Fault::MalformedMessage)),
        ("close", Err(Fault::ClosedEarly)),
        ("early-close", Err(Fault::ClosedEarly)),
        ("truncated", Err(Fault::WrongSignature)),
        ("oversized", Err(Fault::MalformedMessage)),
        ("garbage", Err(Fault::MalformedMessage)),
        ("wrong-message-id", Err(Fault::MalformedMessage)),
        ("wrong-command", Err(Fault::MalformedMessage)),
        ("bad-signature", Err(Fault::WrongSignature)),
        ("session-deleted", Err(Fault::SessionLost)),
        ("disk-full", Err(Fault::NoSpace)),
        ("short-read", Ok(b"01234")),
        ("wrong-content", Ok(b"0123446789")),
        ("lost-writes", Ok(&[0; 10])),
        ("no-breaks", Ok(b"0123456789")),
    ] {
        check(name, expected);
    }
}

#[test]
fn without_new_credits_a_session_ends_when_its_own_are_used_up() {
    let samba = Samba::with(&Options {
        fault: Some("no-credit".parse().expect("a fault")),
        ..server_options()
    });
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let mut outcome = Ok(Vec::new());
        for _ in 0..100_000 {
            outcome = exercise(&mut client).await;
            if outcome.is_err() {
                break;
            }
        }
        assert_eq!(fault(outcome), Some(Fault::NoCredit));
    });
}

#[test]
fn without_breaks_a_holder_is_not_notified_of_another_clients_write() {
    let samba = Samba::with(&Options {
        fault: Some("no-breaks".parse().expect("a fault")),
        ..server_options()
    });
    run(|executor| async move {
        let mut holder = Client::connect(&executor, &samba).await;
        let mut other = Client::connect(&executor, &samba).await;
        let ask = Ask::Oplock(Caching::ALL);
        let (_, granted, ..) = holder.open(&Open { ask, ..create("x") }).await;
        assert_eq!(granted, Caching::ALL);
        other.write_file("x", b"behind the holder's back").await;
        // A break would have been sent before the other open was completed.
        let told = holder.session.break_until(monotonic_ns()).await;
        assert_eq!(told, Ok(None));
    });
}

#[test]
fn an_unknown_fault_is_refused_by_name() {
    assert!("sulk".parse::<dyno_testserver::smb::Fault>().is_err());
}
