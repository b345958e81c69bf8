//! The client against a server that sends prescribed answers and records the requests.

use dyno_http::{Connecting, Connection, Limits, PlainTcp};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::{Dialer, Executor};
use dyno_s3::{Call, Checksum, Client, Credentials, Payload, Settings, Signer, Tag, UploadsPage};
use std::cell::RefCell;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

const TIMEOUT_NS: u64 = 30_000_000_000;

/// Reads a request. Returns its head, and the body of the declared length.
fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(Some(0), |text| text.parse().ok())?];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Starts a server that answers its requests with `answers` in turn, over any number of connections. An empty answer
/// closes the connection.
fn serve(answers: Vec<&'static str>) -> (SocketAddr, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter();
        for mut stream in listener.incoming().flatten() {
            while let Some(asked) = request(&mut stream) {
                let answer = answers.next().unwrap_or_default();
                if sender.send(asked).is_err() || answer.is_empty() {
                    break;
                }
                if stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    (address, requests)
}

fn run<R: 'static, F: Future<Output = R> + 'static>(
    address: SocketAddr,
    (payload, checksum): (Payload, Option<Checksum>),
    ask: impl FnOnce(Client<PlainTcp>) -> F,
) -> R {
    let executor = Executor::new().expect("an event loop");
    let dialer = Rc::new(Dialer::new(executor.clone(), address, 0));
    let connecting = Connecting {
        keep_alive: true,
        reset: false,
        repeat: false,
        timeout_ns: TIMEOUT_NS,
    };
    let buffer = Rc::new(RefCell::new(vec![0; 4096].into_boxed_slice()));
    let connection = Connection::new(executor.clone(), dialer, connecting, buffer, Limits::default());
    let settings = Settings {
        host: address.to_string(),
        bucket: "b".to_owned(),
        base: "/b".to_owned(),
        payload,
        checksum,
        is_secure: false,
    };
    let credentials = Credentials {
        key_id: "ID".to_owned(),
        secret: "secret".to_owned(),
        session_token: Some("token".to_owned()),
    };
    let signer = Signer::new(Some(credentials), "us-east-1");
    let client = Client::new(connection, Rc::new(settings), Rc::new(RefCell::new(signer)));
    let result = Rc::new(RefCell::new(None));
    let (slot, asking) = (result.clone(), ask(client));
    executor.spawn(async move {
        let answer = asking.await;
        *slot.borrow_mut() = Some(answer);
    });
    executor.run(|| false).expect("the loop runs");
    let answer = result.borrow_mut().take();
    answer.expect("an answer")
}

const UNSIGNED: (Payload, Option<Checksum>) = (Payload::Unsigned, None);

fn call() -> Call {
    Call::new(monotonic_ns())
}

/// Performs a GET of a part, to which the server sends `answer`.
fn get_part(answer: &'static str) -> Result<(Option<u64>, Vec<u8>), Failure> {
    let (address, _requests) = serve(vec![answer]);
    run(address, UNSIGNED, |mut client| async move {
        let mut content = Vec::new();
        let mut take = |data: &[u8]| content.extend_from_slice(data);
        let found = client.get("k", Some((2, 5)), &mut take, &mut call()).await?;
        Ok((found.bytes, content))
    })
}

#[test]
fn a_put_sends_its_content_once_and_returns_the_etag() {
    let ok = "HTTP/1.1 200 OK\r\nETag: \"abc\"\r\nContent-Length: 0\r\n\r\n";
    for (payload, checksum, hash) in [
        (Payload::Unsigned, None, "UNSIGNED-PAYLOAD"),
        (
            Payload::Signed,
            Some(Checksum::Crc32),
            "c775e7b757ede630cd0aa1113bd102661ab38829ca52a6422ab782862f268646",
        ),
    ] {
        let (address, requests) = serve(vec![ok, ok]);
        let tags = run(address, (payload, checksum), |mut client| async move {
            // More pieces than fit in one system call.
            let ten: Vec<&[u8]> = b"1234567890".chunks(1).collect();
            let first = client.put("a b/c", &[b"12345", b"67890"], &mut call()).await;
            [first, client.put("a b/c", &ten, &mut call()).await]
        });
        for tag in tags {
            assert_eq!(tag, Ok(Tag::of(b"abc")));
            let (head, body) = requests.recv_timeout(Duration::from_secs(30)).expect("a request");
            assert_eq!(body, b"1234567890");
            assert!(head.starts_with("PUT /b/a%20b/c HTTP/1.1\r\n"), "{head}");
            assert!(
                head.contains(&format!("x-amz-content-sha256:{hash}\r\n")),
                "{head}"
            );
            assert!(head.contains("\r\nx-amz-security-token:token\r\n"), "{head}");
            assert_eq!(
                head.contains("\r\nx-amz-checksum-crc32:Jh2u5Q==\r\n"),
                checksum.is_some(),
                "{head}"
            );
        }
    }
}

#[test]
fn a_chunked_put_declares_the_length_of_its_frames() {
    let (address, requests) = serve(vec!["HTTP/1.1 200 OK\r\nETag: x\r\nContent-Length: 0\r\n\r\n"]);
    let chunked = (Payload::Chunked, Some(Checksum::Crc32));
    let tag = run(address, chunked, |mut client| async move {
        client.put("k", &[b"12345", b"67890"], &mut call()).await
    });
    assert_eq!(tag, Ok(Tag::of(b"x")));
    let (head, body) = requests.recv_timeout(Duration::from_secs(30)).expect("a request");
    assert!(
        head.contains("x-amz-content-sha256:STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\nx-amz-decoded-content-length:10\r\n"), "{head}");
    let body = String::from_utf8(body).expect("ASCII");
    assert!(body.starts_with("5;chunk-signature="), "{body}");
    assert!(
        body.contains("\r\nx-amz-checksum-crc32:Jh2u5Q==\r\nx-amz-trailer-signature:"),
        "{body}"
    );
    assert!(body.ends_with("\r\n\r\n"), "{body}");
    assert!(
        !body.contains(&"0".repeat(64)),
        "all places have a signature: {body}"
    );
}

#[test]
fn a_part_of_an_object_is_passed_on_and_any_other_answer_is_an_error() {
    let part = get_part("HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n\r\n2345");
    assert_eq!(part, Ok((Some(4), b"2345".to_vec())));
    let fault = |answer| get_part(answer).expect_err("not a part").fault;
    assert_eq!(
        fault("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n2345"),
        Fault::MalformedMessage
    );
    let missing =
        "HTTP/1.1 404 Not Found\r\nContent-Length: 44\r\n\r\n<Error><Code>NoSuchKey</Code></Error>       ";
    assert_eq!(fault(missing), Fault::ObjectMissing);
}

#[test]
fn no_request_is_sent_twice() {
    let ok = "HTTP/1.1 200 OK\r\nETag: x\r\nContent-Length: 0\r\n\r\n";
    let (address, requests) = serve(vec![ok, "", ok]);
    let results = run(address, UNSIGNED, |mut client| async move {
        let mut results = Vec::new();
        for _ in 0..3 {
            results.push(client.put("k", &[b"1"], &mut call()).await);
        }
        results
    });
    let ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(ok, [true, false, true], "{results:?}");
    assert_eq!(requests.iter().take(3).count(), 3);
    assert!(requests.try_recv().is_err(), "a fourth request");
}

#[test]
fn an_error_or_an_invalid_document_with_a_success_status_fails() {
    let (address, _requests) = serve(vec![
        "HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n<Error><Code>InternalError</Code></Error>",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 Slow Down\r\nContent-Length: 36\r\n\r\n<Error><Code>SlowDown</Code></Error>",
    ]);
    let failures = run(address, UNSIGNED, |mut client| async move {
        [
            client.copy("a", "b", &mut call()).await.expect_err("an error"),
            client.copy("a", "b", &mut call()).await.expect_err("no document"),
            client.put("a", &[], &mut call()).await.expect_err("no ETag"),
            client.put("a", &[], &mut call()).await.expect_err("refused"),
        ]
    });
    let faults = failures.map(|failure| failure.fault);
    let expected = [
        Fault::ErrorStatus,
        Fault::MalformedMessage,
        Fault::MalformedMessage,
        Fault::SlowDown,
    ];
    assert_eq!(faults, expected);
    assert!(
        failures[0].to_string().ends_with("status 200 InternalError"),
        "{}",
        failures[0]
    );
}

#[test]
fn a_multipart_upload_names_its_parts_in_order() {
    let (address, requests) = serve(vec![
        "HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n<R><UploadId>u/1+=</UploadId></R>                                ",
        "HTTP/1.1 200 OK\r\nETag: \"p&1\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 28\r\n\r\n<R><ETag>\"all-1\"</ETag></R>\n",
    ]);
    let tag = run(address, UNSIGNED, |mut client| async move {
        let upload = client.begin_upload("k", &mut call()).await?;
        let part = client.put_part("k", &upload, 1, &[b"x"], &mut call()).await?;
        client.complete_upload("k", &upload, &[part], &mut call()).await
    });
    assert_eq!(tag, Ok(Tag::of(b"all-1")));
    let asked: Vec<(String, Vec<u8>)> = requests.iter().take(3).collect();
    assert!(asked[0].0.starts_with("POST /b/k?uploads= "), "{}", asked[0].0);
    let part = "PUT /b/k?partNumber=1&uploadId=u%2F1%2B%3D ";
    assert!(asked[1].0.starts_with(part), "{}", asked[1].0);
    let list = String::from_utf8_lossy(&asked[2].1).into_owned();
    assert!(
        list.contains("<Part><PartNumber>1</PartNumber><ETag>\"p&amp;1\"</ETag></Part>"),
        "{list}"
    );
}

#[test]
fn no_such_upload_means_no_uploads_and_any_other_error_fails() {
    let (address, _requests) = serve(vec![
        "HTTP/1.1 404 Not Found\r\nContent-Length: 40\r\n\r\n<Error><Code>NoSuchUpload</Code></Error>",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 40\r\n\r\n<Error><Code>NoSuchBucket</Code></Error>",
    ]);
    let (none, failed) = run(address, UNSIGNED, |mut client| async move {
        let none = client.list_uploads("p", None, &mut call()).await;
        (none, client.list_uploads("p", None, &mut call()).await)
    });
    assert_eq!(none, Ok(UploadsPage::default()));
    assert!(failed.is_err_and(|failure| failure.to_string().ends_with("NoSuchBucket")));
}

#[test]
fn requests_are_counted_under_their_names_in_s3_whatever_the_answer() {
    let (address, _requests) = serve(vec![
        "HTTP/1.1 200 OK\r\nETag: x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "",
    ]);
    let mut counted = run(address, UNSIGNED, |mut client| async move {
        let (mut calls, mut sum) = ([call(); 4], call());
        let _ = client.put("k", &[b"x"], &mut calls[0]).await;
        let _ = client.head("k", &mut calls[1]).await;
        let _ = client.delete("k", &mut calls[2]).await;
        let _ = client.delete("k", &mut calls[3]).await;
        calls.iter().for_each(|call| sum.merge(call));
        sum.requests.by_name().collect::<Vec<_>>()
    });
    counted.sort_unstable();
    assert_eq!(
        counted,
        [("DeleteObject", 2), ("HeadObject", 1), ("PutObject", 1)]
    );
}
