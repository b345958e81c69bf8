//! Effects of the NFSv3 procedures on the files of an export, and their results (RFC 1813, 3.3).

use super::fault::Kind;
use super::volume::{
    Caller, Listed, Made, Refused, Volume, MOST_LINKS, MOST_NAME_BYTES, OWN_COOKIE, PARENT_COOKIE,
};
use crate::pages::MAX_FILE_BYTES;
use dyno_files::{Stability, Verifier};
use dyno_nfs::status::Status;
use dyno_nfs::wire::{
    end_entries, write_fs_stat, write_path_conf, write_read, Attributes3, Committed, Created, Entry,
    FileHandle, Found, FsInfo, How, Node, Payload, Procedure, Request, SetAttributes, Space, Time, Writer,
    Written, DIRECTORY,
};

/// Preferred size of a listing, as in Linux's server.
const LISTING_BYTES: u32 = 65_536;
const MOST_LISTING_BYTES: u32 = 1 << 20;
/// Size of the end of a part of a listing.
const END_BYTES: usize = 8;

// Rights of ACCESS.
const RIGHTS_OF_DIRECTORY: u32 = 0x01 | 0x02 | 0x04 | 0x08 | 0x10;
const RIGHTS_OF_FILE: u32 = 0x01 | 0x04 | 0x08;
const RIGHT_TO_EXECUTE: u32 = 0x20;
const EXECUTABLE: u32 = 0o111;

/// Context of a request: everything except its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) caller: Caller,
    pub(super) verifier: u64,
    pub(super) max_transfer_bytes: u32,
    /// Whether a call that conflicts with a delegation may still wait before the client is told to retry.
    pub(super) is_patient: bool,
    /// Fault to inject.
    pub(super) struck: Option<Kind>,
}

impl Asked {
    /// Returns the verifier to report.
    pub(super) fn verifier(&self) -> Verifier {
        match self.struck {
            Some(Kind::OtherVerifier) => Verifier(!self.verifier),
            _ => Verifier(self.verifier),
        }
    }
}

/// Returns whether repeating a procedure has the same result.
pub(super) fn is_repeatable(procedure: Procedure) -> bool {
    use Procedure as P;
    !matches!(
        procedure,
        P::SetAttributes
            | P::Create
            | P::MakeDirectory
            | P::SymbolicLink
            | P::MakeNode
            | P::Remove
            | P::RemoveDirectory
            | P::Rename
            | P::Link
    )
}

/// Returns the number of zero words (absent attributes) that follow an error status.
pub(super) fn words_of_refusal(procedure: Procedure) -> usize {
    use Procedure as P;
    match procedure {
        P::Null | P::GetAttributes => 0,
        P::Rename => 4,
        P::Link => 3,
        P::SetAttributes
        | P::Write
        | P::Create
        | P::MakeDirectory
        | P::SymbolicLink
        | P::MakeNode
        | P::Remove
        | P::RemoveDirectory
        | P::Commit => 2,
        P::Lookup
        | P::Access
        | P::ReadLink
        | P::Read
        | P::ReadDirectory
        | P::ReadDirectoryPlus
        | P::FsStat
        | P::FsInfo
        | P::PathConf => 1,
    }
}

impl Volume {
    /// Executes a request and appends its results. On refusal, the caller must remove the appended bytes.
    pub(super) fn answer(
        &mut self,
        request: &Request<'_>,
        asked: &Asked,
        out: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        let writer = &mut Writer(out);
        match *request {
            // Data parsed from a message is always in one slice.
            Request::Null
            | Request::Write {
                data: Payload::Pages(_),
                ..
            } => Ok(()),
            Request::Write {
                file,
                offset,
                data: Payload::Whole(data),
                stability,
            } => self.answer_write(&file, offset, data, stability, asked, writer),
            Request::Commit { file, .. } => self.answer_commit(&file, asked, writer),
            Request::GetAttributes { file } => {
                let slot = self.find(&file)?;
                self.attributes(slot).write(writer);
                Ok(())
            }
            Request::SetAttributes { file, set, guard } => self.answer_set(&file, &set, guard, writer),
            Request::Lookup { at, name } => self.answer_lookup(&at, name, writer),
            Request::Access { file, rights } => self.answer_access(&file, rights, writer),
            Request::ReadLink { link } => self.answer_read_link(&link, writer),
            Request::Read { file, offset, bytes } => self.answer_read(&file, offset, bytes, asked, writer),
            Request::Rename {
                from_at,
                from,
                to_at,
                to,
            } => self.answer_rename((&from_at, from), (&to_at, to), writer),
            Request::Link { file, at, name } => self.answer_link(&file, &at, name, writer),
            Request::List {
                directory,
                cookie,
                bytes,
                plus,
                ..
            } => self.answer_list(&directory, cookie, bytes, plus, writer),
            Request::FsStat { root } => self.answer_fs_stat(&root, writer),
            Request::FsInfo { root } => self.answer_fs_info(&root, asked.max_transfer_bytes, writer),
            Request::PathConf { file } => self.answer_path_conf(&file, writer),
            Request::Remove { at, name } => self.answer_remove(&at, name, false, writer),
            Request::RemoveDirectory { at, name } => self.answer_remove(&at, name, true, writer),
            Request::Create { at, name, how } => self.answer_create(&at, name, &how, asked, writer),
            Request::MakeDirectory { at, name, set } => {
                self.answer_make(&at, name, Made::Directory, &set, asked, writer)
            }
            Request::SymbolicLink {
                at,
                name,
                set,
                target,
            } => self.answer_make(&at, name, Made::SymbolicLink(target), &set, asked, writer),
            Request::MakeNode { at, name, node } => self.answer_make_node(&at, name, &node, asked, writer),
        }
    }

    fn answer_set(
        &mut self,
        file: &FileHandle,
        set: &SetAttributes,
        guard: Option<Time>,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let slot = self.find(file)?;
        let before = self.attributes(slot);
        if guard.is_some_and(|time| time != before.changed) {
            return Err(Status::NotSync.into());
        }
        self.files.set(slot, set)?;
        self.wcc(slot, &before).write(writer);
        Ok(())
    }

    fn answer_lookup(
        &mut self,
        at: &FileHandle,
        name: &[u8],
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let at = self.find(at)?;
        let slot = self.files.look_up(at, name)?;
        let found = Found {
            file: self.handle(slot)?,
            attributes: Some(self.attributes(slot)),
        };
        found.write(Some(&self.attributes(at)), writer);
        Ok(())
    }

    fn answer_access(
        &mut self,
        file: &FileHandle,
        rights: u32,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let slot = self.find(file)?;
        let attributes = self.attributes(slot);
        let all = match (attributes.kind, attributes.mode & EXECUTABLE) {
            (DIRECTORY, _) => RIGHTS_OF_DIRECTORY,
            (_, 0) => RIGHTS_OF_FILE,
            _ => RIGHTS_OF_FILE | RIGHT_TO_EXECUTE,
        };
        Attributes3::write_optional(Some(&attributes), writer);
        writer.u32(rights & all);
        Ok(())
    }

    fn answer_read_link(&mut self, link: &FileHandle, writer: &mut Writer<'_>) -> Result<(), Refused> {
        let slot = self.find(link)?;
        let target = self.files.target(slot)?;
        Attributes3::write_optional(Some(&self.attributes(slot)), writer);
        writer.opaque(target);
        Ok(())
    }

    fn answer_read(
        &mut self,
        file: &FileHandle,
        offset: u64,
        bytes: u32,
        asked: &Asked,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let slot = self.find(file)?;
        let attributes = self.attributes(slot);
        let mut outcome = Ok(false);
        write_read(Some(&attributes), writer, |out| {
            outcome = self.give_data(slot, offset, bytes, asked, out);
            outcome == Ok(true)
        });
        outcome.map(|_| ())
    }

    /// Appends the data of a READ. Returns whether the data reaches the end of the file.
    pub(super) fn give_data(
        &mut self,
        slot: usize,
        offset: u64,
        bytes: u32,
        asked: &Asked,
        out: &mut Vec<u8>,
    ) -> Result<bool, Refused> {
        let most = match asked.struck {
            Some(Kind::ShortRead) => bytes.div_ceil(2),
            _ => bytes,
        };
        let begin = out.len();
        let is_end = self
            .files
            .read(slot, offset, most.min(asked.max_transfer_bytes) as usize, out)?;
        if asked.struck == Some(Kind::WrongContent) && out.len() > begin {
            out[begin] ^= 1;
        }
        Ok(is_end)
    }

    fn answer_write(
        &mut self,
        file: &FileHandle,
        offset: u64,
        data: &[u8],
        stability: Stability,
        asked: &Asked,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let slot = self.find(file)?;
        let before = self.attributes(slot);
        let taken = self.take_data(slot, offset, data, stability, asked)?;
        let written = Written {
            wcc: self.wcc(slot, &before),
            bytes: taken,
            stability,
            verifier: asked.verifier(),
        };
        written.write(writer);
        Ok(())
    }

    /// Stores the data of a WRITE. Returns the number of bytes stored.
    pub(super) fn take_data(
        &mut self,
        slot: usize,
        offset: u64,
        data: &[u8],
        stability: Stability,
        asked: &Asked,
    ) -> Result<u32, Refused> {
        let taken = match asked.struck {
            Some(Kind::ShortWrite) => data.len().div_ceil(2),
            _ => data.len(),
        };
        let data = &data[..taken.min(asked.max_transfer_bytes as usize)];
        match asked.struck {
            Some(Kind::DiskFull) => return Err(Status::NoSpc.into()),
            Some(Kind::LostWrites) => {
                let end = offset
                    .saturating_add(data.len() as u64)
                    .max(self.attributes(slot).bytes);
                let bytes = Some(end);
                self.files.set(
                    slot,
                    &SetAttributes {
                        bytes,
                        ..SetAttributes::default()
                    },
                )?;
            }
            _ => self.files.write(slot, offset, data)?,
        }
        if stability != Stability::Unstable {
            self.files.flush(slot)?;
        }
        // Always fits: a record is shorter than 4 GiB.
        Ok(u32::try_from(data.len()).unwrap_or(u32::MAX))
    }

    fn answer_commit(
        &mut self,
        file: &FileHandle,
        asked: &Asked,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let slot = self.find(file)?;
        let before = self.attributes(slot);
        self.files.flush(slot)?;
        let committed = Committed {
            wcc: self.wcc(slot, &before),
            verifier: asked.verifier(),
        };
        committed.write(writer);
        Ok(())
    }

    fn answer_remove(
        &mut self,
        at: &FileHandle,
        name: &[u8],
        directory: bool,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let at = self.find(at)?;
        let before = self.attributes(at);
        self.files.remove(at, name, directory)?;
        self.wcc(at, &before).write(writer);
        Ok(())
    }

    fn answer_rename(
        &mut self,
        (from_at, from): (&FileHandle, &[u8]),
        (to_at, to): (&FileHandle, &[u8]),
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let (from_at, to_at) = (self.find(from_at)?, self.find(to_at)?);
        let (from_before, to_before) = (self.attributes(from_at), self.attributes(to_at));
        self.files.rename(from_at, from, to_at, to)?;
        self.wcc(from_at, &from_before).write(writer);
        self.wcc(to_at, &to_before).write(writer);
        Ok(())
    }

    fn answer_link(
        &mut self,
        file: &FileHandle,
        at: &FileHandle,
        name: &[u8],
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let (slot, at) = (self.find(file)?, self.find(at)?);
        let before = self.attributes(at);
        self.files.link(slot, at, name)?;
        Attributes3::write_optional(Some(&self.attributes(slot)), writer);
        self.wcc(at, &before).write(writer);
        Ok(())
    }

    fn answer_create(
        &mut self,
        at: &FileHandle,
        name: &[u8],
        how: &How,
        asked: &Asked,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let at = self.find(at)?;
        let before = self.attributes(at);
        let slot = self.files.create(at, name, how, asked.caller)?;
        self.write_created(slot, &before, at, writer)
    }

    fn answer_make_node(
        &mut self,
        at: &FileHandle,
        name: &[u8],
        node: &Node,
        asked: &Asked,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        if !node.can_be_made() {
            return Err(Status::BadType.into());
        }
        let made = Made::Special(node.kind, node.device);
        self.answer_make(at, name, made, &node.set, asked, writer)
    }

    fn answer_make(
        &mut self,
        at: &FileHandle,
        name: &[u8],
        made: Made<'_>,
        set: &SetAttributes,
        asked: &Asked,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let at = self.find(at)?;
        let before = self.attributes(at);
        let slot = self.files.make(at, name, made, set, asked.caller)?;
        self.write_created(slot, &before, at, writer)
    }

    fn write_created(
        &mut self,
        slot: usize,
        before: &Attributes3,
        at: usize,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let created = Created {
            file: Some(self.handle(slot)?),
            attributes: Some(self.attributes(slot)),
        };
        created.write(&self.wcc(at, before), writer);
        Ok(())
    }

    fn answer_list(
        &mut self,
        directory: &FileHandle,
        cookie: u64,
        bytes: u32,
        plus: bool,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let at = self.find(directory)?;
        let own = self.attributes(at);
        let most_bytes = bytes.min(MOST_LISTING_BYTES) as usize;
        let start = writer.0.len();
        Attributes3::write_optional(Some(&own), writer);
        writer.u64(0); // cookies never expire
        let parent = self.files.look_up(at, b"..")?;
        let export = self.export;
        let mut any = false;
        let mut take = |listed: &Listed<'_>| {
            let begin = writer.0.len();
            let entry = Entry {
                file_id: listed.attributes.file_id,
                name: listed.name,
                cookie: listed.cookie,
                attributes: plus.then(|| export.told(listed.attributes)),
                file: plus
                    .then(|| export.handle(listed.slot, listed.serial).ok())
                    .flatten(),
            };
            entry.write(plus, writer);
            let fits = writer.0.len() + END_BYTES <= start + most_bytes;
            if !fits {
                writer.0.truncate(begin);
            }
            any |= fits;
            fits
        };
        let mut all = true;
        for (own_cookie, name, slot) in [(OWN_COOKIE, &b"."[..], at), (PARENT_COOKIE, b"..", parent)] {
            if all && cookie < own_cookie {
                all = take(&self.files.listed(own_cookie, name, slot));
            }
        }
        all = all && self.files.list(at, cookie, take)?;
        if !any && !all {
            return Err(Status::TooSmall.into());
        }
        end_entries(all, writer);
        Ok(())
    }

    fn answer_fs_stat(&mut self, root: &FileHandle, writer: &mut Writer<'_>) -> Result<(), Refused> {
        let slot = self.find(root)?;
        let attributes = self.attributes(slot);
        let room = self.files.room();
        let space = Space {
            total_bytes: room.total_bytes,
            free_bytes: room.free_bytes,
        };
        write_fs_stat(Some(&attributes), space, room.free_files, writer);
        Ok(())
    }

    fn answer_path_conf(&mut self, file: &FileHandle, writer: &mut Writer<'_>) -> Result<(), Refused> {
        let slot = self.find(file)?;
        let attributes = self.attributes(slot);
        write_path_conf(Some(&attributes), MOST_LINKS, MOST_NAME_BYTES, writer);
        Ok(())
    }

    fn answer_fs_info(
        &mut self,
        root: &FileHandle,
        transfer_bytes: u32,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let slot = self.find(root)?;
        let attributes = self.attributes(slot);
        let info = FsInfo {
            max_read_bytes: transfer_bytes,
            preferred_read_bytes: transfer_bytes,
            max_write_bytes: transfer_bytes,
            preferred_write_bytes: transfer_bytes,
            preferred_listing_bytes: LISTING_BYTES,
        };
        info.write(Some(&attributes), MAX_FILE_BYTES, writer);
        Ok(())
    }
}
