//! One client thread whose requests go partly in the clear and partly over TLS, each on connections of its own.

use super::client::{Web, WebCatalogue};
use crate::protocol::{Performed, Protocol};
use dyno_http::Transport;
use dyno_workload::Get;
use std::sync::Arc;

pub(crate) struct Split<C: Transport, S: Transport> {
    pub catalogue: Arc<WebCatalogue>,
    pub clear: Web<C>,
    pub secure: Web<S>,
}

impl<C: Transport, S: Transport> Protocol for Split<C, S> {
    type Op = Get;

    async fn perform(&mut self, get: &Get, start_ns: u64) -> Performed {
        if self.catalogue.is_secure(get) {
            self.secure.perform(get, start_ns).await
        } else {
            self.clear.perform(get, start_ns).await
        }
    }
}
