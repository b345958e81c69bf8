//! One client's session with an NFS server: an export that is mounted and a connection, used as a [`FileClient`].
//!
//! `options.rs` says what a session shall be and what was agreed; `setup.rs` makes and ends it; `calls.rs` writes file
//! calls as requests (with the table of which), `answers.rs` reads what comes back, `conversation.rs` keeps what is
//! outstanding, `names.rs` the directories on the way; this file carries bytes between them and the socket.
//!
//! Files outlive a connection: where it is lost, another is made, and what was not answered is sent once more, until the
//! task's deadline has passed. Only then is the session lost, with its files, and the method that failed says so.

mod answers;
mod calls;
mod conversation;
mod names;
mod options;
mod results;
mod running;
mod setup;
mod setup4;
mod states;

pub use conversation::{Conversation, Counts, Data, Ended};
pub use options::{Options, TransferSizes, Version};
pub(crate) use setup::{ask_ports, NFS_PORT};

use crate::v4::{Agreed4, Identity};
use crate::wire::Records;
use dyno_files::{Break, Call, CallId, Event, FileClient, Traffic};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_reactor::{Dialer, Executor, Socket};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{ready, Context, Poll};

/// Calls in a row after which a task that always finds more bytes lets the others have their turn.
const RECEIVES_IN_A_TURN: u32 = 16;
/// Around the data of a reply: header, attributes, counts.
const AROUND_DATA_BYTES: usize = 4096;
/// Requests up to this size go out in one call, if several are due; larger ones are not copied once more for it.
const SMALL_BYTES: usize = 16_384;
/// A session that has nothing to do for so long gives its buffers back.
const IDLE_NS: u64 = 100_000_000;
/// How long the end of a session may take: its outcome is of no use to anybody.
const DISCONNECT_NS: u64 = 2_000_000_000;
/// Between two attempts to connect again.
const RECONNECT_NS: u64 = 100_000_000;
/// The answers to JUKEBOX, and requests of a lost connection, as they stand among those by name.
const JUKEBOXES: &str = "(JUKEBOX, asked again)";
const RESENT: &str = "(sent again after a lost connection)";

/// One client's session.
#[derive(Debug)]
pub struct Session {
    executor: Executor,
    dialer: Rc<Dialer>,
    options: Rc<Options>,
    mount_address: SocketAddr,
    export: String,
    socket: Option<Socket>,
    records: Records,
    conversation: Conversation,
    /// Calls that ended while only the clock was waited for.
    kept: VecDeque<Ended>,
    /// What was read by the call that was told last, where it does not lie in `records`.
    told_data: Vec<u8>,
    outbox: Vec<u8>,
    traffic: Traffic,
    /// The socket may have more than the last call took.
    more_is_there: bool,
    receives: u32,
    dialed_ns: u64,
    /// As whom NFSv4.1 knows the client, and the number of its next session.
    identity: Identity,
    next_session: Option<(u64, u32)>,
}

impl Session {
    /// A session without a connection: `connect` makes one, to the dialer's address. `client` tells its numbers from
    /// those of all other clients of the server.
    #[must_use]
    pub fn new(
        executor: Executor,
        dialer: Rc<Dialer>,
        options: Rc<Options>,
        mount_address: SocketAddr,
        export: &str,
        client: u64,
    ) -> Self {
        Self {
            executor,
            dialer,
            mount_address,
            export: export.to_owned(),
            socket: None,
            records: Records::new(AROUND_DATA_BYTES),
            conversation: Conversation::new(options.clone(), client),
            options,
            kept: VecDeque::new(),
            told_data: Vec::new(),
            outbox: Vec::new(),
            traffic: Traffic::default(),
            more_is_there: false,
            receives: 0,
            dialed_ns: 0,
            identity: setup4::identity(client),
            next_session: None,
        }
    }

    /// Returns what was agreed on, while there is a session.
    #[must_use]
    pub fn agreed(&self) -> Option<&TransferSizes> {
        self.conversation.agreed.as_ref()
    }

    /// Returns which NFS it speaks.
    #[must_use]
    pub fn version(&self) -> Version {
        self.options.version
    }

    /// Returns what was agreed on of the session, with NFSv4.1.
    #[must_use]
    pub fn agreed4(&self) -> Option<Agreed4> {
        self.conversation.agreed4()
    }

    /// Returns what its buffers take of memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let own = self.told_data.capacity() + self.outbox.capacity();
        own + self.records.held_bytes() + self.conversation.held_bytes()
    }

    /// What failed for good has ended the session.
    fn lose<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        if result.is_err() {
            self.drop_session();
        }
        result
    }

    fn drop_session(&mut self) {
        self.drop_connection();
        self.conversation.reset();
        self.kept.clear();
    }

    fn drop_connection(&mut self) {
        self.socket = None;
        self.records.clear();
        self.more_is_there = false;
    }

    /// Begins a connection; the first to send on it sees whether it stands.
    fn dial(&mut self) -> Result<(), Failure> {
        self.dialed_ns = monotonic_ns();
        let socket = self.dialer.dial(None)?;
        socket.send_at_once()?;
        self.traffic.connections += 1;
        self.socket = Some(socket);
        Ok(())
    }

    /// Makes another connection in the place of a lost one, on which everything is sent again.
    async fn reconnect(&mut self) -> Result<(), Failure> {
        self.drop_connection();
        loop {
            let next_ns = self.dialed_ns.saturating_add(RECONNECT_NS);
            if monotonic_ns() < next_ns {
                self.executor.sleep_until(next_ns).await;
            }
            if self.executor.deadline_passed() {
                return Err(Fault::ResponseTimeout.into());
            }
            match self.dial() {
                Err(failure) if costs_connection(&failure) => {}
                result => {
                    self.conversation.reconnected();
                    return result;
                }
            }
        }
    }

    /// Sends every request that is due, small ones together.
    async fn send_due(&mut self) -> Result<(), Failure> {
        if self.conversation.needs_session() {
            self.establish_again().await?;
        }
        loop {
            let backlog_bytes = self.conversation.expected_bytes() + AROUND_DATA_BYTES;
            let Some((message, more)) = self.conversation.next_departure(monotonic_ns()) else {
                return Ok(());
            };
            let bytes = message.bytes();
            self.traffic.bytes_out += bytes.len() as u64;
            let is_small = bytes.len() <= SMALL_BYTES;
            if is_small {
                self.outbox.extend_from_slice(bytes);
                if more && self.outbox.len() < SMALL_BYTES {
                    continue;
                }
            }
            let socket = self.socket.as_ref().ok_or(Fault::ConnectionReset)?;
            let backlog = Backlog {
                records: &mut self.records,
                most_bytes: backlog_bytes,
                bytes_in: &mut self.traffic.bytes_in,
            };
            let tail = if is_small { &[] } else { bytes };
            let sent = send(socket, &self.outbox, tail, backlog).await;
            self.outbox.clear();
            self.more_is_there |= sent?;
        }
    }

    /// Takes what the socket has, without waiting.
    fn take(&mut self) -> Result<(), Failure> {
        let socket = self.socket.as_ref().ok_or(Fault::ConnectionReset)?;
        let room = self.records.room();
        let room_bytes = room.len();
        match socket.try_receive(room)? {
            None => self.more_is_there = false,
            Some(0) => return Err(Fault::ClosedEarly.into()),
            Some(count) => {
                self.records.filled(count);
                self.traffic.bytes_in += count as u64;
                // A call that brought less than there was room for has emptied the socket. An end that was reported
                // before is not reported again.
                self.more_is_there = count == room_bytes || socket.end_reported();
            }
        }
        Ok(())
    }

    /// Waits for an arrival, unless the socket may have more, and takes what is there; no longer than until `due_ns`, and
    /// than until a request that was put off is due.
    async fn wait(&mut self, due_ns: Option<u64>) -> Result<(), Failure> {
        if self.more_is_there {
            self.receives += 1;
            if self.receives % RECEIVES_IN_A_TURN == 0 {
                self.executor.give_way().await;
            }
            if self.executor.deadline_passed() {
                return Err(Fault::ResponseTimeout.into());
            }
            return self.take();
        }
        let socket = self.socket.as_ref().ok_or(Fault::ConnectionReset)?;
        let due_ns = [due_ns, self.conversation.due_ns()].into_iter().flatten().min();
        let Some(due_ns) = due_ns else {
            socket.readable(Fault::ResponseTimeout).await?;
            return self.take();
        };
        let arrived = {
            let mut alarm = pin!(self.executor.sleep_until(due_ns));
            let mut arrival = pin!(socket.readable(Fault::ResponseTimeout));
            poll_fn(|context| match alarm.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(Ok(false)),
                Poll::Pending => arrival.as_mut().poll(context).map_ok(|()| true),
            })
            .await?
        };
        if arrived {
            self.take()?;
        }
        Ok(())
    }

    /// Sends what is due and waits for more to come. A lost connection is replaced.
    async fn go_on(&mut self, due_ns: Option<u64>) -> Result<(), Failure> {
        let result = match self.send_due().await {
            Ok(()) => self.wait(due_ns).await,
            failed => failed,
        };
        self.replace_if_lost(result).await
    }

    async fn replace_if_lost(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Err(failure) if costs_connection(&failure) => self.reconnect().await,
            result => result,
        }
    }

    async fn next_ended(&mut self) -> Result<Ended, Failure> {
        loop {
            if let Some(ended) = self.conversation.receive(&mut self.records, monotonic_ns())? {
                return Ok(ended);
            }
            self.go_on(None).await?;
        }
    }

    async fn begin_call(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        let id = self.conversation.begin(call, monotonic_ns())?;
        // Who has more answers to take is back before anybody waits: what it asks for until then is sent together.
        if !self.records.has_next() {
            let sent = self.send_due().await;
            self.replace_if_lost(sent).await?;
        }
        Ok(id)
    }

    async fn idle(&mut self, due_ns: u64) -> Result<(), Failure> {
        loop {
            let now_ns = monotonic_ns();
            while let Some(mut ended) = self.conversation.receive(&mut self.records, now_ns)? {
                if let Data::Received(range) = ended.data {
                    ended.data = Data::Joined(self.records.bytes()[range].to_vec());
                }
                self.kept.push_back(ended);
            }
            if now_ns >= due_ns {
                return Ok(());
            }
            if self.conversation.is_quiet() {
                if due_ns - now_ns >= IDLE_NS && self.kept.is_empty() {
                    self.records.release();
                    self.conversation.release();
                    (self.outbox, self.told_data) = (Vec::new(), Vec::new());
                }
                // Meanwhile the server must not forget the client.
                let renewal_ns = self
                    .conversation
                    .renewal_ns()
                    .filter(|renewal_ns| *renewal_ns < due_ns);
                self.executor.sleep_until(renewal_ns.unwrap_or(due_ns)).await;
                if renewal_ns.is_none() {
                    return Ok(());
                }
                self.conversation.renew();
            }
            self.go_on(Some(due_ns)).await?;
        }
    }
}

/// Whether a failure says that the connection is gone, and nothing else.
fn costs_connection(failure: &Failure) -> bool {
    matches!(
        failure.fault,
        Fault::ConnectionRefused
            | Fault::ConnectionReset
            | Fault::ClosedEarly
            | Fault::ConnectTimeout
            | Fault::Unreachable
    )
}

/// What may come while something is sent: two sides that only send would wait for each other.
struct Backlog<'a> {
    records: &'a mut Records,
    /// As much as was asked for.
    most_bytes: usize,
    bytes_in: &'a mut u64,
}

impl Backlog<'_> {
    /// Takes what is there, and has the task called when more comes. Ends with a failure or not at all.
    fn take(&mut self, socket: &Socket, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        while self.records.waiting_bytes() < self.most_bytes {
            match socket.try_receive(self.records.room())? {
                Some(0) => break,
                Some(count) => {
                    self.records.filled(count);
                    *self.bytes_in += count as u64;
                }
                None => ready!(socket.poll_readable(context, Fault::ResponseTimeout))?,
            }
        }
        Poll::Pending
    }
}

/// Sends `first` and then `second`. Whether something may have come meanwhile.
async fn send(
    socket: &Socket,
    first: &[u8],
    second: &[u8],
    mut backlog: Backlog<'_>,
) -> Result<bool, Failure> {
    let late = Fault::ResponseTimeout;
    let mut sending = pin!(async {
        match (first, second) {
            ([], second) => socket.send_all(second, late).await,
            (first, []) => socket.send_all(first, late).await,
            (first, second) => socket.send_pair(first, second, late).await,
        }
    });
    let mut took = false;
    poll_fn(|context| match sending.as_mut().poll(context) {
        Poll::Pending => {
            took = true;
            backlog.take(socket, context)
        }
        ready => ready,
    })
    .await?;
    Ok(took)
}

impl FileClient for Session {
    async fn connect(&mut self) -> Result<(), Failure> {
        if self.agreed().is_some() {
            return Ok(());
        }
        self.drop_session();
        let result = self.establish().await;
        self.lose(result)
    }

    async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        let result = self.begin_call(call).await;
        self.lose(result)
    }

    async fn next(&mut self) -> Result<Event<'_>, Failure> {
        let ended = match self.kept.pop_front() {
            Some(kept) => kept,
            None => {
                let result = self.next_ended().await;
                self.lose(result)?
            }
        };
        let data = match ended.data {
            Data::None => &[][..],
            Data::Received(range) => &self.records.bytes()[range],
            Data::Joined(joined) => {
                self.told_data = joined;
                &self.told_data
            }
        };
        Ok(Event::Ended {
            id: ended.id,
            result: ended.result,
            data,
            piggyback: ended.piggyback,
        })
    }

    /// No break ever comes.
    async fn break_until(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        if self.agreed().is_none() {
            return Err(Fault::SessionLost.into());
        }
        let result = self.idle(due_ns).await;
        self.lose(result).map(|()| None)
    }

    fn loses_unstable_writes(&self) -> bool {
        true
    }

    /// Sets a deadline of its own, of two seconds.
    async fn disconnect(&mut self) {
        if self.agreed().is_some() {
            self.executor
                .set_deadline(monotonic_ns().saturating_add(DISCONNECT_NS));
            // A server that does not hear of it remembers an export too much, and nothing else.
            let _ = self.leave().await;
        }
        self.drop_session();
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            requests: self.conversation.counts().requests.iter().sum(),
            ..self.traffic
        }
    }

    fn requests_by_name(&self) -> Vec<(&'static str, u64)> {
        let counts = self.conversation.counts();
        let procedures = self.conversation.requests_by_name().into_iter();
        procedures
            .chain([(JUKEBOXES, counts.jukeboxes), (RESENT, counts.resent)])
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    fn max_read_bytes(&self) -> u32 {
        self.agreed()
            .map_or(self.options.max_read_bytes, |agreed| agreed.max_read_bytes)
    }

    fn max_write_bytes(&self) -> u32 {
        self.agreed()
            .map_or(self.options.max_write_bytes, |agreed| agreed.max_write_bytes)
    }
}
