//! One connection: receives requests and sends answers in order until either side closes the connection.
//!
//! `responder.rs` sends the answers, `misbehaviour.rs` the wrong ones.

use super::documents::{Document, Endpoint, Resource};
use super::fault::Kind;
use super::http2;
use super::misbehaviour::misbehave;
use super::opening::{Persistence, Status};
use super::request::{parse, Ask, Parsed};
use super::responder::Responder;
use super::wire::{Received, Wire};
use super::worker::Worker;
use dyno_measure::{monotonic_ns, Failure, NS_PER_S};
use dyno_net::Socket;
use std::cell::Cell;
use std::rc::Rc;

/// Time for which a refused client may continue sending.
const LINGER_NS: u64 = NS_PER_S;

/// Serves a connection to its end.
pub(crate) async fn serve(socket: Socket, worker: Rc<Worker>, endpoint: Endpoint) {
    let options = &worker.shared.options;
    let commits = |kind| options.fault.is_some_and(|fault| fault.kind == kind);
    if commits(Kind::CloseAtOnce) {
        return;
    }
    worker.renew_patience();
    let wire = match &worker.shared.tls {
        Some(tls) if endpoint.secure => match tls.accept(socket, &worker.buffer).await {
            Ok(channel) => Wire::secure(channel),
            // The handshake failed, so there was no request. The generator counts the failure.
            Err(_) => return,
        },
        _ => Wire::Plain(socket),
    };
    if options.http2 && wire.chose_http2() {
        return http2::serve(wire, Vec::new(), worker, endpoint).await;
    }
    let mut connection = Connection {
        responder: Responder {
            wire,
            worker: &worker,
            answers: Cell::new(0),
        },
        worker: &worker,
        endpoint,
        unread: Vec::new(),
        drained: false,
    };
    // Do not report a client that disconnects or is too slow: the generator counts the failure.
    let ended = connection.run().await;
    if matches!(ended, Ok(End::Http2)) {
        let Connection {
            responder, unread, ..
        } = connection;
        return http2::serve(responder.wire, unread, worker.clone(), endpoint).await;
    }
    if !commits(Kind::Truncate) {
        connection.responder.wire.close_session();
    }
}

/// The server side of a connection.
struct Connection<'a> {
    responder: Responder<'a>,
    worker: &'a Worker,
    endpoint: Endpoint,
    /// Received data that was not parsed yet: part of a head, or pipelined requests. Usually empty and unallocated.
    unread: Vec<u8>,
    /// Whether the socket is empty until the kernel reports more data.
    drained: bool,
}

enum Step<'a> {
    Wait,
    End,
    /// Switch the connection to HTTP/2.
    Http2,
    Refuse(Status),
    Answer(&'a Resource, Ask),
    Page(Document, Ask),
    /// Forward the request: a backend generates the document at the target.
    HandOn(Vec<u8>, Ask),
}

/// How a connection ended.
enum End {
    Closed,
    /// The connection switches to HTTP/2.
    Http2,
}

impl<'a> Connection<'a> {
    async fn run(&mut self) -> Result<End, Failure> {
        loop {
            match self.step()? {
                Step::Wait => {
                    self.responder.wire.readable().await?;
                    self.drained = false;
                }
                Step::Page(page, ask) => {
                    self.worker.renew_patience();
                    if self.answer_load(&page, ask).await? == Persistence::Close {
                        return Ok(End::Closed);
                    }
                }
                Step::HandOn(target, ask) => {
                    self.worker.renew_patience();
                    if self.hand_on(&target, ask).await? == Persistence::Close {
                        return Ok(End::Closed);
                    }
                }
                Step::End => return Ok(End::Closed),
                Step::Http2 => return Ok(End::Http2),
                Step::Refuse(status) => return self.refuse(status).await.map(|()| End::Closed),
                Step::Answer(resource, ask) => {
                    self.worker.renew_patience();
                    if self.answer(resource, ask).await? == Persistence::Close {
                        return Ok(End::Closed);
                    }
                }
            }
        }
    }

    fn step(&mut self) -> Result<Step<'a>, Failure> {
        loop {
            if let Some((step, taken)) = self.read(&self.unread) {
                self.unread.drain(..taken);
                return Ok(step);
            }
            if self.drained {
                return Ok(Step::Wait);
            }
            let mut buffer = self.worker.buffer.borrow_mut();
            let received = match self.responder.wire.receive(&mut buffer[..], &mut self.unread)? {
                Received::Nothing => return Ok(Step::Wait),
                Received::End => return Ok(Step::End),
                Received::Unread => continue,
                Received::InBuffer(count) => count,
            };
            // After a short read the socket is empty, unless the kernel has reported the end. This saves a `recv`.
            self.drained = received < buffer.len() && !self.responder.wire.end_reported();
            let data = &buffer[..received];
            if self.unread.is_empty() {
                if let Some((step, taken)) = self.read(data) {
                    self.unread.extend_from_slice(&data[taken..]);
                    return Ok(step);
                }
            }
            self.unread.extend_from_slice(data);
        }
    }

    /// Returns the step for the first request in `bytes`, and the length of the request in bytes; None if the request
    /// is incomplete.
    fn read(&self, bytes: &[u8]) -> Option<(Step<'a>, usize)> {
        if bytes.is_empty() {
            return None;
        }
        let site = &self.worker.shared.site;
        match parse(bytes, |path| site.takes_posts(path)) {
            Parsed::Partial => None,
            Parsed::Preface if self.worker.shared.options.http2 => Some((Step::Http2, 0)),
            Parsed::Preface => Some((Step::Refuse(Status::VersionNotSupported), bytes.len())),
            Parsed::Refused(status) => Some((Step::Refuse(status), bytes.len())),
            Parsed::Whole { request, length } if self.worker.behind.takes(request.path) => {
                let target = if request.query.is_empty() {
                    request.path.to_vec()
                } else {
                    [request.path, b"?", request.query].concat()
                };
                Some((Step::HandOn(target, request.ask), length))
            }
            Parsed::Whole { request, length } => {
                let step = match site.at(request.path) {
                    Resource::Page => {
                        let protocol = if request.ask.modern {
                            "HTTP/1.1"
                        } else {
                            "HTTP/1.0"
                        };
                        let page = Document::page(request.path, request.query, protocol, self.endpoint);
                        Step::Page(page, request.ask)
                    }
                    Resource::Application(place) => {
                        let application = &self.worker.shared.application;
                        Step::Page(application.answer(*place, request.wish), request.ask)
                    }
                    resource => Step::Answer(resource, request.ask),
                };
                Some((step, length))
            }
        }
    }

    async fn answer(&self, resource: &Resource, ask: Ask) -> Result<Persistence, Failure> {
        match resource {
            Resource::Document(document) => self.answer_load(document, ask).await,
            Resource::Extra(document) => self.responder.send(document, ask).await,
            // Only the request count gets here: `read` has already generated pages, because they depend on
            // the whole request.
            Resource::RequestCount | Resource::Page | Resource::Application(_) => {
                let count = self.worker.shared.requests();
                self.responder
                    .send(&Document::text(&count.to_string()), ask)
                    .await
            }
        }
    }

    /// Answers a load request: counts it, and injects the server's fault, if any.
    async fn answer_load(&self, document: &Document, ask: Ask) -> Result<Persistence, Failure> {
        match self.worker.shared.options.fault {
            Some(fault) if !ask.head_only => Box::pin(misbehave(&self.responder, fault, document, ask)).await,
            _ => self.responder.counted(self.responder.send(document, ask)).await,
        }
    }

    /// Forwards a request to a backend. Answers with 502 if that fails.
    async fn hand_on(&self, target: &[u8], ask: Ask) -> Result<Persistence, Failure> {
        let relayed = self.worker.behind.ask(target, &self.worker.buffer).await;
        self.worker.renew_patience();
        let Ok(relayed) = relayed else {
            let refusal = self.worker.shared.site.refusal(Status::BadGateway);
            return self.responder.counted(self.responder.send(refusal, ask)).await;
        };
        let (head, body) = relayed.parts(ask.after, ask.head_only);
        let sending = self.responder.wire.send_pair(&head, body);
        self.responder.counted(sending).await?;
        Ok(ask.after)
    }

    /// Answers with `status`, then discards data that the client may still send. Closing a socket with unread data
    /// causes a reset, which can destroy the answer before the client reads it (RFC 9112, section 9.6).
    async fn refuse(&self, status: Status) -> Result<(), Failure> {
        let ask = Ask {
            head_only: false,
            modern: false,
            after: Persistence::Close,
        };
        let refusal = self.worker.shared.site.refusal(status);
        self.responder.counted(self.responder.send(refusal, ask)).await?;
        self.responder.wire.end_sending()?;
        self.worker.executor.set_deadline(monotonic_ns() + LINGER_NS);
        self.responder.discard_until_end().await
    }
}
