//! Handwritten UDP datagrams: an invalid call gets no answer and affects nobody else, and NFSv4 is not
//! available.

use super::raw::EXPORT;
use dyno_nfs::wire::{
    parse_port, port_of, Body, Message, Program, Transport, MOUNT, NFS, PORTMAPPER, RECORD_MARK_BYTES,
};
use dyno_testserver::nfs::{Options, Server};
use std::net::UdpSocket;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a UDP server with several threads, and a connected socket.
fn connected() -> (Server, UdpSocket) {
    let options = Options {
        udp: true,
        threads: 2,
        ..Options::on_loopback(EXPORT)
    };
    let server = Server::start(&options).expect("it starts");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket.connect(server.address()).expect("a peer");
    (server, socket)
}

/// Sends a message and returns its reply.
fn ask(socket: &UdpSocket, message: &Message) -> (u32, Body, Vec<u8>) {
    socket
        .send(&message.bytes()[RECORD_MARK_BYTES..])
        .expect("it is taken");
    let mut answer = vec![0; 65_536];
    let bytes = socket.recv(&mut answer).expect("an answer");
    answer.truncate(bytes);
    let (xid, body) = Body::parse(&answer).expect("a reply");
    (xid, body, answer)
}

fn null(xid: u32, program: Program) -> Message {
    let mut message = Message::default();
    message.begin(xid, program, 0, None);
    message.end();
    message
}

#[test]
fn a_datagram_that_is_not_a_call_gets_no_answer_and_the_next_call_gets_its_own() {
    let (_server, socket) = connected();
    let call = null(1, NFS);
    let call = &call.bytes()[RECORD_MARK_BYTES..];
    for junk in [
        &b""[..],
        b"a",
        &call[..20],
        &[0xff; 65_507],
        &call[..call.len() - 1],
    ] {
        socket.send(junk).expect("it is taken");
    }
    for (xid, program) in [(2, NFS), (3, MOUNT), (4, PORTMAPPER)] {
        let (answered, body, _) = ask(&socket, &null(xid, program));
        assert!(
            answered == xid && matches!(body, Body::Accepted(_)),
            "{program:?}: {body:?}"
        );
    }
}

#[test]
fn version_4_is_not_offered_over_udp() {
    let (_server, socket) = connected();
    let (_, body, answer) = ask(&socket, &null(5, Program(NFS.0, 4)));
    assert!(matches!(body, Body::Unaccepted(2)), "{body:?}");
    assert_eq!(
        answer[24..],
        [0, 0, 0, 3, 0, 0, 0, 3],
        "the lowest and the highest"
    );
    for (program, is_there) in [(NFS, true), (MOUNT, true), (Program(NFS.0, 4), false)] {
        let mut message = Message::default();
        port_of(&mut message, 6, program, Transport::Udp);
        let (_, body, answer) = ask(&socket, &message);
        let Body::Accepted(at) = body else {
            panic!("{body:?}")
        };
        assert_eq!(
            parse_port(&answer[at..]).expect("a port").is_some(),
            is_there,
            "{program:?}"
        );
    }
}

#[test]
fn without_the_option_there_is_no_udp() {
    let server = Server::start(&Options::on_loopback(EXPORT)).expect("it starts");
    assert!(UdpSocket::bind(server.address()).is_ok(), "the port is free");
}
