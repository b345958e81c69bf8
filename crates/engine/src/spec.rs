//! The document that says what a mix is: the one line down from the control plane. Read and checked here once.
//!
//! The sections `target`, `workload` and `client` belong to the kind of work (`kinds/`), which reads them itself.
//! Secrets and blobs travel beside the document and stand in no record.

use crate::arrival::Arrival;
use crate::problems::{Problems, CONTRADICTS};
use dyno_measure::NS_PER_S;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub const VERSION: u32 = 1;
const MAX_STREAMS: usize = 1_000_000;
const MAX_ENGINE_THREADS: usize = 256;
const MAX_CPUS: usize = 1024;
/// Of operations a second that come, of a whole mix: many times what any machine can make.
const MAX_RATE_PER_S: f64 = 1e8;
const MAX_WAITING: usize = 100_000_000;

/// When and how much of a mix counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowSpec {
    /// The whole mix, both ramps included.
    pub length_s: f64,
    /// Uncounted time at the start.
    pub ramp_up_s: f64,
    /// Uncounted time at the end.
    pub ramp_down_s: f64,
}

/// The clients that one process carries: `client_run` of them from `client_offset` on, as many from `client_offset +
/// client_step` on, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartSpec {
    /// Number of the first.
    pub client_offset: usize,
    /// From one run to the next.
    pub client_step: usize,
    /// How many stand next to each other.
    pub client_run: usize,
    /// How many in all.
    pub clients: usize,
}

/// The threads that make the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    pub threads: usize,
    /// The CPUs that they are pinned to, in turn; none: not pinned.
    pub cpus: Vec<usize>,
}

/// What sets the moment at which a mix starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartRule {
    /// That every client of this process is ready.
    #[default]
    Ready,
    /// Whoever started it, once every client of every process is ready: `Load::go`.
    OnCommand,
}

/// One mix: a fixed load for a fixed time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixSpec {
    pub version: u32,
    /// The kind of work: a line of the table in `kinds/`.
    pub protocol: String,
    /// Where to, as the kind of work reads it. No secrets.
    pub target: Value,
    /// What clients do, by `name`, with its own parameters.
    pub workload: Value,
    /// How a client uses the protocol.
    pub client: Value,
    /// Simulated client machines of the whole mix.
    pub clients: usize,
    /// Request streams in each.
    pub threads: usize,
    /// The part of it that this process carries; None: all.
    pub part: Option<PartSpec>,
    /// How clients arrive with their operations.
    pub arrival: Arrival,
    /// Operations per second of the whole mix, at most: a safety bound, shared out by client. Not a pace.
    pub max_rate_per_s: Option<f64>,
    /// Operations of the whole mix, after which it ends before its length is over; None: it ends by its length alone.
    pub operations: Option<u64>,
    /// Its length, and what of it counts.
    pub window: WindowSpec,
    /// Each client starts at a random moment up to this late.
    pub delay_s: f64,
    /// How long an operation may take.
    pub timeout_s: f64,
    /// Errors after which a client leaves; None: never.
    pub leave_after_errors: Option<u32>,
    /// The share of what is read of which the content is checked.
    pub verify_share: f64,
    /// Of every random stream.
    pub seed: u64,
    /// Another for each mix that is made: tells its clients and what they write from those of any other.
    pub nonce: u64,
    /// What sets its start.
    #[serde(default)]
    pub start: StartRule,
    /// The threads that make the load.
    pub engine: EngineSpec,
    /// CPU time that the generator wastes on each operation, for tests of what a slower generator would show.
    #[serde(default)]
    pub added_cpu_ns: u32,
    /// So many of a client thread's first operations go into the digest of what the client did; 0: no digest.
    #[serde(default)]
    pub digest_operations: u32,
}

pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * NS_PER_S as f64).round() as u64
}

impl WindowSpec {
    fn has_no_ramps(&self) -> bool {
        self.ramp_up_s == 0.0 && self.ramp_down_s == 0.0
    }
}

impl MixSpec {
    /// Reads a document.
    ///
    /// # Errors
    /// The first place at which it is none, by its path, or another version.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let value: Option<Value> = match serde_json::from_str(text) {
            Ok(value) => Some(value),
            Err(error) => {
                problems.unless(false, "the document", &error.to_string());
                None
            }
        };
        let found = value.as_ref().and_then(|value| value.get("version")?.as_u64());
        if let Some(found) = found.filter(|found| *found != u64::from(VERSION)) {
            problems.unless(
                false,
                "version",
                &format!("{found} is not known here, {VERSION} is"),
            );
            return Err(problems);
        }
        let spec = value.and_then(|value| problems.section("mix", &value));
        problems.none_or(spec)
    }

    /// Everything in it that is wrong, whatever the kind of work; goes to `problems`.
    pub(crate) fn check(&self, problems: &mut Problems) {
        self.check_times(problems);
        self.check_clients(problems);
        self.check_engine(problems);
    }

    fn check_times(&self, problems: &mut Problems) {
        let window = &self.window;
        problems.time(window.length_s, "window.length_s");
        problems.time(window.ramp_up_s, "window.ramp_up_s");
        problems.time(window.ramp_down_s, "window.ramp_down_s");
        problems.unless(
            window.length_s > window.ramp_up_s + window.ramp_down_s,
            "window",
            "the ramps leave nothing of the length",
        );
        problems.time(self.delay_s, "delay_s");
        problems.time(self.timeout_s, "timeout_s");
        problems.bounded(self.timeout_s > 0.0, "timeout_s");
        match self.arrival {
            Arrival::Closed { think_time_s } => problems.time(think_time_s, "arrival.think_time_s"),
            Arrival::Paced { interval_s } => {
                problems.time(interval_s, "arrival.interval_s");
                problems.bounded(nanoseconds(interval_s) > 0, "arrival.interval_s");
            }
            Arrival::Open {
                rate_per_s, queue, ..
            } => self.check_open(rate_per_s, queue, problems),
        }
    }

    fn check_open(&self, rate_per_s: f64, queue: usize, problems: &mut Problems) {
        problems.bounded(
            rate_per_s > 0.0 && rate_per_s <= MAX_RATE_PER_S,
            "arrival.rate_per_s",
        );
        problems.unless(
            self.max_rate_per_s.is_none_or(|most| rate_per_s <= most),
            "arrival.rate_per_s",
            "is above max_rate_per_s",
        );
        problems.bounded(queue <= MAX_WAITING, "arrival.queue");
    }

    fn check_clients(&self, problems: &mut Problems) {
        problems.bounded(
            (1..=MAX_STREAMS).contains(&self.clients.saturating_mul(self.threads)),
            "clients",
        );
        if let Some(part) = self.part {
            let place = part.clients.saturating_sub(1);
            let last = part
                .client_step
                .saturating_mul(place.checked_div(part.client_run).unwrap_or_default())
                .saturating_add(place.checked_rem(part.client_run).unwrap_or_default())
                .saturating_add(part.client_offset);
            problems.bounded(part.clients > 0, "part.clients");
            problems.bounded(part.client_step > 0, "part.client_step");
            problems.bounded(
                (1..=part.client_step).contains(&part.client_run),
                "part.client_run",
            );
            problems.unless(last < self.clients, "part", "has clients that the mix has not");
        }
        problems.bounded((0.0..=1.0).contains(&self.verify_share), "verify_share");
        problems.bounded(self.leave_after_errors != Some(0), "leave_after_errors");
        problems.bounded(self.operations != Some(0), "operations");
        problems.unless(
            self.operations.is_none()
                || !matches!(self.arrival, Arrival::Open { .. }) && self.window.has_no_ramps(),
            "operations",
            CONTRADICTS,
        );
        problems.bounded(
            self.max_rate_per_s
                .is_none_or(|rate| rate.is_finite() && rate > 0.0),
            "max_rate_per_s",
        );
    }

    fn check_engine(&self, problems: &mut Problems) {
        let EngineSpec { threads, cpus } = &self.engine;
        problems.bounded((1..=MAX_ENGINE_THREADS).contains(threads), "engine.threads");
        problems.bounded(cpus.iter().all(|cpu| *cpu < MAX_CPUS), "engine.cpus");
    }
}
