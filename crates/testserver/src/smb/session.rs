//! State shared by the connections of a session, its channels (MS-SMB2 3.3.1.8): the keys of the first
//! log-on, the trees and the pipes. A session exists as long as one of its channels, unless it is logged off
//! or replaced.
//!
//! `logon.rs` handles log-ons and the state of a single channel.

use super::pipes::Pipes;
use super::status::Status;
use super::volume::ConnectionId;
use crate::common::lock;
use dyno_smb::crypto::{Keys, Opener, Sealer, Signer};
use dyno_smb::wire::{Cipher, Dialect, SigningAlgorithm};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

const MOST_TREES: usize = 64;
/// Maximum number of channels: the default of Windows.
const MOST_CHANNELS: usize = 32;

/// Target of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tree {
    /// Files, in the volume with this index.
    Volume(usize),
    Pipes,
}

/// Properties negotiated by the first connection, which all other connections of a session must share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) dialect: Option<Dialect>,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) signing: SigningAlgorithm,
}

/// Keys of the first log-on.
pub(crate) struct FirstKeys {
    pub(crate) keys: Keys,
    pub(crate) signer: Arc<Signer>,
}

/// A session after its log-on.
pub(crate) struct Session {
    pub(crate) id: u64,
    terms: Terms,
    /// None for a guest.
    first: Option<FirstKeys>,
    pub(crate) must_sign: bool,
    pub(crate) must_encrypt: bool,
    has_ended: AtomicBool,
    state: Mutex<State>,
    pipes: Mutex<Pipes>,
}

struct State {
    trees: Vec<(u32, Tree)>,
    next_tree: u32,
    channels: Vec<ConnectionId>,
    /// Number of channels since the start of the session, which numbers them.
    channels_begun: u16,
}

impl Session {
    /// Creates a session without channels. `first`: the keys, unless it is a guest's session.
    pub(crate) fn new(
        id: u64,
        terms: Terms,
        first: Option<FirstKeys>,
        must_sign: bool,
        must_encrypt: bool,
    ) -> Self {
        let state = State {
            trees: Vec::new(),
            next_tree: 1,
            channels: Vec::new(),
            channels_begun: 0,
        };
        Self {
            id,
            terms,
            first,
            must_sign,
            must_encrypt,
            has_ended: AtomicBool::new(false),
            state: Mutex::new(state),
            pipes: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn pipes(&self) -> MutexGuard<'_, Pipes> {
        lock(&self.pipes)
    }

    /// Returns the signer for channels that have no key of their own yet.
    pub(crate) fn signer(&self) -> Option<&Arc<Signer>> {
        self.first.as_ref().map(|first| &first.signer)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Ends the session on all channels.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Checks that a connection with these terms may be bound to the session (MS-SMB2 3.3.5.5). Checks the signing
    /// algorithm first, because the request's signature can't be verified with another algorithm.
    pub(crate) fn check_binding(&self, theirs: Terms) -> Result<(), Status> {
        if self.has_ended() {
            return Err(Status::USER_SESSION_DELETED);
        }
        let is_gmac = |terms: &Terms| terms.signing == SigningAlgorithm::Aes128Gmac;
        match (is_gmac(&self.terms), is_gmac(&theirs)) {
            (true, false) => return Err(Status::REQUEST_OUT_OF_SEQUENCE),
            (false, true) => return Err(Status::NOT_SUPPORTED),
            _ => {}
        }
        if theirs.dialect < Some(Dialect::Smb300) {
            return Err(Status::REQUEST_NOT_ACCEPTED);
        }
        if theirs.dialect != self.terms.dialect || theirs.cipher != self.terms.cipher {
            return Err(Status::INVALID_PARAMETER);
        }
        if self.first.is_none() {
            // Guests have no key to prove that a session is theirs.
            return Err(Status::NOT_SUPPORTED);
        }
        Ok(())
    }

    /// Adds a channel and returns its ciphers. All channels of a session encrypt with the same keys, each with its own
    /// nonces.
    pub(crate) fn join(&self, channel: ConnectionId) -> Result<Option<(Sealer, Opener)>, Status> {
        let mut state = self.state();
        let begun = state.channels_begun.checked_add(1);
        let room = begun.filter(|_| state.channels.len() < MOST_CHANNELS);
        let number = state.channels_begun;
        state.channels_begun = room.ok_or(Status::INSUFFICIENT_RESOURCES)?;
        state.channels.push(channel);
        let Some((FirstKeys { keys, .. }, cipher)) = self.first.as_ref().zip(self.terms.cipher) else {
            return Ok(None);
        };
        let sealer = Sealer::of_channel(cipher, &keys.server_to_client, number);
        Ok(Some((sealer, Opener::new(cipher, &keys.client_to_server))))
    }

    /// Removes a channel. Calls `hand_over` with the channel that replaces it, or with None. No other channel
    /// can leave during the call.
    pub(crate) fn leave(&self, channel: ConnectionId, hand_over: impl FnOnce(Option<ConnectionId>)) {
        let mut state = self.state();
        state.channels.retain(|known| *known != channel);
        hand_over(state.channels.first().copied());
    }

    pub(crate) fn add_tree(&self, of: Tree) -> Result<u32, Status> {
        let mut state = self.state();
        if state.trees.len() >= MOST_TREES {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let tree = state.next_tree;
        state.next_tree = tree.wrapping_add(1).max(1);
        state.trees.push((tree, of));
        Ok(tree)
    }

    pub(crate) fn tree(&self, tree: u32) -> Result<Tree, Status> {
        if self.has_ended() {
            return Err(Status::USER_SESSION_DELETED);
        }
        let state = self.state();
        let found = state.trees.iter().find(|known| known.0 == tree);
        found.map(|known| known.1).ok_or(Status::NETWORK_NAME_DELETED)
    }

    /// Removes a tree and returns its target.
    pub(crate) fn disconnect_tree(&self, tree: u32) -> Result<Tree, Status> {
        let of = self.tree(tree)?;
        self.state().trees.retain(|known| known.0 != tree);
        Ok(of)
    }
}
