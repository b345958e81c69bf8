//! Golden digests of the calls that Bonnie and scenario steps make: each call with its data, the remaining files, and
//! the result. They cover runs without errors and runs with one wrong answer to each call in turn.

mod server;

use super::bounded::Limits;
use super::cache::FilesOptions;
use super::job::Job;
use super::sessions::Sessions;
use super::{bonnie, scenario};
use crate::bonnie::BonnieSpec;
use crate::scenario::{FilesSpec, MetadataSpec, StepAction, StepSpec, StreamsSpec, TreeSpec};
use crate::tally::LevelTally;
use dyno_measure::{Failure, Fault, NS_PER_S};
use server::{InMemory, Volume, Wrong};
use std::collections::BTreeMap;
use std::path::PathBuf;
use xxhash_rust::xxh3::Xxh3Default;

const WRONG: [Wrong; 4] = [
    Wrong::Refused(Fault::ErrorStatus),
    Wrong::Refused(Fault::NotFound),
    Wrong::OtherAnswer,
    Wrong::Lost,
];

fn job(sessions: &InMemory) -> Job<'_, InMemory> {
    Job {
        sessions,
        options: FilesOptions::usual().kept_by(sessions.kept_by()),
        identity: 1,
        limits: Limits {
            most_ns: 100 * NS_PER_S,
            timeout_ns: 100 * NS_PER_S,
        },
        max_rate_per_s: None,
        end: &sessions.0.end,
        part: None,
        first_gate: 0,
    }
}

/// Adds the outcomes of `work` with a wrong answer of this kind to each of its calls in turn. None: adds the
/// outcome without wrong answers.
fn add(digest: &mut Xxh3Default, volume: &Volume, wrong: Option<Wrong>, work: impl Fn(&InMemory) -> String) {
    for place in 0.. {
        let sessions = InMemory::new(volume.clone(), wrong.map(|wrong| (place, wrong)));
        let outcome = work(&sessions);
        digest.update(format!("{outcome}\n{}", sessions.0.told()).as_bytes());
        if wrong.is_none() || place >= sessions.0.count() {
            break;
        }
    }
}

/// Returns the digest of `work` without wrong answers and with each kind of wrong answer.
fn digest(volume: &Volume, kinds: &[Wrong], work: impl Fn(&InMemory) -> String) -> String {
    let mut digest = Xxh3Default::new();
    for wrong in [None].into_iter().chain(kinds.iter().copied().map(Some)) {
        add(&mut digest, volume, wrong, &work);
    }
    format!("{:016x}", digest.digest())
}

fn requests(level: &LevelTally) -> BTreeMap<&str, u64> {
    level
        .requests
        .iter()
        .map(|row| (row.request.as_str(), row.count))
        .collect()
}

fn bonnie(clients: u32, sessions: &InMemory) -> String {
    let spec = BonnieSpec {
        clients,
        file: "bonnie".into(),
        bytes: 40_960,
        chunk_bytes: 8192,
        stdio_bytes: 3000,
        seeks: 12,
        seekers: 1,
        seed: 7,
        check: false,
    };
    match bonnie::carry_out(&job(sessions), &spec) {
        Ok(phases) => {
            let names = ["putc", "rewrite", "write", "getc", "read", "seeks"];
            let told = names.iter().zip(phases.iter().flatten()).map(|(name, phase)| {
                let bytes = phase.bytes_read.max(phase.bytes_written);
                format!("{name} {bytes} {} {:?}\n", phase.operations, requests(phase))
            });
            told.collect()
        }
        Err(failure) => format!("{failure:?}"),
    }
}

fn step(action: StepAction, passes: u32) -> StepSpec {
    StepSpec {
        action,
        base: "base".into(),
        passes,
        block_bytes: 150_000,
        seed: 9,
    }
}

fn carry_out(spec: &StepSpec, sessions: &InMemory) -> String {
    let (phases, is_timed): (&[_], _) = match &spec.action {
        StepAction::Metadata(_) => (&["create", "stat", "read", "remove"], false),
        StepAction::Streams(shape) if shape.writers == 0 => (&["read"], true),
        StepAction::Streams(_) => (&["write", "read"], true),
        _ => (&[], false),
    };
    let told = |(place, pass): (usize, &LevelTally)| {
        let (phase, entries) = (phases.get(place), pass.entries.unwrap_or_default());
        let (timed, bytes) = ((is_timed, is_timed), pass.bytes_read + pass.bytes_written);
        format!("{phase:?} {entries} {bytes} {timed:?} {:?}\n", requests(pass))
    };
    match scenario::carry_out(&job(sessions), spec) {
        Ok(passes) => passes.iter().flatten().enumerate().map(told).collect(),
        Err(failure) => format!("{failure:?}"),
    }
}

fn after(steps: impl IntoIterator<Item = StepAction>) -> Volume {
    let mut volume = Volume::default();
    for action in steps {
        let sessions = InMemory::new(volume, None);
        let carried_out = scenario::carry_out(&job(&sessions), &step(action, 1));
        carried_out.unwrap_or_else(|failure: Failure| panic!("{failure:?}"));
        volume = sessions.0.volume();
    }
    volume
}

fn tree(built: bool) -> TreeSpec {
    let files = |name: &str, count, bytes| FilesSpec {
        name: name.into(),
        count,
        bytes,
    };
    TreeSpec {
        name: "tree".into(),
        directories: 2,
        levels: 1,
        files: vec![
            files("small", 1, 700),
            files("large", 1, 200_000),
            files("empty", 1, 0),
        ],
        built,
    }
}

fn made() -> [StepAction; 2] {
    [
        StepAction::MakeBase,
        StepAction::MakeTree {
            tree: tree(false),
            times: false,
        },
    ]
}

fn build() -> StepAction {
    StepAction::Build {
        tree: tree(false),
        searches: 2,
        object_bytes: 300,
    }
}

#[track_caller]
fn check(before: &Volume, spec: &StepSpec, expected: &str) {
    let found = digest(before, &WRONG, |sessions| carry_out(spec, sessions));
    assert_eq!(found, expected, "{:?}", spec.action);
}

#[test]
fn the_calls_of_bonnie_never_change_whatever_the_server_answers() {
    let work = |sessions: &InMemory| bonnie(1, sessions);
    assert_eq!(digest(&Volume::default(), &WRONG, work), "234b6caaf80e9ef9");
    let together = digest(&Volume::default(), &[], |sessions| bonnie(2, sessions));
    assert_eq!(together, "dad17b189aa1004b");
}

#[test]
fn the_calls_of_steps_on_trees_never_change_whatever_the_server_answers() {
    let (empty, base, made) = (Volume::default(), after([StepAction::MakeBase]), after(made()));
    check(&empty, &step(StepAction::MakeBase, 1), "b4f4a2bd4568c686");
    check(&base, &step(StepAction::RemoveBase, 1), "e96e7f78b6a921c1");
    let make = StepAction::MakeTree {
        tree: tree(false),
        times: true,
    };
    check(&base, &step(make, 1), "77781664ee40b45f");
    let list = |pattern: &str, long| {
        let (tree, pattern) = (tree(false), pattern.into());
        step(StepAction::List { tree, pattern, long }, 2)
    };
    check(&made, &list("*", false), "6b2deafba7f46e5f");
    check(&made, &list("*", true), "86f54e1fd8d6e56b");
    check(&made, &list("s*", false), "41170d4b95dce11b");
    check(
        &made,
        &step(StepAction::Find { tree: tree(false) }, 1),
        "44fecddabfe0d0ef",
    );
    check(
        &made,
        &step(StepAction::Stat { tree: tree(false) }, 2),
        "0394a07816fe4093",
    );
    check(
        &made,
        &step(StepAction::Read { tree: tree(false) }, 2),
        "579e8a5c93c2b23d",
    );
    check(&made, &step(build(), 1), "c3069366a875180d");
}

/// Stops a job at each of its calls. `further`: maximum number of calls after the stop.
fn check_stopped(volume: &Volume, further: u64, work: impl Fn(&InMemory) -> String) {
    let whole = InMemory::new(volume.clone(), None);
    work(&whole);
    for place in 0..whole.0.count() {
        let sessions = InMemory::new(volume.clone(), Some((place, Wrong::Stopped)));
        let outcome = work(&sessions);
        let calls = sessions.0.count();
        assert!(calls <= place + 1 + further, "{place}: {calls}");
        let is_whole = calls == whole.0.count();
        assert!(is_whole || outcome.contains("OtherIo"), "{place}: {outcome}");
    }
}

#[test]
fn a_stopped_job_makes_no_further_call() {
    let volume = after(made());
    let metadata = MetadataSpec {
        name: "files".into(),
        clients: 1,
        files: 2,
        bytes: 300,
        shared: false,
    };
    let streams = StreamsSpec {
        name: "stream".into(),
        writers: 1,
        readers: 0,
        bytes: 9 * 8192,
        block_bytes: 8192,
        depth: 3,
        random: false,
    };
    for action in [
        StepAction::Read { tree: tree(false) },
        StepAction::Find { tree: tree(false) },
        build(),
        StepAction::Metadata(metadata),
        StepAction::Streams(streams),
    ] {
        let spec = step(action, 1);
        check_stopped(&volume, 0, |sessions| carry_out(&spec, sessions));
    }
    // Bonnie removes its file.
    check_stopped(&Volume::default(), 1, |sessions| {
        let outcome = bonnie(1, sessions);
        assert_eq!(sessions.0.volume(), Volume::default());
        outcome
    });
}

#[test]
fn the_calls_of_removing_steps_never_change_whatever_the_server_answers() {
    let remove = |built, lenient| {
        let tree = tree(built);
        step(StepAction::RemoveTree { tree, lenient }, 1)
    };
    let made_twice = after(made().into_iter().chain([build()]));
    check(&after(made()), &remove(false, false), "6ef9b2ac685a4688");
    check(&made_twice, &remove(true, false), "e190d3bf64159de0");
    check(&after(made()), &remove(true, true), "a16fa63f7527a4a7");
    check(
        &after([StepAction::MakeBase]),
        &remove(true, true),
        "9b3ba9dfb6f6608e",
    );
    let remove_file = |lenient| {
        let file = "tree/small1".into();
        step(StepAction::RemoveFile { file, lenient }, 1)
    };
    check(&after(made()), &remove_file(false), "fae268c3a82ba3b4");
    check(&after(made()), &remove_file(true), "1bd2d7b841470f8f");
}

#[test]
fn the_calls_of_steps_on_one_file_never_change_whatever_the_server_answers() {
    let local = tempfile::tempdir().expect("a directory");
    let path = |name: &str| -> PathBuf { local.path().join(name) };
    std::fs::write(path("from"), vec![5; 400_000]).expect("it is written");
    let make = |bytes| StepAction::MakeFile {
        file: "file".into(),
        bytes,
    };
    let to = StepAction::CopyTo {
        local: path("from"),
        file: "copy".into(),
    };
    let from = StepAction::CopyFrom {
        file: "copy".into(),
        local: path("to"),
        copied: None,
    };
    let base = || after([StepAction::MakeBase]);
    check(&base(), &step(make(320_000), 2), "07e3f7137aaec579");
    check(&base(), &step(make(0), 1), "a5d3f8efb306670b");
    // In the second pass, the file exists.
    check(&base(), &step(to.clone(), 2), "2a08b567f9e97225");
    check(&after([to]), &step(from, 2), "ab26488caaddb427");
    assert_eq!(std::fs::read(path("to")).expect("it was made"), vec![5; 400_000]);
}

#[test]
fn the_calls_of_the_phases_of_mdtest_never_change_whatever_the_server_answers() {
    let metadata = |clients, shared| {
        let shape = MetadataSpec {
            name: "files".into(),
            clients,
            files: 3,
            bytes: 300,
            shared,
        };
        step(StepAction::Metadata(shape), 1)
    };
    let base = after([StepAction::MakeBase]);
    check(&base, &metadata(1, false), "4ef2552dc3d47b2d");
    check(&base, &metadata(1, true), "45733d710f31cfd6");
    let together = |shared| digest(&base, &[], |sessions| carry_out(&metadata(3, shared), sessions));
    assert_eq!(together(false), "23b83bdd2c0e8109");
    assert_eq!(together(true), "805c81582a4ff6fc");
}

#[test]
fn the_calls_of_streams_never_change_whatever_the_server_answers() {
    let streams = |writers, readers, depth, random| {
        let shape = StreamsSpec {
            name: "stream".into(),
            writers,
            readers,
            bytes: 9 * 8192,
            block_bytes: 8192,
            depth,
            random,
        };
        step(StepAction::Streams(shape), 1)
    };
    let base = after([StepAction::MakeBase]);
    check(&base, &streams(1, 0, 1, false), "1b89af9bb97fd607");
    check(&base, &streams(1, 0, 3, true), "91ba03f78c804731");
    check(&base, &streams(0, 1, 1, false), "8e7126656747cd18");
    check(&base, &streams(0, 1, 3, true), "d379846ed09beaca");
    let together = digest(&base, &[], |sessions| {
        carry_out(&streams(2, 2, 3, true), sessions)
    });
    assert_eq!(together, "04d86dbeccaa819c");
}
