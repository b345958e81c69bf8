//! Steps of a scenario over any file protocol: the file operations of a user's commands, call by call,
//! through the client cache.
//!
//! Names are generated in advance, and listings are compared with them. A program's own work (sorting,
//! printing) is not imitated.

mod metadata;
mod streams;

use super::job::{Job, JobClient};
use super::measured::Measured;
use super::program::{same_length, Program};
use super::sessions::{Requests, Sessions};
use crate::job::{JobFailure, JobLevels, StepsSpec};
use crate::scenario::{StepAction, StepSpec, TreeSpec};
use crate::tally::LevelTally;
use dyno_files::{matches_pattern, Access, Call, Disposition, Files, Handle, Reply};
use dyno_measure::{Detail, Failure, Fault};
use dyno_workload::{content_of, Writing};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Minimum transfer size of cp and cat (coreutils, `ioblksize.h`).
const COPY_BYTES: u32 = 128 << 10;
const OBJECT: &str = ".o";
/// Generation of a source file's content. The object built from it has another generation.
const SOURCE_GENERATION: u32 = 0;
const OBJECT_GENERATION: u32 = 1;

/// Performs the steps. Each step starts when all nodes have finished the previous one.
pub(super) fn carry_out_all<S: Sessions>(job: &Job<'_, S>, all: &StepsSpec) -> Result<JobLevels, JobFailure> {
    let mut levels = Vec::new();
    let mut gate = 0;
    for (step, spec) in all.steps.iter().enumerate() {
        let failed = |failure| JobFailure { step, failure };
        if !job.end.pass(gate) {
            return Err(failed(Fault::OtherIo.into()));
        }
        if all.drop_caches {
            drop_caches().map_err(|error| failed(local_failure(&error)))?;
        }
        let of_step = Job {
            first_gate: gate + 1,
            ..*job
        };
        levels.extend(carry_out(&of_step, &spec.within(&all.local)).map_err(failed)?);
        gate += 1 + spec.gates();
    }
    Ok(levels)
}

/// Performs a step in its own sessions.
pub(super) fn carry_out<S: Sessions>(job: &Job<'_, S>, spec: &StepSpec) -> Result<JobLevels, Failure> {
    let mut levels = match &spec.action {
        StepAction::Metadata(shape) => metadata::carry_out(job, spec, shape),
        // Streams run without a cache, so there is none to disclose.
        StepAction::Streams(shape) => return streams::carry_out(job, spec, shape),
        _ => {
            let by_first = job.by_several(1, 1, 0, |_, client| {
                Step::<S>::new(client, spec.clone()).all_passes()
            });
            by_first.map(|found| {
                let passes = found.into_iter().flatten().map(Some).collect::<JobLevels>();
                if passes.is_empty() {
                    vec![None; spec.levels()]
                } else {
                    passes
                }
            })
        }
    }?;
    for level in levels.iter_mut().flatten() {
        level.client_cache = job.options.disclosed();
    }
    Ok(levels)
}

/// Writes back this machine's page cache and drops it.
fn drop_caches() -> std::io::Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}

fn level(measured: Measured, entries: u64) -> LevelTally {
    LevelTally {
        entries: Some(entries),
        ..measured.tally()
    }
}

#[derive(Debug, Default)]
struct Names {
    directories: Vec<String>,
    /// Files of all directories in order, with sizes.
    files: Vec<(String, u64)>,
    files_in_each: usize,
    /// Expected listing of the top directory.
    matching: Vec<String>,
}

impl Names {
    fn of(spec: &StepSpec) -> Self {
        let (tree, pattern) = match &spec.action {
            StepAction::List { tree, pattern, .. } => (tree, pattern.as_str()),
            StepAction::MakeTree { tree, .. }
            | StepAction::Find { tree }
            | StepAction::Stat { tree }
            | StepAction::Read { tree }
            | StepAction::Build { tree, .. }
            | StepAction::RemoveTree { tree, .. } => (tree, "*"),
            _ => return Self::default(),
        };
        let directories = tree.directories(&spec.base);
        let below = |directory: &String, name: &str| format!("{directory}/{name}");
        let files = directories.iter().flat_map(|directory| {
            let files = tree.files();
            files.map(move |(name, bytes)| (below(directory, &name), bytes))
        });
        let top = (1..=tree.below_top()).map(|number| format!("d{number}"));
        let objects = tree.files().filter(|_| tree.built).map(|(name, _)| name + OBJECT);
        let top = top.chain(tree.files().map(|(name, _)| name)).chain(objects);
        let matching = top.filter(|name| matches_pattern(pattern, name.as_bytes()));
        Self {
            files_in_each: tree.files().count(),
            files: files.collect(),
            matching: matching.map(|name| below(&directories[0], &name)).collect(),
            directories,
        }
    }

    fn files_of(&self, directory: usize) -> &[(String, u64)] {
        let from = directory * self.files_in_each;
        &self.files[from..from + self.files_in_each]
    }

    fn entries_of(&self, directory: usize, tree: &TreeSpec) -> u64 {
        // Directories of the lowest level come last.
        let inner = self.directories.len() - tree.lowest();
        let below = if directory < inner { tree.below_top() } else { 0 };
        let files = self.files_in_each * if tree.built { 2 } else { 1 };
        u64::from(below) + files as u64
    }
}

/// A step in progress.
struct Step<S: Sessions> {
    client: JobClient<S::Client>,
    spec: StepSpec,
    entries: u64,
}

impl<S: Sessions> Step<S> {
    fn new(client: JobClient<S::Client>, spec: StepSpec) -> Self {
        Self {
            client: client.timing_each_call(),
            spec,
            entries: 0,
        }
    }

    async fn all_passes(mut self) -> Result<Vec<LevelTally>, Failure> {
        let names = Names::of(&self.spec);
        let action = self.spec.action.clone();
        self.client.connect().await?;
        let mut passes = Vec::new();
        let mut found = Ok(());
        if self.spec.passes == 0 {
            found = self.act(&action, &names).await;
        }
        for _ in 0..self.spec.passes {
            found = self.one_pass(&action, &names, &mut passes).await;
            if found.is_err() {
                break;
            }
        }
        if let StepAction::CopyFrom {
            local,
            copied: Some(_),
            ..
        } = &action
        {
            let _ = std::fs::remove_file(local);
        }
        let finished = self.client.finish().await;
        found.and(finished).map(|()| passes)
    }

    async fn one_pass(
        &mut self,
        action: &StepAction,
        names: &Names,
        passes: &mut Vec<LevelTally>,
    ) -> Result<(), Failure> {
        self.entries = 0;
        let measured = self.client.begin_together().await?;
        self.act(action, names).await?;
        let measured = self.client.end_together(measured).await?;
        let entries = self.entries;
        self.check(action, names).await?;
        passes.push(level(measured, entries));
        Ok(())
    }

    async fn act(&mut self, action: &StepAction, names: &Names) -> Result<(), Failure> {
        match action {
            StepAction::MakeBase => self.client.make_directory(&self.spec.base).await,
            StepAction::RemoveBase => absent_or(true, self.client.remove_directory(&self.spec.base).await),
            StepAction::MakeTree { times, .. } => self.make_tree(names, *times).await,
            StepAction::List { pattern, long, .. } => self.list(names, pattern, *long).await,
            StepAction::Find { tree } => self.find(tree, names).await,
            StepAction::Stat { .. } => self.stat(names).await,
            StepAction::Read { .. } => self.read_tree(names).await,
            StepAction::Build {
                searches,
                object_bytes,
                ..
            } => self.build(names, *searches, *object_bytes).await,
            StepAction::RemoveTree { tree, lenient } => self.remove_tree(tree, names, *lenient).await,
            StepAction::MakeFile { file, bytes } => self.make_file(file, *bytes).await,
            StepAction::CopyTo { local, file } => self.copy_to(local, file).await,
            StepAction::CopyFrom { file, local, .. } => self.copy_from(file, local).await,
            // Steps of several clients have their own functions.
            StepAction::Metadata(_) | StepAction::Streams(_) => Err(Fault::OtherIo.into()),
            StepAction::RemoveFile { file, lenient } => {
                self.entries += 1;
                let path = &self.below_base(file);
                absent_or(*lenient, self.client.delete(path).await)
            }
        }
    }

    /// Checks the result of a step, outside the measured time.
    async fn check(&mut self, action: &StepAction, names: &Names) -> Result<(), Failure> {
        match action {
            StepAction::MakeTree { tree, .. } => {
                for (number, directory) in names.directories.iter().enumerate() {
                    self.client
                        .expect_entries(directory, "*", names.entries_of(number, tree))
                        .await?;
                }
                Ok(())
            }
            StepAction::RemoveTree { .. } => self.client.expect(&names.directories[0], None).await,
            StepAction::MakeFile { file, bytes } => {
                let path = self.below_base(file);
                self.client.expect(&path, Some(*bytes)).await
            }
            StepAction::CopyTo { local, file } => {
                let bytes = local.metadata().map_err(|error| local_failure(&error))?.len();
                let path = self.below_base(file);
                self.client.expect(&path, Some(bytes)).await
            }
            StepAction::CopyFrom {
                local,
                copied: Some(copied),
                ..
            } => match is_same(local, copied) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Fault::WrongContent.into()),
                Err(error) => Err(local_failure(&error)),
            },
            StepAction::RemoveFile { file, .. } => {
                let path = self.below_base(file);
                self.client.expect(&path, None).await
            }
            _ => Ok(()),
        }
    }

    fn below_base(&self, name: &str) -> String {
        match &*self.spec.base {
            "" => name.to_owned(),
            base => format!("{base}/{name}"),
        }
    }

    /// Returns the size of a read or write of cp and cat.
    fn copy_bytes(&self) -> u32 {
        self.spec.block_bytes.max(COPY_BYTES)
    }

    fn requests(&self) -> Requests {
        self.client.files.requests()
    }

    /// Lists a directory. If the requests show that the listing returned no attributes, queries the attributes of each
    /// file, as programs do.
    async fn list(&mut self, names: &Names, pattern: &str, long: bool) -> Result<(), Failure> {
        let before = self.requests();
        self.client
            .expect_entries(&names.directories[0], pattern, names.matching.len() as u64)
            .await?;
        self.entries += names.matching.len() as u64;
        // `ls` also queries each result of a shell pattern.
        if (long || pattern != "*") && !S::brought_attributes(&before, &self.requests()) {
            for path in &names.matching {
                self.client.query(path).await?;
            }
        }
        Ok(())
    }

    async fn find(&mut self, tree: &TreeSpec, names: &Names) -> Result<(), Failure> {
        for (number, directory) in names.directories.iter().enumerate() {
            let entries = names.entries_of(number, tree);
            let before = self.requests();
            self.client.expect_entries(directory, "*", entries).await?;
            self.entries += entries;
            if !S::brought_attributes(&before, &self.requests()) {
                for (path, _) in names.files_of(number) {
                    self.client.query(path).await?;
                }
            }
        }
        Ok(())
    }

    async fn stat(&mut self, names: &Names) -> Result<(), Failure> {
        for (path, bytes) in &names.files {
            self.client.expect(path, Some(*bytes)).await?;
            self.entries += 1;
        }
        Ok(())
    }

    async fn make_tree(&mut self, names: &Names, times: bool) -> Result<(), Failure> {
        for (number, path) in names.directories.iter().enumerate() {
            self.client.make_directory(path).await?;
            self.entries += 1;
            for (place, (path, bytes)) in names.files_of(number).iter().enumerate() {
                let writing = self.writing(number * names.files_in_each + place, SOURCE_GENERATION);
                let handle = self
                    .client
                    .open(path, Access::ReadWrite, Disposition::Create)
                    .await?;
                self.write_whole(handle, writing, *bytes).await?;
                if times {
                    self.client.ask(&Call::SetTimes { handle }).await?;
                }
                self.client.close(handle).await?;
                self.entries += 1;
            }
        }
        Ok(())
    }

    fn writing(&self, file: usize, generation: u32) -> Writing {
        Writing {
            client: 0,
            level: self.spec.seed,
            file: u32::try_from(file).unwrap_or(u32::MAX),
            generation,
        }
    }

    async fn write_whole(&mut self, handle: Handle, writing: Writing, bytes: u64) -> Result<(), Failure> {
        let data = |offset, piece| content_of(writing, offset, piece);
        self.client
            .write_whole(handle, bytes, self.copy_bytes(), data)
            .await
    }

    async fn read_whole(&mut self, path: &str, writing: Writing, bytes: u64) -> Result<(), Failure> {
        self.client
            .read_whole(path, bytes, self.copy_bytes(), writing)
            .await
    }

    async fn read_tree(&mut self, names: &Names) -> Result<(), Failure> {
        for (number, (path, bytes)) in names.files.iter().enumerate() {
            let writing = self.writing(number, SOURCE_GENERATION);
            self.read_whole(path, writing, *bytes).await?;
            self.entries += 1;
        }
        Ok(())
    }

    async fn build(&mut self, names: &Names, searches: u32, object_bytes: u64) -> Result<(), Failure> {
        for (number, (path, bytes)) in names.files.iter().enumerate() {
            for search in 0..searches {
                let header = format!("{path}.h{search}");
                self.client.expect(&header, None).await?;
            }
            self.client.query(path).await?;
            let writing = self.writing(number, SOURCE_GENERATION);
            self.read_whole(path, writing, *bytes).await?;
            let object = format!("{path}{OBJECT}");
            let handle = self
                .client
                .open(&object, Access::ReadWrite, Disposition::OverwriteIf)
                .await?;
            let writing = self.writing(number, OBJECT_GENERATION);
            self.write_whole(handle, writing, object_bytes).await?;
            self.client.close(handle).await?;
            self.entries += 1;
        }
        // Query all files and objects, as the linker and a second call of make do.
        for (path, _) in &names.files {
            self.client.query(path).await?;
            let object = format!("{path}{OBJECT}");
            self.client.expect(&object, Some(object_bytes)).await?;
        }
        Ok(())
    }

    async fn remove_tree(&mut self, tree: &TreeSpec, names: &Names, lenient: bool) -> Result<(), Failure> {
        if lenient
            && matches!(
                self.client
                    .ask(&Call::QueryPath {
                        path: &names.directories[0]
                    })
                    .await?,
                Reply::NotThere
            )
        {
            return Ok(());
        }
        for (number, directory) in names.directories.iter().enumerate() {
            if !lenient {
                let entries = names.entries_of(number, tree);
                self.client.expect_entries(directory, "*", entries).await?;
            }
            for (path, _) in names.files_of(number) {
                absent_or(lenient, self.client.delete(path).await)?;
                if tree.built {
                    let path = &format!("{path}{OBJECT}");
                    absent_or(lenient, self.client.delete(path).await)?;
                }
                self.entries += 1;
            }
        }
        for path in names.directories.iter().rev() {
            absent_or(lenient, self.client.remove_directory(path).await)?;
            self.entries += 1;
        }
        Ok(())
    }

    /// mkfile(8) of Solaris: writes the last byte, queries the file, then writes zeros from the start.
    async fn make_file(&mut self, file: &str, bytes: u64) -> Result<(), Failure> {
        let path = self.below_base(file);
        let handle = self
            .client
            .open(&path, Access::ReadWrite, Disposition::OverwriteIf)
            .await?;
        if bytes > 0 {
            self.client.write(handle, bytes - 1, &[0]).await?;
            self.client.ask(&Call::QueryHandle { handle }).await?;
        }
        self.client.bytes_written = 0;
        let block_bytes = self.spec.block_bytes;
        let zeros = &*vec![0; block_bytes as usize];
        self.client
            .write_whole(handle, bytes, block_bytes, |_, piece| &zeros[..piece])
            .await?;
        self.entries += 1;
        self.client.close(handle).await
    }

    async fn copy_to(&mut self, local: &Path, file: &str) -> Result<(), Failure> {
        let mut from = File::open(local).map_err(|error| local_failure(&error))?;
        let path = self.below_base(file);
        // cp first queries the path, and creates missing files with O_EXCL.
        let disposition = match self.client.ask(&Call::QueryPath { path: &path }).await? {
            Reply::NotThere => Disposition::Create,
            _ => Disposition::Overwrite,
        };
        let handle = self.client.open(&path, Access::ReadWrite, disposition).await?;
        let mut buffer = vec![0; self.copy_bytes() as usize];
        let mut offset = 0;
        loop {
            let bytes = from.read(&mut buffer).map_err(|error| local_failure(&error))?;
            if bytes == 0 {
                break;
            }
            self.client.write(handle, offset, &buffer[..bytes]).await?;
            offset += bytes as u64;
        }
        self.entries += 1;
        self.client.close(handle).await
    }

    async fn copy_from(&mut self, file: &str, local: &Path) -> Result<(), Failure> {
        let path = self.below_base(file);
        let expected = self.client.query(&path).await?.bytes;
        let handle = self.client.open(&path, Access::Read, Disposition::Open).await?;
        let mut to = File::create(local).map_err(|error| local_failure(&error))?;
        let mut buffer = vec![0; self.copy_bytes() as usize];
        let mut offset = 0;
        loop {
            let bytes = self.client.read_into(handle, offset, &mut buffer).await?;
            if bytes == 0 {
                break;
            }
            to.write_all(&buffer[..bytes])
                .map_err(|error| local_failure(&error))?;
            offset += bytes as u64;
        }
        self.entries += 1;
        self.client.close(handle).await?;
        same_length(expected, offset)
    }
}

/// Accepts a missing file if `lenient`.
fn absent_or(lenient: bool, removed: Result<(), Failure>) -> Result<(), Failure> {
    match removed {
        Err(failure) if lenient && failure.fault == Fault::NotFound => Ok(()),
        removed => removed,
    }
}

fn is_same(one: &Path, other: &Path) -> std::io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut ours, mut theirs) = (vec![0; COPY_BYTES as usize], vec![0; COPY_BYTES as usize]);
    loop {
        let bytes = one.read(&mut ours)?;
        if bytes == 0 {
            return Ok(true);
        }
        other.read_exact(&mut theirs[..bytes])?;
        if ours[..bytes] != theirs[..bytes] {
            return Ok(false);
        }
    }
}

/// Converts a local file error to a failure on the generator's side.
fn local_failure(error: &std::io::Error) -> Failure {
    Failure {
        fault: Fault::OtherIo,
        detail: error.raw_os_error().map_or(Detail::None, Detail::Errno),
    }
}
