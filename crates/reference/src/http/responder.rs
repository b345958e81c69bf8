//! The sending half of a connection: answers go out and are counted, and what nobody wants to read is discarded.
//!
//! Not for: which answer a request gets (`connection.rs`, `misbehaviour.rs`).

use super::documents::Document;
use super::opening::Persistence;
use super::request::Ask;
use super::worker::Worker;
use dyno_measure::{Failure, Fault};
use dyno_reactor::Socket;
use std::cell::Cell;
use std::future::Future;

/// How any wait ends that lasts too long. Nobody sees it: the connection is closed.
pub(crate) const LATE: Fault = Fault::ResponseTimeout;

/// Sends the answers of one connection.
pub(crate) struct Responder<'a> {
    pub(crate) socket: Socket,
    pub(crate) worker: &'a Worker,
    /// Counted by a fault that needs it.
    pub(crate) answers: Cell<u64>,
}

impl Responder<'_> {
    /// Sends `document` as it is.
    pub(crate) async fn send(&self, document: &Document, ask: Ask) -> Result<Persistence, Failure> {
        let opening = self.worker.opening(document.status, ask.after);
        let rest = if ask.head_only {
            document.head()
        } else {
            document.whole()
        };
        self.socket.send_pair(&opening, rest, LATE).await?;
        Ok(ask.after)
    }

    /// Sends bytes that are an answer, or that pass for one.
    pub(crate) async fn send_bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.socket.send_all(bytes, LATE).await
    }

    /// Counts the answer that `sending` sends.
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

    /// Receives and forgets until the client closes or the task's deadline passes.
    pub(crate) async fn discard_until_end(&self) -> Result<(), Failure> {
        while !self.worker.executor.deadline_passed() {
            let received = self
                .socket
                .try_receive(&mut self.worker.buffer.borrow_mut()[..])?;
            match received {
                Some(0) => return Ok(()),
                Some(_) => {}
                None => self.socket.readable(LATE).await?,
            }
        }
        Err(LATE.into())
    }
}
