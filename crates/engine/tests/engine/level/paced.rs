//! Arrivals and parts with simulated work, whose true values are known.

use super::running::{run, spec};
use dyno_engine::{Arrival, LevelSpec, PartSpec};
use serde_json::json;

/// Returns a level of two seconds with ten paced clients, each with a hundred operations per second. For 0.2
/// s, a tenth of that time, no operation ends.
fn stalled(arrival: Arrival) -> LevelSpec {
    let mut level = spec(json!({
        "version": 1,
        "protocol": "null",
        "target": {"url": "null:"},
        "workload": {"name": "null", "stall_at_s": 0.8, "stall_s": 0.2},
        "clients": 10,
        "window": {"length_s": 2.0},
    }));
    level.arrival = arrival;
    level
}

/// A tenth of the operations is due during the stall. Their response times are evenly distributed between 0
/// and 0.2 s, so the 99th percentile is 0.18 s, or more on a slow machine. A client that forgets its intended
/// times would report one millisecond. `arrival.rs` tests the same with a simulated clock.
#[test]
fn a_stall_of_a_tenth_of_the_time_appears_in_the_response_times_of_paced_clients() {
    let tally = run(stalled(Arrival::Paced { interval_s: 0.01 }));
    let p99_s = tally.response_time.value_at(0.99) as f64 / 1e9;
    assert!(p99_s >= 0.176, "p99 {p99_s} s");
    assert_eq!(tally.operations_total + tally.overdue_at_end, 2_000);
}

#[test]
fn a_paced_client_that_falls_behind_reports_how_many_operations_were_overdue() {
    let mut level = stalled(Arrival::Paced { interval_s: 0.01 });
    level.workload = json!({"name": "null", "delay_s": 0.1});
    level.clients = 1;
    level.window.length_s = 1.0;
    let tally = run(level);
    assert_eq!(tally.operations_total + tally.overdue_at_end, 100);
    assert!(
        (1..=10).contains(&tally.operations_total), // Fewer on a slow machine.
        "{}",
        tally.operations_total
    );
}

#[test]
fn a_delay_by_the_rate_limit_is_not_response_time() {
    let mut level = stalled(Arrival::Closed { think_time_s: 0.0 });
    level.workload = json!({"name": "null"});
    level.max_rate_per_s = Some(100.0);
    level.window.length_s = 1.0;
    let tally = run(level);
    assert!(
        (10..=101).contains(&tally.operations_total), // Fewer on a slow machine.
        "{}",
        tally.operations_total
    );
    assert!(tally.response_time.value_at(0.5) < 20_000_000);
}

#[test]
fn the_parts_of_a_level_perform_the_same_operations_as_the_whole() {
    let mut whole = stalled(Arrival::Paced { interval_s: 0.01 });
    whole.window.length_s = 0.5;
    whole.workload = json!({"name": "null"});
    whole.digest_operations = 20;
    let alone = run(whole.clone());
    for parts in [2, 4] {
        let merged = (0..parts).map(|number| {
            run(LevelSpec {
                part: Some(PartSpec {
                    client_offset: number,
                    client_step: parts,
                    client_run: 1,
                    clients: (number..whole.clients).step_by(parts).len(),
                }),
                ..whole.clone()
            })
        });
        let merged = merged.reduce(|sum, part| sum.merged(part).expect("parts of one level"));
        let merged = merged.expect("there are parts");
        assert_eq!(merged.digests, alone.digests);
        let due = |tally: &dyno_engine::LevelTally| tally.operations_total + tally.overdue_at_end;
        assert_eq!((due(&merged), due(&alone)), (500, 500));
        assert_eq!(
            (merged.clients_planned, merged.generator.processes),
            (10, parts as u64)
        );
        let clients: Vec<u64> = merged.by_client.iter().map(|client| client.client).collect();
        assert_eq!(clients, (0..10).collect::<Vec<u64>>());
    }
}
