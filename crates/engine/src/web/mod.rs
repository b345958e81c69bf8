//! Work on documents over HTTP: what is asked for, and the client threads that ask.

mod client;

use crate::client::{ClientState, ClientThread};
use crate::engine_thread::EngineThread;
use crate::kind::Work;
use crate::sampling::{Sampling, SAMPLING_STREAM};
pub(crate) use client::Stated;
use client::{Web, WebCatalogue};
use dyno_http::{
    Connecting, Connection, EvenShare, Limits, PlainTcp, RequestStyle, Shape, Target, TlsOverTcp, Transport,
    Version,
};
use dyno_measure::Failure;
use dyno_tls::TlsClient;
use dyno_workload::{Catalogue, Get, Outcome, SingleUrl, Tree, WebbenchStatic, WeightedUrls, Workload};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What clients ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WebWorkload {
    /// The WebBench static tree.
    WebbenchStatic,
    /// The target's own URL, again and again.
    Url,
    /// Several paths of the target's server, each with a weight.
    Urls(Vec<(String, u32)>),
}

impl WebWorkload {
    fn catalogue(&self, target: &Target) -> Catalogue {
        match self {
            Self::WebbenchStatic => {
                let mut catalogue = Catalogue::webbench_static(&Tree::load());
                // The tree may lie below a path of the server.
                let base = target.path().trim_end_matches('/');
                for entry in &mut catalogue.entries {
                    entry.path.insert_str(0, base);
                }
                catalogue
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
            Self::Url => AnyWorkload::Url(SingleUrl),
            Self::Urls(paths) => {
                let weights: Vec<u32> = paths.iter().map(|(_, weight)| *weight).collect();
                AnyWorkload::Urls(WeightedUrls::new(&weights, seed, client, thread))
            }
        }
    }
}

/// How clients use HTTP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WebClientOptions {
    /// The HTTP version that requests name.
    pub version: Version,
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

/// One workload or the other; an enum because it lies in the hot path.
#[derive(Debug)]
enum AnyWorkload {
    WebbenchStatic(WebbenchStatic),
    Url(SingleUrl),
    Urls(WeightedUrls),
}

impl Workload for AnyWorkload {
    type Op = Get;

    fn next(&mut self, last: &Outcome) -> Get {
        match self {
            Self::WebbenchStatic(workload) => workload.next(last),
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
    /// Whether a request may be sent twice.
    repeat: bool,
    catalogue: Arc<WebCatalogue>,
    classes: Vec<String>,
}

impl WebWork {
    pub(crate) fn new(
        target: Target,
        workload: WebWorkload,
        options: WebClientOptions,
        tls: Option<Tls>,
        shape: &Shape,
        stated: Option<Stated>,
    ) -> Self {
        let catalogue = workload.catalogue(&target);
        let style = RequestStyle {
            version: options.version,
            keep_alive: options.keep_alive,
            host: target.host().to_owned(),
        };
        let method = &shape.method;
        let classes = catalogue.classes.iter().map(|class| format!("{method} {class}"));
        Self {
            target,
            workload,
            options,
            tls,
            repeat: shape.is_idempotent(),
            classes: classes.collect(),
            catalogue: Arc::new(WebCatalogue::new(&catalogue, &style, shape, stated)),
        }
    }

    /// Makes the client threads of one engine thread once the mix has started, over what `transport` makes of the buffer
    /// that they share.
    fn seating<T: Transport + 'static>(
        &self,
        engine: Rc<EngineThread>,
        transport: impl Fn(&Rc<RefCell<Box<[u8]>>>) -> T + 'static,
    ) -> impl std::future::Future<Output = ()> + 'static {
        let (workload, options, catalogue) = (self.workload.clone(), self.options, self.catalogue.clone());
        let repeat = self.repeat;
        async move {
            let start_ns = engine.start.wait(&engine.executor).await;
            let mix = &engine.mix;
            let connecting = Connecting {
                keep_alive: options.keep_alive,
                reset: options.reset,
                repeat,
                timeout_ns: mix.timeout_ns,
            };
            let buffer = vec![0; options.receive_buffer_bytes].into_boxed_slice();
            let buffer = Rc::new(RefCell::new(buffer));
            for (place, client) in engine.clients().enumerate() {
                let state = ClientState::new(place);
                for thread in 0..mix.threads {
                    let client_thread = ClientThread::new(&engine, start_ns, (client, thread), state.clone());
                    let connection = Connection::over(
                        transport(&buffer),
                        engine.executor.clone(),
                        connecting,
                        buffer.clone(),
                        Limits::default(),
                    );
                    let sampling =
                        Sampling::new(mix.verify_share, mix.random(SAMPLING_STREAM, client, thread));
                    let mut web = Web::new(catalogue.clone(), connection, sampling);
                    let mut workload = workload.of_thread(mix.seed, client, thread);
                    engine
                        .executor
                        .spawn(async move { client_thread.run(&mut workload, &mut web).await });
                }
            }
        }
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
        let dialer = self.target.dialer(&thread.executor, thread.dialer_number());
        let dialer = Rc::new(if self.options.fresh_sockets {
            dialer.with_fresh_sockets()
        } else {
            dialer
        });
        thread
            .dialer
            .set(dialer.clone())
            .expect("clients are seated once");
        match self.tls.clone() {
            None => {
                let plain = move |_: &Rc<RefCell<Box<[u8]>>>| PlainTcp::new(dialer.clone());
                thread.executor.spawn(self.seating(thread.clone(), plain));
            }
            Some(Tls { client, resumption }) => {
                let secure = move |buffer: &Rc<RefCell<Box<[u8]>>>| {
                    let share = EvenShare::new(resumption);
                    TlsOverTcp::new(dialer.clone(), client.connector(), share, buffer.clone())
                };
                thread.executor.spawn(self.seating(thread.clone(), secure));
            }
        }
        thread.start.arrive(thread.clients().len());
    }
}
