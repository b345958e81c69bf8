//! What client and server have said to each other on one connection, and what is still owed: credits, requests that
//! are outstanding, calls that run, files that are open. Knows bytes and no sockets: `session/mod.rs` carries them.

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

/// Credits that are asked for, so that several large reads and writes can be under way at once.
const CREDITS_WANTED: u32 = 128;
const MAX_CREDITS: u32 = 65_535;

/// What is told to whom uses the session.
#[derive(Debug)]
pub enum Incoming {
    /// A call ended; the range of the inbox holds what was read.
    Ended(CallId, Result<Reply, Failure>, Range<usize>),
    /// The server takes caching back.
    Break(Break),
    /// The response to a request of the session's own: its status, its session and tree, and where it lies whole.
    Answer(u32, Link, Range<usize>),
    /// The server has not carried the call out, because of what came, or is to come, over another connection.
    Outrun(CallId, Again),
}

/// For whom a request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The session itself, which makes or ends.
    Session,
    /// Nobody waits for it.
    Acknowledgement,
    /// The running call of that number.
    Call(usize),
}

/// A request without its response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outstanding {
    pub message_id: u64,
    pub command: Command,
    pub owner: Owner,
    pub interims: u32,
    pub async_id: u64,
    /// Of the client's connections, as it was sent.
    pub channel_sequence: u16,
    credits_asked: u32,
    max_response: u32,
}

/// A call without its end.
#[derive(Debug)]
pub(super) struct Running {
    pub id: CallId,
    pub kind: Kind,
    pub parts_left: usize,
    /// Of a compound for which the server never grants credits enough: parts that are sent one by one.
    pub later: VecDeque<Message>,
    /// Of the first part that failed.
    pub failed: Option<u32>,
    /// What a compound opened and has not closed yet.
    pub file: Option<FileId>,
    /// It was sent before on a connection that was lost.
    pub repeated: bool,
    /// Of an open that the server is asked to keep.
    pub durable: Option<Box<Durable>>,
    /// Of the open of a directory under a lease: its path.
    pub directory: Option<Box<str>>,
    /// What is sent once more where the connection is lost.
    pub again: Option<Again>,
    /// The listing goes on.
    pub more: bool,
    pub reply: Reply,
    pub data: Range<usize>,
}

/// Numbers of requests by code, and of breaks.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// By the code of the command.
    pub requests: [u64; Command::CODES],
    /// Parts of compounds that were not carried out, because a part before them had failed. Servers answer these
    /// without counting them.
    pub refused: u64,
    pub breaks: u64,
}

impl Counts {
    /// Adds those of another connection.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.requests.iter_mut().zip(other.requests) {
            *sum += count;
        }
        self.refused += other.refused;
        self.breaks += other.breaks;
    }
}

/// The state of one connection.
#[derive(Debug)]
pub struct Conversation {
    pub(super) link: Link,
    pub(super) agreed: Option<NegotiatedSession>,
    pub(super) protection: Protection,
    base: String,
    next_message_id: u64,
    credits: u32,
    /// What outstanding requests have asked for.
    credits_asked: u32,
    pub(super) outstanding: Vec<Outstanding>,
    /// What they may bring, in bytes.
    expected_bytes: usize,
    pub(super) running: Vec<Option<Running>>,
    free: Vec<usize>,
    /// Of running listings, by the number of the call.
    pub(super) patterns: Vec<String>,
    pub(super) handles: Handles,
    /// The message in the making, or the one that was made last.
    message: Message,
    /// Messages that wait for credits, in their order.
    waiting: VecDeque<(Message, Owner)>,
    spare: Vec<Message>,
    pub(super) ended_at_once: VecDeque<(CallId, Result<Reply, Failure>)>,
    next_call: u64,
    pub(super) counts: Counts,
    pub(super) durability: Durability,
    /// Numbers the opens that have a lease key only to name the lease of their directory.
    next_own_lease: u128,
    /// The session has had other connections: what it has open did not go with the one that was lost.
    pub(super) outlives_connections: bool,
}

impl Conversation {
    /// Before the first word; `base` stands before all paths.
    #[must_use]
    pub fn new(base: &str) -> Self {
        Self {
            link: Link::default(),
            agreed: None,
            protection: Protection::default(),
            base: base.to_owned(),
            next_message_id: 0,
            credits: 1,
            credits_asked: 0,
            outstanding: Vec::new(),
            expected_bytes: 0,
            running: Vec::new(),
            free: Vec::new(),
            patterns: Vec::new(),
            handles: Handles::default(),
            message: Message::default(),
            waiting: VecDeque::new(),
            spare: Vec::new(),
            ended_at_once: VecDeque::new(),
            next_call: 0,
            counts: Counts::default(),
            durability: Durability::default(),
            next_own_lease: 0,
            outlives_connections: false,
        }
    }

    /// Begins anew, on another connection. What was counted stays.
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

    /// Calls can be made from here on.
    pub fn establish(&mut self, link: Link, agreed: NegotiatedSession) {
        self.link = link;
        self.agreed = Some(agreed);
    }

    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The message to send.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// What messages take of memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let waiting = self.waiting.iter().map(|(message, _)| message);
        let all = [&self.message].into_iter().chain(&self.spare).chain(waiting);
        all.map(Message::held_bytes).sum()
    }

    /// Gives the memory of messages back that have been sent; those that wait stay.
    pub fn release(&mut self) {
        self.message = Message::default();
        self.spare = Vec::new();
    }

    /// What outstanding requests may bring, in bytes.
    #[must_use]
    pub fn expected_bytes(&self) -> usize {
        self.expected_bytes
    }

    /// Credits that are there to be used.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.credits
    }

    /// Whether nothing is outstanding, and so nothing but a break can come.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Whether messages wait, and no response is due that could bring them credits.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        !self.waiting.is_empty() && self.is_quiet() && !self.may_depart()
    }

    /// Requests that were begun and are not answered yet.
    #[must_use]
    pub fn load(&self) -> usize {
        self.outstanding.len() + self.waiting.len()
    }

    /// Begins `call`. True where its message is to be sent now, followed by the data of a write; else it waits for
    /// credits, or has ended already.
    ///
    /// # Errors
    /// Where there is no session, or a message can't be protected.
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

    /// Writes a request of the session's own, to be sent now.
    ///
    /// # Errors
    /// Where there is no credit for it, or it can't be protected.
    pub fn begin_own(&mut self, always_sign: bool, write: impl FnOnce(&mut Message)) -> Result<(), Failure> {
        self.message.begin(self.link, self.protection.room());
        write(&mut self.message);
        if self.message.charge() > self.credits {
            return Err(Fault::NoCredit.into());
        }
        self.message.end();
        self.depart(Owner::Session, always_sign)
    }

    /// Signs the request of the session's own that is to be sent now with a key that is not this connection's.
    pub(super) fn sign_own(&mut self, signer: &Signer) {
        if let Some(part) = self.message.part_mut(0) {
            signer.sign(part);
        }
    }

    /// Writes the answer to a break. True where it is to be sent now; else it waits for credits, or what it concerns
    /// has been closed meanwhile, which is answer enough.
    ///
    /// # Errors
    /// As `begin`.
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
            // Before what waits: a server that stands still for this answer may not give credits for anything else.
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

    /// Makes the first message that waits the one to send, where credits allow it.
    ///
    /// # Errors
    /// Where it can't be protected.
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

    /// A compound that has to wait although no response is due that could bring credits goes part by part: a server may
    /// never grant more than one (Samba: smb2 max credits).
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

    /// Sends the next part of a compound that was split, with the file that its first part opened; true where there is
    /// one. Where a part has failed, the others are left out, as a server does in a compound.
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

    /// Gives every part of the message its number, and remembers what is owed for it.
    fn depart(&mut self, owner: Owner, always_sign: bool) -> Result<(), Failure> {
        // Before SMB 2.1 every request costs one credit, and the field is reserved.
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

    /// A response brought credits.
    pub(super) fn earn(&mut self, credits: u16) {
        self.credits = (self.credits + u32::from(credits)).min(MAX_CREDITS);
    }

    /// The request at `position` has its response.
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

    /// Takes a call that has ended out of the table.
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
