//! The one question that is asked in SMB 1 (MS-CIFS 2.2.4.52): whether a server that ended the connection at the first
//! message of SMB 2 knows no newer version. One that takes no more connections ends this one, too.
//!
//! It is asked before load alone. Not for SMB 1 itself, which is not spoken.

use crate::wire::FRAME_BYTES;
use crate::Refusal;
use dyno_measure::{Detail, Failure, Fault};
use dyno_net::Dialer;

/// What a message of SMB 1 begins with.
const ID: [u8; 4] = *b"\xffSMB";
const NEGOTIATE: u8 = 0x72;
/// Of the header, behind the command: no status, names without case, names of any length, status codes of NT, and numbers.
const REST_OF_HEADER: [u8; 27] = [
    0, 0, 0, 0, 0x18, 0x01, 0xc8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
];
/// From the oldest that is a file server's to the last before SMB 2.
const VERSIONS: [&str; 4] = ["PC NETWORK PROGRAM 1.0", "LANMAN1.0", "LM1.2X002", "NT LM 0.12"];

/// Returns the failure of a session that was not made, with the reason where the server knows nothing newer than SMB 1.
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

/// Whether the answer to NEGOTIATE is of SMB 1, whichever version it chooses.
async fn is_spoken(dialer: &Dialer) -> Result<bool, Failure> {
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
