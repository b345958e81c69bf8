//! One client thread as a user with a session: steps that depend on earlier answers. Over HTTP/1 each thread
//! has its own connection; over HTTP/2 several share one.

use super::client::{judge_stated, performed};
use super::decoding::Sample;
use super::script::{Script, Taking};
use super::template::User;
use crate::engine_thread::FailedStep;
use crate::protocol::{Performed, Protocol};
use dyno_http::h2;
use dyno_http::{Connection, Exchange, Head, RequestForm, StreamClient, Transport, WrittenHttp1};
use dyno_measure::{unix_s, Failure};
use dyno_workload::Get;
use std::rc::Rc;
use std::sync::Arc;

/// Connection for a user's requests.
pub(super) trait Carrier {
    /// Format of the requests.
    type Form: RequestForm;

    /// Sends a request, which may be resent if `repeat` is set, and reads the whole answer.
    async fn exchange(
        &mut self,
        request: &<Self::Form as RequestForm>::Request,
        repeat: bool,
        start_ns: u64,
        taking: &mut Taking,
        cost: &mut Exchange,
    ) -> Result<Head, Failure>;
}

impl<T: Transport> Carrier for Connection<T> {
    type Form = WrittenHttp1;

    async fn exchange(
        &mut self,
        request: &[u8],
        repeat: bool,
        start_ns: u64,
        taking: &mut Taking,
        cost: &mut Exchange,
    ) -> Result<Head, Failure> {
        self.may_repeat(repeat);
        Connection::exchange(self, request, start_ns, taking, cost).await
    }
}

impl<T: Transport + 'static> Carrier for StreamClient<T, h2::Session<Taking>> {
    type Form = h2::Written;

    async fn exchange(
        &mut self,
        request: &h2::Request,
        repeat: bool,
        start_ns: u64,
        taking: &mut Taking,
        cost: &mut Exchange,
    ) -> Result<Head, Failure> {
        self.may_repeat(repeat);
        StreamClient::exchange(self, request, start_ns, taking, cost).await
    }
}

pub(super) struct Session<C: Carrier> {
    script: Arc<Script>,
    carrier: C,
    form: C::Form,
    user: User,
    taking: Taking,
    sample: Rc<Sample>,
    decodes: bool,
    /// Scratch buffer for writing the request.
    part: Vec<u8>,
}

impl<C: Carrier> Session<C> {
    pub(super) fn new(
        script: Arc<Script>,
        carrier: C,
        form: C::Form,
        (number, thread): (usize, usize),
        (sample, decodes): (Rc<Sample>, bool),
    ) -> Self {
        let user = User {
            made: unix_s().to_bits(),
            client: number,
            thread,
            round: 0,
            values: vec![None; script.values],
        };
        Self {
            script,
            carrier,
            form,
            user,
            taking: Taking::default(),
            sample,
            decodes,
            part: Vec::new(),
        }
    }

    async fn make(&mut self, place: usize, start_ns: u64, cost: &mut Exchange) -> Result<(), Failure> {
        let step = &self.script.steps[place];
        if place == 0 {
            self.user.round += 1;
            self.user.values.fill(None);
        }
        let (request, head_bytes) = step.write(&self.user, &mut self.form, &mut self.part)?;
        self.taking.begin(step);
        let decodes = self.decodes && step.asking.for_coding && !step.asking.is_head;
        self.taking.sampled.begin(&self.sample, decodes, start_ns);
        let exchanged = self
            .carrier
            .exchange(request, step.repeat, start_ns, &mut self.taking, cost)
            .await;
        let result = exchanged.and_then(|head| {
            judge_stated(head, &step.stated, cost)?;
            cost.decoded = self.taking.sampled.judge(head.status)?;
            step.finish(&mut self.user, &mut self.taking)
        });
        result.inspect_err(|failure| {
            self.sample.note_failed(FailedStep {
                fault: failure.fault,
                step: place,
                head_bytes,
            });
        })
    }
}

impl<C: Carrier> Protocol for Session<C> {
    type Op = Get;

    async fn perform(&mut self, get: &Get, start_ns: u64) -> Performed {
        let mut cost = Exchange::default();
        let result = self.make(get.path as usize, start_ns, &mut cost).await;
        self.taking.clear();
        self.taking.sampled.end();
        performed(get.class, result, cost)
    }
}
