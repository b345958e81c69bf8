//! Repeats requests outside of the measured load: when clients put their objects before it, and when
//! leftovers are removed.
//!
//! A server that limits the rate of requests may refuse some of them.

use crate::removal::{ATTEMPTS, FIRST_PAUSE_NS};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::Executor;

/// Repetitions of one request.
pub(crate) struct Patience<'a> {
    executor: &'a Executor,
    attempt: u32,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(executor: &'a Executor) -> Self {
        Self { executor, attempt: 0 }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors The failure, if another attempt is useless or exceeds the limit.
    pub(crate) async fn wait_after(&mut self, failure: Failure) -> Result<(), Failure> {
        self.attempt += 1;
        let may_pass = match failure.fault {
            Fault::SlowDown | Fault::ClosedEarly | Fault::IdleClose | Fault::ConnectionReset => true,
            Fault::ErrorStatus => dyno_s3::is_of_server(&failure),
            _ => false,
        };
        if !may_pass || self.attempt == ATTEMPTS {
            return Err(failure);
        }
        let pause_ns = FIRST_PAUSE_NS << (self.attempt - 1);
        self.executor.sleep_until(monotonic_ns() + pause_ns).await;
        Ok(())
    }
}
