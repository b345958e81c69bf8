//! One step of a scenario over any file protocol: what a user's command asks of files, call by call, through the cache
//! that a client of the protocol has.
//!
//! Names are known beforehand: all were made by the scenario. So what is listed is held against them, and no time goes by
//! for making them up. A program's own work (sorting, formatting, printing) is not done. Not for: tables and rows (the
//! control plane).

mod metadata;
mod streams;

use super::alone::{alone, apart};
use super::cache::FilesOptions;
use super::client::CachedClient;
use super::measured::Measured;
use super::sessions::Sessions;
use crate::job::JobEnd;
use crate::scenario::{StepAction, StepPass, StepSpec, TreeSpec};
use dyno_files::{
    matches_pattern, Access, Ask, Call, Disposition, Files, Handle, Info, Open, Reply, Stability,
};
use dyno_measure::{Detail, Failure, Fault};
use dyno_workload::{content_of, Writing};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

/// What cp and cat move at once at least (coreutils, `ioblksize.h`).
const COPY_BYTES: u32 = 128 << 10;
/// How the names of objects end.
const OBJECT: &str = ".o";
/// Of a file's contents: the file itself, the object that a build made of it.
const SOURCE_GENERATION: u32 = 0;
const OBJECT_GENERATION: u32 = 1;

/// Carries a step out in a session of its own.
pub(crate) fn carry_out<S: Sessions>(
    sessions: &S,
    options: FilesOptions,
    identity: u64,
    spec: &StepSpec,
    end: &Arc<JobEnd>,
) -> Result<Vec<StepPass>, Failure> {
    match &spec.action {
        StepAction::Metadata(shape) => metadata::carry_out(sessions, options, identity, spec, shape, end),
        StepAction::Streams(shape) => streams::carry_out(sessions, identity, spec, shape, end),
        _ => apart(|| {
            alone(sessions, identity, 0, spec.most_ns, end, |session| {
                Step::<S>::new(options.client(session), spec.clone(), end.clone()).all_passes()
            })
        }),
    }
}

/// A pass, as it is told.
fn told(measured: Measured, phase: Option<&'static str>, entries: u64) -> StepPass {
    let is_timed = measured.times.count() > 0;
    let us = |quantile| is_timed.then(|| measured.times.value_at(quantile) as f64 / 1e3);
    StepPass {
        phase,
        elapsed_s: measured.elapsed_s(),
        user_s: measured.user_s(),
        system_s: measured.system_s(),
        entries,
        bytes: measured.bytes,
        p50_us: us(0.5),
        p99_us: us(0.99),
        requests: measured.requests,
    }
}

/// The names of a tree, made before any clock runs.
#[derive(Debug, Default)]
struct Names {
    directories: Vec<String>,
    /// Of all directories, in their order, with sizes.
    files: Vec<(String, u64)>,
    /// Of one directory.
    files_in_each: usize,
    /// What a listing of the topmost directory finds.
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

    /// The files of the directory of that number.
    fn files_of(&self, directory: usize) -> &[(String, u64)] {
        let from = directory * self.files_in_each;
        &self.files[from..from + self.files_in_each]
    }

    /// What the directory of that number has.
    fn entries_of(&self, directory: usize, tree: &TreeSpec) -> u64 {
        // The directories of the lowest level are the last ones.
        let inner = self.directories.len() - tree.lowest();
        let below = if directory < inner { tree.below_top() } else { 0 };
        let files = self.files_in_each * if tree.built { 2 } else { 1 };
        u64::from(below) + files as u64
    }
}

/// A step under way.
struct Step<S: Sessions> {
    client: CachedClient<S::Client>,
    spec: StepSpec,
    end: Arc<JobEnd>,
    entries: u64,
    bytes: u64,
}

impl<S: Sessions> Step<S> {
    fn new(client: CachedClient<S::Client>, spec: StepSpec, end: Arc<JobEnd>) -> Self {
        Self {
            client,
            spec,
            end,
            entries: 0,
            bytes: 0,
        }
    }

    async fn all_passes(mut self) -> Result<Vec<StepPass>, Failure> {
        let names = Names::of(&self.spec);
        let action = self.spec.action.clone();
        self.client.connect().await?;
        let mut passes = Vec::new();
        let mut found = Ok(());
        for _ in 0..self.spec.passes {
            found = self.one_pass(&action, &names, &mut passes).await;
            if found.is_err() {
                break;
            }
        }
        let finished = self.client.finish().await;
        found.and(finished).map(|()| passes)
    }

    async fn one_pass(
        &mut self,
        action: &StepAction,
        names: &Names,
        passes: &mut Vec<StepPass>,
    ) -> Result<(), Failure> {
        (self.entries, self.bytes) = (0, 0);
        let measured = Measured::begin(self.client.requests());
        self.act(action, names).await?;
        let mut measured = measured.end(self.client.requests());
        measured.bytes = self.bytes;
        let entries = self.entries;
        self.check(action, names).await?;
        passes.push(told(measured, None, entries));
        Ok(())
    }

    async fn act(&mut self, action: &StepAction, names: &Names) -> Result<(), Failure> {
        match action {
            StepAction::MakeBase => {
                let path = &self.spec.base.clone();
                self.call(&Call::MakeDirectory { path }).await.map(|_| ())
            }
            StepAction::RemoveBase => {
                let path = &self.spec.base.clone();
                absent_or(true, self.call(&Call::RemoveDirectory { path }).await)
            }
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
            StepAction::CopyFrom { file, local } => self.copy_from(file, local).await,
            StepAction::Metadata(_) | StepAction::Streams(_) => Err(Fault::OtherIo.into()), // of several clients
            StepAction::RemoveFile { file, lenient } => {
                self.entries += 1;
                let path = &self.below_base(file);
                absent_or(*lenient, self.call(&Call::Delete { path }).await)
            }
        }
    }

    /// Whether the server has what a step should have left; not in its time.
    async fn check(&mut self, action: &StepAction, names: &Names) -> Result<(), Failure> {
        match action {
            StepAction::MakeTree { tree, .. } => {
                for (number, directory) in names.directories.iter().enumerate() {
                    self.expect_entries(directory, "*", names.entries_of(number, tree))
                        .await?;
                }
                Ok(())
            }
            StepAction::RemoveTree { .. } => self.expect(&names.directories[0], None).await,
            StepAction::MakeFile { file, bytes } => {
                let path = self.below_base(file);
                self.expect(&path, Some(*bytes)).await
            }
            StepAction::CopyTo { local, file } => {
                let bytes = local.metadata().map_err(|error| local_failure(&error))?.len();
                let path = self.below_base(file);
                self.expect(&path, Some(bytes)).await
            }
            StepAction::RemoveFile { file, .. } => {
                let path = self.below_base(file);
                self.expect(&path, None).await
            }
            _ => Ok(()),
        }
    }

    fn below_base(&self, name: &str) -> String {
        format!("{}/{name}", self.spec.base)
    }

    /// What programs move at once.
    fn copy_bytes(&self) -> u32 {
        self.spec.block_bytes.max(COPY_BYTES)
    }

    async fn call(&mut self, call: &Call<'_>) -> Result<Reply, Failure> {
        if self.end.is_stopped() {
            return Err(Fault::OtherIo.into());
        }
        self.client.call(call, &mut |_: &[u8]| {}).await
    }

    /// Fails where a path does not have so many bytes, or is there where it should not be.
    async fn expect(&mut self, path: &str, bytes: Option<u64>) -> Result<(), Failure> {
        match (self.call(&Call::QueryPath { path }).await?, bytes) {
            (Reply::NotThere, None) => Ok(()),
            (Reply::Info(info), Some(expected)) => same_length(expected, info.bytes),
            (Reply::Info(_), None) => Err(Fault::AlreadyThere.into()),
            _ => Err(Fault::NotFound.into()),
        }
    }

    async fn expect_entries(&mut self, directory: &str, pattern: &str, expected: u64) -> Result<(), Failure> {
        match self.call(&Call::Find { directory, pattern }).await? {
            Reply::Found { entries } => same_length(expected, entries.into()),
            Reply::NotThere if expected == 0 => Ok(()),
            _ => Err(Fault::NotFound.into()),
        }
    }

    async fn query(&mut self, path: &str) -> Result<Info, Failure> {
        match self.call(&Call::QueryPath { path }).await? {
            Reply::Info(info) => Ok(info),
            _ => Err(Fault::NotFound.into()),
        }
    }

    async fn open(
        &mut self,
        path: &str,
        access: Access,
        disposition: Disposition,
    ) -> Result<Handle, Failure> {
        let open = Open {
            path,
            access,
            disposition,
            directory: false,
            delete_on_close: false,
            ask: Ask::Nothing,
        };
        match self.call(&Call::Open(open)).await? {
            Reply::Opened { handle, .. } => Ok(handle),
            _ => Err(Fault::NotFound.into()),
        }
    }

    async fn close(&mut self, handle: Handle) -> Result<(), Failure> {
        self.call(&Call::Close { handle }).await.map(|_| ())
    }

    async fn write(&mut self, handle: Handle, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let write = Call::Write {
            handle,
            offset,
            data,
            stability: Stability::Unstable,
        };
        match self.call(&write).await? {
            Reply::Written { bytes } if bytes as usize == data.len() => {
                self.bytes += data.len() as u64;
                Ok(())
            }
            _ => Err(Fault::NoSpace.into()),
        }
    }

    /// The requests tell whether a listing brought attributes; a program asks for each where it did not.
    async fn list(&mut self, names: &Names, pattern: &str, long: bool) -> Result<(), Failure> {
        let before = self.client.requests();
        self.expect_entries(&names.directories[0], pattern, names.matching.len() as u64)
            .await?;
        self.entries += names.matching.len() as u64;
        // What a pattern was expanded to is asked for by `ls` in any case.
        if (long || pattern != "*") && !S::brought_attributes(&before, &self.client.requests()) {
            for path in &names.matching {
                self.query(path).await?;
            }
        }
        Ok(())
    }

    async fn find(&mut self, tree: &TreeSpec, names: &Names) -> Result<(), Failure> {
        for (number, directory) in names.directories.iter().enumerate() {
            let entries = names.entries_of(number, tree);
            let before = self.client.requests();
            self.expect_entries(directory, "*", entries).await?;
            self.entries += entries;
            if !S::brought_attributes(&before, &self.client.requests()) {
                for (path, _) in names.files_of(number) {
                    self.query(path).await?;
                }
            }
        }
        Ok(())
    }

    async fn stat(&mut self, names: &Names) -> Result<(), Failure> {
        for (path, bytes) in &names.files {
            let info = self.query(path).await?;
            same_length(*bytes, info.bytes)?;
            self.entries += 1;
        }
        Ok(())
    }

    async fn make_tree(&mut self, names: &Names, times: bool) -> Result<(), Failure> {
        for (number, path) in names.directories.iter().enumerate() {
            self.call(&Call::MakeDirectory { path }).await?;
            self.entries += 1;
            for (place, (path, bytes)) in names.files_of(number).iter().enumerate() {
                let writing = self.writing(number * names.files_in_each + place, SOURCE_GENERATION);
                let handle = self.open(path, Access::ReadWrite, Disposition::Create).await?;
                self.write_whole(handle, writing, *bytes).await?;
                if times {
                    self.call(&Call::SetTimes { handle }).await?;
                }
                self.close(handle).await?;
                self.entries += 1;
            }
        }
        Ok(())
    }

    fn writing(&self, file: usize, generation: u32) -> Writing {
        Writing {
            client: 0,
            mix: self.spec.seed,
            file: u32::try_from(file).unwrap_or(u32::MAX),
            generation,
        }
    }

    async fn write_whole(&mut self, handle: Handle, writing: Writing, bytes: u64) -> Result<(), Failure> {
        let mut offset = 0;
        while offset < bytes {
            let piece = (bytes - offset).min(self.copy_bytes().into()) as usize;
            self.write(handle, offset, content_of(writing, offset, piece))
                .await?;
            offset += piece as u64;
        }
        Ok(())
    }

    async fn read_tree(&mut self, names: &Names) -> Result<(), Failure> {
        for (number, (path, bytes)) in names.files.iter().enumerate() {
            let writing = self.writing(number, SOURCE_GENERATION);
            self.read_whole(path, writing, *bytes).await?;
            self.entries += 1;
        }
        Ok(())
    }

    /// Reads until nothing comes, and compares every byte.
    async fn read_whole(&mut self, path: &str, writing: Writing, bytes: u64) -> Result<(), Failure> {
        let handle = self.open(path, Access::Read, Disposition::Open).await?;
        let mut offset = 0;
        let mut wrong = false;
        loop {
            let read = Call::Read {
                handle,
                offset,
                bytes: self.copy_bytes(),
            };
            let mut came = 0;
            let mut compare = |piece: &[u8]| {
                wrong |= content_of(writing, offset + came, piece.len()) != piece;
                came += piece.len() as u64;
            };
            self.client.call(&read, &mut compare).await?;
            if came == 0 {
                break;
            }
            offset += came;
        }
        self.close(handle).await?;
        self.bytes += offset;
        same_length(bytes, offset)?;
        match wrong {
            true => Err(Fault::WrongContent.into()),
            false => Ok(()),
        }
    }

    async fn build(&mut self, names: &Names, searches: u32, object_bytes: u64) -> Result<(), Failure> {
        for (number, (path, bytes)) in names.files.iter().enumerate() {
            for search in 0..searches {
                let header = format!("{path}.h{search}");
                self.expect(&header, None).await?;
            }
            self.query(path).await?;
            let writing = self.writing(number, SOURCE_GENERATION);
            self.read_whole(path, writing, *bytes).await?;
            let object = format!("{path}{OBJECT}");
            let handle = self
                .open(&object, Access::ReadWrite, Disposition::OverwriteIf)
                .await?;
            let writing = self.writing(number, OBJECT_GENERATION);
            self.write_whole(handle, writing, object_bytes).await?;
            self.close(handle).await?;
            self.entries += 1;
        }
        // As the linker, and make when it is called again.
        for (path, _) in &names.files {
            self.query(path).await?;
            let info = self.query(&format!("{path}{OBJECT}")).await?;
            same_length(object_bytes, info.bytes)?;
        }
        Ok(())
    }

    async fn remove_tree(&mut self, tree: &TreeSpec, names: &Names, lenient: bool) -> Result<(), Failure> {
        for (number, directory) in names.directories.iter().enumerate() {
            if !lenient {
                let entries = names.entries_of(number, tree);
                self.expect_entries(directory, "*", entries).await?;
            }
            for (path, _) in names.files_of(number) {
                absent_or(lenient, self.call(&Call::Delete { path }).await)?;
                if tree.built {
                    let path = &format!("{path}{OBJECT}");
                    absent_or(lenient, self.call(&Call::Delete { path }).await)?;
                }
                self.entries += 1;
            }
        }
        for path in names.directories.iter().rev() {
            absent_or(lenient, self.call(&Call::RemoveDirectory { path }).await)?;
            self.entries += 1;
        }
        Ok(())
    }

    /// mkfile(8) of Solaris: the last byte, a look, then zeros from the beginning on.
    async fn make_file(&mut self, file: &str, bytes: u64) -> Result<(), Failure> {
        let path = self.below_base(file);
        let handle = self
            .open(&path, Access::ReadWrite, Disposition::OverwriteIf)
            .await?;
        if bytes > 0 {
            self.write(handle, bytes - 1, &[0]).await?;
            self.call(&Call::QueryHandle { handle }).await?;
        }
        self.bytes = 0;
        let zeros = vec![0; self.spec.block_bytes as usize];
        let mut offset = 0;
        while offset < bytes {
            let piece = (bytes - offset).min(zeros.len() as u64) as usize;
            self.write(handle, offset, &zeros[..piece]).await?;
            offset += piece as u64;
        }
        self.entries += 1;
        self.close(handle).await
    }

    async fn copy_to(&mut self, local: &Path, file: &str) -> Result<(), Failure> {
        let mut from = File::open(local).map_err(|error| local_failure(&error))?;
        let path = self.below_base(file);
        // cp looks first, and makes what is not there with O_EXCL.
        let disposition = match self.call(&Call::QueryPath { path: &path }).await? {
            Reply::NotThere => Disposition::Create,
            _ => Disposition::Overwrite,
        };
        let handle = self.open(&path, Access::ReadWrite, disposition).await?;
        let mut buffer = vec![0; self.copy_bytes() as usize];
        let mut offset = 0;
        loop {
            let bytes = from.read(&mut buffer).map_err(|error| local_failure(&error))?;
            if bytes == 0 {
                break;
            }
            self.write(handle, offset, &buffer[..bytes]).await?;
            offset += bytes as u64;
        }
        self.entries += 1;
        self.close(handle).await
    }

    async fn copy_from(&mut self, file: &str, local: &Path) -> Result<(), Failure> {
        let path = self.below_base(file);
        let expected = self.query(&path).await?.bytes;
        let handle = self.open(&path, Access::Read, Disposition::Open).await?;
        let mut to = File::create(local).map_err(|error| local_failure(&error))?;
        let mut buffer = vec![0; self.copy_bytes() as usize];
        let mut offset = 0;
        loop {
            if self.end.is_stopped() {
                return Err(Fault::OtherIo.into());
            }
            let bytes = self.client.read_into(handle, offset, &mut buffer).await?;
            if bytes == 0 {
                break;
            }
            to.write_all(&buffer[..bytes])
                .map_err(|error| local_failure(&error))?;
            offset += bytes as u64;
        }
        self.bytes += offset;
        self.entries += 1;
        self.close(handle).await?;
        same_length(expected, offset)
    }
}

/// What is not there may be so.
fn absent_or(lenient: bool, reply: Result<Reply, Failure>) -> Result<(), Failure> {
    match reply {
        Err(failure) if lenient && failure.fault == Fault::NotFound => Ok(()),
        reply => reply.map(|_| ()),
    }
}

fn same_length(expected: u64, got: u64) -> Result<(), Failure> {
    match expected == got {
        true => Ok(()),
        false => Err(Failure {
            fault: Fault::WrongLength,
            detail: Detail::Length { expected, got },
        }),
    }
}

/// A local file is this machine's affair.
fn local_failure(error: &std::io::Error) -> Failure {
    Failure {
        fault: Fault::OtherIo,
        detail: error.raw_os_error().map_or(Detail::None, Detail::Errno),
    }
}
