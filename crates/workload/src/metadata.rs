//! Metadata: each client repeatedly goes through the phases of mdtest. It creates small files, stats them,
//! reads them and removes them. Each phase ends for all files before the next one starts. Between creating
//! and reading, the client may look at the directory several times: it lists the directory, looks up a
//! missing name, and stats all its files.
//!
//! An operation handles a whole file: `create` opens, writes and closes it, `read` opens, reads and closes
//! it. Clients don't wait for each other between phases. This module handles neither due times nor the
//! client's cache.

use crate::upkeep::{self, make_directory, make_file};
use crate::{ClassId, FileAction, FileCatalogue, FileOp, FileWorkload, Outcome, PathId, Presence, Workload};

const DIRECTORY: PathId = PathId(0);
const MARKER: PathId = PathId(1);
/// Index of the first file's path, which the other files' paths follow. The last two paths, used only for
/// looks, are the directory of all files and a missing name.
const FIRST_FILE: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataOptions {
    pub files: u32,
    /// Size of each file, which is written and read in one operation.
    pub file_bytes: u32,
    /// Whether all clients' files are in one directory; otherwise, each client has its own.
    pub shared: bool,
    /// Number of looks at the directory before a client reads its files. 0: the client only stats the files once,
    /// without listing.
    pub looks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Create,
    Stat,
    Read,
    Remove,
    List,
    Absent,
}

/// The names of phases, in the order of their classes. The last two are for looks at the directory only.
const PHASES: [(Phase, &str); 6] = [
    (Phase::Create, "create"),
    (Phase::Stat, "stat"),
    (Phase::Read, "read"),
    (Phase::Remove, "remove"),
    (Phase::List, "list"),
    (Phase::Absent, "absent"),
];

impl Phase {
    fn operations(self, files: u32) -> u32 {
        match self {
            Self::List | Self::Absent => 1,
            _ => files,
        }
    }
}

impl MetadataOptions {
    /// Returns the phases of a pass in order.
    fn pass(&self) -> Vec<Phase> {
        let look = match self.looks {
            0 => [Phase::Stat].as_slice(),
            _ => &[Phase::List, Phase::Absent, Phase::Stat],
        };
        let looks = std::iter::repeat_n(look, self.looks.max(1) as usize).flatten();
        let made = [Phase::Create].into_iter().chain(looks.copied());
        made.chain([Phase::Read, Phase::Remove]).collect()
    }
}

/// State of a file, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Absent,
    There,
    /// Unknown, because the file's creation or removal failed.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Metadata {
    options: MetadataOptions,
    catalogue: FileCatalogue,
    known: Vec<Known>,
    pass: Vec<Phase>,
    /// Index into `pass`.
    phase: usize,
    /// The next file of this phase.
    file: u32,
    /// Phase and file of the last operation that `next` returned.
    last: Option<(Phase, u32)>,
    passes: u64,
}

impl Metadata {
    pub fn new(options: MetadataOptions, client: u32) -> Self {
        let file = |number| match options.shared {
            true => format!("../file.{client}.{number}"),
            false => format!("file.{number}"),
        };
        let looks = options.looks > 0;
        let looked_at = match options.shared {
            _ if !looks => Vec::new(),
            true => vec!["..".to_owned(), format!("../absent.{client}")],
            false => vec![String::new(), "absent".to_owned()],
        };
        let paths = ["".into(), "made".into()].into_iter();
        let classes = PHASES.iter().take(if looks { 6 } else { 4 });
        Self {
            options,
            catalogue: FileCatalogue {
                classes: classes.map(|(_, name)| (*name).to_owned()).collect(),
                paths: paths
                    .chain((0..options.files).map(file))
                    .chain(looked_at)
                    .collect(),
                patterns: vec!["*".to_owned()],
            },
            known: vec![Known::Absent; options.files as usize],
            pass: options.pass(),
            phase: 0,
            file: 0,
            last: None,
            passes: 0,
        }
    }

    /// Records the result of the last operation that `next` returned.
    fn learn(&mut self, last: &Outcome) {
        let Some((phase, file)) = self.last.take() else {
            return;
        };
        let known = match (phase, last.ok) {
            (Phase::Create, true) => Known::There,
            (Phase::Remove, true) => Known::Absent,
            (Phase::Create | Phase::Remove, false) => Known::Unknown,
            (Phase::Stat | Phase::Read | Phase::List | Phase::Absent, _) => return,
        };
        self.known[file as usize] = known;
    }

    /// Returns the phase's action on the file, or None if the phase skips the file, because the file may be
    /// missing.
    fn action(&self, phase: Phase, file: u32) -> Option<FileAction> {
        let (path, bytes) = (PathId(FIRST_FILE + file), self.options.file_bytes);
        let known = self.known[file as usize];
        let there = known == Known::There;
        match phase {
            Phase::Create => Some(FileAction::WriteFile {
                path,
                bytes,
                // Each pass writes different data.
                generation: u32::try_from(self.passes).unwrap_or(u32::MAX),
            }),
            Phase::Stat => there.then_some(FileAction::QueryPath {
                path,
                presence: Presence::There,
            }),
            Phase::Read => there.then_some(FileAction::ReadFile { path, bytes }),
            Phase::Remove => removal(path, known),
            Phase::List => Some(FileAction::Find {
                directory: PathId(FIRST_FILE + self.options.files),
                pattern: 0,
                presence: Presence::There,
            }),
            Phase::Absent => Some(FileAction::QueryPath {
                path: PathId(FIRST_FILE + self.options.files + 1),
                presence: Presence::NotThere,
            }),
        }
    }

    /// Advances to the next file, or to the first of the next phase.
    fn advance(&mut self) {
        self.file += 1;
        if self.file == self.pass[self.phase].operations(self.options.files) {
            self.file = 0;
            self.phase += 1;
        }
        if self.phase == self.pass.len() {
            self.phase = 0;
            self.passes += 1;
        }
    }
}

fn removal(path: PathId, known: Known) -> Option<FileAction> {
    let presence = match known {
        Known::Absent => return None,
        Known::There => Presence::There,
        Known::Unknown => Presence::Either,
    };
    Some(FileAction::Delete { path, presence })
}

impl Workload for Metadata {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        self.learn(last);
        // The loop ends within one pass, because there is always a file to create.
        loop {
            let (phase, file) = (self.pass[self.phase], self.file);
            let action = self.action(phase, file);
            self.advance();
            if let Some(action) = action {
                self.last = Some((phase, file));
                let class = ClassId(phase as u8); // At most five, because there are six phases.
                return FileOp { class, action };
            }
        }
    }
}

impl FileWorkload for Metadata {
    fn catalogue(&self) -> &FileCatalogue {
        &self.catalogue
    }

    /// Creates an empty directory, in which the first phase creates its files.
    fn preparation(&self, found: bool) -> Vec<FileAction> {
        if found {
            return Vec::new();
        }
        let marker = make_file(MARKER, 0, u32::MAX);
        std::iter::once(make_directory(DIRECTORY)).chain(marker).collect()
    }

    fn marker(&self) -> PathId {
        MARKER
    }

    fn leaving(&self) -> Vec<FileAction> {
        let mut known = self.known.clone();
        if let Some((Phase::Create | Phase::Remove, file)) = self.last {
            known[file as usize] = Known::Unknown;
        }
        let files = (FIRST_FILE..).map(PathId).zip(known);
        files.filter_map(|(path, known)| removal(path, known)).collect()
    }

    fn removal(&self) -> Vec<FileAction> {
        let files = (0..self.options.files).map(|file| PathId(FIRST_FILE + file));
        upkeep::remove(files.chain([MARKER]), [DIRECTORY])
    }

    fn passes(&self) -> u64 {
        self.passes
    }

    fn pass_operations(&self) -> u64 {
        let operations = |phase: &Phase| u64::from(phase.operations(self.options.files));
        self.pass.iter().map(operations).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{content_of, footprint_bytes, played, Intent, Writing};

    const OPTIONS: MetadataOptions = MetadataOptions {
        files: 3,
        file_bytes: 100,
        shared: false,
        looks: 0,
    };
    const FAILED: Outcome = Outcome {
        ok: false,
        ..Outcome::START
    };

    fn classes(workload: &mut Metadata, count: usize) -> Vec<u8> {
        (0..count)
            .map(|_| workload.next(&Outcome::START).class.0)
            .collect()
    }

    #[test]
    fn each_phase_covers_all_files_before_the_next_begins() {
        let mut client = Metadata::new(OPTIONS, 0);
        assert_eq!(classes(&mut client, 12), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
        assert_eq!((client.passes(), client.pass_operations()), (1, 12));
        assert_eq!(classes(&mut client, 4), [0, 0, 0, 1]);
        assert_eq!(client.leaving().len(), 3);
    }

    #[test]
    fn a_client_looks_at_the_directory_as_often_as_configured() {
        let options = MetadataOptions { looks: 2, ..OPTIONS };
        let mut client = Metadata::new(options, 0);
        let look = [4, 5, 1, 1, 1];
        let pass = [&[0; 3][..], &look, &look, &[2; 3], &[3; 3]].concat();
        assert_eq!(classes(&mut client, 19), pass);
        assert_eq!((client.passes(), client.pass_operations()), (1, 19));
        assert_eq!(client.catalogue.classes.len(), 6);
        assert_eq!(Metadata::new(OPTIONS, 0).catalogue.classes.len(), 4);
    }

    #[test]
    fn a_file_that_was_not_created_is_skipped_until_the_next_pass() {
        let mut client = Metadata::new(OPTIONS, 0);
        client.next(&Outcome::START);
        client.next(&FAILED);
        assert_eq!(classes(&mut client, 7), [0, 1, 1, 2, 2, 3, 3]);
        // The first file may have been written in part.
        let either = |file| FileAction::Delete {
            path: PathId(FIRST_FILE + file),
            presence: Presence::Either,
        };
        let mut client = Metadata::new(OPTIONS, 0);
        let ops: Vec<_> = [Outcome::START, FAILED, FAILED, FAILED, Outcome::START]
            .map(|last| client.next(&last).action)
            .into();
        assert_eq!(ops[3..], [either(0), either(1)]);
        // The first file is gone, and the state of the second is unknown.
        assert_eq!(client.leaving(), [either(1), either(2)]);
    }

    #[test]
    fn the_last_operation_may_or_may_not_have_been_performed() {
        let mut client = Metadata::new(OPTIONS, 0);
        client.next(&Outcome::START);
        let either = FileAction::Delete {
            path: PathId(FIRST_FILE),
            presence: Presence::Either,
        };
        assert_eq!(client.leaving(), [either]);
        assert_eq!(Metadata::new(OPTIONS, 0).leaving(), []);
    }

    #[test]
    fn file_names_in_a_shared_directory_contain_the_clients_number() {
        let shared = MetadataOptions {
            shared: true,
            ..OPTIONS
        };
        let names = |options, client| Metadata::new(options, client).catalogue.paths;
        assert_eq!(names(OPTIONS, 7)[2..], ["file.0", "file.1", "file.2"]);
        assert_eq!(
            names(shared, 7),
            ["", "made", "../file.7.0", "../file.7.1", "../file.7.2"]
        );
        let looks = MetadataOptions { looks: 1, ..shared };
        assert_eq!(names(looks, 7)[5..], ["..", "../absent.7"]);
    }

    #[test]
    fn only_the_marker_remains_and_the_footprint_is_all_files() {
        let left = played(&mut Metadata::new(OPTIONS, 0), 0, 5, 26);
        assert_eq!(left.keys().collect::<Vec<_>>(), ["made"]);
        assert_eq!(footprint_bytes(&mut Metadata::new(OPTIONS, 0)), 300);
    }

    #[test]
    fn a_whole_file_is_opened_transferred_and_closed() {
        let action = FileAction::WriteFile {
            path: PathId(2),
            bytes: 100,
            generation: 4,
        };
        let steps: Vec<_> = action.steps().collect();
        let [FileAction::Open {
            intent: Intent::Replace,
            slot,
            ..
        }, FileAction::Write {
            bytes: 100,
            generation: 4,
            ..
        }, FileAction::Close { slot: closed }] = steps[..]
        else {
            panic!("not {steps:?}");
        };
        assert_eq!(slot, closed);
        let empty = FileAction::ReadFile {
            path: PathId(2),
            bytes: 0,
        };
        assert_eq!(empty.steps().count(), 2);
        let of = |generation| Writing {
            client: 0,
            level: 5,
            file: 1,
            generation,
        };
        assert_ne!(content_of(of(0), 0, 100), content_of(of(1), 0, 100));
    }
}
