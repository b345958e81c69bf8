//! Golden digests: the operations of the disk mix never change. A changed disk mix is a new workload. It
//! needs another seed of the scripts, and its figures are not comparable with earlier ones.

use dyno_workload::{
    DiskMix, DiskMixOptions, FileAction, FileCatalogue, FileWorkload, Outcome, Script, Workload,
};
use xxhash_rust::xxh3::Xxh3Default;

/// Formats an operation as a line of text, with names instead of numbers.
fn line(action: &FileAction, names: &FileCatalogue) -> String {
    let path = |id: dyno_workload::PathId| &names.paths[id.0 as usize];
    match *action {
        FileAction::Open {
            slot,
            path: at,
            intent,
            presence,
            ..
        } => format!("open {} {} {intent:?} {presence:?}", slot.0, path(at)),
        FileAction::Close { slot } => format!("close {}", slot.0),
        FileAction::Read { slot, offset, bytes } => format!("read {} {offset} {bytes}", slot.0),
        FileAction::Write {
            slot,
            offset,
            bytes,
            generation,
        } => {
            format!("write {} {offset} {bytes} {generation}", slot.0)
        }
        FileAction::Flush { slot } => format!("flush {}", slot.0),
        FileAction::Lock { slot, offset, bytes } => format!("lock {} {offset} {bytes}", slot.0),
        FileAction::Unlock { slot, offset, bytes } => format!("unlock {} {offset} {bytes}", slot.0),
        FileAction::QueryFile { slot } => format!("query {}", slot.0),
        FileAction::QueryTimes { slot } => format!("query times {}", slot.0),
        FileAction::SetTimes { slot } => format!("times {}", slot.0),
        FileAction::QueryPath { path: at, presence } => format!("path {} {presence:?}", path(at)),
        FileAction::QuerySpace => "space".to_owned(),
        FileAction::Find {
            directory,
            pattern,
            presence,
        } => {
            let pattern = &names.patterns[usize::from(pattern)];
            format!("find {} {pattern} {presence:?}", path(directory))
        }
        FileAction::Rename { from, to } => format!("rename {} {}", path(from), path(to)),
        FileAction::Delete { path: at, presence } => format!("delete {} {presence:?}", path(at)),
        FileAction::SetEnd { .. }
        | FileAction::MakeDirectory { .. }
        | FileAction::RemoveDirectory { .. }
        | FileAction::WriteFile { .. }
        | FileAction::ReadFile { .. }
        | FileAction::ReadBlock { .. }
        | FileAction::ReadBack { .. }
        | FileAction::LetGo { .. }
        | FileAction::WriteBlock { .. }
        | FileAction::LockWaiting { .. } => {
            panic!("no part of a pass")
        }
    }
}

/// Returns the XXH3-128 digest of the operations of the first three passes, one per line.
fn digest(options: &DiskMixOptions, seed: u64, client: u32) -> String {
    let mut mix = DiskMix::new(Script::load(options), seed, client);
    let names = mix.catalogue().clone();
    let mut digest = Xxh3Default::new();
    loop {
        let op = mix.next(&Outcome::START);
        if mix.passes() == 3 {
            return format!("{:032x}", digest.digest128());
        }
        digest.update(line(&op.action, &names).as_bytes());
        digest.update(b"\n");
    }
}

#[test]
fn the_first_three_passes_of_three_clients_have_their_golden_digests() {
    let options = DiskMixOptions::default();
    assert_eq!(digest(&options, 1, 0), "9d7d746c313955b6ae642d89b1de5ccb");
    assert_eq!(digest(&options, 1, 1), "a660e452e21a69ec1d6f153282571078");
    assert_eq!(
        digest(&options, u64::MAX, 119),
        "f39b67f84b8cc39dc710237e2a612905"
    );
}

#[test]
fn the_variants_have_their_golden_digests() {
    let legacy = DiskMixOptions {
        legacy_seed_reads: true,
        ..DiskMixOptions::default()
    };
    let wide = DiskMixOptions {
        true_offsets: true,
        ..DiskMixOptions::default()
    };
    assert_eq!(digest(&legacy, 1, 0), "f9b43fda548344a0b19575cc8c46bd9c");
    assert_eq!(digest(&wide, 1, 0), "bc18b7851dcb82f92451ca8fb49a6604");
}

#[test]
fn the_size_of_the_workspace_changes_no_operation() {
    let large = DiskMixOptions {
        workspace_bytes: 100 << 20,
        ..DiskMixOptions::default()
    };
    assert_eq!(digest(&large, 2, 3), digest(&DiskMixOptions::default(), 2, 3));
}
