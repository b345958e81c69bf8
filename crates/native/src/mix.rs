//! A mix as Python asks for it, checked: every problem of a specification is told at once.

use crate::target::Target;
use dyno_engine::{Mix, WebWork, WebWorkload, Work};
use dyno_http::Version;
use dyno_measure::{Window, NS_PER_S};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

const MAX_STREAMS: usize = 1_000_000;
const MAX_LENGTH_S: f64 = 86_400.0;
const MAX_ENGINE_THREADS: usize = 256;
const MAX_CPUS: usize = 1024;

/// How many clients, when, and how they pace themselves; whatever they do.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Shape {
    clients: usize,
    threads: usize,
    window: Window,
    delay_ns: u64,
    think_ns: u64,
    timeout_ns: u64,
    seed: u64,
    leave_after_errors: Option<u32>,
    verify_share: f64,
    max_rate_per_s: Option<f64>,
    engine_threads: usize,
    cpus: Vec<usize>,
}

pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * NS_PER_S as f64).round() as u64
}

/// Problems of a specification, gathered so that all are told at once.
#[derive(Default)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    pub(crate) fn unless(&mut self, holds: bool, problem: &str) {
        if !holds {
            self.0.push(problem.to_owned());
        }
    }

    pub(crate) fn choose<T>(&mut self, name: &str, given: &str, choices: &[(&str, T)]) -> Option<T>
    where
        T: Copy,
    {
        let found = choices
            .iter()
            .find(|(choice, _)| *choice == given)
            .map(|(_, value)| *value);
        if found.is_none() {
            let known: Vec<&str> = choices.iter().map(|(choice, _)| *choice).collect();
            self.0
                .push(format!("{name}: {given:?} is none of {}", known.join(", ")));
        }
        found
    }

    pub(crate) fn error(&self) -> PyErr {
        PyValueError::new_err(self.text())
    }

    pub(crate) fn text(&self) -> String {
        self.0.join("\n")
    }

    pub(crate) fn none(&self) -> bool {
        self.0.is_empty()
    }
}

#[pymethods]
impl Shape {
    #[new]
    #[pyo3(signature = (*, clients, threads, length_s, ramp_up_s=0.0, ramp_down_s=0.0, delay_s=0.0, think_time_s=0.0,
        timeout_s=30.0, seed=0, leave_after_errors=None, verify_share=1.0, max_rate_per_s=None, engine_threads=1,
        cpus=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        clients: usize,
        threads: usize,
        length_s: f64,
        ramp_up_s: f64,
        ramp_down_s: f64,
        delay_s: f64,
        think_time_s: f64,
        timeout_s: f64,
        seed: u64,
        leave_after_errors: Option<u32>,
        verify_share: f64,
        max_rate_per_s: Option<f64>,
        engine_threads: usize,
        cpus: Option<Vec<usize>>,
    ) -> PyResult<Self> {
        let mut problems = Problems::default();
        let cpus = cpus.unwrap_or_default();
        let times = [length_s, ramp_up_s, ramp_down_s, delay_s, think_time_s, timeout_s];
        problems.unless(
            times.iter().all(|time| (0.0..=MAX_LENGTH_S).contains(time)),
            "every time lies between 0 and 86,400 seconds",
        );
        problems.unless(
            length_s > ramp_up_s + ramp_down_s,
            "the ramps leave nothing of the length",
        );
        problems.unless(timeout_s > 0.0, "timeout_s must be more than 0");
        problems.unless(
            (1..=MAX_STREAMS).contains(&clients.saturating_mul(threads)),
            "clients x threads must lie between 1 and 1,000,000",
        );
        problems.unless(
            (0.0..=1.0).contains(&verify_share),
            "verify_share lies between 0 and 1",
        );
        problems.unless(
            (1..=MAX_ENGINE_THREADS).contains(&engine_threads),
            "engine_threads lies between 1 and 256",
        );
        problems.unless(
            cpus.iter().all(|cpu| *cpu < MAX_CPUS),
            "a CPU's number is less than 1024",
        );
        problems.unless(
            leave_after_errors != Some(0),
            "leave_after_errors must be at least 1",
        );
        problems.unless(
            max_rate_per_s.is_none_or(|rate| rate.is_finite() && rate > 0.0),
            "max_rate_per_s must be more than 0",
        );
        if !problems.none() {
            return Err(problems.error());
        }
        Ok(Self {
            clients,
            threads,
            window: Window {
                length_ns: nanoseconds(length_s),
                ramp_up_ns: nanoseconds(ramp_up_s),
                ramp_down_ns: nanoseconds(ramp_down_s),
            },
            delay_ns: nanoseconds(delay_s),
            think_ns: nanoseconds(think_time_s),
            timeout_ns: nanoseconds(timeout_s),
            seed,
            leave_after_errors,
            verify_share,
            max_rate_per_s,
            engine_threads,
            cpus,
        })
    }
}

impl Shape {
    pub(crate) fn mix(&self, work: Work) -> Mix {
        Mix {
            work,
            clients: self.clients,
            threads: self.threads,
            window: self.window,
            delay_ns: self.delay_ns,
            think_ns: self.think_ns,
            timeout_ns: self.timeout_ns,
            seed: self.seed,
            leave_after_errors: self.leave_after_errors,
            verify_share: self.verify_share,
            max_rate_per_s: self.max_rate_per_s,
            engine_threads: self.engine_threads,
            cpus: self.cpus.clone(),
        }
    }

    /// A client that uses files has one session, and so one stream of operations.
    pub(crate) fn check_files(&self, problems: &mut Problems, loopback: bool) {
        problems.unless(self.threads == 1, "a client that uses files has one thread");
        self.check_bound(problems, loopback);
    }

    /// A target that is not this machine gets no load without a bound on its rate.
    fn check_bound(&self, problems: &mut Problems, loopback: bool) {
        problems.unless(
            loopback || self.max_rate_per_s.is_some(),
            "a target that is not loopback needs max_rate_per_s",
        );
    }
}

/// One mix, checked.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct MixSpec {
    pub(crate) mix: Mix,
}

/// A mix of work on documents over HTTP.
#[pyfunction]
#[pyo3(signature = (shape, *, target, workload, http_version="1.1", keep_alive=true, close="ordinary",
        receive_buffer_bytes=65536, fresh_sockets=false))]
#[allow(clippy::too_many_arguments)]
pub fn web_mix(
    shape: &Shape,
    target: &Target,
    workload: &str,
    http_version: &str,
    keep_alive: bool,
    close: &str,
    receive_buffer_bytes: usize,
    fresh_sockets: bool,
) -> PyResult<MixSpec> {
    let mut problems = Problems::default();
    let kinds = [
        ("webbench-static", WebWorkload::WebbenchStatic),
        ("url", WebWorkload::Url),
    ];
    let workload = problems.choose("workload", workload, &kinds);
    let versions = [("1.0", Version::Http10), ("1.1", Version::Http11)];
    let version = problems.choose("http_version", http_version, &versions);
    let reset = problems.choose("close", close, &[("ordinary", false), ("reset", true)]);
    problems.unless(
        (256..=16 * 1024 * 1024).contains(&receive_buffer_bytes),
        "receive_buffer_bytes lies between 256 and 16 MiB",
    );
    shape.check_bound(&mut problems, target.inner.is_loopback());
    let (Some(workload), Some(version), Some(reset), true) = (workload, version, reset, problems.none())
    else {
        return Err(problems.error());
    };
    Ok(MixSpec {
        mix: shape.mix(Work::Web(WebWork {
            target: target.inner.clone(),
            workload,
            version,
            keep_alive,
            reset,
            fresh_sockets,
            receive_buffer_bytes,
        })),
    })
}
