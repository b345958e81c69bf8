//! State of one engine thread: its loop, clients and counts. `load.rs` runs it.

use crate::arrival::OpenArrivals;
use crate::counting::{Live, Tally};
use crate::level::Level;
use crate::schedule::Schedule;
use crate::start::Start;
use dyno_measure::Fault;
use dyno_net::{Dialer, Executor};
use rustix::io::Errno;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Headers of the level's first response, and other facts that explain failures of the level.
#[derive(Debug, Default)]
pub(crate) struct FirstAnswer {
    pub server: OnceCell<String>,
    pub location: OnceCell<String>,
    pub allow: OnceCell<String>,
    /// The names of the schemes in WWW-Authenticate, separated by commas.
    pub schemes: RefCell<String>,
    /// Whether an operation of the level succeeded, set when the level ends.
    pub others_succeed: Cell<bool>,
    /// Steps of sessions that failed: the first of each kind of failure.
    failed_steps: RefCell<Vec<FailedStep>>,
}

/// The request of a session's step that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailedStep {
    pub fault: Fault,
    pub step: usize,
    pub head_bytes: usize,
}

impl FirstAnswer {
    pub(crate) fn note_failed(&self, failed: FailedStep) {
        let mut steps = self.failed_steps.borrow_mut();
        if steps.iter().all(|known| known.fault != failed.fault) {
            steps.push(failed);
        }
    }

    /// Returns the first step that failed in this way.
    pub(crate) fn failed_step(&self, fault: Fault) -> Option<FailedStep> {
        let steps = self.failed_steps.borrow();
        steps.iter().find(|step| step.fault == fault).copied()
    }

    /// Returns the header with this name, if the response has one.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let schemes = self.schemes.borrow();
        match name {
            "Location" => self.location.get().cloned(),
            "Allow" => self.allow.get().cloned(),
            _ => (!schemes.is_empty()).then(|| schemes.clone()),
        }
    }
}

/// State of one engine thread. During a level, engine threads share only live counters and the start time.
#[derive(Debug)]
pub(crate) struct EngineThread {
    pub level: Arc<Level>,
    pub executor: Executor,
    pub tally: Rc<RefCell<Tally>>,
    pub start: Arc<Start>,
    pub dialer: OnceCell<Rc<Dialer>>,
    /// Open arrivals. Set when the level starts.
    pub schedule: OnceCell<Rc<RefCell<Schedule>>>,
    /// Headers of the first response. Set only by work over HTTP.
    pub first_answer: Rc<FirstAnswer>,
    /// Number of active client threads.
    pub working: Rc<Cell<usize>>,
    pub number: usize,
}

impl EngineThread {
    /// Creates thread `number` of a level. `classes`: names of the operation classes.
    pub(crate) fn new(
        level: &Arc<Level>,
        number: usize,
        start: Arc<Start>,
        classes: &[String],
        live: Arc<Live>,
    ) -> Result<Rc<Self>, Errno> {
        let tally = Tally::new(level.window, classes, clients_of(level, number), live);
        Ok(Rc::new(Self {
            level: level.clone(),
            executor: Executor::new()?,
            tally: Rc::new(RefCell::new(tally)),
            start,
            dialer: OnceCell::new(),
            schedule: OnceCell::new(),
            first_answer: Rc::default(),
            working: Rc::new(Cell::new(clients_of(level, number).len() * level.threads)),
            number,
        }))
    }

    pub(crate) fn clients(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        clients_of(&self.level, self.number)
    }

    /// Returns the arrivals shared by the thread's clients in a level that starts at `start_ns`.
    pub(crate) fn schedule(&self, open: OpenArrivals, start_ns: u64) -> Rc<RefCell<Schedule>> {
        let make = || {
            let schedule = Schedule::new(&self.level, open, start_ns, self.clients());
            Rc::new(RefCell::new(schedule))
        };
        self.schedule.get_or_init(make).clone()
    }

    /// Returns a dialer number that is unique among all threads of the level in all processes, up to 250
    /// threads.
    pub(crate) fn dialer_number(&self) -> u8 {
        let first_client = self.level.part.client(self.number);
        u8::try_from(first_client % 250).unwrap_or(0)
    }
}

/// Assigns clients to the engine threads of a process in turn.
fn clients_of(level: &Level, number: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
    (number..level.part.clients)
        .step_by(level.threads_here())
        .map(|place| level.part.client(place))
}
