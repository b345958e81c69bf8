//! Start and cost of an operation, which may be several requests.

use crate::request::RequestCounts;
use dyno_http::Exchange;

/// One operation: its start, and the cost of all its requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Call {
    /// Start of the operation, in nanoseconds of the monotonic clock. It moves forward by the time for which the rate
    /// limit postpones requests.
    pub start_ns: u64,
    /// Whether the rate limit has already delayed the operation, so that its first request need not wait.
    pub(crate) is_due: bool,
    pub cost: Exchange,
    pub requests: RequestCounts,
}

impl Call {
    #[must_use]
    pub fn new(start_ns: u64) -> Self {
        Self {
            start_ns,
            ..Self::default()
        }
    }

    /// Creates an operation whose first request is not delayed by the rate limit.
    #[must_use]
    pub fn due(start_ns: u64) -> Self {
        Self {
            start_ns,
            is_due: true,
            ..Self::default()
        }
    }

    /// Adds the cost of concurrent requests.
    pub fn merge(&mut self, other: &Self) {
        self.add(&other.cost);
        self.requests.add(&other.requests);
    }

    pub(crate) fn add(&mut self, cost: &Exchange) {
        let sum = &mut self.cost;
        sum.received_bytes += cost.received_bytes;
        sum.sent_bytes += cost.sent_bytes;
        sum.connections += cost.connections;
        sum.connect_ns = sum.connect_ns.or(cost.connect_ns);
        sum.handshake = sum.handshake.or(cost.handshake);
        sum.reconnected |= cost.reconnected;
    }
}
