//! One connection: receives requests with their bodies, and sends answers in order.

use super::answer::Answer;
use super::host::Host;
use super::misbehaviour::{spoil, Sending};
use super::operations::carry_out;
use super::payload::Dechunker;
use super::refusal::{Code, Refusal};
use super::request::{parse, Framing, Method, Parsed, Request};
use super::signature::SigningKey;
use crate::fault::garbage;
use crate::http::{Received, Wire, LATE};
use dyno_measure::{monotonic_ns, Failure, NS_PER_S};
use dyno_net::{Executor, Socket};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

const RECEIVE_BYTES: usize = 65_536;
/// Time limit for a request and its answer, counted from the start of the request or of its body.
const PATIENCE_NS: u64 = 60 * NS_PER_S;
/// Time for which a refused client may continue sending.
const LINGER_NS: u64 = NS_PER_S;
/// Maximum length of a body: S3's limit for a single PUT, plus the framing of its chunks.
const MAX_BODY_BYTES: u64 = (5 << 30) + (64 << 20);
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// State of a server thread for all its connections.
pub(super) struct Worker {
    pub(super) executor: Executor,
    host: Arc<Host>,
    number: usize,
    /// Receive buffer of all connections: no task waits between filling it and emptying it.
    buffer: RefCell<Vec<u8>>,
    key: SigningKey,
}

impl Worker {
    pub(super) fn new(executor: Executor, host: Arc<Host>, number: usize) -> Self {
        Self {
            executor,
            host,
            number,
            buffer: RefCell::new(vec![0; RECEIVE_BYTES]),
            key: SigningKey::default(),
        }
    }

    fn renew_patience(&self) {
        self.executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    }
}

/// Serves a connection to its end. A client that disconnects or is too slow is not reported, because the
/// generator counts the failure.
pub(super) async fn serve(socket: Socket, worker: Rc<Worker>) {
    worker.renew_patience();
    let wire = match &worker.host.tls {
        Some(tls) => match tls.accept(socket, &worker.buffer).await {
            Ok(channel) => Wire::secure(channel),
            Err(_) => return,
        },
        None => Wire::Plain(socket),
    };
    let mut connection = Connection {
        wire,
        worker: &worker,
        unread: Vec::new(),
    };
    let _ = connection.run().await;
    connection.wire.close_session();
}

struct Connection<'a> {
    wire: Wire,
    worker: &'a Worker,
    /// Bytes that were received and not used yet.
    unread: Vec<u8>,
}

impl Connection<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        loop {
            let (request, length) = match parse(&self.unread) {
                Parsed::Partial => {
                    if !self.fill().await? {
                        return Ok(());
                    }
                    continue;
                }
                Parsed::Refused(refusal) => return self.refuse(&refusal).await,
                Parsed::Whole { request, length } => (request, length),
            };
            self.worker.renew_patience();
            self.unread.drain(..length);
            let body = match self.body(&request).await? {
                Ok(body) => body,
                Err(refusal) => return self.refuse(&refusal).await,
            };
            self.worker.renew_patience();
            if !self.answer(&request, body).await? {
                return Ok(());
            }
        }
    }

    /// Receives more data into `unread`. Returns false at the end of the connection.
    async fn fill(&mut self) -> Result<bool, Failure> {
        loop {
            let received = {
                let mut buffer = self.worker.buffer.borrow_mut();
                let received = self.wire.receive(&mut buffer[..], &mut self.unread)?;
                if let Received::InBuffer(count) = received {
                    self.unread.extend_from_slice(&buffer[..count]);
                }
                received
            };
            match received {
                Received::End => return Ok(false),
                Received::Unread | Received::InBuffer(_) => return Ok(true),
                Received::Nothing => self.wire.readable().await?,
            }
        }
    }

    /// Receives the body of a request, without HTTP's own chunks.
    async fn body(&mut self, request: &Request) -> Result<Result<Vec<u8>, Refusal>, Failure> {
        let most = MAX_BODY_BYTES.min(self.worker.host.space.capacity().saturating_add(1 << 20));
        if matches!(request.framing, Framing::Length(length) if length > most) {
            return Ok(Err(Code::EntityTooLarge.into()));
        }
        let is_there =
            matches!(request.framing, Framing::Length(length) if self.unread.len() as u64 >= length);
        if request.expects_continue && !is_there {
            self.wire.send_all(CONTINUE).await?;
        }
        let mut body = Vec::new();
        match request.framing {
            Framing::Length(length) => loop {
                // Does not truncate: the buffer fits in memory.
                let missing = length - body.len() as u64;
                let here = usize::try_from(missing)
                    .unwrap_or(usize::MAX)
                    .min(self.unread.len());
                body.extend_from_slice(&self.unread[..here]);
                self.unread.drain(..here);
                if body.len() as u64 == length {
                    return Ok(Ok(body));
                }
                if !self.fill().await? {
                    return Err(LATE.into());
                }
            },
            Framing::Chunked => {
                let mut dechunker = Dechunker::default();
                loop {
                    match dechunker.take(&self.unread, &mut body, most) {
                        Ok(used) => drop(self.unread.drain(..used)),
                        Err(refusal) => return Ok(Err(refusal)),
                    }
                    if dechunker.is_done() {
                        return Ok(Ok(body));
                    }
                    if !self.fill().await? {
                        return Err(LATE.into());
                    }
                }
            }
        }
    }

    /// Answers a request. Returns whether the connection continues.
    async fn answer(&mut self, request: &Request, body: Vec<u8>) -> Result<bool, Failure> {
        let worker = self.worker;
        let strikes = &worker.host.strikes;
        let mut done = carry_out(&worker.host, request, body, &worker.key);
        let is_get = request.method == Method::Get;
        let sending = if done.may_strike {
            spoil(strikes, &mut done.answer, is_get)
        } else {
            Sending::Whole
        };
        if done.may_strike && strikes.delay_ns() > 0 {
            worker
                .executor
                .sleep_until(monotonic_ns() + strikes.delay_ns())
                .await;
        }
        // Count before sending: when a client has the answer, it must already be counted.
        worker.host.counts.add(worker.number, done.operation as usize);
        let head = self.head(&done.answer, request.is_kept);
        match sending {
            Sending::Whole => self.send(&head, &done.answer).await?,
            Sending::Never => self.discard_until_end().await?,
            Sending::Close => {}
            Sending::HalfHead => self.wire.send_all(&head[..head.len() / 2]).await?,
            Sending::HalfBody => {
                let body = done.answer.body.concat();
                self.wire.send_pair(&head, &body[..body.len() / 2]).await?;
            }
            Sending::Garbage => self.wire.send_all(&garbage()).await?,
        }
        Ok(request.is_kept && sending == Sending::Whole)
    }

    fn head(&self, answer: &Answer, is_kept: bool) -> Vec<u8> {
        let date = httpdate::fmt_http_date(SystemTime::now());
        let id = self.worker.host.request_id();
        let mut head = format!(
            "HTTP/1.1 {} {}\r\nDate: {date}\r\nServer: {}\r\nx-amz-request-id: {id:016X}\r\nConnection: {}\r\n",
            answer.status,
            answer.reason(),
            crate::http::SOFTWARE,
            if is_kept { "keep-alive" } else { "close" },
        );
        // RFC 9110, section 8.6: 204 has no length, and the length in a 304 would be that of the object.
        if answer.status != 204 && answer.status != 304 {
            head += &format!("Content-Length: {}\r\n", answer.length);
        }
        head += &answer.fields;
        head += "\r\n";
        head.into_bytes()
    }

    async fn send(&self, head: &[u8], answer: &Answer) -> Result<(), Failure> {
        let first = answer.body.first().map_or(&b""[..], |piece| piece);
        self.wire.send_pair(head, first).await?;
        for piece in answer.body.iter().skip(1) {
            self.wire.send_all(piece).await?;
        }
        Ok(())
    }

    /// Refuses a request whose end is unknown, then discards data that the client still sends. Closing a socket with
    /// unread data causes a reset, which can destroy the answer (RFC 9112, section 9.6).
    async fn refuse(&mut self, refusal: &Refusal) -> Result<(), Failure> {
        let answer = refusal.answer("/", self.worker.host.request_id());
        let head = self.head(&answer, false);
        self.send(&head, &answer).await?;
        self.wire.end_sending()?;
        self.worker.executor.set_deadline(monotonic_ns() + LINGER_NS);
        self.discard_until_end().await
    }

    async fn discard_until_end(&mut self) -> Result<(), Failure> {
        while !self.worker.executor.deadline_passed() && self.fill().await? {
            self.unread.clear();
        }
        Ok(())
    }
}
