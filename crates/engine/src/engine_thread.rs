//! One engine thread's place: its loop, its clients and what is counted for them. Not for: running it (`load.rs`).

use crate::arrival::OpenArrivals;
use crate::counting::{Live, Tally};
use crate::mix::Mix;
use crate::schedule::Schedule;
use crate::start::Start;
use dyno_net::{Dialer, Executor};
use rustix::io::Errno;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// What a web server calls itself in its first response.
pub(crate) type ServerClaim = Rc<OnceCell<String>>;

/// An engine thread shares nothing with the others while a mix runs but live counters and the moment of the start.
#[derive(Debug)]
pub(crate) struct EngineThread {
    pub mix: Arc<Mix>,
    pub executor: Executor,
    pub tally: Rc<RefCell<Tally>>,
    pub start: Arc<Start>,
    pub dialer: OnceCell<Rc<Dialer>>,
    /// Of open arrivals, once the mix has started.
    pub schedule: OnceCell<Rc<RefCell<Schedule>>>,
    /// Of a web server.
    pub server_claim: ServerClaim,
    /// Client threads that go on.
    pub working: Rc<Cell<usize>>,
    /// Among the threads of this process.
    pub number: usize,
}

impl EngineThread {
    /// Thread `number` of a mix, that counts operations of so many `classes`.
    pub(crate) fn new(
        mix: &Arc<Mix>,
        number: usize,
        start: Arc<Start>,
        classes: &[String],
        live: Arc<Live>,
    ) -> Result<Rc<Self>, Errno> {
        let tally = Tally::new(mix.window, classes, clients_of(mix, number), live);
        Ok(Rc::new(Self {
            mix: mix.clone(),
            executor: Executor::new()?,
            tally: Rc::new(RefCell::new(tally)),
            start,
            dialer: OnceCell::new(),
            schedule: OnceCell::new(),
            server_claim: ServerClaim::default(),
            working: Rc::new(Cell::new(clients_of(mix, number).len() * mix.threads)),
            number,
        }))
    }

    /// The numbers of its clients.
    pub(crate) fn clients(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        clients_of(&self.mix, self.number)
    }

    /// The arrivals that all of its clients serve, in a mix that starts at `start_ns`.
    pub(crate) fn schedule(&self, open: OpenArrivals, start_ns: u64) -> Rc<RefCell<Schedule>> {
        let make = || {
            let schedule = Schedule::new(&self.mix, open, start_ns, self.clients());
            Rc::new(RefCell::new(schedule))
        };
        self.schedule.get_or_init(make).clone()
    }

    /// A number for its dialer that no other thread of the mix has, whichever process it is in, up to 250 threads.
    pub(crate) fn dialer_number(&self) -> u8 {
        let first_client = self.mix.part.client(self.number);
        u8::try_from(first_client % 250).unwrap_or(0)
    }
}

/// Clients are dealt out to the engine threads of a process in turn.
fn clients_of(mix: &Mix, number: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
    (number..mix.part.clients)
        .step_by(mix.threads_here())
        .map(|place| mix.part.client(place))
}
