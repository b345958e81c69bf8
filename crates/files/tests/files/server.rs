//! An in-memory file server with real oplocks and leases by those rules of MS-FSA and MS-SMB2 on which the cache
//! depends: breaks, calls that wait for acknowledgements, sharing for deletion, locks. It executes one call at a time.
//! It has no protocol and no clock, and is not optimized.

use crate::clock::note_event;
use crate::holds::{lacks, Hold};
use crate::request::Request;
use crate::stateless::Stateless;
use dyno_files::{
    Access, Ask, Break, Caching, CallId, CallKind, Grant, Handle, Info, LeaseKey, Piggyback, Reply, SpaceInfo,
};
use dyno_measure::{Failure, Fault};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug)]
pub enum Message {
    Ended(CallId, Result<Reply, Failure>, Vec<u8>, Piggyback),
    Break(Break),
}

/// An executed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged {
    pub client: usize,
    pub kind: CallKind,
    pub offset: u64,
    /// Bytes to read or to write.
    pub bytes: u64,
    pub not_there: bool,
}

/// A call to refuse.
#[derive(Debug, Clone, Copy)]
pub struct Refusal {
    pub client: usize,
    pub kind: CallKind,
    /// Number of matching calls that succeed first.
    pub after: u32,
    pub with: Fault,
}

#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) data: Vec<u8>,
    pub(crate) delete_pending: bool,
    pub(crate) read_only: bool,
    locks: Vec<(OpenId, u64, u64)>,
}

pub(crate) type NodeId = usize;
pub(crate) type OpenId = u64;

#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) client: usize,
    pub(crate) handle: Handle,
    pub(crate) node: Option<NodeId>,
    pub(crate) access: Access,
    delete_on_close: bool,
    pub(crate) hold: Option<Hold>,
    pub(crate) lease: Option<LeaseKey>,
}

#[derive(Debug, Default)]
pub(crate) struct Side {
    pub(crate) inbox: VecDeque<Message>,
    pub(crate) connected: bool,
    handles: Vec<Option<OpenId>>,
    calls: u64,
}

type Answer = (Result<Reply, Failure>, Vec<u8>);

pub struct Server {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: BTreeMap<String, NodeId>,
    pub(crate) directories: BTreeSet<String>,
    pub(crate) opens: BTreeMap<OpenId, Opened>,
    pub(crate) leases: BTreeMap<(usize, u128), Hold>,
    pub(crate) sides: Vec<Side>,
    waiting: Vec<(usize, CallId, Request)>,
    last_open: OpenId,
    pub log: Vec<Logged>,
    pub refusals: Vec<Refusal>,
    /// Kinds of calls that wait, for any reason.
    pub held: Vec<CallKind>,
    /// Whether files may be deleted and renamed while others have them open.
    pub share_delete: bool,
    /// Unit in which the server allocates space.
    pub allocation_bytes: u64,
    /// Maximum caching to grant.
    pub grants: Caching,
    /// Whether breaks that need no acknowledgement are only delivered by `deliver_breaks`.
    pub slow_breaks: bool,
    pub(crate) on_their_way: Vec<(usize, Break)>,
    /// Whether calls wait for `carry_out_any`.
    pub by_hand: bool,
    /// Number of acknowledgements without a break.
    pub wrong_answers: u64,
    /// Set for a server that grants nothing and returns attributes with each reply (`stateless.rs`).
    pub stateless: Option<Stateless>,
}

impl Server {
    /// Creates a server for this many clients, with an empty root.
    pub fn new(clients: usize) -> Self {
        Self {
            nodes: Vec::new(),
            names: BTreeMap::new(),
            directories: BTreeSet::from([String::new()]),
            opens: BTreeMap::new(),
            leases: BTreeMap::new(),
            sides: (0..clients).map(|_| Side::default()).collect(),
            waiting: Vec::new(),
            last_open: 0,
            log: Vec::new(),
            refusals: Vec::new(),
            held: Vec::new(),
            share_delete: true,
            allocation_bytes: 1 << 20,
            grants: Caching::ALL,
            slow_breaks: false,
            on_their_way: Vec::new(),
            by_hand: false,
            wrong_answers: 0,
            stateless: None,
        }
    }

    pub fn put(&mut self, path: &str, data: &[u8], read_only: bool) {
        self.nodes.push(Node {
            data: data.to_vec(),
            read_only,
            ..Node::default()
        });
        self.names.insert(path.to_ascii_lowercase(), self.nodes.len() - 1);
        self.changed(self.nodes.len() - 1);
    }

    /// Returns the contents of a file, or None if it does not exist.
    pub fn content(&self, path: &str) -> Option<&[u8]> {
        let node = self.names.get(&path.to_ascii_lowercase())?;
        Some(&self.nodes[*node].data)
    }

    pub fn open_handles(&self) -> usize {
        self.opens.len()
    }

    /// Ends a client's session on the server's side.
    pub fn cut(&mut self, client: usize) {
        self.sides[client].connected = false;
        self.sides[client].inbox.clear();
        self.waiting.retain(|(of, ..)| *of != client);
        let own: Vec<OpenId> = self
            .opens
            .iter()
            .filter(|(_, open)| open.client == client)
            .map(|(id, _)| *id)
            .collect();
        own.into_iter().for_each(|id| self.drop_open(id));
        self.sides[client].handles.clear();
        note_event();
        self.carry_out_all();
    }

    pub fn submit(&mut self, client: usize, request: Request) -> CallId {
        self.sides[client].calls += 1;
        let id = CallId(self.sides[client].calls);
        self.waiting.push((client, id, request));
        note_event();
        if !self.by_hand {
            self.carry_out_all();
        }
        id
    }

    /// Executes all possible calls.
    pub fn carry_out_all(&mut self) {
        if self.by_hand {
            return;
        }
        let mut place = 0;
        while place < self.waiting.len() {
            // Each call may unblock an earlier one.
            place = if self.carry_out(place) { 0 } else { place + 1 };
        }
    }

    /// Executes the `choice`th of the waiting calls that are possible. Returns false if none is possible.
    pub fn carry_out_any(&mut self, choice: usize) -> bool {
        let count = self.waiting.len();
        (0..count).any(|step| self.carry_out((choice + step) % count))
    }

    fn carry_out(&mut self, place: usize) -> bool {
        let (client, id, request) = self.waiting[place].clone();
        if self.held.contains(&request.kind()) {
            return false;
        }
        let before = self.state_before(client, &request);
        let Some((result, data)) = self
            .refused(client, &request)
            .or_else(|| self.attempt(client, &request))
        else {
            return false;
        };
        self.waiting.remove(place);
        let (offset, bytes) = request.extent();
        self.log.push(Logged {
            client,
            kind: request.kind(),
            offset,
            bytes,
            not_there: matches!(result, Ok(Reply::NotThere | Reply::Found { entries: 0 })),
        });
        let piggyback = self.piggyback(client, &request, &result, before);
        self.sides[client]
            .inbox
            .push_back(Message::Ended(id, result, data, piggyback));
        note_event();
        true
    }

    fn refused(&mut self, client: usize, request: &Request) -> Option<Answer> {
        let matches = |refusal: &Refusal| refusal.client == client && refusal.kind == request.kind();
        let place = self.refusals.iter().position(matches)?;
        if self.refusals[place].after > 0 {
            self.refusals[place].after -= 1;
            return None;
        }
        let refusal = self.refusals.remove(place);
        if let Request::Close(handle) = request {
            let _ = self.attempt(client, &Request::Close(*handle));
        }
        Some((Err(refusal.with.into()), Vec::new()))
    }

    /// Returns None if the call must wait for another client.
    fn attempt(&mut self, client: usize, request: &Request) -> Option<Answer> {
        let mut data = Vec::new();
        let result = match request {
            Request::Open { .. } => self.open(client, request)?,
            Request::Rename(from, to) => self.rename(from, to)?,
            Request::Delete(path) => self.delete(path)?,
            Request::Read(handle, offset, bytes) => self.read(client, *handle, *offset, *bytes, &mut data),
            Request::Write(handle, offset, bytes, _) => self.write(client, *handle, *offset, bytes),
            Request::SetEnd(handle, bytes) => self.set_end(client, *handle, *bytes),
            Request::Lock(handle, offset, bytes) => self.lock(client, *handle, *offset, *bytes),
            Request::Unlock(handle, offset, bytes) => self.unlock(client, *handle, *offset, *bytes),
            Request::Close(handle) => self.close(client, *handle),
            Request::QueryHandle(handle) => self.query(client, *handle),
            Request::Flush(handle) | Request::SetTimes(handle) => {
                self.open_of(client, *handle).map(|_| Reply::Done)
            }
            Request::QueryPath(path) => Ok(self.query_path(path)),
            Request::QuerySpace => Ok(Reply::Space(SpaceInfo {
                total_bytes: 1 << 40,
                free_bytes: 1 << 39,
            })),
            Request::Find(directory, pattern) => Ok(self.find(directory, pattern)),
            Request::MakeDirectory(path) => match self.directories.insert(path.to_ascii_lowercase()) {
                true => Ok(Reply::Done),
                false => Err(Fault::AlreadyThere.into()),
            },
            Request::RemoveDirectory(path) => self.remove_directory(path),
        };
        Some((result, data))
    }

    fn open_of(&self, client: usize, handle: Handle) -> Result<OpenId, Failure> {
        let id = self.sides[client]
            .handles
            .get(handle.0 as usize)
            .copied()
            .flatten();
        id.ok_or_else(|| Fault::SessionLost.into())
    }

    pub(crate) fn file_of(&self, client: usize, handle: Handle) -> Result<(OpenId, NodeId), Failure> {
        let id = self.open_of(client, handle)?;
        let node = self.opens[&id].node.ok_or(Fault::ErrorStatus)?;
        Ok((id, node))
    }

    pub(crate) fn info(&self, id: NodeId) -> Info {
        let node = &self.nodes[id];
        let bytes = node.data.len() as u64;
        Info {
            file_id: self.number_of(id),
            change: self.change_of(id),
            bytes,
            allocated_bytes: bytes.div_ceil(self.allocation_bytes) * self.allocation_bytes,
            directory: false,
            read_only: node.read_only,
        }
    }

    pub(crate) fn add_open(
        &mut self,
        client: usize,
        node: Option<NodeId>,
        access: Access,
        delete_on_close: bool,
        granted: Option<(Ask, Caching)>,
    ) -> Handle {
        self.last_open += 1;
        let handles = &mut self.sides[client].handles;
        let place = handles.iter().position(Option::is_none).unwrap_or(handles.len());
        if place == handles.len() {
            handles.push(None);
        }
        handles[place] = Some(self.last_open);
        let handle = Handle(u32::try_from(place).unwrap());
        let (hold, lease) = match granted {
            Some((Ask::Lease(key, _), _)) if access != Access::Attributes => (None, Some(key)),
            Some((_, caching)) if caching != Caching::NONE => (Some(Hold::new(caching)), None),
            _ => (None, None),
        };
        self.opens.insert(
            self.last_open,
            Opened {
                client,
                handle,
                node,
                access,
                delete_on_close,
                hold,
                lease,
            },
        );
        handle
    }

    fn read(
        &mut self,
        client: usize,
        handle: Handle,
        offset: u64,
        bytes: u32,
        data: &mut Vec<u8>,
    ) -> Result<Reply, Failure> {
        let (open, node) = self.file_of(client, handle)?;
        if !matches!(self.opens[&open].access, Access::Read | Access::ReadWrite) {
            return Err(Fault::AccessDenied.into());
        }
        self.check_locks(open, node, offset, u64::from(bytes))?;
        let content = &self.nodes[node].data;
        let from = content.len().min(usize::try_from(offset).unwrap());
        let to = content.len().min(from + bytes as usize);
        data.extend_from_slice(&content[from..to]);
        Ok(Reply::Read {
            bytes: u32::try_from(to - from).unwrap(),
        })
    }

    fn writable(&self, client: usize, handle: Handle) -> Result<(OpenId, NodeId), Failure> {
        let (open, node) = self.file_of(client, handle)?;
        match self.opens[&open].access {
            Access::ReadWrite | Access::Write => Ok((open, node)),
            _ => Err(Fault::AccessDenied.into()),
        }
    }

    fn write(&mut self, client: usize, handle: Handle, offset: u64, bytes: &[u8]) -> Result<Reply, Failure> {
        let (open, node) = self.writable(client, handle)?;
        self.check_locks(open, node, offset, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(Reply::Written { bytes: 0 });
        }
        self.break_reads(node, open, true);
        let from = usize::try_from(offset).unwrap();
        let content = &mut self.nodes[node].data;
        content.resize(content.len().max(from + bytes.len()), 0);
        content[from..from + bytes.len()].copy_from_slice(bytes);
        self.changed(node);
        Ok(Reply::Written {
            bytes: u32::try_from(bytes.len()).unwrap(),
        })
    }

    fn set_end(&mut self, client: usize, handle: Handle, bytes: u64) -> Result<Reply, Failure> {
        let (open, node) = self.writable(client, handle)?;
        self.break_reads(node, open, true);
        self.nodes[node].data.resize(usize::try_from(bytes).unwrap(), 0);
        self.changed(node);
        Ok(Reply::Done)
    }

    fn lock(&mut self, client: usize, handle: Handle, offset: u64, bytes: u64) -> Result<Reply, Failure> {
        let (open, node) = self.file_of(client, handle)?;
        let overlaps = |lock: &(OpenId, u64, u64)| lock.1 < offset + bytes && offset < lock.1 + lock.2;
        if self.nodes[node].locks.iter().any(overlaps) {
            return Err(Fault::LockConflict.into());
        }
        self.break_reads(node, open, false);
        self.nodes[node].locks.push((open, offset, bytes));
        Ok(Reply::Done)
    }

    fn unlock(&mut self, client: usize, handle: Handle, offset: u64, bytes: u64) -> Result<Reply, Failure> {
        let (open, node) = self.file_of(client, handle)?;
        let locks = &mut self.nodes[node].locks;
        let place = locks.iter().position(|lock| *lock == (open, offset, bytes));
        locks.remove(place.ok_or(Fault::ErrorStatus)?);
        Ok(Reply::Done)
    }

    pub(crate) fn has_locks(&self, node: NodeId) -> bool {
        !self.nodes[node].locks.is_empty()
    }

    fn check_locks(&self, open: OpenId, node: NodeId, offset: u64, bytes: u64) -> Result<(), Failure> {
        let forbids =
            |lock: &(OpenId, u64, u64)| lock.0 != open && lock.1 < offset + bytes && offset < lock.1 + lock.2;
        match self.nodes[node].locks.iter().any(forbids) {
            true => Err(Fault::LockConflict.into()),
            false => Ok(()),
        }
    }

    fn query(&self, client: usize, handle: Handle) -> Result<Reply, Failure> {
        let id = self.open_of(client, handle)?;
        Ok(Reply::Info(
            self.opens[&id]
                .node
                .map_or_else(Info::default, |node| self.info(node)),
        ))
    }

    fn close(&mut self, client: usize, handle: Handle) -> Result<Reply, Failure> {
        let id = self.open_of(client, handle)?;
        self.sides[client].handles[handle.0 as usize] = None;
        self.drop_open(id);
        Ok(Reply::Done)
    }

    fn drop_open(&mut self, id: OpenId) {
        let Some(open) = self.opens.remove(&id) else {
            return;
        };
        if let Some(key) = open.lease {
            let shared = |other: &Opened| other.client == open.client && other.lease == Some(key);
            if !self.opens.values().any(shared) {
                self.leases.remove(&(open.client, key.0));
            }
        }
        let Some(node) = open.node else { return };
        self.nodes[node].locks.retain(|lock| lock.0 != id);
        self.nodes[node].delete_pending |= open.delete_on_close;
        let is_last = self.opens.values().all(|other| other.node != Some(node));
        if is_last && self.nodes[node].delete_pending {
            self.names.retain(|_, named| *named != node);
        }
    }

    pub fn deliver_breaks(&mut self) {
        for (client, broken) in std::mem::take(&mut self.on_their_way) {
            self.sides[client].inbox.push_back(Message::Break(broken));
            note_event();
        }
    }

    /// Returns the clients of waiting calls, in the order of the calls.
    pub fn waiting_clients(&self) -> Vec<usize> {
        self.waiting.iter().map(|(client, ..)| *client).collect()
    }

    /// Sends a break for no reason.
    pub fn send_break(&mut self, client: usize, grant: Grant, to: Caching) {
        let acknowledge = true;
        let broken = Break {
            grant,
            to,
            acknowledge,
        };
        self.sides[client].inbox.push_back(Message::Break(broken));
        note_event();
    }

    /// Handles the acknowledgement of a break.
    pub fn answer(&mut self, client: usize, grant: Grant, left: Caching) {
        let hold = match grant {
            Grant::Handle(handle) => {
                let id = self.open_of(client, handle).ok();
                id.and_then(|id| self.opens.get_mut(&id))
                    .and_then(|open| open.hold.as_mut())
            }
            Grant::Lease(key) => self.leases.get_mut(&(client, key.0)),
        };
        match hold {
            Some(hold) if hold.breaking.is_some_and(|to| !lacks(to, left)) => {
                hold.caching = left;
                hold.breaking = None;
            }
            // The lease ended with its last handle while the acknowledgement was in transit: the server
            // only reports that.
            None if matches!(grant, Grant::Lease(_)) => {}
            _ => self.wrong_answers += 1,
        }
        note_event();
        self.carry_out_all();
    }
}
