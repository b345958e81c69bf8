//! Transport of one connection: splits received data into records, and sends replies as fast as the client
//! reads them.
//!
//! While a client does not read, the server does not read its calls, so the server's buffers are bounded.

use super::dialogue::{After, Dialogue};
use super::fault::Fault;
use super::host::Host;
use crate::common::NS_PER_MS;
use dyno_measure::{monotonic_ns, Failure, Fault as Outcome};
use dyno_net::{Executor, Socket};
use dyno_nfs::wire::{Records, Transport};
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

/// Maximum size of a record: the largest WRITE, including its headers.
const MOST_RECORD_BYTES: usize = (1 << 20) + 16_384;
/// Limit of unsent replies. Above it, replies are sent before further calls are executed.
const MOST_WAITING_BYTES: usize = 256 << 10;
/// Consecutive receive calls after which the task yields to the others.
const RECEIVES_IN_A_TURN: u32 = 16;
/// Maximum time for which a call waits for the return of a delegation: Linux's `NFSD_DELEGRETURN_TIMEOUT`.
const WAIT_NS: u64 = 30 * NS_PER_MS;
const LOOK_AGAIN_NS: u64 = NS_PER_MS / 2;
/// Failure of a timeout, which never occurs without a deadline.
const NEVER: Outcome = Outcome::ResponseTimeout;

/// Serves a connection to its end. A client that disconnects or violates the protocol is not reported,
/// because the generator counts the failure.
pub(super) async fn serve(socket: Socket, executor: Executor, host: Arc<Host>, thread: usize) {
    let connection = Connection {
        socket,
        executor,
        delay_ns: Fault::delay_ns(host.options.fault),
        dialogue: Dialogue::new(host, thread, Transport::Tcp),
        records: Records::new(MOST_RECORD_BYTES),
        out: Vec::new(),
    };
    let _ = connection.run().await;
}

struct Connection {
    socket: Socket,
    executor: Executor,
    dialogue: Dialogue,
    records: Records,
    out: Vec<u8>,
    delay_ns: u64,
}

impl Connection {
    async fn run(mut self) -> Result<(), Failure> {
        let (mut more_is_there, mut receives) = (true, 0_u32);
        loop {
            if !more_is_there {
                self.wait().await?;
            }
            let room = self.records.room();
            let room_bytes = room.len();
            more_is_there = match self.socket.try_receive(room)? {
                None => false,
                Some(0) => return Ok(()),
                Some(count) => {
                    self.records.filled(count);
                    // A short read means that the socket is empty. But the kernel reports the end of the
                    // stream only once, so read again after that report.
                    count == room_bytes || self.socket.end_reported()
                }
            };
            if self.carry_out().await? == After::Close {
                return Ok(());
            }
            receives += 1;
            if receives % RECEIVES_IN_A_TURN == 0 {
                self.executor.give_way().await;
            }
        }
    }

    /// Waits until data arrives or a callback to the client is due.
    async fn wait(&mut self) -> Result<(), Failure> {
        let connection = self.dialogue.connection();
        poll_fn(|context| match connection.poll_woken(context) {
            true => Poll::Ready(Ok(())),
            false => self.socket.poll_readable(context, NEVER),
        })
        .await?;
        if connection.is_bound() {
            self.dialogue.write_calls(&mut self.out);
        }
        Ok(())
    }

    /// Answers every complete record.
    async fn carry_out(&mut self) -> Result<After, Failure> {
        while let Some(range) = self.records.next_record()? {
            let after = self.answer(range).await?;
            if after == After::Close {
                self.send().await?;
                return Ok(after);
            }
            if self.out.len() >= MOST_WAITING_BYTES {
                self.send().await?;
            }
        }
        self.send().await?;
        Ok(After::GoOn)
    }

    /// Answers a call. A call that conflicts with a delegation first waits up to `WAIT_NS` for its return, as
    /// in Linux's server. This is usually faster than a retry after DELAY.
    async fn answer(&mut self, range: Range<usize>) -> Result<After, Failure> {
        let record = &self.records.bytes()[range];
        let mut after = self.dialogue.answer_or_wait(record, &mut self.out)?;
        if after != After::Wait {
            return Ok(after);
        }
        let until_ns = monotonic_ns() + WAIT_NS;
        while after == After::Wait {
            let now_ns = monotonic_ns();
            self.executor.sleep_until(now_ns + LOOK_AGAIN_NS).await;
            after = match now_ns < until_ns {
                true => self.dialogue.answer_or_wait(record, &mut self.out)?,
                false => self.dialogue.answer(record, &mut self.out)?,
            };
        }
        Ok(after)
    }

    async fn send(&mut self) -> Result<(), Failure> {
        if self.delay_ns > 0 && !self.out.is_empty() {
            self.executor.sleep_until(monotonic_ns() + self.delay_ns).await;
        }
        self.socket.send_all(&self.out, NEVER).await?;
        self.out.clear();
        Ok(())
    }
}
