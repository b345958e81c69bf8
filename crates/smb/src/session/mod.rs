//! One client's session with an SMB server: a connection, a log-on and one share, used as a [`FileClient`].
//!
//! `options.rs` has the options and the negotiated properties. `setup.rs` starts and ends the session, `log_on.rs`
//! authenticates the user, and `validate.rs` verifies the negotiation. `calls.rs` writes file calls as requests (with a
//! table of them), and `answers.rs` parses responses. `conversation.rs` tracks credits and outstanding requests.
//! `channels.rs` adds further connections. `protection.rs` signs and encrypts. `inbox.rs` splits the stream into
//! messages. This file transfers bytes between these modules and the socket.
//!
//! A lost session loses all handles, running calls and caches, unless its handles are durable (`durable.rs`,
//! `recovery.rs`). The caller learns of the loss from the method that fails, and decides whether and when to
//! `connect` again. An idle session frees its buffers.
//!
//! Oplocks and leases: an `Ask::Lease` becomes a lease if the server supports leases with the dialect (SMB
//! 2.1 on), otherwise the nearest oplock, whose breaks arrive as `Grant::Handle`. Breaks of files that are
//! closed, or being closed, are not reported.

mod answers;
mod calls;
mod channels;
mod conversation;
mod durable;
mod handles;
mod inbox;
mod log_on;
mod options;
mod protection;
mod recovery;
mod setup;
mod validate;

pub use conversation::{Conversation, Counts, Incoming};
pub use inbox::Inbox;
pub use options::{Authentication, Encryption, NegotiatedSession, Options, Signing};

use crate::crypto::Keys;
use crate::wire::{Command, Link};
use channels::{add_bytes, Binding};
use dyno_files::{
    Break, Caching, Call, CallId, Event, FileClient, Grant, KeptHandles, Piggyback, Reply, Traffic,
};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::{Dialer, Executor, Socket};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::task::{ready, Context, Poll};

/// Number of consecutive receive calls after which a task that always finds more data yields to other tasks.
const RECEIVES_IN_A_TURN: u32 = 16;
/// Allowance for breaks and responses without data that are received while sending.
const BACKLOG_SLACK_BYTES: usize = 65_536;
/// Upper bound on the size of a message before the session is established.
const MAX_SETUP_MESSAGE_BYTES: usize = 65_536 + 1024;
/// Upper bound on the data in the responses to a compound: two listings.
const MAX_COMPOUND_BYTES: usize = 2 * calls::LISTING_BYTES as usize;
/// Upper bound on the size of the headers, fixed parts and contexts of a message.
const AROUND_DATA_BYTES: usize = 4096;
/// Time without a call after which a session frees its buffers: allocating them again takes less than a
/// thousandth of this time.
const IDLE_NS: u64 = 100_000_000;
/// Minimum interval between polls of the socket for breaks by a caller that never waits: each poll is a system call and
/// yields to other tasks. The interval delays the detection of breaks by up to 1 ms, except for callers that wait.
const LOOK_NS: u64 = 1_000_000;
/// Time limit for the log-off, whose result is not needed.
const DISCONNECT_NS: u64 = 2_000_000_000;

/// A call that ended while the caller waited only for breaks.
#[derive(Debug)]
struct EndedCall {
    id: CallId,
    result: Result<Reply, Failure>,
    data: Vec<u8>,
}

#[derive(Debug)]
pub struct Session {
    executor: Executor,
    dialer: Rc<Dialer>,
    options: Rc<Options>,
    client: u32,
    share: String,
    socket: Option<Socket>,
    inbox: Inbox,
    conversation: Conversation,
    kept: VecDeque<EndedCall>,
    /// Data of the read that was last taken from `kept`.
    kept_data: Vec<u8>,
    /// Breaks that arrived while handles were reopened, or that the loss of a connection caused.
    breaks_to_tell: VecDeque<Break>,
    /// Time of the last connection attempt.
    dialed_ns: u64,
    /// The session that the next one replaces; 0: none.
    previous_session_id: u64,
    traffic: Traffic,
    /// Whether the socket may have more data than the last receive call took.
    more_is_there: bool,
    receives: u32,
    /// Time of the last poll of the socket.
    looked_ns: u64,
    /// Total time spent waiting only for breaks since the last call, including the current wait.
    idle_ns: u64,
    /// Further connections of the session (`channels.rs`).
    others: Vec<Session>,
    /// Number of the connection of the last reported event: 0 is the first connection, and the further ones count from
    /// 1.
    told_by: usize,
    /// Number of calls distributed among the connections.
    turn: usize,
    /// Keys for binding further connections of this session.
    keys: Option<Keys>,
    /// Set while this connection is being bound to an existing session.
    binding: Option<Binding>,
}

impl Session {
    /// Creates a session that is not connected. Its client GUID depends on `client` and the options' seed.
    pub fn new(
        executor: Executor,
        dialer: Rc<Dialer>,
        options: Rc<Options>,
        client: u32,
        share: &str,
    ) -> Self {
        let mut conversation = Conversation::new(&options.base_path);
        conversation.durability.wanted = options.durable_handles;
        conversation.durability.keeps_calls = options.durable_handles || options.channels > 1;
        conversation.durability.client_guid =
            u128::from_le_bytes(setup::client_guid(options.guid_seed, client));
        Self {
            executor,
            dialer,
            client,
            share: share.to_owned(),
            socket: None,
            inbox: Inbox::new(MAX_SETUP_MESSAGE_BYTES),
            conversation,
            options,
            kept: VecDeque::new(),
            kept_data: Vec::new(),
            breaks_to_tell: VecDeque::new(),
            dialed_ns: 0,
            previous_session_id: 0,
            traffic: Traffic::default(),
            more_is_there: false,
            receives: 0,
            looked_ns: 0,
            idle_ns: 0,
            others: Vec::new(),
            told_by: 0,
            turn: 0,
            keys: None,
            binding: None,
        }
    }

    /// Returns the negotiated properties while there is a session.
    pub fn agreed(&self) -> Option<&NegotiatedSession> {
        self.conversation.agreed.as_ref()
    }

    /// Returns the memory that the buffers use, in bytes: up to the largest message; 0 once the session is
    /// idle.
    pub fn held_bytes(&self) -> usize {
        let others: usize = self.others.iter().map(Self::held_bytes).sum();
        self.inbox.held_bytes() + self.conversation.held_bytes() + self.kept_data.capacity() + others
    }

    /// Drops the connection if `result` is an error.
    fn lose<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        if result.is_err() {
            let gone = self.conversation.handles.durable().count() as u64;
            self.conversation.durability.counts.lost += gone;
            self.drop_connection();
        }
        result
    }

    fn drop_connection(&mut self) {
        self.close_connection();
        self.kept.clear();
        self.breaks_to_tell.clear();
    }

    /// Closes the connection. Results that are kept for the caller stay.
    fn close_connection(&mut self) {
        self.drop_channels();
        self.socket = None;
        self.conversation.reset();
        self.inbox.clear();
        self.inbox.set_max_message_bytes(MAX_SETUP_MESSAGE_BYTES);
        self.more_is_there = false;
    }

    /// Sends the conversation's message and then `tail`, once the rate limit permits it. Receives expected data
    /// meanwhile: if both sides only sent, they would wait for each other forever.
    async fn send(&mut self, tail: &[u8]) -> Result<(), Failure> {
        let message = self.conversation.message();
        self.dialer.turn(message.parts().count()).await;
        let socket = self.socket.as_ref().ok_or(Fault::SessionLost)?;
        self.traffic.bytes_out += message.sent_bytes() as u64;
        let backlog_bytes = self.conversation.expected_bytes() + BACKLOG_SLACK_BYTES;
        let (inbox, bytes_in) = (&mut self.inbox, &mut self.traffic.bytes_in);
        let late = Fault::ResponseTimeout;
        let mut sending = pin!(async {
            match tail {
                [] => socket.send_all(message.bytes(), late).await,
                tail => socket.send_pair(message.bytes(), tail, late).await,
            }
        });
        let mut took = false;
        let result = poll_fn(|context| match sending.as_mut().poll(context) {
            Poll::Pending => {
                took = true;
                take_while_sending(socket, context, inbox, backlog_bytes, bytes_in)
            }
            ready => ready,
        })
        .await;
        self.more_is_there |= took;
        result
    }

    async fn send_waiting(&mut self) -> Result<(), Failure> {
        while self.conversation.next_departure()? {
            self.send(&[]).await?;
        }
        Ok(())
    }

    /// Receives the available data without waiting; returns whether there was any.
    fn take(&mut self) -> Result<bool, Failure> {
        self.looked_ns = monotonic_ns();
        let socket = self.socket.as_ref().ok_or(Fault::SessionLost)?;
        let room = self.inbox.room();
        let room_bytes = room.len();
        match socket.try_receive(room)? {
            None => {
                self.more_is_there = false;
                Ok(false)
            }
            Some(0) if self.conversation.is_quiet() => Err(Fault::SessionLost.into()),
            Some(0) => Err(Fault::ClosedEarly.into()),
            Some(count) => {
                self.inbox.filled(count);
                self.traffic.bytes_in += count as u64;
                // A short read has emptied the socket. An end of the stream that was already reported is not
                // reported again.
                self.more_is_there = count == room_bytes || socket.end_reported();
                Ok(true)
            }
        }
    }

    /// Polls the socket, at most once per `LOOK_NS`; returns whether there was data.
    async fn look(&mut self, now_ns: u64) -> Result<bool, Failure> {
        if now_ns < self.looked_ns.saturating_add(LOOK_NS) {
            return Ok(false);
        }
        self.executor.give_way().await;
        self.take()
    }

    /// Waits for data, unless the socket may have more, and receives it.
    async fn wait(&mut self) -> Result<(), Failure> {
        if self.more_is_there {
            self.receives += 1;
            if self.receives % RECEIVES_IN_A_TURN == 0 {
                self.executor.give_way().await;
            }
            if self.executor.deadline_passed() {
                return Err(Fault::ResponseTimeout.into());
            }
        } else {
            let socket = self.socket.as_ref().ok_or(Fault::SessionLost)?;
            socket.readable(Fault::ResponseTimeout).await?;
        }
        self.take().map(|_| ())
    }

    async fn next_incoming(&mut self) -> Result<Incoming, Failure> {
        loop {
            self.send_waiting().await?;
            if let Some(told) = self.conversation.receive(&mut self.inbox)? {
                return Ok(told);
            }
            if self.conversation.next_departure()? {
                self.send(&[]).await?;
            } else if self.conversation.is_stuck() {
                return Err(Fault::NoCredit.into());
            } else {
                self.wait().await?;
            }
        }
    }

    /// Frees the buffers if the session is idle, so that many idle sessions need little memory.
    fn release_if_idle(&mut self) {
        if self.idle_ns >= IDLE_NS && self.conversation.is_quiet() && self.kept.is_empty() {
            for channel in self
                .others
                .iter_mut()
                .filter(|other| other.conversation.is_quiet())
            {
                channel.inbox.release();
                channel.conversation.release();
            }
            self.inbox.release();
            self.conversation.release();
            self.kept_data = Vec::new();
        }
    }

    async fn next_break(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        self.idle_ns = self.idle_ns.saturating_add(due_ns.saturating_sub(monotonic_ns()));
        self.release_if_idle();
        let executor = self.executor.clone();
        let mut alarm = pin!(executor.sleep_until(due_ns));
        loop {
            self.send_waiting().await?;
            match self.conversation.receive(&mut self.inbox)? {
                Some(Incoming::Break(broken)) => return Ok(Some(broken)),
                Some(Incoming::Ended(id, result, data)) => self.keep_ended(id, result, data),
                Some(Incoming::Outrun(id, again)) => self.send_outrun(id, again),
                Some(Incoming::Answer(..)) => {}
                None if monotonic_ns() >= due_ns => {
                    if self.look(monotonic_ns()).await? {
                        continue;
                    }
                    // Polling has allocated a buffer again.
                    self.release_if_idle();
                    return Ok(None);
                }
                None if self.conversation.is_stuck() => return Err(Fault::NoCredit.into()),
                None => {
                    let mut waiting = pin!(self.wait());
                    poll_fn(|context| match alarm.as_mut().poll(context) {
                        Poll::Ready(()) => Poll::Ready(Ok(())),
                        Poll::Pending => waiting.as_mut().poll(context),
                    })
                    .await?;
                }
            }
        }
    }

    async fn begin_call(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        if self.socket.is_none() {
            return Err(Fault::SessionLost.into());
        }
        self.idle_ns = 0;
        if let Some(place) = self.channel_for(call) {
            return self.begin_on(place, call).await;
        }
        let (id, now) = self.conversation.begin(call)?;
        if now {
            if let Err(failure) = self.send_call(call).await {
                self.recover_from(failure).await?;
            }
        }
        Ok(id)
    }

    async fn send_call(&mut self, call: &Call<'_>) -> Result<(), Failure> {
        let tail = match call {
            Call::Write { data, .. } if !self.conversation.protection.needs_whole_messages() => data,
            _ => &[][..],
        };
        self.send(tail).await
    }

    /// Continues with another connection after a failure of the first: an existing one, or a new one if
    /// handles are durable.
    async fn recover_from(&mut self, failure: Failure) -> Result<(), Failure> {
        if !self.others.is_empty() {
            self.give_up(0, failure)
        } else if self.recovers(&failure) {
            self.recover().await
        } else {
            Err(failure)
        }
    }

    /// Waits for a break as `next_break` does, and replaces lost connections.
    async fn next_break_recovering(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        loop {
            if let Some(broken) = self.breaks_to_tell.pop_front() {
                return Ok(Some(broken));
            }
            let told = match self.others.is_empty() {
                true => self.next_break(due_ns).await,
                false => self.next_break_of_all(due_ns).await,
            };
            match told {
                Err(failure) => self.recover_from(failure).await?,
                told => return told,
            }
        }
    }

    /// Waits for an event as `next_incoming` does, and replaces lost connections.
    async fn next_incoming_recovering(&mut self) -> Result<Incoming, Failure> {
        loop {
            if let Some(broken) = self.breaks_to_tell.pop_front() {
                return Ok(Incoming::Break(broken));
            }
            let told = match self.others.is_empty() {
                true => self.next_incoming().await,
                false => self.next_of_all().await,
            };
            match told {
                Err(failure) => self.recover_from(failure).await?,
                told => return told,
            }
        }
    }

    async fn answer_break(&mut self, grant: Grant, left: Caching) -> Result<(), Failure> {
        if self.conversation.acknowledge(grant, left)? {
            self.send(&[]).await?;
        }
        self.send_waiting().await
    }

    /// Sends the conversation's prepared request and waits for its response.
    async fn exchange(&mut self) -> Result<(u32, Link, Range<usize>), Failure> {
        self.send(&[]).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<(u32, Link, Range<usize>), Failure> {
        loop {
            // While a session ends, calls may still end; their results are ignored.
            if let Incoming::Answer(status, link, range) = self.next_incoming().await? {
                return Ok((status, link, range));
            }
        }
    }
}

/// Receives available data until `inbox` holds `most` unprocessed bytes, and registers the task for more. Becomes
/// ready only on failure.
fn take_while_sending(
    socket: &Socket,
    context: &mut Context<'_>,
    inbox: &mut Inbox,
    most: usize,
    bytes_in: &mut u64,
) -> Poll<Result<(), Failure>> {
    while inbox.waiting_bytes() < most {
        match socket.try_receive(inbox.room())? {
            Some(0) => break,
            Some(count) => {
                inbox.filled(count);
                *bytes_in += count as u64;
            }
            None => ready!(socket.poll_readable(context, Fault::ResponseTimeout))?,
        }
    }
    Poll::Pending
}

impl FileClient for Session {
    async fn connect(&mut self) -> Result<(), Failure> {
        if self.agreed().is_some() {
            return Ok(());
        }
        self.drop_connection();
        let result = self.establish().await;
        self.lose(result)
    }

    async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        let result = self.begin_call(call).await;
        self.lose(result)
    }

    async fn next(&mut self) -> Result<Event<'_>, Failure> {
        if let Some(kept) = self.kept.pop_front() {
            self.kept_data = kept.data;
            return Ok(Event::Ended {
                id: kept.id,
                result: kept.result,
                data: &self.kept_data,
                piggyback: Piggyback::default(),
            });
        }
        loop {
            let result = self.next_incoming_recovering().await;
            match self.lose(result)? {
                Incoming::Break(broken) => return Ok(Event::Break(broken)),
                Incoming::Ended(id, result, data) => {
                    let data = &self.channel(self.told_by).inbox.bytes()[data];
                    return Ok(Event::Ended {
                        id,
                        result,
                        data,
                        piggyback: Piggyback::default(),
                    });
                }
                Incoming::Outrun(id, again) => self.send_outrun(id, again),
                Incoming::Answer(..) => {}
            }
        }
    }

    async fn break_until(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        if self.socket.is_none() {
            return Err(Fault::SessionLost.into());
        }
        let result = self.next_break_recovering(due_ns).await;
        self.lose(result)
    }

    async fn acknowledge(&mut self, grant: Grant, left: Caching) -> Result<(), Failure> {
        let result = loop {
            let Err(failure) = self.answer_break(grant, left).await else {
                break Ok(());
            };
            let had_others = !self.others.is_empty();
            if let Err(failure) = self.recover_from(failure).await {
                break Err(failure);
            }
            if !had_others {
                // The handle was reopened, and the response to that open states the new caching.
                break Ok(());
            }
        };
        self.lose(result)
    }

    /// Returns false: unstable writes are lost only together with the session.
    fn loses_unstable_writes(&self) -> bool {
        false
    }

    fn leases_directories(&self) -> bool {
        self.agreed().is_some_and(|agreed| agreed.directory_leases)
    }

    fn cut(&mut self) {
        if let Some(socket) = &self.socket {
            // On failure, the connection is already gone, as intended.
            let _ = socket.end_sending();
        }
    }

    /// Uses its own deadline, two seconds from now.
    async fn disconnect(&mut self) {
        if self.agreed().is_some() {
            let (executor, until_ns) = (self.executor.clone(), monotonic_ns() + DISCONNECT_NS);
            // A failure means that the connection is already gone, as intended.
            let _ = executor.with_deadline(until_ns, self.log_off()).await;
        }
        self.drop_connection();
    }

    fn traffic(&self) -> Traffic {
        let counts = self.counts();
        let mut traffic = Traffic {
            requests: counts.requests.iter().sum(),
            refused: counts.refused,
            breaks: counts.breaks,
            ..self.traffic
        };
        for other in &self.others {
            add_bytes(&mut traffic, &other.traffic);
        }
        traffic
    }

    fn kept_handles(&self) -> KeptHandles {
        self.conversation.durability.counts
    }

    fn requests_by_name(&self) -> Vec<(&'static str, u64)> {
        let requests = self.counts().requests;
        Command::ALL
            .iter()
            .map(|command| (command.name(), requests[*command as usize]))
            .collect()
    }

    fn max_read_bytes(&self) -> u32 {
        self.agreed()
            .map_or(self.options.max_transfer_bytes, |agreed| agreed.max_read_bytes)
    }

    fn max_write_bytes(&self) -> u32 {
        self.agreed()
            .map_or(self.options.max_transfer_bytes, |agreed| agreed.max_write_bytes)
    }
}
