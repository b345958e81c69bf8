//! State shared by the threads of a server: options, exports and counters.

use super::options::Options;
use super::state4::clients::Clients;
use super::state4::operation::OPERATIONS;
use super::state4::pseudo::Pseudo;
use super::volume::{Caller, Files, Refused, Volume};
use crate::common::{lock, random, Share};
use crate::counts::Counts;
use crate::pages::Space;
use dyno_measure::monotonic_ns;
use dyno_nfs::wire::{FileHandle, How, Procedure, SetAttributes};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::io;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub(super) const PROCEDURES: usize = Procedure::ALL.len();
const ROOT: Caller = Caller { uid: 0, gid: 0 };

#[derive(Debug)]
pub struct Host {
    pub(super) options: Options,
    pub(super) exports: Vec<Share<Volume>>,
    /// A number that differs between starts of a server. File handles begin with it.
    pub(super) server: u64,
    /// The listening port, once known.
    pub(super) port: AtomicU16,
    pub(super) pseudo: Pseudo,
    clients: Mutex<Clients>,
    hashing: RandomState,
    /// Number of compounds that were answered with the cached reply of their slot.
    pub(super) given_again: AtomicU64,
    verifier: AtomicU64,
    pub(super) restarts: AtomicU64,
    pub(super) counts: Counts<{ PROCEDURES + OPERATIONS }>,
}

impl Host {
    pub(super) fn new(options: &Options) -> io::Result<Self> {
        let server = u64::from_ne_bytes(random());
        let space = Arc::new(Space::new(options.capacity_bytes));
        let mut exports = Vec::new();
        for (number, path) in (0..).zip(&options.exports) {
            let mut files = Files::new(space.clone(), options.flush);
            for (name, content) in &options.files {
                put_file(&mut files, name, content).map_err(|refused| {
                    io::Error::other(format!(
                        "{name}: this file can't be created: {}",
                        refused.0.name()
                    ))
                })?;
            }
            exports.push(Share::new(path, Volume::new(server, number, files)));
        }
        Ok(Self {
            options: options.clone(),
            exports,
            server,
            port: AtomicU16::new(0),
            pseudo: Pseudo::new(server, (1, 0), options.exports.iter().map(String::as_str)),
            // IDs from another start of the server must not match those of this one.
            clients: Mutex::new(Clients::new((server >> 32) as u32)),
            hashing: RandomState::new(),
            given_again: AtomicU64::new(0),
            verifier: AtomicU64::new(u64::from_ne_bytes(random())),
            restarts: AtomicU64::new(0),
            counts: Counts::new(options.threads),
        })
    }

    /// Returns the export of a file, or None if the handle is not from this server.
    pub(super) fn export_of(&self, file: &FileHandle) -> Option<&Share<Volume>> {
        self.exports.get(Volume::number_in(file, self.server)?)
    }

    pub(super) fn count(&self, thread: usize, procedure: Procedure) {
        self.counts.add(thread, procedure as usize);
    }

    /// Counts a compound by the number of its main operation, or as operation 0 if the main one is unknown.
    pub(super) fn count_compound(&self, thread: usize, operation: u32) {
        self.counts.add(thread, PROCEDURES + operation as usize);
    }

    /// Locks the NFSv4.1 clients and their opens. Never call this while an export is locked.
    pub(super) fn clients(&self) -> MutexGuard<'_, Clients> {
        lock(&self.clients)
    }

    pub(super) fn digest(&self, said: &impl Hash) -> u64 {
        self.hashing.hash_one(said)
    }

    /// Discards unstable data and the clients' opens. Returns the number of files that lost data.
    pub(super) fn lose(&self) -> u64 {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        let exports = self.exports.iter();
        let lost = exports.map(|export| export.lock().lose_unstable()).sum();
        self.clients().restart(monotonic_ns());
        self.verifier.fetch_add(1, Ordering::Relaxed);
        lost
    }

    pub(super) fn verifier(&self) -> u64 {
        self.verifier.load(Ordering::Relaxed)
    }
}

/// Creates a file in the root before any client connects.
fn put_file(files: &mut Files, name: &str, content: &[u8]) -> Result<(), Refused> {
    let how = How::Guarded(SetAttributes::default());
    let root = files.root();
    let slot = files.create(root, name.as_bytes(), &how, ROOT)?;
    files.write(slot, 0, content)?;
    files.flush(slot)
}
