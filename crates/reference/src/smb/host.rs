//! What the threads of a server share: options, volumes, counters, and each thread's letter box.

use super::message::command;
use super::options::Options;
use super::session::Session;
use super::volume::{right, Asked, ConnectionId, Mail, Moment, Opener, Space, Volume, Waiter, Want};
use dyno_measure::monotonic_ns;
use dyno_smb::wire::filetime_now;
use rustix::event::{eventfd, EventfdFlags};
use rustix::fd::OwnedFd;
use rustix::rand::{getrandom, GetRandomFlags};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const CODES: usize = command::NAMES.len();
const DISPOSITION_CREATE: u32 = 2;

/// Requests of one thread by command. In cache lines of its own, so that the threads don't slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters([AtomicU64; CODES]);

/// A share.
pub(crate) struct SharedVolume {
    pub(crate) name: String,
    volume: Mutex<Volume>,
}

impl SharedVolume {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Volume> {
        // A thread that panicked has said so on standard error; the others go on with what there is.
        self.volume.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one thread is sent by another.
pub(crate) enum Letter {
    /// A connection that is its own from now on.
    Newcomer(OwnedFd),
    /// For one of its connections.
    Mail(ConnectionId, Mail),
    /// All of its connections end; who wants to know that is told.
    HangUp(Sender<()>),
}

/// A thread's letter box; the bell wakes it.
pub(crate) struct LetterBox {
    letters: Mutex<Vec<Letter>>,
    pub(crate) bell: OwnedFd,
}

impl LetterBox {
    fn new() -> io::Result<Self> {
        Ok(Self {
            letters: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    pub(crate) fn post(&self, letter: Letter) {
        self.letters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(letter);
        self.ring();
    }

    pub(crate) fn ring(&self) {
        // It fails only where it has been rung 2^64 times and nobody came.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(crate) fn empty(&self) -> Vec<Letter> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct Host {
    pub(crate) options: Options,
    pub(crate) volumes: Vec<SharedVolume>,
    pub(crate) guid: u128,
    pub(crate) boxes: Vec<LetterBox>,
    pub(crate) stopping: AtomicBool,
    counters: Vec<Counters>,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    last_session_id: AtomicU64,
    last_connection: AtomicU64,
}

impl Host {
    pub(crate) fn new(options: &Options) -> io::Result<Arc<Self>> {
        let space = Arc::new(Space::new(options.capacity_bytes));
        let fault = options.fault.map(|fault| fault.kind);
        let mut volumes = Vec::new();
        for name in &options.shares {
            let mut volume = Volume::new(space.clone(), options.break_timeout_ns, fault, filetime_now());
            for (file, content) in &options.files {
                put_file(&mut volume, file, content)
                    .ok_or_else(|| io::Error::other(format!("{file}: no such file can be made")))?;
            }
            volumes.push(SharedVolume {
                name: name.clone(),
                volume: Mutex::new(volume),
            });
        }
        let mut guid = [0; 16];
        getrandom(&mut guid[..], GetRandomFlags::empty())?;
        let boxes = (0..options.threads).map(|_| LetterBox::new());
        Ok(Arc::new(Self {
            options: options.clone(),
            volumes,
            guid: u128::from_le_bytes(guid),
            boxes: boxes.collect::<io::Result<_>>()?,
            stopping: AtomicBool::new(false),
            counters: (0..options.threads).map(|_| Counters::default()).collect(),
            sessions: Mutex::default(),
            last_session_id: AtomicU64::new(0),
            last_connection: AtomicU64::new(0),
        }))
    }

    /// Counts a request before it is answered: who has the answer must find it counted. Only the thread itself writes
    /// to its counters.
    pub(crate) fn count(&self, thread: usize, code: u16) {
        if let Some(counter) = self.counters[thread].0.get(usize::from(code)) {
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Requests so far, by the name of their command.
    pub(crate) fn requests(&self) -> Vec<(&'static str, u64)> {
        let sum = |code: usize| {
            self.counters
                .iter()
                .map(|one| one.0[code].load(Ordering::Relaxed))
                .sum()
        };
        command::NAMES
            .iter()
            .enumerate()
            .map(|(code, name)| (*name, sum(code)))
            .collect()
    }

    pub(crate) fn next_session_id(&self) -> u64 {
        self.last_session_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<u64, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other connections may name the session from now on.
    pub(crate) fn register(&self, session: &Arc<Session>) {
        self.sessions().insert(session.id, session.clone());
    }

    pub(crate) fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.sessions().get(&id).cloned()
    }

    pub(crate) fn forget(&self, session: u64) {
        self.sessions().remove(&session);
    }

    /// As a restart of the server does.
    pub(crate) fn forget_all(&self) {
        self.sessions().clear();
    }

    pub(crate) fn next_connection(&self) -> u64 {
        self.last_connection.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        // The kernel gives up to 256 bytes at once, and has done so when the server started.
        let _ = getrandom(&mut bytes[..], GetRandomFlags::empty());
        bytes
    }

    /// Now, by both clocks.
    pub(crate) fn moment() -> Moment {
        Moment {
            ns: monotonic_ns(),
            filetime: filetime_now(),
        }
    }
}

/// Makes a file in the root, before anybody is there.
fn put_file(volume: &mut Volume, name: &str, content: &[u8]) -> Option<()> {
    let connection = ConnectionId {
        thread: 0,
        slot: 0,
        serial: 0,
    };
    let opener = Opener {
        connection,
        session: 0,
        tree: 0,
    };
    let waiter = Waiter {
        connection,
        async_id: 0,
    };
    let path: Vec<u16> = name.encode_utf16().collect();
    let want = Want {
        path: &path,
        access: right::ALL,
        share: 0,
        disposition: DISPOSITION_CREATE,
        options: 0,
        attributes: 0,
        asked: Asked::Nothing,
        parent: None,
    };
    let moment = Host::moment();
    let opened = volume.open(&opener, &want, moment, waiter).ok()?;
    let written = volume.write(opened.file.0, 0, content, moment);
    volume.close(opened.file.0, moment);
    volume.mail.clear();
    written.ok()
}
