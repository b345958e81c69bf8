//! Counts of a level, as sent to the control plane: a versioned document whose parts can be merged in any
//! order.
//!
//! Each figure is a field of one of these structures. Its attributes define how two parts merge
//! (`merging.rs`) and its name in records; its doc comment is its row in docs/data-format.md.
//! `tools/records.py` generates the records in Python from `schema`. Counting is in `counting.rs`. Histograms
//! are HDR V2. Times are whole nanoseconds here and seconds in the document, so that a sum does not depend on
//! its order.

use crate::break_tally::BreakTally;
use crate::client_rows::{self, by_number, ClientTally};
use crate::failover_tally::FailoverTally;
use crate::merging::{self as rule, Keyed};
use crate::open_tally::OpenTally;
use crate::problems::Problems;
use crate::time_fields::{seconds, seconds_or_none};
use dyno_measure::Histogram;
use merge::Merge;
use schemars::{schema_for, JsonSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

pub const VERSION: u32 = 4;

/// One class of operations, in the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct OperationTally {
    /// The name of the class: "GET 223.gif", "read".
    #[merge(skip)]
    pub operation: String,
    /// Successes.
    pub count: u64,
    /// Application bytes that came with them.
    pub bytes_read: u64,
    /// Application bytes that they wrote.
    pub bytes_written: u64,
    /// Failures.
    pub errors: u64,
    /// ns, response times of the successes.
    #[serde(rename = "response_time_hdr")]
    #[merge(strategy = rule::histogram)]
    pub response_time: Histogram,
}

/// One second since the start of the mix, ramps and drain included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct SecondTally {
    /// Since the start.
    #[merge(skip)]
    pub second: u64,
    /// Successes.
    pub operations: u64,
    /// Their bytes, heads included.
    pub bytes_in: u64,
    /// Failures.
    pub errors: u64,
}

/// One kind of error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorTally {
    /// Whose fault it is: server, network, client (our own) or check (wrong data).
    pub side: String,
    /// The kind. `unanswered_at_close`: operations in flight when the window closed that had no answer in time, which
    /// reports don't count as errors.
    pub fault: String,
    /// From start to end.
    pub count: u64,
    /// Of them, those in the window.
    pub in_window: u64,
    /// The first one, in words.
    pub example: String,
    /// What to try against it, where the protocol knows.
    #[schemars(extend("x-column" = false))]
    pub advice: Option<String>,
    /// When the first one came, since the start of the mix.
    #[serde(rename = "first_at_s", with = "seconds")]
    #[schemars(with = "f64", extend("x-column" = false))]
    pub first_at_ns: u64,
}

/// One kind of call below the client cache, from start to end of the mix; workspaces not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct CallTally {
    /// The kind: "open".
    #[merge(skip)]
    pub call: String,
    /// Successes that found or did something.
    pub done: u64,
    /// Calls that the server answered with "there is no such file", rightly or not.
    pub not_there: u64,
    /// Failures.
    pub failed: u64,
    /// Data read or written.
    pub bytes: u64,
}

/// Requests of the protocol by its own names, from start to end of the mix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Merge, JsonSchema)]
pub struct RequestTally {
    /// The name: "CREATE".
    #[merge(skip)]
    pub request: String,
    /// How many.
    #[merge(strategy = rule::sum)]
    pub count: u64,
}

/// Terms that sessions agreed on with the server, in the protocol's own words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Merge)]
pub struct SessionTally {
    #[serde(flatten)]
    #[merge(skip)]
    pub agreed: BTreeMap<String, Value>,
    /// Clients that had such a session. A client that later agreed on other terms counts in both.
    #[merge(strategy = rule::sum)]
    pub clients: u64,
}

/// TLS handshakes that led to sessions on the same terms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct HandshakeTally {
    /// "TLS 1.3".
    #[merge(skip)]
    pub version: String,
    /// The cipher suite, by its name in IANA's registry.
    #[merge(skip)]
    pub cipher: String,
    /// The group of the key exchange; null where an earlier session's secret was used alone.
    #[merge(skip)]
    pub key_exchange: Option<String>,
    /// The key of the server's certificate: "ECDSA P-256".
    #[merge(skip)]
    pub key: String,
    /// Whether earlier sessions were taken up again.
    #[merge(skip)]
    pub resumed: bool,
    /// From start to end, failed requests included.
    pub count: u64,
    /// Of operations that ended in the window.
    pub in_window: u64,
}

/// What the generator used and did itself, all of its threads and processes together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct GeneratorTally {
    /// CPU time of the engine threads in the window, in user space.
    #[serde(rename = "generator_cpu_user_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub cpu_user_ns: u64,
    /// CPU time of the engine threads in the window, in the kernel.
    #[serde(rename = "generator_cpu_system_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub cpu_system_ns: u64,
    /// CPU time in the window of the engine thread that used most.
    #[serde(rename = "generator_busiest_cpu_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::max)]
    pub busiest_cpu_ns: u64,
    /// Engine threads.
    #[serde(rename = "generator_threads")]
    pub threads: u64,
    /// Processes that made the load.
    #[serde(rename = "generator_processes")]
    #[schemars(extend("x-column" = false))]
    pub processes: u64,
    /// ns from the kernel's report of readiness to the end of its batch, in the window.
    #[serde(rename = "loop_lag_hdr")]
    #[merge(strategy = rule::histogram)]
    pub loop_lag: Histogram,
    /// Connections whose next step was the generator's, times seconds, in the window; null, as the next, where clients
    /// wait in system calls: there nothing tells the generator's time from theirs.
    #[serde(rename = "ready_work_s", with = "seconds_or_none")]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::sum_of_known)]
    pub ready_work_ns: Option<u64>,
    /// Engine threads that were ready and had no CPU, times seconds, in the window; null where the kernel does not tell.
    #[serde(rename = "run_delay_s", with = "seconds_or_none")]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::sum_of_known)]
    pub run_delay_ns: Option<u64>,
    /// Seconds from start to end in which the generator stood still: it was stopped, the machine was paused, or its clock
    /// was set; of several processes, the longest. Above 0.5 the level is void, and a resume measures it again.
    #[serde(rename = "stalled_s", with = "seconds", default)]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::max)]
    pub stalled_ns: u64,
    /// Opened from start to end; of files, from the first client's log-on to the last one's leaving.
    pub connections: u64,
    /// Idle connections that the server had closed; of files, sessions set up after one that was lost.
    pub reconnects: u64,
    /// Local addresses used.
    pub source_addresses: u64,
}

/// A mix, or the part of it that one thread or process carried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Merge, JsonSchema)]
pub struct MixTally {
    /// Of this document.
    #[merge(strategy = rule::max)]
    #[schemars(extend("x-column" = false))]
    pub version: u32,
    /// It was stopped before its end.
    #[merge(strategy = rule::or)]
    pub stopped: bool,
    /// Wall-clock time of the start, seconds since 1970; 0 where it was stopped before.
    #[schemars(with = "f64")]
    #[merge(strategy = rule::min_of_known)]
    pub started_unix_s: Option<f64>,
    /// How late the engine thread that was latest began its first operation; null where none began.
    #[serde(rename = "start_late_s", with = "seconds_or_none", default)]
    #[schemars(with = "Option<f64>", extend("x-column" = false))]
    #[merge(strategy = rule::max)]
    pub start_late_ns: Option<u64>,
    /// What a web server calls itself in its first response; null where it does not say.
    #[merge(strategy = rule::max)]
    #[schemars(extend("x-column" = false))]
    #[serde(default)]
    pub server: Option<String>,
    /// Measured time.
    #[serde(rename = "window_s", with = "seconds")]
    #[schemars(with = "f64")]
    #[merge(strategy = rule::max)]
    pub window_ns: u64,
    /// Clients that were to take part.
    #[merge(strategy = rule::sum)]
    #[schemars(extend("x-column" = false))]
    pub clients_planned: u64,
    /// Still in the mix at its end.
    #[merge(strategy = rule::sum)]
    pub clients_participating: u64,
    /// Successes that completed in the window; of files: the application's operations, above the cache.
    #[merge(strategy = rule::sum)]
    pub operations: u64,
    /// Successes from start to end, drain included.
    #[merge(strategy = rule::sum)]
    pub operations_total: u64,
    /// Of the successes in the window: decoded bodies; of files, what applications read.
    #[merge(strategy = rule::sum)]
    pub bytes_read: u64,
    /// Of the successes in the window: what applications wrote; 0 over HTTP.
    #[merge(strategy = rule::sum)]
    pub bytes_written: u64,
    /// Of the successes in the window: everything received, heads and framing included.
    #[merge(strategy = rule::sum)]
    pub bytes_in: u64,
    /// Of the successes in the window: everything sent.
    #[merge(strategy = rule::sum)]
    pub bytes_out: u64,
    /// ns, successes in the window.
    #[serde(rename = "response_time_hdr")]
    #[merge(strategy = rule::histogram)]
    pub response_time: Histogram,
    /// ns from the intended start until the connection stood, operations that ended in the window.
    #[serde(rename = "connect_time_hdr")]
    #[merge(strategy = rule::histogram)]
    pub connect_time: Histogram,
    /// ns from the TCP connection until a request could be sent over TLS, operations that ended in the window; null
    /// without TLS, and before format 4.
    #[serde(rename = "handshake_time_hdr")]
    #[merge(strategy = rule::histogram_of_known)]
    pub handshake_time: Option<Histogram>,
    /// TLS handshakes that led to a session, by what was agreed.
    #[merge(strategy = rule::union)]
    pub handshakes: Vec<HandshakeTally>,
    /// Operations, failures too, that the window closed upon: the window's own figures don't have them.
    #[merge(strategy = rule::sum)]
    #[schemars(with = "Option<u64>")]
    pub under_way_at_close: u64,
    /// How long the slowest of them took in the end.
    #[serde(rename = "under_way_longest_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::max)]
    pub under_way_longest_ns: u64,
    /// Operations that were under way, failures too, times seconds, in the window: divided by the window it is the mean
    /// number of request streams that waited for an answer.
    #[serde(rename = "outstanding_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::sum)]
    pub outstanding_ns: u64,
    /// Operations of paced clients, or of open load, that were due before the end and never began.
    #[merge(strategy = rule::sum)]
    #[schemars(with = "Option<u64>")]
    pub overdue_at_end: u64,
    /// Of open load; else clients have a pace of their own.
    #[serde(flatten)]
    #[merge(strategy = rule::of_known)]
    pub open: Option<OpenTally>,
    /// In the order of the workload's classes.
    #[merge(strategy = rule::each)]
    pub by_operation: Vec<OperationTally>,
    /// By client number. There may be very many, so they are packed behind the document (`client_rows.rs`).
    #[serde(skip)]
    #[merge(strategy = client_rows::together)]
    pub by_client: Vec<ClientTally>,
    /// Each second since the start, ramps and drain included.
    #[merge(strategy = rule::union)]
    pub by_second: Vec<SecondTally>,
    /// By the name of the fault.
    #[merge(strategy = rule::union)]
    pub errors: Vec<ErrorTally>,
    /// Client number -> digest of its first operations, where the mix asked for it.
    #[merge(strategy = rule::xor)]
    #[schemars(extend("x-column" = false))]
    pub digests: BTreeMap<u64, u64>,
    /// Whole passes of the workload that clients completed, start to end; null over HTTP.
    #[merge(strategy = rule::sum_of_known)]
    pub passes: Option<u64>,
    /// Operations of one pass of the workload of one client; null over HTTP.
    #[merge(strategy = rule::max)]
    pub pass_operations: Option<u64>,
    /// Application bytes read whose content was held against what the file should contain, start to end; null over HTTP.
    #[merge(strategy = rule::sum_of_known)]
    pub bytes_checked: Option<u64>,
    /// Bytes read of which nobody knows what they must be, because another client wrote them meanwhile: of levels that end
    /// when their work is done, like the next.
    #[merge(strategy = rule::sum_of_known)]
    pub bytes_unknown: Option<u64>,
    /// Files and directories that a step listed, looked at, read, made or removed.
    #[merge(strategy = rule::sum_of_known)]
    pub entries: Option<u64>,
    /// All requests of all sessions, those that made and removed workspaces too: what the server should have counted;
    /// null over HTTP.
    #[merge(strategy = rule::sum_of_known)]
    #[schemars(extend("x-column" = false))]
    pub protocol_requests: Option<u64>,
    /// Breaks, by which a file server takes caching back.
    #[serde(flatten)]
    #[merge(strategy = rule::of_known)]
    pub breaks: Option<BreakTally>,
    /// Of work that asked for handles which outlive their connection, or that goes on over an outage.
    #[serde(flatten)]
    #[merge(strategy = rule::of_known)]
    pub failover: Option<FailoverTally>,
    /// Calls below the client cache, start to end; empty over HTTP.
    #[merge(strategy = rule::union)]
    pub calls: Vec<CallTally>,
    /// Requests of the protocol by name, start to end; workspaces not counted. Over HTTP: streams of HTTP/2, also those
    /// refused ([names](http2.md)), and bodies that were decoded ([names](methods.md)).
    #[merge(strategy = rule::union)]
    pub requests: Vec<RequestTally>,
    /// What the sessions of the clients came to.
    #[merge(strategy = rule::union)]
    #[schemars(with = "Vec<Value>", extend("x-column" = false))]
    pub sessions: Vec<SessionTally>,
    /// What each client kept, as the kind of work tells it.
    #[merge(strategy = rule::same)]
    #[schemars(extend("x-column" = false))]
    pub client_cache: Option<Value>,
    #[serde(flatten)]
    #[merge(strategy = generator)]
    pub generator: GeneratorTally,
}

/// Returns the JSON schema of a level with all counts, rows of clients included.
#[must_use]
pub fn schema() -> Value {
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Counted {
        #[serde(flatten)]
        tally: MixTally,
        /// Each client.
        by_client: Vec<ClientTally>,
    }
    schema_for!(Counted).to_value()
}

impl MixTally {
    /// Returns an empty tally of this version.
    #[must_use]
    pub fn new() -> Self {
        Self {
            version: VERSION,
            ..Self::default()
        }
    }

    /// Sets the sums over classes and clients, for the counts of one thread.
    pub(crate) fn set_sums(&mut self) {
        let left = self.by_client.iter().filter(|client| client.left_at_ns.is_some());
        self.clients_participating = self.clients_planned.saturating_sub(left.count() as u64);
        for class in &self.by_operation {
            self.operations += class.count;
            self.bytes_read += class.bytes_read;
            self.bytes_written += class.bytes_written;
            self.response_time.add(&class.response_time);
        }
    }

    /// Returns the document as CBOR, followed by the rows of the clients.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = ciborium::into_writer(self, &mut bytes);
        debug_assert!(written.is_ok(), "a vector takes every byte");
        client_rows::write(&self.by_client, &mut bytes);
        bytes
    }

    /// Parses the output of `to_bytes`.
    ///
    /// # Errors
    /// Why `bytes` is not a tally that this version can read.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, String> {
        let mut tally: Self =
            ciborium::from_reader(&mut bytes).map_err(|error| format!("not a mix tally: {error}"))?;
        if tally.version != VERSION {
            return Err(format!(
                "a mix tally of version {} is not known here, {VERSION} is",
                tally.version
            ));
        }
        tally.by_client =
            client_rows::read(bytes).ok_or("not a mix tally: the rows of its clients are no whole rows")?;
        Ok(tally)
    }

    /// Merges the parts of one level, as `to_bytes` wrote them, in any order. Sorts the rows of clients once
    /// at the end: a thousand nodes have millions.
    ///
    /// # Errors
    /// A part is not a tally that this version can read, or the parts are not of one level.
    pub fn from_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, String> {
        let (mut sum, mut clients) = (Self::new(), Vec::new());
        for part in parts {
            let mut part = Self::from_bytes(part)?;
            clients.append(&mut part.by_client);
            sum = sum.merged(part).map_err(|problems| problems.to_string())?;
        }
        sum.by_client = by_number(clients);
        Ok(sum)
    }

    /// Merges two parts of one level.
    ///
    /// # Errors
    /// They are not of one level: their workloads' classes differ.
    pub fn merged(mut self, other: Self) -> Result<Self, Problems> {
        let names = |tally: &Self| -> Vec<String> {
            let classes = tally.by_operation.iter();
            classes.map(|class| class.operation.clone()).collect()
        };
        let mut problems = Problems::default();
        problems.unless(
            self.by_operation.is_empty() || other.by_operation.is_empty() || names(&self) == names(&other),
            "by_operation",
            "the tallies are of different workloads",
        );
        if !problems.is_empty() {
            return Err(problems);
        }
        self.merge(other);
        Ok(self)
    }
}

/// A figure that one part with engine threads lacks is unknown for all.
fn generator(ours: &mut GeneratorTally, theirs: GeneratorTally) {
    let known = |figure: fn(&GeneratorTally) -> Option<u64>| {
        [&*ours, &theirs]
            .iter()
            .all(|part| part.threads == 0 || figure(part).is_some())
    };
    let ready_work_is_known = known(|part| part.ready_work_ns);
    let run_delay_is_known = known(|part| part.run_delay_ns);
    ours.merge(theirs);
    ours.ready_work_ns = ours.ready_work_ns.filter(|_| ready_work_is_known);
    ours.run_delay_ns = ours.run_delay_ns.filter(|_| run_delay_is_known);
}

impl Keyed for SecondTally {
    type Key = u64;
    fn key(&self) -> u64 {
        self.second
    }
}

impl Keyed for ErrorTally {
    type Key = String;
    fn key(&self) -> String {
        self.fault.clone()
    }
}

impl Merge for ErrorTally {
    /// Keeps the earliest example; if two have the same time, the first in order of their text.
    fn merge(&mut self, mut other: Self) {
        let of = |row: &Self| {
            (
                row.first_at_ns,
                row.example.clone(),
                row.advice.clone(),
                row.side.clone(),
            )
        };
        if of(&other) < of(self) {
            std::mem::swap(self, &mut other);
        }
        self.count += other.count;
        self.in_window += other.in_window;
    }
}

impl Keyed for HandshakeTally {
    type Key = (String, String, Option<String>, String, bool);
    fn key(&self) -> Self::Key {
        (
            self.version.clone(),
            self.cipher.clone(),
            self.key_exchange.clone(),
            self.key.clone(),
            self.resumed,
        )
    }
}

impl Keyed for CallTally {
    type Key = String;
    fn key(&self) -> String {
        self.call.clone()
    }
}

impl Keyed for RequestTally {
    type Key = String;
    fn key(&self) -> String {
        self.request.clone()
    }
}

impl Keyed for SessionTally {
    type Key = String;
    fn key(&self) -> String {
        Value::from_iter(self.agreed.clone()).to_string()
    }
}
