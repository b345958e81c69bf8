//! Requests that wait for others: kept, tried again, cancelled.

use super::{Chain, Dialogue, ERROR_BODY};
use crate::smb::message::{command, flag, AnswerHeader, Disconnect, Frame, Request};
use crate::smb::notices;
use crate::smb::status::Status;
use crate::smb::volume::{Moment, Notice};

/// Requests of one connection that may wait at a time.
const MOST_PARKED: usize = 512;

/// A request that waits, with what follows it in its compound.
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

/// How a request ends that waited when what it is about was closed.
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
    /// Keeps a request until it is tried again, and says that it goes on, unless that was said before.
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
        // Locks and changes are waited for without end, breaks are not.
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

    /// Says something of a parked request: that it goes on, or that it has ended without being done.
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
        // A request that has been answered meanwhile is not there any more, and nothing is said.
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
        // Failing to encrypt ends with the next message, which fails likewise.
        let _ = self.say(&cancelled, &chain, 0, Status::CANCELLED, out);
    }

    /// Takes what another connection sent, and appends what is to be said of it.
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

    /// The time of the next of `expire`.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.parked.iter().filter_map(|parked| parked.deadline_ns).min()
    }

    /// Tries those requests again for which others have had their time.
    pub(crate) fn expire(&mut self, moment: Moment, out: &mut Vec<u8>) -> Result<(), Disconnect> {
        let due = |parked: &Parked| parked.deadline_ns.is_some_and(|due_ns| due_ns <= moment.ns);
        while let Some(place) = self.parked.iter().position(due) {
            self.try_again(place, moment, out)?;
        }
        Ok(())
    }
}
