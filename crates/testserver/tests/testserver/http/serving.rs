//! Correct answers.

use super::client::{get_and_close, server_of, Client};
use dyno_testserver::http::{Documents, Options, Server, REQUEST_COUNT_PATH};
use dyno_workload::Tree;
use std::time::{Duration, SystemTime};

#[test]
fn every_document_of_the_tree_is_served_completely_with_its_type() {
    let tree = Tree::load();
    let server = server_of(Documents::Tree(tree.clone()));
    let mut client = Client::of(&server);
    for file in tree.files() {
        let response = client.get(&file.path);
        assert_eq!(response.status, 200, "{}", file.path);
        assert_eq!(response.body, file.content(), "{}", file.path);
        let image = response.field("Content-Type") == Some("image/gif");
        assert_eq!(image, file.path.ends_with(".gif"), "{}", file.path);
    }
    assert_eq!(server.requests(), tree.files().len() as u64);
}

#[test]
fn a_path_outside_the_tree_is_not_found_and_the_connection_persists() {
    let tree = Tree::load();
    let server = server_of(Documents::Tree(tree.clone()));
    let mut client = Client::of(&server);
    let (_, missing) = &tree.missing()[0];
    for path in [missing.as_str(), "/", "/../../etc/passwd", "/%2e%2e/etc/passwd"] {
        let response = client.get(path);
        assert_eq!(
            (response.status, response.body.as_slice()),
            (404, b"404 Not Found\n".as_slice())
        );
    }
    let file = &tree.files()[0];
    assert_eq!(
        client.get(&format!("http://test{}?query", file.path)).body,
        file.content()
    );
}

#[test]
fn a_fixed_document_is_the_same_at_every_path_in_every_server() {
    for length in [0, 1, 1024, 1_000_000] {
        let (one, other) = (
            server_of(Documents::Fixed(length)),
            server_of(Documents::Fixed(length)),
        );
        let body = Client::of(&one).get("/a").body;
        assert_eq!(body.len(), length);
        assert_eq!(body, Client::of(&other).get("/b").body);
    }
}

#[test]
fn head_is_answered_with_only_the_head_of_get() {
    let server = server_of(Documents::Fixed(1000));
    let mut client = Client::of(&server);
    client.send("HEAD / HTTP/1.1\r\nHost: test\r\n\r\nGET / HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = client.head();
    let response = client.response();
    assert_eq!((head.status, head.length()), (200, 1000));
    assert_eq!(response.body.len(), 1000);
    assert_eq!(head.field("Content-Type"), response.field("Content-Type"));
}

#[test]
fn the_head_contains_the_date_and_the_server() {
    let server = server_of(Documents::Fixed(1));
    let response = Client::of(&server).get("/");
    let date = httpdate::parse_http_date(response.field("Date").expect("a date")).expect("an HTTP date");
    let age = SystemTime::now()
        .duration_since(date)
        .expect("not from the future");
    assert!(age < Duration::from_secs(30), "{age:?}");
    assert!(response
        .field("Server")
        .is_some_and(|name| name.starts_with("serverdyno-reference/")));
}

/// Returns whether the connection answers a second time, and the `Connection` header of the first answer.
fn kept(request: &str) -> (bool, String) {
    let server = server_of(Documents::Fixed(10));
    let mut client = Client::of(&server);
    client.send(request);
    let first = client.response();
    let option = first.field("Connection").expect("an option").to_owned();
    if option == "close" {
        assert!(client.rest().is_empty());
        return (false, option);
    }
    client.send(request);
    (client.response().status == 200, option)
}

#[test]
fn connections_persist_or_close_as_each_version_of_http_requires() {
    let keep_alive = (true, "keep-alive".to_owned());
    let close = (false, "close".to_owned());
    assert_eq!(kept("GET / HTTP/1.1\r\nHost: test\r\n\r\n"), keep_alive);
    assert_eq!(
        kept("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"),
        close
    );
    assert_eq!(kept("GET / HTTP/1.0\r\n\r\n"), close);
    assert_eq!(
        kept("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
        keep_alive
    );
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let tree = Tree::load();
    let server = server_of(Documents::Tree(tree.clone()));
    let mut client = Client::of(&server);
    // Larger than one receive buffer, so that some head is split.
    let files: Vec<_> = tree.files().iter().step_by(17).take(300).collect();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    client.send(files.iter().map(|file| get(&file.path)).collect::<String>());
    for file in files {
        assert_eq!(client.response().body, file.content(), "{}", file.path);
    }
}

#[test]
fn a_head_that_arrives_byte_by_byte_is_understood() {
    let server = server_of(Documents::Fixed(10));
    let mut client = Client::of(&server);
    for _ in 0..2 {
        for byte in b"GET / HTTP/1.1\r\nHost: test\r\n\r\n" {
            client.send([*byte]);
        }
        assert_eq!(client.response().status, 200);
    }
}

#[test]
fn a_client_that_closes_its_side_still_gets_its_answers_and_then_the_end() {
    let server = server_of(Documents::Fixed(10));
    for requests in 1..4 {
        let mut client = Client::of(&server);
        for _ in 0..requests - 1 {
            assert_eq!(client.get("/").status, 200);
        }
        client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        client.end_sending();
        assert_eq!(client.response().status, 200);
        assert!(client.rest().is_empty());
    }
}

#[test]
fn another_method_is_refused_even_while_its_body_arrives() {
    let server = server_of(Documents::Fixed(10));
    let mut client = Client::of(&server);
    let body = "x".repeat(300_000);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 300000\r\n\r\n{body}"
    ));
    let response = client.response();
    assert_eq!(
        (response.status, response.field("Allow")),
        (405, Some("GET, HEAD"))
    );
    assert_eq!(response.field("Connection"), Some("close"));
    assert!(client.rest().is_empty());
}

#[test]
fn an_endless_head_is_refused_at_the_limit() {
    let server = server_of(Documents::Fixed(10));
    let mut client = Client::of(&server);
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: test\r\n{}",
        "a: b\r\n".repeat(10)
    ));
    client.send(format!("b: {}", "c".repeat(20_000)));
    assert_eq!(client.response().status, 431);
    assert!(client.rest().is_empty());
}

#[test]
fn a_request_that_is_not_http_is_refused() {
    let server = server_of(Documents::Fixed(10));
    for (text, status) in [
        ("\x01\x02 / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/3.0\r\n\r\n", 505),
    ] {
        let mut client = Client::of(&server);
        client.send(text);
        assert_eq!(client.response().status, status, "{text:?}");
        assert!(client.rest().is_empty());
    }
}

#[test]
fn an_answer_far_larger_than_any_socket_buffer_arrives_completely() {
    let server = server_of(Documents::Fixed(50_000_000));
    let (head, body) = get_and_close(&server);
    assert_eq!((head.length(), body.len()), (50_000_000, 50_000_000));
}

#[test]
fn the_count_of_requests_is_exact_and_excludes_the_tools_own() {
    let server = Server::start(&Options {
        extra_documents: vec![("/.serverdyno/proof".to_owned(), b"nonce".to_vec())],
        threads: 2,
        ..Options::on_loopback(Documents::Fixed(100))
    })
    .expect("a free port");
    std::thread::scope(|scope| {
        for requests in [100, 200, 300] {
            let server = &server;
            scope.spawn(move || {
                let mut client = Client::of(server);
                (0..requests).for_each(|_| assert_eq!(client.get("/").status, 200));
            });
        }
    });
    let mut client = Client::of(&server);
    assert_eq!(client.get("/.serverdyno/proof").body, b"nonce");
    for _ in 0..2 {
        assert_eq!(client.get(REQUEST_COUNT_PATH).body, b"600");
    }
    assert_eq!(server.requests(), 600);
}
