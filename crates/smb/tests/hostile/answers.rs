//! Wrong answers to any request, and their effect on the client.

use crate::scripted::{
    asynchronous, break_notice, failed, frame, pending, response, Answer, Request, CLOSE, FILE_ID,
};
use dyno_measure::Fault;

pub type Twist = fn(&Request, Vec<u8>) -> Answer;

/// The effect on the client: None, or the fault of its first failed call.
pub type End = Option<Fault>;

pub fn bytes(bytes: &[u8]) -> Answer {
    Answer::Bytes(bytes.to_vec())
}

pub fn message(message: Vec<u8>) -> Answer {
    Answer::Messages(vec![message])
}

/// Returns `honest` with some bytes replaced.
pub fn with(mut honest: Vec<u8>, at: usize, bytes: &[u8]) -> Answer {
    let end = (at + bytes.len()).min(honest.len());
    if at < end {
        honest[at..end].copy_from_slice(&bytes[..end - at]);
    }
    message(honest)
}

pub fn random(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Returns the same answer repeated as the parts of one compound.
pub fn compound(honest: &[u8], parts: usize, next: u32) -> Vec<u8> {
    let mut whole = Vec::new();
    for part in 0..parts {
        let mut one = honest.to_vec();
        one.resize(one.len().next_multiple_of(8), 0);
        if part + 1 < parts {
            let next = if next == 0 {
                u32::try_from(one.len()).expect("short")
            } else {
                next
            };
            one[20..24].copy_from_slice(&next.to_le_bytes());
        }
        whole.extend(one);
    }
    whole
}

pub fn lease_break(key: [u8; 16], flags: u8) -> Vec<u8> {
    let mut body = vec![44, 0, 1, 0, flags, 0, 0, 0];
    body.extend(key);
    body.resize(44, 0);
    let mut message = response(18, u64::MAX, 0, &body);
    message[36..48].fill(0);
    message
}

pub const LOST: End = Some(Fault::MalformedMessage);
pub const LATE: End = Some(Fault::ResponseTimeout);
pub const CLOSED: End = Some(Fault::ClosedEarly);

/// Answers to any request. Each has two effects: as the answer to the first message, and as the answer to a READ after
/// the session has worked.
pub const ANY: &[(&str, Twist, End, End)] = &[
    // Content and timing.
    ("silence", |_, _| Answer::Silence, LATE, LATE),
    (
        "the end of the connection",
        |_, _| Answer::End(vec![]),
        CLOSED,
        CLOSED,
    ),
    (
        "a reset",
        |_, _| Answer::Reset(vec![]),
        Some(Fault::ConnectionReset),
        Some(Fault::ConnectionReset),
    ),
    ("half a length, then silence", |_, _| bytes(&[0, 0]), LATE, LATE),
    (
        "half a length, then the end",
        |_, _| Answer::End(vec![0, 0]),
        CLOSED,
        CLOSED,
    ),
    (
        "half a header, then silence",
        |_, honest| bytes(&frame(&honest)[..40]),
        LATE,
        LATE,
    ),
    (
        "half a body, then the end",
        |_, honest| Answer::End(frame(&honest)[..70].to_vec()),
        CLOSED,
        CLOSED,
    ),
    (
        "all but the last byte",
        |_, honest| bytes(&frame(&honest)[..honest.len() + 3]),
        LATE,
        LATE,
    ),
    (
        "a byte now and then",
        |_, honest| Answer::Trickle(frame(&[honest, vec![0; 4000]].concat())),
        LATE,
        LATE,
    ),
    (
        "breaks, a byte now and then",
        |_, _| Answer::Trickle(frame(&break_notice([7; 16], 1))),
        LATE,
        LATE,
    ),
    // Frames.
    (
        "the longest length",
        |_, _| bytes(&[0, 0xff, 0xff, 0xff]),
        LOST,
        LOST,
    ),
    (
        "a length beyond the agreed",
        |_, _| bytes(&[0, 0x30, 0, 0]),
        LOST,
        LOST,
    ),
    ("a length of nothing", |_, _| bytes(&[0; 4]), LOST, LOST),
    (
        "a length below a header",
        |_, _| bytes(&[0, 0, 0, 63]),
        LOST,
        LOST,
    ),
    ("a NetBIOS keep-alive", |_, _| bytes(&[0x85, 0, 0, 0]), LOST, LOST),
    (
        "a flood of ones",
        |_, _| Answer::Flood(vec![0xff; 65_536]),
        LOST,
        LOST,
    ),
    (
        "a flood of zeros",
        |_, _| Answer::Flood(vec![0; 65_536]),
        LOST,
        LOST,
    ),
    (
        "a flood of noise",
        |_, _| Answer::Flood(random(65_536)),
        LOST,
        LOST,
    ),
    // Other protocols.
    (
        "HTTP",
        |_, _| bytes(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
        LOST,
        LOST,
    ),
    (
        "SSH",
        |_, _| bytes(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"),
        LOST,
        LOST,
    ),
    (
        "a TLS alert",
        |_, _| bytes(&[0x15, 3, 1, 0, 2, 2, 40]),
        LOST,
        LOST,
    ),
    ("SMB 1", |_, honest| with(honest, 0, b"\xffSMB"), LOST, LOST),
    (
        "an encrypted message without keys",
        |_, honest| with(honest, 0, b"\xfdSMB"),
        LOST,
        LOST,
    ),
    (
        "a compressed message",
        |_, honest| with(honest, 0, b"\xfcSMB"),
        LOST,
        LOST,
    ),
    // Headers.
    (
        "a header of another size",
        |_, honest| with(honest, 4, &[65]),
        LOST,
        LOST,
    ),
    (
        "another command",
        |_, honest| with(honest, 12, &[4, 0]),
        LOST,
        LOST,
    ),
    (
        "a command that there is not",
        |_, honest| with(honest, 12, &[0x77, 0x77]),
        LOST,
        LOST,
    ),
    (
        "a request instead of a response",
        |_, honest| with(honest, 16, &[0]),
        LOST,
        LOST,
    ),
    (
        "a message that nobody sent",
        |_, honest| with(honest, 24, &[0xaa; 4]),
        LOST,
        LOST,
    ),
    (
        "the message before once more",
        |request, honest| with(honest, 24, &request.message_id.wrapping_sub(1).to_le_bytes()),
        LOST,
        LOST,
    ),
    (
        "a response twice",
        |_, honest| Answer::Messages(vec![honest.clone(), honest]),
        LOST,
        LOST,
    ),
    (
        "a response to no message first",
        |_, honest| Answer::Messages(vec![response(CLOSE, 0x5555, 0, &[60, 0]), honest]),
        LOST,
        LOST,
    ),
    (
        "a response a hundred times",
        |_, honest| Answer::Messages(vec![honest; 100]),
        LOST,
        LOST,
    ),
    (
        "no credits any more",
        |_, honest| with(honest, 14, &[0, 0]),
        Some(Fault::NoCredit),
        None,
    ),
    (
        "all credits there are",
        |_, honest| with(honest, 14, &[0xff, 0xff]),
        None,
        None,
    ),
    // Compounds.
    (
        "a next message beyond the end",
        |_, honest| with(honest, 20, &[0, 0, 1, 0]),
        LOST,
        LOST,
    ),
    (
        "a next message within the header",
        |_, honest| with(honest, 20, &[8, 0, 0, 0]),
        LOST,
        LOST,
    ),
    (
        "a next message out of step",
        |_, honest| with(honest, 20, &[65, 0, 0, 0]),
        LOST,
        LOST,
    ),
    (
        "a next message at the last byte",
        |_, honest| {
            let at = u32::try_from(honest.len()).expect("short").to_le_bytes();
            with(honest, 20, &at)
        },
        LOST,
        LOST,
    ),
    (
        "one answer as two parts",
        |_, honest| message(compound(&honest, 2, 0)),
        LOST,
        LOST,
    ),
    (
        "one answer as 100 parts",
        |_, honest| message(compound(&honest, 100, 0)),
        LOST,
        LOST,
    ),
    (
        "parts that overlap",
        |_, honest| message(compound(&honest, 3, 64)),
        LOST,
        LOST,
    ),
    // Pending.
    (
        "pending for good",
        |request, _| message(pending(request)),
        LATE,
        LATE,
    ),
    (
        "pending without end",
        |request, _| Answer::Flood(frame(&pending(request))),
        LOST,
        LOST,
    ),
    (
        "pending, then another number",
        |request, honest| {
            let mut other = asynchronous(honest);
            other[32] ^= 1;
            Answer::Messages(vec![pending(request), other])
        },
        LOST,
        LOST,
    ),
    (
        "pending, and not asynchronous",
        |request, _| message(failed(request, 0x103)),
        LOST,
        LOST,
    ),
    // Bodies.
    (
        "a header without a body",
        |_, honest| message(honest[..64].to_vec()),
        LOST,
        LOST,
    ),
    (
        "one byte of a body",
        |_, honest| message(honest[..65].to_vec()),
        LOST,
        LOST,
    ),
    (
        "a body of ones",
        |_, honest| with(honest, 64, &[0xff; 4096]),
        LOST,
        LOST,
    ),
    (
        "a body of zeros",
        |_, honest| with(honest, 64, &[0; 4096]),
        LOST,
        LOST,
    ),
    (
        "a body of noise",
        |_, honest| with(honest, 64, &random(4096)),
        LOST,
        LOST,
    ),
    (
        "an error without its body",
        |request, _| message(failed(request, 0xC000_0001)[..64].to_vec()),
        Some(Fault::SessionRefused),
        LOST,
    ),
    // Status codes.
    (
        "an error that there is not",
        |request, _| message(failed(request, 0xC0DE_DEAD)),
        Some(Fault::SessionRefused),
        Some(Fault::ErrorStatus),
    ),
    (
        "a warning that there is not",
        |request, _| message(failed(request, 0x8000_1234)),
        Some(Fault::SessionRefused),
        Some(Fault::ErrorStatus),
    ),
    (
        "the session's end",
        |request, _| message(failed(request, 0xC000_0203)),
        Some(Fault::SessionRefused),
        Some(Fault::SessionLost),
    ),
    (
        "more to be done",
        |request, _| message(failed(request, 0xC000_0016)),
        Some(Fault::SessionRefused),
        Some(Fault::ErrorStatus),
    ),
    (
        "a full disk",
        |request, _| message(failed(request, 0xC000_007F)),
        Some(Fault::SessionRefused),
        Some(Fault::NoSpace),
    ),
    // Breaks.
    (
        "a break of an unknown handle",
        |_, honest| Answer::Messages(vec![break_notice([7; 16], 1), honest]),
        None,
        None,
    ),
    (
        "a break of an unknown lease",
        |_, honest| Answer::Messages(vec![lease_break([7; 16], 1), honest]),
        None,
        None,
    ),
    (
        "a thousand breaks of nothing",
        |_, honest| {
            let mut messages = vec![break_notice([7; 16], 1); 1000];
            messages.push(honest);
            Answer::Messages(messages)
        },
        None,
        None,
    ),
    (
        "breaks of nothing without end",
        |_, _| Answer::Flood(frame(&break_notice([7; 16], 1))),
        LATE,
        LATE,
    ),
    (
        "breaks of our handle without end",
        |_, _| Answer::Flood(frame(&break_notice(FILE_ID, 0))),
        LATE,
        LATE,
    ),
    (
        "a break to a level that there is not",
        |_, honest| Answer::Messages(vec![break_notice([7; 16], 9), honest]),
        LOST,
        LOST,
    ),
    (
        "half a break",
        |_, _| message(break_notice(FILE_ID, 1)[..70].to_vec()),
        LOST,
        LOST,
    ),
    (
        "a break of another size",
        |_, _| with(break_notice(FILE_ID, 1), 64, &[33]),
        LOST,
        LOST,
    ),
    (
        "a break that is no break",
        |_, _| with(break_notice(FILE_ID, 1), 12, &[8]),
        LOST,
        LOST,
    ),
];
