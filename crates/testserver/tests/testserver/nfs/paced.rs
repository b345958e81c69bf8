//! A session obeys the rate limit in every request, and time spent waiting for the limit does not count
//! toward its deadline.

use super::faults::exercise;
use super::raw::{url, EXPORT, UDP, VERSIONS};
use dyno_files::FileClient;
use dyno_measure::{monotonic_ns, NS_PER_S};
use dyno_net::{Dialer, Executor, Pace};
use dyno_nfs::NfsTarget;
use dyno_testserver::nfs::{Options, Server};
use std::cell::RefCell;
use std::rc::Rc;

const RATE_PER_S: u64 = 8;
/// Shorter than the requests of one session take at this rate.
const PATIENCE_NS: u64 = 500_000_000;

fn check(version: &str) {
    let options = Options {
        udp: true,
        ..Options::on_loopback(EXPORT)
    };
    let server = Server::start(&options).expect("it starts");
    let url = url(server.port(), version);
    let target = NfsTarget::open(&url, vec![], dyno_nfs::Options::default(), None, None).expect("loopback");
    let pace = Pace::of(target.address(), Some(RATE_PER_S as f64), (1, 1), 0);
    let executor = Executor::new().expect("an epoll instance");
    let dialer = Rc::new(Dialer::new(executor.clone(), target.address(), 0).paced(pace));
    let mut session = target.session(&executor, &dialer, EXPORT, 1);
    let outcome = Rc::new(RefCell::new(None));
    let (slot, own) = (outcome.clone(), executor.clone());
    executor.spawn(async move {
        let begun_ns = monotonic_ns();
        let read = exercise(&mut session, &own, PATIENCE_NS).await;
        let took_ns = monotonic_ns() - begun_ns;
        slot.replace(Some((read, took_ns, session.traffic().requests)));
    });
    executor.run(|| false).expect("the loop runs");
    let (read, took_ns, requests) = outcome.take().expect("it came to its end");
    assert_eq!(read.expect("it is in time"), b"0123456789", "{version}");
    let least_ns = (requests - 1) * NS_PER_S / RATE_PER_S;
    assert!(
        least_ns > PATIENCE_NS && took_ns >= least_ns,
        "{version}: {took_ns} ns"
    );
}

#[test]
fn every_request_keeps_the_bound_and_the_deadline_does_not_count_the_waits() {
    std::thread::scope(|scope| {
        for version in VERSIONS.into_iter().chain([UDP]) {
            scope.spawn(move || check(version));
        }
    });
}
