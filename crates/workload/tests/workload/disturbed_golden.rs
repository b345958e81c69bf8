//! Golden digests of everything except undisturbed passes (see `diskmix_golden.rs`): a client's operations
//! after failed operations, failed opens and lost sessions, and the actions that create and remove its
//! workspace. Changed passes are a new workload.

use crate::loadfile::SMALL;
use dyno_workload::{
    Contention, ContentionOptions, DiskMix, DiskMixOptions, Failover, FailoverOptions, FileAction,
    FileWorkload, LoadFile, LoadFileReplay, Metadata, MetadataOptions, Outcome, Presence, Script, Streams,
    StreamsOptions, Workload,
};
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64_with_seed, Xxh3Default};

/// Number of operations between two samples of the actions with which a client leaves.
const OPERATIONS_PER_LEAVING: u64 = 509;
const FAILED: Outcome = Outcome {
    ok: false,
    ..Outcome::START
};
const LOST: Outcome = Outcome {
    session_lost: true,
    ..FAILED
};

/// Adds a client's operations. `outcome` returns the outcome of each by its number.
fn add(
    digest: &mut Xxh3Default,
    mut workload: impl FileWorkload,
    operations: u64,
    mut outcome: impl FnMut(u64, &FileAction) -> Outcome,
) {
    let mut last = Outcome::START;
    for number in 0..operations {
        let op = workload.next(&last);
        let place = (workload.begins_piece(), workload.passes());
        digest.update(format!("{op:?} {place:?}\n").as_bytes());
        if number % OPERATIONS_PER_LEAVING == 0 {
            digest.update(format!("{:?}\n", workload.leaving()).as_bytes());
        }
        last = outcome(number, &op.action);
    }
}

/// Fails one in `one_in` operations, and loses the session in a tenth as many. The seed determines which.
fn seldom(one_in: u64, seed: u64) -> impl FnMut(u64, &FileAction) -> Outcome {
    move |number, _| match xxh3_64_with_seed(&number.to_le_bytes(), seed) % (10 * one_in) {
        0 => LOST,
        drawn if drawn % one_in == 1 => FAILED,
        _ => Outcome::START,
    }
}

/// Gives only the operations with these numbers this outcome.
fn within(numbers: Range<u64>, outcome: Outcome) -> impl FnMut(u64, &FileAction) -> Outcome {
    move |number, _| match numbers.contains(&number) {
        true => outcome,
        false => Outcome::START,
    }
}

/// Fails the open with this number. Only opens that should find or create a file count.
fn open_fails(which: u64) -> impl FnMut(u64, &FileAction) -> Outcome {
    let mut opens = 0;
    move |_, action| {
        let FileAction::Open {
            presence: Presence::There,
            ..
        } = action
        else {
            return Outcome::START;
        };
        opens += 1;
        match opens == which + 1 {
            true => FAILED,
            false => Outcome::START,
        }
    }
}

fn disk_mix(seed: u64, client: u32) -> DiskMix {
    DiskMix::new(Script::load(&DiskMixOptions::default()), seed, client)
}

fn load_file() -> impl Fn(u32) -> LoadFileReplay {
    let file = Arc::new(LoadFile::parse(SMALL.as_bytes()).expect("it is understood"));
    move |client| LoadFileReplay::new(file.clone(), client)
}

/// Returns the digest of several clients in order.
fn digest_of_all<W: FileWorkload, O: FnMut(u64, &FileAction) -> Outcome>(
    operations: u64,
    clients: impl IntoIterator<Item = (W, O)>,
) -> String {
    let mut digest = Xxh3Default::new();
    for (workload, outcome) in clients {
        add(&mut digest, workload, operations, outcome);
    }
    format!("{:032x}", digest.digest128())
}

#[test]
fn the_disk_mix_continues_after_seeded_failures() {
    let of = |one_in, seed, client| {
        let clients = [(disk_mix(seed, client), seldom(one_in, seed))];
        digest_of_all(40_000, clients)
    };
    let found = [of(2000, 1, 0), of(200, 1, 1), of(20, u64::MAX, 119)];
    assert_eq!(
        found,
        [
            "cb9d465ca3e08b69447804891534b9bf",
            "31b7f955cbf0d0b952946ae87a073819",
            "d2b89b1ea1e7bf2d64ab98f15b4548ed"
        ]
    );
}

#[test]
fn the_disk_mix_continues_after_a_failed_open() {
    let which = [0, 1, 2, 40, 300, 700, 1100];
    let clients = which.map(|which| (disk_mix(3, 4), open_fails(which)));
    assert_eq!(digest_of_all(14_000, clients), "71683660bec798966e9f864924922db4");
}

#[test]
fn the_disk_mix_continues_in_a_new_session() {
    let places = [0, 1, 500, 3000, 7000, 10_500];
    let clients = places.map(|place| (disk_mix(3, 4), within(place..place + 1, LOST)));
    assert_eq!(digest_of_all(14_000, clients), "cca8505d1d0826059ae2d31588473258");
}

#[test]
fn the_disk_mix_continues_after_a_period_in_which_everything_fails() {
    let of = |numbers, outcome| digest_of_all(30_000, [(disk_mix(5, 6), within(numbers, outcome))]);
    let found = [
        of(2000..2700, FAILED),
        of(2000..2700, LOST),
        of(0..30_000, FAILED),
        of(0..30_000, LOST),
    ];
    assert_eq!(
        found,
        [
            "322cf465c4d5b6728db9d9273b1ff286",
            "9c38adc1b9d99b9c80e8a2392deb1dd6",
            "0324ebe82b604353ea8b3b30592c4933",
            "7027988a6fc29ec133c7d7344f28cc38"
        ]
    );
}

#[test]
fn a_load_file_continues_after_seeded_failures() {
    let replay = load_file();
    let of = |one_in, seed, client| digest_of_all(5000, [(replay(client), seldom(one_in, seed))]);
    let found = [of(500, 1, 0), of(50, 1, 1), of(5, u64::MAX, 119)];
    assert_eq!(
        found,
        [
            "d1e55cc6c8820f41da13e1ad14f7fd52",
            "6016da6906dbbe738344a3eb634f8275",
            "3372094b6bf0159557fab7d3ae3406f9"
        ]
    );
}

#[test]
fn a_load_file_continues_wherever_one_or_more_operations_fail() {
    let replay = load_file();
    let of = |count, outcome| {
        let clients = (0..120).map(|place| (replay(3), within(place..place + count, outcome)));
        digest_of_all(300, clients)
    };
    let found = [of(1, FAILED), of(1, LOST), of(7, FAILED), of(7, LOST)];
    assert_eq!(
        found,
        [
            "39cd8f69491c5adb411cd0ed98f07167",
            "bff696b6151bc6826f344be9d7cfabcb",
            "c60f1eafb41b50041eb43ccaab0763ae",
            "eba8073eae30388908b89ce2d3dc45ff"
        ]
    );
}

#[test]
fn a_load_file_continues_after_a_failed_open() {
    let replay = load_file();
    let clients = (0..30).map(|which| (replay(3), open_fails(which)));
    assert_eq!(digest_of_all(300, clients), "a06348c4ac528dfbdbfee5fbc91c4f75");
}

#[test]
fn a_load_file_restores_its_files_wherever_it_ends() {
    let replay = load_file();
    let mut digest = Xxh3Default::new();
    for operations in 0..120 {
        for outcome in [Outcome::START, FAILED, LOST] {
            let mut replay = replay(3);
            let mut last = Outcome::START;
            for number in 0..=operations {
                replay.next(&last);
                last = if number % 40 == 33 {
                    outcome
                } else {
                    Outcome::START
                };
            }
            digest.update(format!("{:?}\n", replay.leaving()).as_bytes());
        }
    }
    assert_eq!(
        format!("{:032x}", digest.digest128()),
        "0d48dc20492bd1f58a189cbba74e9f31"
    );
}

/// Returns the digest of the actions that create and remove the workspaces of these clients.
fn workspaces<W: FileWorkload>(clients: impl IntoIterator<Item = W>) -> String {
    let mut digest = Xxh3Default::new();
    for client in clients {
        for actions in [
            client.preparation(false),
            client.preparation(true),
            client.removal(),
        ] {
            digest.update(format!("{actions:?}\n").as_bytes());
        }
    }
    format!("{:032x}", digest.digest128())
}

#[test]
fn every_workspace_is_created_and_removed_by_the_same_actions() {
    let streams = |block_bytes| StreamsOptions {
        file_bytes: 300 * u64::from(block_bytes),
        block_bytes,
        random: false,
        writers_percent: 50,
    };
    let metadata = |shared| MetadataOptions {
        files: 3,
        file_bytes: 100,
        shared,
        looks: 1,
    };
    let contention = ContentionOptions {
        files: 2,
        blocks: 3,
        block_bytes: 4096,
        writes_percent: 50,
    };
    let failover = FailoverOptions {
        blocks: 3,
        block_bytes: 4096,
        writes_per_flush: 4,
    };
    let found = [
        workspaces([disk_mix(1, 0)]),
        workspaces([load_file()(3)]),
        workspaces([3000, 70_000].map(|block_bytes| Streams::new(streams(block_bytes), 1, 1))),
        workspaces([false, true].map(|shared| Metadata::new(metadata(shared), 2))),
        workspaces([0, 1].map(|client| Contention::new(contention, 1, client))),
        workspaces([Failover::new(failover, 1, 0)]),
    ];
    assert_eq!(
        found,
        [
            "5f4f4b7a3c8a178f2f407fbd7afa3942",
            "007b9c15eb6f9ba8e8fc81bf7a24497d",
            "38c7715be94d086696d237f4844345ab",
            "dfef59916afebd13abd2b928084b5448",
            "e0a8cde3dd0e94f2e1ac611eb9843cdb",
            "0d787a03f3f1b8f1a48efc05af0f3284"
        ]
    );
}
