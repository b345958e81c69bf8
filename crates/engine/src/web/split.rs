//! One client thread with separate connections for requests with and without TLS.

use crate::protocol::{Performed, Protocol};
use dyno_workload::Get;
use std::sync::Arc;

pub(crate) struct Split<C, S> {
    /// Whether requests for a path use TLS, by the index of the path.
    pub over_tls: Arc<[bool]>,
    pub clear: C,
    pub secure: S,
}

impl<C: Protocol<Op = Get>, S: Protocol<Op = Get>> Protocol for Split<C, S> {
    type Op = Get;

    async fn perform(&mut self, get: &Get, start_ns: u64) -> Performed {
        if self.over_tls[get.path as usize] {
            self.secure.perform(get, start_ns).await
        } else {
            self.clear.perform(get, start_ns).await
        }
    }
}
