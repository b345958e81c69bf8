//! Tests arrivals with a simulated clock, so that machine speed doesn't matter.

use super::*;
use crate::spec::LevelSpec;
use serde_json::{json, Value};

const MS: u64 = 1_000_000;
/// An arbitrary start, far from zero.
const START_NS: u64 = 777 * NS_PER_S;

fn level(clients: usize, length_s: f64, rate_per_s: f64, law: &str, queue: usize) -> Level {
    let usual: Value =
        serde_json::from_str(include_str!("../../tests/complete.json")).expect("it is as made");
    let mut document = usual["level"].clone();
    document["clients"] = json!(clients);
    document["window"]["length_s"] = json!(length_s);
    document["window"]["ramp_up_s"] = json!(0.0);
    document["arrival"] = json!({"kind": "open", "rate_per_s": rate_per_s, "law": law, "queue": queue});
    document["seed"] = json!(5);
    let spec = LevelSpec::parse(&document.to_string()).expect("a document");
    Level::of(&spec)
}

fn schedule(level: &Level, clients: impl ExactSizeIterator<Item = usize>) -> Schedule {
    Schedule::new(level, level.open.expect("open arrivals"), START_NS, clients)
}

fn arrivals(level: &Level, clients: impl ExactSizeIterator<Item = usize>) -> Vec<u64> {
    let mut schedule = schedule(level, clients);
    std::iter::from_fn(|| schedule.take(START_NS)).collect()
}

/// Results of `serve`.
struct Served {
    responses_ns: Vec<u64>,
    waits_ns: Vec<u64>,
    counts: ArrivalCounts,
}

/// Simulates requests on `connections` connections with an exact clock. `service_ns` returns the service time
/// of a request that starts at the given time.
fn serve(level: &Level, connections: usize, mut service_ns: impl FnMut(u64) -> u64) -> Served {
    let mut schedule = schedule(level, 0..level.clients);
    let end_ns = START_NS + level.window.length_ns;
    // Ordered by the time when each becomes free, then by number.
    let mut free: BinaryHeap<Reverse<(u64, usize)>> = (0..connections)
        .map(|number| Reverse((START_NS, number)))
        .collect();
    let (mut responses_ns, mut waits_ns) = (Vec::new(), Vec::new());
    while let Some(Reverse((free_ns, number))) = free.pop() {
        let Some(due_ns) = (free_ns < end_ns).then(|| schedule.take(free_ns)).flatten() else {
            continue;
        };
        let begun_ns = due_ns.max(free_ns);
        let done_ns = begun_ns + service_ns(begun_ns);
        responses_ns.push(done_ns - due_ns);
        waits_ns.push(begun_ns - due_ns);
        free.push(Reverse((done_ns, number)));
    }
    Served {
        responses_ns,
        waits_ns,
        counts: schedule.close(),
    }
}

/// Like `serve`, with a limit on the request rate that lets each connection begin a request every `hold_ns`.
/// Returns the response times without the limit's delays.
fn serve_held(
    level: &Level,
    connections: usize,
    hold_ns: u64,
    mut service_ns: impl FnMut() -> u64,
) -> Vec<u64> {
    let mut limited = level.clone();
    limited.spec.max_rate_per_s = Some(1.0);
    limited.spec.threads = connections / level.clients;
    let mut schedule = schedule(&limited, 0..level.clients);
    let end_ns = START_NS + 2 * level.window.length_ns;
    let mut responses_ns = Vec::new();
    // For each connection: when it may begin, its number, and the end of the request that it serves.
    let mut coming: BinaryHeap<Reverse<(u64, bool, u64)>> =
        (0..connections).map(|_| Reverse((START_NS, true, 0))).collect();
    while let Some(Reverse((now_ns, is_free, unheld_ns))) = coming.pop() {
        if !is_free {
            schedule.free(unheld_ns);
            continue;
        }
        let Some(due_ns) = (now_ns < end_ns).then(|| schedule.take(now_ns)).flatten() else {
            continue;
        };
        let ready_ns = due_ns.max(now_ns);
        // Only ends of requests happen until the arrival is due.
        while let Some(Reverse((ended_ns, false, unheld_ns))) = coming.peek().copied() {
            if ended_ns > ready_ns {
                break;
            }
            coming.pop();
            schedule.free(unheld_ns);
        }
        let held_ns = schedule.held_ns(due_ns, ready_ns);
        let done_ns = ready_ns + service_ns();
        responses_ns.push(done_ns - due_ns - held_ns);
        coming.push(Reverse((done_ns, false, done_ns - held_ns)));
        coming.push(Reverse((done_ns.max(ready_ns + hold_ns), true, 0)));
    }
    responses_ns
}

fn mean_ns(times: &[u64]) -> f64 {
    times.iter().map(|ns| *ns as f64).sum::<f64>() / times.len() as f64
}

#[test]
fn uniform_arrivals_have_even_intervals_and_take_turns() {
    let level = level(3, 1.0, 1000.0, "uniform", 10);
    let even: Vec<u64> = (0..1000).map(|number| START_NS + number * MS).collect();
    assert_eq!(arrivals(&level, 0..3), even);
}

#[test]
fn the_arrivals_of_a_level_do_not_depend_on_the_distribution_of_its_clients() {
    for law in ["poisson", "uniform"] {
        let level = level(10, 2.0, 2000.0, law, 10);
        let whole = arrivals(&level, 0..10);
        let mut parts: Vec<u64> = (0..3)
            .flat_map(|part| arrivals(&level, (part..10).step_by(3)))
            .collect();
        parts.sort_unstable();
        assert_eq!(parts, whole);
        let mut other = level.clone();
        other.spec.seed = 6;
        assert_ne!(arrivals(&other, 0..10) == whole, law == "poisson");
    }
}

#[test]
fn poisson_arrivals_have_their_rate_and_memoryless_gaps() {
    let level = level(7, 200.0, 5000.0, "poisson", 10);
    let moments = arrivals(&level, 0..7);
    // Expected: a million, with a standard deviation of 1,000.
    assert!(moments.len().abs_diff(1_000_000) < 4_000, "{}", moments.len());
    let gaps: Vec<f64> = moments
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64)
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.01);
    let after_short: Vec<f64> = gaps
        .windows(2)
        .filter(|pair| pair[0] < mean)
        .map(|pair| pair[1])
        .collect();
    let mean_after_short = after_short.iter().sum::<f64>() / after_short.len() as f64;
    assert!((mean_after_short / mean - 1.0).abs() < 0.01);
}

#[test]
fn a_stall_of_a_tenth_of_the_time_appears_in_the_99th_percentile() {
    let level = level(1, 10.0, 1000.0, "uniform", 100_000);
    let mut served = serve(&level, 1, |begun_ns| {
        let (from_ns, to_ns) = (START_NS + 4_000 * MS, START_NS + 5_000 * MS);
        if (from_ns..to_ns).contains(&begun_ns) {
            to_ns - begun_ns + MS / 10
        } else {
            MS / 10
        }
    });
    served.responses_ns.sort_unstable();
    assert_eq!(served.responses_ns.len(), 10_000);
    // The server catches up ten times as fast as requests arrive, which adds slightly to the 900 ms.
    let p99_ms = served.responses_ns[9_900] / MS;
    assert!((891..=928).contains(&p99_ms), "{p99_ms} ms");
}

/// Compares mean waiting times with the textbook: rho S / 2 (1 - rho) for M/D/1, rho S / (1 - rho) for M/M/1
/// (Kleinrock, Queueing Systems I, 5.67 and 3.2).
#[test]
fn mean_waits_are_those_of_m_d_1_and_m_m_1_at_three_loads() {
    // Each length limits random deviations to about 1 %. (The mean of M/M/1 varies by 20 / sqrt(T / S) at a load of
    // 0.9.)
    for (load, length_s) in [(0.5, 500.0), (0.7, 1_000.0), (0.9, 4_000.0)] {
        let level = level(4, length_s, load * 1000.0, "poisson", 10_000_000);
        let fixed = serve(&level, 1, |_| MS);
        let expected_ns = load * MS as f64 / (2.0 * (1.0 - load));
        let ratio = mean_ns(&fixed.waits_ns) / expected_ns;
        assert!((ratio - 1.0).abs() < 0.02, "M/D/1 at {load}: {ratio}");

        let mut random = level.random(1, 0, 0);
        let exponential = serve(&level, 1, |_| {
            let drawn = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            (-drawn.ln() * MS as f64) as u64
        });
        let expected_ns = load * MS as f64 / (1.0 - load);
        let ratio = mean_ns(&exponential.waits_ns) / expected_ns;
        assert!((ratio - 1.0).abs() < 0.02, "M/M/1 at {load}: {ratio}");
    }
}

/// Uses Erlang's formulas for four connections at a load of 0.8 each. Formula C gives the probability that a request
/// waits, and B that it is lost.
#[test]
fn requests_on_several_connections_wait_and_are_lost_as_erlang_predicts() {
    let (connections, offered) = (4, 3.2);
    let blocking = (1..=connections).fold(1.0, |b: f64, k| offered * b / (k as f64 + offered * b));
    let mut random = level(1, 1.0, 1.0, "poisson", 0).random(2, 0, 0);
    let mut exponential = |_: u64| {
        let drawn = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-drawn.ln() * MS as f64) as u64
    };
    let lossy = level(4, 600.0, offered * 1000.0, "poisson", 0);
    let lost = serve(&lossy, connections, &mut exponential);
    let share = lost.counts.dropped as f64 / lost.counts.arrivals as f64;
    assert!((share / blocking - 1.0).abs() < 0.02, "{share} for {blocking}");
    assert_eq!(lost.waits_ns.iter().max(), Some(&0));

    let patient = serve(
        &level(4, 600.0, offered * 1000.0, "poisson", 1_000_000),
        connections,
        &mut exponential,
    );
    let waiting = blocking / (1.0 - 0.8 * (1.0 - blocking));
    let share =
        patient.waits_ns.iter().filter(|wait| **wait > 0).count() as f64 / patient.waits_ns.len() as f64;
    assert!((share / waiting - 1.0).abs() < 0.02, "{share} for {waiting}");
}

#[test]
fn every_arrival_is_done_dropped_or_overdue() {
    // Requests arrive at twice the capacity, and ten may wait.
    let overloaded = level(5, 1.0, 2000.0, "uniform", 10);
    let served = serve(&overloaded, 1, |_| MS);
    let ArrivalCounts {
        arrivals,
        dropped,
        overdue,
        ..
    } = served.counts;
    assert_eq!(arrivals, 2000);
    assert_eq!(served.responses_ns.len() as u64 + dropped + overdue, arrivals);
    assert_eq!(overdue, 10);
    // A served request waited for ten others at most.
    assert!(served.waits_ns.iter().max().is_some_and(|wait| *wait <= 11 * MS));
}

#[test]
fn an_arrival_that_a_connection_gives_back_is_taken_next() {
    let level = level(2, 1.0, 100.0, "uniform", 1000);
    let mut schedule = schedule(&level, 0..2);
    let taken: Vec<u64> = (0..3).filter_map(|_| schedule.take(START_NS)).collect();
    schedule.give_back(taken[1]);
    schedule.give_back(taken[0]);
    assert_eq!(schedule.take(START_NS + 25 * MS), Some(taken[0]));
    assert_eq!(schedule.take(START_NS + 25 * MS), Some(taken[1]));
    assert_eq!(schedule.take(START_NS + 25 * MS), Some(START_NS + 30 * MS));
    schedule.give_back(START_NS + 30 * MS);
    // Three of a hundred arrivals were begun. The one that was put back was not.
    assert_eq!(schedule.close().overdue, 100 - 3);
}

#[test]
fn a_dropped_arrival_is_counted_in_the_window_of_its_due_time() {
    let mut level = level(1, 10.0, 100.0, "uniform", 0);
    level.window.ramp_up_ns = 2 * NS_PER_S;
    level.window.ramp_down_ns = NS_PER_S;
    let counts = schedule(&level, 0..1).close();
    assert_eq!((counts.arrivals, counts.arrivals_in_window), (1000, 700));
    assert_eq!((counts.dropped, counts.dropped_in_window), (1000, 700));
}

#[test]
fn a_limit_on_the_rate_changes_no_response_time() {
    for (connections, rate_per_s) in [(1, 80.0), (4, 80.0), (4, 320.0)] {
        let level = level(1, 20.0, rate_per_s, "poisson", usize::MAX);
        // A limit of 1.05 times the rate. At 320/s, 4 connections are busy for 80 % of the time.
        let hold_ns = (connections as f64 / (1.05 * rate_per_s) * NS_PER_S as f64) as u64;
        let free = serve(&level, connections, |_| 10 * MS).responses_ns;
        let mut held = serve_held(&level, connections, hold_ns, || 10 * MS);
        held.truncate(free.len());
        assert_eq!(held, free, "{connections} connections, {rate_per_s} requests/s");
    }
}
