//! Counts the results of operations in one tally per engine thread, which becomes a document at the end
//! (`tally.rs`).
//!
//! The window counts successes that completed in it. Totals cover the whole level, so that they can be
//! compared with the server's counts.

use crate::client_rows::ClientTally;
use crate::failover_tally::FailoverTally;
use crate::open_tally::OpenTally;
use crate::protocol::Performed;
use crate::recent::ResponseTimes;
use crate::schedule::ArrivalCounts;
use crate::tally::{
    CallTally, ErrorTally, HandshakeTally, LevelTally, OperationTally, RequestTally, SecondTally,
    SessionTally,
};
use dyno_files::{Breaks, CallKind, Calls};
use dyno_http::coding::Decoded;
use dyno_http::Handshake;
use dyno_measure::{Failure, Fault, Histogram, Phase, ThreadCpu, Window, NS_PER_S};
use dyno_net::tls::Agreed as AgreedTls;
use dyno_net::ReadyWork;
use dyno_s3::RequestCounts;
use merge::Merge;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Negotiated session parameters, in the protocol's terms.
pub(crate) type SessionFacts = BTreeMap<String, Value>;

/// Name in records for operations that were in progress at the end of the window and later timed out. These are not
/// errors of the window.
const UNANSWERED: &str = "unanswered_at_close";

/// Count of one kind of failure.
#[derive(Debug, Clone, Copy)]
struct FaultCount {
    fault: Fault,
    /// Whether the operations were in progress when the window closed.
    unanswered: bool,
    count: u64,
    in_window: u64,
    first: Failure,
    first_at_ns: u64,
}

/// Count of TLS handshakes with equal parameters.
#[derive(Debug, Clone, Copy)]
struct HandshakeCount {
    agreed: AgreedTls,
    count: u64,
    in_window: u64,
}

/// Names in records for counts of HTTP/2 streams, including repeated requests.
const STREAMS: [&str; 3] = [
    "HTTP/2 stream",
    "HTTP/2 stream refused (REFUSED_STREAM)",
    "HTTP/2 stream above GOAWAY",
];

/// Counts of a file client other than those of its operations.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilesCount {
    pub passes: u64,
    pub pass_operations: u64,
    pub bytes_checked: u64,
    pub calls: Calls,
    pub breaks: Breaks,
    pub failover: Option<FailoverTally>,
    pub requests: BTreeMap<&'static str, u64>,
    pub protocol_requests: u64,
    pub sessions: Vec<SessionFacts>,
    pub connections: u64,
    pub reconnects: u64,
}

/// Counts of a client thread that works on objects, other than those of its operations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ObjectCounts {
    /// Requests of operations.
    pub requests: RequestCounts,
    /// Requests that put objects before the window or removed them.
    pub requests_outside: u64,
    pub checked_bytes: u64,
    /// Connections opened outside of operations.
    pub connections: u64,
}

/// Counters that other threads may read during the level. Each has only one writer, so plain stores suffice.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub operations: AtomicU64,
    pub bytes_in: AtomicU64,
    pub bytes_moved: AtomicU64,
    pub errors: AtomicU64,
    pub clients_left: AtomicU64,
    /// Response times of successes, including ramps.
    pub response_times: ResponseTimes,
}

/// Counts of one engine thread during the level.
#[derive(Debug)]
pub(crate) struct Tally {
    window: Window,
    level: LevelTally,
    faults: Vec<FaultCount>,
    /// Usually one or two rows.
    handshakes: Vec<HandshakeCount>,
    streams: [u64; STREAMS.len()],
    /// Number of sampled bodies per result of decoding.
    decoded: [u64; Decoded::ALL.len()],
    live: Arc<Live>,
    bytes_in_total: u64,
    bytes_moved_total: u64,
    errors_total: u64,
    /// End of the latest operation, relative to the start of the level.
    ended_ns: u64,
}

impl Tally {
    /// Creates a tally for `clients`, which are then counted by their index.
    pub(crate) fn new(
        window: Window,
        classes: &[String],
        clients: impl Iterator<Item = usize>,
        live: Arc<Live>,
    ) -> Self {
        let class = |name: &String| OperationTally {
            operation: name.clone(),
            ..OperationTally::default()
        };
        let client = |number| ClientTally {
            client: number as u64,
            ..ClientTally::default()
        };
        let by_client: Vec<ClientTally> = clients.map(client).collect();
        let mut level = LevelTally::new();
        level.window_ns = window.measured_ns();
        level.clients_planned = by_client.len() as u64;
        level.by_operation = classes.iter().map(class).collect();
        level.by_client = by_client;
        level.generator.threads = 1;
        Self {
            window,
            level,
            faults: Vec::new(),
            handshakes: Vec::new(),
            streams: Default::default(),
            decoded: Default::default(),
            live,
            bytes_in_total: 0,
            bytes_moved_total: 0,
            errors_total: 0,
            ended_ns: 0,
        }
    }

    /// Ends the window early, because all planned operations have ended.
    pub(crate) fn end_window(&mut self) {
        let measured_ns = self.ended_ns.saturating_sub(self.window.opens_ns());
        self.level.window_ns = self.level.window_ns.min(measured_ns.max(1));
    }

    pub(crate) fn set_server(&mut self, claim: Option<String>) {
        self.level.server = claim;
    }

    /// Records how late a client thread began its first operation. The engine thread's lateness is the
    /// minimum.
    pub(crate) fn first_begins(&mut self, late_ns: u64) {
        let least = self.level.start_late_ns.unwrap_or(u64::MAX);
        self.level.start_late_ns = Some(least.min(late_ns));
    }

    /// Counts an operation that ran from `begun_ns` to `elapsed_ns` after the start of the level.
    pub(crate) fn count(
        &mut self,
        client: usize,
        performed: &Performed,
        (begun_ns, elapsed_ns): (u64, u64),
        response_ns: u64,
    ) {
        let measured = self.window.phase(elapsed_ns) == Phase::Measured;
        self.ended_ns = elapsed_ns;
        self.level.outstanding_ns += self.window.overlap_ns(begun_ns, elapsed_ns);
        self.level.generator.connections += u64::from(performed.cost.connections);
        let streams = performed.cost.streams;
        let opened = [streams.opened, streams.refused, streams.above_goaway];
        for (sum, count) in self.streams.iter_mut().zip(opened) {
            *sum += u64::from(count);
        }
        if let Some(decoded) = performed.cost.decoded {
            self.decoded[decoded as usize] += 1;
        }
        self.level.generator.reconnects += u64::from(performed.cost.reconnected);
        if let Some(connect_ns) = performed.cost.connect_ns.filter(|_| measured) {
            self.level.connect_time.record(connect_ns);
        }
        if let Some(handshake) = performed.cost.handshake {
            self.count_handshake(handshake, measured);
        }
        let closes_ns = self.window.closes_ns();
        let under_way = elapsed_ns >= closes_ns && elapsed_ns.saturating_sub(response_ns) < closes_ns;
        if under_way {
            self.level.under_way_at_close += 1;
            self.level.under_way_longest_ns = self.level.under_way_longest_ns.max(response_ns);
        }
        match performed.result {
            Ok(()) => self.count_success(client, performed, measured, response_ns),
            Err(failure) => {
                let unanswered = under_way && is_timeout(failure.fault);
                self.count_failure(client, performed, elapsed_ns, failure, unanswered);
            }
        }
        self.count_second(performed, elapsed_ns);
    }

    fn count_handshake(&mut self, handshake: Handshake, measured: bool) {
        let times = self.level.handshake_time.get_or_insert_default();
        if measured {
            times.record(handshake.ns);
        }
        let alike = |row: &&mut HandshakeCount| row.agreed == handshake.agreed;
        match self.handshakes.iter_mut().find(alike) {
            Some(row) => {
                row.count += 1;
                row.in_window += u64::from(measured);
            }
            None => self.handshakes.push(HandshakeCount {
                agreed: handshake.agreed,
                count: 1,
                in_window: u64::from(measured),
            }),
        }
    }

    fn count_success(&mut self, client: usize, performed: &Performed, measured: bool, response_ns: u64) {
        self.level.operations_total += 1;
        self.bytes_in_total += performed.cost.received_bytes;
        self.live
            .operations
            .store(self.level.operations_total, Ordering::Relaxed);
        self.live.bytes_in.store(self.bytes_in_total, Ordering::Relaxed);
        self.live.response_times.record(response_ns);
        self.bytes_moved_total += performed.bytes_read + performed.bytes_written;
        self.live
            .bytes_moved
            .store(self.bytes_moved_total, Ordering::Relaxed);
        if !measured {
            return;
        }
        let class = &mut self.level.by_operation[usize::from(performed.class.0)];
        class.count += 1;
        class.bytes_read += performed.bytes_read;
        class.bytes_written += performed.bytes_written;
        class.response_time.record(response_ns);
        let client = &mut self.level.by_client[client];
        client.operations += 1;
        client.bytes_in += performed.cost.received_bytes;
        client.bytes_read += performed.bytes_read;
        client.bytes_written += performed.bytes_written;
        self.level.bytes_in += performed.cost.received_bytes;
        self.level.bytes_out += performed.cost.sent_bytes;
    }

    fn count_failure(
        &mut self,
        client: usize,
        performed: &Performed,
        elapsed_ns: u64,
        failure: Failure,
        unanswered: bool,
    ) {
        let measured = self.window.phase(elapsed_ns) == Phase::Measured;
        self.level.by_operation[usize::from(performed.class.0)].errors += u64::from(measured);
        self.note_failure(client, measured, failure, unanswered, elapsed_ns);
    }

    /// Counts a failure. `unanswered`: the operation was in progress when the window closed, and timed out.
    fn note_failure(
        &mut self,
        client: usize,
        measured: bool,
        failure: Failure,
        unanswered: bool,
        elapsed_ns: u64,
    ) {
        self.errors_total += 1;
        self.live.errors.store(self.errors_total, Ordering::Relaxed);
        self.level.by_client[client].errors += 1;
        let alike = |known: &&mut FaultCount| (known.fault, known.unanswered) == (failure.fault, unanswered);
        let known = self.faults.iter_mut().find(alike);
        match known {
            Some(known) => {
                known.count += 1;
                known.in_window += u64::from(measured);
            }
            None => self.faults.push(FaultCount {
                fault: failure.fault,
                unanswered,
                count: 1,
                in_window: u64::from(measured),
                first: failure,
                first_at_ns: elapsed_ns,
            }),
        }
    }

    /// Counts the failure of a client that takes no part in the level, as an error in second 0 without a class.
    pub(crate) fn count_absence(&mut self, client: usize, failure: Failure) {
        self.note_failure(client, false, failure, false, 0);
        self.second(0).errors += 1;
    }

    fn second(&mut self, second: u64) -> &mut SecondTally {
        let seconds = &mut self.level.by_second;
        let place = usize::try_from(second).unwrap_or(usize::MAX);
        while seconds.len() <= place {
            seconds.push(SecondTally {
                second: seconds.len() as u64,
                ..SecondTally::default()
            });
        }
        &mut seconds[place]
    }

    fn count_second(&mut self, performed: &Performed, elapsed_ns: u64) {
        let second = self.second(elapsed_ns / NS_PER_S);
        match performed.result {
            Ok(()) => {
                second.operations += 1;
                second.bytes_in += performed.cost.received_bytes;
            }
            Err(_) => second.errors += 1,
        }
    }

    pub(crate) fn client_left(&mut self, client: usize, elapsed_ns: u64) {
        self.level.by_client[client].left_at_ns = Some(elapsed_ns);
        let left = self.live.clients_left.load(Ordering::Relaxed) + 1;
        self.live.clients_left.store(left, Ordering::Relaxed);
    }

    pub(crate) fn add_files(&mut self, files: FilesCount) {
        let mut more = LevelTally {
            passes: Some(files.passes),
            pass_operations: Some(files.pass_operations),
            bytes_checked: Some(files.bytes_checked),
            protocol_requests: Some(files.protocol_requests),
            breaks: Some(files.breaks.into()),
            failover: files.failover,
            ..LevelTally::default()
        };
        let calls = CallKind::ALL.iter().zip(&files.calls);
        more.calls.extend(calls.map(|(kind, count)| CallTally {
            call: kind.name().to_owned(),
            done: count.done,
            not_there: count.not_there,
            failed: count.failed,
            bytes: count.bytes,
        }));
        more.requests.extend(tallies(files.requests.into_iter()));
        let sessions = files.sessions.into_iter();
        more.sessions
            .extend(sessions.map(|agreed| SessionTally { agreed, clients: 1 }));
        more.generator.connections = files.connections;
        more.generator.reconnects = files.reconnects;
        self.level.merge(more);
    }

    /// Adds the counts of one client thread that works on objects.
    pub(crate) fn add_objects(&mut self, counts: ObjectCounts) {
        let mut more = LevelTally {
            bytes_checked: Some(counts.checked_bytes),
            protocol_requests: Some(counts.requests.total() + counts.requests_outside),
            ..LevelTally::default()
        };
        more.requests.extend(tallies(counts.requests.by_name()));
        more.generator.connections = counts.connections;
        self.level.merge(more);
    }

    /// Counts an open arrival that ended at `elapsed_ns`. `waited_ns`: wait for a connection, None if one was
    /// free. `late_ns`: delay by the generator.
    pub(crate) fn count_arrival(&mut self, elapsed_ns: u64, waited_ns: Option<u64>, late_ns: u64) {
        if self.window.phase(elapsed_ns) != Phase::Measured {
            return;
        }
        let open = self.level.open.get_or_insert_default();
        open.waited += u64::from(waited_ns.is_some());
        open.waiting_ns += waited_ns.unwrap_or_default();
        open.scheduling_error.record(late_ns);
    }

    /// Adds the counts of arrivals that were not started.
    pub(crate) fn add_arrivals(&mut self, counts: ArrivalCounts) {
        let open: &mut OpenTally = self.level.open.get_or_insert_default();
        open.arrivals += counts.arrivals;
        open.arrivals_in_window += counts.arrivals_in_window;
        open.dropped += counts.dropped;
        open.dropped_in_window += counts.dropped_in_window;
        self.add_overdue(counts.overdue);
    }

    /// Adds to the number of operations that were due before the end but not started.
    pub(crate) fn add_overdue(&mut self, operations: u64) {
        self.level.overdue_at_end += operations;
    }

    /// Adds the digest of a client thread's first operations to that of its client. The order of the threads does not
    /// matter.
    pub(crate) fn add_digest(&mut self, client: usize, digest: u64) {
        let number = self.level.by_client[client].client;
        *self.level.digests.entry(number).or_default() ^= digest;
    }

    /// Sets the engine thread's own resource use in the window.
    pub(crate) fn set_generator(&mut self, used: ThreadCpu, loop_lag: Histogram) {
        let nanoseconds = |seconds: f64| (seconds * NS_PER_S as f64).round() as u64;
        let generator = &mut self.level.generator;
        generator.cpu_user_ns = nanoseconds(used.user_s);
        generator.cpu_system_ns = nanoseconds(used.system_s);
        generator.busiest_cpu_ns = nanoseconds(used.user_s + used.system_s);
        generator.loop_lag = loop_lag;
    }

    /// Sets the time for which connections waited for the engine thread, and the thread's own wait for a CPU.
    pub(crate) fn set_waiting(&mut self, ready_work: ReadyWork, run_delay_ns: Option<u64>) {
        self.level.generator.ready_work_ns = Some(ready_work.ready_ns);
        self.level.generator.run_delay_ns = run_delay_ns;
    }

    /// Returns the document of this thread. `advice`: returns a hint for a failure.
    pub(crate) fn finish(
        &mut self,
        source_addresses: u32,
        advice: impl Fn(&Failure) -> Option<String>,
    ) -> LevelTally {
        let mut level = std::mem::take(&mut self.level);
        level.set_sums();
        level.generator.source_addresses = u64::from(source_addresses);
        let faults = self.faults.iter().map(|fault| ErrorTally {
            side: fault.fault.side().name().to_owned(),
            fault: if fault.unanswered {
                UNANSWERED
            } else {
                fault.fault.name()
            }
            .to_owned(),
            count: fault.count,
            in_window: fault.in_window,
            example: fault.first.to_string(),
            advice: advice(&fault.first),
            first_at_ns: fault.first_at_ns,
        });
        level.errors.extend(faults);
        let handshakes = self.handshakes.iter().map(|row| HandshakeTally {
            version: row.agreed.version().to_owned(),
            cipher: row.agreed.cipher(),
            key_exchange: row.agreed.key_exchange().map(str::to_owned),
            key: row.agreed.key.to_string(),
            resumed: row.agreed.resumed,
            count: row.count,
            in_window: row.in_window,
        });
        level.handshakes.extend(handshakes);
        let decoded = Decoded::ALL
            .iter()
            .map(|decoded| decoded.name())
            .zip(self.decoded);
        let requests = STREAMS.into_iter().zip(self.streams).chain(decoded);
        level
            .requests
            .extend(tallies(requests.filter(|(_, count)| *count > 0)));
        level
    }
}

fn tallies(counts: impl Iterator<Item = (&'static str, u64)>) -> impl Iterator<Item = RequestTally> {
    counts.map(|(name, count)| RequestTally {
        request: name.to_owned(),
        count,
    })
}

fn is_timeout(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::ResponseTimeout | Fault::HandshakeTimeout | Fault::ConnectTimeout
    )
}

#[cfg(test)]
mod tests;
