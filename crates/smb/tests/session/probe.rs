//! The probe: what a real smbd offers, with each dialect and in another network namespace, and what the
//! probe reports about servers that don't speak SMB or never finish.

use crate::network::Namespace;
use crate::samba::Samba;
use crate::scripted::{at, failed, frame, Answer, Scripted, NEGOTIATE};
use dyno_measure::{Detail, Failure, Fault};
use dyno_smb::{probe, Dialect, Offer, Refusal};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Enough for a server that answers.
const PATIENCE: Duration = Duration::from_secs(20);
/// For a server that never answers.
const IMPATIENCE: Duration = Duration::from_millis(300);

#[test]
fn samba_offers_what_it_was_configured_for() {
    for (protocol, signing, dialect, signing_required) in [
        ("SMB2_02", "default", Dialect::Smb202, false),
        ("SMB2_10", "mandatory", Dialect::Smb210, true),
        ("SMB3_00", "default", Dialect::Smb300, false),
        ("SMB3_11", "mandatory", Dialect::Smb311, true),
    ] {
        let settings = format!("  server max protocol = {protocol}\n  server signing = {signing}");
        let Some(samba) = Samba::start(protocol, &settings) else {
            return;
        };
        let offer = probe(samba.address, None, PATIENCE).expect("an answer");
        let Offer {
            dialect: chosen,
            signing_required: signs,
            server_guid,
            max_read_bytes,
            max_write_bytes,
            ..
        } = offer;
        assert_eq!((chosen, signs), (dialect, signing_required));
        assert_ne!(server_guid, [0; 16]);
        assert!(max_read_bytes >= 65_536 && max_write_bytes >= 65_536, "{offer:?}");
        assert_eq!(offer.leases, dialect > Dialect::Smb202, "{offer:?}");
    }
}

#[test]
fn servers_that_accept_no_session_are_distinguished() {
    let refusal = |samba: &Samba| match probe(samba.address, None, PATIENCE) {
        Err(Failure {
            detail: Detail::Refused { step, .. },
            ..
        }) => Refusal::of(step),
        other => panic!("{other:?}"),
    };
    for (name, settings, expected) in [
        ("denying", "  hosts deny = ALL", Refusal::TurnedAway),
        ("old", "  server max protocol = NT1", Refusal::Dialect),
        (
            "oldest",
            "  server min protocol = NT1\n  server max protocol = NT1",
            Refusal::Smb1Alone,
        ),
        // The probe that detects the server's start uses the only allowed process.
        ("full", "  max smbd processes = 1", Refusal::HungUp),
    ] {
        let Some(samba) = Samba::start(name, settings) else {
            return;
        };
        let _first = TcpStream::connect(samba.address);
        assert_eq!(refusal(&samba), Some(expected), "{name}");
    }
}

#[test]
fn only_an_smb_1_answer_shows_that_a_server_speaks_smb_1() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let answers: [(&[u8], Refusal); 4] = [
        (b"\0\0\0\x25\xffSMB\x72", Refusal::Smb1Alone),
        (b"\0\0\0\x25\xffSM", Refusal::HungUp),
        (b"\0\0\0\x49\xfeSMB", Refusal::HungUp),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Refusal::HungUp),
    ];
    let server = std::thread::spawn(move || {
        for (answer, _) in answers {
            for answer in [b"", answer] {
                let (mut connection, _) = listener.accept().expect("a question");
                request(&mut connection);
                connection.write_all(answer).expect("an answer");
            }
        }
    });
    for (answer, expected) in answers {
        let failure = probe(address, None, PATIENCE).expect_err("nothing that could be used");
        assert_eq!(failure.detail, expected.detail(0), "{answer:x?}");
    }
    server.join().expect("no panic");
}

/// Returns the request without its frame length.
fn request(connection: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    connection.read_exact(&mut length).expect("a frame");
    let mut request = vec![0; u32::from_be_bytes(length) as usize];
    connection.read_exact(&mut request).expect("a request");
    request
}

#[test]
fn a_probe_offers_the_same_signing_algorithms_as_a_session() {
    let settings = "  server smb3 signing algorithms = HMAC-SHA256";
    let Some(samba) = Samba::start("hmac", settings) else {
        return;
    };
    let offer = probe(samba.address, None, PATIENCE);
    assert_eq!(offer.map(|offer| offer.dialect), Ok(Dialect::Smb311));
}

#[test]
fn a_server_in_another_network_namespace_is_probed_there() {
    let Some(namespace) = Namespace::make(Ipv4Addr::new(10, 9, 8, 7)) else {
        return;
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 445));
    let Some(_samba) = Samba::start_at("probed", "", address, Some(&namespace)) else {
        return;
    };
    let offer = probe(address, Some(&namespace.file()), PATIENCE);
    assert_eq!(offer.map(|offer| offer.dialect), Ok(Dialect::Smb311));
    let nowhere = probe(address, Some("/dev/null".as_ref()), PATIENCE);
    assert_eq!(nowhere.map_err(|failure| failure.fault), Err(Fault::OtherIo));
}

fn ask(patience: Duration, answer: impl Fn() -> Answer + Send + 'static) -> Failure {
    let server = Scripted::start(at(NEGOTIATE, move |_, _| answer()));
    probe(server.address, None, patience).expect_err("nothing that could be used")
}

#[test]
fn a_silent_server_or_another_kind_of_server_is_reported_in_time() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let nothing = probe(free.expect("a port"), None, PATIENCE);
    assert_eq!(
        nothing.map_err(|failure| failure.fault),
        Err(Fault::ConnectionRefused)
    );
    assert_eq!(ask(IMPATIENCE, || Answer::Silence).fault, Fault::ResponseTimeout);
    assert_eq!(
        ask(IMPATIENCE, || Answer::Bytes(frame(&[0; 70])[..50].to_vec())).fault,
        Fault::ResponseTimeout
    );
    let web = ask(PATIENCE, || {
        Answer::End(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())
    });
    assert_eq!(web.detail, Refusal::NotSmb.detail(0));
    let endless = ask(PATIENCE, || Answer::Flood(vec![0xff; 4096]));
    assert_eq!(endless.detail, Refusal::NotSmb.detail(0));
}

#[test]
fn each_probe_has_its_own_guid() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let probes = 3;
    let seen = std::thread::spawn(move || {
        let guids = (0..probes).map(|_| {
            let (mut connection, _) = listener.accept().expect("a probe");
            let request = request(&mut connection);
            // If the server only closed the connection, the probe would also try SMB 1.
            connection.write_all(b"no file server").expect("an answer");
            // The GUID follows the header and 12 bytes of the request (MS-SMB2 2.2.3).
            request[64 + 12..][..16].to_vec()
        });
        guids.collect::<BTreeSet<_>>()
    });
    for _ in 0..probes {
        assert!(probe(address, None, PATIENCE).is_err());
    }
    assert_eq!(seen.join().expect("no panic").len(), probes);
}

#[test]
fn a_server_without_a_common_version_is_reported() {
    let server = Scripted::start(at(NEGOTIATE, |request, _| {
        Answer::Messages(vec![failed(request, 0xC000_00BB)])
    }));
    let failure = probe(server.address, None, PATIENCE).expect_err("it refused");
    assert_eq!(failure.detail, Refusal::Dialect.detail(0xC000_00BB));
}
