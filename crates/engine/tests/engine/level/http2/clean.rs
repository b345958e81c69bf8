//! Correct HTTP/2 servers with various permitted behaviours.

use super::peer::{
    field, frame, hello, setting, Peer, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS,
    PADDED, PING, PRIORITY, RST_STREAM, SETTINGS, STATUS_200, WINDOW_UPDATE, WITH_PRIORITY,
};
use crate::level::running::{faults, level, run, with_client};
use crate::level::server::Server;
use dyno_engine::{LevelSpec, LevelTally};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) fn http2(server: &Server, streams: usize) -> LevelSpec {
    let mut level = with_client(level(server.address), "version", json!("2"));
    level.client["streams"] = json!(streams);
    level.threads = streams;
    level
}

fn answering(respond: impl Fn(&mut Peer, u32) + Send + Sync + 'static) -> Server {
    Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        while let Some(stream) = peer.request() {
            respond(&mut peer, stream);
        }
    })
}

/// Checks that every operation succeeds and that the server counted each one.
fn check(server: &Server, level: LevelSpec) -> LevelTally {
    let clients = level.clients as u64;
    let tally = run(level);
    assert_eq!(faults(&tally), []);
    assert_eq!(tally.operations_total, server.requests());
    assert_eq!(tally.requests[0].request, "HTTP/2 stream");
    assert_eq!(tally.requests[0].count, server.requests());
    assert_eq!(tally.generator.connections, server.connections());
    assert!(tally.operations_total >= clients);
    tally
}

#[test]
fn threads_of_a_client_share_connections_with_the_configured_number_of_streams() {
    for (threads, streams, connections) in [(1, 1, 2), (10, 10, 2), (10, 4, 6), (3, 100, 2)] {
        let server = answering(|peer, stream| peer.send(&hello(stream)));
        let level = LevelSpec {
            threads,
            ..http2(&server, streams)
        };
        let tally = check(&server, level);
        assert_eq!(tally.generator.connections, connections);
        let read: u64 = tally.by_operation[0].bytes_read;
        assert_eq!(read, tally.by_operation[0].count * 5);
    }
}

#[test]
fn all_permitted_server_behaviour_is_understood() {
    let server = answering(|peer, stream| {
        let mut head = STATUS_200.to_vec();
        head.extend(field("content-length", "5"));
        let padded = [&[3][..], &head, &[0; 3]].concat();
        let prioritised = [&[0, 0, 0, 0, 7][..], &head].concat();
        let hint = [&field(":status", "103")[..], &field("link", "<a>")].concat();
        let end = frame(DATA, END_STREAM, stream, b"lo");
        let ways: [Vec<Vec<u8>>; 7] = [
            vec![
                frame(HEADERS, END_HEADERS | PADDED, stream, &padded),
                frame(DATA, 0, stream, b"hel"),
                end.clone(),
            ],
            vec![
                frame(HEADERS, END_HEADERS | WITH_PRIORITY, stream, &prioritised),
                frame(DATA, PADDED, stream, b"\x04hel\0\0\0\0"),
                frame(DATA, 0, stream, b""),
                end.clone(),
            ],
            vec![
                frame(HEADERS, 0, stream, &head[..3]),
                frame(CONTINUATION, 0, stream, &head[3..7]),
                frame(CONTINUATION, END_HEADERS, stream, &head[7..]),
                frame(DATA, 0, stream, b"hello"),
                frame(
                    HEADERS,
                    END_HEADERS | END_STREAM,
                    stream,
                    &field("x-trailer", "1"),
                ),
            ],
            vec![frame(HEADERS, END_HEADERS, stream, &hint), hello(stream)],
            vec![
                frame(PING, 0, 0, &[1; 8]),
                frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 1]),
                hello(stream),
            ],
            vec![
                frame(0x77, 0xff, stream, b"unknown"),
                frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 9]),
                hello(stream),
            ],
            vec![
                frame(SETTINGS, 0, 0, &setting(0x99, 1)),
                frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 9]),
                hello(stream),
            ],
        ];
        let way = &ways[(stream as usize / 2) % ways.len()];
        peer.send(&way.concat());
    });
    let tally = check(&server, http2(&server, 3));
    assert_eq!(tally.by_operation[0].bytes_read, tally.by_operation[0].count * 5);
}

#[test]
fn windows_are_returned_so_that_a_large_body_arrives_completely() {
    const BODY: usize = 6 << 20;
    let server = Server::start(|connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        let (mut window, mut of_stream) = (65_535i64, 0i64);
        let Some(first) = peer.read() else { return };
        assert_eq!(first.kind, SETTINGS);
        for value in first.payload.chunks(6) {
            if value[1] == 4 {
                of_stream = i64::from(u32::from_be_bytes([value[2], value[3], value[4], value[5]]));
            }
        }
        let initial = of_stream;
        let (mut rest, mut stream) = (0usize, 0);
        loop {
            while rest > 0 && window.min(of_stream) >= 16_384 {
                let size = rest.min(16_384);
                rest -= size;
                window -= size as i64;
                of_stream -= size as i64;
                peer.send(&frame(
                    DATA,
                    if rest == 0 { END_STREAM } else { 0 },
                    stream,
                    &vec![7; size],
                ));
            }
            let Some(next) = peer.read() else { return };
            match next.kind {
                HEADERS => {
                    peer.connection.count();
                    (rest, stream, of_stream) = (BODY, next.stream, initial);
                    peer.send(&frame(HEADERS, END_HEADERS, stream, STATUS_200));
                }
                WINDOW_UPDATE => {
                    let more = i64::from(u32::from_be_bytes(next.payload.try_into().expect("four bytes")));
                    if next.stream == 0 {
                        window += more;
                    } else if next.stream == stream {
                        of_stream += more;
                    }
                }
                _ => {}
            }
        }
    });
    let tally = check(&server, http2(&server, 1));
    assert_eq!(
        tally.by_operation[0].bytes_read,
        tally.by_operation[0].count * BODY as u64
    );
}

/// Returns `bytes` bytes of value 1 in base 64; the number must be a multiple of three.
fn base64_of_ones(bytes: usize) -> String {
    assert_eq!(bytes % 3, 0);
    "AQEB".repeat(bytes / 3)
}

#[test]
fn a_request_body_is_sent_within_the_servers_window() {
    const BODY: usize = 99_999;
    let server = Server::start(|connection| {
        let Some(mut peer) = Peer::begin(connection, &setting(4, 1000)) else {
            return;
        };
        let mut got = 0;
        while let Some(next) = peer.read() {
            match next.kind {
                HEADERS => {
                    assert_eq!(next.flags & END_STREAM, 0);
                    peer.connection.count();
                    got = 0;
                }
                DATA => {
                    got += next.payload.len();
                    let more = (next.payload.len() as u32).to_be_bytes();
                    if !next.payload.is_empty() {
                        peer.send(&frame(WINDOW_UPDATE, 0, 0, &more));
                    }
                    if next.flags & END_STREAM != 0 {
                        assert_eq!(got, BODY);
                        peer.send(&hello(next.stream));
                    } else if !next.payload.is_empty() {
                        peer.send(&frame(WINDOW_UPDATE, 0, next.stream, &more));
                    }
                }
                _ => {}
            }
        }
    });
    let mut level = http2(&server, 1);
    level.client["request"] = json!({
        "method": "POST", "headers": [["X-A", "b"]], "body": base64_of_ones(BODY), "status": [200], "bytes": 5,
    });
    check(&server, level);
}

#[test]
fn no_more_streams_are_open_than_the_server_allows() {
    let most = Arc::new(AtomicU64::new(0));
    let seen = most.clone();
    let server = Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, &setting(3, 2)) else {
            return;
        };
        let mut open = Vec::new();
        // The first requests were sent before the client knew the limit, which applies once the client has
        // acknowledged it.
        let mut acknowledged = false;
        loop {
            if peer.is_quiet() {
                if acknowledged {
                    seen.fetch_max(open.len() as u64, Ordering::Relaxed);
                }
                for stream in open.drain(..) {
                    peer.send(&hello(stream));
                }
            }
            let Some(next) = peer.read() else { return };
            match next.kind {
                SETTINGS if next.flags & ACK != 0 => {
                    for stream in open.drain(..) {
                        peer.send(&hello(stream));
                    }
                    acknowledged = true;
                }
                HEADERS => {
                    peer.connection.count();
                    open.push(next.stream);
                }
                _ => {}
            }
        }
    });
    let mut level = http2(&server, 8);
    level.clients = 1;
    check(&server, level);
    assert!((1..=2).contains(&most.load(Ordering::Relaxed)));
}

#[test]
fn streams_that_a_leaving_server_did_not_process_are_repeated_on_a_new_connection() {
    // Like nginx after `keepalive_requests`: sends a GOAWAY, and answers on the streams up to the last one.
    let server = Server::start(|connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        let mut answered = 0;
        while let Some(stream) = peer.request() {
            if answered == 5 {
                let last = (stream - 2).to_be_bytes();
                peer.send(&frame(GOAWAY, 0, 0, &[&last[..], &[0; 4]].concat()));
                peer.connection.outwait();
                return;
            }
            answered += 1;
            peer.send(&hello(stream));
        }
    });
    let tally = run(http2(&server, 1));
    assert_eq!(faults(&tally), []);
    // On each connection except a client's last, the sixth request was left unprocessed and sent again.
    let again = tally.generator.connections - 2;
    assert_eq!(tally.operations_total + again, server.requests());
    assert_eq!(
        streams(&tally),
        [
            ("HTTP/2 stream", server.requests()),
            ("HTTP/2 stream above GOAWAY", again)
        ]
    );
    assert_eq!(tally.generator.connections, server.connections());
    assert_eq!(tally.generator.reconnects, again);
}

/// The answer and the GOAWAY arrive together or apart. If requests are served in turn, none needs more
/// attempts than there are threads. A new request must not precede those that are sent again.
#[test]
fn a_server_that_takes_one_stream_per_connection_gets_all_requests_in_turn() {
    for apart in [false, true] {
        let server = Server::start(move |connection| {
            let Some(mut peer) = Peer::begin(connection, &[]) else {
                return;
            };
            let Some(stream) = peer.request() else { return };
            let goaway = frame(GOAWAY, 0, 0, &[&stream.to_be_bytes()[..], &[0; 4]].concat());
            peer.send(&hello(stream));
            if apart {
                std::thread::sleep(Duration::from_millis(1));
            }
            peer.send(&goaway);
            while peer.request().is_some() {}
        });
        // More than the ten repeats of a stream that is refused for another reason.
        let mut level = http2(&server, 12);
        (level.clients, level.timeout_s, level.window.length_s) = (1, 2.0, 3.0);
        let tally = run(level);
        assert_eq!(faults(&tally), [], "apart: {apart}");
        assert!(tally.operations_total > 12, "{}", tally.operations_total);
    }
}

/// Returns the counts of each kind of stream.
fn streams(tally: &LevelTally) -> Vec<(&str, u64)> {
    let rows = tally.requests.iter();
    rows.map(|row| (row.request.as_str(), row.count)).collect()
}

#[test]
fn refused_streams_are_repeated_and_counted_by_name() {
    // Two refusals before each answer.
    let refused = Arc::new(AtomicU64::new(0));
    let seen = refused.clone();
    let server = answering(move |peer, stream| {
        if stream % 6 == 5 {
            peer.send(&hello(stream));
        } else {
            seen.fetch_add(1, Ordering::Relaxed);
            peer.send(&frame(RST_STREAM, 0, stream, &7u32.to_be_bytes()));
        }
    });
    let tally = run(http2(&server, 1));
    assert_eq!(faults(&tally), []);
    let refused = refused.load(Ordering::Relaxed);
    assert_eq!(refused, 2 * tally.operations_total);
    assert_eq!(
        streams(&tally),
        [
            ("HTTP/2 stream", server.requests()),
            ("HTTP/2 stream refused (REFUSED_STREAM)", refused)
        ]
    );
    assert_eq!((tally.generator.connections, tally.generator.reconnects), (2, 0));
}

#[test]
fn the_time_of_a_refused_request_counts_from_its_first_stream() {
    const HELD: Duration = Duration::from_millis(60);
    let server = answering(|peer, stream| {
        if stream == 1 {
            std::thread::sleep(HELD);
            peer.send(&frame(RST_STREAM, 0, stream, &7u32.to_be_bytes()));
        } else {
            peer.send(&hello(stream));
        }
    });
    let tally = check_but_refused(&server, http2(&server, 1), 2);
    assert!(u128::from(tally.response_time.max()) >= HELD.as_nanos());
}

/// Like `check`, for a server that refused this many streams.
fn check_but_refused(server: &Server, level: LevelSpec, refused: u64) -> LevelTally {
    let tally = run(level);
    assert_eq!(faults(&tally), []);
    assert_eq!(tally.operations_total + refused, server.requests());
    assert_eq!(
        streams(&tally)[1],
        ("HTTP/2 stream refused (REFUSED_STREAM)", refused)
    );
    tally
}

#[test]
fn streams_opened_before_the_limit_was_known_are_repeated_within_it() {
    const LIMIT: usize = 4;
    const THREADS: usize = 50;
    // Like nginx, refuses streams beyond the limit, from the first one on.
    let server = Server::start(|connection| {
        let Some(mut peer) = Peer::begin(connection, &setting(3, LIMIT as u32)) else {
            return;
        };
        let (mut open, mut asked) = (Vec::new(), 0);
        loop {
            if asked >= THREADS && !open.is_empty() && peer.is_quiet() {
                open.drain(..).for_each(|stream| peer.send(&hello(stream)));
            }
            let Some(next) = peer.read() else { return };
            if next.kind != HEADERS {
                continue;
            }
            peer.connection.count();
            asked += 1;
            if open.len() < LIMIT {
                open.push(next.stream);
            } else {
                peer.send(&frame(RST_STREAM, 0, next.stream, &7u32.to_be_bytes()));
            }
        }
    });
    let mut level = http2(&server, THREADS);
    level.clients = 1;
    level.leave_after_errors = Some(1);
    check_but_refused(&server, level, (THREADS - LIMIT) as u64);
}

#[test]
fn threads_get_streams_in_the_order_in_which_they_began_to_wait() {
    const THREADS: usize = 5;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let server = Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, &setting(3, 1)) else {
            return;
        };
        // The first requests were sent before the client knew the limit.
        let first: Vec<_> = (0..THREADS).map_while(|_| peer.path()).collect();
        first.iter().for_each(|(stream, _)| peer.send(&hello(*stream)));
        while let Some((stream, path)) = peer.path() {
            seen.lock().expect("no test panics here").push(path);
            peer.send(&hello(stream));
        }
    });
    let mut level = http2(&server, THREADS);
    let step = json!({"name": "step", "method": "GET", "path": "/${thread}"});
    level.workload = json!({"name": "session", "steps": [step]});
    level.clients = 1;
    assert_eq!(faults(&run(level)), []);
    let asked = asked.lock().expect("no test panics here");
    assert!(asked.len() > 10 * THREADS);
    for round in asked[..asked.len() - THREADS].chunks_exact(THREADS) {
        let threads: BTreeSet<_> = round.iter().collect();
        assert_eq!(threads.len(), THREADS, "{round:?}: a thread was passed over");
    }
}

#[test]
fn a_new_connection_starts_with_the_limit_of_the_last_one() {
    // Like nginx, closes each connection after this number of requests.
    const LIMIT: usize = 2;
    const THREADS: usize = 8;
    let most = Arc::new(Mutex::new(Vec::new()));
    let seen = most.clone();
    let server = Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, &setting(3, LIMIT as u32)) else {
            return;
        };
        // After its acknowledgement, the client knows the limit.
        let mut before = 0;
        while let Some(next) = peer.read() {
            match next.kind {
                SETTINGS if next.flags & ACK != 0 => break,
                HEADERS => {
                    peer.connection.count();
                    before += 1;
                    peer.send(&hello(next.stream));
                }
                _ => {}
            }
        }
        seen.lock().expect("no test panics here").push(before);
        for _ in 0..20 {
            let Some(stream) = peer.request() else { return };
            peer.send(&hello(stream));
        }
        peer.send(&frame(GOAWAY, 0, 0, &[u32::MAX.to_be_bytes(), [0; 4]].concat()));
        while let Some(stream) = peer.request() {
            peer.send(&hello(stream));
        }
    });
    let mut level = http2(&server, THREADS);
    level.clients = 1;
    check(&server, level);
    let most = most.lock().expect("no test panics here");
    assert!(most.len() > 3);
    assert_eq!(
        most.iter().filter(|before| **before > LIMIT).count(),
        1,
        "{most:?}"
    );
}

#[test]
fn a_connection_that_ended_while_idle_is_replaced() {
    let server = Server::start(|connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        if let Some(stream) = peer.request() {
            peer.send(&hello(stream));
        }
    });
    let mut level = http2(&server, 1);
    level.arrival = dyno_engine::Arrival::Closed { think_time_s: 0.01 };
    let tally = run(level);
    assert_eq!(faults(&tally), []);
    assert_eq!(tally.generator.connections, server.connections());
    assert!(tally.generator.reconnects >= 2);
}

#[test]
fn a_server_without_a_dynamic_table_gets_no_table_entries() {
    let server = Server::start(|connection| {
        let Some(mut peer) = Peer::begin(connection, &setting(1, 0)) else {
            return;
        };
        let mut told = false;
        let mut acknowledged = false;
        while let Some(next) = peer.read() {
            if next.kind == SETTINGS && next.flags & ACK != 0 {
                acknowledged = true;
            }
            if next.kind == HEADERS {
                peer.connection.count();
                if acknowledged && !told {
                    assert_eq!(next.payload[0], 0x20, "the size is told first");
                    told = true;
                }
                let indexed = next.payload.iter().any(|byte| *byte == 0xbe || *byte == 0xbf);
                assert!(!told || !indexed, "the table is used");
                peer.send(&hello(next.stream));
            }
        }
    });
    check(&server, http2(&server, 2));
}

#[test]
fn a_late_answer_is_an_error_of_its_own_stream_only() {
    let server = answering(|peer, stream| {
        if stream != 3 {
            peer.send(&hello(stream));
        }
    });
    let mut level = http2(&server, 2);
    level.timeout_s = 0.1;
    level.window.length_s = 0.4;
    let tally = run(level);
    assert_eq!(faults(&tally), [(dyno_measure::Fault::ResponseTimeout, 2)]);
    assert_eq!(tally.generator.connections, 2);
    assert!(tally.operations_total > 2);
}
