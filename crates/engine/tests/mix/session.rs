//! Sessions under load: what steps send, and what hostile answers come to. The servers are of a few lines each; a whole
//! application is in `tests/test_sessions.py`.

use crate::running::{mix, problems, run, until_all_have_left};
use crate::server::{Connection, Server};
use dyno_engine::{MixSpec, MixTally};
use serde_json::{json, Value};
use std::sync::{Arc, Mutex};

fn session(server: &Server, steps: Value) -> MixSpec {
    let mut mix = mix(server.address);
    mix.workload = json!({"name": "session", "steps": steps});
    mix.clients = 1;
    mix
}

fn step(name: &str, path: &str) -> Value {
    json!({"name": name, "method": "GET", "path": path})
}

fn taking(name: &str, path: &str, take: Value) -> Value {
    let mut step = step(name, path);
    step["take"] = take;
    step
}

fn whole(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// What a session of two steps comes to whose first answer is `answer`, and the paths of the second.
fn after(answer: Vec<u8>, take: Value, second: &str, ends: bool) -> (MixTally, Vec<String>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let server = Server::start(move |mut connection: Connection| {
        while let Some(path) = connection.request() {
            let sent = if path == "/first" {
                connection.send(&answer)
            } else {
                noted.lock().expect("no thread panicked").push(path);
                connection.send(whole("", b"done"))
            };
            if !sent {
                return;
            }
        }
    });
    let steps = json!([taking("one", "/first", take), step("two", second)]);
    let mix = session(&server, steps);
    let tally = run(if ends { until_all_have_left(mix) } else { mix });
    let asked = asked.lock().expect("no thread panicked").clone();
    (tally, asked)
}

#[test]
fn values_of_every_source_go_into_the_next_step_and_steps_are_counted_by_name() {
    let fields = "X-Token: a/b c\r\nSet-Cookie: sid=old\r\nset-cookie: sid=new; Path=/; HttpOnly\r\n";
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
    let (tally, asked) = after(whole(fields, body), take, path, false);
    assert_eq!(tally.errors, []);
    assert!(
        asked
            .iter()
            .all(|path| path == "/a%2Fb%20c?new&v1&input&17&true&1&1"),
        "{:?}",
        asked.first()
    );
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

#[test]
fn hostile_answers_are_errors_of_a_named_kind_and_the_next_step_is_not_sent() {
    let regex = || json!({"v": {"regex": "v=([a-z]+)"}});
    let header = || json!({"v": {"header": "X-V"}});
    let pointer = || json!({"v": {"json_pointer": "/v"}});
    let field = |value: &str| whole(&format!("X-V: {value}\r\n"), b"");
    let beyond = [vec![b' '; 256 * 1024], b"v=abc".to_vec()].concat();
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    for (fault, answer, take) in [
        ("missing_value", whole("", b"nothing"), regex()),
        ("missing_value", whole("", b""), header()),
        (
            "missing_value",
            whole("Set-Cookie: w=1; v=2\r\n", b""),
            json!({"v": {"cookie": "v"}}),
        ),
        ("missing_value", whole("", b"{not json"), pointer()),
        ("missing_value", whole("", b"{\"v\": null}"), pointer()),
        ("missing_value", whole("", b"{\"v\": {}}"), pointer()),
        ("missing_value", whole("", &deep), pointer()),
        ("missing_value", whole("", &beyond), regex()),
        ("unusable_value", field(&"x".repeat(4097)), header()),
        ("unusable_value", field("a b"), header()),
        (
            "unusable_value",
            whole("", b"{\"v\": \"a\\r\\nX: y\"}"),
            pointer(),
        ),
        ("head_too_large", field(&"x".repeat(64 * 1024)), header()),
    ] {
        let (tally, asked) = after(answer, take, "/${v}", true);
        let [error] = &tally.errors[..] else {
            panic!("{fault}: {:?}", tally.errors)
        };
        assert_eq!(error.fault, fault);
        assert!(
            fault == "head_too_large" || error.example.ends_with(": v"),
            "{}",
            error.example
        );
        assert_eq!(asked, [""; 0], "{fault}");
    }
}

#[test]
fn a_body_without_end_is_late() {
    let server = Server::start(|mut connection: Connection| {
        connection.request();
        let block = [b"2000\r\n", &[b'x'; 0x2000][..], b"\r\n"].concat();
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while connection.send(&block) {}
    });
    let take = json!({"v": {"regex": "(y+)"}});
    let mut mix = until_all_have_left(session(&server, json!([taking("one", "/", take)])));
    mix.timeout_s = 0.5;
    assert_eq!(run(mix).errors[0].fault, "response_timeout");
}

#[test]
fn a_step_that_fails_begins_the_session_again_with_nothing_kept() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let server = Server::start(move |mut connection: Connection| {
        while let Some(path) = connection.request() {
            noted.lock().expect("no thread panicked").push(path.clone());
            let answer = match path.as_str() {
                "/second" => b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
                path => whole(&format!("X-V: {}\r\n", path.len()), b""),
            };
            connection.send(answer);
        }
    });
    let steps = json!([
        taking("one", "/${round}", json!({"v": {"header": "X-V"}})),
        step("two", "/second"),
        step("three", "/${v}"),
    ]);
    let tally = run(session(&server, steps));
    assert!(tally.errors.iter().all(|error| error.fault == "error_status"));
    let asked = asked.lock().expect("no thread panicked");
    assert!(asked.len() > 2);
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
fn think_time_comes_before_its_step_and_is_no_response_time() {
    let server = Server::answering(whole("", b"done"));
    let mut two = step("two", "/");
    two["think_s"] = json!(0.1);
    let mut mix = session(&server, json!([step("one", "/"), two]));
    mix.window.length_s = 1.0;
    let tally = run(mix);
    assert_eq!(tally.errors, []);
    // In a second, a user that waits a tenth each time can make the second step nine times at most.
    let counts: Vec<u64> = tally.by_operation.iter().map(|row| row.count).collect();
    assert!((1..=9).contains(&counts[1]) && counts[0] <= 10, "{counts:?}");
}

#[test]
fn steps_that_could_not_be_sent_are_refused_before_load_all_at_once() {
    let server = Server::answering("");
    let steps = json!([
        taking("a", "/", json!({"v": {"regex": "("}, "client": {"header": "x"}})),
        step("a", "/${w}"),
        {"name": "c", "method": "HEAD", "path": "no path", "headers": [["Content-Length", "${v}"]], "body": "${"},
    ]);
    let told = problems(&session(&server, steps));
    for part in [
        "step 1 (a): the expression \"(\" is none",
        "step 1 (a): client has a meaning",
        "step 2 (a): another step has the same name",
        "step 2 (a): ${w}: no step before this one takes \"w\"",
        "step 3 (c): method \"HEAD\"",
        "step 3 (c): the header Content-Length",
        "step 3 (c): \"no path\" is no path",
        "step 3 (c): a ${ has no }",
    ] {
        assert!(told.contains(part), "{part} is not in:\n{told}");
    }
    assert!(problems(&session(&server, json!([]))).contains("1 to 250 steps"));
    let own = taking("a", "/${v}", json!({"v": {"header": "x"}}));
    assert!(problems(&session(&server, json!([own]))).contains("no step before this one takes"));
    let mut over_http2 = session(&server, json!([step("a", "/")]));
    over_http2.client = json!({"version": "2"});
    assert!(problems(&over_http2).contains("sessions"));
}
