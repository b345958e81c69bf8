//! One client's session with an SMB server: a connection, a log-on and one share, used as a [`FileClient`].
//!
//! `options.rs` says what a session shall be and what was agreed; `setup.rs` makes and ends it, `log_on.rs` proves the user, and `validate.rs` proves
//! how it was negotiated; `calls.rs` writes file calls as requests (with the table of which); `conversation.rs` keeps
//! credits and what is outstanding; `channels.rs` has further connections; `answers.rs` reads what comes back; `protection.rs` signs and encrypts; `inbox.rs`
//! cuts the stream into messages; this file carries bytes between them and the socket.
//!
//! A session that is lost takes everything with it, unless its handles are durable (`durable.rs`, `recovery.rs`): handles, calls that run, what was kept. Whoever uses it learns so
//! from the method that failed, and may `connect` again; when, and how often, is that caller's affair. A session that
//! idles gives its buffers back.
//!
//! Oplocks and leases: an `Ask::Lease` becomes a lease where the server gives leases to the dialect (SMB 2.1 on), and
//! else the oplock nearest to it; breaks of that then come as `Grant::Handle`. A break of what is closed, or being
//! closed, is not told.

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

/// Calls in a row after which a task that always finds more bytes lets the others have their turn.
const RECEIVES_IN_A_TURN: u32 = 16;
/// Taken while sending beyond what is expected: breaks, and responses without data.
const BACKLOG_SLACK_BYTES: usize = 65_536;
/// Longer than any message of a log-on.
const MAX_SETUP_MESSAGE_BYTES: usize = 65_536 + 1024;
/// A compound of ours brings two listings at most.
const MAX_COMPOUND_BYTES: usize = 2 * calls::LISTING_BYTES as usize;
/// Headers, fixed parts and contexts around the data of a message.
const AROUND_DATA_BYTES: usize = 4096;
/// A session without a call for so long gives its buffers back: growing them anew costs less than a thousandth of that.
const IDLE_NS: u64 = 100_000_000;
/// Who only looks whether a break has come, and never waits, looks at the socket no more often than this: a look is a
/// system call, and lets other tasks have their turn. Breaks are found by so much later, and by who waits at once.
const LOOK_NS: u64 = 1_000_000;
/// How long the end of a session may take: its outcome is of no use to anybody.
const DISCONNECT_NS: u64 = 2_000_000_000;

/// A call that ended while only breaks were waited for.
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
    /// What was read by the call of `kept` that was told last.
    kept_data: Vec<u8>,
    /// Breaks that came, or were found out about, while handles were opened again.
    breaks_to_tell: VecDeque<Break>,
    /// When it was last tried to connect.
    dialed_ns: u64,
    /// The session that the next one takes the place of; 0: none.
    previous_session_id: u64,
    traffic: Traffic,
    /// The socket may have more than the last call took.
    more_is_there: bool,
    receives: u32,
    /// When the socket was last asked what it has.
    looked_ns: u64,
    /// How long breaks alone have been waited for, since the last call, or will have been.
    idle_ns: u64,
    /// Further connections of the session (`channels.rs`).
    others: Vec<Session>,
    /// The one of them over which came what was told last, from 1 on; 0: the first connection.
    told_by: usize,
    /// Calls that were shared out among them.
    turn: usize,
    /// What further connections of this session are made from.
    keys: Option<Keys>,
    /// This is to become another connection of a session.
    binding: Option<Binding>,
}

impl Session {
    /// A session without a connection: `connect` makes one. `client` makes its GUID, together with the options' seed.
    #[must_use]
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

    /// What was agreed on, while there is a session.
    #[must_use]
    pub fn agreed(&self) -> Option<&NegotiatedSession> {
        self.conversation.agreed.as_ref()
    }

    /// What its buffers take of memory: as much as its largest message, or nothing once it idles.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let others: usize = self.others.iter().map(Self::held_bytes).sum();
        self.inbox.held_bytes() + self.conversation.held_bytes() + self.kept_data.capacity() + others
    }

    /// What failed on the connection has ended it.
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

    /// Closes it; what has been kept for the caller stays.
    fn close_connection(&mut self) {
        self.drop_channels();
        self.socket = None;
        self.conversation.reset();
        self.inbox.clear();
        self.inbox.set_max_message_bytes(MAX_SETUP_MESSAGE_BYTES);
        self.more_is_there = false;
    }

    /// Sends the conversation's message and `tail` behind it. What the server sends meanwhile is taken in as far as it
    /// was asked for: two sides that only send would wait for each other.
    async fn send(&mut self, tail: &[u8]) -> Result<(), Failure> {
        let socket = self.socket.as_ref().ok_or(Fault::SessionLost)?;
        let message = self.conversation.message();
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

    /// Takes what the socket has, without waiting.
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
                // A call that brought less than there was room for has emptied the socket. An end that was reported
                // before is not reported again.
                self.more_is_there = count == room_bytes || socket.end_reported();
                Ok(true)
            }
        }
    }

    /// Takes what has come while the task had no reason to wait; whether there was anything.
    async fn look(&mut self, now_ns: u64) -> Result<bool, Failure> {
        if now_ns < self.looked_ns.saturating_add(LOOK_NS) {
            return Ok(false);
        }
        self.executor.give_way().await;
        self.take()
    }

    /// Waits for an arrival, unless the socket may have more, and takes what is there.
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

    /// Many sessions that do nothing must be small, whatever each has once read or written.
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
                    // Looking for what came has taken a little again.
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

    /// Goes on with another connection where the first failed so: one that the session has, or a new one, where handles
    /// outlive it.
    async fn recover_from(&mut self, failure: Failure) -> Result<(), Failure> {
        if !self.others.is_empty() {
            self.give_up(0, failure)
        } else if self.recovers(&failure) {
            self.recover().await
        } else {
            Err(failure)
        }
    }

    /// What `next_break` tells, over as many connections as it takes.
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

    /// The same of all that is told.
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

    /// Sends the request that is ready as the conversation's message, and waits for its answer.
    async fn exchange(&mut self) -> Result<(u32, Link, Range<usize>), Failure> {
        self.send(&[]).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<(u32, Link, Range<usize>), Failure> {
        loop {
            // Of a session that is being ended, calls may still end: nobody waits for them.
            if let Incoming::Answer(status, link, range) = self.next_incoming().await? {
                return Ok((status, link, range));
            }
        }
    }
}

/// Takes what is there, up to `most` bytes that nobody has looked at, and has the task called when more comes. Ends with
/// a failure or not at all.
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

    /// Moves the task's deadline: to some time after `due_ns`, for what has to be done about a break.
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
                // Whoever reopens the file is told anew what may be cached.
                break Ok(());
            }
        };
        self.lose(result)
    }

    /// What it loses of writes, it loses together with the session.
    fn loses_unstable_writes(&self) -> bool {
        false
    }

    fn leases_directories(&self) -> bool {
        self.agreed().is_some_and(|agreed| agreed.directory_leases)
    }

    fn cut(&mut self) {
        if let Some(socket) = &self.socket {
            // Where it fails there is no connection any more, which is what is wanted.
            let _ = socket.end_sending();
        }
    }

    /// Sets a deadline of its own, of two seconds.
    async fn disconnect(&mut self) {
        if self.agreed().is_some() {
            let deadline_ns = self.executor.deadline_ns();
            self.executor
                .set_deadline(monotonic_ns().saturating_add(DISCONNECT_NS));
            // A failure means that the connection is gone, which is what is wanted.
            let _ = self.log_off().await;
            self.executor.set_deadline(deadline_ns);
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
