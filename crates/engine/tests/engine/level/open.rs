//! Open arrivals over real sockets and with simulated work: every arrival is accounted for.

use super::running::{level, run, spec};
use super::server::{Server, OK};
use dyno_engine::{Arrival, Law, LevelSpec, LevelTally, OpenArrivals, PartSpec};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};

fn open(rate_per_s: f64, law: Law, queue: usize) -> Arrival {
    Arrival::Open(OpenArrivals {
        rate_per_s,
        law,
        queue,
    })
}

/// Returns the number of arrivals, and how they ended: done, failed, overdue, dropped.
fn ends(tally: &LevelTally) -> (u64, u64, u64, u64, u64) {
    let open = tally.open.as_ref().expect("open arrivals");
    let failed = tally.errors.iter().map(|error| error.count).sum();
    let (done, overdue) = (tally.operations_total, tally.overdue_at_end);
    assert_eq!(open.arrivals, done + failed + overdue + open.dropped, "{tally:?}");
    (open.arrivals, done, failed, overdue, open.dropped)
}

fn nothing(workload: serde_json::Value, clients: usize, length_s: f64, arrival: Arrival) -> LevelSpec {
    let mut level = spec(json!({
        "version": 1,
        "protocol": "null",
        "target": {"url": "null:"},
        "workload": workload,
        "clients": clients,
        "window": {"length_s": length_s},
        "seed": 3,
    }));
    level.arrival = arrival;
    level
}

#[test]
fn the_server_gets_every_arrival_and_no_other_request() {
    let server = Server::answering(OK);
    for law in [Law::Uniform, Law::Poisson] {
        let asked_before = server.requests();
        let mut level = level(server.address);
        level.clients = 8;
        level.window.length_s = 1.0;
        level.arrival = open(500.0, law, 100_000);
        let tally = run(level);
        let (arrivals, done, failed, overdue, dropped) = ends(&tally);
        assert_eq!((failed, dropped), (0, 0));
        assert_eq!(server.requests() - asked_before, done);
        assert!(overdue < 100, "{overdue}");
        match law {
            Law::Uniform => assert_eq!(arrivals, 500),
            Law::Poisson => assert!((400..600).contains(&arrivals), "{arrivals}"),
        }
        let open = tally.open.expect("open arrivals");
        assert_eq!(open.arrivals_in_window, arrivals);
        let ended = tally.by_operation.iter().map(|class| class.count).sum::<u64>();
        assert_eq!(open.scheduling_error.count(), ended);
    }
}

#[test]
fn failed_and_dropped_arrivals_are_counted_and_the_rate_continues() {
    let asked = AtomicU64::new(0);
    let server = Server::start(move |mut connection| {
        while connection.request().is_some() {
            let fails = asked.fetch_add(1, Ordering::Relaxed) % 3 == 0;
            if fails || !connection.send(OK) {
                return;
            }
        }
    });
    let mut level = level(server.address);
    level.clients = 4;
    level.window.length_s = 1.0;
    level.arrival = open(2000.0, Law::Poisson, 0);
    let tally = run(level);
    let (arrivals, done, failed, overdue, dropped) = ends(&tally);
    assert!(done > 0 && failed > 0, "{done} done, {failed} failed");
    assert!((1800..2200).contains(&arrivals), "{arrivals}");
    // No arrival waits if none may. Overdue arrivals are those being handled at the end.
    assert!(overdue <= 4, "{overdue} overdue, {dropped} dropped");
    assert_eq!(tally.open.map(|open| open.waited), Some(0));
}

#[test]
fn a_client_that_leaves_passes_its_arrivals_to_the_others() {
    let connections = AtomicU64::new(0);
    let server = Server::start(move |mut connection| {
        let breaks = connections.fetch_add(1, Ordering::Relaxed) < 2;
        while connection.request().is_some() && !breaks && connection.send(OK) {}
    });
    let mut level = level(server.address);
    (level.clients, level.threads) = (4, 2);
    level.leave_after_errors = Some(1);
    level.window.length_s = 1.0;
    level.arrival = open(400.0, Law::Uniform, 1000);
    let tally = run(level);
    let (arrivals, done, failed, overdue, dropped) = ends(&tally);
    let left = tally
        .by_client
        .iter()
        .filter(|client| client.left_at_ns.is_some())
        .count();
    assert!((1..=2).contains(&left), "{left} clients left");
    assert_eq!((arrivals, dropped), (400, 0));
    assert!((1..=4).contains(&failed), "{failed} failed");
    assert!(done > 100, "{done} done, {overdue} overdue");
}

#[test]
fn after_all_clients_have_left_arrivals_are_overdue_or_dropped() {
    let server = Server::start(|mut connection| {
        connection.request();
    });
    let mut level = level(server.address);
    level.leave_after_errors = Some(1);
    level.window.length_s = 2.0;
    level.arrival = open(1000.0, Law::Uniform, 10);
    let (arrivals, done, failed, overdue, dropped) = ends(&run(level));
    assert_eq!((arrivals, done), (2000, 0));
    assert_eq!((failed, overdue + dropped), (2, 1998));
    assert!((10..=12).contains(&overdue), "{overdue}");
}

/// A tenth of the operations arrives during the stall of 0.2 s, so the 99th percentile is 0.18 s, or more on
/// a slow machine. A generator that waits for answers would report one millisecond. `schedule/tests.rs` tests
/// the same with a simulated clock.
#[test]
fn a_stall_of_a_tenth_of_the_time_appears_in_the_response_times() {
    let stall = json!({"name": "null", "delay_s": 0.0001, "stall_at_s": 0.8, "stall_s": 0.2});
    let tally = run(nothing(stall, 1, 2.0, open(1000.0, Law::Uniform, 1_000_000)));
    let p99_s = tally.response_time.value_at(0.99) as f64 / 1e9;
    assert!(p99_s >= 0.176, "p99 {p99_s} s");
    assert_eq!(ends(&tally).0, 2_000);
    assert!(tally.open.is_some_and(|open| open.waited >= 190));
}

#[test]
fn the_parts_of_a_level_have_the_same_arrivals_as_the_whole() {
    let mut whole = nothing(json!({"name": "null"}), 10, 0.5, open(2000.0, Law::Poisson, 1000));
    whole.window.ramp_up_s = 0.1;
    let alone = run(whole.clone());
    let parts = (0..4).map(|number| {
        run(LevelSpec {
            part: Some(PartSpec {
                client_offset: number,
                client_run: 1,
                client_step: 4,
                clients: (number..whole.clients).step_by(4).len(),
            }),
            ..whole.clone()
        })
    });
    let merged = parts.reduce(|sum, part| sum.merged(part).expect("parts of one level"));
    let merged = merged.expect("there are parts");
    assert_eq!(ends(&merged).0, ends(&alone).0);
    let in_window = |tally: &LevelTally| tally.open.as_ref().map(|open| open.arrivals_in_window);
    assert_eq!(in_window(&merged), in_window(&alone));
}

/// The limit equals the rate, so nearly every arrival finds its connection delayed by the limit, and waits
/// behind others for a tenth of a second or more. Without these waits, half of the response times reach 10 ms
/// only on a machine that stalls all the time.
#[test]
fn the_waits_that_the_limit_on_the_rate_causes_are_in_no_response_time() {
    for clients in [1, 4] {
        let mut level = nothing(
            json!({"name": "null"}),
            clients,
            2.0,
            open(100.0, Law::Poisson, 1000),
        );
        level.max_rate_per_s = Some(100.0);
        let tally = run(level);
        let (arrivals, done, ..) = ends(&tally);
        assert!(done >= 50, "{done} of {arrivals}");
        assert!(tally.response_time.value_at(0.5) < 10_000_000, "{tally:?}");
        let open = tally.open.expect("open arrivals");
        assert!(2 * open.waited < done, "{} of {done}", open.waited);
    }
}
