//! One client thread as a user with a session: steps that build on what earlier answers said.

use super::client::{judge_stated, performed};
use super::script::{Script, Taking};
use super::template::User;
use crate::protocol::{Performed, Protocol};
use dyno_http::{Connection, Exchange, Transport};
use dyno_measure::Failure;
use dyno_workload::Get;
use std::sync::Arc;

/// What a buffer may keep of its room from one step to the next.
const KEPT_BYTES: usize = 4096;

pub(super) struct Session<T: Transport> {
    script: Arc<Script>,
    client: Connection<T>,
    user: User,
    request: Vec<u8>,
    /// That of the request, then that of the answer.
    body: Vec<u8>,
}

impl<T: Transport> Session<T> {
    pub(super) fn new(script: Arc<Script>, client: Connection<T>, (number, thread): (usize, usize)) -> Self {
        let user = User {
            client: number,
            thread,
            round: 0,
            values: vec![None; script.values],
        };
        Self {
            script,
            client,
            user,
            request: Vec::new(),
            body: Vec::new(),
        }
    }

    async fn make(&mut self, place: usize, start_ns: u64, cost: &mut Exchange) -> Result<(), Failure> {
        let step = &self.script.steps[place];
        if place == 0 {
            self.user.round += 1;
            self.user.values.fill(None);
        }
        step.write(&self.user, &mut self.request, &mut self.body)?;
        self.body.clear();
        let mut taking = Taking {
            step,
            user: &mut self.user,
            body: &mut self.body,
        };
        self.client.may_repeat(step.repeat);
        let head = self
            .client
            .exchange(&self.request, start_ns, &mut taking, cost)
            .await?;
        judge_stated(head, &step.stated, cost)?;
        step.finish(&mut self.user, &self.body)
    }
}

impl<T: Transport> Protocol for Session<T> {
    type Op = Get;

    async fn perform(&mut self, get: &Get, start_ns: u64) -> Performed {
        let mut cost = Exchange::default();
        let result = self.make(get.path as usize, start_ns, &mut cost).await;
        self.body.clear();
        self.body.shrink_to(KEPT_BYTES);
        self.request.shrink_to(KEPT_BYTES);
        performed(get.class, result, &cost)
    }
}
