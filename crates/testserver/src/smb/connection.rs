//! Transport of one connection: splits received data into messages, and sends answers as fast as the client
//! reads them.
//!
//! While a client does not read, the server does not read its requests, so the server's buffers are bounded.

use super::connections::ConnectionHandle;
use super::dialogue::Dialogue;
use super::fault::Fault;
use super::host::Host;
use super::message::{Disconnect, FRAME_BYTES};
use super::misbehaviour::After;
use super::negotiate::SMB1_HEADER_BYTES;
use dyno_measure::{Failure, Fault as Outcome};
use dyno_net::{Executor, Socket};
use std::future::{pending, poll_fn, Future};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// Maximum size of a message: a write of 1 MiB with its headers, and the rest of its compound.
const MOST_MESSAGE_BYTES: usize = (1 << 20) + 65_536;
const FIRST_BYTES: usize = 65_536;
/// Additional space after a large message, so that one system call also receives the start of the next.
const SLACK_BYTES: usize = 4096;
/// Limit of unsent answers. Above it, answers are sent before further requests are executed.
const MOST_WAITING_BYTES: usize = 4 << 20;
/// Consecutive receive calls after which the task yields to the others.
const RECEIVES_IN_A_TURN: u32 = 16;
/// Failure of a timeout, which never occurs without a deadline.
const NEVER: Outcome = Outcome::ResponseTimeout;

/// The connection must be closed.
struct Ended;

impl From<Disconnect> for Ended {
    fn from(_: Disconnect) -> Self {
        Self
    }
}

impl From<Failure> for Ended {
    fn from(_: Failure) -> Self {
        Self
    }
}

/// Serves a connection to its end. A client that disconnects or violates the protocol is not reported,
/// because the generator counts the failure.
pub(super) async fn serve(socket: Socket, executor: Executor, host: Arc<Host>, thread: usize) {
    let (id, handle) = host.connections.add(thread);
    let mut connection = Connection {
        delay_ns: Fault::delay_ns(host.options.fault),
        dialogue: Dialogue::new(id, host.clone(), socket.local_address().ok()),
        socket,
        executor,
        handle,
        inbox: Inbox::default(),
        out: Vec::new(),
    };
    let _ = connection.run().await;
    connection.dialogue.end(Host::moment());
    host.connections.deliver(&mut connection.dialogue.notices);
    host.connections.remove(id);
}

struct Connection {
    socket: Socket,
    executor: Executor,
    handle: Arc<ConnectionHandle>,
    dialogue: Dialogue,
    inbox: Inbox,
    out: Vec<u8>,
    delay_ns: u64,
}

impl Connection {
    async fn run(&mut self) -> Result<(), Ended> {
        let (mut more_is_there, mut receives) = (true, 0_u32);
        loop {
            let has_had_its_time = !more_is_there && self.wait().await?;
            if self.handle.wakeup.take() || has_had_its_time {
                self.take_news().await?;
            }
            let room = self.inbox.room();
            let room_bytes = room.len();
            more_is_there = match self.socket.try_receive(room)? {
                None => false,
                Some(0) => return Ok(()),
                Some(count) => {
                    self.inbox.end += count;
                    // After a short read, the socket is empty, unless the end of the stream was reported. The end is
                    // reported only once.
                    let is_rest = count == room_bytes || self.socket.end_reported();
                    self.carry_out().await?;
                    is_rest
                }
            };
            receives += 1;
            if receives % RECEIVES_IN_A_TURN == 0 {
                self.executor.give_way().await;
            }
        }
    }

    /// Waits until the client or another connection sends something. Returns whether the deadline of a
    /// parked request has passed.
    async fn wait(&self) -> Result<bool, Ended> {
        let mut timer = pin!(self.sleep_until(self.dialogue.deadline_ns()));
        Ok(poll_fn(|context| {
            let has_had_its_time = timer.as_mut().poll(context).is_ready();
            if self.handle.wakeup.poll(context) || has_had_its_time {
                return Poll::Ready(Ok(has_had_its_time));
            }
            let readable = self.socket.poll_readable(context, NEVER);
            readable.map(|result| result.map(|()| false))
        })
        .await?)
    }

    async fn sleep_until(&self, due_ns: Option<u64>) {
        match due_ns {
            Some(due_ns) => self.executor.sleep_until(due_ns).await,
            None => pending().await,
        }
    }

    /// Handles notices from other connections, and expired requests.
    async fn take_news(&mut self) -> Result<(), Ended> {
        if self.handle.ends() {
            return Err(Ended);
        }
        let moment = Host::moment();
        for notice in self.handle.take_notices() {
            self.dialogue.take_notice(notice, moment, &mut self.out)?;
        }
        self.dialogue.expire(moment, &mut self.out)?;
        self.send().await
    }

    /// Answers every complete message.
    async fn carry_out(&mut self) -> Result<(), Ended> {
        let moment = Host::moment();
        while let Some(message) = self.inbox.next_message()? {
            let after = self.dialogue.receive(message, moment, &mut self.out)?;
            if after == After::Close {
                self.send().await?;
                return Err(Ended);
            }
            if self.out.len() >= MOST_WAITING_BYTES {
                self.send().await?;
            }
        }
        self.send().await
    }

    /// Sends the answers, then delivers notices to other connections.
    async fn send(&mut self) -> Result<(), Ended> {
        if !self.out.is_empty() {
            if self.delay_ns > 0 {
                self.executor.sleep_until(Host::moment().ns + self.delay_ns).await;
            }
            let (socket, handle, out) = (&self.socket, &self.handle, &mut self.out);
            poll_fn(|context| {
                let sent = socket.poll_send_all(out, context, NEVER)?;
                // Notices can wait until the client reads its data. An order to end the connection can't.
                match sent.is_pending() && handle.wakeup.poll(context) && handle.ends() {
                    true => Poll::Ready(Err(Ended)),
                    false => sent.map(Ok),
                }
            })
            .await?;
        }
        self.dialogue.host.connections.deliver(&mut self.dialogue.notices);
        Ok(())
    }
}

/// Receive buffer; `buffer[start..end]` is unprocessed.
#[derive(Default)]
struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// Returns space for the rest of the current message, or a default amount.
    fn room(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let under_way = self.message_bytes().map_or(0, |bytes| {
            FRAME_BYTES + bytes.min(MOST_MESSAGE_BYTES) + SLACK_BYTES
        });
        let wanted = under_way.max(FIRST_BYTES).max(self.end + SLACK_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Returns the length that the next frame declares.
    fn message_bytes(&self) -> Option<usize> {
        let frame = self.buffer[self.start..self.end].first_chunk::<FRAME_BYTES>()?;
        Some(u32::from_be_bytes(*frame) as usize)
    }

    /// Takes the next complete message.
    fn next_message(&mut self) -> Result<Option<&mut [u8]>, Ended> {
        let Some(bytes) = self.message_bytes() else {
            return Ok(None);
        };
        // The type in the first byte must be 0. Read as the high byte of the length, any other type makes the length
        // too large.
        if !(SMB1_HEADER_BYTES..=MOST_MESSAGE_BYTES).contains(&bytes) {
            return Err(Ended);
        }
        let start = self.start + FRAME_BYTES;
        if self.end < start + bytes {
            return Ok(None);
        }
        self.start = start + bytes;
        Ok(Some(&mut self.buffer[start..start + bytes]))
    }
}
