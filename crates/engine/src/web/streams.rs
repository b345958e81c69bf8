//! A client thread on a connection that it may share with other threads of its client: HTTP/2, or HTTP/1.1
//! with pipelining.

use super::client::{performed, BodyCheck, WebCatalogue};
use super::decoding::Sample;
use super::page::{Page, PageBody, PageRequest};
use crate::protocol::{Performed, Protocol};
use crate::sampling::Sampling;
use dyno_http::{Body, Conversation, Exchange, StreamClient, Transport};
use dyno_measure::Failure;
use dyno_workload::{Expect, Get};
use std::borrow::Borrow;
use std::rc::Rc;
use std::sync::Arc;

/// Receiver of a response's body on a shared connection.
#[derive(Default)]
pub(super) struct AnswerBody {
    check: BodyCheck,
    page: Option<PageBody>,
}

impl Body for AnswerBody {
    fn wants_fields(&mut self) -> bool {
        self.page.is_none() && self.check.wants_fields()
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.check.field(name, value);
    }

    fn answers_head(&self) -> bool {
        self.page.is_none() && self.check.answers_head()
    }

    fn part(&mut self, data: &[u8], last: bool) {
        match &mut self.page {
            None => self.check.part(data, last),
            Some(page) => page.part(data, last),
        }
    }
}

pub(super) struct WebStreams<T: Transport + 'static, C: Conversation + 'static, R> {
    pub(super) catalogue: Arc<WebCatalogue<R>>,
    pub(super) client: StreamClient<T, C>,
    pub(super) body: AnswerBody,
    pub(super) page: Page,
    pub(super) page_request: R,
    pub(super) sampling: Sampling,
    pub(super) sample: Rc<Sample>,
    pub(super) decodes: bool,
}

impl<T, C, R> WebStreams<T, C, R>
where
    T: Transport + 'static,
    C: Conversation<Body = AnswerBody> + 'static,
    R: Borrow<C::Request> + PageRequest,
{
    /// Requests the dynamic page, and checks it byte for byte.
    async fn ask_page(&mut self, place: usize, start_ns: u64, cost: &mut Exchange) -> Result<(), Failure> {
        let template = &self.catalogue.requests[place];
        self.body.page = Some(self.page.begin(template, &mut self.page_request));
        let request = self.page_request.borrow();
        let exchanged = self
            .client
            .exchange(request, start_ns, &mut self.body, cost)
            .await;
        let body = self.body.page.take().unwrap_or_default();
        let path = &self.catalogue.pages[place];
        exchanged.and_then(|head| self.page.judge(head, body, path, cost))
    }

    /// Requests a document, and checks the answer.
    async fn ask_document(
        &mut self,
        place: usize,
        start_ns: u64,
        cost: &mut Exchange,
    ) -> Result<(), Failure> {
        let (request, expect) = (&self.catalogue.requests[place], self.catalogue.expects[place]);
        let wanted = matches!(expect, Expect::Found { .. }) && self.sampling.draw();
        let sample = (&*self.sample, self.decodes);
        self.body
            .check
            .begin(wanted, self.catalogue.is_head, sample, start_ns);
        let exchanged = self
            .client
            .exchange(request.borrow(), start_ns, &mut self.body, cost)
            .await;
        let stated = self.catalogue.stated.as_ref();
        let judged = exchanged.and_then(|head| self.body.check.judge(head, expect, stated, cost));
        self.body.check.end();
        judged
    }
}

impl<T, C, R> Protocol for WebStreams<T, C, R>
where
    T: Transport + 'static,
    C: Conversation<Body = AnswerBody> + 'static,
    R: Borrow<C::Request> + PageRequest,
{
    type Op = Get;

    async fn perform(&mut self, get: &Get, start_ns: u64) -> Performed {
        let (place, mut cost) = (get.path as usize, Exchange::default());
        let result = match self.catalogue.expects[place] {
            Expect::Page => self.ask_page(place, start_ns, &mut cost).await,
            _ => self.ask_document(place, start_ns, &mut cost).await,
        };
        performed(get.class, result, cost)
    }
}
