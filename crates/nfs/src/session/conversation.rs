//! What client and server have said to each other, and what is still owed: requests that are not answered, calls that
//! run, files that are open. Knows bytes and no sockets: `session/mod.rs` carries them.
//!
//! A request is kept until it is answered. Where the connection is lost, the same bytes are sent once more on the next
//! one, with the same number, so that a server that remembers has carried it out only once (RFC 1813, 4.3). What it says
//! then of a request that is no repetition to it (a file that is made is there already) is understood in `answers.rs`.

use super::counts::Counts;
use super::names::Names;
use super::options::{Options, TransferSizes, Version};
use super::retransmission::Retransmission;
use super::running::{OpenFile, Running};
use crate::status::{self, Status};
use crate::v4::{Operation, Places, Procedure4, Reply4, State as State4};
use crate::wire::{Body, FileHandle, Message, Procedure, Reader, Records, Request};
use dyno_files::{Break, CallId, Handle, Piggyback, Reply};
use dyno_measure::{Detail, Failure, Fault};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// Requests under way at once. Linux's client begins with 2 and allows itself up to 65,536 over TCP.
const SLOTS: usize = 64;
/// Around the data of a reply: header, attributes, counts.
const AROUND_DATA_BYTES: usize = 1024;
/// Data of a read that has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Data {
    None,
    /// It lies there in the buffer of records.
    Received(Range<usize>),
    /// It came in several replies.
    Joined(Vec<u8>),
}

/// A call that has ended.
#[derive(Debug)]
pub struct Ended {
    pub id: CallId,
    /// What it came to.
    pub result: Result<Reply, Failure>,
    pub data: Data,
    pub piggyback: Piggyback,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for its turn.
    Queued,
    Sent,
    /// The server has asked to be left alone until then.
    Delayed(u64),
}

/// Of a request without a call: its answer is of no use to anybody.
pub(super) const NO_CALL: usize = usize::MAX;
/// What a request of NFSv4.1 has besides: where it is filled in when it is sent, and the slot that it is sent in.
#[derive(Debug)]
struct InSession {
    places: Places,
    slot: Option<u32>,
}

/// A request without its answer.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) xid: u32,
    call: usize,
    pub(super) procedure: usize,
    in_session: Option<InSession>,
    pub(super) message: Message,
    pub(super) state: State,
    pub(super) times_sent: u32,
    /// Over UDP: when it was sent, when it is sent again, how often it was too late, and whether it is again.
    pub(super) sent_ns: u64,
    pub(super) resend_ns: u64,
    pub(super) timeouts: u32,
    pub(super) is_late: bool,
    /// It was written in a session before, which knew other states.
    is_of_before: bool,
    /// How often it was sent when the server put it off last: what follows is another call.
    pub(super) put_off: u32,
    pub(super) expected_bytes: usize,
}

/// The state of one session, from its mount on.
#[derive(Debug)]
pub struct Conversation {
    pub(super) options: Rc<Options>,
    pub(super) agreed: Option<TransferSizes>,
    pub(super) names: Names,
    pub(super) now_ns: u64,
    next_xid: u32,
    next_call: u64,
    pub(super) outstanding: Vec<Outstanding>,
    /// Numbers of those that wait for their turn, in order.
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
    /// The server has no exclusive CREATE, or no READDIRPLUS.
    pub(super) no_exclusive: bool,
    pub(super) no_plus: bool,
    /// Tells the clients' exclusive creations apart.
    pub(super) client: u64,
    /// The session and what is open, of NFSv4.1; None: NFSv3.
    pub(super) four: Option<State4>,
    /// The connection does not carry the server's calls yet.
    pub(super) is_unbound: bool,
    /// What is to be told whoever keeps files.
    pub(super) breaks: VecDeque<Break>,
    /// To the server's calls, as records.
    pub(super) answers: Vec<u8>,
    /// The server wants all delegations back but so many.
    pub(super) all_but: Option<usize>,
    pub(super) counts: Counts,
    pub(super) retransmission: Option<Retransmission>,
}

impl Conversation {
    /// Before MOUNT. `client` tells the verifiers of its exclusive creations, and its numbers, from those of others.
    #[must_use]
    pub fn new(options: Rc<Options>, client: u64) -> Self {
        Self {
            retransmission: Retransmission::of(options.transport),
            options,
            agreed: None,
            names: Names::default(),
            now_ns: 0,
            next_xid: (client as u32).wrapping_mul(0x9e37_79b1),
            next_call: 0,
            outstanding: Vec::new(),
            queue: VecDeque::new(),
            sent: 0,
            delayed: 0,
            expected_bytes: 0,
            spare: Vec::new(),
            running: Vec::new(),
            free: Vec::new(),
            files: Vec::new(),
            free_files: Vec::new(),
            ended: VecDeque::new(),
            no_exclusive: false,
            no_plus: false,
            client,
            four: None,
            is_unbound: false,
            breaks: VecDeque::new(),
            answers: Vec::new(),
            all_but: None,
            counts: Counts::default(),
        }
    }

    /// Forgets every call and file. What was counted stays, and numbers go on.
    pub fn reset(&mut self) {
        *self = Self {
            next_xid: self.next_xid,
            next_call: self.next_call,
            counts: self.counts,
            ..Self::new(self.options.clone(), self.client)
        };
    }

    /// Calls can be made from here on.
    pub fn establish(&mut self, root: FileHandle, agreed: TransferSizes) {
        self.names.begin(root);
        self.agreed = Some(agreed);
    }

    /// Goes on in another session, which has taken over what was open: everything that was sent is to be sent again.
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
        // A session is made with the connection that it is made on.
        self.is_unbound = false;
    }

    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Counts a request that went beside the conversation.
    pub fn count(&mut self, procedure: usize) {
        self.counts.requests[procedure] += 1;
    }

    /// Returns what the server was asked for, by the protocol's own names.
    #[must_use]
    pub fn requests_by_name(&self) -> Vec<(&'static str, u64)> {
        let names: Vec<_> = match self.options.version {
            Version::V3 => Procedure::ALL.iter().map(|procedure| procedure.name()).collect(),
            Version::V4_1 | Version::V4_2 => {
                Procedure4::ALL.iter().map(|procedure| procedure.name()).collect()
            }
        };
        names.into_iter().zip(self.counts.requests).collect()
    }

    /// Returns a number for a message that goes beside the conversation.
    pub fn number(&mut self) -> u32 {
        self.next_xid = self.next_xid.wrapping_add(1);
        self.next_xid
    }

    /// Whether nothing is owed, and so nothing can come.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.outstanding.is_empty() && self.ended.is_empty()
    }

    /// What outstanding requests may bring, in bytes.
    #[must_use]
    pub fn expected_bytes(&self) -> usize {
        self.expected_bytes
    }

    /// What messages take of memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let outstanding = self.outstanding.iter().map(|request| &request.message);
        outstanding.chain(&self.spare).map(Message::held_bytes).sum()
    }

    /// Gives the memory of messages back that have been answered.
    pub fn release(&mut self) {
        self.spare = Vec::new();
    }

    /// Returns when a request is due that the server has put off, or over UDP not answered; None where there is none.
    #[must_use]
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

    /// Returns the next message to send now, and whether another is to follow.
    pub fn next_departure(&mut self, now_ns: u64) -> Option<(&Message, bool)> {
        self.wake(now_ns);
        self.expire(now_ns);
        let of_udp = self.retransmission.as_ref().map_or(SLOTS, Retransmission::limit);
        let most = self.four.as_ref().map_or(of_udp, State4::limit);
        if self.sent >= most || self.needs_session() {
            return None;
        }
        let xid = *self.queue.front()?;
        let position = self.outstanding.iter().rposition(|request| request.xid == xid)?;
        if !self.answer_has_room(&self.outstanding[position]) {
            return None;
        }
        let request = &mut self.outstanding[position];
        if let (Some(state), Some(in_session)) = (&mut self.four, &mut request.in_session) {
            // What was sent before the connection was lost keeps its slot: so the server knows it again.
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

    /// The connection is another one: everything that was sent is to be sent again.
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
                // Those that have a slot come first: they take none from the others.
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

    /// Queues a request of NFSv4.1.
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

    /// Takes in what has come: the next call that has ended, None where more must come first.
    ///
    /// # Errors
    /// Where the server breaks the protocol.
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
            // Of what was sent twice two answers may come; and whoever knows the port may send a datagram.
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
            Body::Denied(reason) => Err(Failure {
                fault: Fault::AccessDenied,
                detail: reason.map_or(Detail::None, |reason| {
                    Detail::Status(status::of_authentication(reason))
                }),
            }),
        };
        let request = self.outstanding.swap_remove(position);
        if let (Err(_), Some(state), Some(slot)) = (
            &answer,
            &mut self.four,
            request.in_session.as_ref().and_then(|sent| sent.slot),
        ) {
            // RPC has refused it: the session has not heard of it.
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

    /// Reads the status of a reply and where its results begin; None where the request is to be sent again.
    fn status(&mut self, position: usize, results: &[u8]) -> Result<Option<(u32, usize)>, Failure> {
        let request = &mut self.outstanding[position];
        let (Some(state), Some(in_session)) = (&mut self.four, &mut request.in_session) else {
            let status = Reader::new(results).u32()?;
            if status == Status::JukeBox as u32 {
                self.put_off(position);
                return Ok(None);
            }
            return Ok(Some((status, 4)));
        };
        let slot = in_session.slot.ok_or(Fault::MalformedMessage)?;
        let reply = state.read_reply(results, slot)?;
        let is_doubtful = std::mem::take(&mut state.is_doubtful);
        let done = match reply {
            Reply4::Done(status, at) => Some((status, at)),
            Reply4::Later => {
                in_session.slot = None;
                self.put_off(position);
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

    /// Finds a place for a running call.
    pub(super) fn place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.running.push(None);
            self.running.len() - 1
        })
    }

    /// Ends the call in that place without data.
    pub(super) fn finish(&mut self, place: usize, result: Result<Reply, Failure>) -> Option<Ended> {
        let running = self.running.get_mut(place)?.take()?;
        Some(self.ended(place, &running, result, Data::None))
    }

    /// Makes the end of a call that was taken from its place.
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
