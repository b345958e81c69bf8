//! Implementation of the faults. Nothing here runs forever: endless answers stop at a limit, or when the
//! client disconnects.
//!
//! The code is not optimized: these answers are built on request.

use super::documents::Document;
use super::fault::{Fault, Kind};
use super::opening::{Persistence, Status};
use super::request::Ask;
use super::responder::Responder;
use crate::common::{incompressible, random, NS_PER_MS};
use crate::fault::garbage;
use dyno_measure::{monotonic_ns, Failure, Fault as Outcome};

const ENDLESS_BYTES: usize = 64 << 20;
const HUGE_HEAD_BYTES: usize = 1 << 20;
const CHUNK_BYTES: usize = 1000;
const FRESH_MS: u64 = 50;
const TIRED_MS: u64 = 100;
const FILLER_FIELD: &[u8] = b"X-Filler: 0123456789012345678901234567890123456789012345\r\n";
const CHUNKED_FIELD: &str = "Transfer-Encoding: chunked\r\n";
const INTERIM: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";

/// Answers a GET of `document` with `fault`. Returns the state of the connection after the answer.
pub(crate) async fn misbehave(
    responder: &Responder<'_>,
    fault: Fault,
    document: &Document,
    ask: Ask,
) -> Result<Persistence, Failure> {
    let worker = responder.worker;
    match fault.kind {
        Kind::Delay => answer_late(responder, fault.value_ns(), document, ask).await,
        Kind::RandomDelay => {
            let delay_ns = exponential_ns(fault.value_ns());
            answer_late(responder, delay_ns, document, ask).await
        }
        Kind::Tire => {
            let fresh = responder.answers.get() < u64::from(fault.value);
            responder.answers.set(responder.answers.get() + 1);
            let delay_ms = if fresh { FRESH_MS } else { TIRED_MS };
            answer_late(responder, delay_ms * NS_PER_MS, document, ask).await
        }
        Kind::Stall => responder.discard_until_end().await.map(|()| Persistence::Close),
        Kind::Reset => responder.wire.reset_on_close().map(|()| Persistence::Close),
        Kind::EndlessHead => {
            let start = worker.opening(document.status, ask.after);
            send_without_end(responder, &start, FILLER_FIELD).await
        }
        Kind::EndlessChunks => {
            let mut start = worker.opening(document.status, ask.after).to_vec();
            start.extend(content_head(document, CHUNKED_FIELD));
            send_without_end(responder, &start, &chunked(&incompressible(CHUNK_BYTES))).await
        }
        Kind::SlowDrip => {
            let opening = worker.opening(document.status, ask.after);
            let bytes = [&opening, document.whole()].concat();
            responder
                .counted(drip(responder, &bytes, fault.value as usize))
                .await?;
            Ok(ask.after)
        }
        Kind::CloseIdle => {
            responder.answers.set(responder.answers.get() + 1);
            let after = responder.counted(responder.send(document, ask)).await?;
            let more = responder.answers.get() < u64::from(fault.value);
            Ok(if more { after } else { Persistence::Close })
        }
        kind => {
            let (bytes, after) = wrong_answer(responder, kind, document, ask);
            responder.counted(responder.send_bytes(&bytes)).await?;
            Ok(after)
        }
    }
}

/// Answers correctly after a delay.
async fn answer_late(
    responder: &Responder<'_>,
    delay_ns: u64,
    document: &Document,
    ask: Ask,
) -> Result<Persistence, Failure> {
    let due_ns = monotonic_ns() + delay_ns;
    responder.worker.executor.sleep_until(due_ns).await;
    responder.counted(responder.send(document, ask)).await
}

/// Draws a time from the exponential distribution with this mean.
fn exponential_ns(mean_ns: u64) -> u64 {
    // Greater than 0 and at most 1, a multiple of 2^-53.
    let drawn = ((u64::from_ne_bytes(random()) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-drawn.ln() * mean_ns as f64) as u64
}

/// Returns the bytes of a wrong answer, and the state of the connection after the answer.
fn wrong_answer(
    responder: &Responder<'_>,
    kind: Kind,
    document: &Document,
    ask: Ask,
) -> (Vec<u8>, Persistence) {
    let (kept, closed) = (ask.after, Persistence::Close);
    let opening = |after: Persistence| responder.worker.opening(document.status, after);
    let (whole, body) = (document.whole(), document.body());
    let length_field = |length: usize| content_head(document, &format!("Content-Length: {length}\r\n"));
    let longer = length_field(body.len() + 1);
    match kind {
        Kind::HugeHead => {
            let filler = FILLER_FIELD.repeat(HUGE_HEAD_BYTES / FILLER_FIELD.len());
            ([&opening(kept), filler.as_slice(), whole].concat(), kept)
        }
        Kind::ShortBody => ([&opening(kept), longer.as_slice(), body].concat(), closed),
        Kind::LongBody => ([&opening(kept), whole, b"excess"].concat(), kept),
        Kind::BadChunk => {
            let head = content_head(document, CHUNKED_FIELD);
            let (first, second) = body.split_at(body.len() / 2);
            (
                [
                    &opening(kept),
                    head.as_slice(),
                    &chunked(first),
                    b"zz\r\n",
                    second,
                ]
                .concat(),
                closed,
            )
        }
        Kind::EarlyClose => (opening(kept)[..opening(kept).len() / 2].to_vec(), closed),
        Kind::Garbage => (garbage(), closed),
        Kind::WrongContent => {
            let mut bytes = [&opening(kept), whole].concat();
            let middle = bytes.len() - body.len().div_ceil(2);
            // An empty body has no byte to change.
            if !body.is_empty() {
                bytes[middle] ^= 1;
            }
            (bytes, kept)
        }
        Kind::WrongLength => ([&opening(kept), longer.as_slice(), body, b"+"].concat(), kept),
        Kind::Status500 => {
            let refusal = responder.worker.shared.site.refusal(Status::InternalServerError);
            let opening = responder.worker.opening(refusal.status, kept);
            ([&opening, refusal.whole()].concat(), kept)
        }
        Kind::Chunked if ask.modern => {
            let head = content_head(document, CHUNKED_FIELD);
            (
                [&opening(kept), head.as_slice(), &chunked(body), b"0\r\n\r\n"].concat(),
                kept,
            )
        }
        Kind::Chunked | Kind::CloseDelimited | Kind::Truncate => {
            let head = content_head(document, "");
            ([&opening(closed), head.as_slice(), body].concat(), closed)
        }
        // RFC 9110, section 15.2: HTTP/1.0 has no interim responses.
        Kind::Interim if ask.modern => ([INTERIM, &opening(kept), whole].concat(), kept),
        _ => ([&opening(kept), whole].concat(), kept),
    }
}

/// Returns the end of a head with a different framing of the body.
fn content_head(document: &Document, framing: &str) -> Vec<u8> {
    format!("Content-Type: {}\r\n{framing}\r\n", document.content_type).into_bytes()
}

/// Returns `body` in chunked coding, without the last chunk (the empty one).
fn chunked(body: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    for chunk in body.chunks(CHUNK_BYTES) {
        coded.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        coded.extend(chunk);
        coded.extend(b"\r\n");
    }
    coded
}

/// Sends an endless answer. Never succeeds, because the answer is never completed.
async fn send_without_end(
    responder: &Responder<'_>,
    start: &[u8],
    again: &[u8],
) -> Result<Persistence, Failure> {
    responder.send_bytes(start).await?;
    let block = again.repeat(32);
    for _ in 0..ENDLESS_BYTES / block.len() {
        responder.send_bytes(&block).await?;
    }
    Err(Outcome::ResponseTimeout.into())
}

async fn drip(responder: &Responder<'_>, bytes: &[u8], at_once: usize) -> Result<(), Failure> {
    let executor = &responder.worker.executor;
    for part in bytes.chunks(at_once) {
        if executor.deadline_passed() {
            return Err(Outcome::ResponseTimeout.into());
        }
        responder.send_bytes(part).await?;
        executor.sleep_until(monotonic_ns() + NS_PER_MS).await;
    }
    Ok(())
}
