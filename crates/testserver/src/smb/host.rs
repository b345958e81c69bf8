//! State shared by the threads of a server: options, volumes, counters, sessions and connections.

use super::connections::Connections;
use super::message::command;
use super::options::Options;
use super::session::Session;
use super::volume::{right, Asked, ConnectionId, Moment, Opener, Space, Volume, Waiter, Want};
use crate::common::{lock, random, Share};
use crate::counts::Counts;
use dyno_measure::monotonic_ns;
use dyno_smb::wire::filetime_now;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

const DISPOSITION_CREATE: u32 = 2;

pub struct Host {
    pub(crate) options: Options,
    pub(crate) volumes: Vec<Share<Volume>>,
    pub(crate) guid: u128,
    pub(super) connections: Connections,
    pub(super) counts: Counts<{ command::NAMES.len() }>,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    last_session_id: AtomicU64,
}

impl Host {
    pub(super) fn new(options: &Options) -> io::Result<Self> {
        let space = Arc::new(Space::new(options.capacity_bytes));
        let fault = options.fault.map(|fault| fault.kind);
        let mut volumes = Vec::new();
        for name in &options.shares {
            let mut volume = Volume::new(space.clone(), options.break_timeout_ns, fault, filetime_now());
            for (file, content) in &options.files {
                put_file(&mut volume, file, content)
                    .ok_or_else(|| io::Error::other(format!("{file}: this file can't be created")))?;
            }
            volumes.push(Share::new(name, volume));
        }
        Ok(Self {
            options: options.clone(),
            volumes,
            guid: u128::from_le_bytes(random()),
            connections: Connections::default(),
            counts: Counts::new(options.threads),
            sessions: Mutex::default(),
            last_session_id: AtomicU64::new(0),
        })
    }

    pub(crate) fn next_session_id(&self) -> u64 {
        self.last_session_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn sessions(&self) -> MutexGuard<'_, HashMap<u64, Arc<Session>>> {
        lock(&self.sessions)
    }

    /// Makes the session available to other connections.
    pub(crate) fn register(&self, session: &Arc<Session>) {
        self.sessions().insert(session.id, session.clone());
    }

    pub(crate) fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.sessions().get(&id).cloned()
    }

    pub(crate) fn forget(&self, session: u64) {
        self.sessions().remove(&session);
    }

    /// Returns the current time on both clocks.
    pub(crate) fn moment() -> Moment {
        Moment {
            ns: monotonic_ns(),
            filetime: filetime_now(),
        }
    }
}

/// Creates a file in the root before any client connects.
fn put_file(volume: &mut Volume, name: &str, content: &[u8]) -> Option<()> {
    let connection = ConnectionId { thread: 0, serial: 0 };
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
    volume.notices.clear();
    written.ok()
}
