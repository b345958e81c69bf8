//! Validation of the unencrypted negotiation with the session key (MS-SMB2 3.2.5.5), by Samba and by a server that
//! answers wrongly.

use crate::client::{options, run, Client};
use crate::samba::Samba;
use crate::scripted::{failed, response, Answer, Request, Scripted, IOCTL, NEGOTIATE, SESSION_SETUP};
use dyno_files::FileClient;
use dyno_measure::{monotonic_ns, Fault, Side};
use dyno_smb::crypto::{Keys, Signer};
use dyno_smb::{Dialect, Options, Signing, SigningAlgorithm};
use std::cell::Cell;
use std::rc::Rc;

fn validations(client: &Client) -> u64 {
    let counts = client.session.requests_by_name();
    let found = counts.iter().find(|(name, _)| *name == "IOCTL");
    found.map_or(0, |(_, count)| *count)
}

#[test]
fn samba_validates_3_0_and_3_0_2_and_gets_no_request_with_other_dialects() {
    for (protocol, expected, questions) in [
        ("SMB2_10", Dialect::Smb210, 0),
        ("SMB3_00", Dialect::Smb300, 1),
        ("SMB3_02", Dialect::Smb302, 1),
        ("SMB3_11", Dialect::Smb311, 0),
    ] {
        let Some(samba) = Samba::start(protocol, &format!("  server max protocol = {protocol}")) else {
            return;
        };
        run(move |executor| async move {
            for signing in [Signing::Off, Signing::Required] {
                let asked = Options { signing, ..options() };
                let client = Client::try_connect(&executor, &samba, asked).await;
                let client = client.expect("a session");
                assert_eq!(
                    client.session.agreed().map(|agreed| agreed.dialect),
                    Some(expected)
                );
                assert_eq!(validations(&client), questions, "{protocol}");
            }
            let guest = Options {
                guest: true,
                ..options()
            };
            let client = Client::try_connect(&executor, &samba, guest).await;
            assert_eq!(validations(&client.expect("a session")), 0, "a guest has no key");
        });
    }
}

/// Returns the correct SMB 3.0.2 answer: capabilities, security mode and GUID of the script's NEGOTIATE.
fn truth() -> Vec<u8> {
    let mut output = vec![0; 24];
    output[0] = 6;
    output[20] = 1;
    output[22..24].copy_from_slice(&0x0302u16.to_le_bytes());
    output
}

fn validated(request: &Request, output: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 48];
    body[0] = 49;
    body[4..8].copy_from_slice(&0x0014_0204u32.to_le_bytes());
    body[8..24].fill(0xff);
    body[32] = 64 + 48;
    body[36] = u8::try_from(output.len()).expect("short");
    body.extend(output);
    response(request.command, request.message_id, 0, &body)
}

/// Connects to an SMB 3.0.2 server whose validation response is `answer`, signed if `signs`. Returns the client's
/// fault.
fn connect_with(signs: bool, answer: impl Fn(&Request) -> Vec<u8> + Send + 'static) -> Option<Fault> {
    let server = Scripted::start_with_key(move |request, mut honest, key| {
        match request.command {
            NEGOTIATE => {
                honest[64 + 4..64 + 6].copy_from_slice(&0x0302u16.to_le_bytes());
                honest[64 + 24] = 6;
            }
            SESSION_SETUP => honest[64 + 2] = 0,
            IOCTL => honest = answer(request),
            _ => {}
        }
        if let Some(key) = key.filter(|_| request.command == IOCTL && signs) {
            let keys = Keys::derive(Dialect::Smb302, None, &key, &[0; 64]);
            Signer::new(SigningAlgorithm::Aes128Cmac, &keys.signing).sign(&mut honest);
        }
        Answer::Messages(vec![honest])
    });
    let got = Rc::new(Cell::new(None));
    let slot = got.clone();
    run(|executor| async move {
        let asked = Options {
            max_dialect: Dialect::Smb302,
            ..options()
        };
        let mut client = Client::new(&executor, server.address, asked, "share");
        executor.set_deadline(monotonic_ns() + 5_000_000_000);
        let connected = client.session.connect().await;
        slot.set(connected.err().map(|failure| failure.fault));
        assert_eq!(client.session.agreed().is_none(), slot.get().is_some());
        drop(client);
        drop(server);
    });
    got.get()
}

#[test]
fn an_answer_that_differs_from_the_negotiation_ends_the_session() {
    assert_eq!(connect_with(true, |request| validated(request, &truth())), None);
    // Capabilities, server GUID, security mode, dialect.
    for place in [0, 3, 4, 19, 20, 22] {
        let lie = move |request: &Request| {
            let mut output = truth();
            output[place] ^= if place == 20 { 2 } else { 1 };
            validated(request, &output)
        };
        let fault = connect_with(true, lie).expect("it is noticed");
        assert_eq!(
            (fault, fault.side()),
            (Fault::WrongSignature, Side::Server),
            "{place}"
        );
    }
}

#[test]
fn an_unsigned_or_missing_answer_ends_the_session() {
    let fault = connect_with(false, |request| validated(request, &truth()));
    assert_eq!(fault, Some(Fault::WrongSignature));
    let fault = connect_with(true, |request| failed(request, 0xC000_0022));
    assert_eq!(fault, Some(Fault::SessionRefused));
    for cut in [0, 23, 25] {
        let fault = connect_with(true, move |request| {
            let mut output = truth();
            output.resize(cut, 0);
            validated(request, &output)
        });
        assert_eq!(fault, Some(Fault::MalformedMessage), "{cut}");
    }
}

#[test]
fn a_server_without_the_request_is_accepted_if_it_signs_the_refusal() {
    for status in [0xC000_00BB, 0xC000_0010, 0xC000_0128] {
        assert_eq!(connect_with(true, move |request| failed(request, status)), None);
        let unsigned = connect_with(false, move |request| failed(request, status));
        assert_eq!(unsigned, Some(Fault::WrongSignature));
    }
}
