//! Protocol state of one connection: credits, outstanding requests, running calls and open files. This module handles
//! bytes; `session/mod.rs` handles the sockets.

mod shared;

pub use shared::LeftBehind;

use super::calls::{Kind, Writer};
use super::durable::{Again, Durability, Durable};
use super::handles::{level_of, state_of, Handles, OpenFile};
use super::options::NegotiatedSession;
use super::protection::Protection;
use crate::crypto::Signer;
use crate::wire::{Command, Dialect, FileId, Link, Message, MAX_PARTS};
use dyno_files::{Break, Caching, Call, CallId, Grant, Reply};
use dyno_measure::{Failure, Fault};
use std::collections::VecDeque;
use std::ops::Range;

/// Requested credits: enough for several large reads and writes in parallel.
const CREDITS_WANTED: u32 = 128;
const MAX_CREDITS: u32 = 65_535;

/// An event that a session reports.
#[derive(Debug)]
pub enum Incoming {
    /// A call ended; the range of the inbox holds the data of a read.
    Ended(CallId, Result<Reply, Failure>, Range<usize>),
    /// The server breaks an oplock or a lease.
    Break(Break),
    /// The response to one of the session's own requests: status, session and tree IDs, and the response's range in the
    /// inbox.
    Answer(u32, Link, Range<usize>),
    /// The server refused the call because of its channel sequence; the call must be sent again.
    Outrun(CallId, Again),
}

/// The origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The session itself, while it starts, ends or reopens handles.
    Session,
    /// A break acknowledgement. Its response is ignored unless the status ends the session.
    Acknowledgement,
    /// The running call with this index.
    Call(usize),
}

/// A request that has no response yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outstanding {
    pub message_id: u64,
    pub command: Command,
    pub owner: Owner,
    pub interims: u32,
    pub async_id: u64,
    /// Channel sequence that the request carried.
    pub channel_sequence: u16,
    credits_asked: u32,
    max_response: u32,
}

/// A call that has not ended.
#[derive(Debug)]
pub(super) struct Running {
    pub id: CallId,
    pub kind: Kind,
    pub parts_left: usize,
    /// Remaining parts of a compound that are sent individually, because the server never grants enough
    /// credits for all.
    pub later: VecDeque<Message>,
    /// Status of the first part that failed.
    pub failed: Option<u32>,
    /// File that a compound opened and has not closed yet.
    pub file: Option<FileId>,
    /// Whether the call was sent before: on a lost connection, or with a channel sequence that the server
    /// refused.
    pub repeated: bool,
    /// State for reopening a file that the server is asked to keep.
    pub durable: Option<Box<Durable>>,
    /// Path of a directory that is being opened under a lease.
    pub directory: Option<Box<str>>,
    /// The call in repeatable form; None if the call may not be sent again.
    pub again: Option<Again>,
    /// Whether the listing may have more entries.
    pub more: bool,
    pub reply: Reply,
    pub data: Range<usize>,
}

/// Counts of requests and breaks.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Indexed by command code.
    pub requests: [u64; Command::CODES],
    /// Parts of compounds that were not executed because an earlier part had failed. Servers answer these
    /// parts but don't count them.
    pub refused: u64,
    pub breaks: u64,
}

impl Counts {
    /// Adds the counts of another connection.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.requests.iter_mut().zip(other.requests) {
            *sum += count;
        }
        self.refused += other.refused;
        self.breaks += other.breaks;
    }
}

/// State of one connection.
#[derive(Debug, Default)]
pub struct Conversation {
    pub(super) link: Link,
    pub(super) agreed: Option<NegotiatedSession>,
    pub(super) protection: Protection,
    base: String,
    next_message_id: u64,
    credits: u32,
    /// Credits requested by outstanding requests.
    credits_asked: u32,
    pub(super) outstanding: Vec<Outstanding>,
    /// Maximum size of the outstanding responses, in bytes.
    expected_bytes: usize,
    pub(super) running: Vec<Option<Running>>,
    free: Vec<usize>,
    /// Patterns of the running listings, indexed by call.
    pub(super) patterns: Vec<String>,
    pub(super) handles: Handles,
    /// The message being written, or the last one.
    message: Message,
    /// Messages that wait for credits, in order.
    waiting: VecDeque<(Message, Owner)>,
    spare: Vec<Message>,
    pub(super) ended_at_once: VecDeque<(CallId, Result<Reply, Failure>)>,
    next_call: u64,
    pub(super) counts: Counts,
    pub(super) durability: Durability,
    /// Counter for lease keys of opens that need a lease context only to send a ParentLeaseKey.
    next_own_lease: u128,
    /// Whether the session lost a connection and continued on another one, so that its open files survived.
    pub(super) outlives_connections: bool,
}

impl Conversation {
    /// Creates the state of a new connection; `base` is the prefix of all paths.
    pub fn new(base: &str) -> Self {
        Self {
            base: base.to_owned(),
            credits: 1,
            ..Self::default()
        }
    }

    /// Resets the state for a new connection. Counts, numbering and the state of durable handles stay.
    pub fn reset(&mut self) {
        let fresh = Self {
            base: std::mem::take(&mut self.base),
            message: std::mem::take(&mut self.message),
            next_call: self.next_call,
            counts: std::mem::take(&mut self.counts),
            durability: std::mem::take(&mut self.durability),
            next_own_lease: self.next_own_lease,
            ..Self::new("")
        };
        *self = fresh;
    }

    /// Marks the session as established, so that calls can start.
    pub fn establish(&mut self, link: Link, agreed: NegotiatedSession) {
        self.link = link;
        self.agreed = Some(agreed);
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the memory that all messages use, in bytes.
    pub fn held_bytes(&self) -> usize {
        let waiting = self.waiting.iter().map(|(message, _)| message);
        let all = [&self.message].into_iter().chain(&self.spare).chain(waiting);
        all.map(Message::held_bytes).sum()
    }

    /// Frees the memory of sent messages; waiting messages stay.
    pub fn release(&mut self) {
        self.message = Message::default();
        self.spare = Vec::new();
    }

    /// Returns the maximum size of the outstanding responses, in bytes.
    pub fn expected_bytes(&self) -> usize {
        self.expected_bytes
    }

    /// Returns the available credits.
    pub fn credits(&self) -> u32 {
        self.credits
    }

    /// Returns whether all requests have been answered, so that only a break can arrive.
    pub fn is_quiet(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Returns whether messages wait for credits that no outstanding response can grant.
    pub fn is_stuck(&self) -> bool {
        !self.waiting.is_empty() && self.is_quiet() && !self.may_depart()
    }

    /// Returns the number of outstanding requests and waiting messages.
    pub fn load(&self) -> usize {
        self.outstanding.len() + self.waiting.len()
    }

    /// Starts `call`. Returns the call's ID, and whether its message must be sent now, followed by the data
    /// of a write. If false, the message waits for credits, or the call has already ended.
    ///
    /// # Errors
    /// There is no session, or a message can't be protected.
    pub fn begin(&mut self, call: &Call<'_>) -> Result<(CallId, bool), Failure> {
        let id = CallId(self.next_call);
        self.next_call += 1;
        let agreed = self.agreed.ok_or(Fault::SessionLost)?;
        self.message.begin(self.link, self.protection.room());
        let mut writer = Writer {
            message: &mut self.message,
            handles: &mut self.handles,
            agreed: &agreed,
            base: &self.base,
            durability: &mut self.durability,
            next_own_lease: &mut self.next_own_lease,
            durable: None,
        };
        let kind = match writer.write(call) {
            Ok(kind) => kind,
            Err(failure) => {
                self.ended_at_once.push_back((id, Err(failure)));
                return Ok((id, false));
            }
        };
        let durable = writer.durable;
        let tail = match call {
            Call::Write { data, .. } => data,
            _ => &[][..],
        };
        let again = if self.durability.keeps_calls {
            Again::of(call)
        } else {
            None
        };
        let index = self.run(id, kind, durable, again);
        if let (Call::Open(open), Some(running)) = (call, self.running[index].as_mut()) {
            let is_leased = open.directory && matches!(kind, Kind::Open { lease: Some(_), .. });
            running.directory = is_leased.then(|| open.path.into());
        }
        if let Kind::Open { lease: Some(key), .. } = kind {
            self.handles.lease_asked(key);
        }
        if let Call::Find { pattern, .. } = call {
            self.patterns[index].clear();
            self.patterns[index].push_str(pattern);
        }
        Ok((id, self.depart_or_wait(Owner::Call(index), tail)?))
    }

    /// Writes one of the session's own requests, to be sent now.
    ///
    /// # Errors
    /// The credits don't suffice, or the request can't be protected.
    pub fn begin_own(&mut self, always_sign: bool, write: impl FnOnce(&mut Message)) -> Result<(), Failure> {
        self.message.begin(self.link, self.protection.room());
        write(&mut self.message);
        if self.message.charge() > self.credits {
            return Err(Fault::NoCredit.into());
        }
        self.message.end();
        self.depart(Owner::Session, always_sign)
    }

    /// Signs the session's own request with the key of another connection, before the request is sent.
    pub(super) fn sign_own(&mut self, signer: &Signer) {
        if let Some(part) = self.message.part_mut(0) {
            signer.sign(part);
        }
    }

    /// Writes the acknowledgement of a break. Returns true if the message must be sent now. Otherwise, the message
    /// waits for credits, or is not needed because the file has been closed meanwhile.
    ///
    /// # Errors
    /// The message can't be protected.
    pub fn acknowledge(&mut self, grant: Grant, left: Caching) -> Result<bool, Failure> {
        self.message.begin(self.link, self.protection.room());
        match grant {
            Grant::Handle(handle) => match self.handles.get(handle) {
                Some(OpenFile {
                    file,
                    oplock,
                    closing: false,
                    ..
                }) => {
                    *oplock = left;
                    self.message.acknowledge_oplock(*file, level_of(left));
                }
                _ => return Ok(false),
            },
            Grant::Lease(key) if self.handles.has_lease(key) => {
                self.handles.note_lease(key, left);
                self.message.acknowledge_lease(key.0, state_of(left));
            }
            Grant::Lease(_) => return Ok(false),
        }
        if self.message.charge() > self.credits {
            // The acknowledgement goes first: the server may grant no credits until it arrives.
            self.message.end();
            let message = std::mem::replace(&mut self.message, self.spare.pop().unwrap_or_default());
            self.waiting.push_front((message, Owner::Acknowledgement));
            return Ok(false);
        }
        self.message.end();
        self.depart(Owner::Acknowledgement, false).map(|()| true)
    }

    /// Queues further requests of a running call.
    pub(super) fn follow_up(&mut self, index: usize, write: impl FnOnce(&mut Message)) {
        let mut message = self.spare.pop().unwrap_or_default();
        message.begin(self.link, self.protection.room());
        write(&mut message);
        message.end();
        self.waiting.push_back((message, Owner::Call(index)));
    }

    /// Prepares the first waiting message for sending, if the credits suffice; returns whether it did.
    ///
    /// # Errors
    /// The message can't be protected.
    pub fn next_departure(&mut self) -> Result<bool, Failure> {
        if !self.may_depart() {
            return Ok(false);
        }
        let Some((mut message, owner)) = self.waiting.pop_front() else {
            return Ok(false);
        };
        if message.charge() > self.credits {
            self.split(&mut message, owner);
        }
        let used = std::mem::replace(&mut self.message, message);
        self.spare.push(used);
        self.depart(owner, false).map(|()| true)
    }

    /// Returns whether the first waiting message may be sent. A compound is sent in parts if no outstanding
    /// response could grant credits: a server may never grant more than one credit (Samba: smb2 max
    /// credits).
    fn may_depart(&self) -> bool {
        self.waiting.front().is_some_and(|(message, _)| {
            let charge = match message.part_at(0) {
                Some(first) if self.is_quiet() => u32::from(first.charge),
                _ => message.charge(),
            };
            charge <= self.credits
        })
    }

    fn split(&mut self, message: &mut Message, owner: Owner) {
        let rest = message.split();
        if let Owner::Call(index) = owner {
            if let Some(running) = self.running.get_mut(index).and_then(Option::as_mut) {
                running.later = rest;
            }
        }
    }

    /// Queues the next part of a split compound with the file that its first part opened; returns whether
    /// there is one. If a part failed, the rest is skipped, as in a server's handling of a compound.
    pub(super) fn next_part(&mut self, index: usize) -> bool {
        let Some(running) = self.running.get_mut(index).and_then(Option::as_mut) else {
            return false;
        };
        let Some(mut message) = running.later.pop_front() else {
            return false;
        };
        let (None, Some(file)) = (running.failed, running.file) else {
            running.later.clear();
            running.parts_left = 0;
            return false;
        };
        message.name_file(file);
        self.waiting.push_front((message, Owner::Call(index)));
        true
    }

    fn depart_or_wait(&mut self, owner: Owner, tail: &[u8]) -> Result<bool, Failure> {
        let must_wait = !self.waiting.is_empty() || self.message.charge() > self.credits;
        if must_wait || self.protection.needs_whole_messages() {
            self.message.take_tail(tail);
        }
        self.message.end();
        if must_wait {
            let message = std::mem::replace(&mut self.message, self.spare.pop().unwrap_or_default());
            self.waiting.push_back((message, owner));
            return Ok(false);
        }
        self.depart(owner, false).map(|()| true)
    }

    /// Assigns a message ID to every part of the message and records the expected responses.
    fn depart(&mut self, owner: Owner, always_sign: bool) -> Result<(), Failure> {
        // Before SMB 2.1, every request costs one credit, and the CreditCharge field is reserved.
        let has_charges = self.agreed.is_some_and(|agreed| agreed.dialect > Dialect::Smb202);
        let has_sequence = self
            .agreed
            .is_some_and(|agreed| agreed.dialect >= Dialect::Smb300);
        for index in 0..MAX_PARTS {
            let Some(part) = self.message.part_at(index) else {
                break;
            };
            let charge = u32::from(part.charge);
            self.credits = self.credits.saturating_sub(charge);
            let short = CREDITS_WANTED.saturating_sub(self.credits + self.credits_asked + charge);
            let credits_asked = charge + short;
            let field = if has_charges { part.charge } else { 0 };
            let asked_field = u16::try_from(credits_asked).unwrap_or(u16::MAX);
            self.message
                .stamp(index, self.next_message_id, field, asked_field);
            if has_sequence {
                self.message
                    .set_channel_sequence(index, self.durability.channel_sequence);
            }
            self.counts.requests[part.command as usize] += 1;
            self.credits_asked += credits_asked;
            self.expected_bytes += part.max_response as usize;
            self.outstanding.push(Outstanding {
                message_id: self.next_message_id,
                command: part.command,
                owner,
                interims: 0,
                async_id: 0,
                channel_sequence: self.durability.channel_sequence,
                credits_asked,
                max_response: part.max_response,
            });
            self.next_message_id += u64::from(part.charge);
        }
        self.protection
            .protect(&mut self.message, self.link.session_id, always_sign)
    }

    /// Adds the credits that a response grants.
    pub(super) fn earn(&mut self, credits: u16) {
        self.credits = (self.credits + u32::from(credits)).min(MAX_CREDITS);
    }

    /// Removes the answered request at `position`.
    pub(super) fn settle(&mut self, position: usize) -> Outstanding {
        let request = self.outstanding.swap_remove(position);
        self.credits_asked -= request.credits_asked;
        self.expected_bytes -= request.max_response as usize;
        request
    }

    fn run(&mut self, id: CallId, kind: Kind, durable: Option<Box<Durable>>, again: Option<Again>) -> usize {
        let running = Running {
            id,
            kind,
            parts_left: self.message.parts().count(),
            later: VecDeque::new(),
            failed: None,
            file: match kind {
                Kind::Find { leased } => leased,
                _ => None,
            },
            directory: None,
            repeated: false,
            durable,
            again,
            more: false,
            reply: match kind {
                Kind::Find { .. } => Reply::Found { entries: 0 },
                _ => Reply::Done,
            },
            data: 0..0,
        };
        match self.free.pop() {
            Some(index) => {
                self.running[index] = Some(running);
                index
            }
            None => {
                self.running.push(Some(running));
                self.patterns.push(String::new());
                self.running.len() - 1
            }
        }
    }

    /// Removes a call that has ended.
    pub(super) fn finish(&mut self, index: usize) -> Option<Running> {
        let running = self.running.get_mut(index)?.take();
        if let Some(running) = &running {
            self.free.push(index);
            if let Kind::Open { lease: Some(key), .. } = running.kind {
                self.handles.lease_answered(key);
            }
        }
        running
    }
}
