//! One GET outside of load: to read the consent, to check a server, or to prove which server answers. Uses
//! the sockets, parser and limits of the load, and one deadline.

use crate::consent::Target;
use crate::conversation::Conversation;
use crate::failures::silent;
use crate::h2::{self, RequestMaker};
use crate::request::{RequestStyle, Shape, Version};
use crate::response::{Body, Limits, Progress, ResponseReader};
use crate::stream::{PlainTcp, Received, Stream, Transport};
use crate::tls::{EvenShare, TlsOverTcp};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::run_alone;
use std::cell::RefCell;
use std::rc::Rc;

const BUFFER_BYTES: usize = 16 * 1024;

/// Response of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The `Server` header, if present and valid text.
    pub server: Option<String>,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// Whether `body` is complete.
    pub whole: bool,
}

enum Asked {
    Http1(Box<[u8]>),
    Http2(h2::Request),
}

impl Target {
    /// Sends `GET path` on a new connection and reads the answer until `deadline_ns` (monotonic clock). Keeps the first
    /// `most_bytes` of the body. Over HTTP/1, it does not read the rest.
    pub fn get(&self, path: &str, deadline_ns: u64, most_bytes: usize) -> Result<Answer, Failure> {
        let request = if self.speaks_http2() {
            let maker = RequestMaker::new(self.host(), self.is_secure(), &Shape::default());
            Asked::Http2(maker.request(path))
        } else {
            let style = RequestStyle {
                version: Version::Http11,
                keep_alive: false,
                host: self.host().to_owned(),
            };
            Asked::Http1(style.get(path))
        };
        let connector = self.tls().map(|client| client.connector());
        run_alone(deadline_ns, |executor| {
            let dialer = Rc::new(self.dialer(executor, 0));
            async move {
                let Some(connector) = connector else {
                    return ask(PlainTcp::new(dialer), &request, deadline_ns, most_bytes).await;
                };
                let buffer = Rc::new(RefCell::new(vec![0; BUFFER_BYTES].into_boxed_slice()));
                let tls = TlsOverTcp::new(dialer, connector, EvenShare::new(0.0), buffer);
                ask(tls, &request, deadline_ns, most_bytes).await
            }
        })
    }

    /// Connects to the target without sending a request. Gives up at `deadline_ns` (monotonic clock).
    pub fn connect(&self, deadline_ns: u64) -> Result<(), Failure> {
        run_alone(deadline_ns, |executor| {
            let dialer = Rc::new(self.dialer(executor, 0));
            async move { PlainTcp::new(dialer).open(&[]).await.map(|_| ()) }
        })
    }
}

async fn ask(
    transport: impl Transport,
    request: &Asked,
    deadline_ns: u64,
    most_bytes: usize,
) -> Result<Answer, Failure> {
    let beginning = Beginning {
        most_bytes,
        ..Beginning::default()
    };
    match request {
        Asked::Http1(request) => ask_http1(transport, request, deadline_ns, beginning).await,
        Asked::Http2(request) => ask_http2(transport, request, deadline_ns, beginning).await,
    }
}

async fn ask_http2(
    mut transport: impl Transport,
    request: &h2::Request,
    deadline_ns: u64,
    beginning: Beginning,
) -> Result<Answer, Failure> {
    let mut session = h2::Session::new(Limits::default());
    let place = session.open(request, beginning);
    let first = std::mem::take(session.outgoing());
    let mut stream = transport.open(&first).await?.stream;
    session.all_sent();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match stream.receive(&mut buffer, &mut |data| {
            session.feed(data).map(|()| Progress::More)
        })? {
            Received::Nothing => stream.readable().await?,
            Received::End => return Err(Fault::ClosedEarly.into()),
            Received::Some(_) => {}
        }
        if let Some(ended) = session.take(place) {
            return Ok(ended.body.answer(ended.result?));
        }
        let outgoing = std::mem::take(session.outgoing());
        if !outgoing.is_empty() {
            stream.send_all(&outgoing).await?;
            session.all_sent();
        }
        if monotonic_ns() >= deadline_ns {
            return Err(Fault::ResponseTimeout.into());
        }
    }
}

async fn ask_http1(
    mut transport: impl Transport,
    request: &[u8],
    deadline_ns: u64,
    mut beginning: Beginning,
) -> Result<Answer, Failure> {
    let mut stream = transport.open(request).await?.stream;
    let mut reader = ResponseReader::new(Limits::default());
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let arrival = stream
            .receive(&mut buffer, &mut |data| reader.feed(data, &mut beginning))
            .map_err(|failure| silent(failure, reader.received_bytes()))?;
        let progress = match arrival {
            Received::Nothing => {
                stream.readable().await?;
                Progress::More
            }
            Received::End => {
                let ended = reader.end(&mut beginning);
                ended.map_err(|failure| silent(failure, reader.received_bytes()))?;
                Progress::Done
            }
            Received::Some(progress) => progress,
        };
        if let Some(head) = reader
            .head()
            .filter(|_| progress == Progress::Done || beginning.is_cut)
        {
            return Ok(beginning.answer(head.status));
        }
        // Check the time here: if a server sends as fast as it is read, the loop never checks the deadline.
        if monotonic_ns() >= deadline_ns {
            return Err(Fault::ResponseTimeout.into());
        }
    }
}

#[derive(Default)]
struct Beginning {
    most_bytes: usize,
    server: Option<String>,
    body: Vec<u8>,
    is_cut: bool,
}

impl Beginning {
    fn answer(self, status: u16) -> Answer {
        Answer {
            status,
            server: self.server,
            body: self.body,
            whole: !self.is_cut,
        }
    }
}

impl Body for Beginning {
    fn wants_fields(&mut self) -> bool {
        true
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.server.is_none() && name.eq_ignore_ascii_case(b"server") {
            self.server = std::str::from_utf8(value).ok().map(str::to_owned);
        }
    }

    fn part(&mut self, data: &[u8], _last: bool) {
        let room = self.most_bytes - self.body.len();
        self.is_cut |= data.len() > room;
        self.body.extend_from_slice(&data[..data.len().min(room)]);
    }
}
