//! A client thread that speaks HTTP/2, on a connection that it may share with other threads of its client.
//!
//! Not for: the dynamic page, whose requests are made one by one; requests that go in the clear and over TLS.

use super::client::{performed, BodyDigest, Stated};
use crate::protocol::{Performed, Protocol};
use crate::sampling::Sampling;
use dyno_http::h2::{Request, RequestMaker, StreamClient};
use dyno_http::{Exchange, Transport};
use dyno_workload::{Catalogue, Expect, Get};
use std::sync::Arc;

/// Everything that can be asked for, with its request built. Shared by all client threads.
#[derive(Debug)]
pub(super) struct StreamCatalogue {
    requests: Vec<Request>,
    expects: Vec<Expect>,
    stated: Option<Stated>,
}

impl StreamCatalogue {
    pub(super) fn new(catalogue: &Catalogue, maker: &RequestMaker, stated: Option<Stated>) -> Self {
        let entries = &catalogue.entries;
        Self {
            requests: entries.iter().map(|entry| maker.request(&entry.path)).collect(),
            expects: entries.iter().map(|entry| entry.expect).collect(),
            stated,
        }
    }
}

/// One client thread.
pub(super) struct WebStreams<T: Transport + 'static> {
    pub(super) catalogue: Arc<StreamCatalogue>,
    pub(super) client: StreamClient<T, BodyDigest>,
    pub(super) digest: BodyDigest,
    pub(super) sampling: Sampling,
}

impl<T: Transport + 'static> Protocol for WebStreams<T> {
    type Op = Get;

    async fn perform(&mut self, get: &Get, start_ns: u64) -> Performed {
        let (place, mut cost) = (get.path as usize, Exchange::default());
        let (request, expect) = (&self.catalogue.requests[place], self.catalogue.expects[place]);
        self.digest
            .begin(matches!(expect, Expect::Found { .. }) && self.sampling.draw());
        let exchanged = self
            .client
            .exchange(request, start_ns, &mut self.digest, &mut cost)
            .await;
        let stated = self.catalogue.stated.as_ref();
        let result = exchanged.and_then(|head| self.digest.judge(head, expect, stated, &cost));
        performed(get.class, result, &cost)
    }
}
