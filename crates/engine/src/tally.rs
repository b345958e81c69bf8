//! What a mix counted, as it goes up to the control plane: one versioned document whose parts can be merged in any order.
//!
//! A figure is a field of one of these structures, and one line of `merge`. Counting is in `counting.rs`. Histograms are
//! HDR V2; times are whole nanoseconds here and seconds in the document, so that a sum does not depend on its order.

use crate::break_tally::BreakTally;
use crate::client_rows::{self, by_number, ClientTally};
use crate::failover_tally::FailoverTally;
use crate::open_tally::OpenTally;
use crate::problems::Problems;
use crate::time_fields::{seconds, seconds_or_none};
use dyno_measure::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

pub const VERSION: u32 = 2;

/// One operation class in the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationTally {
    /// The name of the class.
    pub operation: String,
    pub count: u64,
    /// Application bytes that came with them.
    pub bytes_read: u64,
    /// Application bytes that they wrote.
    pub bytes_written: u64,
    pub errors: u64,
    /// Response times of the successes, ns.
    #[serde(rename = "response_time_hdr")]
    pub response_time: Histogram,
}

/// One second since the start of the mix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondTally {
    pub second: u64,
    pub operations: u64,
    /// Their bytes, heads included.
    pub bytes_in: u64,
    pub errors: u64,
}

/// One kind of failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorTally {
    /// Whose fault it is.
    pub side: String,
    /// The kind, as it stands in records.
    pub fault: String,
    /// From start to end.
    pub count: u64,
    pub in_window: u64,
    /// The first one, in words.
    pub example: String,
    /// What to try against it, where the protocol knows.
    pub advice: Option<String>,
    /// When that first one came, since the start of the mix.
    #[serde(rename = "first_at_s", with = "seconds")]
    pub first_at_ns: u64,
}

/// Calls of one kind below the client cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTally {
    pub call: String,
    /// Successes that found or did something.
    pub done: u64,
    /// Successes that say that nothing is there.
    pub not_there: u64,
    pub failed: u64,
    /// Data read or written.
    pub bytes: u64,
}

/// Requests of the protocol under one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTally {
    /// As the protocol names it.
    pub request: String,
    pub count: u64,
}

/// What sessions of one kind agreed on with the server, in the protocol's own terms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTally {
    #[serde(flatten)]
    pub agreed: BTreeMap<String, Value>,
    /// Clients that had such a session: one that agreed anew on something else counts in both.
    pub clients: u64,
}

/// TLS handshakes that led to sessions on the same terms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandshakeTally {
    /// `TLS 1.3`.
    pub version: String,
    /// The cipher suite, by its name in IANA's registry.
    pub cipher: String,
    /// The group of the key exchange; None where an earlier session's secret was used alone.
    pub key_exchange: Option<String>,
    /// The key of the server's certificate: `ECDSA P-256`.
    pub key: String,
    /// Whether earlier sessions were taken up again.
    pub resumed: bool,
    /// From start to end, failed requests included.
    pub count: u64,
    /// Of operations that ended in the window.
    pub in_window: u64,
}

/// What the generator used and did itself, all of its threads and processes together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorTally {
    /// CPU time of the engine threads in the window, in user space.
    #[serde(rename = "cpu_user_s", with = "seconds")]
    pub cpu_user_ns: u64,
    #[serde(rename = "cpu_system_s", with = "seconds")]
    pub cpu_system_ns: u64,
    /// Of the thread that used most.
    #[serde(rename = "busiest_cpu_s", with = "seconds")]
    pub busiest_cpu_ns: u64,
    pub threads: u64,
    pub processes: u64,
    /// From the kernel's report of readiness to the end of its batch, in the window, ns.
    #[serde(rename = "loop_lag_hdr")]
    pub loop_lag: Histogram,
    /// Connections times seconds in the window in which their next step was the generator's (`dyno_reactor::ReadyWork`).
    /// None, as the next, where clients wait in system calls: there nothing tells the generator's time from theirs.
    #[serde(rename = "ready_work_s", with = "seconds_or_none")]
    pub ready_work_ns: Option<u64>,
    /// How long the engine threads were ready to run in the window and had no CPU; None where the kernel does not tell.
    #[serde(rename = "run_delay_s", with = "seconds_or_none")]
    pub run_delay_ns: Option<u64>,
    /// How long the process stood still from start to end: stopped, paused with its machine, or its clock was set. Of
    /// several processes, the longest.
    #[serde(rename = "stalled_s", with = "seconds", default)]
    pub stalled_ns: u64,
    /// Opened from start to end; of work on files, from the first client's log-on to the last one's leaving.
    pub connections: u64,
    /// Idle connections that the server had closed; of work on files, sessions set up after one that was lost.
    pub reconnects: u64,
    pub source_addresses: u64,
}

/// A mix, or the part of it that one thread or process carried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MixTally {
    pub version: u32,
    /// It was stopped before its end.
    pub stopped: bool,
    /// When it started, seconds since 1970; None where it was stopped before.
    pub started_unix_s: Option<f64>,
    /// How late the engine thread that was latest began its first operation; None where none began.
    #[serde(rename = "start_late_s", with = "seconds_or_none", default)]
    pub start_late_ns: Option<u64>,
    #[serde(rename = "window_s", with = "seconds")]
    pub window_ns: u64,
    /// Clients that were to take part.
    pub clients_planned: u64,
    /// Successes from start to end.
    pub operations_total: u64,
    /// All bytes that came in the window with successes.
    pub bytes_in: u64,
    /// All bytes that were sent for them.
    pub bytes_out: u64,
    /// From the intended start until the connection stood, in the window, ns.
    #[serde(rename = "connect_time_hdr")]
    pub connect_time: Histogram,
    /// From the moment at which the connection stood until a request could be sent over TLS, in the window, ns.
    #[serde(rename = "handshake_time_hdr")]
    pub handshake_time: Histogram,
    /// By what was agreed.
    pub handshakes: Vec<HandshakeTally>,
    /// Operations, failures too, that were under way when the window closed: the window's own figures don't have them.
    pub under_way_at_close: u64,
    /// The longest that one of them took in the end.
    #[serde(rename = "under_way_longest_s", with = "seconds")]
    pub under_way_longest_ns: u64,
    /// Operations that were under way times seconds, in the window, failures too: divided by the window it is the mean
    /// number of request streams that waited for an answer.
    #[serde(rename = "outstanding_s", with = "seconds")]
    pub outstanding_ns: u64,
    /// Operations of paced clients, and open arrivals, that were due before the end of the mix and never began.
    pub overdue_at_end: u64,
    /// Of open arrivals; None: clients have a pace of their own.
    pub open: Option<OpenTally>,
    /// In the order of the workload's classes.
    pub by_operation: Vec<OperationTally>,
    /// By client number. There may be very many, so they are packed behind the document (`client_rows.rs`).
    #[serde(skip)]
    pub by_client: Vec<ClientTally>,
    /// By second.
    pub by_second: Vec<SecondTally>,
    /// By the name of the fault.
    pub errors: Vec<ErrorTally>,
    /// Client number -> digest of its first operations, where the mix asked for it.
    pub digests: BTreeMap<u64, u64>,
    /// Of work on files: passes through the whole workload that ended in the mix.
    pub passes: Option<u64>,
    /// Of work on files: the operations of one pass of one client.
    pub pass_operations: Option<u64>,
    /// Of work on files: application bytes whose content was compared with what the file should contain, from start to
    /// end.
    pub bytes_checked: Option<u64>,
    /// Of work on files: all requests of all sessions, those that made and removed workspaces too: what the server should
    /// have counted.
    pub protocol_requests: Option<u64>,
    /// Of work on files: breaks, by which the server takes caching back.
    pub breaks: Option<BreakTally>,
    /// Of work on files that asked for handles which outlive their connection, or that goes on over an outage.
    pub failover: Option<FailoverTally>,
    /// Calls below the client cache, from start to end.
    pub calls: Vec<CallTally>,
    /// Requests of the protocol by name, from start to end.
    pub requests: Vec<RequestTally>,
    /// What the sessions of the clients came to.
    pub sessions: Vec<SessionTally>,
    /// What each client kept, as the kind of work tells it.
    pub client_cache: Option<Value>,
    pub generator: GeneratorTally,
}

/// A tally with the sums that readers want.
#[derive(Debug, Serialize)]
pub struct MixResult<'a> {
    #[serde(flatten)]
    tally: &'a MixTally,
    clients_participating: u64,
    operations: u64,
    bytes_read: u64,
    bytes_written: u64,
    response_time_hdr: Histogram,
    by_client: &'a [ClientTally],
}

impl MixTally {
    /// An empty one of this version.
    #[must_use]
    pub fn new() -> Self {
        Self {
            version: VERSION,
            ..Self::default()
        }
    }

    /// Response times of all successes in the window.
    #[must_use]
    pub fn response_time(&self) -> Histogram {
        let mut all = Histogram::new();
        let classes = self.by_operation.iter();
        classes.for_each(|class| all.add(&class.response_time));
        all
    }

    /// What a reader is told; `with_clients`: the rows of single clients, too.
    #[must_use]
    pub fn result(&self, with_clients: bool) -> MixResult<'_> {
        let sum = |figure: fn(&OperationTally) -> u64| self.by_operation.iter().map(figure).sum();
        let left = self
            .by_client
            .iter()
            .filter(|client| client.left_at_ns.is_some())
            .count() as u64;
        MixResult {
            tally: self,
            clients_participating: self.clients_planned.saturating_sub(left),
            operations: sum(|class| class.count),
            bytes_read: sum(|class| class.bytes_read),
            bytes_written: sum(|class| class.bytes_written),
            response_time_hdr: self.response_time(),
            by_client: if with_clients { &self.by_client } else { &[] },
        }
    }

    /// The document, as CBOR, and the rows of the clients behind it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = ciborium::into_writer(self, &mut bytes);
        debug_assert!(written.is_ok(), "a vector takes every byte");
        client_rows::write(&self.by_client, &mut bytes);
        bytes
    }

    /// Reads what `to_bytes` wrote.
    ///
    /// # Errors
    /// Says why `bytes` is no tally that can be read here.
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

    /// The parts of one mix, as `to_bytes` wrote them, in any order. The rows of clients are put in order once for all:
    /// a thousand nodes have millions.
    ///
    /// # Errors
    /// Says which is no tally that can be read here, or that they are not of one mix.
    pub fn from_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, String> {
        let (mut sum, mut clients) = (Self::new(), Vec::new());
        for part in parts {
            let mut part = Self::from_bytes(part)?;
            clients.append(&mut part.by_client);
            sum = sum.merge(&part).map_err(|problems| problems.to_string())?;
        }
        sum.by_client = by_number(clients);
        Ok(sum)
    }

    /// The two parts of one mix together.
    ///
    /// # Errors
    /// Where they are not of one mix: their workloads' classes differ.
    pub fn merge(mut self, other: &Self) -> Result<Self, Problems> {
        if !self.by_operation.is_empty() && !other.by_operation.is_empty() {
            let names = |tally: &Self| -> Vec<String> {
                let classes = tally.by_operation.iter();
                classes.map(|class| class.operation.clone()).collect()
            };
            let mut problems = Problems::default();
            problems.unless(
                names(&self) == names(other),
                "by_operation",
                "the tallies are of different workloads",
            );
            if !problems.is_empty() {
                return Err(problems);
            }
        }
        self.add(other);
        Ok(self)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.version = self.version.max(other.version);
        self.stopped |= other.stopped;
        self.started_unix_s = least(self.started_unix_s, other.started_unix_s);
        self.start_late_ns = self.start_late_ns.max(other.start_late_ns);
        self.window_ns = self.window_ns.max(other.window_ns);
        self.clients_planned += other.clients_planned;
        self.operations_total += other.operations_total;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.connect_time.add(&other.connect_time);
        self.handshake_time.add(&other.handshake_time);
        union(
            &mut self.handshakes,
            &other.handshakes,
            HandshakeTally::key,
            HandshakeTally::add,
        );
        self.under_way_at_close += other.under_way_at_close;
        self.under_way_longest_ns = self.under_way_longest_ns.max(other.under_way_longest_ns);
        self.outstanding_ns += other.outstanding_ns;
        self.overdue_at_end += other.overdue_at_end;
        if let Some(open) = &other.open {
            self.open.get_or_insert_default().add(open);
        }
        if self.by_operation.is_empty() {
            self.by_operation.clone_from(&other.by_operation);
        } else {
            let pairs = self.by_operation.iter_mut().zip(&other.by_operation);
            pairs.for_each(|(ours, theirs)| ours.add(theirs));
        }
        if !other.by_client.is_empty() {
            self.by_client.extend_from_slice(&other.by_client);
            self.by_client = by_number(std::mem::take(&mut self.by_client));
        }
        union(
            &mut self.by_second,
            &other.by_second,
            |row| row.second,
            SecondTally::add,
        );
        union(
            &mut self.errors,
            &other.errors,
            |row| row.fault.clone(),
            ErrorTally::add,
        );
        for (client, digest) in &other.digests {
            *self.digests.entry(*client).or_default() ^= digest;
        }
        self.add_files(other);
        // All clients of a mix have the same; of what can't be, the same one in whatever order.
        let text = |cache: &Value| cache.to_string();
        if self.client_cache.is_none()
            || other.client_cache.as_ref().map(text) < self.client_cache.as_ref().map(text)
        {
            self.client_cache = other.client_cache.clone().or(self.client_cache.take());
        }
        self.generator.add(&other.generator);
    }
}

impl MixTally {
    fn add_files(&mut self, other: &Self) {
        self.passes = sum(self.passes, other.passes);
        self.pass_operations = self.pass_operations.max(other.pass_operations);
        self.bytes_checked = sum(self.bytes_checked, other.bytes_checked);
        self.protocol_requests = sum(self.protocol_requests, other.protocol_requests);
        if let Some(breaks) = &other.breaks {
            self.breaks.get_or_insert_default().add(breaks);
        }
        if let Some(failover) = &other.failover {
            self.failover.get_or_insert_default().add(failover);
        }
        union(
            &mut self.calls,
            &other.calls,
            |row| row.call.clone(),
            CallTally::add,
        );
        union(
            &mut self.requests,
            &other.requests,
            |row| row.request.clone(),
            |ours, theirs| ours.count += theirs.count,
        );
        union(
            &mut self.sessions,
            &other.sessions,
            SessionTally::key,
            |ours, theirs| ours.clients += theirs.clients,
        );
    }
}

impl OperationTally {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.errors += other.errors;
        self.response_time.add(&other.response_time);
    }
}

impl SecondTally {
    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes_in += other.bytes_in;
        self.errors += other.errors;
    }
}

impl ErrorTally {
    /// The example is that of the first; of those at one moment, the first by its words.
    fn add(&mut self, other: &Self) {
        let (count, in_window) = (self.count + other.count, self.in_window + other.in_window);
        let of = |row: &Self| {
            (
                row.first_at_ns,
                row.example.clone(),
                row.advice.clone(),
                row.side.clone(),
            )
        };
        if of(other) < of(self) {
            *self = other.clone();
        }
        (self.count, self.in_window) = (count, in_window);
    }
}

impl HandshakeTally {
    fn key(&self) -> (String, String, Option<String>, String, bool) {
        (
            self.version.clone(),
            self.cipher.clone(),
            self.key_exchange.clone(),
            self.key.clone(),
            self.resumed,
        )
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.in_window += other.in_window;
    }
}

impl CallTally {
    fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.not_there += other.not_there;
        self.failed += other.failed;
        self.bytes += other.bytes;
    }
}

impl SessionTally {
    fn key(&self) -> String {
        Value::from_iter(self.agreed.clone()).to_string()
    }
}

impl GeneratorTally {
    fn add(&mut self, other: &Self) {
        self.cpu_user_ns += other.cpu_user_ns;
        self.cpu_system_ns += other.cpu_system_ns;
        self.busiest_cpu_ns = self.busiest_cpu_ns.max(other.busiest_cpu_ns);
        self.threads += other.threads;
        self.processes += other.processes;
        self.loop_lag.add(&other.loop_lag);
        self.ready_work_ns = sum(self.ready_work_ns, other.ready_work_ns);
        self.run_delay_ns = sum(self.run_delay_ns, other.run_delay_ns);
        self.stalled_ns = self.stalled_ns.max(other.stalled_ns);
        self.connections += other.connections;
        self.reconnects += other.reconnects;
        self.source_addresses += other.source_addresses;
    }
}

/// Unknown where neither is known.
fn sum(ours: Option<u64>, theirs: Option<u64>) -> Option<u64> {
    match (ours, theirs) {
        (None, None) => None,
        (ours, theirs) => Some(ours.unwrap_or_default() + theirs.unwrap_or_default()),
    }
}

fn least<T: PartialOrd>(ours: Option<T>, theirs: Option<T>) -> Option<T> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => Some(if theirs < ours { theirs } else { ours }),
        (ours, theirs) => ours.or(theirs),
    }
}

/// Adds the rows of `theirs` to those of `ours` under the same key; the rows are in the order of their keys then.
fn union<T: Clone, K: Ord>(ours: &mut Vec<T>, theirs: &[T], key: impl Fn(&T) -> K, add: impl Fn(&mut T, &T)) {
    let mut rows: BTreeMap<K, T> = ours.drain(..).map(|row| (key(&row), row)).collect();
    for row in theirs {
        match rows.get_mut(&key(row)) {
            Some(known) => add(known, row),
            None => {
                rows.insert(key(row), row.clone());
            }
        }
    }
    ours.extend(rows.into_values());
}
