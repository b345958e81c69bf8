//! One connection: requests come in, answers go out in their order, until one side has had enough.
//!
//! Not for: how answers are sent (`responder.rs`), wrong answers (`misbehaviour.rs`).

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

/// How long a refused client may go on sending.
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
            // Nothing was asked: the generator counts it on its own side.
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
    // A client that leaves or is too slow is nothing to report: the generator counts failures on its own side.
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

/// The server's side of a connection.
struct Connection<'a> {
    responder: Responder<'a>,
    worker: &'a Worker,
    endpoint: Endpoint,
    /// Received and not understood yet: part of a head, or requests sent ahead. Mostly empty, and then not allocated.
    unread: Vec<u8>,
    /// Nothing more is there until the kernel reports it.
    drained: bool,
}

/// What is to be done next.
enum Step<'a> {
    Wait,
    End,
    /// The connection goes on as one of HTTP/2.
    Http2,
    Refuse(Status),
    Answer(&'a Resource, Ask),
    Page(Document, Ask),
    /// A server behind this one makes what is at the target.
    HandOn(Vec<u8>, Ask),
}

/// How a connection ended.
enum End {
    Closed,
    /// As one of HTTP/1: it goes on.
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
            // A buffer that was not filled has emptied the socket: a second call to see that is spared.
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

    /// What the first head in `bytes` asks to be done, and how many bytes that takes; None while there is no whole one.
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
            // What is made from the whole request is made in `read`.
            Resource::RequestCount | Resource::Page | Resource::Application(_) => {
                let count = self.worker.shared.requests();
                self.responder
                    .send(&Document::text(&count.to_string()), ask)
                    .await
            }
        }
    }

    /// Answers what load asks for: counted, and wrong where the server has a fault.
    async fn answer_load(&self, document: &Document, ask: Ask) -> Result<Persistence, Failure> {
        match self.worker.shared.options.fault {
            Some(fault) if !ask.head_only => Box::pin(misbehave(&self.responder, fault, document, ask)).await,
            _ => self.responder.counted(self.responder.send(document, ask)).await,
        }
    }

    /// Answers with what a server behind this one makes; with 502 where it makes nothing.
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

    /// Answers with `status`, then takes for a while what the client may still be sending: a close over unread bytes
    /// is a reset, which can take the answer away from the client (RFC 9112, section 9.6).
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
