//! Channels: several connections of one session (MS-SMB2 3.2.4.1.7, 3.2.4.2.3, 3.2.7.1). The first connection
//! establishes the session. Each further one is bound to the session by its own log-on, and has its own signing key and
//! credits.
//!
//! Reads, writes, flushes and queries of an open file use the channel with the least load. Opens, closes,
//! locks and calls by name use the first one. Breaks may arrive on any channel.
//!
//! When a channel is lost, its unanswered calls are sent again over another one if they may be repeated. They carry
//! the next channel sequence, so that the server refuses late requests of the lost channel. A break may have been
//! lost, too, so the session gives up all caching. The loss of the last channel is the loss of the connection.
//!
//! Lost channels are not replaced, and unanswered opens fail: CREATE is not replayed.

use super::conversation::{Conversation, Counts, Incoming};
use super::durable::Again;
use super::options::NegotiatedSession;
use super::protection::Protection;
use super::recovery::costs_connection;
use super::setup::Negotiated;
use super::{EndedCall, Session};
use crate::crypto::{Keys, Opener, Sealer, Signer};
use crate::wire::{capabilities, Cipher, Dialect, Link};
use crate::Refusal;
use dyno_files::{Break, Caching, Call, CallId, Reply, Traffic};
use dyno_measure::{monotonic_ns, Failure, Fault};
use std::future::{poll_fn, Future};
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll};

/// State of the session that a further connection needs.
#[derive(Debug)]
pub(super) struct Binding {
    /// Signer of the first connection, which proves the identity of the client.
    pub(super) signer: Signer,
    sign_all: bool,
    cipher: Option<(Cipher, Keys)>,
    encrypts: bool,
    /// Number of the connection in its session.
    number: u16,
}

impl Binding {
    /// Sets up signing and encryption of the new channel. `signer` has the channel's own signing key.
    pub(super) fn protect(self, signer: Signer, protection: &mut Protection) {
        protection.sign(signer, self.sign_all);
        if let Some((cipher, keys)) = self.cipher {
            let sealer = Sealer::of_channel(cipher, &keys.client_to_server, self.number);
            protection.set_cipher(sealer, Opener::new(cipher, &keys.server_to_client));
            if self.encrypts {
                let _ = protection.encrypt();
            }
        }
    }
}

impl Session {
    /// Fails if the options request several connections per session and the server supports only one.
    pub(super) fn check_channels(&self, negotiated: &Negotiated, guest: bool) -> Result<(), Failure> {
        let response = &negotiated.response;
        let offered = response.dialect >= Dialect::Smb300
            && response.capabilities & capabilities::MULTI_CHANNEL != 0
            && !guest;
        if self.options.channels > 1 && !offered {
            return Err(Refusal::NoChannels.failure(0));
        }
        Ok(())
    }

    /// Opens the further connections of a new session.
    pub(super) async fn open_channels(
        &mut self,
        negotiated: &Negotiated,
        link: Link,
        agreed: NegotiatedSession,
    ) -> Result<(), Failure> {
        for number in 1..self.options.channels {
            let Some(keys) = self.keys.clone() else {
                return Err(Refusal::NoChannels.failure(0));
            };
            let binding = Binding {
                signer: Signer::new(negotiated.signing_algorithm, &keys.signing),
                sign_all: negotiated.sign_all,
                cipher: negotiated.cipher.map(|cipher| (cipher, keys)),
                encrypts: self.conversation.protection.encrypts(),
                number,
            };
            let mut other = Self::new(
                self.executor.clone(),
                self.dialer.clone(),
                self.options.clone(),
                self.client,
                &self.share,
            );
            let durability = &self.conversation.durability;
            other.conversation.durability.channel_sequence = durability.channel_sequence;
            let bound = other.bind(binding, link, agreed).await;
            // The bytes sent on the new connection count even if the binding failed.
            self.others.push(other);
            bound?;
        }
        Ok(())
    }

    /// Connects, and binds the connection to the session.
    async fn bind(&mut self, binding: Binding, link: Link, agreed: NegotiatedSession) -> Result<(), Failure> {
        let negotiated = self.negotiate().await?;
        self.binding = Some(binding);
        self.conversation.link.session_id = link.session_id;
        let (session_id, guest) = self.log_on(&negotiated).await?;
        if guest || session_id != link.session_id {
            return Err(Refusal::Binding.failure(0));
        }
        self.accept_long_messages(&agreed);
        self.conversation.establish(link, agreed);
        Ok(())
    }

    /// Returns the index of the further connection that a call uses, or None for the first connection.
    pub(super) fn channel_for(&mut self, call: &Call<'_>) -> Option<usize> {
        let spreads = matches!(
            call,
            Call::Read { .. } | Call::Write { .. } | Call::Flush { .. } | Call::QueryHandle { .. }
        );
        if self.others.is_empty() || !spreads {
            return None;
        }
        self.turn = self.turn.wrapping_add(1);
        let count = self.others.len() + 1;
        let load = |place: usize| match place.checked_sub(1) {
            None => self.conversation.load(),
            Some(other) => self.others[other].conversation.load(),
        };
        let places = (0..count).map(|step| (self.turn + step) % count);
        places.min_by_key(|place| load(*place))?.checked_sub(1)
    }

    /// Starts a call on the further connection at index `place`.
    pub(super) async fn begin_on(&mut self, place: usize, call: &Call<'_>) -> Result<CallId, Failure> {
        let other = &mut self.others[place];
        let (id, now) = other.conversation.begin_for(&mut self.conversation, call)?;
        if now {
            if let Err(failure) = other.send_call(call).await {
                self.give_up(place + 1, failure)?;
            }
        }
        Ok(id)
    }

    /// Returns the next event on any connection.
    pub(super) async fn next_of_all(&mut self) -> Result<Incoming, Failure> {
        loop {
            if let Some(told) = self.told_by_any().await? {
                return Ok(told);
            }
            let (place, arrived) = self.arrival().await;
            self.take_from(place, arrived)?;
        }
    }

    /// Returns the next break on any connection, or None at `due_ns`.
    pub(super) async fn next_break_of_all(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        self.idle_ns = self.idle_ns.saturating_add(due_ns.saturating_sub(monotonic_ns()));
        self.release_if_idle();
        let executor = self.executor.clone();
        let mut alarm = pin!(executor.sleep_until(due_ns));
        loop {
            match self.told_by_any().await? {
                Some(Incoming::Break(broken)) => return Ok(Some(broken)),
                Some(Incoming::Ended(id, result, data)) => self.keep_ended(id, result, data),
                Some(Incoming::Outrun(id, again)) => self.send_outrun(id, again),
                Some(Incoming::Answer(..)) => {}
                None if monotonic_ns() >= due_ns => {
                    if !self.look_at_all().await? {
                        self.release_if_idle();
                        return Ok(None);
                    }
                }
                None => {
                    let arrived = {
                        let mut arrival = pin!(self.arrival());
                        poll_fn(|context| match alarm.as_mut().poll(context) {
                            Poll::Ready(()) => Poll::Ready(None),
                            Poll::Pending => arrival.as_mut().poll(context).map(Some),
                        })
                        .await
                    };
                    if let Some((place, arrived)) = arrived {
                        self.take_from(place, arrived)?;
                    }
                }
            }
        }
    }

    /// Returns a received event; the connections take turns. None if more data must arrive first.
    async fn told_by_any(&mut self) -> Result<Option<Incoming>, Failure> {
        let mut step = 0;
        // The number of connections may shrink during the loop.
        while step <= self.others.len() {
            if let Some(broken) = self.breaks_to_tell.pop_front() {
                return Ok(Some(Incoming::Break(broken)));
            }
            let place = (self.told_by + 1 + step) % (self.others.len() + 1);
            let told = match place {
                0 => self.told_here(None).await,
                place => {
                    let (first, others) = (&mut self.conversation, &mut self.others);
                    others[place - 1].told_here(Some(first)).await
                }
            };
            match told {
                Ok(Some(told)) => {
                    self.told_by = place;
                    return Ok(Some(told));
                }
                Ok(None) => step += 1,
                Err(failure) => {
                    self.give_up(place, failure)?;
                    step = 0;
                }
            }
        }
        Ok(None)
    }

    /// Returns a received event of this connection. `first`: the conversation of the session's first connection, or
    /// None if this is the first connection.
    async fn told_here(&mut self, mut first: Option<&mut Conversation>) -> Result<Option<Incoming>, Failure> {
        loop {
            self.send_waiting().await?;
            let told = match first.as_mut() {
                Some(first) => self.conversation.receive_for(first, &mut self.inbox)?,
                None => self.conversation.receive(&mut self.inbox)?,
            };
            if told.is_some() {
                return Ok(told);
            }
            if !self.conversation.next_departure()? {
                break;
            }
            self.send(&[]).await?;
        }
        if self.conversation.is_stuck() {
            return Err(Fault::NoCredit.into());
        }
        Ok(None)
    }

    /// Waits until a connection has data, but does not receive the data. Returns the number of the
    /// connection, and an error if waiting failed.
    async fn arrival(&mut self) -> (usize, Result<(), Failure>) {
        let more = (0..=self.others.len()).find(|place| self.channel(*place).more_is_there);
        let Some(place) = more else {
            return poll_fn(|context| self.poll_arrival(context)).await;
        };
        self.receives += 1;
        if self.receives % super::RECEIVES_IN_A_TURN == 0 {
            self.executor.give_way().await;
        }
        let in_time = if self.executor.deadline_passed() {
            Err(Fault::ResponseTimeout.into())
        } else {
            Ok(())
        };
        (place, in_time)
    }

    fn poll_arrival(&self, context: &mut Context<'_>) -> Poll<(usize, Result<(), Failure>)> {
        for place in 0..=self.others.len() {
            let Some(socket) = &self.channel(place).socket else {
                return Poll::Ready((place, Err(Fault::SessionLost.into())));
            };
            if let Poll::Ready(arrived) = socket.poll_readable(context, Fault::ResponseTimeout) {
                return Poll::Ready((place, arrived));
            }
        }
        Poll::Pending
    }

    /// Receives the data of a connection, or gives the connection up.
    fn take_from(&mut self, place: usize, arrived: Result<(), Failure>) -> Result<(), Failure> {
        match arrived.and_then(|()| self.channel_mut(place).take()) {
            Ok(_) => Ok(()),
            Err(failure) => self.give_up(place, failure),
        }
    }

    /// Polls all connections, each at most once per `LOOK_NS`; returns whether there was data.
    async fn look_at_all(&mut self) -> Result<bool, Failure> {
        let mut found = false;
        for place in (0..=self.others.len()).rev() {
            match self.channel_mut(place).look(monotonic_ns()).await {
                Ok(more) => found |= more,
                Err(failure) => {
                    self.give_up(place, failure)?;
                    found = true;
                }
            }
        }
        Ok(found)
    }

    /// Returns a connection by its number: 0 is the first connection, and the further ones count from 1.
    pub(super) fn channel(&self, place: usize) -> &Self {
        match place {
            0 => self,
            place => &self.others[place - 1],
        }
    }

    fn channel_mut(&mut self, place: usize) -> &mut Self {
        match place {
            0 => self,
            place => &mut self.others[place - 1],
        }
    }

    /// Continues without the failed connection number `place`, if another one is left; otherwise returns the
    /// failure. If the first connection (0) failed, another one takes its place.
    pub(super) fn give_up(&mut self, place: usize, failure: Failure) -> Result<(), Failure> {
        if !costs_connection(&failure) || self.others.is_empty() {
            return Err(failure);
        }
        let mut lost = self.others.remove(place.saturating_sub(1));
        self.told_by = 0;
        let mut left = if place == 0 {
            std::mem::swap(&mut self.socket, &mut lost.socket);
            std::mem::swap(&mut self.inbox, &mut lost.inbox);
            std::mem::swap(&mut self.conversation, &mut lost.conversation);
            std::mem::swap(&mut self.more_is_there, &mut lost.more_is_there);
            self.conversation.succeed(&mut lost.conversation)
        } else {
            self.conversation.counts.add(lost.conversation.counts());
            let sequence = &mut self.conversation.durability.channel_sequence;
            *sequence = sequence.wrapping_add(1);
            lost.conversation.leave_behind()
        };
        add_bytes(&mut self.traffic, &lost.traffic);
        self.conversation.durability.counts.channels_lost += 1;
        self.conversation.outlives_connections = true;
        for other in &mut self.others {
            other.conversation.durability.channel_sequence = self.conversation.durability.channel_sequence;
        }
        for grant in self.conversation.handles.grants() {
            self.breaks_to_tell.push_back(Break {
                grant,
                to: Caching::NONE,
                acknowledge: false,
            });
        }
        self.conversation.send_again(&mut left);
        Ok(())
    }

    /// Stores the result of a call that ended while the caller waited only for breaks.
    pub(super) fn keep_ended(&mut self, id: CallId, result: Result<Reply, Failure>, data: Range<usize>) {
        let data = self.channel(self.told_by).inbox.bytes()[data].to_vec();
        self.kept.push_back(EndedCall { id, result, data });
    }

    /// Returns the counts of all connections.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.conversation.counts().clone();
        for other in &self.others {
            counts.add(other.conversation.counts());
        }
        counts
    }

    /// Repeats a request that the server refused because of its channel sequence.
    pub(super) fn send_outrun(&mut self, id: CallId, again: Again) {
        if let Err(failure) = self.conversation.send_once_more(id, again) {
            self.conversation.ended_at_once.push_back((id, Err(failure)));
        }
    }

    /// Closes the further connections and keeps their counts.
    pub(super) fn drop_channels(&mut self) {
        for other in self.others.drain(..) {
            self.conversation.counts.add(other.conversation.counts());
            add_bytes(&mut self.traffic, &other.traffic);
        }
        self.told_by = 0;
    }
}

/// Adds the traffic of one connection to the total of its session.
pub(super) fn add_bytes(sum: &mut Traffic, one: &Traffic) {
    sum.bytes_out += one.bytes_out;
    sum.bytes_in += one.bytes_in;
    sum.connections += one.connections;
}
