//! Counts of a level, as sent to the control plane: a versioned document whose parts can be merged in any
//! order.
//!
//! Each figure is a field of one of these structures. The field's attributes define its name in records and
//! how two parts merge (`merging.rs`); its doc comment is its row in docs/data-format.md. `tools/records.py`
//! generates the records in Python from `schema`. Counting is in `counting.rs`. Histograms are HDR V2. Times
//! are whole nanoseconds here and seconds in the document, so that a sum does not depend on its order.

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
    /// The name of the class, such as "GET 223.gif" or "read".
    #[merge(skip)]
    pub operation: String,
    /// Successes.
    pub count: u64,
    /// Application bytes that these operations received.
    pub bytes_read: u64,
    /// Application bytes that these operations wrote.
    pub bytes_written: u64,
    /// Failures.
    pub errors: u64,
    /// Response times of the successes, in ns.
    #[serde(rename = "response_time_hdr")]
    #[merge(strategy = rule::histogram)]
    pub response_time: Histogram,
}

/// One second since the start of the level, ramps and drain included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct SecondTally {
    /// The number of the second, from the start of the level.
    #[merge(skip)]
    pub second: u64,
    /// Successes.
    pub operations: u64,
    /// Bytes received by the successes, heads included.
    pub bytes_in: u64,
    /// Failures.
    pub errors: u64,
}

/// One kind of error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorTally {
    /// The side at fault: server, network, client (the generator) or check (wrong data).
    pub side: String,
    /// The kind. `unanswered_at_close`: operations in flight when the window closed that had no answer in time, which
    /// reports don't count as errors.
    pub fault: String,
    /// Errors of this kind from start to end.
    pub count: u64,
    /// Errors of this kind in the window.
    pub in_window: u64,
    /// The message of the first error.
    pub example: String,
    /// A suggested remedy, if the protocol has one.
    #[schemars(extend("x-column" = false))]
    pub advice: Option<String>,
    /// The time of the first error, since the start of the level.
    #[serde(rename = "first_at_s", with = "seconds")]
    #[schemars(with = "f64", extend("x-column" = false))]
    pub first_at_ns: u64,
}

/// One kind of call below the client cache, from start to end of the level; workspaces not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct CallTally {
    /// The kind, such as "open".
    #[merge(skip)]
    pub call: String,
    /// Calls that succeeded and found or changed something.
    pub done: u64,
    /// Calls that the server answered with "no such file", correctly or not.
    pub not_there: u64,
    /// Failures.
    pub failed: u64,
    /// Bytes read or written.
    pub bytes: u64,
}

/// Requests of the protocol by its own names, from start to end of the level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Merge, JsonSchema)]
pub struct RequestTally {
    /// The name, such as "CREATE", or "GetObject" over S3.
    #[merge(skip)]
    pub request: String,
    /// The number of these requests.
    #[merge(strategy = rule::sum)]
    pub count: u64,
}

/// Terms that sessions agreed on with the server, in the protocol's own words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Merge)]
pub struct SessionTally {
    #[serde(flatten)]
    #[merge(skip)]
    pub agreed: BTreeMap<String, Value>,
    /// Clients that had a session on these terms. A client that later agreed on other terms counts under both.
    #[merge(strategy = rule::sum)]
    pub clients: u64,
}

/// TLS handshakes that led to sessions on the same terms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct HandshakeTally {
    /// The version, such as "TLS 1.3".
    #[merge(skip)]
    pub version: String,
    /// The cipher suite, by its name in IANA's registry.
    #[merge(skip)]
    pub cipher: String,
    /// The group of the key exchange; null if only an earlier session's secret was used.
    #[merge(skip)]
    pub key_exchange: Option<String>,
    /// The key of the server's certificate, such as "ECDSA P-256".
    #[merge(skip)]
    pub key: String,
    /// Whether the handshakes resumed earlier sessions.
    #[merge(skip)]
    pub resumed: bool,
    /// Handshakes from start to end, those of failed requests included.
    pub count: u64,
    /// Handshakes of operations that ended in the window.
    pub in_window: u64,
}

/// Resource use and events of the generator, over all its threads and processes.
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
    /// CPU time of the busiest engine thread in the window.
    #[serde(rename = "generator_busiest_cpu_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::max)]
    pub busiest_cpu_ns: u64,
    /// Number of engine threads.
    #[serde(rename = "generator_threads")]
    pub threads: u64,
    /// Processes that generated the load.
    #[serde(rename = "generator_processes")]
    #[schemars(extend("x-column" = false))]
    pub processes: u64,
    /// Time from the kernel's report of readiness to the end of its batch, in ns, in the window.
    #[serde(rename = "loop_lag_hdr")]
    #[merge(strategy = rule::histogram)]
    pub loop_lag: Histogram,
    /// Time for which connections waited for the generator in the window, summed over connections. Null, like
    /// the next column, if clients wait in system calls, because the generator's time can't be separated from
    /// the calls' time.
    #[serde(rename = "ready_work_s", with = "seconds_or_none")]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::sum_of_known)]
    pub ready_work_ns: Option<u64>,
    /// Time for which engine threads were ready but had no CPU in the window, summed over threads; null if
    /// the kernel does not report it.
    #[serde(rename = "run_delay_s", with = "seconds_or_none")]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::sum_of_known)]
    pub run_delay_ns: Option<u64>,
    /// Seconds from start to end in which the generator stood still: it was stopped, the machine was paused, or its
    /// clock was set. For several processes, the longest such time. Above 0.5 the level is void, and a resume
    /// measures it again.
    #[serde(rename = "stalled_s", with = "seconds", default)]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::max)]
    pub stalled_ns: u64,
    /// Connections opened from start to end; over file protocols, from the first client's log-on to the last
    /// client's log-off.
    pub connections: u64,
    /// Connections that replaced an idle one that the server had closed; over file protocols, sessions that
    /// replaced a lost one.
    pub reconnects: u64,
    /// Number of local addresses that connections used.
    pub source_addresses: u64,
}

/// A level, or the part of a level that one thread or process executed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Merge, JsonSchema)]
pub struct LevelTally {
    /// The version of this document.
    #[merge(strategy = rule::max)]
    #[schemars(extend("x-column" = false))]
    pub version: u32,
    /// Whether the level was stopped before its end.
    #[merge(strategy = rule::or)]
    pub stopped: bool,
    /// Wall-clock time of the start, in seconds since 1970; 0 if the level was stopped before its start.
    #[schemars(with = "f64")]
    #[merge(strategy = rule::min_of_known)]
    pub started_unix_s: Option<f64>,
    /// How late the last engine thread began its first operation; null if none began.
    #[serde(rename = "start_late_s", with = "seconds_or_none", default)]
    #[schemars(with = "Option<f64>", extend("x-column" = false))]
    #[merge(strategy = rule::max)]
    pub start_late_ns: Option<u64>,
    /// The name that a web server gives itself in its first response; null if it gives none.
    #[merge(strategy = rule::max)]
    #[schemars(extend("x-column" = false))]
    #[serde(default)]
    pub server: Option<String>,
    /// Length of the measured window.
    #[serde(rename = "window_s", with = "seconds")]
    #[schemars(with = "f64")]
    #[merge(strategy = rule::max)]
    pub window_ns: u64,
    /// The planned number of clients.
    #[merge(strategy = rule::sum)]
    #[schemars(extend("x-column" = false))]
    pub clients_planned: u64,
    /// Clients that stayed until the end of the level.
    #[merge(strategy = rule::sum)]
    pub clients_participating: u64,
    /// Successes that completed in the window; over file protocols, the application's operations, above the cache.
    #[merge(strategy = rule::sum)]
    pub operations: u64,
    /// Successes from start to end, drain included.
    #[merge(strategy = rule::sum)]
    pub operations_total: u64,
    /// Bytes of decoded bodies in the successes of the window; over file protocols, bytes that applications read.
    #[merge(strategy = rule::sum)]
    pub bytes_read: u64,
    /// Bytes that applications wrote in the successes of the window; 0 over HTTP.
    #[merge(strategy = rule::sum)]
    pub bytes_written: u64,
    /// All bytes received by the successes of the window, heads and framing included.
    #[merge(strategy = rule::sum)]
    pub bytes_in: u64,
    /// All bytes sent by the successes of the window.
    #[merge(strategy = rule::sum)]
    pub bytes_out: u64,
    /// Response times of the successes in the window, in ns.
    #[serde(rename = "response_time_hdr")]
    #[merge(strategy = rule::histogram)]
    pub response_time: Histogram,
    /// Time from the intended start until the connection was established, in ns, for operations that ended in the
    /// window.
    #[serde(rename = "connect_time_hdr")]
    #[merge(strategy = rule::histogram)]
    pub connect_time: Histogram,
    /// Time from the TCP connection until a request could be sent over TLS, in ns, for operations that ended in the
    /// window; null without TLS, and before format 4.
    #[serde(rename = "handshake_time_hdr")]
    #[merge(strategy = rule::histogram_of_known)]
    pub handshake_time: Option<Histogram>,
    /// TLS handshakes that led to a session, by the agreed terms.
    #[merge(strategy = rule::union)]
    pub handshakes: Vec<HandshakeTally>,
    /// Operations in flight when the window closed, failures included. The window's figures exclude them.
    #[merge(strategy = rule::sum)]
    #[schemars(with = "Option<u64>")]
    pub under_way_at_close: u64,
    /// Duration of the slowest of these operations.
    #[serde(rename = "under_way_longest_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::max)]
    pub under_way_longest_ns: u64,
    /// Time for which operations were in flight in the window, failures included, summed over operations.
    /// Divided by the window, this is the mean number of operations in flight.
    #[serde(rename = "outstanding_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    #[merge(strategy = rule::sum)]
    pub outstanding_ns: u64,
    /// Operations of paced clients or of open load that were due before the end but never began.
    #[merge(strategy = rule::sum)]
    #[schemars(with = "Option<u64>")]
    pub overdue_at_end: u64,
    /// Counts of open load.
    #[serde(flatten)]
    #[merge(strategy = rule::of_known)]
    pub open: Option<OpenTally>,
    /// One row per class of operation, in the workload's order.
    #[merge(strategy = rule::each)]
    pub by_operation: Vec<OperationTally>,
    /// One row per client, by number. There may be very many, so they are packed behind the document
    /// (`client_rows.rs`).
    #[serde(skip)]
    #[merge(strategy = client_rows::together)]
    pub by_client: Vec<ClientTally>,
    /// One row per second since the start, ramps and drain included.
    #[merge(strategy = rule::union)]
    pub by_second: Vec<SecondTally>,
    /// One row per kind of error, by the name of the fault.
    #[merge(strategy = rule::union)]
    pub errors: Vec<ErrorTally>,
    /// Client number -> digest of the client's first operations, if the level asked for it.
    #[merge(strategy = rule::xor)]
    #[schemars(extend("x-column" = false))]
    pub digests: BTreeMap<u64, u64>,
    /// Complete passes of the workload, over all clients, from start to end; null over HTTP.
    #[merge(strategy = rule::sum_of_known)]
    pub passes: Option<u64>,
    /// Operations in one pass of one client through the workload; null over HTTP.
    #[merge(strategy = rule::max)]
    pub pass_operations: Option<u64>,
    /// Application bytes whose content was compared with what the file should contain, from start to end; null over
    /// HTTP.
    #[merge(strategy = rule::sum_of_known)]
    pub bytes_checked: Option<u64>,
    /// Bytes read whose correct content is unknown, because another client wrote them meanwhile. Only for levels
    /// that end when their work is done, like the next column.
    #[merge(strategy = rule::sum_of_known)]
    pub bytes_unknown: Option<u64>,
    /// Files and directories that a step listed, looked up, read, created or removed.
    #[merge(strategy = rule::sum_of_known)]
    pub entries: Option<u64>,
    /// The number of requests that the server should have counted: those of all sessions, including the ones that
    /// created and removed workspaces. Null over HTTP.
    #[merge(strategy = rule::sum_of_known)]
    #[schemars(extend("x-column" = false))]
    pub protocol_requests: Option<u64>,
    /// Breaks, by which a file server takes caching back.
    #[serde(flatten)]
    #[merge(strategy = rule::of_known)]
    pub breaks: Option<BreakTally>,
    /// Counts of work that asks for handles that outlive their connection, or that continues after an outage.
    #[serde(flatten)]
    #[merge(strategy = rule::of_known)]
    pub failover: Option<FailoverTally>,
    /// Calls below the client cache, from start to end; empty over HTTP.
    #[merge(strategy = rule::union)]
    pub calls: Vec<CallTally>,
    /// Requests of the protocol by name, from start to end, without those for workspaces or for objects before and after
    /// the load. Over HTTP: HTTP/2 streams, refused ones included ([names](http2.md)), and decoded bodies
    /// ([names](methods.md)).
    #[merge(strategy = rule::union)]
    pub requests: Vec<RequestTally>,
    /// The terms that the clients' sessions agreed on.
    #[merge(strategy = rule::union)]
    #[schemars(with = "Vec<Value>", extend("x-column" = false))]
    pub sessions: Vec<SessionTally>,
    /// The client cache's settings, as the kind of work reports them.
    #[merge(strategy = rule::same)]
    #[schemars(extend("x-column" = false))]
    pub client_cache: Option<Value>,
    #[serde(flatten)]
    #[merge(strategy = generator)]
    pub generator: GeneratorTally,
}

/// Returns the JSON schema of a level with all counts, rows of clients included.
pub fn schema() -> Value {
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Counted {
        #[serde(flatten)]
        tally: LevelTally,
        /// The rows of clients.
        by_client: Vec<ClientTally>,
    }
    schema_for!(Counted).to_value()
}

impl LevelTally {
    /// Returns an empty tally of this version.
    pub fn new() -> Self {
        Self {
            version: VERSION,
            ..Self::default()
        }
    }

    /// Sets the totals over classes and clients, for the counts of one thread.
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
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = ciborium::into_writer(self, &mut bytes);
        debug_assert!(written.is_ok(), "writing to a vector can't fail");
        client_rows::write(&self.by_client, &mut bytes);
        bytes
    }

    /// Parses the output of `to_bytes`.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, String> {
        let mut tally: Self =
            ciborium::from_reader(&mut bytes).map_err(|error| format!("not a level's tally: {error}"))?;
        if tally.version != VERSION {
            return Err(format!(
                "version {} of a level's tally is not supported; the supported version is {VERSION}",
                tally.version
            ));
        }
        tally.by_client =
            client_rows::read(bytes).ok_or("not a level's tally: its client rows are incomplete")?;
        Ok(tally)
    }

    /// Merges the parts of one level, as `to_bytes` wrote them, in any order. Sorts the rows of clients only
    /// once at the end, because a thousand nodes have millions.
    ///
    /// # Errors
    /// A part is not a tally that this version can read, or the parts do not belong to one level.
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
    /// The parts do not belong to one level, because their workloads' classes differ.
    pub fn merged(mut self, other: Self) -> Result<Self, Problems> {
        let names = |tally: &Self| -> Vec<String> {
            let classes = tally.by_operation.iter();
            classes.map(|class| class.operation.clone()).collect()
        };
        let mut problems = Problems::default();
        problems.unless(
            self.by_operation.is_empty() || other.by_operation.is_empty() || names(&self) == names(&other),
            "by_operation",
            "the tallies belong to different workloads",
        );
        if !problems.is_empty() {
            return Err(problems);
        }
        self.merge(other);
        Ok(self)
    }
}

/// Merges the generators' figures. A figure that a part with engine threads lacks is unknown in the result.
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
    /// Keeps the earliest example. If two have the same time, keeps the one whose text sorts first.
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
