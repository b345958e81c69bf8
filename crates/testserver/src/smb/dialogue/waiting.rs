//! Requests that are parked to wait for other clients: stores, retries and cancels them.

use super::{Chain, Dialogue, ERROR_BODY};
use crate::smb::message::{command, flag, AnswerHeader, Disconnect, Frame, Request};
use crate::smb::notices;
use crate::smb::status::Status;
use crate::smb::volume::{Moment, Notice};

/// Maximum number of parked requests per connection.
const MOST_PARKED: usize = 512;

/// A parked request, with the rest of its compound.
pub(super) struct Parked {
    async_id: u64,
    message_id: u64,
    bytes: Vec<u8>,
    chain: Chain,
    deadline_ns: Option<u64>,
}

fn is_endless(command: u16) -> bool {
    matches!(command, command::LOCK | command::CHANGE_NOTIFY)
}

/// Returns the final status of a parked request whose file was closed.
pub(super) fn of_ended(command: u16, status: Status) -> Status {
    match (command, status) {
        (command::LOCK, Status::FILE_CLOSED) => Status::RANGE_NOT_LOCKED,
        (
            command::CHANGE_NOTIFY,
            Status::FILE_CLOSED | Status::NETWORK_NAME_DELETED | Status::USER_SESSION_DELETED,
        ) => Status::NOTIFY_CLEANUP,
        _ => status,
    }
}

impl Dialogue {
    /// Parks a request until it is retried. Announces it as pending, unless an earlier attempt has done so.
    pub(super) fn park(
        &mut self,
        bytes: &[u8],
        request: &Request<'_>,
        mut chain: Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<(), Disconnect> {
        if self.parked.len() >= MOST_PARKED {
            return Err(Disconnect);
        }
        if chain.async_id.is_none() {
            let async_id = self.next_async_id;
            self.next_async_id += 1;
            chain.async_id = Some(async_id);
            let credits = self.credits.grant(request.credits);
            self.say(request, &chain, credits, Status::PENDING, out)?;
        }
        // Requests wait without limit for locks and changes, but for breaks only this long.
        let patience_ns = self.host.options.break_timeout_ns;
        let deadline_ns = moment.ns.saturating_add(patience_ns);
        self.parked.push(Parked {
            async_id: chain.async_id.unwrap_or(0),
            message_id: request.message_id,
            bytes: bytes.to_vec(),
            chain,
            deadline_ns: (!is_endless(request.command)).then_some(deadline_ns),
        });
        Ok(())
    }

    /// Sends the status of a parked request: pending, or ended without execution.
    fn say(
        &mut self,
        request: &Request<'_>,
        chain: &Chain,
        credits: u16,
        status: Status,
        out: &mut Vec<u8>,
    ) -> Result<(), Disconnect> {
        let spare = std::mem::take(&mut self.spare_parts);
        let mut frame = Frame::begin(out, chain.sealed.is_some(), spare);
        let at = frame.part(out);
        out.extend_from_slice(&ERROR_BODY);
        let header = AnswerHeader {
            command: request.command,
            status,
            charge: 1,
            credits,
            related: false,
            message_id: request.message_id,
            async_id: chain.async_id,
            tree_id: chain.tree_id,
            session_id: chain.session_id,
        };
        header.write(&mut out[at..]);
        let signs = status != Status::PENDING && request.has(flag::SIGNED) && chain.sealed.is_none();
        frame.sign_part(signs.then_some(chain.session_id));
        self.end_frame(frame, chain, out)
    }

    pub(super) fn cancel(&mut self, request: &Request<'_>, chain: Chain, out: &mut Vec<u8>) {
        let is_async = request.has(flag::ASYNC);
        let is_it = |parked: &Parked| match is_async {
            true => parked.async_id == request.async_id,
            false => parked.message_id == request.message_id,
        };
        // A request that was answered meanwhile is no longer parked, and gets no further answer.
        let Some(place) = self.parked.iter().position(is_it) else {
            return;
        };
        let parked = self.parked.remove(place);
        let Ok(cancelled) = Request::parse(&parked.bytes) else {
            return;
        };
        let chain = Chain {
            sealed: chain.sealed.and(parked.chain.sealed),
            ..parked.chain
        };
        // Ignore a failure to encrypt. It will recur with the next message, and then close the connection.
        let _ = self.say(&cancelled, &chain, 0, Status::CANCELLED, out);
    }

    /// Handles a notice from another connection, and appends the resulting messages.
    pub(crate) fn take_notice(
        &mut self,
        notice: Notice,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<(), Disconnect> {
        match notice {
            Notice::TryAgain { async_id } => {
                let is_it = |parked: &Parked| parked.async_id == async_id;
                match self.parked.iter().position(is_it) {
                    Some(place) => self.try_again(place, moment, out),
                    None => Ok(()),
                }
            }
            notice => {
                notices::write(notice, out);
                Ok(())
            }
        }
    }

    fn try_again(&mut self, place: usize, moment: Moment, out: &mut Vec<u8>) -> Result<(), Disconnect> {
        let parked = self.parked.remove(place);
        self.carry_out_chain(&parked.bytes, parked.chain, moment, out)
    }

    /// Returns the earliest deadline of a parked request.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.parked.iter().filter_map(|parked| parked.deadline_ns).min()
    }

    /// Retries the requests whose deadline has passed.
    pub(crate) fn expire(&mut self, moment: Moment, out: &mut Vec<u8>) -> Result<(), Disconnect> {
        let due = |parked: &Parked| parked.deadline_ns.is_some_and(|due_ns| due_ns <= moment.ns);
        while let Some(place) = self.parked.iter().position(due) {
            self.try_again(place, moment, out)?;
        }
        Ok(())
    }
}
