//! One connection's bytes: what comes is cut into messages, what is answered is sent as far as the client takes it.
//!
//! A client that does not receive is not listened to either, so what is kept for it is bounded.

use super::dialogue::Dialogue;
use super::fault::Fault;
use super::host::Host;
use super::message::{Hangup, FRAME_BYTES};
use super::misbehaviour::After;
use super::negotiate::SMB1_HEADER_BYTES;
use super::volume::{ConnectionId, Mail, Moment};
use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{getsockname, recv, send, RecvFlags, SendFlags};
use std::net::SocketAddr;
use std::sync::Arc;

/// A write of 1 MiB, what is around it, and a compound's other parts.
const MOST_MESSAGE_BYTES: usize = (1 << 20) + 65_536;
const FIRST_BYTES: usize = 65_536;
/// Kept behind a large message, so that what follows it comes with the same call.
const SLACK_BYTES: usize = 4096;
/// With so much waiting to be sent, nothing more is carried out.
const MOST_WAITING_BYTES: usize = 4 << 20;
/// Calls in a row after which the others have their turn.
const RECEIVES_IN_A_TURN: u32 = 16;

/// What a connection waits for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Requests,
    /// The client to take what there is.
    Room,
    /// Time to pass, until then.
    Time(u64),
}

/// The connection is to be closed.
pub(super) struct Ended;

impl From<Hangup> for Ended {
    fn from(_: Hangup) -> Self {
        Self
    }
}

pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) dialogue: Dialogue,
    /// What came: from `taken` on it was not carried out.
    inbox: Vec<u8>,
    taken: usize,
    /// What is answered: from `sent` on it was not sent.
    outbox: Vec<u8>,
    sent: usize,
    closes: bool,
    delay_ns: u64,
    /// What is in the outbox is not sent before this.
    held_until_ns: u64,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, id: ConnectionId, host: Arc<Host>) -> Self {
        let local = getsockname(&socket).ok();
        let local = local.and_then(|address| SocketAddr::try_from(address).ok());
        Self {
            socket,
            delay_ns: Fault::delay_ns(host.options.fault),
            dialogue: Dialogue::new(id, host, local),
            inbox: Vec::new(),
            taken: 0,
            outbox: Vec::new(),
            sent: 0,
            closes: false,
            held_until_ns: 0,
        }
    }

    /// There may be requests.
    pub(super) fn receive(&mut self) -> Result<Wants, Ended> {
        for _ in 0..RECEIVES_IN_A_TURN {
            let room_bytes = self.make_room();
            let flags = RecvFlags::empty();
            let received = match recv(&self.socket, spare_capacity(&mut self.inbox), flags) {
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(_) => return Err(Ended),
            };
            if received == 0 {
                return Err(Ended);
            }
            let wants = self.go_on(Host::moment())?;
            // A call that brought less than there was room for has emptied the socket.
            if wants != Wants::Requests || received < room_bytes {
                return Ok(wants);
            }
        }
        Ok(Wants::Requests)
    }

    /// Makes room for the message under way, or for some.
    fn make_room(&mut self) -> usize {
        if self.taken == self.inbox.len() {
            self.inbox.clear();
        } else if self.taken > 0 {
            self.inbox.copy_within(self.taken.., 0);
            self.inbox.truncate(self.inbox.len() - self.taken);
        }
        self.taken = 0;
        let wanted = self
            .message_bytes()
            .map_or(0, |bytes| FRAME_BYTES + bytes + SLACK_BYTES);
        let target = wanted.max(FIRST_BYTES).max(self.inbox.len() + SLACK_BYTES);
        if self.inbox.capacity() < target {
            self.inbox.reserve_exact(target - self.inbox.len());
        }
        self.inbox.capacity() - self.inbox.len()
    }

    /// The length that the next frame declares, within bounds.
    fn message_bytes(&self) -> Option<usize> {
        let frame = self.inbox[self.taken..].first_chunk::<FRAME_BYTES>()?;
        Some((u32::from_be_bytes(*frame) as usize).min(MOST_MESSAGE_BYTES))
    }

    /// Carries out what is there and sends what is answered, as far as it goes.
    pub(super) fn go_on(&mut self, moment: Moment) -> Result<Wants, Ended> {
        loop {
            let more = self.carry_out(moment)?;
            match self.flush(moment)? {
                Wants::Requests if more => {}
                wants => return Ok(wants),
            }
        }
    }

    /// Carries out whole messages; true: there are more, but too much waits to be sent.
    fn carry_out(&mut self, moment: Moment) -> Result<bool, Ended> {
        while !self.closes {
            let Some(frame) = self.inbox[self.taken..].first_chunk::<FRAME_BYTES>() else {
                return Ok(false);
            };
            // The type in the first byte must be 0: as part of the number it makes it too large.
            let bytes = u32::from_be_bytes(*frame) as usize;
            if !(SMB1_HEADER_BYTES..=MOST_MESSAGE_BYTES).contains(&bytes) {
                return Err(Ended);
            }
            let start = self.taken + FRAME_BYTES;
            if self.inbox.len() < start + bytes {
                return Ok(false);
            }
            if self.outbox.len() - self.sent >= MOST_WAITING_BYTES {
                return Ok(true);
            }
            let was_empty = self.outbox.len() == self.sent;
            let message = &mut self.inbox[start..start + bytes];
            let after = self.dialogue.receive(message, moment, &mut self.outbox)?;
            self.taken = start + bytes;
            self.closes |= after == After::Close;
            if self.delay_ns > 0 && was_empty {
                self.held_until_ns = moment.ns + self.delay_ns;
            }
        }
        Ok(false)
    }

    fn flush(&mut self, moment: Moment) -> Result<Wants, Ended> {
        if self.outbox.len() > self.sent && self.held_until_ns > moment.ns {
            return Ok(Wants::Time(self.held_until_ns));
        }
        while self.sent < self.outbox.len() {
            match send(&self.socket, &self.outbox[self.sent..], SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::AGAIN) => return Ok(Wants::Room),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Ended),
            }
        }
        self.outbox.clear();
        self.sent = 0;
        if self.closes {
            return Err(Ended);
        }
        Ok(Wants::Requests)
    }

    /// Takes what another connection sent.
    pub(super) fn take_mail(&mut self, mail: Mail, moment: Moment) -> Result<Wants, Ended> {
        self.dialogue.take_mail(mail, moment, &mut self.outbox)?;
        self.flush(moment)
    }

    /// Does what is due by now.
    pub(super) fn keep_time(&mut self, moment: Moment) -> Result<Wants, Ended> {
        self.dialogue.expire(moment, &mut self.outbox)?;
        self.go_on(moment)
    }

    /// When `keep_time` is due.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let held = (self.outbox.len() > self.sent && self.held_until_ns > 0).then_some(self.held_until_ns);
        match (self.dialogue.deadline_ns(), held) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}
