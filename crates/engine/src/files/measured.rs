//! Measurements of levels that end when their work is done: time, CPU time, requests, and the tally.

use super::sessions::Requests;
use crate::merging::union;
use crate::tally::{LevelTally, RequestTally, SessionTally};
use dyno_measure::{monotonic_ns, thread_cpu, unix_s, Histogram, ThreadCpu, NS_PER_S};

/// A measurement in progress, or its results after `end`.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) started_ns: u64,
    ended_ns: u64,
    /// CPU time of the thread at the start; after the end, the difference. `requests` works in the same way.
    cpu: ThreadCpu,
    /// CPU time of the busiest thread.
    busiest_cpu_s: f64,
    threads: u64,
    pub(super) requests: Requests,
    /// Duration of individually timed calls.
    pub(super) times: Histogram,
    /// Application bytes read, as counted by the work.
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) checked: Checked,
    /// Parameters that the sessions negotiated with the server.
    pub(super) sessions: Vec<SessionTally>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) bytes: u64,
    pub(super) unknown_bytes: u64,
}

impl Measured {
    /// Starts a measurement now. `requests`: the client's requests so far.
    pub(super) fn begin(requests: Requests) -> Self {
        Self {
            requests,
            times: Histogram::new(),
            bytes_read: 0,
            bytes_written: 0,
            checked: Checked::default(),
            sessions: Vec::new(),
            busiest_cpu_s: 0.0,
            threads: 1,
            cpu: thread_cpu(),
            started_ns: monotonic_ns(),
            ended_ns: 0,
        }
    }

    /// Ends the measurement now. `requests`: the client's requests so far.
    pub(super) fn end(self, requests: Requests) -> Self {
        let ended_ns = monotonic_ns();
        let cpu = thread_cpu().since(self.cpu);
        let mut requests = requests;
        for (name, count) in &mut requests {
            *count -= self.requests.get(name).copied().unwrap_or_default();
        }
        requests.retain(|_, count| *count > 0);
        Self {
            ended_ns,
            busiest_cpu_s: cpu.user_s + cpu.system_s,
            cpu,
            requests,
            ..self
        }
    }

    /// Adds a concurrent measurement. The time is from the first start to the last end; CPU times are added.
    fn add(&mut self, other: &Self) {
        self.started_ns = self.started_ns.min(other.started_ns);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
        self.cpu.user_s += other.cpu.user_s;
        self.cpu.system_s += other.cpu.system_s;
        self.busiest_cpu_s = self.busiest_cpu_s.max(other.busiest_cpu_s);
        self.threads += other.threads;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.checked.bytes += other.checked.bytes;
        self.checked.unknown_bytes += other.checked.unknown_bytes;
        self.times.add(&other.times);
        union(&mut self.sessions, other.sessions.clone());
        for (&name, count) in &other.requests {
            *self.requests.entry(name).or_default() += count;
        }
    }

    /// Adds up concurrent measurements. Returns None if there are none.
    pub(super) fn together(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|mut all, one| {
            all.add(&one);
            all
        })
    }

    /// Returns the tally of the level. The window is the whole time from the first start to the last end.
    pub(super) fn tally(self) -> LevelTally {
        let elapsed_ns = self.ended_ns.saturating_sub(self.started_ns);
        let since_start_ns = monotonic_ns().saturating_sub(self.started_ns);
        let ns = |seconds: f64| (seconds.max(0.0) * NS_PER_S as f64) as u64;
        let operations = self.times.count();
        let mut tally = LevelTally {
            started_unix_s: Some(unix_s() - since_start_ns as f64 / NS_PER_S as f64),
            window_ns: elapsed_ns,
            clients_planned: self.threads,
            clients_participating: self.threads,
            operations,
            operations_total: operations,
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            outstanding_ns: (self.times.mean_and_deviation().0 * operations as f64) as u64,
            response_time: self.times,
            requests: requests(&self.requests),
            sessions: self.sessions,
            ..LevelTally::new()
        };
        tally.generator.cpu_user_ns = ns(self.cpu.user_s);
        tally.generator.cpu_system_ns = ns(self.cpu.system_s);
        tally.generator.busiest_cpu_ns = ns(self.busiest_cpu_s);
        tally.generator.threads = self.threads;
        tally.generator.processes = 1;
        tally.generator.connections = self.threads;
        tally
    }
}

fn requests(counted: &Requests) -> Vec<RequestTally> {
    let row = |(name, count): (&&str, &u64)| RequestTally {
        request: (*name).to_owned(),
        count: *count,
    };
    counted.iter().map(row).collect()
}
