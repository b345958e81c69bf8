//! The document that describes a level. It is the only input from the control plane, and is parsed and
//! checked only here.
//!
//! The `target`, `workload` and `client` sections belong to the protocols (`kinds/`), which parse them.
//! Secrets and blobs are passed separately and are not recorded.

use crate::arrival::{Arrival, OpenArrivals};
use crate::problems::{Problems, CONTRADICTS};
use dyno_measure::NS_PER_S;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub const VERSION: u32 = 1;
const MAX_STREAMS: usize = 1_000_000;
const MAX_ENGINE_THREADS: usize = 256;
const MAX_CPUS: usize = 1024;
/// Maximum rate of arrivals of a level: far above what any machine can generate.
const MAX_RATE_PER_S: f64 = 1e8;
const MAX_WAITING: usize = 100_000_000;

/// Length and measured part of a level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowSpec {
    /// Whole level, both ramps included.
    pub length_s: f64,
    /// Uncounted time at the start.
    pub ramp_up_s: f64,
    /// Uncounted time at the end.
    pub ramp_down_s: f64,
}

/// The clients that one process runs: runs of `client_run` consecutive clients, which start at `client_offset`,
/// `client_offset + client_step`, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartSpec {
    /// Number of the first client.
    pub client_offset: usize,
    /// Distance between the starts of consecutive runs.
    pub client_step: usize,
    /// Consecutive clients in a run.
    pub client_run: usize,
    /// Total number of clients.
    pub clients: usize,
}

impl PartSpec {
    /// Returns a client's number in the level.
    pub(crate) fn client(&self, place: usize) -> usize {
        self.client_offset + self.client_step * (place / self.client_run) + place % self.client_run
    }
}

/// The threads that generate the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    pub threads: usize,
    /// CPUs to which the threads are pinned in turn; if empty, they are not pinned.
    pub cpus: Vec<usize>,
}

/// What starts a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartRule {
    /// All clients of this process are ready.
    #[default]
    Ready,
    /// A call of `Load::go`, once all clients of all processes are ready.
    OnCommand,
}

/// A level: a fixed load for a fixed time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelSpec {
    pub version: u32,
    /// The protocol: a line of the table in `kinds/`.
    pub protocol: String,
    /// Target, in the format of the protocol. No secrets.
    pub target: Value,
    /// Workload: its `name` and parameters.
    pub workload: Value,
    /// How a client uses the protocol.
    pub client: Value,
    /// Simulated client machines of the whole level.
    pub clients: usize,
    /// Number of client threads per client.
    pub threads: usize,
    /// The part of the level that this process runs; None: all.
    pub part: Option<PartSpec>,
    pub arrival: Arrival,
    /// Maximum operations per second of the whole level, divided among the clients. A safety limit, not a pace.
    pub max_rate_per_s: Option<f64>,
    /// Number of operations of the whole level after which it ends early. None: the level ends only after its length.
    pub operations: Option<u64>,
    pub window: WindowSpec,
    /// Maximum random delay of a client's start.
    pub delay_s: f64,
    pub timeout_s: f64,
    /// Number of errors after which a client leaves. None: it never leaves.
    pub leave_after_errors: Option<u32>,
    /// Share of the reads whose content is checked.
    pub verify_share: f64,
    /// Seed of every random stream.
    pub seed: u64,
    /// Number that is unique to each level. It distinguishes the level's clients and their data from those of any other
    /// level.
    pub nonce: u64,
    #[serde(default)]
    pub start: StartRule,
    pub engine: EngineSpec,
    /// CPU time that the generator wastes per operation, to test how a slower generator would affect results.
    #[serde(default)]
    pub added_cpu_ns: u32,
    /// Number of operations of each client thread in its digest, from the first on; 0: no digest.
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

impl LevelSpec {
    /// Parses a document.
    ///
    /// # Errors
    /// The path of the first invalid value, or an unknown version of the document.
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
                &format!("{found} is not supported; the supported version is {VERSION}"),
            );
            return Err(problems);
        }
        let spec = value.and_then(|value| problems.section("level", &value));
        problems.none_or(spec)
    }

    /// Adds all problems that don't depend on the protocol to `problems`.
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
            "the ramps take the whole length",
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
            Arrival::Open(open) => self.check_open(open, problems),
        }
    }

    fn check_open(&self, open: OpenArrivals, problems: &mut Problems) {
        let rate_per_s = open.rate_per_s;
        problems.bounded(
            rate_per_s > 0.0 && rate_per_s <= MAX_RATE_PER_S,
            "arrival.rate_per_s",
        );
        problems.unless(
            self.max_rate_per_s.is_none_or(|most| rate_per_s <= most),
            "arrival.rate_per_s",
            "is above max_rate_per_s",
        );
        problems.bounded(open.queue <= MAX_WAITING, "arrival.queue");
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
            problems.unless(
                last < self.clients,
                "part",
                "contains clients that are not part of the level",
            );
        }
        problems.bounded((0.0..=1.0).contains(&self.verify_share), "verify_share");
        problems.bounded(self.leave_after_errors != Some(0), "leave_after_errors");
        problems.bounded(self.operations != Some(0), "operations");
        problems.unless(
            self.operations.is_none()
                || !matches!(self.arrival, Arrival::Open(_)) && self.window.has_no_ramps(),
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
