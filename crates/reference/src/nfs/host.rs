//! What the threads of a server share: options, exports, counters, and when it is up.

use super::options::Options;
use super::state4::clients::Clients;
use super::state4::operation::{NAMES, OPERATIONS};
use super::state4::pseudo::Pseudo;
use super::volume::{Caller, Files, Refused, Volume};
use crate::pages::Space;
use dyno_measure::monotonic_ns;
use dyno_nfs::wire::{FileHandle, How, Procedure, SetAttributes};
use rustix::rand::{getrandom, GetRandomFlags};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const PROCEDURES: usize = Procedure::ALL.len();
const ROOT: Caller = Caller { uid: 0, gid: 0 };

/// Requests of one thread by procedure. In cache lines of its own, so that the threads don't slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    procedures: [AtomicU64; PROCEDURES],
    /// Compounds of NFSv4.1, by their main operation.
    compounds: Compounds,
}

#[derive(Debug)]
struct Compounds([AtomicU64; OPERATIONS]);

impl Default for Compounds {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

#[derive(Debug)]
pub(super) struct Export {
    pub(super) path: String,
    volume: Mutex<Volume>,
}

impl Export {
    pub(super) fn lock(&self) -> MutexGuard<'_, Volume> {
        // A thread that panicked has said so on standard error; the others go on with what there is.
        self.volume.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the server is up, and how many threads don't listen.
#[derive(Debug, Default)]
struct Phase {
    down: bool,
    parked: usize,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) options: Options,
    pub(super) exports: Vec<Export>,
    /// Another one for each start of a server: handles begin with it.
    pub(super) server: u64,
    /// Where it listens, once it does.
    pub(super) port: AtomicU16,
    pub(super) stopping: AtomicBool,
    pub(super) pseudo: Pseudo,
    clients: Mutex<Clients>,
    hashing: RandomState,
    /// Compounds that were answered by the reply that their slot kept.
    pub(super) given_again: AtomicU64,
    verifier: AtomicU64,
    restarts: AtomicU64,
    phase: Mutex<Phase>,
    phase_changed: Condvar,
    restarting: Mutex<()>,
    counters: Vec<Counters>,
}

impl Host {
    pub(super) fn new(options: &Options) -> io::Result<Arc<Self>> {
        let (server, verifier) = (random()?, random()?);
        let space = Arc::new(Space::new(options.capacity_bytes));
        let mut exports = Vec::new();
        for (number, path) in (0..).zip(&options.exports) {
            let mut files = Files::new(space.clone(), options.flush);
            for (name, content) in &options.files {
                put_file(&mut files, name, content).map_err(|refused| {
                    io::Error::other(format!("{name}: it can't be made: {}", refused.0.name()))
                })?;
            }
            exports.push(Export {
                path: path.clone(),
                volume: Mutex::new(Volume::new(server, number, files)),
            });
        }
        Ok(Arc::new(Self {
            options: options.clone(),
            exports,
            server,
            port: AtomicU16::new(0),
            stopping: AtomicBool::new(false),
            pseudo: Pseudo::new(server, (1, 0), options.exports.iter().map(String::as_str)),
            // Numbers of another start are not those of this one.
            clients: Mutex::new(Clients::new((server >> 32) as u32)),
            hashing: RandomState::new(),
            given_again: AtomicU64::new(0),
            verifier: AtomicU64::new(verifier),
            restarts: AtomicU64::new(0),
            phase: Mutex::default(),
            phase_changed: Condvar::new(),
            restarting: Mutex::default(),
            counters: (0..options.threads).map(|_| Counters::default()).collect(),
        }))
    }

    /// The export of a file; None: of no server that runs.
    pub(super) fn export_of(&self, file: &FileHandle) -> Option<&Export> {
        self.exports.get(Volume::number_in(file, self.server)?)
    }

    /// Counts a request before it is answered: who has the answer must find it counted. Only the thread itself writes
    /// to its counters.
    pub(super) fn count(&self, thread: usize, procedure: Procedure) {
        let counter = &self.counters[thread].procedures[procedure as usize];
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a compound by the number of its main operation; 0 where it is none that is known.
    pub(super) fn count_compound(&self, thread: usize, operation: u32) {
        if let Some(counter) = self.counters[thread].compounds.0.get(operation as usize) {
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Requests so far, by the name of their procedure, and compounds by that of their main operation.
    pub(super) fn requests(&self) -> Vec<(&'static str, u64)> {
        let sum = |of: &dyn Fn(&Counters) -> u64| self.counters.iter().map(of).sum::<u64>();
        let procedures = Procedure::ALL.iter().map(|procedure| {
            let at = *procedure as usize;
            (
                procedure.name(),
                sum(&|one| one.procedures[at].load(Ordering::Relaxed)),
            )
        });
        let mut counts: Vec<(&'static str, u64)> = procedures.collect();
        for (at, name) in NAMES.iter().enumerate() {
            let count = sum(&|one| one.compounds.0[at].load(Ordering::Relaxed));
            match counts.iter_mut().find(|(known, _)| known == name) {
                Some((_, of_both)) => *of_both += count,
                None if count > 0 => counts.push((name, count)),
                None => {}
            }
        }
        counts
    }

    /// The clients of NFSv4.1 and what they have open. Locked before an export is, never while one is.
    pub(super) fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn digest(&self, said: &impl Hash) -> u64 {
        self.hashing.hash_one(said)
    }

    pub(super) fn verifier(&self) -> u64 {
        self.verifier.load(Ordering::Relaxed)
    }

    /// How often it has started anew.
    pub(super) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        let _phase = self.phase();
        self.stopping.store(true, Ordering::Relaxed);
        self.phase_changed.notify_all();
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the server down once every thread has closed its connections, loses what is not stable, and is up again after
    /// `outage`. How many files lost something. Does nothing where it stops.
    pub(super) fn restart(&self, outage: Duration) -> u64 {
        let _one_at_a_time = self.restarting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut phase = self.phase();
        phase.down = true;
        self.restarts.fetch_add(1, Ordering::Relaxed);
        while phase.parked < self.options.threads && !self.is_stopping() {
            phase = self.wait(phase);
        }
        let lost = self
            .exports
            .iter()
            .map(|export| export.lock().lose_unstable())
            .sum();
        self.clients().restart(monotonic_ns());
        self.verifier.fetch_add(1, Ordering::Relaxed);
        drop(phase);
        self.pause(outage);
        let mut phase = self.phase();
        phase.down = false;
        self.phase_changed.notify_all();
        while phase.parked > 0 && !self.is_stopping() {
            phase = self.wait(phase);
        }
        lost
    }

    fn wait<'a>(&self, phase: MutexGuard<'a, Phase>) -> MutexGuard<'a, Phase> {
        self.phase_changed
            .wait(phase)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is up, and gives how often it has started anew by then. None: it stops.
    pub(super) fn wait_until_up(&self) -> Option<u64> {
        let mut phase = self.phase();
        phase.parked += 1;
        self.phase_changed.notify_all();
        while phase.down && !self.is_stopping() {
            phase = self.wait(phase);
        }
        (!self.is_stopping()).then(|| self.restarts())
    }

    /// A thread that was down listens again.
    pub(super) fn is_back(&self) {
        let mut phase = self.phase();
        phase.parked = phase.parked.saturating_sub(1);
        self.phase_changed.notify_all();
    }

    /// Waits; shorter where the server stops.
    pub(super) fn pause(&self, length: Duration) {
        let stops = |_: &mut Phase| !self.is_stopping();
        drop(self.phase_changed.wait_timeout_while(self.phase(), length, stops));
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes[..], GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Makes a file in the root, before anybody is there.
fn put_file(files: &mut Files, name: &str, content: &[u8]) -> Result<(), Refused> {
    let how = How::Guarded(SetAttributes::default());
    let root = files.root();
    let slot = files.create(root, name.as_bytes(), &how, ROOT)?;
    files.write(slot, 0, content)?;
    files.flush(slot)
}
