//! A mix with the parameters of a test, and running it to its end.

use dyno_engine::{Load, Mix, MixTally, WebWork, WebWorkload, Work};
use dyno_http::{Target, Version};
use dyno_measure::{Fault, Window};
use std::net::SocketAddr;
use std::time::Duration;

pub const MS: u64 = 1_000_000;
/// However slow the machine: what has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two clients with one thread each that ask for one URL on kept connections for 200 ms, all of which counts.
pub fn mix(address: SocketAddr) -> Mix {
    mix_at(&format!("http://{address}/"), None)
}

pub fn mix_at(url: &str, token: Option<&str>) -> Mix {
    Mix {
        work: Work::Web(WebWork {
            target: Target::open(url, token).expect("load is welcome"),
            workload: WebWorkload::Url,
            version: Version::Http11,
            keep_alive: true,
            reset: false,
            fresh_sockets: false,
            receive_buffer_bytes: 65_536,
        }),
        clients: 2,
        threads: 1,
        window: Window {
            length_ns: 200 * MS,
            ramp_up_ns: 0,
            ramp_down_ns: 0,
        },
        delay_ns: 0,
        think_ns: 0,
        seed: 1,
        timeout_ns: 30_000 * MS,
        leave_after_errors: None,
        verify_share: 1.0,
        max_rate_per_s: None,
        engine_threads: 1,
        cpus: Vec::new(),
    }
}

/// `mix` with its work changed.
pub fn with_web(mut mix: Mix, change: impl FnOnce(&mut WebWork)) -> Mix {
    match &mut mix.work {
        Work::Web(work) => change(work),
        Work::Files(_) => panic!("a mix of web work"),
    }
    mix
}

/// `mix`, of which clients leave with their first error: it ends once all have left, long before its length.
pub fn until_all_have_left(mix: Mix) -> Mix {
    Mix {
        window: Window {
            length_ns: 50_000 * MS,
            ramp_up_ns: 0,
            ramp_down_ns: 49_999 * MS,
        },
        leave_after_errors: Some(1),
        ..mix
    }
}

/// Runs it to its end, and checks what must hold of any tally.
pub fn run(mix: Mix) -> MixTally {
    let mut load = Load::start(mix).expect("the mix starts");
    assert!(load.wait(PATIENCE), "the mix hangs");
    let tally = load.result().expect("it has ended").clone();
    let in_seconds: u64 = tally.by_second.iter().map(|second| second.operations).sum();
    assert_eq!(in_seconds, tally.operations_total);
    let errors: u64 = tally.faults.iter().map(|fault| fault.count).sum();
    assert_eq!(
        tally.by_second.iter().map(|second| second.errors).sum::<u64>(),
        errors
    );
    assert_eq!(
        tally.by_client.iter().map(|client| client.errors).sum::<u64>(),
        errors
    );
    let in_window: u64 = tally.by_class.iter().map(|class| class.count).sum();
    assert_eq!(
        tally
            .by_client
            .iter()
            .map(|client| client.operations)
            .sum::<u64>(),
        in_window
    );
    assert_eq!(tally.response_time().count(), in_window);
    assert!(in_window <= tally.operations_total);
    tally
}

/// The kinds of failure, and how often each occurred.
pub fn faults(tally: &MixTally) -> Vec<(Fault, u64)> {
    tally
        .faults
        .iter()
        .map(|fault| (fault.fault, fault.count))
        .collect()
}

pub fn left(tally: &MixTally) -> usize {
    tally
        .by_client
        .iter()
        .filter(|client| client.left_at_ns.is_some())
        .count()
}
