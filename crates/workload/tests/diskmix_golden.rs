//! Golden digests: the operations of the disk mix stay the same for ever. A change here is a new workload, which makes
//! figures of earlier versions incomparable: raise the seed of the scripts with it.

use dyno_workload::{
    DiskMix, DiskMixOptions, FileAction, FileCatalogue, FileWorkload, Op, Outcome, Script, Workload,
};
use xxhash_rust::xxh3::Xxh3Default;

/// An operation as a line of text, with names instead of numbers.
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
        FileAction::SetEnd { .. } | FileAction::MakeDirectory { .. } | FileAction::RemoveDirectory { .. } => {
            panic!("no part of a pass")
        }
    }
}

/// XXH3-128 over the operations of the first three passes, a line each.
fn digest(options: &DiskMixOptions, seed: u64, client: u32) -> String {
    let mut mix = DiskMix::new(Script::load(options), seed, client);
    let names = mix.catalogue().clone();
    let mut digest = Xxh3Default::new();
    loop {
        let Op::File(op) = mix.next(&Outcome::START) else {
            panic!("a workload on files")
        };
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
    assert_eq!(digest(&options, 1, 0), "a507a4794c022127f125ae8a63405edf");
    assert_eq!(digest(&options, 1, 1), "13ea66743bbb25ccd7b0fcf3928296b6");
    assert_eq!(
        digest(&options, u64::MAX, 119),
        "225eebff6df5529ac4c35f9fea2521b7"
    );
}

#[test]
fn so_have_the_variants() {
    let legacy = DiskMixOptions {
        legacy_seed_reads: true,
        ..DiskMixOptions::default()
    };
    let wide = DiskMixOptions {
        true_offsets: true,
        ..DiskMixOptions::default()
    };
    assert_eq!(digest(&legacy, 1, 0), "acfb10f6257d566e87afa2b611712e7f");
    assert_eq!(digest(&wide, 1, 0), "270029bc06e16b91e01b87f8193fa518");
}

#[test]
fn the_size_of_the_workspace_changes_no_operation() {
    let large = DiskMixOptions {
        workspace_bytes: 100 << 20,
        ..DiskMixOptions::default()
    };
    assert_eq!(digest(&large, 2, 3), digest(&DiskMixOptions::default(), 2, 3));
}
