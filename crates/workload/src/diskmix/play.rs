//! A client's replay of the script: its order of applications, and the actions that create, leave and remove
//! its workspace.
//!
//! `script.rs` creates the pieces, `player.rs` recovers from errors.

use super::facts::APPS;
use super::script::{SEED_READ, SEED_WRITE, SWEEP};
use super::share::shuffle;
use super::Script;
use crate::player::{Piece, Player, Scripted};
use crate::random::RandomStream;
use crate::{FileAction, FileCatalogue, FileWorkload, PathId};
use std::sync::Arc;

/// Pieces per pass: applications and seed phases alternate, and the sweep follows the last application.
const PIECES: usize = 2 * APPS.len();
/// Number of a client's random stream for the order of applications, unique among its streams.
const ORDER_STREAM: u32 = u32::MAX;

pub type DiskMix = Player<Script>;

impl Scripted for Script {
    const HAS_SEPARATE_PIECES: bool = true;
    const LOOKS_FOR_ITS_OWN: bool = false;

    fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    fn slots(&self) -> usize {
        self.slots
    }
}

impl DiskMix {
    /// Returns the mix of one client. Seed and client determine the order of its applications and the
    /// contents that it writes.
    pub fn new(script: Arc<Script>, seed: u64, client: u32) -> Self {
        let mut random = RandomStream::of_thread(seed, client, ORDER_STREAM);
        let mut applications: [usize; APPS.len()] = std::array::from_fn(|number| number);
        shuffle(&mut applications, &mut random);
        let piece = |place| match place {
            place if place % 2 == 0 => applications[place / 2],
            place if place == PIECES - 1 => SWEEP,
            place if place % 4 == 1 => SEED_WRITE,
            _ => SEED_READ,
        };
        let order = (0..PIECES).map(piece).collect();
        // The first write has this generation plus one. It is never 0, the generation of the workspace.
        let generation = random.below(u32::MAX);
        Self::of_pieces(script, order, generation)
    }

    /// Returns the names of a pass's pieces, in this client's order.
    pub fn order(&self) -> Vec<&'static str> {
        let name = |&number: &usize| match number {
            SEED_WRITE => "seed write",
            SEED_READ => "seed read",
            SWEEP => "sweep",
            application => APPS[application],
        };
        self.order.iter().map(name).collect()
    }
}

impl FileWorkload for DiskMix {
    fn catalogue(&self) -> &FileCatalogue {
        &self.script.catalogue
    }

    fn preparation(&self, found: bool) -> Vec<FileAction> {
        if found {
            self.script.delete_all_made()
        } else {
            self.script.build()
        }
    }

    fn marker(&self) -> PathId {
        self.script.marker
    }

    fn leaving(&self) -> Vec<FileAction> {
        let begun = self.begun().filter(|piece| !piece.sweeps);
        let deletes = begun.flat_map(|piece| &piece.recovery).map(|op| op.action);
        self.closes().chain(deletes).collect()
    }

    fn removal(&self) -> Vec<FileAction> {
        self.script.remove()
    }

    fn passes(&self) -> u64 {
        self.passes
    }

    fn pass_operations(&self) -> u64 {
        self.operations_of_pass()
    }
}
