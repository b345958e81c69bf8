//! One GET outside of a mix: the question of consent, the first look at a server, the proof of who answers.
//!
//! It has the bounds of load: the same sockets and the same parser, one deadline for everything. Of the body it keeps a
//! beginning. Not for load: nothing here is counted.

use crate::consent::Target;
use crate::request::{RequestStyle, Version};
use crate::response::{Body, Limits, Progress, ResponseReader};
use crate::stream::{PlainTcp, Received, Stream, Transport};
use crate::tls::{EvenShare, TlsOverTcp};
use dyno_measure::{monotonic_ns, Detail, Failure, Fault};
use dyno_net::Executor;
use rustix::io::Errno;
use std::cell::RefCell;
use std::rc::Rc;

const BUFFER_BYTES: usize = 16 * 1024;

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The `Server` header, where there is one that is text.
    pub server: Option<String>,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// Whether the body is all of it.
    pub whole: bool,
}

impl Target {
    /// Sends `GET path` on a connection of its own, and reads the answer until `deadline_ns` of the monotonic clock. Of
    /// the body it keeps the first `most_bytes`, and reads no further.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn get(&self, path: &str, deadline_ns: u64, most_bytes: usize) -> Result<Answer, Failure> {
        let style = RequestStyle {
            version: Version::Http11,
            keep_alive: false,
            host: self.host().to_owned(),
        };
        let executor = Executor::new().map_err(system_failure)?;
        let answered = Rc::new(RefCell::new(Err(Fault::ResponseTimeout.into())));
        let (slot, handle) = (answered.clone(), executor.clone());
        let (dialer, request) = (Rc::new(self.dialer(&executor, 0)), style.get(path));
        let connector = self.tls().map(|client| client.connector());
        executor.spawn(async move {
            handle.set_deadline(deadline_ns);
            let asked = match connector {
                None => ask(PlainTcp::new(dialer), &request, deadline_ns, most_bytes).await,
                Some(connector) => {
                    let buffer = Rc::new(RefCell::new(vec![0; BUFFER_BYTES].into_boxed_slice()));
                    let tls = TlsOverTcp::new(dialer, connector, EvenShare::new(0.0), buffer);
                    ask(tls, &request, deadline_ns, most_bytes).await
                }
            };
            *slot.borrow_mut() = asked;
        });
        executor.run(|| false).map_err(system_failure)?;
        answered.replace(Err(Fault::ResponseTimeout.into()))
    }
}

impl Target {
    /// Makes a connection until `deadline_ns` of the monotonic clock, and asks nothing on it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn connect(&self, deadline_ns: u64) -> Result<(), Failure> {
        let executor = Executor::new().map_err(system_failure)?;
        let connected = Rc::new(RefCell::new(Err(Fault::ConnectTimeout.into())));
        let (slot, handle, dialer) = (connected.clone(), executor.clone(), self.dialer(&executor, 0));
        executor.spawn(async move {
            handle.set_deadline(deadline_ns);
            let opened = PlainTcp::new(Rc::new(dialer)).open(&[]).await;
            *slot.borrow_mut() = opened.map(|_| ());
        });
        executor.run(|| false).map_err(system_failure)?;
        connected.replace(Err(Fault::ConnectTimeout.into()))
    }
}

async fn ask(
    mut transport: impl Transport,
    request: &[u8],
    deadline_ns: u64,
    most_bytes: usize,
) -> Result<Answer, Failure> {
    let mut stream = transport.open(request).await?.stream;
    let mut reader = ResponseReader::new(Limits::default());
    let mut beginning = Beginning {
        most_bytes,
        ..Beginning::default()
    };
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let arrival = stream.receive(&mut buffer, &mut |data| reader.feed(data, &mut beginning))?;
        let progress = match arrival {
            Received::Nothing => {
                stream.readable().await?;
                Progress::More
            }
            Received::End => {
                reader.end(&mut beginning)?;
                Progress::Done
            }
            Received::Some(progress) => progress,
        };
        if let Some(head) = reader
            .head()
            .filter(|_| progress == Progress::Done || beginning.is_cut)
        {
            return Ok(Answer {
                status: head.status,
                server: beginning.server,
                body: beginning.body,
                whole: !beginning.is_cut,
            });
        }
        // A server that sends as fast as it is read never lets the loop see that the time is up.
        if monotonic_ns() >= deadline_ns {
            return Err(Fault::ResponseTimeout.into());
        }
    }
}

/// What is kept of an answer.
#[derive(Default)]
struct Beginning {
    most_bytes: usize,
    server: Option<String>,
    body: Vec<u8>,
    is_cut: bool,
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

fn system_failure(error: Errno) -> Failure {
    Failure {
        fault: Fault::OtherIo,
        detail: Detail::Errno(error.raw_os_error()),
    }
}
