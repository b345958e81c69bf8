//! Requests that are forwarded to backends.

use super::client::{server_of, Client};
use dyno_testserver::http::{Documents, Options, Server};
use dyno_workload::Tree;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

fn before(behind: Vec<u16>) -> Server {
    let options = Options {
        behind,
        ..Options::on_loopback(Documents::Tree(Tree::load()))
    };
    Server::start(&options).expect("a free port")
}

#[test]
fn pages_come_from_backends_in_turn_and_documents_from_the_server_itself() {
    let tree = Tree::load();
    let backs = [(); 2].map(|()| server_of(Documents::Tree(tree.clone())));
    let front = before(backs.iter().map(Server::port).collect());
    let mut client = Client::of(&front);
    let file = &tree.files()[0];
    assert_eq!(client.get(&file.path).body, file.content());
    for round in 0..6 {
        let query = format!("n=000000000000000{round}");
        let response = client.get(&format!("{}?{query}", dyno_page::PATH));
        assert_eq!((response.status, response.body.len()), (200, 1024));
        assert!(dyno_page::check(&response.body, dyno_page::PATH, &query));
        let page = String::from_utf8(response.body).expect("plain text");
        assert!(
            page.contains(&format!("SERVER_PORT={}\n", backs[round % 2].port())),
            "{page}"
        );
    }
    assert_eq!(front.requests(), 7);
    assert_eq!(backs.map(|back| back.requests()), [3, 3]);
}

#[test]
fn a_kept_connection_that_the_backend_closed_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let front = before(vec![listener.local_addr().expect("it listens").port()]);
    let back = thread::spawn(move || {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().expect("the front connects");
            let mut request = [0; 1024];
            let count = stream.read(&mut request).expect("a request");
            assert!(request[..count].starts_with(b"GET /cgi-bin/x HTTP/1.0\r\n"));
            // The backend announces a persistent connection, but closes it.
            let answer = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi";
            stream.write_all(answer).expect("the front reads");
        }
    });
    let mut client = Client::of(&front);
    for _ in 0..3 {
        assert_eq!(client.get("/cgi-bin/x").body, b"hi");
    }
    back.join().expect("three connections came");
}

#[test]
fn without_a_backend_the_answer_is_502_and_the_connection_persists() {
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("it listens").port()
    };
    let front = before(vec![nobody]);
    let mut client = Client::of(&front);
    for _ in 0..2 {
        assert_eq!(client.get("/cgi-bin/x").status, 502);
    }
}

#[test]
fn requests_over_http2_are_not_forwarded() {
    let options = Options {
        behind: vec![80],
        http2: true,
        ..Options::on_loopback(Documents::Fixed(1))
    };
    let refused = Server::start(&options).expect_err("it is refused");
    assert!(refused.to_string().contains("not forwarded"), "{refused}");
}
