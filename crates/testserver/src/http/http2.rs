//! HTTP/2 with the `h2` crate, which the generator does not use. It starts after the client's preface on an
//! unencrypted connection, or if ALPN selects it.
//!
//! It serves the same documents, application and counts as HTTP/1. Faults exist only in HTTP/1: a server with
//! a fault does not speak HTTP/2.

use super::application::Wish;
use super::documents::{Document, Endpoint, Place, Resource};
use super::opening::Status;
use super::request::{path, MAX_BODY_BYTES};
use super::wire::{Wire, LATE};
use super::worker::Worker;
use bytes::Bytes;
use dyno_measure::Failure;
use dyno_net::tls::{Arrived, Channel, Flow, ServerSide};
use dyno_net::Socket;
use h2::server::{Builder, SendResponse};
use h2::RecvStream;
use http::{header, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const MAX_STREAMS: u32 = 1024;
const MAX_HEADER_LIST_BYTES: u32 = 16 * 1024;

/// Serves a connection to its end. `received`: data that has already been received.
pub(crate) async fn serve(wire: Wire, received: Vec<u8>, worker: Rc<Worker>, endpoint: Endpoint) {
    let Some(carrier) = Carrier::of(wire, received, worker.clone()) else {
        return;
    };
    let handshake = Builder::new()
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST_BYTES)
        .handshake::<_, Bytes>(carrier);
    let Ok(mut connection) = handshake.await else {
        return;
    };
    // Do not report a client that disconnects or breaks a rule: the generator counts the failure.
    while let Some(Ok((request, respond))) = connection.accept().await {
        worker.renew_patience();
        if request.body().is_end_stream() {
            answer(&worker, &request, &[], respond, endpoint);
        } else {
            // Use a separate task: the body may take long, and other streams must not wait for it. The task
            // ends with the connection.
            worker
                .executor
                .spawn(answer_with_body(worker.clone(), request, respond, endpoint));
        }
    }
}

/// Answers a request after receiving its body.
async fn answer_with_body(
    worker: Rc<Worker>,
    mut request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    endpoint: Endpoint,
) {
    let mut body = Vec::new();
    while let Some(part) = request.body_mut().data().await {
        let Ok(part) = part else { return };
        if body.len() + part.len() > MAX_BODY_BYTES {
            let refusal = worker.shared.site.refusal(Status::ContentTooLarge);
            return send(&worker, &mut respond, refusal, false, true);
        }
        body.extend_from_slice(&part);
        let window = request.body_mut().flow_control();
        if window.release_capacity(part.len()).is_err() {
            return;
        }
    }
    answer(&worker, &request, &body, respond, endpoint);
}

/// Answers immediately: every body is in memory, and `h2` buffers the part beyond the client's window.
fn answer<T>(
    worker: &Worker,
    request: &Request<T>,
    body: &[u8],
    mut respond: SendResponse<Bytes>,
    endpoint: Endpoint,
) {
    let site = &worker.shared.site;
    let at = path(request.uri().path().as_bytes());
    let (head_only, posted) = match *request.method() {
        Method::GET => (false, None),
        Method::HEAD => (true, None),
        Method::POST if site.takes_posts(at) => (false, Some(body)),
        _ => {
            let refusal = site.refusal(Status::MethodNotAllowed);
            return send(worker, &mut respond, refusal, false, true);
        }
    };
    let made;
    let (document, counts) = match site.at(at) {
        Resource::Document(document) => (document, true),
        Resource::Page => {
            let query = request.uri().query().unwrap_or_default();
            made = Document::page(
                request.uri().path().as_bytes(),
                query.as_bytes(),
                "HTTP/2.0",
                endpoint,
            );
            (&made, true)
        }
        Resource::Application(place) => {
            made = from_application(worker, *place, request.headers(), posted);
            (&made, true)
        }
        Resource::Extra(document) => (document, false),
        Resource::RequestCount => {
            made = Document::text(&worker.shared.requests().to_string());
            (&made, false)
        }
    };
    send(worker, &mut respond, document, head_only, counts);
}

fn from_application(worker: &Worker, place: Place, fields: &HeaderMap, body: Option<&[u8]>) -> Document {
    // Cookies may be in several fields (RFC 9113, section 8.2.3).
    let cookies = fields.get_all(header::COOKIE).iter();
    let cookie = cookies
        .map(HeaderValue::as_bytes)
        .collect::<Vec<_>>()
        .join(&b"; "[..]);
    let key = fields.get("x-key").map_or(&[][..], HeaderValue::as_bytes);
    let wish = Wish {
        body,
        cookie: &cookie,
        key,
    };
    worker.shared.application.answer(place, wish)
}

fn send(
    worker: &Worker,
    respond: &mut SendResponse<Bytes>,
    document: &Document,
    head_only: bool,
    counts: bool,
) {
    let body = document.body_bytes();
    let mut response = Response::new(());
    *response.status_mut() =
        StatusCode::from_u16(document.status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = response.headers_mut();
    fields.insert(header::DATE, worker.date());
    fields.insert(header::SERVER, HeaderValue::from_static(super::opening::SOFTWARE));
    for (name, value) in &document.fields {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value.parse()) {
            fields.append(name, value);
        }
    }
    fields.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(document.content_type),
    );
    fields.insert(header::CONTENT_LENGTH, body.len().into());
    let ends = head_only || body.is_empty();
    if counts {
        worker.count_answer();
    }
    let sent = respond.send_response(response, ends).and_then(|mut stream| {
        if ends {
            Ok(())
        } else {
            stream.send_data(body, true)
        }
    });
    if counts && sent.is_err() {
        worker.uncount_answer();
    }
}

/// A connection with the traits that `h2` requires.
struct Carrier {
    below: Below,
    /// Data received before `h2` started. `h2` has read the first `taken` bytes.
    received: Vec<u8>,
    taken: usize,
    worker: Rc<Worker>,
}

enum Below {
    Plain(Socket),
    Tls(Box<Channel<ServerSide>>),
}

impl Carrier {
    fn of(wire: Wire, received: Vec<u8>, worker: Rc<Worker>) -> Option<Self> {
        let below = match wire {
            Wire::Plain(socket) => Below::Plain(socket),
            Wire::Tls(place) => Below::Tls(place.into_inner()?),
        };
        let socket = match &below {
            Below::Plain(socket) => socket,
            Below::Tls(channel) => channel.socket(),
        };
        // Answers on different streams must not wait for each other's acknowledgement.
        socket.send_at_once().ok()?;
        Some(Self {
            below,
            received,
            taken: 0,
            worker,
        })
    }
}

impl AsyncRead for Carrier {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let rest = &this.received[this.taken..];
            if !rest.is_empty() {
                let count = rest.len().min(into.remaining());
                into.put_slice(&rest[..count]);
                this.taken += count;
                return Poll::Ready(Ok(()));
            }
            this.received.clear();
            this.taken = 0;
            match &mut this.below {
                Below::Plain(socket) => {
                    if let Some(count) = socket.try_receive(into.initialize_unfilled()).map_err(lost)? {
                        into.advance(count);
                        return Poll::Ready(Ok(()));
                    }
                    if socket.poll_readable(context, LATE).map_err(lost)?.is_pending() {
                        return Poll::Pending;
                    }
                }
                Below::Tls(channel) => {
                    let mut buffer = this.worker.buffer.borrow_mut();
                    let received = &mut this.received;
                    let arrived = channel.receive(&mut buffer[..], &mut |data| {
                        received.extend_from_slice(data);
                        Ok(Flow::More)
                    });
                    match arrived.map_err(lost)? {
                        Arrived::End if received.is_empty() => return Poll::Ready(Ok(())),
                        Arrived::Nothing
                            if channel.poll_readable(context, LATE).map_err(lost)?.is_pending() =>
                        {
                            return Poll::Pending;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

impl AsyncWrite for Carrier {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().below {
            Below::Plain(socket) => loop {
                if let Some(count) = socket.try_send(bytes).map_err(lost)? {
                    return Poll::Ready(Ok(count));
                }
                if socket.poll_writable(context, LATE).map_err(lost)?.is_pending() {
                    return Poll::Pending;
                }
            },
            Below::Tls(channel) => {
                if channel.poll_flush(context, LATE).map_err(lost)?.is_pending() {
                    return Poll::Pending;
                }
                channel.encrypt(bytes).map_err(lost)?;
                let _ = channel.poll_flush(context, LATE).map_err(lost)?;
                Poll::Ready(Ok(bytes.len()))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().below {
            Below::Plain(_) => Poll::Ready(Ok(())),
            Below::Tls(channel) => channel.poll_flush(context, LATE).map_err(lost),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = match &mut self.get_mut().below {
            Below::Plain(socket) => socket.end_sending(),
            Below::Tls(channel) => {
                channel.close_session();
                channel.socket().end_sending()
            }
        };
        Poll::Ready(ended.map_err(lost))
    }
}

fn lost(failure: Failure) -> io::Error {
    io::Error::other(failure.to_string())
}
