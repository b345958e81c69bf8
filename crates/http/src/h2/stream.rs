//! One request and its response.

use super::head::Fields;
use super::violation::Violation;
use super::window::Window;
use crate::failures::unexpected_body;
use crate::response::Body;
use dyno_measure::{Failure, Fault};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Stream<B> {
    pub(super) id: u32,
    /// Number of open streams, if this one was opened before the server's settings arrived; otherwise 0.
    pub(super) unannounced: u32,
    pub(super) body: B,
    /// Status of the final head, once received.
    pub(super) status: Option<u16>,
    pub(super) length: Option<u64>,
    pub(super) body_bytes: u64,
    /// Whether the receiver of the body knows that the body is complete.
    pub(super) told_end: bool,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    /// Receive window.
    pub(super) window: Window,
    pub(super) send_window: i64,
    /// Request body and the number of bytes sent.
    pub(super) unsent: Option<(Arc<[u8]>, usize)>,
    pub(super) outcome: Option<(Result<u16, Failure>, bool)>,
}

impl<B: Body> Stream<B> {
    /// Processes the fields of a head or trailer. `most_bytes` limits all interim heads together.
    pub(super) fn accept(
        &mut self,
        fields: &Fields,
        is_trailer: bool,
        end_stream: bool,
        most_bytes: usize,
    ) -> Result<(), Violation> {
        if is_trailer {
            return if end_stream {
                self.end()
            } else {
                Err(Violation::SecondHead)
            };
        }
        let status = fields.status.ok_or(Violation::StatusField)?;
        match status {
            101 => return Err(Violation::SwitchingProtocols),
            100..200 if end_stream => return Err(Violation::InterimEnd),
            100..200 if self.received_bytes > most_bytes as u64 => return Err(Violation::InterimResponses),
            100..200 => return Ok(()),
            _ => {}
        }
        self.status = Some(status);
        // Some responses have no content, whatever length they declare (RFC 9113, section 8.1.1).
        self.length = match self.unexpected_body() {
            Some(_) => Some(0),
            None => fields.length,
        };
        if end_stream {
            self.end()
        } else {
            Ok(())
        }
    }

    /// Returns the failure for data in a response that has no content, or None if it may have content.
    fn unexpected_body(&self) -> Option<Failure> {
        unexpected_body(self.status?, self.body.answers_head())
    }

    pub(super) fn accept_data(&mut self, data: &[u8], ends: bool, most_bytes: u64) -> Result<(), Failure> {
        self.body_bytes += data.len() as u64;
        if self.body_bytes > most_bytes {
            return Err(Fault::BodyTooLarge.into());
        }
        if self.length.is_some_and(|length| self.body_bytes > length) {
            return Err(self.unexpected_body().unwrap_or(Violation::BodyLength.into()));
        }
        let whole = ends || self.length == Some(self.body_bytes);
        if !data.is_empty() {
            self.body.part(data, whole);
            self.told_end = whole;
        }
        if ends {
            self.end()?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Violation> {
        if self.length.is_some_and(|length| length != self.body_bytes) {
            return Err(Violation::BodyLength);
        }
        if !self.told_end {
            self.told_end = true;
            self.body.part(&[], true);
        }
        Ok(())
    }
}
