//! Compares the disk mix, played byte by byte on files in memory, with the ledger, which stores no bytes.

use dyno_workload::{
    played, DiskMix, DiskMixOptions, FileAction, FileCatalogue, FileWorkload, Ledger, Outcome, PathId,
    Presence, Script, Workload,
};
use std::sync::Arc;

const CLIENT: u32 = 3;
const LEVEL: u32 = 77;
const SEED: u64 = 5;

fn workload(script: &Arc<Script>) -> DiskMix {
    DiskMix::new(script.clone(), SEED, CLIENT)
}

/// Returns a client's ledger after this many operations, all of which succeeded.
fn books(script: &Arc<Script>, operations: u64) -> Ledger {
    let mut workload = workload(script);
    let mut books = Ledger::new(CLIENT);
    books.begin_level(LEVEL);
    for action in workload.preparation(false) {
        books.apply(&action);
    }
    let mut last = Outcome::START;
    for _ in 0..operations {
        let op = workload.next(&last);
        last.bytes_read = match op.action {
            FileAction::Read { slot, offset, bytes } => {
                u64::from(books.expected_bytes(slot, offset, bytes).expect("all is known"))
            }
            _ => 0,
        };
        let finds_nothing = matches!(
            op.action,
            FileAction::Open {
                presence: Presence::NotThere,
                ..
            }
        );
        if !finds_nothing {
            books.apply(&op.action);
        }
    }
    for action in workload.leaving() {
        books.apply(&action);
    }
    books
}

fn id(catalogue: &FileCatalogue, path: &str) -> PathId {
    let place = catalogue.paths.iter().position(|other| other == path);
    PathId(u32::try_from(place.expect("a path of its own")).expect("few"))
}

#[test]
fn files_and_ledgers_agree_wherever_the_level_ends() {
    let script = Script::load(&DiskMixOptions::default());
    let mut before = None;
    for operations in [0, 1, 777, 2_500, 4_999, 12_345] {
        let files = played(&mut workload(&script), CLIENT, LEVEL, operations);
        let books = books(&script, operations);
        let names = workload(&script).catalogue().clone();
        let mut sizes: Vec<(PathId, Option<u64>)> = files
            .iter()
            .map(|(path, bytes)| (id(&names, path), Some(bytes.len() as u64)))
            .collect();
        sizes.sort_unstable();
        assert_eq!(sizes, books.files().collect::<Vec<_>>(), "{operations}");
        for (path, bytes) in &files {
            let known = books.check_path(id(&names, path), 0, bytes);
            assert_eq!(known, Ok(bytes.len() as u64), "{path} after {operations}");
        }
        assert!(
            operations < 777 || before.as_ref() != Some(&files),
            "nothing was written"
        );
        before = Some(files);
    }
}

#[test]
fn another_level_writes_other_contents_into_the_same_files() {
    let script = Script::load(&DiskMixOptions::default());
    let one = played(&mut workload(&script), CLIENT, LEVEL, 100);
    let other = played(&mut workload(&script), CLIENT, LEVEL + 1, 100);
    assert!(one.keys().eq(other.keys()));
    for (path, bytes) in &one {
        assert_eq!(bytes.len(), other[path].len());
        assert_ne!(*bytes, other[path], "{path}");
    }
}
