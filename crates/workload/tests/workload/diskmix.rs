//! A client plays the disk mix on a strict file server, which refuses whatever a real one would refuse.

use dyno_workload::{
    DiskMix, DiskMixOptions, FileAction, FileWorkload, Intent, Ledger, Outcome, PathId, Presence, Script,
    Slot, Workload,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Files in memory, as one client sees them.
#[derive(Debug, Default, Clone)]
struct Server {
    directories: BTreeSet<PathId>,
    files: BTreeMap<PathId, u64>,
    slots: HashMap<Slot, PathId>,
    locks: BTreeSet<(Slot, u64)>,
    most_open: usize,
}

impl Server {
    fn is_open(&self, path: PathId) -> bool {
        self.slots.values().any(|&open| open == path)
    }

    fn there(&self, path: PathId, presence: Presence) -> bool {
        let there = self.files.contains_key(&path) || self.directories.contains(&path);
        match presence {
            Presence::There => there,
            Presence::NotThere => !there,
            Presence::Either => true,
        }
    }

    /// Performs an action. Returns whether the answer is right.
    fn act(&mut self, action: &FileAction, names: &[String], patterns: &[String]) -> bool {
        match *action {
            FileAction::Open {
                slot,
                path,
                intent,
                presence,
                ..
            } => self.open(slot, path, intent, presence),
            FileAction::Close { slot } => {
                self.locks.retain(|&(locked, _)| locked != slot);
                self.slots.remove(&slot).is_some()
            }
            FileAction::Read { slot, offset, bytes } => {
                let file = self.slots.get(&slot).and_then(|path| self.files.get(path));
                file.is_some_and(|&size| offset + u64::from(bytes) <= size)
            }
            FileAction::Write {
                slot, offset, bytes, ..
            } => {
                let Some(size) = self.slots.get(&slot).and_then(|path| self.files.get_mut(path)) else {
                    return false;
                };
                *size = (*size).max(offset + u64::from(bytes));
                bytes > 0
            }
            FileAction::Lock { slot, offset, .. } => {
                self.slots.contains_key(&slot) && self.locks.insert((slot, offset))
            }
            FileAction::Unlock { slot, offset, .. } => self.locks.remove(&(slot, offset)),
            FileAction::Flush { slot }
            | FileAction::QueryFile { slot }
            | FileAction::QueryTimes { slot }
            | FileAction::SetTimes { slot } => self.slots.contains_key(&slot),
            FileAction::SetEnd { .. }
            | FileAction::WriteFile { .. }
            | FileAction::ReadFile { .. }
            | FileAction::ReadBlock { .. }
            | FileAction::ReadBack { .. }
            | FileAction::LetGo { .. }
            | FileAction::WriteBlock { .. }
            | FileAction::LockWaiting { .. } => false,
            FileAction::QueryPath { path, presence } => self.there(path, presence),
            FileAction::QuerySpace => true,
            FileAction::Find {
                directory,
                pattern,
                presence,
            } => {
                let matches = patterns[usize::from(pattern)] == "*" && self.has_entries(directory, names);
                matches == (presence == Presence::There) && self.directories.contains(&directory)
            }
            FileAction::Rename { from, to } => {
                if self.is_open(from) || self.files.contains_key(&to) {
                    return false;
                }
                let size = self.files.remove(&from);
                size.map(|size| self.files.insert(to, size)).is_some()
            }
            FileAction::Delete { path, presence } => {
                !self.is_open(path) && (self.files.remove(&path).is_some() || presence == Presence::Either)
            }
            FileAction::MakeDirectory { path, presence } => {
                self.directories.insert(path) || presence == Presence::Either
            }
            FileAction::RemoveDirectory { path, .. } => {
                !self.has_entries(path, names) && self.directories.remove(&path)
            }
        }
    }

    fn open(&mut self, slot: Slot, path: PathId, intent: Intent, presence: Presence) -> bool {
        let there = self.files.contains_key(&path);
        if presence == Presence::NotThere {
            return !there && !self.directories.contains(&path);
        }
        let allowed = match intent {
            Intent::Make => !there,
            Intent::Replace | Intent::MakeOrEdit => true,
            Intent::Look | Intent::Read | Intent::Edit => there,
        };
        // The scripts never have a file open twice.
        if !allowed || self.slots.contains_key(&slot) || self.is_open(path) {
            return false;
        }
        if matches!(intent, Intent::Make | Intent::Replace) {
            self.files.insert(path, 0);
        }
        self.slots.insert(slot, path);
        self.most_open = self.most_open.max(self.slots.len());
        true
    }

    fn has_entries(&self, directory: PathId, names: &[String]) -> bool {
        let parent = &names[directory.0 as usize];
        let inside = |path: &PathId| match names[path.0 as usize].rsplit_once('/') {
            Some((above, _)) => above == parent,
            None => parent.is_empty() && *path != directory,
        };
        self.files.keys().any(inside) || self.directories.iter().any(inside)
    }
}

/// A client, its server and its ledger.
struct Play {
    mix: DiskMix,
    server: Server,
    ledger: Ledger,
    names: Vec<String>,
    patterns: Vec<String>,
}

impl Play {
    fn new(options: DiskMixOptions, seed: u64, client: u32) -> Self {
        let mix = DiskMix::new(Script::load(&options), seed, client);
        let catalogue = mix.catalogue().clone();
        let mut play = Self {
            mix,
            server: Server::default(),
            ledger: Ledger::new(client),
            names: catalogue.paths,
            patterns: catalogue.patterns,
        };
        play.all(&play.mix.preparation(false));
        play
    }

    fn act(&mut self, action: &FileAction) -> bool {
        let ok = self.server.act(action, &self.names, &self.patterns);
        let missing = matches!(
            action,
            FileAction::Open {
                presence: Presence::NotThere,
                ..
            }
        );
        if ok && !missing {
            self.ledger.apply(action);
        }
        ok
    }

    fn all(&mut self, actions: &[FileAction]) {
        for action in actions {
            assert!(self.act(action), "{action:?} {}", self.describe(action));
        }
    }

    fn describe(&self, action: &FileAction) -> String {
        let path = match action {
            FileAction::Open { path, .. }
            | FileAction::QueryPath { path, .. }
            | FileAction::Delete { path, .. }
            | FileAction::Rename { from: path, .. } => Some(*path),
            _ => None,
        };
        path.map_or(String::new(), |path| self.names[path.0 as usize].clone())
    }

    fn next(&mut self, last: &Outcome) -> FileAction {
        self.mix.next(last).action
    }

    /// Performs passes without faults. Every operation must succeed. Returns the next action.
    fn passes(&mut self, mut action: FileAction, count: u64) -> FileAction {
        let until = self.mix.passes() + count;
        while self.mix.passes() < until {
            assert!(self.act(&action), "{action:?} {}", self.describe(&action));
            action = self.next(&Outcome::START);
        }
        action
    }
}

fn workspace(play: &Play) -> BTreeMap<PathId, u64> {
    play.mix_files().collect()
}

impl Play {
    fn mix_files(&self) -> impl Iterator<Item = (PathId, u64)> + '_ {
        self.server.files.iter().map(|(&path, &size)| (path, size))
    }
}

#[test]
fn the_workspace_is_twenty_mebibytes_in_fifty_six_files_and_a_marker() {
    let play = Play::new(DiskMixOptions::default(), 1, 0);
    let marker = play.mix.marker();
    let files: BTreeMap<PathId, u64> = workspace(&play);
    assert_eq!(files[&marker], 12);
    assert_eq!(files.len(), 57);
    let sizes: u64 = files.values().sum();
    assert_eq!(sizes, (20 << 20) + 12);
    assert_eq!(files.values().filter(|&&size| size == 260_096).count(), 48);
    assert_eq!(files.values().filter(|&&size| size == 1 << 20).count(), 6);
    let directories = play.server.directories.len() - 1;
    assert_eq!(directories, 9, "eight applications and the seed files");
    let actions = play.mix.preparation(false);
    let last_open = actions.iter().rev().find_map(|action| match action {
        FileAction::Open { path, .. } => Some(*path),
        _ => None,
    });
    assert_eq!(last_open, Some(marker), "the marker is made last");
}

#[test]
fn workspaces_of_other_sizes_differ_only_in_fillers() {
    let sum = |workspace_bytes| {
        let options = DiskMixOptions {
            workspace_bytes,
            ..DiskMixOptions::default()
        };
        let script = Script::load(&options);
        let total: u64 = script.files().map(|(_, bytes)| bytes).sum();
        (total, script.files().count())
    };
    assert_eq!(sum(15 << 20), (15 << 20, 51));
    assert_eq!(sum((16 << 20) + 5), ((16 << 20) + 5, 53));
    assert_eq!(sum(100 << 20), (100 << 20, 136));
}

#[test]
fn passes_succeed_and_leave_the_workspace_unchanged() {
    for options in all_options() {
        let mut play = Play::new(options, 5, 3);
        let before = workspace(&play);
        let first = play.next(&Outcome::START);
        let action = play.passes(first, 2);
        assert_eq!(workspace(&play), before);
        assert!(play.server.slots.is_empty() && play.server.locks.is_empty());
        assert!(
            (16..=22).contains(&play.server.most_open),
            "{}",
            play.server.most_open
        );
        play.passes(action, 1);
        let ledger: BTreeMap<PathId, Option<u64>> = play.ledger.files().collect();
        let sizes = before.iter().map(|(&path, &size)| (path, Some(size))).collect();
        assert_eq!(ledger, sizes);
        assert!(play.ledger.extents() < 3000, "{}", play.ledger.extents());
    }
}

fn all_options() -> Vec<DiskMixOptions> {
    let of = |legacy_seed_reads, true_offsets| DiskMixOptions {
        legacy_seed_reads,
        true_offsets,
        ..DiskMixOptions::default()
    };
    vec![of(false, false), of(true, false), of(false, true)]
}

#[test]
fn each_client_has_its_own_constant_order() {
    let script = Script::load(&DiskMixOptions::default());
    let order = |seed, client| DiskMix::new(script.clone(), seed, client).order();
    let orders: BTreeSet<Vec<&str>> = (0..50).map(|client| order(1, client)).collect();
    assert_eq!(orders.len(), 50, "of 40,320 orders");
    assert_ne!(order(1, 0), order(2, 0));
    assert_eq!(order(1, 7), order(1, 7));
    for order in orders {
        let phases: Vec<&str> = order.iter().skip(1).step_by(2).copied().collect();
        let wanted = [
            "seed write",
            "seed read",
            "seed write",
            "seed read",
            "seed write",
            "seed read",
            "seed write",
        ];
        assert_eq!(phases[..7], wanted);
        assert_eq!(phases[7], "sweep");
        let applications: BTreeSet<&str> = order.iter().step_by(2).copied().collect();
        assert_eq!(applications.len(), 8);
    }
}

#[test]
fn a_pass_has_sixteen_pieces_of_work() {
    let mut play = Play::new(DiskMixOptions::default(), 1, 0);
    let mut begun = 0;
    while play.mix.passes() < 3 {
        let action = play.next(&Outcome::START);
        if play.mix.passes() < 3 {
            begun += u32::from(play.mix.begins_piece());
            assert!(play.act(&action));
        }
    }
    assert_eq!(begun, 3 * 16);
}

#[test]
fn writes_differ_from_pass_to_pass() {
    let mut play = Play::new(DiskMixOptions::default(), 1, 0);
    let mut generations: [Vec<(u64, u32)>; 2] = Default::default();
    let mut action = play.next(&Outcome::START);
    while play.mix.passes() < 2 {
        if let FileAction::Write {
            offset, generation, ..
        } = action
        {
            generations[play.mix.passes() as usize].push((offset, generation));
        }
        action = play.next(&Outcome::START);
    }
    let of = |pass: usize| -> BTreeSet<u32> {
        generations[pass]
            .iter()
            .map(|&(_, generation)| generation)
            .collect()
    };
    assert_eq!(generations[0].len(), generations[1].len());
    assert!(of(0).is_disjoint(&of(1)));
    assert!(
        of(0).len() > 1500,
        "runs of writes within a pass differ, too: {}",
        of(0).len()
    );
}

#[test]
fn legacy_seed_reads_equal_those_of_version_five() {
    let read = |legacy_seed_reads| {
        let options = DiskMixOptions {
            legacy_seed_reads,
            ..DiskMixOptions::default()
        };
        let lines = Script::load(&options).acceptance();
        let line = lines.iter().find(|line| line.name == "bytes read");
        line.expect("a line of it").ours
    };
    assert_eq!(read(false) - read(true), 3.0 * f64::from(2_850_828 - 917_504));
}

#[test]
fn true_offsets_cover_the_documents() {
    let reach = |true_offsets| {
        let options = DiskMixOptions {
            true_offsets,
            ..DiskMixOptions::default()
        };
        let mut play = Play::new(options, 1, 0);
        let mut far = 0;
        let mut action = play.next(&Outcome::START);
        while play.mix.passes() < 1 {
            if let FileAction::Read {
                offset,
                bytes: ..=16_384,
                ..
            } = action
            {
                far += u32::from(offset > 65_536);
            }
            assert!(play.act(&action), "{action:?}");
            action = play.next(&Outcome::START);
        }
        far
    };
    let (classic, wide) = (reach(false), reach(true));
    assert!(wide > classic + 500, "{classic} {wide}");
}

/// Plays a pass in which operations fail, or the session is lost, at the given places.
fn disturbed_pass(
    play: &mut Play,
    mut action: FileAction,
    faults: &BTreeMap<usize, bool>,
    until: usize,
) -> FileAction {
    for number in 0..until {
        let fault = faults.get(&number);
        let mut outcome = Outcome::START;
        match fault {
            Some(true) => {
                // Some calls arrive before the session is lost, others do not.
                if number % 2 == 0 {
                    play.act(&action);
                }
                play.server.slots.clear();
                play.server.locks.clear();
                play.ledger.session_lost();
                outcome = Outcome {
                    ok: false,
                    session_lost: true,
                    ..outcome
                };
            }
            Some(false) => {
                if let FileAction::Close { .. } = action {
                    play.act(&action);
                }
                outcome.ok = false;
            }
            None => outcome.ok = play.act(&action),
        }
        action = play.next(&outcome);
    }
    action
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_disturbed_pass_does_not_affect_later_ones(
        seed in 0_u64..1000,
        faults in prop::collection::btree_map(0_usize..11_000, any::<bool>(), 1..12),
    ) {
        let mut play = Play::new(DiskMixOptions::default(), seed, 1);
        let before = workspace(&play);
        let first = play.next(&Outcome::START);
        let mut action = disturbed_pass(&mut play, first, &faults, 11_000);
        // Play the last disturbed pass, which may be the second, and the next pass, which replaces a file
        // that could not be deleted. After that, only disturbed operations may fail.
        let whole_passes = play.mix.passes();
        let mut outcome = Outcome::START;
        for _ in 0..40_000 {
            outcome.ok = play.act(&action);
            action = play.next(&outcome);
            if play.mix.passes() > whole_passes { break; }
        }
        prop_assert!(play.mix.passes() > whole_passes, "a pass without a failure comes");
        prop_assert_eq!(workspace(&play), before);
        play.passes(action, 1);
    }

    #[test]
    fn leaving_and_removal_remove_everything_wherever_the_level_ends(
        seed in 0_u64..1000, steps in 0_usize..12_000, lost in any::<bool>(),
    ) {
        let mut play = Play::new(DiskMixOptions::default(), seed, 1);
        let before = workspace(&play);
        let first = play.next(&Outcome::START);
        let faults = if lost { BTreeMap::from([(steps.saturating_sub(1), true)]) } else { BTreeMap::new() };
        disturbed_pass(&mut play, first, &faults, steps);
        play.all(&play.mix.leaving());
        prop_assert_eq!(workspace(&play), before);
        // The next level either finds the marker or creates everything again. Both must succeed.
        play.all(&play.mix.preparation(true));
        play.all(&play.mix.preparation(false));
        play.all(&play.mix.removal());
        prop_assert!(play.server.files.is_empty() && play.server.directories.is_empty());
    }
}

#[test]
fn after_a_failed_open_the_file_is_skipped_until_its_close() {
    let mut play = Play::new(DiskMixOptions::default(), 1, 0);
    let mut action = play.next(&Outcome::START);
    let slot = loop {
        if let FileAction::Open {
            slot,
            intent: Intent::Edit,
            presence: Presence::There,
            ..
        } = action
        {
            break slot;
        }
        assert!(play.act(&action));
        action = play.next(&Outcome::START);
    };
    action = play.next(&Outcome {
        ok: false,
        ..Outcome::START
    });
    while !matches!(action, FileAction::Open { slot: again, presence: Presence::There, .. } if again == slot)
    {
        let used = format!("{action:?}").contains(&format!("slot: {slot:?}"));
        assert!(!used || matches!(action, FileAction::Open { .. }), "{action:?}");
        assert!(play.act(&action), "{action:?}");
        action = play.next(&Outcome::START);
    }
}

#[test]
fn scripts_are_the_same_for_every_client() {
    let script = Script::load(&DiskMixOptions::default());
    let again: Arc<Script> = Script::load(&DiskMixOptions::default());
    let actions = |script: &Arc<Script>| {
        let mut mix = DiskMix::new(script.clone(), 3, 4);
        (0..12_000).map(|_| mix.next(&Outcome::START)).collect::<Vec<_>>()
    };
    assert!(actions(&script) == actions(&again));
}
