//! Effects of the NFSv3 procedures on the files of an export, and their results (RFC 1813, 3.3).

use super::fault::Kind;
use super::volume::{
    Caller, Listed, Made, Refused, Volume, MOST_LINKS, MOST_NAME_BYTES, OWN_COOKIE, PARENT_COOKIE,
};
use crate::pages::MAX_FILE_BYTES;
use dyno_files::{Stability, Verifier};
use dyno_nfs::status::Status;
use dyno_nfs::wire::{
    end_entries, write_fs_stat, write_path_conf, write_read, Attributes3, Committed, Created, Entry, Found,
    FsInfo, Payload, Procedure, Request, SetAttributes, Space, Writer, Written, Xdr, DIRECTORY,
};

/// Preferred size of a listing, as in Linux's server.
const LISTING_BYTES: u32 = 65_536;
const MOST_LISTING_BYTES: u32 = 1 << 20;
/// Bytes after the last entry of a listing: the end of the list, and the end-of-directory flag.
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
        let Some(file) = request.file() else {
            return Ok(());
        };
        let writer = &mut Writer(out);
        let slot = self.find(file)?;
        let own = self.attributes(slot);
        match *request {
            Request::GetAttributes { .. } => own.write(writer),
            Request::SetAttributes { set, guard, .. } => {
                if guard.is_some_and(|time| time != own.changed) {
                    return Err(Status::NotSync.into());
                }
                self.files.set(slot, &set)?;
                self.wcc(slot, &own).write(writer);
            }
            Request::Lookup { name, .. } => {
                let found = self.files.look_up(slot, name)?;
                let found = Found {
                    file: self.handle(found)?,
                    attributes: Some(self.attributes(found)),
                };
                found.write(writer);
                Some(own).write(writer);
            }
            Request::Access { rights, .. } => {
                let all = match (own.kind, own.mode & EXECUTABLE) {
                    (DIRECTORY, _) => RIGHTS_OF_DIRECTORY,
                    (_, 0) => RIGHTS_OF_FILE,
                    _ => RIGHTS_OF_FILE | RIGHT_TO_EXECUTE,
                };
                Some(own).write(writer);
                writer.u32(rights & all);
            }
            Request::ReadLink { .. } => {
                let target = self.files.target(slot)?;
                Some(own).write(writer);
                writer.opaque(target);
            }
            Request::FsStat { .. } => {
                let room = self.files.room();
                let space = Space {
                    total_bytes: room.total_bytes,
                    free_bytes: room.free_bytes,
                };
                Some(own).write(writer);
                write_fs_stat(space, room.free_files, writer);
            }
            Request::FsInfo { .. } => {
                Some(own).write(writer);
                info_of(asked.max_transfer_bytes).write(MAX_FILE_BYTES, writer);
            }
            Request::PathConf { .. } => {
                Some(own).write(writer);
                write_path_conf(MOST_LINKS, MOST_NAME_BYTES, writer);
            }
            Request::List {
                cookie, bytes, plus, ..
            } => self.answer_list(slot, cookie, bytes, plus, writer)?,
            _ => self.answer_contents(request, (slot, &own), asked, writer)?,
        }
        Ok(())
    }

    /// Executes a request that reads or writes a file's contents.
    fn answer_contents(
        &mut self,
        request: &Request<'_>,
        (slot, own): (usize, &Attributes3),
        asked: &Asked,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        match *request {
            Request::Read { offset, bytes, .. } => {
                Some(*own).write(writer);
                let mut outcome = Ok(false);
                write_read(writer, |out| {
                    outcome = self.give_data(slot, offset, bytes, asked, out);
                    outcome == Ok(true)
                });
                outcome?;
            }
            // Data parsed from a message is always in one slice.
            Request::Write {
                offset,
                data: Payload::Whole(data),
                stability,
                ..
            } => {
                let bytes = self.take_data(slot, offset, data, stability, asked)?;
                let written = Written {
                    wcc: self.wcc(slot, own),
                    bytes,
                    stability,
                    verifier: asked.verifier(),
                };
                written.write(writer);
            }
            Request::Commit { .. } => {
                self.files.flush(slot)?;
                let committed = Committed {
                    wcc: self.wcc(slot, own),
                    verifier: asked.verifier(),
                };
                committed.write(writer);
            }
            _ => self.answer_names(request, (slot, own), asked.caller, writer)?,
        }
        Ok(())
    }

    /// Executes a request that changes names.
    fn answer_names(
        &mut self,
        request: &Request<'_>,
        (slot, own): (usize, &Attributes3),
        caller: Caller,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let made = match *request {
            Request::Remove { name, .. } | Request::RemoveDirectory { name, .. } => {
                let is_directory = matches!(request, Request::RemoveDirectory { .. });
                self.files.remove(slot, name, is_directory)?;
                self.wcc(slot, own).write(writer);
                return Ok(());
            }
            Request::Rename { from, to_at, to, .. } => {
                let to_at = self.find(&to_at)?;
                let to_before = self.attributes(to_at);
                self.files.rename(slot, from, to_at, to)?;
                self.wcc(slot, own).write(writer);
                self.wcc(to_at, &to_before).write(writer);
                return Ok(());
            }
            Request::Link { at, name, .. } => {
                let at = self.find(&at)?;
                let before = self.attributes(at);
                self.files.link(slot, at, name)?;
                Some(self.attributes(slot)).write(writer);
                self.wcc(at, &before).write(writer);
                return Ok(());
            }
            Request::Create { name, how, .. } => self.files.create(slot, name, &how, caller)?,
            Request::MakeDirectory { name, set, .. } => {
                self.files.make(slot, name, Made::Directory, &set, caller)?
            }
            Request::SymbolicLink {
                name, set, target, ..
            } => {
                let made = Made::SymbolicLink(target);
                self.files.make(slot, name, made, &set, caller)?
            }
            Request::MakeNode { name, node, .. } => {
                if !node.can_be_made() {
                    return Err(Status::BadType.into());
                }
                let made = Made::Special(node.kind, node.device);
                self.files.make(slot, name, made, &node.set, caller)?
            }
            _ => return Ok(()),
        };
        let created = Created {
            file: Some(self.handle(made)?),
            attributes: Some(self.attributes(made)),
        };
        created.write(writer);
        self.wcc(slot, own).write(writer);
        Ok(())
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
        // Does not truncate: a record is shorter than 4 GiB.
        Ok(u32::try_from(data.len()).unwrap_or(u32::MAX))
    }

    fn answer_list(
        &mut self,
        at: usize,
        cookie: u64,
        bytes: u32,
        plus: bool,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        let most_bytes = bytes.min(MOST_LISTING_BYTES) as usize;
        let start = writer.0.len();
        Some(self.attributes(at)).write(writer);
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
}

/// Returns the results of FSINFO for a server that transfers at most `transfer_bytes` at a time.
fn info_of(transfer_bytes: u32) -> FsInfo {
    FsInfo {
        max_read_bytes: transfer_bytes,
        preferred_read_bytes: transfer_bytes,
        max_write_bytes: transfer_bytes,
        preferred_write_bytes: transfer_bytes,
        preferred_listing_bytes: LISTING_BYTES,
    }
}
