//! Work on documents over HTTP: the requests, and the client threads that send them.

mod advice;
mod client;
mod decoding;
mod page;
mod script;
mod session;
mod split;
mod streams;
mod template;

use crate::client::{ClientState, ClientThread};
use crate::engine_thread::{EngineThread, FirstAnswer};
use crate::kind::Work;
use crate::protocol::Protocol;
use crate::sampling::{Sampling, SAMPLING_STREAM};
pub(crate) use client::Stated;
use client::{Web, WebCatalogue};
use decoding::Sample;
use dyno_http::coding::asks_coding;
use dyno_http::h2::{self, Request, RequestMaker};
use dyno_http::{
    Asking, Connecting, Connection, Conversation, EvenShare, Limits, Pipeline, PlainTcp, RequestStyle, Shape,
    SharedConnection, StreamClient, Target, TlsOverTcp, Transport, Version, WrittenHttp1,
};
use dyno_measure::Failure;
use dyno_net::tls::TlsClient;
use dyno_net::Dialer;
use dyno_workload::{
    Catalogue, Entry, Get, Outcome, Shares, SingleUrl, Steps, Tree, WebbenchDynamic, WebbenchStatic,
    WeightedUrls, Workload,
};
use page::{Page, PageRequest, PAGE_STREAM};
pub use script::session_problems;
pub(crate) use script::StepSection;
use script::{Script, Taking};
use session::Session;
use split::Split;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use streams::{AnswerBody, WebStreams};

/// Distinguishes a client thread's random stream for requests over TLS from the one for requests without TLS.
const OVER_TLS: u64 = u64::from_le_bytes(*b"over tls");

#[derive(Debug, Clone)]
pub(crate) enum WebWorkload {
    WebbenchStatic,
    /// The WebBench static tree and the dynamic page, in part over TLS.
    WebbenchDynamic(Shares),
    /// The target's own URL, repeatedly.
    Url,
    /// Several paths of the target's server, each with a weight.
    Urls(Vec<(String, u32)>),
    /// Steps that depend on each other.
    Session(Arc<[StepSection]>),
}

impl WebWorkload {
    /// Returns whether some requests use TLS and others don't.
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
            Self::Session(steps) => {
                Catalogue::steps(steps.iter().map(|step| (step.name.clone(), step.path.clone())))
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
            Self::Session(steps) => {
                AnyWorkload::Session(Steps::new(steps.iter().map(StepSection::think_ns).collect()))
            }
        }
    }
}

/// Returns the catalogue with its paths below the path of the server's URL.
fn below(target: &Target, mut catalogue: Catalogue) -> Catalogue {
    let base = target.path().trim_end_matches('/');
    for entry in &mut catalogue.entries {
        entry.path.insert_str(0, base);
    }
    catalogue
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct WebClientOptions {
    /// HTTP version in request lines.
    pub version: Version,
    /// HTTP/2: threads of a client per connection; None: HTTP/1.
    pub streams: Option<usize>,
    /// HTTP/1.1 pipelining: threads of a client per connection.
    pub pipeline: Option<usize>,
    /// Whether to reuse connections.
    pub keep_alive: bool,
    /// Whether to close connections with a reset instead of an ordinary close.
    pub reset: bool,
    /// Whether to use a new socket for every connection, even on loopback, where sockets could be reused.
    pub fresh_sockets: bool,
    /// Maximum size of one receive call.
    pub receive_buffer_bytes: usize,
    /// Limits of one response.
    pub limits: Limits,
}

impl WebClientOptions {
    /// Returns the number of connections of a client with this number of threads, which may share
    /// connections.
    fn connections_of_client(&self, threads: usize) -> usize {
        threads.div_ceil(self.streams.or(self.pipeline).unwrap_or(1).max(1))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Tls {
    pub client: TlsClient,
    /// Share of connections that offer to resume an earlier session.
    pub resumption: f64,
}

#[derive(Debug)]
pub(crate) struct Targets {
    pub target: Target,
    /// TLS parameters if the target uses TLS.
    pub tls: Option<Tls>,
    /// TLS target on the same server with its parameters, in addition to a target without TLS.
    pub secure: Option<(Target, Tls)>,
}

/// The workload of a client thread. An enum rather than a trait object, because it is in the hot path.
#[derive(Debug)]
enum AnyWorkload {
    WebbenchStatic(WebbenchStatic),
    WebbenchDynamic(WebbenchDynamic),
    Url(SingleUrl),
    Urls(WeightedUrls),
    Session(Steps),
}

impl Workload for AnyWorkload {
    type Op = Get;

    fn next(&mut self, last: &Outcome) -> Get {
        match self {
            Self::WebbenchStatic(workload) => workload.next(last),
            Self::WebbenchDynamic(workload) => workload.next(last),
            Self::Url(workload) => workload.next(last),
            Self::Urls(workload) => workload.next(last),
            Self::Session(workload) => workload.next(last),
        }
    }

    fn pause_ns(&self) -> u64 {
        match self {
            Self::Session(workload) => workload.pause_ns(),
            _ => 0,
        }
    }
}

/// All requests of a level, built in advance as far as possible. Shared by all client threads.
#[derive(Debug, Clone)]
enum Requests {
    Http1(Arc<WebCatalogue<Box<[u8]>>>),
    /// HTTP/1.1 pipelining, and the number of a client's threads per connection.
    Pipelined(Arc<WebCatalogue<Box<[u8]>>>, usize),
    Http2(Arc<WebCatalogue<Request>>, usize),
    Session(Arc<Script>),
    /// The script, and the number of a client's threads per connection.
    SessionHttp2(Arc<Script>, usize),
}

/// Documents over HTTP, with every request built.
#[derive(Debug)]
pub(crate) struct WebWork {
    target: Target,
    workload: WebWorkload,
    options: WebClientOptions,
    /// TLS parameters if the target uses TLS.
    tls: Option<Tls>,
    /// TLS target on the same server with its parameters, in addition to a target without TLS.
    secure: Option<(Target, Tls)>,
    /// Which entries are requested over TLS.
    over_tls: Arc<[bool]>,
    /// Whether a request may be sent twice.
    repeat: bool,
    /// Properties of the requests on which hints depend. In sessions, each step has its own.
    asking: Asking,
    /// Whether requests ask for a content coding. In sessions, each step decides.
    asks_coding: bool,
    requests: Requests,
    classes: Vec<String>,
}

impl WebWork {
    /// Builds the requests of a level.
    ///
    /// # Errors
    /// The problems of a session's steps, one sentence each.
    pub(crate) fn new(
        targets: Targets,
        workload: WebWorkload,
        options: WebClientOptions,
        shape: &Shape,
        stated: Option<Stated>,
    ) -> Result<Self, Vec<String>> {
        let Targets { target, tls, secure } = targets;
        let catalogue = workload.catalogue(&target);
        let is_head = shape.method == "HEAD";
        let beside = secure.as_ref().map(|(target, _)| target.host());
        let style = |secure: bool| RequestStyle {
            version: options.version,
            keep_alive: options.keep_alive,
            host: beside.filter(|_| secure).unwrap_or(target.host()).to_owned(),
        };
        let requests = match (&workload, options.streams) {
            (WebWorkload::Session(steps), streams) => {
                let script = Arc::new(Script::new(steps, target.host(), &shape.fields)?);
                match streams {
                    None => Requests::Session(script),
                    Some(streams) => Requests::SessionHttp2(script, streams),
                }
            }
            (_, Some(streams)) => {
                let maker = RequestMaker::new(target.host(), target.is_secure(), shape);
                let secure = RequestMaker::new(beside.unwrap_or(target.host()), true, shape);
                let request = |entry: &Entry, path: &str| {
                    let maker = if entry.secure { &secure } else { &maker };
                    maker.request(path)
                };
                let catalogue = WebCatalogue::new(&catalogue, request, stated, is_head);
                Requests::Http2(Arc::new(catalogue), streams)
            }
            (_, None) => {
                let request = |entry: &Entry, path: &str| style(entry.secure).request(path, shape);
                let catalogue = Arc::new(WebCatalogue::new(&catalogue, request, stated, is_head));
                match options.pipeline {
                    Some(requests) => Requests::Pipelined(catalogue, requests),
                    None => Requests::Http1(catalogue),
                }
            }
        };
        let classes = catalogue.classes.iter();
        let classes = match &workload {
            WebWorkload::Session(_) => classes.cloned().collect(),
            _ => classes.map(|class| format!("{} {class}", shape.method)).collect(),
        };
        let paths = catalogue.entries.iter().map(|entry| entry.path.as_str());
        let longest = paths.max_by_key(|path| path.len()).unwrap_or_default();
        Ok(Self {
            over_tls: catalogue.entries.iter().map(|entry| entry.secure).collect(),
            repeat: shape.is_idempotent(),
            asking: Asking::of(shape, style(false).head(longest, shape).len()),
            asks_coding: asks_coding(&shape.fields),
            target,
            workload,
            options,
            tls,
            secure,
            requests,
            classes,
        })
    }

    /// Spawns the client threads of one engine thread. `transport` returns the transport of a connection.
    fn spawn_over<T: Transport + 'static>(
        &self,
        engine: &Rc<EngineThread>,
        transport: impl Fn(&ClientContext) -> T + 'static,
    ) {
        let executor = &engine.executor;
        match self.requests.clone() {
            Requests::Http1(catalogue) => {
                let web =
                    move |context: &ClientContext, of| context.web(&catalogue, transport(context), of, 0);
                executor.spawn(self.spawning(engine.clone(), web));
            }
            Requests::Pipelined(catalogue, requests) => {
                let shared: JoinableConnection<T, Pipeline<AnswerBody>> = RefCell::default();
                let web = move |context: &ClientContext, of| {
                    context.web_streams(&catalogue, requests, &shared, || transport(context), of, 0)
                };
                executor.spawn(self.spawning(engine.clone(), web));
            }
            Requests::Http2(catalogue, streams) => {
                let shared: JoinableConnection<T, h2::Session<AnswerBody>> = RefCell::default();
                let web = move |context: &ClientContext, of| {
                    context.web_streams(&catalogue, streams, &shared, || transport(context), of, 0)
                };
                executor.spawn(self.spawning(engine.clone(), web));
            }
            Requests::Session(script) => {
                let WebClientOptions {
                    version, keep_alive, ..
                } = self.options;
                let web = move |context: &ClientContext, of| {
                    let form = WrittenHttp1::new(version, keep_alive);
                    let connection = context.connection(transport(context));
                    Session::new(script.clone(), connection, form, of, context.sample(true))
                };
                executor.spawn(self.spawning(engine.clone(), web));
            }
            Requests::SessionHttp2(script, streams) => {
                let (shared, secure): (JoinableConnection<T, h2::Session<Taking>>, _) =
                    (RefCell::default(), self.target.is_secure());
                let web = move |context: &ClientContext, of: (usize, usize)| {
                    let client = context.stream_client(streams, &shared, || transport(context), of.1);
                    let form = h2::Written::new(secure);
                    Session::new(script.clone(), client, form, of, context.sample(true))
                };
                executor.spawn(self.spawning(engine.clone(), web));
            }
        }
    }

    /// Spawns the client threads of one engine thread once the start of the level is known. `protocol`
    /// creates the HTTP client of a client thread, from the numbers of the client and the thread.
    fn spawning<P: Protocol<Op = Get> + 'static>(
        &self,
        engine: Rc<EngineThread>,
        protocol: impl Fn(&ClientContext, (usize, usize)) -> P + 'static,
    ) -> impl std::future::Future<Output = ()> + 'static {
        let (workload, options, repeat) = (self.workload.clone(), self.options, self.repeat);
        let asks_coding = self.asks_coding;
        async move {
            let start_ns = engine.start.wait(&engine.executor).await;
            let level = &engine.level;
            let buffer = vec![0; options.receive_buffer_bytes].into_boxed_slice();
            let context = ClientContext {
                engine: engine.clone(),
                connecting: Connecting {
                    keep_alive: options.keep_alive,
                    reset: options.reset,
                    repeat,
                    timeout_ns: level.timeout_ns,
                },
                buffer: Rc::new(RefCell::new(buffer)),
                asks_coding,
                sample: Rc::new(Sample::new(engine.first_answer.clone())),
                limits: options.limits,
            };
            for (place, client) in engine.clients().enumerate() {
                let state = ClientState::new(place);
                for thread in 0..level.threads {
                    let client_thread = ClientThread::new(&engine, start_ns, (client, thread), state.clone());
                    let mut web = protocol(&context, (client, thread));
                    let mut workload = workload.of_thread(level.seed, client, thread);
                    engine
                        .executor
                        .spawn(async move { client_thread.run(&mut workload, &mut web).await });
                }
            }
        }
    }

    fn dialer(&self, target: &Target, thread: &EngineThread) -> Rc<Dialer> {
        let dialer = target.dialer(&thread.executor, thread.dialer_number());
        Rc::new(if self.options.fresh_sockets {
            dialer.with_fresh_sockets()
        } else {
            dialer
        })
    }
}

/// The shared connection that the next thread of a client may join.
type JoinableConnection<T, C> = RefCell<Option<Rc<SharedConnection<T, C>>>>;

/// State shared by the client threads of one engine thread.
struct ClientContext {
    engine: Rc<EngineThread>,
    connecting: Connecting,
    buffer: Rc<RefCell<Box<[u8]>>>,
    asks_coding: bool,
    sample: Rc<Sample>,
    limits: Limits,
}

impl ClientContext {
    /// Returns the sample of responses, and whether bodies may be decoded. `may_ask`: whether requests may
    /// ask for a content coding.
    fn sample(&self, may_ask: bool) -> (Rc<Sample>, bool) {
        let is_checked = self.engine.level.verify_share > 0.0;
        (self.sample.clone(), may_ask && is_checked)
    }

    fn connection<T: Transport>(&self, transport: T) -> Connection<T> {
        Connection::over(
            transport,
            self.engine.executor.clone(),
            self.connecting,
            self.buffer.clone(),
            self.limits,
        )
    }

    /// Returns one client thread over connections of `transport`. `apart`: a number that distinguishes the
    /// random streams if a thread has several clients.
    fn web<T: Transport>(
        &self,
        catalogue: &Arc<WebCatalogue<Box<[u8]>>>,
        transport: T,
        of: (usize, usize),
        apart: u64,
    ) -> Web<T> {
        let (page, sampling) = (self.page(of, apart), self.sampling(of, apart));
        let (connection, sample) = (self.connection(transport), self.sample(self.asks_coding));
        Web::new(catalogue.clone(), connection, page, sampling, sample)
    }

    fn page(&self, (client, thread): (usize, usize), apart: u64) -> Page {
        let level = &self.engine.level;
        Page::new(
            level.random(PAGE_STREAM ^ apart, client, thread),
            level.identity(),
        )
    }

    fn sampling(&self, (client, thread): (usize, usize), apart: u64) -> Sampling {
        let level = &self.engine.level;
        Sampling::new(
            level.verify_share,
            level.random(SAMPLING_STREAM ^ apart, client, thread),
        )
    }

    /// Returns one client thread on a shared connection.
    fn web_streams<T: Transport + 'static, C: Conversation<Body = AnswerBody> + 'static, R: PageRequest>(
        &self,
        catalogue: &Arc<WebCatalogue<R>>,
        threads: usize,
        shared: &JoinableConnection<T, C>,
        transport: impl FnOnce() -> T,
        (client, thread): (usize, usize),
        apart: u64,
    ) -> WebStreams<T, C, R> {
        let (sample, decodes) = self.sample(self.asks_coding);
        WebStreams {
            catalogue: catalogue.clone(),
            client: self.stream_client(threads, shared, transport, thread),
            body: AnswerBody::default(),
            page: self.page((client, thread), apart),
            page_request: R::default(),
            sampling: self.sampling((client, thread), apart),
            sample,
            decodes,
        }
    }

    /// Returns one client thread's part of a shared connection. A client's threads form groups. The first thread of a
    /// group creates the group's connection.
    fn stream_client<T: Transport + 'static, C: Conversation + 'static>(
        &self,
        threads: usize,
        shared: &JoinableConnection<T, C>,
        transport: impl FnOnce() -> T,
        thread: usize,
    ) -> StreamClient<T, C> {
        let mut shared = shared.borrow_mut();
        if thread % threads == 0 {
            *shared = None;
        }
        let make = || {
            let (executor, buffer) = (self.engine.executor.clone(), self.buffer.clone());
            SharedConnection::new(transport(), executor, self.connecting, buffer, self.limits)
        };
        shared.get_or_insert_with(make).client()
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

    fn connections(&self, clients: usize, threads: usize) -> usize {
        let targets = 1 + usize::from(self.secure.is_some());
        clients * self.options.connections_of_client(threads) * targets
    }

    fn advice(&self, failure: &Failure, first: &FirstAnswer) -> Option<String> {
        advice::of(self, failure, first)
    }

    fn spawn_clients(&self, thread: &Rc<EngineThread>) {
        let dialer = self.dialer(&self.target, thread);
        thread
            .dialer
            .set(dialer.clone())
            .expect("clients are spawned once");
        match (self.tls.clone(), self.secure.clone(), self.requests.clone()) {
            (None, Some((target, tls)), Requests::Http1(catalogue)) => {
                let (secure_dialer, over_tls) = (self.dialer(&target, thread), self.over_tls.clone());
                let split = move |context: &ClientContext, of| Split {
                    over_tls: over_tls.clone(),
                    clear: context.web(&catalogue, PlainTcp::new(dialer.clone()), of, 0),
                    secure: context.web(&catalogue, context.secure(&secure_dialer, &tls), of, OVER_TLS),
                };
                thread.executor.spawn(self.spawning(thread.clone(), split));
            }
            (None, Some((target, tls)), Requests::Http2(catalogue, streams)) => {
                let (secure_dialer, over_tls) = (self.dialer(&target, thread), self.over_tls.clone());
                let in_clear: JoinableConnection<PlainTcp, h2::Session<AnswerBody>> = RefCell::default();
                let in_tls: JoinableConnection<TlsOverTcp, h2::Session<AnswerBody>> = RefCell::default();
                let split = move |context: &ClientContext, of| {
                    let clear = || PlainTcp::new(dialer.clone());
                    let secure = || context.secure(&secure_dialer, &tls);
                    Split {
                        over_tls: over_tls.clone(),
                        clear: context.web_streams(&catalogue, streams, &in_clear, clear, of, 0),
                        secure: context.web_streams(&catalogue, streams, &in_tls, secure, of, OVER_TLS),
                    }
                };
                thread.executor.spawn(self.spawning(thread.clone(), split));
            }
            (None, ..) => self.spawn_over(thread, move |_| PlainTcp::new(dialer.clone())),
            (Some(tls), ..) => self.spawn_over(thread, move |context| context.secure(&dialer, &tls)),
        }
        thread.start.arrive(thread.clients().len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_of_a_shared_connection_count_as_one_connection() {
        let options = WebClientOptions {
            version: Version::Http11,
            streams: None,
            pipeline: None,
            keep_alive: true,
            reset: false,
            fresh_sockets: false,
            receive_buffer_bytes: 1,
            limits: Limits::default(),
        };
        assert_eq!(options.connections_of_client(100), 100);
        let shared = |streams, pipeline| WebClientOptions {
            streams,
            pipeline,
            ..options
        };
        assert_eq!(shared(Some(100), None).connections_of_client(100), 1);
        assert_eq!(shared(Some(100), None).connections_of_client(101), 2);
        assert_eq!(shared(None, Some(8)).connections_of_client(20), 3);
    }
}
