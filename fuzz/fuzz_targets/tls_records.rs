//! TLS records from a peer that divides and corrupts them, and stops: no panic, no wait for available data,
//! and exactly the plaintext up to the first damage is passed on.
//!
//! First byte: even for raw bytes instead of a handshake; odd for a handshake, followed by steps of three
//! bytes: action, amount, and size of the pieces.
#![no_main]

use dyno_http::{EvenShare, TlsOverTcp, Transport};
use dyno_measure::{monotonic_ns, Fault, NS_PER_S};
use dyno_net::tls::{
    Arrived, Authority, ClientOptions, Flow, KeyKind, TlsClient, Trust, Validity, Version, Versions,
};
use dyno_net::{Dialer, Executor};
use libfuzzer_sys::fuzz_target;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::cell::RefCell;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::thread;

/// Much longer than a step takes. Reaching it means waiting for data that will never arrive.
const PATIENCE_NS: u64 = 20 * NS_PER_S;
const MOST_STEPS: usize = 24;
const BUFFER_BYTES: usize = 3000;

static SIDES: LazyLock<(TlsClient, Arc<ServerConfig>)> = LazyLock::new(|| {
    let authority = Authority::new().expect("randomness");
    let made = authority.certify(KeyKind::EcdsaP256, &["localhost".to_owned()], Validity::Now);
    let (certificate, key) = made.expect("a certificate");
    let client = TlsClient::new(&ClientOptions {
        versions: Versions {
            least: Version::Tls12,
            most: Version::Tls13,
        },
        ciphers: Vec::new(),
        application_protocols: Vec::new(),
        trust: Trust::of_pem(authority.pem()).expect("PEM"),
        server_name: "localhost".to_owned(),
        identity: None,
    });
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate");
    (client.expect("options"), Arc::new(server))
});

/// Plaintext sent by the peer. Of a damaged step, whole records may have arrived.
struct Peer {
    sent: Vec<u8>,
    damaged_data: Vec<u8>,
    closed_in_order: bool,
}

fn main_of_peer(mut stream: TcpStream, script: &[u8]) -> Peer {
    let mut peer = Peer {
        sent: Vec::new(),
        damaged_data: Vec::new(),
        closed_in_order: false,
    };
    let mut tls = ServerConnection::new(SIDES.1.clone()).expect("a connection");
    while tls.is_handshaking() {
        if tls.complete_io(&mut stream).is_err() {
            return peer;
        }
    }
    for step in script.chunks_exact(3).take(MOST_STEPS) {
        let (what, size, cut) = (step[0], usize::from(step[1]) * 70, usize::from(step[2]) + 1);
        let data: Vec<u8> = (0..size).map(|at| at as u8 ^ what).collect();
        let mut bytes = Vec::new();
        if what % 8 == 1 {
            tls.send_close_notify();
        } else {
            tls.writer().write_all(&data).expect("room");
        }
        while tls.wants_write() {
            tls.write_tls(&mut bytes).expect("a vector");
        }
        match what % 8 {
            0 => {
                let place = usize::from(step[2]) % bytes.len().max(1);
                bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1);
            }
            1 => peer.closed_in_order = true,
            2 => bytes.truncate(cut),
            _ => peer.sent.extend(&data),
        }
        if matches!(what % 8, 0 | 2) {
            peer.damaged_data = data;
        }
        let parts = bytes.chunks(cut.max(bytes.len() / 40).max(1));
        if parts.into_iter().any(|part| stream.write_all(part).is_err()) || what % 8 < 3 {
            break;
        }
    }
    peer
}

/// Receives as a client. Returns the data and the result.
fn read(address: SocketAddr) -> (Vec<u8>, Result<(), Fault>) {
    let executor = Executor::new().expect("an epoll instance");
    let outcome = Rc::new(RefCell::new(None));
    let (slot, handle) = (outcome.clone(), executor.clone());
    executor.spawn(async move {
        handle.set_deadline(monotonic_ns() + PATIENCE_NS);
        let buffer = Rc::new(RefCell::new(vec![0; BUFFER_BYTES].into_boxed_slice()));
        let dialer = Rc::new(Dialer::new(handle.clone(), address, 0));
        let mut transport = TlsOverTcp::new(dialer, SIDES.0.connector(), EvenShare::new(1.0), buffer.clone());
        let mut received = Vec::new();
        let ended = match transport.open(b"GET").await {
            Err(failure) => Err(failure.fault),
            Ok(opened) => {
                let mut stream = opened.stream;
                loop {
                    let arrival = stream.receive(&mut buffer.borrow_mut(), &mut |data| {
                        received.extend_from_slice(data);
                        Ok(Flow::More)
                    });
                    match arrival {
                        Ok(Arrived::Some(_)) => {}
                        Ok(Arrived::End) => break Ok(()),
                        Ok(Arrived::Nothing) => {
                            if let Err(failure) = stream.readable(Fault::ResponseTimeout).await {
                                break Err(failure.fault);
                            }
                        }
                        Err(failure) => break Err(failure.fault),
                    }
                }
            }
        };
        *slot.borrow_mut() = Some((received, ended));
    });
    executor.run(|| false).expect("the loop runs");
    outcome.take().expect("the task has ended")
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, script)) = input.split_first() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    let (shakes_hands, script) = (kind % 2 == 1, script.to_vec());
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        if shakes_hands {
            return Some(main_of_peer(stream, &script));
        }
        // The client may have left already.
        let _ = stream.write_all(&script);
        None
    });
    let (received, ended) = read(address);
    let peer = peer.join().expect("the peer ends");
    let late = [
        Fault::ResponseTimeout,
        Fault::HandshakeTimeout,
        Fault::ConnectTimeout,
    ];
    assert!(
        !late.iter().any(|fault| ended == Err(*fault)),
        "it waited for {ended:?}"
    );
    let Some(peer) = peer else {
        assert!(
            received.is_empty() && ended.is_err(),
            "no handshake, and yet {ended:?}"
        );
        return;
    };
    // A reset may discard sent data, because the peer does not read what the client sends.
    if ended != Err(Fault::ConnectionReset) {
        assert!(received.starts_with(&peer.sent), "{ended:?}");
        assert_eq!(ended.is_ok(), peer.closed_in_order, "{ended:?}");
    }
    let all = [peer.sent, peer.damaged_data].concat();
    assert!(all.starts_with(&received), "{ended:?}");
});
