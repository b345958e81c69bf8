//! What one client's work took: time, CPU time of its thread, and requests to the server.

use super::sessions::Requests;
use dyno_measure::{monotonic_ns, thread_cpu, Histogram, ThreadCpu, NS_PER_S};

/// Work under way; what it took once it has ended.
#[derive(Debug)]
pub(super) struct Measured {
    started_ns: u64,
    ended_ns: u64,
    /// Until the end that of the thread before; then what was used. So are `requests` those of the client.
    cpu: ThreadCpu,
    pub(super) requests: Requests,
    /// Of each call that is timed by itself.
    pub(super) times: Histogram,
    /// Read or written, as the work counts them.
    pub(super) bytes: u64,
    pub(super) checked: Checked,
}

/// Bytes that were read and compared with what they must be, and those of which nobody knows what they must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) bytes: u64,
    pub(super) unknown_bytes: u64,
}

impl Measured {
    /// Begins now; `requests`: the client's so far.
    pub(super) fn begin(requests: Requests) -> Self {
        Self {
            requests,
            times: Histogram::new(),
            bytes: 0,
            checked: Checked::default(),
            cpu: thread_cpu(),
            started_ns: monotonic_ns(),
            ended_ns: 0,
        }
    }

    /// Ends now; `requests`: the client's so far.
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
            cpu,
            requests,
            ..self
        }
    }

    /// Takes in what another did at the same time: from the first start to the last end, with the CPU time of both.
    fn add(&mut self, other: &Self) {
        self.started_ns = self.started_ns.min(other.started_ns);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
        self.cpu.user_s += other.cpu.user_s;
        self.cpu.system_s += other.cpu.system_s;
        self.bytes += other.bytes;
        self.checked.bytes += other.checked.bytes;
        self.checked.unknown_bytes += other.checked.unknown_bytes;
        self.times.add(&other.times);
        for (&name, count) in &other.requests {
            *self.requests.entry(name).or_default() += count;
        }
    }

    /// All of them as one; None of none.
    pub(super) fn together(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|mut all, one| {
            all.add(&one);
            all
        })
    }

    pub(super) fn elapsed_s(&self) -> f64 {
        self.ended_ns.saturating_sub(self.started_ns) as f64 / NS_PER_S as f64
    }

    /// CPU time in user space, never below zero.
    pub(super) fn user_s(&self) -> f64 {
        self.cpu.user_s.max(0.0)
    }

    /// CPU time in the kernel, never below zero.
    pub(super) fn system_s(&self) -> f64 {
        self.cpu.system_s.max(0.0)
    }
}
