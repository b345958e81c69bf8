//! Protocol state of a session: unanswered requests, running calls and open files. This module handles bytes;
//! `session/mod.rs` handles the sockets.
//!
//! A request is kept until it is answered. After a lost connection, the same bytes with the same XID are sent
//! again on the next one. A server with a reply cache then executes the request only once (RFC 1813, 4.3).
//! `answers.rs` interprets the answer if the server does not recognize the repetition (for example, the file
//! to create already exists).

use super::counts::Counts;
use super::names::Names;
use super::options::{Options, TransferSizes, Version};
use super::retransmission::Retransmission;
use super::running::{OpenFile, Running};
use crate::refusal::Refusal;
use crate::status::{self, Status};
use crate::v4::{Operation, Places, Procedure4, Reply4, State as State4};
use crate::wire::{Body, FileHandle, Message, Procedure, Reader, Records, Request};
use dyno_files::{Break, CallId, Handle, Piggyback, Postponed, Reply};
use dyno_measure::{Detail, Failure, Fault};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of concurrent requests. Linux's client starts with 2 and allows up to 65,536 over TCP.
pub(super) const SLOTS: usize = 64;
/// Upper bound on the size of a reply without its data: header, attributes and counts.
const AROUND_DATA_BYTES: usize = 1024;
/// Data of a finished read.
#[derive(Debug, PartialEq, Eq)]
pub enum Data {
    None,
    /// The range of the data in the record buffer.
    Received(Range<usize>),
    /// Data from several replies.
    Joined(Vec<u8>),
}

/// A finished call.
#[derive(Debug)]
pub struct Ended {
    pub id: CallId,
    pub result: Result<Reply, Failure>,
    pub data: Data,
    pub piggyback: Piggyback,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The request waits in the queue.
    Queued,
    Sent,
    /// The server delayed the request, which is sent again at this time.
    Delayed(u64),
}

/// Call index of a request that belongs to no call. Its answer is ignored.
pub(super) const NO_CALL: usize = usize::MAX;
/// NFSv4.1 data of a request: the fields that are filled in when it is sent, and its slot.
#[derive(Debug)]
struct InSession {
    places: Places,
    slot: Option<u32>,
}

/// An unanswered request.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) xid: u32,
    call: usize,
    pub(super) procedure: usize,
    in_session: Option<InSession>,
    pub(super) message: Message,
    pub(super) state: State,
    pub(super) times_sent: u32,
    /// This field and the next three are for UDP: time of the last transmission, time of the next one, number
    /// of timeouts, and whether the request timed out since the last transmission.
    pub(super) sent_ns: u64,
    pub(super) resend_ns: u64,
    pub(super) timeouts: u32,
    pub(super) is_late: bool,
    /// Whether the request was written for an earlier session, with other state IDs.
    is_of_before: bool,
    /// Number of transmissions up to the server's last delay of the request. Later transmissions count as a new
    /// request.
    pub(super) put_off: u32,
    pub(super) expected_bytes: usize,
}

/// Protocol state of one session.
#[derive(Debug, Default)]
pub struct Conversation {
    pub(super) options: Rc<Options>,
    pub(super) agreed: Option<TransferSizes>,
    pub(super) names: Names,
    pub(super) now_ns: u64,
    next_xid: u32,
    next_call: u64,
    pub(super) outstanding: Vec<Outstanding>,
    /// XIDs of waiting requests, in order.
    pub(super) queue: VecDeque<u32>,
    pub(super) sent: usize,
    pub(super) delayed: usize,
    expected_bytes: usize,
    spare: Vec<Message>,
    pub(super) running: Vec<Option<Running>>,
    free: Vec<usize>,
    files: Vec<Option<OpenFile>>,
    free_files: Vec<usize>,
    pub(super) ended: VecDeque<Ended>,
    /// Whether the server lacks exclusive CREATE (`no_exclusive`) or READDIRPLUS (`no_plus`).
    pub(super) no_exclusive: bool,
    pub(super) no_plus: bool,
    /// Whether the server named no security flavor for the export.
    pub(super) no_flavor: bool,
    /// Number of the client. It makes the verifiers of exclusive creations differ between clients.
    pub(super) client: u64,
    /// NFSv4.1 session and open files; None for NFSv3.
    pub(super) four: Option<State4>,
    /// Whether the connection is not bound to the back channel yet.
    pub(super) is_unbound: bool,
    /// Breaks to report to the cache.
    pub(super) breaks: VecDeque<Break>,
    /// Replies to the server's calls, as records.
    pub(super) answers: Vec<u8>,
    /// Number of delegations that the client may keep. The server wants all others back.
    pub(super) all_but: Option<usize>,
    pub(super) counts: Counts,
    /// Counts of answers that asked a client to wait, over all sessions with the server.
    pub(super) postponed: Arc<Postponed>,
    /// Whether the server's last answer asked to wait for the end of its grace period.
    pub(super) is_in_grace: bool,
    pub(super) retransmission: Option<Retransmission>,
}

impl Conversation {
    /// Creates the state before MOUNT. `client`: a number by which XIDs and the verifiers of exclusive creations differ
    /// between clients.
    pub fn new(options: Rc<Options>, client: u64) -> Self {
        Self {
            retransmission: Retransmission::of(options.transport),
            options,
            next_xid: (client as u32).wrapping_mul(0x9e37_79b1),
            client,
            ..Self::default()
        }
    }

    /// Forgets every call and file. The counts stay, and numbering continues.
    pub fn reset(&mut self) {
        *self = Self {
            next_xid: self.next_xid,
            next_call: self.next_call,
            counts: self.counts,
            postponed: self.postponed.clone(),
            ..Self::new(self.options.clone(), self.client)
        };
    }

    /// Marks the session as established, so that calls can start.
    pub fn establish(&mut self, root: FileHandle, agreed: TransferSizes) {
        self.names.begin(root);
        self.agreed = Some(agreed);
    }

    /// Continues in another session, which has taken over the open files: all sent requests are sent again.
    pub fn go_on_in(&mut self, state: State4) {
        self.lose_delegations();
        for request in &mut self.outstanding {
            let Some(in_session) = &mut request.in_session else {
                continue;
            };
            in_session.slot = None;
            request.is_of_before = true;
            if let Some((at, file)) = in_session.places.stateid {
                request.message.overwrite(at, &state.stateid(&file).bytes(0));
            }
        }
        self.four = Some(state);
        self.reconnected();
        // The connection on which a session is created is already bound to the session.
        self.is_unbound = false;
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Counts a request that is sent outside the conversation.
    pub fn count(&mut self, procedure: usize) {
        self.counts.requests[procedure] += 1;
    }

    /// Returns the number of requests per procedure, with the procedure's name in the protocol.
    pub fn requests_by_name(&self) -> Vec<(&'static str, u64)> {
        let names: Vec<_> = match self.options.version {
            Version::V3 => Procedure::ALL.iter().map(|procedure| procedure.name()).collect(),
            Version::V4_1 | Version::V4_2 => {
                Procedure4::ALL.iter().map(|procedure| procedure.name()).collect()
            }
        };
        names.into_iter().zip(self.counts.requests).collect()
    }

    /// Returns an XID for a message that is sent outside the conversation.
    pub fn number(&mut self) -> u32 {
        self.next_xid = self.next_xid.wrapping_add(1);
        self.next_xid
    }

    /// Returns whether all requests have been answered and all finished calls have been reported.
    pub fn is_quiet(&self) -> bool {
        self.outstanding.is_empty() && self.ended.is_empty()
    }

    /// Returns the maximum size of outstanding answers, in bytes.
    pub fn expected_bytes(&self) -> usize {
        self.expected_bytes
    }

    /// Returns the memory that all messages use, in bytes.
    pub fn held_bytes(&self) -> usize {
        let outstanding = self.outstanding.iter().map(|request| &request.message);
        outstanding.chain(&self.spare).map(Message::held_bytes).sum()
    }

    /// Frees the memory of answered messages.
    pub fn release(&mut self) {
        self.spare = Vec::new();
    }

    /// Returns the time at which the next request must be sent again, because the server delayed it or, over
    /// UDP, has not answered it; None if there is none.
    pub fn due_ns(&self) -> Option<u64> {
        let resends = self.retransmission.is_some();
        if self.delayed == 0 && !resends {
            return None;
        }
        let due = self.outstanding.iter().filter_map(|request| match request.state {
            State::Delayed(due_ns) => Some(due_ns),
            State::Sent if resends => Some(request.resend_ns),
            _ => None,
        });
        due.min()
    }

    /// Returns the next message to send now, and whether another one follows.
    pub fn next_departure(&mut self, now_ns: u64) -> Option<(&Message, bool)> {
        self.wake(now_ns);
        self.expire(now_ns);
        let (most, position) = (self.most_sent(), self.first_due()?);
        let request = &mut self.outstanding[position];
        if let (Some(state), Some(in_session)) = (&mut self.four, &mut request.in_session) {
            // A request that was sent before the connection was lost keeps its slot, so that the server
            // recognizes it.
            if in_session.slot.is_none() {
                let slot = state.take_slot()?;
                in_session.slot = Some(slot);
                request
                    .message
                    .overwrite(in_session.places.sequence, &state.sequence(slot));
            }
            state.heard(now_ns);
        }
        self.queue.pop_front();
        self.sent += 1;
        let more = self.sent < most && !self.queue.is_empty();
        request.state = State::Sent;
        match std::mem::take(&mut request.is_late) {
            true => self.counts.retransmitted += 1,
            false => self.counts.resent += u64::from(request.times_sent > request.put_off),
        }
        request.times_sent += 1;
        if let Some(retransmission) = &self.retransmission {
            request.sent_ns = now_ns;
            request.resend_ns = retransmission.due_ns(request.procedure, request.timeouts, now_ns);
        }
        self.counts.requests[request.procedure] += 1;
        Some((&request.message, more))
    }

    /// Continues on a new connection: all sent requests are sent again.
    pub fn reconnected(&mut self) {
        self.queue.clear();
        self.answers.clear();
        self.sent = 0;
        self.is_unbound = self.four.as_ref().is_some_and(|state| state.agreed().is_called);
        for request in &mut self.outstanding {
            if request.state == State::Sent {
                request.state = State::Queued;
            }
            if request.state == State::Queued {
                // Requests that already have a slot go first, because they need no further slot.
                match &request.in_session {
                    Some(InSession { slot: Some(_), .. }) => self.queue.push_front(request.xid),
                    _ => self.queue.push_back(request.xid),
                }
            }
        }
    }

    /// Queues a request of a running call.
    pub(super) fn ask(&mut self, call: usize, request: &Request<'_>) {
        if self.four.is_some() {
            return self.ask4(
                call,
                &match *request {
                    Request::FsStat { root } => Operation::Space { root },
                    request => Operation::Plain(request),
                },
            );
        }
        let xid = self.number();
        let mut message = self.spare.pop().unwrap_or_default();
        request.write(&mut message, xid, &self.options.credential);
        self.queue(
            call,
            xid,
            message,
            request.procedure() as usize,
            request.data_bytes(),
            None,
        );
    }

    /// Queues an NFSv4.1 request.
    pub(super) fn ask4(&mut self, call: usize, operation: &Operation<'_>) {
        let xid = self.number();
        let mut message = self.spare.pop().unwrap_or_default();
        let Some(state) = &self.four else { return };
        let places = operation.write(&mut message, xid, &self.options.credential, state);
        let data_bytes = match operation {
            Operation::Plain(request) => request.data_bytes(),
            _ => 0,
        };
        let in_session = Some(InSession { places, slot: None });
        self.queue(
            call,
            xid,
            message,
            operation.procedure() as usize,
            data_bytes,
            in_session,
        );
    }

    fn queue(
        &mut self,
        call: usize,
        xid: u32,
        message: Message,
        procedure: usize,
        data_bytes: usize,
        in_session: Option<InSession>,
    ) {
        let expected_bytes = AROUND_DATA_BYTES + data_bytes;
        self.expected_bytes += expected_bytes;
        self.queue.push_back(xid);
        self.outstanding.push(Outstanding {
            xid,
            call,
            procedure,
            in_session,
            message,
            state: State::Queued,
            times_sent: 0,
            sent_ns: 0,
            resend_ns: 0,
            timeouts: 0,
            is_late: false,
            is_of_before: false,
            put_off: 0,
            expected_bytes,
        });
    }

    /// Processes received data. Returns the next call that has ended, or None if more data must arrive first.
    ///
    /// # Errors
    /// The server violates the protocol.
    pub fn receive(&mut self, records: &mut Records, now_ns: u64) -> Result<Option<Ended>, Failure> {
        self.now_ns = now_ns;
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return Ok(Some(ended));
            }
            let Some(range) = records.next_record()? else {
                return Ok(None);
            };
            if let Some(ended) = self.take_in(records.bytes(), range)? {
                return Ok(Some(ended));
            }
        }
    }

    fn take_in(&mut self, buffer: &[u8], range: Range<usize>) -> Result<Option<Ended>, Failure> {
        let record = &buffer[range.clone()];
        if self.take_call(record)? {
            return Ok(None);
        }
        let resends = self.retransmission.is_some();
        let parsed = match Body::parse(record) {
            Err(_) if resends => None,
            parsed => Some(parsed?),
        };
        let found = parsed.and_then(|(xid, body)| {
            let is_it = |request: &Outstanding| request.xid == xid && request.is_out(resends);
            Some((self.outstanding.iter().position(is_it)?, body))
        });
        let Some((position, body)) = found else {
            // A retransmitted request may be answered twice, and anyone who knows the port may send a
            // datagram.
            self.counts.strays += u64::from(resends);
            return if resends {
                Ok(None)
            } else {
                Err(Fault::MalformedMessage.into())
            };
        };
        self.heard_of(position, self.now_ns);
        let answer = match body {
            Body::Accepted(at) => match self.status(position, &record[at..])? {
                Some((status, results)) => Ok((status, at + results)),
                None => return Ok(None),
            },
            Body::Unaccepted(status::PROCEDURE_UNAVAILABLE) => Ok((Status::NotSupp as u32, record.len())),
            Body::Unaccepted(other) => Err(Failure {
                fault: Fault::ErrorStatus,
                detail: Detail::Status(status::of_rpc(other)),
            }),
            Body::Denied(reason) => Err(Refusal::denied_call(reason, self.no_flavor)),
        };
        let request = self.outstanding.swap_remove(position);
        if let (Err(_), Some(state), Some(slot)) = (
            &answer,
            &mut self.four,
            request.in_session.as_ref().and_then(|sent| sent.slot),
        ) {
            // RPC rejected the request, so the session never saw it.
            state.free_slot(slot, false);
        }
        self.sent -= 1;
        self.expected_bytes -= request.expected_bytes;
        let repeated = request.times_sent - request.put_off > 1 || request.is_of_before;
        let ended = match answer {
            Err(failure) => self.finish(request.call, Err(failure)),
            Ok((status, at)) => {
                self.free_revoked(request.procedure, status, &request.message);
                let begin = range.start + at;
                let results = &record[at..];
                self.answered(request.call, repeated, status, results, begin, &request.message)?
            }
        };
        let mut message = request.message;
        message.clear();
        self.spare.push(message);
        Ok(ended)
    }

    /// Returns the status of a reply and the start of its results, or None if the request must be sent
    /// again.
    fn status(&mut self, position: usize, results: &[u8]) -> Result<Option<(u32, usize)>, Failure> {
        let request = &mut self.outstanding[position];
        let (Some(state), Some(in_session)) = (&mut self.four, &mut request.in_session) else {
            let status = Reader::new(results).u32()?;
            if status == Status::JukeBox as u32 {
                self.put_off(position, false);
                return Ok(None);
            }
            return Ok(Some((status, 4)));
        };
        let slot = in_session.slot.ok_or(Fault::MalformedMessage)?;
        let reply = state.read_reply(results, slot)?;
        let is_doubtful = std::mem::take(&mut state.is_doubtful);
        let done = match reply {
            Reply4::Done(status, at) => {
                self.is_in_grace = false;
                Some((status, at))
            }
            Reply4::Later { in_grace } => {
                in_session.slot = None;
                self.put_off(position, in_grace);
                None
            }
            Reply4::Anew | Reply4::NoSession => {
                in_session.slot = None;
                request.state = State::Queued;
                self.queue.push_back(request.xid);
                self.sent -= 1;
                None
            }
        };
        if is_doubtful {
            self.give_up_all_but(0, true);
        }
        Ok(done)
    }

    pub(super) fn next_id(&mut self) -> CallId {
        self.next_call += 1;
        CallId(self.next_call)
    }

    /// Returns a free place for a running call.
    pub(super) fn place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.running.push(None);
            self.running.len() - 1
        })
    }

    /// Ends the call in `place` without data.
    pub(super) fn finish(&mut self, place: usize, result: Result<Reply, Failure>) -> Option<Ended> {
        let running = self.running.get_mut(place)?.take()?;
        Some(self.ended(place, &running, result, Data::None))
    }

    /// Returns the finished call that was removed from `place`, and frees the place.
    pub(super) fn ended(
        &mut self,
        place: usize,
        running: &Running,
        result: Result<Reply, Failure>,
        data: Data,
    ) -> Ended {
        self.free.push(place);
        Ended {
            id: running.id,
            result,
            data,
            piggyback: running.piggyback,
        }
    }

    pub(super) fn file(&self, handle: Handle) -> Result<&OpenFile, Failure> {
        let file = self.files.get(handle.0 as usize).and_then(Option::as_ref);
        file.ok_or_else(|| Fault::SessionLost.into())
    }

    pub(super) fn add_file(&mut self, file: OpenFile) -> Handle {
        let place = self.free_files.pop().unwrap_or_else(|| {
            self.files.push(None);
            self.files.len() - 1
        });
        self.files[place] = Some(file);
        Handle(u32::try_from(place).unwrap_or(u32::MAX))
    }

    pub(super) fn take_file(&mut self, handle: Handle) -> Result<OpenFile, Failure> {
        let place = handle.0 as usize;
        let file = self.files.get_mut(place).and_then(Option::take);
        let file = file.ok_or(Fault::SessionLost)?;
        self.free_files.push(place);
        Ok(file)
    }
}
