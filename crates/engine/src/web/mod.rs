//! Work on documents over HTTP: what is asked for, and the client threads that ask.

mod client;
mod page;
mod split;
mod streams;

use crate::client::{ClientState, ClientThread};
use crate::engine_thread::EngineThread;
use crate::kind::Work;
use crate::protocol::Protocol;
use crate::sampling::{Sampling, SAMPLING_STREAM};
pub(crate) use client::Stated;
use client::{BodyDigest, Web, WebCatalogue};
use dyno_http::h2::{Lane, RequestMaker};
use dyno_http::{
    Connecting, Connection, EvenShare, Limits, PlainTcp, RequestStyle, Shape, Target, TlsOverTcp, Transport,
    Version,
};
use dyno_measure::Failure;
use dyno_reactor::Dialer;
use dyno_tls::TlsClient;
use dyno_workload::{
    Catalogue, Entry, Get, Outcome, Shares, SingleUrl, Tree, WebbenchDynamic, WebbenchStatic, WeightedUrls,
    Workload,
};
use page::{Page, PAGE_STREAM};
use split::Split;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use streams::{StreamCatalogue, WebStreams};

/// What clients ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WebWorkload {
    /// The WebBench static tree.
    WebbenchStatic,
    /// The WebBench static tree and the dynamic page, a part of them over TLS.
    WebbenchDynamic(Shares),
    /// The target's own URL, again and again.
    Url,
    /// Several paths of the target's server, each with a weight.
    Urls(Vec<(String, u32)>),
}

impl WebWorkload {
    /// Whether a part of the requests goes over TLS, beside others in the clear.
    pub(crate) fn is_split(&self) -> bool {
        matches!(self, Self::WebbenchDynamic(shares) if shares.secure > 0)
    }

    fn catalogue(&self, target: &Target) -> Catalogue {
        match self {
            Self::WebbenchStatic => below(target, Catalogue::webbench_static(&Tree::load())),
            Self::WebbenchDynamic(shares) => {
                let page = dyno_page::PATH;
                let catalogue = Catalogue::webbench_dynamic(&Tree::load(), page, shares.secure > 0);
                below(target, catalogue)
            }
            Self::Url => Catalogue::single_url(target.path()),
            Self::Urls(paths) => {
                let paths: Vec<String> = paths.iter().map(|(path, _)| path.clone()).collect();
                Catalogue::urls(&paths)
            }
        }
    }

    fn of_thread(&self, seed: u64, client: usize, thread: usize) -> AnyWorkload {
        let number = |place| u32::try_from(place).unwrap_or(u32::MAX);
        let (client, thread) = (number(client), number(thread));
        match self {
            Self::WebbenchStatic => {
                AnyWorkload::WebbenchStatic(WebbenchStatic::new(Tree::load(), seed, client, thread))
            }
            Self::WebbenchDynamic(shares) => AnyWorkload::WebbenchDynamic(WebbenchDynamic::new(
                Tree::load(),
                *shares,
                seed,
                client,
                thread,
            )),
            Self::Url => AnyWorkload::Url(SingleUrl),
            Self::Urls(paths) => {
                let weights: Vec<u32> = paths.iter().map(|(_, weight)| *weight).collect();
                AnyWorkload::Urls(WeightedUrls::new(&weights, seed, client, thread))
            }
        }
    }
}

/// A catalogue whose paths lie below the path of the server's URL.
fn below(target: &Target, mut catalogue: Catalogue) -> Catalogue {
    let base = target.path().trim_end_matches('/');
    for entry in &mut catalogue.entries {
        entry.path.insert_str(0, base);
    }
    catalogue
}

/// How clients use HTTP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WebClientOptions {
    /// The HTTP version that requests name, where they name one.
    pub version: Version,
    /// HTTP/2, with so many threads of a client on one connection; None: HTTP/1.
    pub streams: Option<usize>,
    /// Use a connection again.
    pub keep_alive: bool,
    /// Close with a reset instead of an ordinary close.
    pub reset: bool,
    /// Make a new socket for every connection also on loopback, where it can be spared.
    pub fresh_sockets: bool,
    /// The most that one receive call takes.
    pub receive_buffer_bytes: usize,
}

/// How clients use TLS.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    pub client: TlsClient,
    /// The share of connections that offer an earlier session.
    pub resumption: f64,
}

/// Where requests go.
#[derive(Debug)]
pub(crate) struct Targets {
    pub target: Target,
    /// Where the target speaks TLS, and how.
    pub tls: Option<Tls>,
    /// Where the same server speaks TLS beside a target in the clear, and how.
    pub secure: Option<(Target, Tls)>,
}

/// One workload or the other; an enum because it lies in the hot path.
#[derive(Debug)]
enum AnyWorkload {
    WebbenchStatic(WebbenchStatic),
    WebbenchDynamic(WebbenchDynamic),
    Url(SingleUrl),
    Urls(WeightedUrls),
}

impl Workload for AnyWorkload {
    type Op = Get;

    fn next(&mut self, last: &Outcome) -> Get {
        match self {
            Self::WebbenchStatic(workload) => workload.next(last),
            Self::WebbenchDynamic(workload) => workload.next(last),
            Self::Url(workload) => workload.next(last),
            Self::Urls(workload) => workload.next(last),
        }
    }
}

/// Documents over HTTP, with every request built.
#[derive(Debug)]
pub(crate) struct WebWork {
    target: Target,
    workload: WebWorkload,
    options: WebClientOptions,
    /// Where the target speaks it.
    tls: Option<Tls>,
    /// Where the same server speaks TLS beside a target in the clear, and how.
    secure: Option<(Target, Tls)>,
    /// Whether a request may be sent twice.
    repeat: bool,
    catalogue: Arc<WebCatalogue>,
    /// Of HTTP/2, and how many threads share a connection.
    streams: Option<(Arc<StreamCatalogue>, usize)>,
    classes: Vec<String>,
}

impl WebWork {
    pub(crate) fn new(
        targets: Targets,
        workload: WebWorkload,
        options: WebClientOptions,
        shape: &Shape,
        stated: Option<Stated>,
    ) -> Self {
        let Targets { target, tls, secure } = targets;
        let catalogue = workload.catalogue(&target);
        let beside = secure.as_ref().map(|(target, _)| target.host().to_owned());
        let host = target.host().to_owned();
        let style = |entry: &Entry| RequestStyle {
            version: options.version,
            keep_alive: options.keep_alive,
            host: beside
                .clone()
                .filter(|_| entry.secure)
                .unwrap_or_else(|| host.clone()),
        };
        let streams = options.streams.map(|streams| {
            let maker = RequestMaker::new(target.host(), target.is_secure(), shape);
            let catalogue = StreamCatalogue::new(&catalogue, &maker, stated.clone());
            (Arc::new(catalogue), streams)
        });
        let method = &shape.method;
        let classes = catalogue.classes.iter().map(|class| format!("{method} {class}"));
        Self {
            target,
            workload,
            options,
            tls,
            repeat: shape.is_idempotent(),
            classes: classes.collect(),
            catalogue: Arc::new(WebCatalogue::new(&catalogue, style, shape, stated)),
            streams,
            secure,
        }
    }

    /// Puts client threads that speak HTTP/2 on a loop.
    fn seat_streams<T: Transport + 'static>(
        &self,
        engine: &Rc<EngineThread>,
        transport: impl Fn(&Seat) -> T + 'static,
    ) {
        let Some((catalogue, streams)) = self.streams.clone() else {
            return;
        };
        let lane = RefCell::new(None);
        let web = move |seat: &Seat, of| seat.web_streams(&catalogue, streams, &lane, &transport, of);
        engine.executor.spawn(self.seating(engine.clone(), web));
    }

    /// Makes the client threads of one engine thread once the mix has started, over what `protocol` makes for each of
    /// them by its number.
    fn seating<P: Protocol<Op = Get> + 'static>(
        &self,
        engine: Rc<EngineThread>,
        protocol: impl Fn(&Seat, (usize, usize)) -> P + 'static,
    ) -> impl std::future::Future<Output = ()> + 'static {
        let (workload, options, catalogue) = (self.workload.clone(), self.options, self.catalogue.clone());
        let repeat = self.repeat;
        async move {
            let start_ns = engine.start.wait(&engine.executor).await;
            let mix = &engine.mix;
            let buffer = vec![0; options.receive_buffer_bytes].into_boxed_slice();
            let seat = Seat {
                engine: engine.clone(),
                connecting: Connecting {
                    keep_alive: options.keep_alive,
                    reset: options.reset,
                    repeat,
                    timeout_ns: mix.timeout_ns,
                },
                buffer: Rc::new(RefCell::new(buffer)),
                catalogue,
            };
            for (place, client) in engine.clients().enumerate() {
                let state = ClientState::new(place);
                for thread in 0..mix.threads {
                    let client_thread = ClientThread::new(&engine, start_ns, (client, thread), state.clone());
                    let mut web = protocol(&seat, (client, thread));
                    let mut workload = workload.of_thread(mix.seed, client, thread);
                    engine
                        .executor
                        .spawn(async move { client_thread.run(&mut workload, &mut web).await });
                }
            }
        }
    }

    /// What makes the connections of one engine thread to a target.
    fn dialer(&self, target: &Target, thread: &EngineThread) -> Rc<Dialer> {
        let dialer = target.dialer(&thread.executor, thread.dialer_number());
        Rc::new(if self.options.fresh_sockets {
            dialer.with_fresh_sockets()
        } else {
            dialer
        })
    }
}

/// What the client threads of one engine thread share.
struct Seat {
    engine: Rc<EngineThread>,
    connecting: Connecting,
    buffer: Rc<RefCell<Box<[u8]>>>,
    catalogue: Arc<WebCatalogue>,
}

impl Seat {
    /// One client thread over connections of `transport`.
    fn web<T: Transport>(&self, transport: T, (client, thread): (usize, usize)) -> Web<T> {
        let mix = &self.engine.mix;
        let connection = Connection::over(
            transport,
            self.engine.executor.clone(),
            self.connecting,
            self.buffer.clone(),
            Limits::default(),
        );
        let page = Page::new(mix.random(PAGE_STREAM, client, thread), mix.identity());
        let sampling = Sampling::new(mix.verify_share, mix.random(SAMPLING_STREAM, client, thread));
        Web::new(self.catalogue.clone(), connection, page, sampling)
    }

    /// One client thread that speaks HTTP/2. The first of each so many of a client begins another lane, for those after it.
    fn web_streams<T: Transport + 'static>(
        &self,
        catalogue: &Arc<StreamCatalogue>,
        streams: usize,
        lane: &RefCell<Option<Rc<Lane<T, BodyDigest>>>>,
        transport: &impl Fn(&Self) -> T,
        (client, thread): (usize, usize),
    ) -> WebStreams<T> {
        let mut lane = lane.borrow_mut();
        if thread % streams == 0 {
            *lane = None;
        }
        let make = || {
            let (executor, buffer) = (self.engine.executor.clone(), self.buffer.clone());
            Lane::new(
                transport(self),
                executor,
                self.connecting,
                buffer,
                Limits::default(),
            )
        };
        let mix = &self.engine.mix;
        WebStreams {
            catalogue: catalogue.clone(),
            client: lane.get_or_insert_with(make).client(),
            digest: BodyDigest::default(),
            sampling: Sampling::new(mix.verify_share, mix.random(SAMPLING_STREAM, client, thread)),
        }
    }

    fn secure(&self, dialer: &Rc<Dialer>, tls: &Tls) -> TlsOverTcp {
        let share = EvenShare::new(tls.resumption);
        TlsOverTcp::new(dialer.clone(), tls.client.connector(), share, self.buffer.clone())
    }
}

impl Work for WebWork {
    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn advice(&self, failure: &Failure) -> Option<&'static str> {
        dyno_http::advice(failure)
    }

    fn seat_clients(&self, thread: &Rc<EngineThread>) {
        let dialer = self.dialer(&self.target, thread);
        thread
            .dialer
            .set(dialer.clone())
            .expect("clients are seated once");
        let (tls, beside, engine) = (self.tls.clone(), self.secure.clone(), thread.clone());
        match (tls, beside) {
            (None, _) if self.streams.is_some() => {
                self.seat_streams(thread, move |_| PlainTcp::new(dialer.clone()));
            }
            (Some(tls), _) if self.streams.is_some() => {
                self.seat_streams(thread, move |seat| seat.secure(&dialer, &tls));
            }
            (None, None) => {
                let clear = move |seat: &Seat, of| seat.web(PlainTcp::new(dialer.clone()), of);
                thread.executor.spawn(self.seating(engine, clear));
            }
            (Some(tls), _) => {
                let secure = move |seat: &Seat, of| seat.web(seat.secure(&dialer, &tls), of);
                thread.executor.spawn(self.seating(engine, secure));
            }
            (None, Some((target, tls))) => {
                let secure_dialer = self.dialer(&target, thread);
                let split = move |seat: &Seat, of| Split {
                    catalogue: seat.catalogue.clone(),
                    clear: seat.web(PlainTcp::new(dialer.clone()), of),
                    secure: seat.web(seat.secure(&secure_dialer, &tls), of),
                };
                thread.executor.spawn(self.seating(engine, split));
            }
        }
        thread.start.arrive(thread.clients().len());
    }
}
