//! UDP: single requests before a session exists, and waiting for a datagram until the next retransmission.
//! `retransmission.rs` handles concurrent requests of a session.

use super::retransmission::{FIRST_TIMEOUT_NS, MOST_TIMEOUT_NS};
use crate::wire::{Body, Message, Records, Transport, RECORD_MARK_BYTES};
use dyno_files::Traffic;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::{Dialer, Executor, Socket};
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::task::Poll;

/// Sends a request repeatedly, each time once the rate limit permits it, until its answer arrives or the task's
/// deadline passes. Ignores other datagrams.
pub(super) async fn exchange(
    executor: &Executor,
    (dialer, socket): (&Dialer, &Socket),
    message: &Message,
    xid: u32,
    traffic: &mut Traffic,
) -> Result<(Vec<u8>, Body), Failure> {
    let mut records = Records::over(Transport::Udp, 0);
    let mut timeout_ns = FIRST_TIMEOUT_NS;
    let datagram = &message.bytes()[RECORD_MARK_BYTES..];
    loop {
        dialer.turn(1).await;
        socket.send_all(datagram, Fault::ResponseTimeout).await?;
        traffic.bytes_out += datagram.len() as u64;
        let due_ns = monotonic_ns().saturating_add(timeout_ns);
        loop {
            if let Some(range) = records.next_record()? {
                match Body::parse(&records.bytes()[range.clone()]) {
                    Ok((answered, body)) if answered == xid => {
                        let record = records.bytes()[range].to_vec();
                        return Ok((record, body));
                    }
                    _ => continue,
                }
            }
            if executor.deadline_passed() {
                return Err(Fault::ResponseTimeout.into());
            }
            match socket.try_receive(records.room())? {
                Some(count) => {
                    records.filled(count);
                    traffic.bytes_in += count as u64;
                }
                None if arrives_by(executor, socket, due_ns).await? => {}
                None => break,
            }
        }
        timeout_ns = (2 * timeout_ns).min(MOST_TIMEOUT_NS);
    }
}

/// Waits for data; returns false if none arrived by `due_ns`.
pub(super) async fn arrives_by(executor: &Executor, socket: &Socket, due_ns: u64) -> Result<bool, Failure> {
    let mut alarm = pin!(executor.sleep_until(due_ns));
    let mut arrival = pin!(socket.readable(Fault::ResponseTimeout));
    poll_fn(|context| match alarm.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(Ok(false)),
        Poll::Pending => arrival.as_mut().poll(context).map_ok(|()| true),
    })
    .await
}
