//! NFSv3, MOUNT and the portmapper over UDP: one datagram per call and per reply.
//!
//! UDP is off by default, because the server trusts the source address of datagrams, like every UDP server
//! without authentication.

use super::dialogue::{After, Dialogue};
use super::fault::Fault;
use super::host::Host;
use dyno_measure::monotonic_ns;
use dyno_net::{Datagrams, Executor, MOST_DATAGRAM_BYTES};
use dyno_nfs::wire::{Transport, RECORD_MARK_BYTES};
use std::net::SocketAddr;
use std::sync::Arc;

/// Consecutive datagrams after which the task yields to the others.
const IN_A_TURN: u32 = 16;

/// Answers datagrams until the server stops. Ignores anything that is not a call.
pub(super) async fn serve_datagrams(socket: Datagrams, executor: Executor, host: Arc<Host>, thread: usize) {
    let delay_ns = Fault::delay_ns(host.options.fault);
    let mut dialogue = Dialogue::new(host, thread, Transport::Udp);
    let (mut buffer, mut out, mut served) = (vec![0; MOST_DATAGRAM_BYTES], Vec::new(), 0_u32);
    while let Ok((bytes, client)) = socket.receive(&mut buffer).await {
        let after = dialogue.answer(&buffer[..bytes], &mut out);
        if delay_ns > 0 {
            executor.sleep_until(monotonic_ns() + delay_ns).await;
        }
        if after.is_ok() {
            send(&socket, &out, after == Ok(After::Close), client);
        }
        out.clear();
        served = served.wrapping_add(1);
        if served % IN_A_TURN == 0 {
            executor.give_way().await;
        }
    }
}

/// Sends each record in `out` as a datagram. If a fault damaged the reply so that TCP would close the
/// connection, sends everything after the first record mark as one datagram.
fn send(socket: &Datagrams, out: &[u8], is_spoilt: bool, client: SocketAddr) {
    let mut rest = out;
    while let Some((mark, behind)) = rest.split_first_chunk::<RECORD_MARK_BYTES>() {
        let length = (u32::from_be_bytes(*mark) & (u32::MAX >> 1)) as usize;
        let (datagram, next) = match behind.split_at_checked(length) {
            Some(split) if !is_spoilt => split,
            _ => (behind, &[][..]),
        };
        socket.send(datagram, client);
        rest = next;
    }
}
