//! Handwritten responses with expected results. In the tables `|` stands for CR LF.

use super::reading::{check, Ending};
use dyno_measure::Fault;

fn bytes(text: &str) -> Vec<u8> {
    text.replace('|', "\r\n").into_bytes()
}

fn whole(status: u16, body: &str, stays_open: bool) -> Ending {
    Ending::Whole {
        status,
        body: body.as_bytes().to_vec(),
        stays_open,
    }
}

fn check_kept(cases: &[(&str, u16, &str)]) {
    for (response, status, body) in cases {
        check(&bytes(response), &whole(*status, body, true));
    }
}

fn check_closing(cases: &[(&str, u16, &str)]) {
    for (response, status, body) in cases {
        check(&bytes(response), &whole(*status, body, false));
    }
}

fn check_failing(fault: Fault, cases: &[&str]) {
    for response in cases {
        check(&bytes(response), &Ending::Failed(fault));
    }
}

#[test]
fn a_content_length_ends_the_body() {
    check_kept(&[
        ("HTTP/1.1 200 OK|Content-Length: 5||hello", 200, "hello"),
        ("HTTP/1.1 200 OK|Content-Length: 0||", 200, ""),
        ("HTTP/1.1 200 OK|content-LENGTH:\t 0005 \t||hello", 200, "hello"),
        ("HTTP/1.1 404|Content-Length: 2||no", 404, "no"),
        ("HTTP/1.1 599 |Content-Length: 0||", 599, ""),
        (
            "HTTP/1.1 200 OK|Content-Length: 5|Content-Length: 5||hello",
            200,
            "hello",
        ),
        ("HTTP/1.1 200 OK|Content-Length: 5, 5||hello", 200, "hello"),
        (
            "HTTP/1.1 200 OK|Content-Length: 5,5 ,\t05|content-length: 5||hello",
            200,
            "hello",
        ),
    ]);
}

#[test]
fn blanks_before_the_colon_are_not_part_of_a_name() {
    check_kept(&[
        (
            "HTTP/1.1 200 OK|Server : old|Content-Length : 5||hello",
            200,
            "hello",
        ),
        ("HTTP/1.1 200 OK|Transfer-Encoding\t: chunked||0||", 200, ""),
    ]);
    check_failing(
        Fault::MalformedHead,
        &[
            "HTTP/1.1 200 OK|Content-Length : 5|Content-Length: 6||hello",
            "HTTP/1.1 200 OK|Content-Length : 5|Transfer-Encoding : chunked||0||",
        ],
    );
}

#[test]
fn a_field_may_be_folded_and_repeated() {
    check_kept(&[
        ("HTTP/1.1 200 OK|X: a|  b|Content-Length: 5||hello", 200, "hello"),
        ("HTTP/1.1 200 OK|Content-Length:| 5||hello", 200, "hello"),
        ("HTTP/1.1 200 OK|Content-Length: 5|\t||hello", 200, "hello"),
        ("HTTP/1.1 200 OK|Transfer-Encoding:| chunked||0||", 200, ""),
    ]);
    check_failing(
        Fault::MalformedHead,
        &[
            "HTTP/1.1 200 OK| X: a|Content-Length: 5||hello",
            "HTTP/1.1 200 OK|Content-Length: 5| 5||hello",
            "HTTP/1.1 200 OK|Content-Length: 5|Content-Length: 6||hello",
            "HTTP/1.1 200 OK|Content-Length: 5, 5|Content-Length: 6||hello",
        ],
    );
    let many = format!("HTTP/1.1 200 OK|{}Content-Length: 5||hello", "X: y|".repeat(900));
    check_kept(&[(&many, 200, "hello")]);
    let long = format!(
        "HTTP/1.1 200 OK|X: {}|Content-Length: 5||hello",
        "y".repeat(100_000)
    );
    check_kept(&[(&long, 200, "hello")]);
}

#[test]
fn without_a_length_the_body_ends_with_the_connection() {
    check_closing(&[
        ("HTTP/1.0 200 OK||hello", 200, "hello"),
        ("HTTP/1.1 200 OK||hello", 200, "hello"),
        ("HTTP/1.1 200 OK||", 200, ""),
        ("HTTP/1.0 200 OK|Connection: keep-alive||hello", 200, "hello"),
    ]);
}

#[test]
fn some_answers_have_no_body_whatever_their_head_declares() {
    check_kept(&[
        ("HTTP/1.1 204 No Content||", 204, ""),
        ("HTTP/1.1 304 Not Modified|Content-Length: 500||", 304, ""),
        ("HTTP/1.1 204 No Content|Transfer-Encoding: chunked||", 204, ""),
    ]);
    check_failing(
        Fault::ExcessData,
        &["HTTP/1.1 204 No Content|Content-Length: 2||no"],
    );
}

#[test]
fn interim_answers_come_before_the_final_one() {
    check_kept(&[
        (
            "HTTP/1.1 100 Continue||HTTP/1.1 200 OK|Content-Length: 2||ok",
            200,
            "ok",
        ),
        (
            "HTTP/1.1 103 Early Hints|Link: </a>||HTTP/1.1 102 P||HTTP/1.1 204 N||",
            204,
            "",
        ),
        ("HTTP/1.1 100 C|Content-Length: 9||HTTP/1.1 204 N||", 204, ""),
    ]);
    // A WebDAV server sends a 102 every few seconds during a long operation (RFC 2518, section 10.1).
    let many = format!("{}HTTP/1.1 204 N||", "HTTP/1.1 102 P||".repeat(100));
    check_kept(&[(&many, 204, "")]);
    check_failing(Fault::ClosedEarly, &["HTTP/1.1 100 Continue||"]);
}

#[test]
fn chunks_are_joined() {
    let head = "HTTP/1.1 200 OK|Transfer-Encoding: chunked||";
    for body in [
        "5|hello|0||",
        "2|he|3|llo|0||",
        "0005|hello|000||",
        "5;name=value|hello|0;last||",
        "5;quoted=\"a;b\\\"c\"|hello|0||",
        "5 \t|hello|0||",
        "5 ; a = b|hello|0||",
        "5|hello|0|Trailer: value|Other:||",
        "5\nhello\n0\n\n",
        "5|hello|0\n|",
    ] {
        check(&bytes(&format!("{head}{body}")), &whole(200, "hello", true));
    }
    check_kept(&[
        ("HTTP/1.1 200 OK|transfer-encoding: CHUNKED ||0||", 200, ""),
        (
            "HTTP/1.1 200 OK|Transfer-Encoding: chunked||a|0123456789|A|0123456789|0||",
            200,
            "01234567890123456789",
        ),
    ]);
}

#[test]
fn broken_chunks_are_malformed() {
    for body in [
        "|hello|0||",
        "x|hello|0||",
        "-5|hello|0||",
        "+5|hello|0||",
        "0x5|hello|0||",
        " 5|hello|0||",
        "5 5|hello|0||",
        "5 hello|hello|0||",
        "5\rhello|0||",
        "5\r\rhello",
        "5;a\rb|hello|0||",
        "5|hello0||",
        "5|hello\rx",
        "5|hello world|0||",
        "10000000000000000|hello|0||",
        "fffffffffffffffff|hello|0||",
        "5|hello|0|no colon|",
        "5|hello|0|: no name|",
        "5|hello|0|Name: value\rx",
        "5|hello|0|Na me: value|",
        "5|hello|0|\r\r",
        "5|hello|0|HTTP/1.1 200 OK|",
    ] {
        let response = format!("HTTP/1.1 200 OK|Transfer-Encoding: chunked||{body}");
        check(&bytes(&response), &Ending::Failed(Fault::MalformedChunk));
    }
}

#[test]
fn a_large_chunk_is_read_up_to_the_limit() {
    check_failing(
        Fault::ClosedEarly,
        &["HTTP/1.1 200 OK|Transfer-Encoding: chunked||10000000000|hello"],
    );
    check_failing(
        Fault::BodyTooLarge,
        &["HTTP/1.1 200 OK|Transfer-Encoding: chunked||ffffffffffffffff|hello"],
    );
}

#[test]
fn bare_line_feeds_end_the_lines_of_a_head() {
    check_kept(&[
        ("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok"),
        ("HTTP/1.1 200 OK\nContent-Length: 2||ok", 200, "ok"),
    ]);
}

#[test]
fn a_length_that_is_not_a_single_number_is_malformed() {
    for value in [
        "",
        "-1",
        "+1",
        "1.0",
        "0x1",
        "1 1",
        "5, 6",
        "5, 5, 6",
        "5,",
        ",5",
        "five",
        "5;",
        "18446744073709551616",
        "99999999999999999999999999",
    ] {
        let response = format!("HTTP/1.1 200 OK|Content-Length: {value}||hello");
        check(&bytes(&response), &Ending::Failed(Fault::MalformedHead));
    }
    check_failing(
        Fault::MalformedHead,
        &["HTTP/1.1 200 OK|Content-Length: 5|Content-Length: 6||hello"],
    );
}

#[test]
fn a_large_body_is_read_up_to_the_limit() {
    check_failing(
        Fault::ClosedEarly,
        &["HTTP/1.1 200 OK|Content-Length: 1099511627776||hello"],
    );
    check_failing(
        Fault::BodyTooLarge,
        &["HTTP/1.1 200 OK|Content-Length: 18446744073709551615||hello"],
    );
}

#[test]
fn only_a_single_chunked_transfer_coding_is_accepted() {
    for fields in [
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding:",
        "Transfer-Encoding: chunked|Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked|Content-Length: 5",
        "Content-Length: 5|Transfer-Encoding: chunked",
    ] {
        let response = format!("HTTP/1.1 200 OK|{fields}||0||");
        check(&bytes(&response), &Ending::Failed(Fault::MalformedHead));
    }
    check_failing(
        Fault::MalformedHead,
        &["HTTP/1.0 200 OK|Transfer-Encoding: chunked||0||"],
    );
}

#[test]
fn a_response_that_is_not_http_has_a_malformed_head() {
    check_failing(
        Fault::MalformedHead,
        &[
            "garbage",
            "<html></html>",
            "\0\0\0\0",
            "HTTP/2 200||",
            "HTTP/1.2 200 OK||",
            "HTTP/0.9 200 OK||",
            "http/1.1 200 OK||",
            "HTTP/1.1 20 OK||",
            "HTTP/1.1 2000 OK||",
            "HTTP/1.1 abc OK||",
            "HTTP/1.1 000 Zero||HTTP/1.1 204 N||",
            "HTTP/1.1 099 Low||HTTP/1.1 204 N||",
            "HTTP/1.1 101 Switching Protocols|Upgrade: x||",
            "HTTP/1.1 200 OK|No colon||",
            "HTTP/1.1 200 OK|: no name||",
            "HTTP/1.1 200 OK|A: \0||",
            "HTTP/1.1 200 OK\rA: b||",
            "\x16\x03\x01\x02",
        ],
    );
}

#[test]
fn an_end_before_the_response_is_complete_is_early() {
    check_failing(
        Fault::ClosedEarly,
        &[
            "",
            "|",
            "HTTP",
            "HTTP/1.1 200 OK|Content-Length: 5",
            "HTTP/1.1 200 OK|Content-Length: 5|",
            "HTTP/1.1 200 OK|Content-Length: 5||hell",
            "HTTP/1.1 200 OK|Transfer-Encoding: chunked||",
            "HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hell",
            "HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|0|",
            "HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|0|A: b|",
        ],
    );
}

#[test]
fn bytes_after_the_end_are_excess() {
    check_failing(
        Fault::ExcessData,
        &[
            "HTTP/1.1 200 OK|Content-Length: 5||hello!",
            "HTTP/1.1 200 OK|Content-Length: 0||HTTP/1.1 200 OK|Content-Length: 0||",
            "HTTP/1.1 304 Not Modified||x",
            "HTTP/1.1 200 OK|Transfer-Encoding: chunked||0|||",
        ],
    );
}

#[test]
fn a_connection_is_kept_according_to_its_version_and_options() {
    for (version, connection, kept) in [
        ("1.1", "", true),
        ("1.1", "Connection: keep-alive|", true),
        ("1.1", "Connection: close|", false),
        ("1.1", "Connection: CLOSE|", false),
        ("1.1", "Connection: upgrade , close|", false),
        ("1.1", "Connection: keep-alive, close|", false),
        ("1.1", "Connection: keep-alive|connection: close|", false),
        ("1.1", "Connection: closed|", true),
        ("1.0", "", false),
        ("1.0", "Connection: close|", false),
        ("1.0", "Connection: Keep-Alive|", true),
        ("1.0", "Connection: keep-alive, close|", false),
        ("1.0", "Keep-Alive: timeout=5|", false),
        ("1.0", "Connection: keep-alive-not|", false),
    ] {
        let response = format!("HTTP/{version} 200 OK|{connection}Content-Length: 2||ok");
        check(&bytes(&response), &whole(200, "ok", kept));
    }
}
