//! One client's session with an NFS server: a mounted export and a connection, used as a [`FileClient`].
//!
//! `options.rs` has the options and the negotiated properties. `setup.rs` starts and ends the session. `calls.rs`
//! writes file calls as requests (with a table of them), and `answers.rs` parses answers. `conversation.rs` tracks
//! outstanding requests. `names.rs` caches directories, `delegations.rs` tracks delegations, and `idling.rs` handles
//! the time between calls. This file transfers bytes between these modules and the socket.
//!
//! Files survive their connection: if it is lost, the session reconnects and sends unanswered requests
//! again until the task's deadline. Only then is the session lost with its files, and the current method
//! fails.

mod answers;
mod calls;
mod conversation;
mod counts;
mod datagrams;
mod delegations;
mod idling;
mod names;
mod options;
mod resending;
mod results;
mod retransmission;
mod running;
mod setup;
mod setup4;
mod states;

pub use conversation::{Conversation, Data, Ended};
pub use counts::Counts;
pub use options::{Options, TransferSizes, Version, MOST_UDP_BYTES};
pub(crate) use setup::{ask_ports, Portmapped, NFS_PORT};

use crate::status::{self, Status4};
use crate::v4::{Agreed4, Identity};
use crate::wire::{Records, Transport, RECORD_MARK_BYTES};
use dyno_files::{
    Break, Caching, Call, CallId, Event, FileClient, Grant, Handle, PageRun, Postponed, Stability, Traffic,
};
use dyno_measure::{monotonic_ns, Detail, Failure, Fault};
use dyno_net::{Dialer, Executor, Socket};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

/// Number of consecutive receive calls after which a task that always finds more data yields to other tasks.
const RECEIVES_IN_A_TURN: u32 = 16;
/// Upper bound on the size of a reply without its data: header, attributes and counts.
const AROUND_DATA_BYTES: usize = 4096;
/// Maximum size of a request that is copied in order to send it with others in one system call.
const SMALL_BYTES: usize = 16_384;
/// Requested size of the socket's receive buffer with UDP. The actual size limits the outstanding answers.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;
/// Time without work after which a session frees its buffers.
const IDLE_NS: u64 = 100_000_000;
/// Time limit for ending a session. The result is not needed.
const DISCONNECT_NS: u64 = 2_000_000_000;
/// Pause between two attempts to reconnect.
const RECONNECT_NS: u64 = 100_000_000;
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
    /// Calls that ended while the caller waited only for breaks.
    kept: VecDeque<Ended>,
    /// Data of the last reported read, if it is not in `records`.
    told_data: Vec<u8>,
    outbox: Vec<u8>,
    traffic: Traffic,
    /// Whether the socket may have more data than the last receive call took.
    more_is_there: bool,
    receives: u32,
    /// Time of the last poll for a task that does not wait.
    looked_ns: u64,
    dialed_ns: u64,
    /// The version in use: the one in the options, or NFSv4.1 if the server does not support NFSv4.2.
    spoken: Version,
    /// This field and the next are for NFSv4.1: the identity of the client, and its client ID with the
    /// sequence number of its next session.
    identity: Identity,
    next_session: Option<(u64, u32)>,
}

impl Session {
    /// Creates a session that is not connected; `connect` connects it to the dialer's address. `client` must
    /// differ from the number of every other client of the server: identity, XIDs and verifiers depend on it.
    pub fn new(
        executor: Executor,
        dialer: Rc<Dialer>,
        options: Rc<Options>,
        mount_address: SocketAddr,
        export: &str,
        client: u64,
    ) -> Self {
        let spoken = options.version;
        Self {
            executor,
            dialer,
            mount_address,
            export: export.to_owned(),
            socket: None,
            records: Records::over(options.transport, AROUND_DATA_BYTES),
            conversation: Conversation::new(options.clone(), client),
            options,
            kept: VecDeque::new(),
            told_data: Vec::new(),
            outbox: Vec::new(),
            traffic: Traffic::default(),
            more_is_there: false,
            receives: 0,
            looked_ns: 0,
            dialed_ns: 0,
            spoken,
            identity: setup4::identity(client),
            next_session: None,
        }
    }

    /// Sets the counter of answers that ask the client to wait; sessions may share it.
    #[must_use]
    pub fn counting_postponed(mut self, postponed: Arc<Postponed>) -> Self {
        self.conversation.postponed = postponed;
        self
    }

    /// Returns the negotiated sizes while there is a session.
    pub fn agreed(&self) -> Option<&TransferSizes> {
        self.conversation.agreed.as_ref()
    }

    pub fn version(&self) -> Version {
        self.spoken
    }

    pub fn transport(&self) -> Transport {
        self.options.transport
    }

    /// Returns the properties of the NFSv4.1 session.
    pub fn agreed4(&self) -> Option<Agreed4> {
        self.conversation.agreed4()
    }

    /// Returns the memory that the buffers use, in bytes.
    pub fn held_bytes(&self) -> usize {
        let own = self.told_data.capacity() + self.outbox.capacity();
        own + self.records.held_bytes() + self.conversation.held_bytes()
    }

    /// Drops the session if `result` is an error.
    fn lose<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        let result = result.map_err(|failure| self.told_in_grace(failure));
        if result.is_err() {
            self.drop_session();
        }
        result
    }

    /// Adds to a timeout that the server is in its grace period, if its last answer said so.
    fn told_in_grace(&self, failure: Failure) -> Failure {
        match self.conversation.is_in_grace && failure.fault == Fault::ResponseTimeout {
            true => Failure {
                detail: Detail::Status(status::of4(Status4::Grace as u32)),
                ..failure
            },
            false => failure,
        }
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

    /// Starts to connect; the first send reports whether the connection is established.
    fn dial(&mut self) -> Result<(), Failure> {
        self.dialed_ns = monotonic_ns();
        let socket = match self.options.transport {
            Transport::Tcp => self.dialer.dial(None)?,
            Transport::Udp => self.dialer.dial_datagrams(RECEIVE_BUFFER_BYTES)?,
        };
        match self.options.transport {
            Transport::Tcp => socket.send_at_once()?,
            Transport::Udp => self
                .conversation
                .set_receive_buffer(socket.receive_buffer_bytes()?),
        }
        self.traffic.connections += 1;
        self.socket = Some(socket);
        Ok(())
    }

    /// Replaces a connection whose failure is `lost`, and queues all unanswered requests for the new one.
    async fn reconnect(&mut self, lost: Failure) -> Result<(), Failure> {
        self.drop_connection();
        let mut last = lost;
        loop {
            let next_ns = self.dialed_ns.saturating_add(RECONNECT_NS);
            if monotonic_ns() < next_ns {
                self.executor.sleep_until(next_ns).await;
            }
            if self.executor.deadline_passed() {
                return Err(at_deadline(last));
            }
            match self.dial() {
                Err(failure) if costs_connection(&failure) => last = failure,
                result => {
                    self.conversation.reconnected();
                    return result;
                }
            }
        }
    }

    /// Sends every due request: small ones together, or with a rate limit each one once the limit permits it.
    async fn send_due(&mut self) -> Result<(), Failure> {
        if self.conversation.is_unbound && !self.conversation.needs_session() {
            self.bind().await?;
        }
        if self.conversation.needs_session() {
            self.establish_again().await?;
        }
        if self.conversation.owes_answers() {
            self.conversation.take_answers(&mut self.outbox);
            self.send_outbox().await?;
        }
        let is_paced = self.dialer.pace().is_some();
        loop {
            if is_paced && self.conversation.may_depart(monotonic_ns()) {
                let postponed_ns = self.dialer.turn(1).await;
                self.conversation.postpone_resending(postponed_ns);
            }
            let backlog_bytes = self.conversation.expected_bytes() + AROUND_DATA_BYTES;
            let Some((message, more)) = self.conversation.next_departure(monotonic_ns()) else {
                return Ok(());
            };
            // A datagram is a message without a record mark.
            let mark_bytes = if self.records.are_datagrams() {
                RECORD_MARK_BYTES
            } else {
                0
            };
            self.traffic.bytes_out += (message.len() - mark_bytes) as u64;
            let is_small = message.len() <= SMALL_BYTES && mark_bytes == 0;
            if is_small {
                message
                    .pieces()
                    .for_each(|piece| self.outbox.extend_from_slice(piece));
                if more && self.outbox.len() < SMALL_BYTES && !is_paced {
                    continue;
                }
            }
            let socket = self.socket.as_ref().ok_or(Fault::ConnectionReset)?;
            let backlog = Backlog {
                records: &mut self.records,
                most_bytes: backlog_bytes,
                bytes_in: &mut self.traffic.bytes_in,
            };
            let outbox = std::iter::once(self.outbox.as_slice());
            let large = message.pieces().filter(|_| !is_small);
            let mut parts: Vec<IoSlice<'_>> = outbox.chain(large).map(IoSlice::new).collect();
            let mut rest = parts.as_mut_slice();
            IoSlice::advance_slices(&mut rest, mark_bytes);
            let sent = send(socket, rest, backlog).await;
            self.outbox.clear();
            self.more_is_there |= sent?;
        }
    }

    /// Sends the replies to the server's calls.
    async fn send_outbox(&mut self) -> Result<(), Failure> {
        self.traffic.bytes_out += self.outbox.len() as u64;
        let socket = self.socket.as_ref().ok_or(Fault::ConnectionReset)?;
        let backlog = Backlog {
            records: &mut self.records,
            most_bytes: self.conversation.expected_bytes() + AROUND_DATA_BYTES,
            bytes_in: &mut self.traffic.bytes_in,
        };
        let sent = send(socket, &mut [IoSlice::new(&self.outbox)], backlog).await;
        self.outbox.clear();
        self.more_is_there |= sent?;
        Ok(())
    }

    /// Receives the available data without waiting.
    fn take(&mut self) -> Result<(), Failure> {
        let socket = self.socket.as_ref().ok_or(Fault::ConnectionReset)?;
        let room = self.records.room();
        let room_bytes = room.len();
        match socket.try_receive(room)? {
            None => self.more_is_there = false,
            Some(0) if !self.records.are_datagrams() => return Err(Fault::ClosedEarly.into()),
            Some(count) => {
                self.records.filled(count);
                self.traffic.bytes_in += count as u64;
                // Over TCP, a short read has emptied the socket; over UDP, each call receives only one
                // datagram. An end of the stream that was already reported is not reported again.
                self.more_is_there =
                    self.records.are_datagrams() || count == room_bytes || socket.end_reported();
            }
        }
        Ok(())
    }

    /// Receives data. Unless the socket may have more, waits for it first, at most until `due_ns` or until a
    /// request must be sent again.
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
        if datagrams::arrives_by(&self.executor, socket, due_ns).await? {
            self.take()?;
        }
        Ok(())
    }

    /// Sends due requests and waits for data. Replaces a lost connection.
    async fn go_on(&mut self, due_ns: Option<u64>) -> Result<(), Failure> {
        let result = match self.send_due().await {
            Ok(()) => self.wait(due_ns).await,
            failed => failed,
        };
        self.replace_if_lost(result).await
    }

    async fn replace_if_lost(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Err(failure) if costs_connection(&failure) => self.reconnect(failure).await,
            result => result,
        }
    }

    async fn next_come(&mut self) -> Result<Come, Failure> {
        loop {
            if let Some(ended) = self.conversation.receive(&mut self.records, monotonic_ns())? {
                return Ok(Come::Ended(ended));
            }
            self.send_answers().await?;
            if let Some(broken) = self.conversation.next_break() {
                return Ok(Come::Break(broken));
            }
            self.go_on(None).await?;
        }
    }

    async fn begun(&mut self, begun: Result<CallId, Failure>) -> Result<CallId, Failure> {
        let id = begun?;
        // If the buffer has further answers, the caller processes them before it waits, and its next requests
        // are sent together.
        if !self.records.has_next() {
            let sent = self.send_due().await;
            self.replace_if_lost(sent).await?;
        }
        Ok(id)
    }
}

/// Returns the failure of a call at its deadline: `last` if the last connection attempt was refused,
/// otherwise a timeout.
fn at_deadline(last: Failure) -> Failure {
    match last.fault {
        Fault::ConnectionRefused => last,
        _ => Fault::ResponseTimeout.into(),
    }
}

/// Returns whether a failure only means that the connection is lost.
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

/// An event of a session.
enum Come {
    Ended(Ended),
    Break(Break),
}

/// Receives data while a request is sent: if both sides only sent, they would wait for each other forever.
struct Backlog<'a> {
    records: &'a mut Records,
    /// Maximum number of unprocessed bytes: the expected size of the outstanding answers.
    most_bytes: usize,
    bytes_in: &'a mut u64,
}

impl Backlog<'_> {
    /// Receives available data, and registers the task for more. Becomes ready only on failure.
    fn take(&mut self, socket: &Socket, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        while self.records.waiting_bytes() < self.most_bytes {
            match socket.try_receive(self.records.room())? {
                Some(0) if !self.records.are_datagrams() => break,
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

/// Sends `parts` in sequence. Returns whether data may have arrived meanwhile.
async fn send(socket: &Socket, parts: &mut [IoSlice<'_>], mut backlog: Backlog<'_>) -> Result<bool, Failure> {
    let mut sending = pin!(socket.send_parts(parts, Fault::ResponseTimeout));
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
        let begun = self.conversation.begin(call, monotonic_ns());
        let result = self.begun(begun).await;
        self.lose(result)
    }

    async fn begin_write(
        &mut self,
        handle: Handle,
        offset: u64,
        data: &PageRun,
        stability: Stability,
    ) -> Option<Result<CallId, Failure>> {
        let now_ns = monotonic_ns();
        let begun = self
            .conversation
            .begin_write(handle, offset, data, stability, now_ns);
        let result = self.begun(begun).await;
        Some(self.lose(result))
    }

    async fn next(&mut self) -> Result<Event<'_>, Failure> {
        let ended = match self.kept.pop_front() {
            Some(kept) => kept,
            None => {
                let result = self.next_come().await;
                match self.lose(result)? {
                    Come::Ended(ended) => ended,
                    Come::Break(broken) => return Ok(Event::Break(broken)),
                }
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

    /// Without a delegation, there are no breaks.
    async fn break_until(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        if self.agreed().is_none() {
            return Err(Fault::SessionLost.into());
        }
        let result = self.idle(due_ns).await;
        self.lose(result)
    }

    async fn acknowledge(&mut self, grant: Grant, _left: Caching) -> Result<(), Failure> {
        self.conversation.give_back(grant);
        let sent = self.send_due().await;
        let result = self.replace_if_lost(sent).await;
        self.lose(result)
    }

    fn loses_unstable_writes(&self) -> bool {
        true
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
            // If this fails, the server only remembers the mount or the client longer than necessary.
            let leaving = async {
                let _ = self.give_back_all().await;
                let _ = self.leave().await;
            };
            executor.with_deadline(until_ns, leaving).await;
        }
        self.drop_session();
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            requests: self.conversation.counts().requests.iter().sum(),
            breaks: self.conversation.counts().breaks,
            ..self.traffic
        }
    }

    fn requests_by_name(&self) -> Vec<(&'static str, u64)> {
        let counts = self.conversation.counts();
        let procedures = self.conversation.requests_by_name().into_iter();
        procedures
            .chain(counts.others())
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
