//! Sessions under load: what the steps send, and the effects of hostile answers. The servers are minimal;
//! `tests/whole/test_sessions.py` uses a whole application.

use super::http2::peer::{
    field, frame, Peer, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, STATUS_200,
};
use super::running::{level, problems, run, until_all_have_left};
use super::server::{Connection, Server};
use dyno_engine::{LevelSpec, LevelTally};
use serde_json::{json, Value};
use std::sync::{Arc, Mutex};

/// Protocol of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoken {
    Http1,
    Http2,
}

const BOTH: [Spoken; 2] = [Spoken::Http1, Spoken::Http2];

/// An answer in either version.
#[derive(Debug, Clone)]
struct Answer {
    status: u16,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

fn whole(fields: &[(&'static str, &str)], body: &[u8]) -> Answer {
    let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned()));
    Answer {
        status: 200,
        fields: fields.collect(),
        body: body.to_vec(),
    }
}

impl Answer {
    fn of_http1(&self) -> Vec<u8> {
        let fields = self.fields.iter();
        let fields: String = fields
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let (status, length) = (self.status, self.body.len());
        let head = format!("HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\n{fields}\r\n");
        [head.as_bytes(), &self.body].concat()
    }

    fn of_http2(&self, stream: u32) -> Vec<u8> {
        let mut block = field(":status", &self.status.to_string());
        for (name, value) in &self.fields {
            block.extend(field(&name.to_ascii_lowercase(), value));
        }
        let mut bytes = Vec::new();
        let last = block.chunks(16_384).len() - 1;
        for (place, part) in block.chunks(16_384).enumerate() {
            let kind = if place == 0 { HEADERS } else { CONTINUATION };
            let flags = if place == last { END_HEADERS } else { 0 };
            bytes.extend(frame(kind, flags, stream, part));
        }
        for part in self.body.chunks(16_384) {
            bytes.extend(frame(DATA, 0, stream, part));
        }
        bytes.extend(frame(DATA, END_STREAM, stream, b""));
        bytes
    }
}

/// Starts a server whose answer depends on the request's path. None: it closes the connection.
fn server(spoken: Spoken, answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static) -> Server {
    Server::start(move |mut connection: Connection| match spoken {
        Spoken::Http1 => {
            while let Some(answer) = connection.request().and_then(|path| answer(&path)) {
                connection.send(answer.of_http1());
            }
        }
        Spoken::Http2 => {
            let Some(mut peer) = Peer::begin(connection, &[]) else {
                return;
            };
            while let Some((stream, path)) = peer.path() {
                let Some(answer) = answer(&path) else { return };
                peer.send(&answer.of_http2(stream));
            }
        }
    })
}

fn session(spoken: Spoken, server: &Server, steps: Value) -> LevelSpec {
    let mut level = level(server.address);
    level.workload = json!({"name": "session", "steps": steps});
    level.clients = 1;
    level.window.length_s = 0.5;
    if spoken == Spoken::Http2 {
        level.client = json!({"version": "2"});
    }
    level
}

fn step(name: &str, path: &str) -> Value {
    json!({"name": name, "method": "GET", "path": path})
}

fn taking(name: &str, path: &str, take: Value) -> Value {
    let mut step = step(name, path);
    step["take"] = take;
    step
}

/// Returns the tally of a session of two steps whose first answer is `answer`, and the paths requested by
/// the second step.
fn after(spoken: Spoken, answer: Answer, take: Value, second: &str, ends: bool) -> (LevelTally, Vec<String>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let server = server(spoken, move |path| {
        if path == "/first" {
            return Some(answer.clone());
        }
        noted.lock().expect("no thread panicked").push(path.to_owned());
        Some(whole(&[], b"done"))
    });
    let steps = json!([taking("one", "/first", take), step("two", second)]);
    let mut level = session(spoken, &server, steps);
    level.client["max_head_bytes"] = 32_768.into();
    let tally = run(if ends { until_all_have_left(level) } else { level });
    let asked = asked.lock().expect("no thread panicked").clone();
    (tally, asked)
}

/// Checks that each round requested its own first path, then `/second`.
fn assert_rounds(asked: &[String]) {
    for (place, path) in asked.iter().enumerate() {
        let expected = if place % 2 == 0 {
            format!("/{}", place / 2 + 1)
        } else {
            "/second".to_owned()
        };
        assert_eq!(*path, expected);
    }
}

#[test]
fn values_of_every_source_are_used_in_the_next_step_and_steps_are_counted_by_name() {
    let fields = [
        ("X-Token", "a/b c"),
        ("Set-Cookie", "sid=old"),
        ("set-cookie", "sid=new; Path=/; HttpOnly"),
        ("x-token", "second"),
    ];
    let body = br#"{"keys": [{"id": 17}, {"id": true}], "html": "<input value='v1'>"}"#;
    let take = json!({
        "token": {"header": "x-token"},
        "sid": {"cookie": "sid"},
        "value": {"regex": "value='([^']+)'"},
        "all": {"regex": "inp.t"},
        "id": {"json_pointer": "/keys/0/id"},
        "yes": {"json_pointer": "/keys/1/id"},
    });
    let path = "/${token:url}?${sid}&${value}&${all}&${id}&${yes}&${client}&${thread}";
    for spoken in BOTH {
        let (tally, asked) = after(spoken, whole(&fields, body), take.clone(), path, false);
        assert_eq!(tally.errors, []);
        let expected = "/a%2Fb%20c?new&v1&input&17&true&1&1";
        assert!(asked.iter().all(|path| path == expected), "{:?}", asked.first());
        let counts: Vec<(&str, u64)> = tally
            .by_operation
            .iter()
            .map(|row| (row.operation.as_str(), row.count))
            .collect();
        let [("one", ones), ("two", twos)] = counts[..] else {
            panic!("{counts:?}")
        };
        assert!(twos > 0 && ones.abs_diff(twos) <= 1, "{counts:?}");
        assert!(asked.len() as u64 >= twos);
    }
}

#[test]
fn hostile_answers_are_errors_of_a_known_kind_and_the_next_step_is_not_sent() {
    let regex = || json!({"v": {"regex": "v=([a-z]+)"}});
    let header = || json!({"v": {"header": "X-V"}});
    let pointer = || json!({"v": {"json_pointer": "/v"}});
    let cookie = || json!({"v": {"cookie": "v"}});
    let field = |value: &str| whole(&[("X-V", value)], b"");
    let beyond = [vec![b' '; 256 * 1024], b"v=abc".to_vec()].concat();
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    for (fault, answer, take) in [
        ("missing_value", whole(&[], b"nothing"), regex()),
        ("missing_value", whole(&[], b""), header()),
        (
            "missing_value",
            whole(&[("Set-Cookie", "w=1; v=2")], b""),
            cookie(),
        ),
        ("missing_value", whole(&[], b"{not json"), pointer()),
        ("missing_value", whole(&[], b"{\"v\": null}"), pointer()),
        ("missing_value", whole(&[], b"{\"v\": {}}"), pointer()),
        ("missing_value", whole(&[], &deep), pointer()),
        ("missing_value", whole(&[], &beyond), regex()),
        ("unusable_value", field(&"x".repeat(4097)), header()),
        ("unusable_value", field("a b"), header()),
        (
            "unusable_value",
            whole(&[], b"{\"v\": \"a\\r\\nX: y\"}"),
            pointer(),
        ),
        ("head_too_large", field(&"x".repeat(64 * 1024)), header()),
    ] {
        for spoken in BOTH {
            let (tally, asked) = after(spoken, answer.clone(), take.clone(), "/${v}", true);
            let [error] = &tally.errors[..] else {
                panic!("{fault}: {:?}", tally.errors)
            };
            assert_eq!(error.fault, fault, "{spoken:?}");
            assert!(
                fault == "head_too_large" || error.example.ends_with(": v"),
                "{}",
                error.example
            );
            assert_eq!(asked, [""; 0], "{fault} {spoken:?}");
        }
    }
}

#[test]
fn an_endless_body_is_late() {
    let server = Server::start(|mut connection: Connection| {
        connection.request();
        let block = [b"2000\r\n", &[b'x'; 0x2000][..], b"\r\n"].concat();
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while connection.send(&block) {}
    });
    let take = json!({"v": {"regex": "(y+)"}});
    let steps = json!([taking("one", "/", take)]);
    let mut level = session(Spoken::Http1, &server, steps);
    level.timeout_s = 0.5;
    assert_eq!(
        run(until_all_have_left(level)).errors[0].fault,
        "response_timeout"
    );
}

#[test]
fn a_failed_step_restarts_the_session_without_values() {
    for spoken in BOTH {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        let server = server(spoken, move |path| {
            noted.lock().expect("no thread panicked").push(path.to_owned());
            Some(Answer {
                status: if path == "/second" { 500 } else { 200 },
                ..whole(&[("X-V", "v")], b"")
            })
        });
        let steps = json!([
            taking("one", "/${round}", json!({"v": {"header": "X-V"}})),
            step("two", "/second"),
            step("three", "/${v}"),
        ]);
        let tally = run(session(spoken, &server, steps));
        assert!(tally.errors.iter().all(|error| error.fault == "error_status"));
        let asked = asked.lock().expect("no thread panicked");
        assert!(asked.len() > 2);
        assert_rounds(&asked);
    }
}

#[test]
fn users_who_share_a_connection_have_their_own_values() {
    let server = server(Spoken::Http2, |path| match path.strip_prefix("/one/") {
        Some(thread) => Some(whole(&[("X-V", &format!("of{thread}"))], b"")),
        None => Some(Answer {
            status: if ["/of1?1", "/of2?2", "/of3?3"].contains(&path) {
                200
            } else {
                500
            },
            ..whole(&[], b"")
        }),
    });
    let steps = json!([
        taking("one", "/one/${thread}", json!({"v": {"header": "X-V"}})),
        step("two", "/${v}?${thread}"),
    ]);
    let mut level = session(Spoken::Http2, &server, steps);
    level.threads = 3;
    let tally = run(level);
    assert_eq!(tally.errors, []);
    assert_eq!(server.connections(), 1);
    assert!(tally.by_operation.iter().all(|row| row.count > 0));
}

#[test]
fn fields_of_interim_answers_and_trailers_are_not_values() {
    let hint = [field(":status", "103"), field("x-v", "hint")].concat();
    let server = Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        while let Some((stream, _)) = peer.path() {
            peer.send(&frame(HEADERS, END_HEADERS, stream, &hint));
            peer.send(&frame(HEADERS, END_HEADERS, stream, STATUS_200));
            let trailer = field("x-v", "trailer");
            peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailer));
        }
    });
    let steps = json!([taking("one", "/", json!({"v": {"header": "X-V"}}))]);
    let tally = run(until_all_have_left(session(Spoken::Http2, &server, steps)));
    assert_eq!(tally.errors[0].fault, "missing_value");
}

#[test]
fn a_malformed_answer_ends_the_session_and_the_next_one_has_no_old_values() {
    // The answer to the second step breaks a rule, first of its stream, then of the connection.
    for (fault, block, connections) in [
        ("malformed_head", field("No-Name", "x"), 1..=1),
        ("broken_compression", vec![0x80], 2..=u64::MAX),
    ] {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        let server = Server::start(move |connection| {
            let Some(mut peer) = Peer::begin(connection, &[]) else {
                return;
            };
            while let Some((stream, path)) = peer.path() {
                noted.lock().expect("no thread panicked").push(path.clone());
                if path == "/second" {
                    let broken = [STATUS_200, &block].concat();
                    peer.send(&frame(HEADERS, END_HEADERS, stream, &broken));
                } else {
                    peer.send(&whole(&[("X-V", "second")], b"").of_http2(stream));
                }
            }
        });
        let steps = json!([
            taking("one", "/${round}", json!({"v": {"header": "X-V"}})),
            step("two", "/${v}"),
            step("three", "/never"),
        ]);
        let tally = run(session(Spoken::Http2, &server, steps));
        assert!(
            tally.errors.iter().all(|error| error.fault == fault),
            "{:?}",
            tally.errors
        );
        assert!(
            connections.contains(&server.connections()),
            "{}",
            server.connections()
        );
        let asked = asked.lock().expect("no thread panicked");
        assert!(asked.len() > 2, "{asked:?}");
        assert_rounds(&asked);
    }
}

#[test]
fn a_step_without_an_answer_is_repeated_only_if_its_method_allows_it() {
    for spoken in BOTH {
        for (method, errors) in [("PUT", 0), ("POST", 1)] {
            let asked = Arc::new(Mutex::new(0));
            let counted = asked.clone();
            let server = server(spoken, move |path| {
                if path == "/second" {
                    let mut asked = counted.lock().expect("no thread panicked");
                    *asked += 1;
                    if *asked == 1 {
                        return None;
                    }
                }
                Some(whole(&[], b""))
            });
            let mut second = step("two", "/second");
            second["method"] = json!(method);
            let tally = run(session(spoken, &server, json!([step("one", "/"), second])));
            let all: u64 = tally.errors.iter().map(|error| error.count).sum();
            assert_eq!(all, errors, "{spoken:?} {method}: {:?}", tally.errors);
            assert!(tally.operations_total > 2);
        }
    }
}

#[test]
fn think_time_precedes_its_step_and_is_not_response_time() {
    let server = Server::answering(whole(&[], b"done").of_http1());
    let mut two = step("two", "/");
    two["think_s"] = json!(0.1);
    let mut level = session(Spoken::Http1, &server, json!([step("one", "/"), two]));
    level.window.length_s = 1.0;
    let tally = run(level);
    assert_eq!(tally.errors, []);
    // In one second, a user who waits 0.1 s each time can reach the second step at most nine times.
    let counts: Vec<u64> = tally.by_operation.iter().map(|row| row.count).collect();
    assert!((1..=9).contains(&counts[1]) && counts[0] <= 10, "{counts:?}");
}

#[test]
fn steps_that_cannot_be_sent_are_all_refused_before_load() {
    let server = Server::answering("");
    let steps = json!([
        taking("a", "/", json!({"v": {"regex": "("}, "client": {"header": "x"}})),
        step("a", "/${w}"),
        {"name": "c", "method": "CONNECT", "path": "no path", "headers": [["Content-Length", "${v}"]], "body": "${"},
    ]);
    let told = problems(&session(Spoken::Http1, &server, steps));
    for part in [
        "step 1 (a): \"(\" is not a valid regular expression",
        "step 1 (a): client is a reserved name",
        "step 2 (a): another step has the same name",
        "step 2 (a): ${w}: no earlier step takes \"w\"",
        "step 3 (c): method \"CONNECT\"",
        "step 3 (c): the header Content-Length",
        "step 3 (c): \"no path\" is not a path",
        "step 3 (c): a ${ lacks its }",
    ] {
        assert!(told.contains(part), "{part} is not in:\n{told}");
    }
    assert!(problems(&session(Spoken::Http1, &server, json!([]))).contains("1 to 250 steps"));
    let own = taking("a", "/${v}", json!({"v": {"header": "x"}}));
    assert!(problems(&session(Spoken::Http1, &server, json!([own]))).contains("no earlier step takes"));
    let mut ahead = session(Spoken::Http1, &server, json!([step("a", "/")]));
    ahead.client = json!({"pipeline": 4});
    assert!(problems(&ahead).contains("client.pipeline"));
}
