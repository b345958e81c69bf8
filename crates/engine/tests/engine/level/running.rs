//! Creates load levels with test parameters, and runs them to their end.

use crate::complete::complete;
use dyno_engine::{LevelSpec, LevelTally, Load, Material, OpenTarget, PreparedLevel, Secrets};
use dyno_measure::Fault;
use serde_json::{json, Value};
use std::net::SocketAddr;
use std::time::Duration;

/// Time limit on any machine: a level that takes longer has hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a level of 200 ms, without ramps, in which two clients with one thread each request one URL on
/// persistent connections.
pub fn level(address: SocketAddr) -> LevelSpec {
    level_at(&format!("http://{address}/"))
}

pub fn level_at(url: &str) -> LevelSpec {
    spec(json!({
        "version": 1,
        "protocol": "http",
        "target": {"url": url},
        "workload": {"name": "url"},
        "clients": 2,
        "window": {"length_s": 0.2},
        "seed": 1,
    }))
}

pub fn spec(document: Value) -> LevelSpec {
    LevelSpec::parse(&complete(document).to_string()).expect("a document")
}

/// Returns `level` with all sections completed.
fn completed(level: &LevelSpec) -> LevelSpec {
    spec(serde_json::to_value(level).expect("a document"))
}

/// Returns `level` with one changed client option.
pub fn with_client(mut level: LevelSpec, option: &str, value: Value) -> LevelSpec {
    level.client[option] = value;
    level
}

/// Returns `level` with clients that leave after their first error. The level ends once all clients have left, long
/// before its length.
pub fn until_all_have_left(mut level: LevelSpec) -> LevelSpec {
    level.window.length_s = 50.0;
    // If the time limit ended after the window, an operation would count as unanswered, not as late.
    let closes_s = if level.timeout_s < 1.0 { 1.5 } else { 0.001 };
    level.window.ramp_down_s = level.window.length_s - closes_s;
    level.leave_after_errors = Some(1);
    level
}

/// Prepares the level for its target, which is opened with `token`. None: it needs no consent.
pub fn prepared(level: &LevelSpec, token: Option<&str>) -> PreparedLevel {
    let secrets = Secrets {
        before_load: token.into(),
        ..Secrets::default()
    };
    let level = &completed(level);
    let target = OpenTarget::open(&level.protocol, level.target.clone(), &secrets).expect("load is welcome");
    PreparedLevel::new(level, &target, &Material::default()).expect("a level that makes sense")
}

/// Checks that the percentile reported during the run equals the final one, or is at most an eighth higher,
/// provided that the whole run counts.
fn check_p99_so_far(told_ms: Option<f64>, tally: &LevelTally) {
    assert_eq!(told_ms.is_some(), tally.operations_total >= 1000);
    let response_time = &tally.response_time;
    if let Some(told_ms) = told_ms.filter(|_| response_time.count() == tally.operations_total) {
        let exact_ms = response_time.value_at(0.99) as f64 / 1e6;
        assert!(
            exact_ms * 0.998 <= told_ms && told_ms <= exact_ms * 1.127,
            "{told_ms} for {exact_ms}"
        );
    }
}

pub fn run(level: LevelSpec) -> LevelTally {
    run_with(level, None)
}

/// Runs the level to its end, and checks properties of every tally.
pub fn run_with(level: LevelSpec, token: Option<&str>) -> LevelTally {
    let mut load = Load::start(&prepared(&level, token)).expect("the level starts");
    assert!(load.wait(PATIENCE), "the level hangs");
    let tally = load.result().expect("it has ended").clone();
    let in_seconds: u64 = tally.by_second.iter().map(|second| second.operations).sum();
    assert_eq!(in_seconds, tally.operations_total);
    let errors: u64 = tally.errors.iter().map(|fault| fault.count).sum();
    assert_eq!(
        tally.by_second.iter().map(|second| second.errors).sum::<u64>(),
        errors
    );
    assert_eq!(
        tally.by_client.iter().map(|client| client.errors).sum::<u64>(),
        errors
    );
    let in_window: u64 = tally.by_operation.iter().map(|class| class.count).sum();
    assert_eq!(
        tally
            .by_client
            .iter()
            .map(|client| client.operations)
            .sum::<u64>(),
        in_window
    );
    assert_eq!(tally.response_time.count(), in_window);
    assert!(in_window <= tally.operations_total);
    check_p99_so_far(load.snapshot().p99_ms, &tally);
    tally
}

/// Returns the faults and their counts.
pub fn faults(tally: &LevelTally) -> Vec<(Fault, u64)> {
    let errors = tally.errors.iter();
    errors.map(|error| (fault(&error.fault), error.count)).collect()
}

pub fn fault(name: &str) -> Fault {
    let found = Fault::ALL.iter().find(|fault| fault.name() == name);
    *found.expect("a name of a fault")
}

pub fn left(tally: &LevelTally) -> usize {
    tally
        .by_client
        .iter()
        .filter(|client| client.left_at_ns.is_some())
        .count()
}

/// Returns the problems of a level whose target can be opened.
pub fn problems(level: &LevelSpec) -> String {
    let level = &completed(level);
    let target = OpenTarget::open(&level.protocol, level.target.clone(), &Secrets::default());
    let target = target.expect("load is welcome");
    let prepared = PreparedLevel::new(level, &target, &Material::default());
    prepared.expect_err("something is wrong").to_string()
}
