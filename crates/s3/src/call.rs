//! Start and cost of an operation, which may be several requests.

use crate::request::RequestCounts;
use dyno_http::Exchange;

/// One operation: when it began, and the cost of all its requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Call {
    /// Without the time for which the bound of the rate has postponed requests.
    pub start_ns: u64,
    /// Whether the first request need not wait for its turn, because the operation has.
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

    /// Creates an operation whose first request is permitted already.
    #[must_use]
    pub fn due(start_ns: u64) -> Self {
        Self {
            start_ns,
            is_due: true,
            ..Self::default()
        }
    }

    /// Adds the cost of requests that were made at the same time.
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
