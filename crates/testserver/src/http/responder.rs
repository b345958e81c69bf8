//! The sending side of a connection: sends and counts answers, and discards unwanted input.
//!
//! `connection.rs` and `misbehaviour.rs` choose the answers.

use super::documents::Document;
use super::opening::Persistence;
use super::request::Ask;
use super::wire::{Received, Wire, LATE};
use super::worker::Worker;
use dyno_measure::Failure;
use std::cell::Cell;
use std::future::Future;

/// Sends the answers of one connection.
pub(crate) struct Responder<'a> {
    pub(crate) wire: Wire,
    pub(crate) worker: &'a Worker,
    /// Number of answers, for a fault that depends on it.
    pub(crate) answers: Cell<u64>,
}

impl Responder<'_> {
    pub(crate) async fn send(&self, document: &Document, ask: Ask) -> Result<Persistence, Failure> {
        let opening = self.worker.opening(document.status, ask.after);
        let rest = if ask.head_only {
            document.head()
        } else {
            document.whole()
        };
        self.wire.send_pair(&opening, rest).await?;
        Ok(ask.after)
    }

    /// Sends raw bytes as an answer.
    pub(crate) async fn send_bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.wire.send_all(bytes).await
    }

    /// Counts an answer, then sends it with `sending`.
    pub(crate) async fn counted<T>(
        &self,
        sending: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.worker.count_answer();
        let sent = sending.await;
        if sent.is_err() {
            self.worker.uncount_answer();
        }
        sent
    }

    /// Discards received data until the client closes the connection or the task's deadline passes.
    pub(crate) async fn discard_until_end(&self) -> Result<(), Failure> {
        let mut forgotten = Vec::new();
        while !self.worker.executor.deadline_passed() {
            let received = self
                .wire
                .receive(&mut self.worker.buffer.borrow_mut()[..], &mut forgotten)?;
            forgotten.clear();
            match received {
                Received::End => return Ok(()),
                Received::InBuffer(_) | Received::Unread => {}
                Received::Nothing => self.wire.readable().await?,
            }
        }
        Err(LATE.into())
    }
}
