//! NEGOTIATE (MS-CIFS 2.2.4.52), the only SMB 1 request, sent only before load. It tests whether a server that closed
//! the connection after the first SMB 2 message supports only SMB 1. A server at its connection limit also closes the
//! connection of this request.
//!
//! SMB 1 is otherwise not supported.

use crate::wire::FRAME_BYTES;
use crate::Refusal;
use dyno_measure::{Detail, Failure, Fault};
use dyno_net::Dialer;

/// Protocol ID of an SMB 1 message.
const ID: [u8; 4] = *b"\xffSMB";
const NEGOTIATE: u8 = 0x72;
/// Header fields after the command: no status, case-insensitive names, long names, NT status codes, and
/// IDs.
const REST_OF_HEADER: [u8; 27] = [
    0, 0, 0, 0, 0x18, 0x01, 0xc8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
];
/// Dialects to offer, from the oldest one of file servers to the last one before SMB 2.
const VERSIONS: [&str; 4] = ["PC NETWORK PROGRAM 1.0", "LANMAN1.0", "LM1.2X002", "NT LM 0.12"];

/// Returns `failure`. If the server closed the connection because it supports only SMB 1, adds that reason.
pub(crate) async fn explained(failure: Failure, dialer: &Dialer) -> Failure {
    let hung_up =
        matches!(failure.detail, Detail::Refused { step, .. } if Refusal::of(step) == Some(Refusal::HungUp));
    if !hung_up || !is_spoken(dialer).await.unwrap_or(false) {
        return failure;
    }
    Failure {
        detail: Refusal::Smb1Alone.detail(0),
        ..failure
    }
}

/// Returns whether the response to NEGOTIATE is SMB 1, for any selected dialect.
async fn is_spoken(dialer: &Dialer) -> Result<bool, Failure> {
    dialer.turn(1).await;
    let socket = dialer.dial(None)?;
    socket.send_first(&negotiate()).await?;
    let mut answer = [0; FRAME_BYTES + ID.len()];
    let mut filled = 0;
    while filled < answer.len() {
        match socket.try_receive(&mut answer[filled..])? {
            Some(0) => return Ok(false),
            Some(count) => filled += count,
            None => socket.readable(Fault::ResponseTimeout).await?,
        }
    }
    Ok(answer.ends_with(&ID))
}

fn negotiate() -> Vec<u8> {
    let names: Vec<u8> = VERSIONS
        .iter()
        .flat_map(|name| [b"\x02", name.as_bytes(), b"\0"].concat())
        .collect();
    let length = u16::try_from(names.len()).unwrap_or(u16::MAX).to_le_bytes();
    let message = [&ID[..], &[NEGOTIATE], &REST_OF_HEADER, &[0], &length, &names].concat();
    let frame = u32::try_from(message.len()).unwrap_or(0).to_be_bytes();
    [&frame[..], &message].concat()
}
