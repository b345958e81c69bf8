//! A file server in memory for clients on several threads. It records each client's calls, and answers one of them
//! wrongly.

use crate::counting::SessionFacts;
use crate::files::sessions::{KeptBy, Place, Requests, Sessions, FIRST_ASKING_CLIENT};
use crate::job::JobControl;
use dyno_files::{
    matches_pattern, Break, Caching, Call, CallId, Disposition, Event, FileClient, Handle, Info, Open,
    Piggyback, Reply, Traffic,
};
use dyno_measure::{Failure, Fault};
use dyno_net::Pace;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Maximum size of a read or write.
const MOST_BYTES: u32 = 1 << 20;

/// What replaces the right answer to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The call is refused, and the session survives.
    Refused(Fault),
    /// The connection is lost.
    Lost,
    OtherAnswer,
    Stopped,
}

/// Directories and files of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Volume {
    files: BTreeMap<String, Vec<u8>>,
    directories: BTreeSet<String>,
}

type Answer = (Result<Reply, Failure>, Vec<u8>);

/// The server and its record of calls.
#[derive(Debug)]
pub(super) struct Server {
    volume: Mutex<Volume>,
    /// One line per call, by client.
    calls: Mutex<BTreeMap<u32, String>>,
    count: AtomicU64,
    wrong: Option<(u64, Wrong)>,
    pub(super) end: Arc<JobControl>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    pub(super) fn volume(&self) -> Volume {
        lock(&self.volume).clone()
    }

    /// Returns all calls, client by client, and the remaining files.
    pub(super) fn told(&self) -> String {
        let volume = self.volume();
        let sizes = volume.files.iter().map(|(name, data)| (name, xxh3_64(data)));
        let left = format!("{:?} {:?}\n", volume.directories, sizes.collect::<Vec<_>>());
        let calls = lock(&self.calls);
        let of_clients = calls
            .iter()
            .map(|(client, calls)| format!("client {client}\n{calls}"));
        of_clients.chain([left]).collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn note(&self, client: u32, line: &str) {
        let mut calls = lock(&self.calls);
        let of_client = calls.entry(client).or_default();
        of_client.push_str(line);
        of_client.push('\n');
    }
}

/// Creates sessions on the server.
#[derive(Debug, Clone)]
pub(super) struct InMemory(pub(super) Arc<Server>);

impl InMemory {
    /// Creates a server with these files. `wrong`: the number of the call to answer wrongly, and the way.
    pub(super) fn new(volume: Volume, wrong: Option<(u64, Wrong)>) -> Self {
        Self(Arc::new(Server {
            volume: Mutex::new(volume),
            calls: Mutex::default(),
            count: AtomicU64::new(0),
            wrong,
            end: Arc::new(JobControl::default()),
        }))
    }
}

impl Sessions for InMemory {
    type Client = Client;

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    fn is_local(&self) -> bool {
        true
    }

    fn enter(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn shares(&self) -> &[String] {
        const { &[String::new()] }
    }

    fn base_path(&self) -> &str {
        ""
    }

    fn paced(&self, _pace: Option<Pace>) -> Self {
        self.clone()
    }

    fn pace(&self) -> Option<&Pace> {
        None
    }

    fn session(&self, _place: Place<'_>, _identity: u64, client: u32, _share: &str) -> Client {
        Client {
            server: self.0.clone(),
            number: FIRST_ASKING_CLIENT - client,
            open: Vec::new(),
            ended: VecDeque::new(),
            read: Vec::new(),
            calls: 0,
        }
    }

    fn agreed(_client: &Client) -> Option<SessionFacts> {
        None
    }

    fn brought_attributes(_before: &Requests, _after: &Requests) -> bool {
        false
    }

    fn kept_by(&self) -> KeptBy {
        KeptBy::Kernel
    }

    fn advice(&self, _failure: &Failure) -> Option<&'static str> {
        None
    }
}

/// One client's session.
#[derive(Debug)]
pub(super) struct Client {
    server: Arc<Server>,
    number: u32,
    /// Paths of open files, by handle.
    open: Vec<Option<String>>,
    ended: VecDeque<(CallId, Answer)>,
    read: Vec<u8>,
    calls: u64,
}

impl Client {
    fn answer(&mut self, call: &Call<'_>) -> Answer {
        let server = self.server.clone();
        let volume = &mut *lock(&server.volume);
        let mut read = Vec::new();
        let reply = match *call {
            Call::Open(open) => self.opened(volume, &open),
            Call::Close { handle } => self.path(handle).cloned().map(|_| {
                self.open[handle.0 as usize] = None;
                Reply::Done
            }),
            Call::Read {
                handle,
                offset,
                bytes,
            } => self.path(handle).map(|path| {
                let data = volume.files.get(path).map_or(&[][..], Vec::as_slice);
                let from = data.len().min(offset as usize);
                read.extend_from_slice(&data[from..data.len().min(from + bytes as usize)]);
                Reply::Read {
                    bytes: read.len() as u32,
                }
            }),
            Call::Write {
                handle, offset, data, ..
            } => self.path(handle).map(|path| {
                let (file, from) = (volume.files.entry(path.clone()).or_default(), offset as usize);
                file.resize(file.len().max(from + data.len()), 0);
                file[from..from + data.len()].copy_from_slice(data);
                Reply::Written {
                    bytes: data.len() as u32,
                }
            }),
            Call::QueryHandle { handle } => self.path(handle).map(|path| volume.query(path)),
            Call::QueryPath { path } => Ok(volume.query(path)),
            Call::Find { directory, pattern } => Ok(volume.find(directory, pattern)),
            Call::Delete { path } => done(volume.files.remove(path).is_some(), Fault::NotFound),
            Call::MakeDirectory { path } => done(volume.directories.insert(path.into()), Fault::AlreadyThere),
            Call::RemoveDirectory { path } => match volume.find(path, "*") {
                Reply::Found { entries: 0 } => done(volume.directories.remove(path), Fault::NotFound),
                _ => done(false, Fault::ErrorStatus),
            },
            _ => Ok(Reply::Done),
        };
        (reply, read)
    }

    fn opened(&mut self, volume: &mut Volume, open: &Open<'_>) -> Result<Reply, Failure> {
        let there = volume.files.contains_key(open.path);
        match (open.disposition, there) {
            (Disposition::Create, true) => return Err(Fault::AlreadyThere.into()),
            (Disposition::Open | Disposition::Overwrite, false) => return Ok(Reply::NotThere),
            _ => {}
        }
        let file = volume.files.entry(open.path.to_owned()).or_default();
        if matches!(
            open.disposition,
            Disposition::Overwrite | Disposition::OverwriteIf
        ) {
            file.clear();
        }
        self.open.push(Some(open.path.to_owned()));
        Ok(Reply::Opened {
            handle: Handle(self.open.len() as u32 - 1),
            granted: Caching::NONE,
            created: !there,
            info: Info::default(),
        })
    }

    fn path(&self, handle: Handle) -> Result<&String, Failure> {
        let open = self.open.get(handle.0 as usize);
        open.and_then(Option::as_ref).ok_or(Fault::SessionLost.into())
    }
}

fn done(can_be: bool, fault: Fault) -> Result<Reply, Failure> {
    match can_be {
        true => Ok(Reply::Done),
        false => Err(fault.into()),
    }
}

impl Volume {
    fn query(&self, path: &str) -> Reply {
        match (self.files.get(path), self.directories.contains(path)) {
            (None, false) => Reply::NotThere,
            (file, directory) => Reply::Info(Info {
                bytes: file.map_or(0, Vec::len) as u64,
                directory,
                ..Info::default()
            }),
        }
    }

    fn find(&self, directory: &str, pattern: &str) -> Reply {
        let names = self.files.keys().chain(&self.directories);
        let within = names.filter_map(|name| name.strip_prefix(directory)?.strip_prefix('/'));
        let found = within.filter(|name| !name.contains('/') && matches_pattern(pattern, name.as_bytes()));
        match self.directories.contains(directory) {
            true => Reply::Found {
                entries: found.count() as u32,
            },
            false => Reply::NotThere,
        }
    }
}

/// Returns a wrong answer of the same kind.
fn other((reply, mut read): Answer) -> Answer {
    let other = reply.map(|reply| match reply {
        Reply::Opened { .. } => Reply::NotThere,
        Reply::Written { bytes } => Reply::Written {
            bytes: bytes.saturating_sub(1),
        },
        Reply::Info(info) => Reply::Info(Info {
            bytes: info.bytes + 1,
            ..info
        }),
        Reply::NotThere => Reply::Info(Info::default()),
        Reply::Found { entries } => Reply::Found { entries: entries + 1 },
        reply => reply,
    });
    if let Some(first) = read.first_mut() {
        *first = !*first;
    }
    (other, read)
}

fn line(call: &Call<'_>) -> String {
    match call {
        Call::Write {
            handle, offset, data, ..
        } => format!("write {} {offset} {} {:x}", handle.0, data.len(), xxh3_64(data)),
        call => format!("{call:?}"),
    }
}

impl FileClient for Client {
    async fn connect(&mut self) -> Result<(), Failure> {
        self.server.note(self.number, "connect");
        Ok(())
    }

    async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        let number = self.server.count.fetch_add(1, Ordering::Relaxed);
        self.server.note(self.number, &line(call));
        self.calls += 1;
        let wrong = self.server.wrong.filter(|(at, _)| *at == number);
        let answer = match wrong.map(|(_, wrong)| wrong) {
            None => self.answer(call),
            Some(Wrong::OtherAnswer) => other(self.answer(call)),
            Some(Wrong::Stopped) => {
                self.server.end.stop();
                self.answer(call)
            }
            Some(Wrong::Refused(fault)) => {
                if let Call::Close { .. } = call {
                    // The file is closed, even if the answer is wrong.
                    let _ = self.answer(call);
                }
                (Err(fault.into()), Vec::new())
            }
            Some(Wrong::Lost) => {
                self.open.clear();
                self.ended.clear();
                return Err(Fault::ConnectionReset.into());
            }
        };
        let id = CallId(self.calls);
        self.ended.push_back((id, answer));
        Ok(id)
    }

    async fn next(&mut self) -> Result<Event<'_>, Failure> {
        let (id, (result, read)) = self.ended.pop_front().ok_or(Fault::ClosedEarly)?;
        self.read = read;
        Ok(Event::Ended {
            id,
            result,
            data: &self.read,
            piggyback: Piggyback::default(),
        })
    }

    async fn break_until(&mut self, _due_ns: u64) -> Result<Option<Break>, Failure> {
        std::thread::yield_now();
        Ok(None)
    }

    fn loses_unstable_writes(&self) -> bool {
        false
    }

    async fn disconnect(&mut self) {
        self.server.note(self.number, "disconnect");
        self.open.clear();
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    fn requests_by_name(&self) -> Vec<(&'static str, u64)> {
        vec![("calls", self.calls)]
    }

    fn max_read_bytes(&self) -> u32 {
        MOST_BYTES
    }

    fn max_write_bytes(&self) -> u32 {
        MOST_BYTES
    }
}
