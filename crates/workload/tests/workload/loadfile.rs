//! Load files: what is accepted, what is rejected, and how passes repeat on a strict server.

use dyno_workload::{
    DiskMixOptions, FileAction, FileWorkload, Intent, LoadFile, LoadFileReplay, Outcome, PathId, Presence,
    Script, Slot, Workload,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Load file of Debian's package `dbench`.
const PACKAGED: &str = "/usr/share/dbench/client.txt";

/// A set-up with one document, then a pass that reads it, works on a copy, leaves a note and deletes the
/// document.
pub(crate) const SMALL: &str = r#"Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\client1" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
NTCreateX "\clients\client1\docs" 0x1 0x2 2 NT_STATUS_OK
Close 2 NT_STATUS_OK
NTCreateX "\clients\client1\docs\ONE.DOC" 0x40 0x2 3 NT_STATUS_OK
WriteX 3 0 65536 65536 NT_STATUS_OK
WriteX 3 65536 100 100 NT_STATUS_OK
Close 3 NT_STATUS_OK
QUERY_FS_INFORMATION 259 NT_STATUS_OK

# The pass.
QUERY_PATH_INFORMATION "\clients\client1\docs\one.doc" 1004 NT_STATUS_OK
FIND_FIRST "\clients\client1\docs\<.JNK" 260 1366 0 NT_STATUS_NO_SUCH_FILE
FIND_FIRST "\clients\client1\docs\one.*" 260 1366 1 NT_STATUS_OK
NTCreateX "\clients\client1\docs\ONE.DOC" 0x40 0x1 4 NT_STATUS_OK
ReadX 4 0 4096 4096 NT_STATUS_OK
NTCreateX "\clients\client1\docs\~COPY" 0x40 0x2 5 NT_STATUS_OK
WriteX 5 0 4096 4096 NT_STATUS_OK
LockX 5 2147483538 1 NT_STATUS_OK
UnlockX 5 2147483538 1 NT_STATUS_OK
Flush 5 NT_STATUS_OK
QUERY_FILE_INFORMATION 5 258 NT_STATUS_OK
SET_FILE_INFORMATION 5 1004 NT_STATUS_OK
Close 5 NT_STATUS_OK
Close 4 NT_STATUS_OK
NTCreateX "\clients\client1\docs\none" 0x40 0x1 6 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\clients\client1\docs\ONE.DOC" 0x0 0x1 7 NT_STATUS_OK
Close 7 NT_STATUS_OK
NTCreateX "\clients\client1\docs\ONE.DOC" 0x0 0x1 7 NT_STATUS_OK
SET_FILE_INFORMATION 7 1004 NT_STATUS_OK
Close 7 NT_STATUS_OK
Unlink "\clients\client1\docs\ONE.DOC" 0x6 NT_STATUS_OK
Rename "\clients\client1\docs\~COPY" "\clients\client1\docs\note" NT_STATUS_OK
NTCreateX "\clients\client1\new" 0x1 0x2 8 NT_STATUS_OK
Close 8 NT_STATUS_OK
NTCreateX "\clients\client1\new\left" 0x40 0x2 9 NT_STATUS_OK
Deltree "\clients\client1" NT_STATUS_OK
"#;

fn parse(text: &str) -> LoadFile {
    LoadFile::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// A server that performs valid actions and refuses those that failed in the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Server {
    files: BTreeMap<PathId, u64>,
    directories: BTreeSet<PathId>,
    open: BTreeMap<Slot, Option<PathId>>,
    paths: Vec<String>,
    patterns: Vec<String>,
}

impl Server {
    fn prepared(replay: &LoadFileReplay) -> Self {
        let mut server = Self {
            paths: replay.catalogue().paths.clone(),
            patterns: replay.catalogue().patterns.clone(),
            ..Self::default()
        };
        server.do_all(&replay.preparation(false));
        server
    }

    fn do_all(&mut self, actions: &[FileAction]) {
        for action in actions {
            self.act(action)
                .unwrap_or_else(|problem| panic!("{action:?}: {problem}"));
        }
    }

    fn there(&self, path: PathId) -> bool {
        self.files.contains_key(&path) || self.directories.contains(&path)
    }

    fn expect(&self, path: PathId, presence: Presence) -> Result<bool, &'static str> {
        match (presence, self.there(path)) {
            (Presence::There, false) => Err("is not there"),
            (Presence::NotThere, true) => Err("is there"),
            (_, there) => Ok(there),
        }
    }

    fn slot(&self, slot: Slot) -> Result<Option<PathId>, &'static str> {
        self.open.get(&slot).copied().ok_or("is not open")
    }

    fn act(&mut self, action: &FileAction) -> Result<(), &'static str> {
        match *action {
            FileAction::Open {
                slot,
                path,
                intent,
                directory,
                presence,
            } => {
                if presence == Presence::NotThere {
                    return self.expect(path, presence).map(|_| ());
                }
                self.open(path, intent, directory)?;
                let opened = self.files.contains_key(&path).then_some(path);
                return match self.open.insert(slot, opened) {
                    None => Ok(()),
                    Some(_) => Err("has a number that was not free"),
                };
            }
            FileAction::Close { slot } => {
                self.slot(slot)?;
                self.open.remove(&slot);
            }
            FileAction::Write {
                slot, offset, bytes, ..
            } => {
                let path = self.slot(slot)?.ok_or("is a directory")?;
                if let Some(size) = self.files.get_mut(&path) {
                    *size = (*size).max(offset + u64::from(bytes));
                }
            }
            FileAction::Read { slot, .. }
            | FileAction::Flush { slot }
            | FileAction::Lock { slot, .. }
            | FileAction::Unlock { slot, .. }
            | FileAction::QueryFile { slot }
            | FileAction::QueryTimes { slot }
            | FileAction::SetEnd { slot, .. }
            | FileAction::SetTimes { slot } => self.slot(slot).map(|_| ())?,
            FileAction::QueryPath { path, presence } => self.expect(path, presence).map(|_| ())?,
            FileAction::QuerySpace => {}
            FileAction::Find {
                directory,
                pattern,
                presence,
            } => self.find(directory, pattern, presence)?,
            FileAction::Rename { from, to } => {
                self.expect(to, Presence::NotThere)?;
                let size = self.files.remove(&from).ok_or("is not there")?;
                self.files.insert(to, size);
                for opened in self.open.values_mut().filter(|opened| **opened == Some(from)) {
                    *opened = Some(to);
                }
            }
            FileAction::Delete { path, presence } => {
                self.expect(path, presence)?;
                self.files.remove(&path);
            }
            FileAction::MakeDirectory { path, presence } => {
                self.expect(path, presence)?;
                self.directories.insert(path);
            }
            FileAction::RemoveDirectory { path, presence } => {
                self.expect(path, presence)?;
                self.directories.remove(&path);
            }
            _ => return Err("is of no load file"),
        }
        Ok(())
    }

    fn open(&mut self, path: PathId, intent: Intent, directory: bool) -> Result<(), &'static str> {
        match intent {
            Intent::Make => self.expect(path, Presence::NotThere).map(|_| ())?,
            Intent::Look | Intent::Read | Intent::Edit => self.expect(path, Presence::There).map(|_| ())?,
            Intent::MakeOrEdit | Intent::Replace => {}
        }
        if directory {
            self.directories.insert(path);
        } else if intent == Intent::Replace || !self.there(path) {
            self.files.insert(path, 0);
        }
        Ok(())
    }

    /// Names are case-sensitive. Every directory contains itself and its parent.
    fn find(&self, directory: PathId, pattern: u16, presence: Presence) -> Result<(), &'static str> {
        let (pattern, text) = (&self.patterns[usize::from(pattern)], |path: &PathId| {
            self.paths[path.0 as usize].as_str()
        });
        let within = match text(&directory) {
            "" => String::new(),
            directory => format!("{directory}/"),
        };
        let is_found = |path: &PathId| {
            let name = text(path).strip_prefix(within.as_str());
            *path != PathId(0) && name.is_some_and(|name| !name.contains('/') && matches(pattern, name))
        };
        let found = pattern == "*" || self.names().iter().any(is_found);
        match (presence, found && self.directories.contains(&directory)) {
            (Presence::There, false) => Err("finds nothing"),
            (Presence::NotThere, true) => Err("finds something"),
            _ => Ok(()),
        }
    }

    fn names(&self) -> BTreeSet<PathId> {
        self.files.keys().chain(&self.directories).copied().collect()
    }
}

/// Returns whether `name` matches `pattern`, with `*` for any characters and `?` for one.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.chars().next(), name.chars().next()) {
        (Some('*'), _) => (0..=name.len()).any(|end| matches(&pattern[1..], &name[end..])),
        (Some('?'), Some(_)) => matches(&pattern[1..], &name[1..]),
        (Some(one), Some(other)) => one == other && matches(&pattern[1..], &name[1..]),
        (one, other) => one == other,
    }
}

/// Plays this many passes. The server must allow every operation.
fn play(replay: &mut LoadFileReplay, server: &mut Server, passes: u64) -> BTreeMap<String, u64> {
    let classes = replay.catalogue().classes.clone();
    let mut counts = BTreeMap::new();
    let mut last = Outcome::START;
    loop {
        let operation = replay.next(&last);
        if replay.passes() == passes {
            return counts;
        }
        let class = &classes[usize::from(operation.class.0)];
        let done = server.act(&operation.action);
        done.unwrap_or_else(|problem| panic!("{:?}: {problem}", operation.action));
        *counts.entry(class.clone()).or_default() += 1;
        last = Outcome::START;
    }
}

fn count(counts: &BTreeMap<String, u64>, class: &str) -> u64 {
    counts.get(class).copied().unwrap_or(0)
}

#[test]
fn a_small_file_is_understood() {
    let file = parse(SMALL);
    assert_eq!(file.operations(), 37);
    assert_eq!(file.counts()["NTCreateX"], 10);
    assert_eq!(file.counts()["Deltree"], 2);
    // The set-up ends with the close of its last file. The query for space is the first operation of the pass.
    assert_eq!(
        file.steps().first().map(|step| step.action),
        Some(FileAction::QuerySpace)
    );
    assert_eq!(file.steps().len(), 37 - 10 - 1);
    let document = file
        .catalogue()
        .paths
        .iter()
        .position(|path| path == "DOCS/ONE.DOC");
    let document = PathId(u32::try_from(document.expect("it is named")).expect("small"));
    assert_eq!(file.files(), [(document, 65_636)]);
    assert_eq!(file.catalogue().patterns, ["*.JNK", "ONE.*"]);
    // One open without a required type only reads attributes. The other sets times, which needs more rights.
    let looks = |step: &&dyno_workload::FileOp| {
        matches!(
            step.action,
            FileAction::Open {
                intent: Intent::Look,
                ..
            }
        )
    };
    assert_eq!(file.steps().iter().filter(looks).count(), 1);
}

#[test]
fn operations_are_counted_under_the_same_names_as_those_of_the_disk_mix() {
    let file = parse(SMALL);
    let classes = &file.catalogue().classes;
    let script = Script::load(&DiskMixOptions::default());
    assert_eq!(classes[..classes.len() - 1], script.catalogue().classes);
    assert_eq!(classes.last().map(String::as_str), Some("restore"));
    for step in file.steps() {
        let class = &classes[usize::from(step.class.0)];
        let expected = match step.action {
            FileAction::Read { .. } => "read",
            FileAction::Flush { .. } => "flush",
            FileAction::Rename { .. } => "rename",
            FileAction::Close { .. } => "close",
            _ => continue,
        };
        assert_eq!(class, expected);
    }
}

#[test]
fn a_pass_ends_with_the_files_with_which_it_began() {
    let mut replay = LoadFileReplay::new(Arc::new(parse(SMALL)), 3);
    let mut server = Server::prepared(&replay);
    let before = server.clone();
    let counts = play(&mut replay, &mut server, 2);
    assert_eq!(count(&counts, "read"), 2);
    assert_eq!(count(&counts, "create"), 6);
    // Closes the handle that was left open, removes three names, and rewrites the document with two writes.
    assert_eq!(count(&counts, "restore"), 2 * (1 + 3 + 4));
    assert_eq!(server, before);
}

#[test]
fn every_write_of_a_file_has_a_different_generation() {
    let mut replay = LoadFileReplay::new(Arc::new(parse(SMALL)), 0);
    let mut generations = Vec::new();
    for _ in 0..200 {
        let operation = replay.next(&Outcome::START);
        if let FileAction::Write { generation, .. } = operation.action {
            // A restored file has its first content again.
            generations.extend((generation != 0).then_some(generation));
        }
    }
    assert!(generations.len() > 3);
    assert_eq!(
        generations.iter().collect::<BTreeSet<_>>().len(),
        generations.len()
    );
}

#[test]
fn a_client_that_leaves_during_a_pass_restores_the_files() {
    let file = Arc::new(parse(SMALL));
    for steps in 0..60 {
        let mut replay = LoadFileReplay::new(file.clone(), 3);
        let mut server = Server::prepared(&replay);
        let before = server.names();
        for _ in 0..steps {
            let operation = replay.next(&Outcome::START);
            server.act(&operation.action).expect("as recorded");
        }
        // The next call records the last outcome. Its operation is not performed.
        let _ = replay.next(&Outcome::START);
        server.do_all(&replay.leaving());
        assert_eq!(server.names(), before, "after {steps} operations");
        server.do_all(&replay.removal());
        assert_eq!(server.names(), BTreeSet::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn after_any_failure_later_passes_succeed_again(
        faults in prop::collection::vec((0_usize..60, any::<bool>()), 1..8),
    ) {
        let mut replay = LoadFileReplay::new(Arc::new(parse(SMALL)), 3);
        let mut server = Server::prepared(&replay);
        let before = server.names();
        let mut last = Outcome::START;
        for step in 0..400 {
            let operation = replay.next(&last);
            let fault = faults.iter().find(|(at, _)| *at == step);
            let lost = fault.is_some_and(|(_, lost)| *lost);
            // Failures may affect later operations, but not after a whole pass.
            let done = if fault.is_none() { server.act(&operation.action) } else { Err("failed") };
            prop_assert_ne!(done, Err("is not open"), "step {}: {:?}", step, operation.action);
            let ok = done.is_ok();
            if lost {
                server.open.clear();
            }
            if fault.is_some() && !lost {
                if let FileAction::Close { slot } = operation.action {
                    // A handle is closed whatever the answer to its close.
                    server.open.remove(&slot);
                }
            }
            prop_assert!(ok || step < 160, "step {step}: {:?}", operation.action);
            last = Outcome { ok, bytes_read: 0, session_lost: lost };
        }
        let _ = replay.next(&last);
        prop_assert!(replay.passes() > 0);
        server.do_all(&replay.leaving());
        prop_assert_eq!(server.names(), before);
    }

    #[test]
    fn malformed_load_files_cause_no_panic(text in "(NTCreateX|Close|Mkdir|Rename|Deltree|\"[a-z\\\\]{0,9}\"|0x[0-9]|[0-9 ]|NT_STATUS_OK|\n| ){0,120}") {
        let _ = LoadFile::parse(text.as_bytes());
    }
}

/// Checks the problems of a file that consists of `SMALL` and these lines.
fn check_refused(lines: &str, problems: &[&str]) {
    let text = format!(
        "{}{lines}",
        SMALL.trim_end_matches("Deltree \"\\clients\\client1\" NT_STATUS_OK\n")
    );
    let error = LoadFile::parse(text.as_bytes()).expect_err("it contradicts itself");
    let first = SMALL.lines().count();
    let expected: Vec<String> = (first..)
        .zip(problems)
        .map(|(line, problem)| format!("line {line}: {problem}"))
        .collect();
    assert_eq!(error.to_string(), expected.join("\n"));
}

#[test]
fn a_contradictory_recording_is_refused_with_all_its_lines() {
    check_refused(
        "Close 77 NT_STATUS_OK\n\
         NTCreateX \"\\clients\\client1\\gone\" 0x40 0x1 10 NT_STATUS_OK\n\
         NTCreateX \"\\clients\\client1\\docs\" 0x1 0x2 11 NT_STATUS_OK\n\
         NTCreateX \"\\clients\\client1\\docs\\x\" 0x40 0x2 9 NT_STATUS_OK\n\
         Unlink \"\\clients\\client1\\docs\\ONE.DOC\" 0x6 NT_STATUS_OK\n\
         QUERY_PATH_INFORMATION \"\\clients\\client1\\docs\\NOTE\" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND\n\
         NTCreateX \"\\clients\\client1\\a\\b\" 0x40 0x2 12 NT_STATUS_OK\n\
         QUERY_PATH_INFORMATION \"\\clients\\client1\\..\\client2\" 1004 NT_STATUS_OK\n\
         Frobnicate 1 NT_STATUS_OK\n",
        &[
            "handle 77 is not open",
            "\"\\clients\\client1\\gone\" is opened, but no earlier line created it",
            "\"\\clients\\client1\\docs\" is created, but it already exists",
            "handle 9 is already open",
            "\"\\clients\\client1\\docs\\ONE.DOC\" is used, but no earlier line created it",
            "\"\\clients\\client1\\docs\\NOTE\" was missing, but an earlier line created it",
            "no earlier line created its directory",
            "\"\\clients\\client1\\..\\client2\": \"..\" is not a valid name",
            "\"Frobnicate\" is not an operation of load files",
        ],
    );
}

#[test]
fn problems_are_bounded_and_a_file_without_a_pass_is_refused() {
    let error =
        LoadFile::parse("Close 1 NT_STATUS_OK\n".repeat(1000).as_bytes()).expect_err("nothing is open");
    assert_eq!((error.problems.len(), error.more), (50, 950));
    assert!(error.to_string().ends_with("and 950 more"));
    for text in ["", "Mkdir \"\\clients\" NT_STATUS_OK\n"] {
        let error = LoadFile::parse(text.as_bytes()).expect_err("nothing to replay");
        assert_eq!(error.to_string(), "there is nothing to replay after the set-up");
    }
    let error = LoadFile::parse(b"Close \xff NT_STATUS_OK").expect_err("no text");
    assert_eq!(error.problems[0].problem, "is not UTF-8");
}

/// Counts of Debian's file (dbench 4.0-2.1, 458,344 lines), each counted by other means.
const PACKAGED_COUNTS: [(&str, u64); 16] = [
    ("Close", 58_200),
    ("Deltree", 2),
    ("FIND_FIRST", 27_765),
    ("Flush", 5_553),
    ("LockX", 258),
    ("Mkdir", 1),
    ("NTCreateX", 79_230),
    ("QUERY_FILE_INFORMATION", 12_585),
    ("QUERY_FS_INFORMATION", 13_168),
    ("QUERY_PATH_INFORMATION", 71_814),
    ("ReadX", 124_199),
    ("Rename", 3_355),
    ("SET_FILE_INFORMATION", 6_454),
    ("Unlink", 16_000),
    ("UnlockX", 258),
    ("WriteX", 39_502),
];

#[test]
fn the_packaged_file_is_understood_and_repeats() {
    if !Path::new(PACKAGED).exists() {
        eprintln!("skipped: {PACKAGED} is not there (Debian package dbench)");
        return;
    }
    let file = LoadFile::parse(&std::fs::read(PACKAGED).expect("it can be read"));
    let file = Arc::new(file.unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(
        file.counts().clone().into_iter().collect::<Vec<_>>(),
        PACKAGED_COUNTS
    );
    assert_eq!(file.operations(), 458_344);
    // The set-up is the first 600 lines and creates 20 MiB in 56 files. The last line is the final deltree.
    assert_eq!(file.steps().len(), 458_344 - 600 - 1);
    assert_eq!(file.files().len(), 56);
    assert_eq!(
        file.files().iter().map(|(_, bytes)| bytes).sum::<u64>(),
        20_971_520
    );

    let mut replay = LoadFileReplay::new(file, 1);
    let mut server = Server::prepared(&replay);
    let before = server.names();
    let counts = play(&mut replay, &mut server, 1);
    assert_eq!(count(&counts, "read"), 124_199);
    assert_eq!(count(&counts, "flush"), 5_553);
    // A pass leaves a file named "mixfile".
    assert_eq!(count(&counts, "restore"), 1);
    assert_eq!(server.names(), before);
}
