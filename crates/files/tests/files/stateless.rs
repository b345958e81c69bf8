//! The parts of the in-memory server that make it stateless, like an NFSv3 server. It numbers files, and returns the
//! current and previous attributes of the file with each reply. It keeps unstable writes only in memory, and loses them
//! in a restart. Handles stay valid.

use crate::clock::now;
use crate::request::Request;
use crate::server::{NodeId, Server};
use dyno_files::{Attributes, CallKind, Handle, Piggyback, Reply, Stability, Stored, Verifier};
use dyno_measure::Failure;
use std::collections::HashMap;

/// State of a file from some moment on.
#[derive(Debug, Clone)]
pub struct State {
    pub since_ns: u64,
    pub data: Vec<u8>,
}

/// State of a stateless server besides its files.
#[derive(Debug, Default)]
pub struct Stateless {
    run: u64,
    last_change: u64,
    changes: HashMap<NodeId, u64>,
    /// Contents of each file that survive a restart.
    stable: HashMap<NodeId, Vec<u8>>,
    /// Whether replies lack the previous attributes.
    pub without_before: bool,
    /// Whether to record no history. Recording copies the file for each state.
    pub without_history: bool,
    /// All states of every file, in order.
    pub history: HashMap<NodeId, Vec<State>>,
}

impl Stateless {
    /// Makes the current contents of a file stable.
    pub fn put_stable(&mut self, node: NodeId, data: Vec<u8>) {
        self.stable.insert(node, data);
    }
}

impl Server {
    /// Creates a server for this many clients.
    pub fn stateless(clients: usize) -> Self {
        let mut server = Self::new(clients);
        server.stateless = Some(Stateless::default());
        server.allocation_bytes = 1;
        server
    }

    /// Restarts the server: unstable data is lost.
    pub fn start_anew(&mut self) {
        let kept = self.stateless.as_mut().expect("is stateless");
        kept.run += 1;
        let stable = kept.stable.clone();
        for (node, data) in stable {
            if self.nodes[node].data != data {
                self.nodes[node].data = data;
                self.changed(node);
            }
        }
    }

    pub(crate) fn number_of(&self, node: NodeId) -> u64 {
        self.stateless.as_ref().map_or(0, |_| node as u64 + 1)
    }

    pub(crate) fn change_of(&self, node: NodeId) -> u64 {
        let changes = self.stateless.as_ref().map(|kept| &kept.changes);
        changes
            .and_then(|changes| changes.get(&node).copied())
            .unwrap_or(0)
    }

    /// Records a change of a file's data.
    pub(crate) fn changed(&mut self, node: NodeId) {
        let Some(kept) = &mut self.stateless else { return };
        kept.last_change += 1;
        kept.changes.insert(node, kept.last_change);
        kept.stable.entry(node).or_default();
        if kept.without_history {
            return;
        }
        let (since_ns, data) = (now(), self.nodes[node].data.clone());
        kept.history
            .entry(node)
            .or_default()
            .push(State { since_ns, data });
    }

    fn node_of_request(&self, client: usize, request: &Request) -> Option<NodeId> {
        let handle: Handle = match *request {
            Request::Read(handle, ..)
            | Request::Write(handle, ..)
            | Request::SetEnd(handle, ..)
            | Request::SetTimes(handle)
            | Request::Flush(handle) => handle,
            _ => return None,
        };
        Some(self.file_of(client, handle).ok()?.1)
    }

    pub(crate) fn state_before(&self, client: usize, request: &Request) -> Option<u64> {
        self.node_of_request(client, request)
            .map(|node| self.change_of(node))
    }

    /// Returns the attributes that accompany a reply.
    pub(crate) fn piggyback(
        &mut self,
        client: usize,
        request: &Request,
        result: &Result<Reply, Failure>,
        before: Option<u64>,
    ) -> Piggyback {
        let node = self.node_of_request(client, request).filter(|_| result.is_ok());
        let Some((node, kept)) = node.zip(self.stateless.as_mut()) else {
            return Piggyback::default();
        };
        let stability = match *request {
            Request::Write(.., stability) => Some(stability),
            Request::Flush(_) => Some(Stability::File),
            Request::SetEnd(..) => Some(Stability::File),
            _ => None,
        };
        if stability.is_some_and(|stability| stability > Stability::Unstable) {
            // More than requested becomes stable, as on real servers.
            kept.stable.insert(node, self.nodes[node].data.clone());
        }
        let verifier = Verifier(kept.run);
        let writes = matches!(request.kind(), CallKind::Write | CallKind::Flush);
        let change_before = before.filter(|_| !kept.without_before);
        Piggyback {
            attributes: Some(Attributes {
                info: self.info(node),
                change_before,
            }),
            stored: stability
                .filter(|_| writes)
                .map(|stability| Stored { stability, verifier }),
        }
    }
}
