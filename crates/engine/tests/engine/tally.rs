//! Tallies of a level's parts can be merged in any order, and survive writing and reading.

use dyno_engine::{
    CallTally, ClientTally, ErrorTally, GeneratorTally, HandshakeTally, LevelTally, OpenTally,
    OperationTally, RequestTally, SecondTally, SessionTally,
};
use dyno_measure::Histogram;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

const COUNT: std::ops::Range<u64> = 0..1_000_000;

fn histogram() -> impl Strategy<Value = Histogram> {
    vec(0..10_000_000_000_u64, 0..5).prop_map(|samples| {
        let mut histogram = Histogram::new();
        samples.into_iter().for_each(|sample| histogram.record(sample));
        histogram
    })
}

fn operation(name: &'static str) -> impl Strategy<Value = OperationTally> {
    (COUNT, COUNT, COUNT, COUNT, histogram()).prop_map(
        move |(count, bytes_read, bytes_written, errors, response_time)| OperationTally {
            operation: name.to_owned(),
            count,
            bytes_read,
            bytes_written,
            errors,
            response_time,
        },
    )
}

fn clients() -> impl Strategy<Value = Vec<ClientTally>> {
    let figures = (COUNT, COUNT, COUNT, COUNT, proptest::option::of(COUNT));
    btree_map(0..6_u64, figures, 0..4).prop_map(|clients| {
        let row = |(client, (operations, bytes_in, bytes_read, errors, left_at_ns))| ClientTally {
            client,
            operations,
            bytes_in,
            bytes_read,
            bytes_written: bytes_read,
            errors,
            left_at_ns,
        };
        clients.into_iter().map(row).collect()
    })
}

fn seconds() -> impl Strategy<Value = Vec<SecondTally>> {
    btree_map(0..5_u64, (COUNT, COUNT, COUNT), 0..4).prop_map(|seconds| {
        let row = |(second, (operations, bytes_in, errors))| SecondTally {
            second,
            operations,
            bytes_in,
            errors,
        };
        seconds.into_iter().map(row).collect()
    })
}

fn errors() -> impl Strategy<Value = Vec<ErrorTally>> {
    let figures = (COUNT, COUNT, "[ab]", proptest::option::of("[xy]"), 0..3_u64);
    btree_map("[fgh]", figures, 0..3).prop_map(|errors| {
        let row = |(fault, (count, in_window, example, advice, first_at_ns))| ErrorTally {
            side: "server".to_owned(),
            fault,
            count,
            in_window,
            example,
            advice,
            first_at_ns,
        };
        errors.into_iter().map(row).collect()
    })
}

fn calls() -> impl Strategy<Value = (Vec<CallTally>, Vec<RequestTally>, Vec<SessionTally>)> {
    (
        btree_map("[opr]", (COUNT, COUNT, COUNT, COUNT), 0..3),
        btree_map("[CRW]", COUNT, 0..3),
        btree_set("[23]", 0..2),
    )
        .prop_map(|(calls, requests, sessions)| {
            let call = |(call, (done, not_there, failed, bytes))| CallTally {
                call,
                done,
                not_there,
                failed,
                bytes,
            };
            let session = |dialect| SessionTally {
                agreed: BTreeMap::from([("dialect".to_owned(), json!(dialect))]),
                clients: 1,
            };
            let requests = requests.into_iter();
            (
                calls.into_iter().map(call).collect(),
                requests
                    .map(|(request, count)| RequestTally { request, count })
                    .collect(),
                sessions.into_iter().map(session).collect(),
            )
        })
}

fn generator() -> impl Strategy<Value = GeneratorTally> {
    let delay_ns = proptest::option::of(COUNT);
    (COUNT, COUNT, COUNT, COUNT, delay_ns, histogram()).prop_map(
        |(cpu_user_ns, cpu_system_ns, busiest_cpu_ns, connections, run_delay_ns, loop_lag)| GeneratorTally {
            cpu_user_ns,
            cpu_system_ns,
            busiest_cpu_ns,
            threads: 1,
            processes: 1,
            loop_lag,
            ready_work_ns: Some(cpu_user_ns / 2),
            run_delay_ns,
            stalled_ns: busiest_cpu_ns / 2,
            connections,
            reconnects: connections / 2,
            source_addresses: 1,
        },
    )
}

fn handshakes() -> impl Strategy<Value = Vec<HandshakeTally>> {
    let key = ("TLS 1\\.[23]", proptest::option::of("[XP]"), any::<bool>());
    btree_map(key, (COUNT, COUNT), 0..3).prop_map(|rows| {
        let row = |((version, key_exchange, resumed), (count, in_window))| HandshakeTally {
            version,
            cipher: "TLS_AES_256_GCM_SHA384".to_owned(),
            key_exchange,
            key: "ECDSA P-256".to_owned(),
            resumed,
            count,
            in_window,
        };
        rows.into_iter().map(row).collect()
    })
}

fn open() -> impl Strategy<Value = OpenTally> {
    (COUNT, COUNT, COUNT, histogram()).prop_map(|(arrivals, dropped, waited, scheduling_error)| OpenTally {
        arrivals,
        arrivals_in_window: arrivals / 2,
        dropped,
        dropped_in_window: dropped / 2,
        waited,
        waiting_ns: waited * 3,
        scheduling_error,
    })
}

fn tally() -> impl Strategy<Value = LevelTally> {
    let of_the_level = (
        any::<bool>(),
        proptest::option::of(0..100_u32),
        COUNT,
        histogram(),
        (proptest::option::of(histogram()), handshakes()),
    );
    let operations = (operation("open"), operation("read"));
    let rows = (clients(), seconds(), errors(), calls());
    let digests = btree_map(0..6_u64, any::<u64>(), 0..3);
    (
        of_the_level,
        operations,
        rows,
        digests,
        generator(),
        (proptest::option::of(COUNT), proptest::option::of(open())),
    )
        .prop_map(
            |(
                (stopped, started, total, connect_time, of_tls),
                (open, read),
                rows,
                digests,
                generator,
                (passes, arrivals),
            )| {
                let (by_client, by_second, errors, (calls, requests, sessions)) = rows;
                let (handshake_time, handshakes) = of_tls;
                LevelTally {
                    handshake_time,
                    handshakes,
                    stopped,
                    started_unix_s: started.map(f64::from),
                    start_late_ns: started.map(|second| u64::from(second) + total),
                    clients_planned: by_client.len() as u64,
                    operations_total: total,
                    bytes_in: total / 2,
                    bytes_out: total / 3,
                    connect_time,
                    under_way_at_close: total % 7,
                    under_way_longest_ns: total,
                    overdue_at_end: total % 3,
                    open: arrivals,
                    by_operation: vec![open, read],
                    by_client,
                    by_second,
                    errors,
                    digests,
                    passes,
                    pass_operations: passes,
                    outstanding_ns: total,
                    bytes_checked: passes,
                    protocol_requests: passes,
                    calls,
                    requests,
                    sessions,
                    client_cache: passes.map(|passes| json!({"page_bytes": passes % 2})),
                    generator,
                    ..LevelTally::new()
                }
            },
        )
}

fn merged(left: &LevelTally, right: &LevelTally) -> LevelTally {
    left.clone().merged(right.clone()).expect("parts of one level")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_merging_does_not_matter(a in tally(), b in tally(), c in tally()) {
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        let parts = [c.to_bytes(), a.to_bytes(), b.to_bytes()];
        let together = LevelTally::from_parts(parts.iter().map(Vec::as_slice));
        prop_assert_eq!(together, Ok(merged(&merged(&a, &b), &c)));
        prop_assert_eq!(merged(&LevelTally::new(), &a), a);
    }

    #[test]
    fn a_tally_survives_writing_and_reading(a in tally()) {
        prop_assert_eq!(LevelTally::from_bytes(&a.to_bytes()), Ok(a));
    }
}

#[test]
fn a_histogram_of_many_kib_is_read() {
    let mut response_time = Histogram::new();
    (0..200_000_u64).for_each(|sample| response_time.record(sample * sample));
    assert!(response_time.to_bytes().len() > 8 << 10);
    let tally = LevelTally {
        by_operation: vec![OperationTally {
            response_time,
            ..OperationTally::default()
        }],
        ..LevelTally::new()
    };
    assert_eq!(LevelTally::from_bytes(&tally.to_bytes()), Ok(tally));
}

#[test]
fn the_earlier_of_two_first_failures_is_the_example_and_of_equal_times_the_first_by_text() {
    let with = |first_at_ns, example: &str| LevelTally {
        errors: vec![ErrorTally {
            fault: "other_io".to_owned(),
            example: example.to_owned(),
            count: 1,
            first_at_ns,
            ..ErrorTally::default()
        }],
        ..LevelTally::new()
    };
    for (left, right, example) in [((5, "b"), (9, "a"), "b"), ((5, "b"), (5, "a"), "a")] {
        let sum = merged(&with(left.0, left.1), &with(right.0, right.1));
        assert_eq!(
            (sum.errors[0].example.as_str(), sum.errors[0].count),
            (example, 2)
        );
    }
}

#[test]
fn a_value_that_one_engine_thread_lacks_is_unknown_in_the_sum() {
    let with = |run_delay_ns| LevelTally {
        generator: GeneratorTally {
            threads: 1,
            run_delay_ns,
            ..GeneratorTally::default()
        },
        ..LevelTally::new()
    };
    let delay = |left: &LevelTally, right: &LevelTally| merged(left, right).generator.run_delay_ns;
    assert_eq!(delay(&with(Some(5)), &with(Some(7))), Some(12));
    assert_eq!(delay(&with(Some(5)), &with(None)), None);
    assert_eq!(delay(&LevelTally::new(), &with(Some(5))), Some(5), "no thread");
}

#[test]
fn tallies_of_different_workloads_or_other_versions_are_refused_with_a_message() {
    let of = |name: &str| LevelTally {
        by_operation: vec![OperationTally {
            operation: name.to_owned(),
            ..OperationTally::default()
        }],
        ..LevelTally::new()
    };
    let refused = of("read").merged(of("GET a")).expect_err("other classes");
    assert_eq!(
        refused.to_string(),
        "by_operation: the tallies belong to different workloads"
    );
    let version = LevelTally::new().version + 1;
    let newer = LevelTally {
        version,
        ..LevelTally::new()
    };
    let refused = LevelTally::from_bytes(&newer.to_bytes()).expect_err("another version");
    assert!(refused.contains(&format!("version {version}")), "{refused}");
    assert!(LevelTally::from_bytes(b"nonsense").is_err());
    let mut cut = LevelTally::new().to_bytes();
    cut.push(0);
    let refused = LevelTally::from_bytes(&cut).expect_err("a part of a row");
    assert!(refused.contains("client rows are incomplete"), "{refused}");
}
