//! Known clients (RFC 8881, 18.35 and 18.36), their sessions, and the replies cached in their slots (2.10.6).
//!
//! A client that is silent for longer than its lease is forgotten with all its opens when another client
//! sends a request. A restart forgets all clients, but gives them a grace period in which they may return and
//! reclaim (8.4.2).

pub(in crate::nfs) use super::back::SessionId;

use super::back::Back;
use super::opens::Opens;
use super::status::{
    Outcome, BAD_HIGH_SLOT, CLIENT_BUSY, COMPLETE_ALREADY, FALSE_RETRY, NOT_SAME, RETRY_UNCACHED,
};
use crate::nfs::options::LEASE_S;
use dyno_measure::NS_PER_S;
use dyno_nfs::status::{Status, Status4};
use dyno_nfs::wire::Channel;
use std::collections::{HashMap, HashSet};

const LEASE_NS: u64 = LEASE_S as u64 * NS_PER_S;
const MOST_CLIENTS: usize = 16_384;
const MOST_SESSIONS: usize = 64; // Per client.
pub(in crate::nfs) const MOST_SLOTS: u32 = 64;

/// A slot: the sequence number and state of its last request.
#[derive(Debug, Default)]
struct Slot {
    number: u32,
    /// Digest of the last request, to detect a different one with the same number.
    digest: u64,
    under_way: bool,
    reply: Option<Box<[u8]>>,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: u64,
    channel: Channel,
    slots: Vec<Slot>,
    /// Back channel. None: the client accepts no calls.
    pub(super) back: Option<Back>,
}

#[derive(Debug, Default)]
pub(super) struct Client {
    owner: Box<[u8]>,
    verifier: u64,
    uid: u32,
    /// Whether the client has created a session.
    confirmed: bool,
    /// Sequence number of the client's next CREATE_SESSION, and the reply to the last one.
    next: u32,
    last_created: Option<Box<[u8]>>,
    sessions: usize,
    complete: bool,
    heard_ns: u64,
    /// The session whose back channel carries calls to the client.
    pub(super) called_by: Option<SessionId>,
}

/// The grace period after a restart, in which clients reclaim.
#[derive(Debug)]
struct Grace {
    ends_ns: u64,
    waited_for: HashSet<Box<[u8]>>,
    known: HashSet<Box<[u8]>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nfs) struct Exchanged {
    pub(in crate::nfs) client: u64,
    pub(in crate::nfs) next: u32,
    pub(in crate::nfs) confirmed: bool,
}

/// Decision about a CREATE_SESSION.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::nfs) enum Creation {
    /// The session must be created.
    New,
    /// The same request has already created the session, with this reply.
    Repeated(Box<[u8]>),
}

/// Decision about a SEQUENCE.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::nfs) enum Sequenced {
    /// The request must be executed, for this client.
    New(u64, Channel),
    /// The request was already executed, with this reply.
    Repeated(Box<[u8]>),
}

/// All clients and their opens.
#[derive(Debug, Default)]
pub(in crate::nfs) struct Clients {
    /// A number that differs between starts of a server, so that IDs of clients and sessions don't match
    /// those of another start.
    start: u32,
    last_number: u32,
    pub(super) clients: HashMap<u64, Client>,
    pub(super) sessions: HashMap<SessionId, Session>,
    /// XID of the last callback to any client.
    pub(super) last_call: u32,
    grace: Option<Grace>,
    pub(in crate::nfs) opens: Opens,
}

impl Clients {
    pub(in crate::nfs) fn new(start: u32) -> Self {
        Self {
            start,
            opens: Opens::new(start),
            ..Self::default()
        }
    }

    /// Forgets all clients, as in a restart. Clients with a confirmed session may reclaim.
    pub(in crate::nfs) fn restart(&mut self, now_ns: u64) {
        let confirmed = self.clients.values().filter(|client| client.confirmed);
        let known: HashSet<Box<[u8]>> = confirmed.map(|client| client.owner.clone()).collect();
        let last_number = self.last_number;
        *self = Self::new(self.start.wrapping_add(1));
        self.last_number = last_number;
        if !known.is_empty() {
            self.grace = Some(Grace {
                ends_ns: now_ns.saturating_add(LEASE_NS),
                waited_for: known.clone(),
                known,
            });
        }
    }

    fn number(&mut self) -> u64 {
        self.last_number = self.last_number.wrapping_add(1);
        u64::from(self.start) << 32 | u64::from(self.last_number)
    }

    pub(in crate::nfs) fn exchange(
        &mut self,
        (owner, verifier, uid): (&[u8], u64, u32),
        update: bool,
        now_ns: u64,
    ) -> Outcome<Exchanged> {
        self.forget_silent(now_ns);
        let of_owner = |confirmed: bool| {
            let found = self
                .clients
                .iter()
                .find(|(_, client)| client.confirmed == confirmed && *client.owner == *owner);
            found.map(|(number, _)| *number)
        };
        let (confirmed, unconfirmed) = (of_owner(true), of_owner(false));
        if let Some(number) = confirmed {
            let client = self.clients.get_mut(&number).ok_or(Status4::StaleClientId)?;
            if client.uid != uid {
                return Err(if update {
                    Status::Perm.into()
                } else {
                    Status4::ClientIdInUse.into()
                });
            }
            if client.verifier == verifier {
                client.heard_ns = now_ns;
                return Ok(Exchanged {
                    client: number,
                    next: client.next,
                    confirmed: true,
                });
            }
            if update {
                return Err(NOT_SAME);
            }
        } else if update {
            return Err(Status::NoEnt.into());
        }
        if let Some(number) = unconfirmed {
            self.forget(number);
        }
        if self.clients.len() >= MOST_CLIENTS {
            return Err(Status::JukeBox.into());
        }
        let number = self.number();
        self.clients.insert(
            number,
            Client {
                owner: owner.into(),
                verifier,
                uid,
                next: 1,
                heard_ns: now_ns,
                ..Client::default()
            },
        );
        Ok(Exchanged {
            client: number,
            next: 1,
            confirmed: false,
        })
    }

    /// Checks a CREATE_SESSION before anything is created.
    pub(in crate::nfs) fn begin_session(&self, client: u64, number: u32, uid: u32) -> Outcome<Creation> {
        let client = self.clients.get(&client).ok_or(Status4::StaleClientId)?;
        if client.uid != uid {
            return Err(Status4::ClientIdInUse.into());
        }
        match &client.last_created {
            Some(reply) if number == client.next.wrapping_sub(1) => Ok(Creation::Repeated(reply.clone())),
            _ if number != client.next => Err(Status4::SequenceMisordered.into()),
            _ if client.sessions >= MOST_SESSIONS => Err(Status::JukeBox.into()),
            _ => Ok(Creation::New),
        }
    }

    /// Creates a session. The first one confirms a client, which then replaces an earlier one with the same
    /// name.
    pub(in crate::nfs) fn make_session(
        &mut self,
        number: u64,
        channel: Channel,
        back: Option<Back>,
        now_ns: u64,
    ) -> Outcome<SessionId> {
        let serial = self.number();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        id[8..].copy_from_slice(&serial.to_be_bytes());
        let client = self.clients.get_mut(&number).ok_or(Status4::StaleClientId)?;
        let is_new = !client.confirmed;
        client.confirmed = true;
        client.sessions += 1;
        client.next = client.next.wrapping_add(1);
        client.heard_ns = now_ns;
        let owner = client.owner.clone();
        let slots = (0..channel.slots).map(|_| Slot::default()).collect();
        self.sessions.insert(
            id,
            Session {
                client: number,
                channel,
                slots,
                back,
            },
        );
        if is_new {
            let of_before = self
                .clients
                .iter()
                .find(|(other, client)| **other != number && client.owner == owner);
            if let Some(before) = of_before.map(|(other, _)| *other) {
                self.forget(before);
            }
        }
        Ok(id)
    }

    /// Caches the reply to the last CREATE_SESSION.
    pub(in crate::nfs) fn keep_created(&mut self, client: u64, reply: &[u8]) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.last_created = Some(reply.into());
        }
    }

    pub(in crate::nfs) fn client_of(&self, session: &SessionId) -> Outcome<u64> {
        let session = self.sessions.get(session).ok_or(Status4::BadSession)?;
        Ok(session.client)
    }

    /// Returns the granted properties of a session.
    pub(in crate::nfs) fn channel_of(&self, session: &SessionId) -> Outcome<Channel> {
        let session = self.sessions.get(session).ok_or(Status4::BadSession)?;
        Ok(session.channel)
    }

    /// Handles SEQUENCE. `slot`, `highest` and `number`: as sent by the client. `digest`: digest of the whole
    /// request.
    pub(in crate::nfs) fn sequence(
        &mut self,
        id: &SessionId,
        (number, slot, highest): (u32, u32, u32),
        digest: u64,
        now_ns: u64,
    ) -> Outcome<Sequenced> {
        let session = self.sessions.get_mut(id).ok_or(Status4::BadSession)?;
        let (client, channel) = (session.client, session.channel);
        if highest >= channel.slots {
            return Err(BAD_HIGH_SLOT);
        }
        let slot = session.slots.get_mut(slot as usize).ok_or(Status4::BadSlot)?;
        if number == slot.number && slot.digest == digest && slot.under_way {
            return Err(Status::JukeBox.into());
        }
        if number == slot.number && number != 0 {
            return match &slot.reply {
                _ if slot.digest != digest => Err(FALSE_RETRY),
                Some(reply) => Ok(Sequenced::Repeated(reply.clone())),
                None => Err(RETRY_UNCACHED),
            };
        }
        if number != slot.number.wrapping_add(1) || slot.under_way {
            return Err(Status4::SequenceMisordered.into());
        }
        *slot = Slot {
            number,
            digest,
            under_way: true,
            reply: None,
        };
        if let Some(client) = self.clients.get_mut(&client) {
            client.heard_ns = now_ns;
        }
        Ok(Sequenced::New(client, channel))
    }

    /// Completes the request of a slot. `reply`: the reply to cache, if any.
    pub(in crate::nfs) fn done(&mut self, id: &SessionId, slot: u32, reply: Option<&[u8]>) {
        let session = self.sessions.get_mut(id);
        if let Some(slot) = session.and_then(|session| session.slots.get_mut(slot as usize)) {
            slot.under_way = false;
            slot.reply = reply.map(Into::into);
        }
    }

    /// Undoes the request of a slot, which will be executed later with the same sequence number.
    pub(in crate::nfs) fn undo(&mut self, id: &SessionId, slot: u32) {
        let session = self.sessions.get_mut(id);
        if let Some(slot) = session.and_then(|session| session.slots.get_mut(slot as usize)) {
            slot.under_way = false;
            slot.number = slot.number.wrapping_sub(1);
        }
    }

    pub(in crate::nfs) fn destroy_session(&mut self, id: &SessionId) -> Outcome {
        let session = self.sessions.remove(id).ok_or(Status4::BadSession)?;
        if let Some(client) = self.clients.get_mut(&session.client) {
            client.sessions = client.sessions.saturating_sub(1);
        }
        Ok(())
    }

    pub(in crate::nfs) fn destroy_client(&mut self, number: u64) -> Outcome {
        let client = self.clients.get(&number).ok_or(Status4::StaleClientId)?;
        if client.sessions > 0 || self.opens.has_any(number) {
            return Err(CLIENT_BUSY);
        }
        self.forget(number);
        Ok(())
    }

    /// Handles RECLAIM_COMPLETE. The grace period ends with the last expected client.
    pub(in crate::nfs) fn complete(&mut self, number: u64) -> Outcome {
        let client = self.clients.get_mut(&number).ok_or(Status4::StaleClientId)?;
        if std::mem::replace(&mut client.complete, true) {
            return Err(COMPLETE_ALREADY);
        }
        if let Some(grace) = &mut self.grace {
            grace.waited_for.remove(&client.owner);
        }
        Ok(())
    }

    /// Checks whether a client may open or lock now: during the grace period only by reclaiming, and reclaiming only if
    /// the client had state before.
    pub(in crate::nfs) fn may_claim(&mut self, number: u64, reclaims: bool, now_ns: u64) -> Outcome {
        let over = |grace: &Grace| grace.waited_for.is_empty() || now_ns >= grace.ends_ns;
        if self.grace.as_ref().is_some_and(over) {
            self.grace = None;
        }
        let client = self.clients.get(&number).ok_or(Status4::StaleClientId)?;
        match &self.grace {
            Some(grace) if reclaims && !client.complete && grace.known.contains(&client.owner) => Ok(()),
            _ if reclaims => Err(Status4::NoGrace.into()),
            Some(_) => Err(Status4::Grace.into()),
            None => Ok(()),
        }
    }

    /// Forgets clients that were silent for longer than the lease.
    pub(in crate::nfs) fn forget_silent(&mut self, now_ns: u64) {
        let is_silent = |client: &Client| now_ns.saturating_sub(client.heard_ns) > LEASE_NS;
        let silent: Vec<u64> = self
            .clients
            .iter()
            .filter(|(_, client)| is_silent(client))
            .map(|(number, _)| *number)
            .collect();
        for number in silent {
            self.forget(number);
        }
    }

    fn forget(&mut self, number: u64) {
        self.clients.remove(&number);
        self.sessions.retain(|_, session| session.client != number);
        self.opens.forget(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: Channel = Channel {
        request_bytes: 1 << 20,
        reply_bytes: 1 << 20,
        kept_reply_bytes: 4096,
        operations: 16,
        slots: 4,
    };

    fn with_session() -> (Clients, u64, SessionId) {
        let mut clients = Clients::new(7);
        let known = clients.exchange((b"me", 1, 0), false, 0).expect("new");
        assert_eq!(clients.begin_session(known.client, 1, 0), Ok(Creation::New));
        let session = clients
            .make_session(known.client, CHANNEL, None, 0)
            .expect("made");
        (clients, known.client, session)
    }

    #[test]
    fn a_slot_executes_a_request_once_and_repeats_its_reply() {
        let (mut clients, me, session) = with_session();
        let new = Ok(Sequenced::New(me, CHANNEL));
        assert_eq!(clients.sequence(&session, (1, 0, 0), 5, 0), new);
        assert_eq!(
            clients.sequence(&session, (1, 0, 0), 5, 0),
            Err(Status::JukeBox.into())
        );
        clients.done(&session, 0, Some(b"reply"));
        let again = Sequenced::Repeated(b"reply"[..].into());
        assert_eq!(clients.sequence(&session, (1, 0, 0), 5, 0), Ok(again));
        assert_eq!(clients.sequence(&session, (1, 0, 0), 6, 0), Err(FALSE_RETRY));
        let misordered = Err(Status4::SequenceMisordered.into());
        assert_eq!(clients.sequence(&session, (3, 0, 0), 5, 0), misordered);
        assert_eq!(clients.sequence(&session, (2, 0, 0), 5, 0), new);
        clients.done(&session, 0, None);
        assert_eq!(clients.sequence(&session, (2, 0, 0), 5, 0), Err(RETRY_UNCACHED));
        assert_eq!(
            clients.sequence(&session, (1, 4, 0), 5, 0),
            Err(Status4::BadSlot.into())
        );
        assert_eq!(clients.sequence(&session, (1, 1, 4), 5, 0), Err(BAD_HIGH_SLOT));
        assert_eq!(
            clients.sequence(&[0; 16], (1, 0, 0), 5, 0),
            Err(Status4::BadSession.into())
        );
    }

    #[test]
    fn a_restarted_client_replaces_itself_once_it_has_a_session() {
        let (mut clients, me, session) = with_session();
        let same = clients.exchange((b"me", 1, 0), false, 0).expect("known");
        assert_eq!((same.client, same.confirmed, same.next), (me, true, 2));
        assert_eq!(
            clients.exchange((b"me", 1, 9), false, 0),
            Err(Status4::ClientIdInUse.into())
        );
        let anew = clients.exchange((b"me", 2, 0), false, 0).expect("another run");
        assert!(anew.client != me && !anew.confirmed);
        assert!(clients.client_of(&session).is_ok(), "not confirmed yet");
        clients.make_session(anew.client, CHANNEL, None, 0).expect("made");
        assert_eq!(clients.client_of(&session), Err(Status4::BadSession.into()));
        clients.forget_silent(LEASE_NS + 1);
        assert_eq!(
            clients.begin_session(anew.client, 2, 0),
            Err(Status4::StaleClientId.into())
        );
    }

    #[test]
    fn after_a_restart_clients_may_reclaim_until_all_have_done_so_or_time_is_up() {
        let (mut clients, me, session) = with_session();
        clients.restart(0);
        assert_eq!(clients.client_of(&session), Err(Status4::BadSession.into()));
        assert_eq!(
            clients.begin_session(me, 2, 0),
            Err(Status4::StaleClientId.into())
        );
        let mut number = |owner: &[u8]| {
            let known = clients.exchange((owner, 1, 0), false, 0).expect("new");
            clients
                .make_session(known.client, CHANNEL, None, 0)
                .expect("made");
            known.client
        };
        let (me, other) = (number(b"me"), number(b"other"));
        assert_eq!(clients.may_claim(other, false, 0), Err(Status4::Grace.into()));
        assert_eq!(clients.may_claim(other, true, 0), Err(Status4::NoGrace.into()));
        assert_eq!(clients.may_claim(me, true, 0), Ok(()));
        assert_eq!(clients.complete(me), Ok(()));
        assert_eq!(clients.complete(me), Err(COMPLETE_ALREADY));
        assert_eq!(clients.may_claim(other, false, 0), Ok(()));
        clients.restart(0);
        let known = clients.exchange((b"new", 1, 0), false, LEASE_NS).expect("new");
        assert_eq!(
            clients.may_claim(known.client, false, LEASE_NS),
            Ok(()),
            "nobody came back"
        );
    }
}
