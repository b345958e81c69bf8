//! Work on documents over HTTP: what is asked for, and the client threads that ask.

use crate::client::{ClientState, Seat};
use crate::load::Bench;
use crate::sampling::{Sampling, SAMPLING_STREAM};
use crate::web_client::{Web, WebCatalogue};
use dyno_http::{Client, Connecting, Limits, RequestStyle, Target, Version};
use dyno_reactor::Dialer;
use dyno_workload::{Catalogue, Get, Outcome, SingleUrl, Tree, WebbenchStatic, Workload};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What clients ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebWorkload {
    /// The WebBench static tree.
    WebbenchStatic,
    /// The target's own URL, again and again.
    Url,
}

/// Documents over HTTP.
#[derive(Debug, Clone)]
pub struct WebWork {
    /// Where to.
    pub target: Target,
    /// What.
    pub workload: WebWorkload,
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

impl WebWork {
    fn style(&self) -> RequestStyle {
        RequestStyle {
            version: self.version,
            keep_alive: self.keep_alive,
            host: self.target.host().to_owned(),
        }
    }

    fn catalogue(&self) -> Catalogue {
        match self.workload {
            WebWorkload::WebbenchStatic => {
                let mut catalogue = Catalogue::webbench_static(&Tree::load());
                // The tree may lie below a path of the server.
                let base = self.target.path().trim_end_matches('/');
                for entry in &mut catalogue.entries {
                    entry.path.insert_str(0, base);
                }
                catalogue
            }
            WebWorkload::Url => Catalogue::single_url(self.target.path()),
        }
    }

    fn workload_of(&self, seed: u64, client: usize, thread: usize) -> AnyWorkload {
        match self.workload {
            WebWorkload::WebbenchStatic => AnyWorkload::WebbenchStatic(WebbenchStatic::new(
                Tree::load(),
                seed,
                u32::try_from(client).unwrap_or(u32::MAX),
                u32::try_from(thread).unwrap_or(u32::MAX),
            )),
            WebWorkload::Url => AnyWorkload::Url(SingleUrl),
        }
    }
}

/// One workload or the other; an enum because it lies in the hot path.
#[derive(Debug)]
enum AnyWorkload {
    WebbenchStatic(WebbenchStatic),
    Url(SingleUrl),
}

impl Workload for AnyWorkload {
    type Op = Get;

    fn next(&mut self, last: &Outcome) -> Get {
        match self {
            Self::WebbenchStatic(workload) => workload.next(last),
            Self::Url(workload) => workload.next(last),
        }
    }
}

/// Documents over HTTP, with every request built.
#[derive(Debug)]
pub(crate) struct WebReady {
    work: WebWork,
    catalogue: Arc<WebCatalogue>,
    /// Names of the operation classes.
    pub classes: Vec<String>,
}

impl WebReady {
    pub(crate) fn new(work: &WebWork) -> Self {
        let catalogue = work.catalogue();
        Self {
            work: work.clone(),
            catalogue: Arc::new(WebCatalogue::new(&catalogue, &work.style())),
            classes: catalogue
                .classes
                .iter()
                .map(|class| format!("GET {class}"))
                .collect(),
        }
    }

    /// Puts the clients of one engine thread on its loop, once the mix has started.
    pub(crate) fn seat_clients(&self, bench: &Rc<Bench>) {
        let dialer = Dialer::new(
            bench.executor.clone(),
            self.work.target.address(),
            bench.dialer_number(),
        );
        let dialer = Rc::new(if self.work.fresh_sockets {
            dialer.with_fresh_sockets()
        } else {
            dialer
        });
        bench.dialer.set(dialer.clone()).expect("clients are seated once");
        let seating = self.seating(bench.clone(), dialer);
        bench.executor.spawn(seating);
        bench.start.arrive(1);
    }

    fn seating(
        &self,
        bench: Rc<Bench>,
        dialer: Rc<Dialer>,
    ) -> impl std::future::Future<Output = ()> + 'static {
        let (work, catalogue) = (self.work.clone(), self.catalogue.clone());
        async move {
            let start_ns = bench.start.wait(&bench.executor).await;
            let mix = &bench.shared.mix;
            let connecting = Connecting {
                keep_alive: work.keep_alive,
                reset: work.reset,
                timeout_ns: mix.timeout_ns,
            };
            let buffer = vec![0; work.receive_buffer_bytes].into_boxed_slice();
            let buffer = Rc::new(RefCell::new(buffer));
            for client in bench.clients() {
                let state = Rc::new(ClientState::default());
                for thread in 0..mix.threads {
                    let seat = Seat::new(&bench, start_ns, client, state.clone());
                    let due_ns = start_ns.saturating_add(mix.first_start_ns(client, thread));
                    let connection = Client::new(
                        bench.executor.clone(),
                        dialer.clone(),
                        connecting,
                        buffer.clone(),
                        Limits::default(),
                    );
                    let sampling =
                        Sampling::new(mix.verify_share, mix.random(SAMPLING_STREAM, client, thread));
                    let mut web = Web::new(catalogue.clone(), connection, sampling);
                    let mut workload = work.workload_of(mix.seed, client, thread);
                    bench
                        .executor
                        .spawn(async move { seat.occupy(&mut workload, &mut web, due_ns).await });
                }
            }
        }
    }
}
