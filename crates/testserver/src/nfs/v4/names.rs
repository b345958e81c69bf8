//! Operations on names and attributes (RFC 8881, 18.1, 18.4, 18.7, 18.9, 18.13, 18.14, 18.23 to 18.26,
//! 18.29 to 18.31, 18.45).

use super::attributes::{asks_for_room, change, parse_set, Told};
use super::compound::Compound;
use super::wire::{parse_name, write_change};
use crate::nfs::state4::pseudo::Step;
use crate::nfs::state4::status::{Outcome, NOT_SAME, SAME};
use crate::nfs::volume::{Made, Refused, Volume, PARENT_COOKIE};
use crate::pages::MAX_FILE_BYTES;
use dyno_nfs::status::{Status, Status4};
use dyno_nfs::wire::{
    Attributes3, Bitmap, FileHandle, Malformed, Reader, Stateid, Writer, AUTH_SYS, DIRECTORY, SYMBOLIC_LINK,
};
use std::sync::MutexGuard;

const MOST_PATH_BYTES: usize = 4096;
const MOST_LISTING_BYTES: usize = 1 << 20;
/// Size of a listing without its entries and its status: the verifier (8 bytes), the end of the list, and the
/// end-of-file flag (4 each).
const AROUND_LISTING_BYTES: usize = 16;
/// First file ID of exports in their parent directories, far above the IDs of files.
const EXPORT_IDS: u64 = 1 << 62;
const EXECUTABLE: u32 = 0o111;
const RIGHTS_OF_DIRECTORY: u32 = 0x1f;
const RIGHTS_OF_FILE: u32 = 0x0d;
const RIGHT_TO_EXECUTE: u32 = 0x20;
const RIGHTS_TO_READ: u32 = 0x03;

impl Compound<'_> {
    /// Locks the export of a file. Returns it and the file's slot.
    pub(super) fn volume(&self, file: &FileHandle) -> Outcome<(MutexGuard<'_, Volume>, usize)> {
        let Some(export) = self.host.export_of(file) else {
            return Err(match self.host.pseudo.find(file) {
                Some(_) => Status::RoFs.into(),
                None => Status::Stale.into(),
            });
        };
        let volume = export.lock();
        let slot = volume.find(file)?;
        Ok((volume, slot))
    }

    fn handle_of(&self, step: Step) -> Outcome<FileHandle> {
        match step {
            Step::Directory(at) => self.host.pseudo.handle(at),
            Step::Export(number) => {
                let volume = self.host.exports[number].lock();
                Ok(volume.handle(volume.files.root())?)
            }
        }
    }

    fn moved_to(&mut self, file: FileHandle) {
        (self.current, self.stateid) = (Some(file), None);
    }

    pub(super) fn look_up(&mut self, reader: &mut Reader<'_>) -> Outcome {
        let name = parse_name(reader)?;
        let at = self.file()?;
        let found = self.found(&at, name)?;
        self.moved_to(found);
        Ok(())
    }

    fn found(&self, at: &FileHandle, name: &[u8]) -> Outcome<FileHandle> {
        if let Some(directory) = self.host.pseudo.find(at) {
            let step = self.host.pseudo.step(directory, name).ok_or(Status::NoEnt)?;
            return self.handle_of(step);
        }
        let (volume, slot) = self.volume(at)?;
        let found = volume.files.look_up(slot, name)?;
        Ok(volume.handle(found)?)
    }

    pub(super) fn look_up_parent(&mut self) -> Outcome {
        let at = self.file()?;
        let pseudo = &self.host.pseudo;
        let above = match (pseudo.find(&at), Volume::number_in(&at, self.host.server)) {
            (Some(directory), _) => pseudo.handle(pseudo.parent(directory).ok_or(Status::NoEnt)?)?,
            (None, number) => {
                let (volume, slot) = self.volume(&at)?;
                if slot == volume.files.root() {
                    pseudo.handle(pseudo.above_export(number.unwrap_or(0)))?
                } else {
                    let above = volume.files.look_up(slot, b"..")?;
                    volume.handle(above)?
                }
            }
        };
        self.moved_to(above);
        Ok(())
    }

    /// Handles SECINFO: only AUTH_SYS is available. SECINFO consumes the current file (RFC 8881,
    /// 2.6.3.1.1.8).
    pub(super) fn security_of_name(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let name = parse_name(reader)?;
        let at = self.file()?;
        self.found(&at, name)?;
        self.current = None;
        writer.u32(1).u32(AUTH_SYS);
        Ok(())
    }

    pub(super) fn security(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        match reader.u32()? {
            0 => {
                self.file()?;
            }
            1 => self.look_up_parent()?,
            _ => return Err(Malformed.into()),
        }
        self.current = None;
        writer.u32(1).u32(AUTH_SYS);
        Ok(())
    }

    pub(super) fn access(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let asked = reader.u32()?;
        let file = self.file()?;
        let rights = if self.host.pseudo.find(&file).is_some() {
            RIGHTS_TO_READ
        } else {
            let (volume, slot) = self.volume(&file)?;
            let attributes = volume.attributes(slot);
            match (attributes.kind, attributes.mode & EXECUTABLE) {
                (DIRECTORY, _) => RIGHTS_OF_DIRECTORY,
                (_, 0) => RIGHTS_OF_FILE,
                _ => RIGHTS_OF_FILE | RIGHT_TO_EXECUTE,
            }
        };
        writer.u32(asked & (RIGHTS_OF_DIRECTORY | RIGHTS_OF_FILE | RIGHT_TO_EXECUTE));
        writer.u32(asked & rights);
        Ok(())
    }

    fn told(&self, file: FileHandle, asked: Bitmap) -> Outcome<Told> {
        let pseudo = &self.host.pseudo;
        let max_transfer_bytes = self.asked.max_transfer_bytes;
        if let Some(directory) = pseudo.find(&file) {
            let attributes = pseudo.attributes(directory);
            return Ok(Told {
                file,
                attributes,
                mounted_on: attributes.file_id,
                room: None,
                most_file_bytes: 0,
                max_transfer_bytes,
            });
        }
        let (volume, slot) = self.volume(&file)?;
        let attributes = volume.attributes(slot);
        let room = asks_for_room(asked).then(|| volume.files.room());
        let number = Volume::number_in(&file, self.host.server);
        let mounted_on = match slot == volume.files.root() {
            true => EXPORT_IDS + number.unwrap_or(0) as u64,
            false => attributes.file_id,
        };
        Ok(Told {
            file,
            attributes,
            mounted_on,
            room,
            most_file_bytes: MAX_FILE_BYTES,
            max_transfer_bytes,
        })
    }

    pub(super) fn get_attributes(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let (asked, _) = Bitmap::parse_known(reader)?;
        self.told(self.file()?, asked)?.write(asked, writer);
        Ok(())
    }

    /// Handles VERIFY and NVERIFY: checks whether attributes have the values that the client sent.
    pub(super) fn verify(&mut self, reader: &mut Reader<'_>, same: bool) -> Outcome {
        let (asked, _) = Bitmap::parse_known(reader)?;
        let theirs = reader.opaque(MOST_PATH_BYTES)?;
        let (mut with_theirs, mut ours) = (Vec::new(), Vec::new());
        asked.write(&mut Writer(&mut with_theirs));
        Writer(&mut with_theirs).opaque(theirs);
        self.told(self.file()?, asked)?
            .write(asked, &mut Writer(&mut ours));
        match (with_theirs == ours, same) {
            (true, true) | (false, false) => Ok(()),
            (true, false) => Err(SAME),
            (false, true) => Err(NOT_SAME),
        }
    }

    pub(super) fn set_attributes(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        // A refusal also reports that nothing was set.
        self.behind_refusal = vec![0; 4];
        let stateid = self.resolved(Stateid::parse(reader)?)?;
        let (set, which) = parse_set(reader)?;
        let (client, file) = (self.client()?, self.file()?);
        if set.bytes.is_some() {
            self.host.clients().opens.may_use(client, stateid, &file, true)?;
        }
        let _way = self.make_way(file)?;
        let (mut volume, slot) = self.volume(&file)?;
        volume.files.set(slot, &set)?;
        which.write(writer);
        Ok(())
    }

    pub(super) fn create(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let kind = reader.u32()?;
        let made = match kind {
            DIRECTORY => Made::Directory,
            SYMBOLIC_LINK => Made::SymbolicLink(reader.opaque(MOST_PATH_BYTES)?),
            3 | 4 => Made::Special(kind, (reader.u32()?, reader.u32()?)),
            6 | 7 => Made::Special(kind, (0, 0)),
            _ => return Err(Status::BadType.into()),
        };
        let name = parse_name(reader)?;
        let (set, which) = parse_set(reader)?;
        let at = self.file()?;
        let (mut volume, directory) = self.volume(&at)?;
        let before = in_directory(&volume, directory)?;
        let caller = self.asked.caller;
        let slot = volume.files.make(directory, name, made, &set, caller)?;
        let after = volume.attributes(directory);
        let made = volume.handle(slot)?;
        drop(volume);
        write_change((change(&before), change(&after)), writer);
        which.write(writer);
        self.moved_to(made);
        Ok(())
    }

    pub(super) fn remove(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let name = parse_name(reader)?;
        let at = self.file()?;
        let _way = self.make_way_of(|host| [host.named(&at, name), None])?;
        let (mut volume, directory) = self.volume(&at)?;
        let before = in_directory(&volume, directory)?;
        let slot = volume.files.look_up(directory, name)?;
        let is_directory = volume.attributes(slot).kind == DIRECTORY;
        volume.files.remove(directory, name, is_directory)?;
        let after = volume.attributes(directory);
        write_change((change(&before), change(&after)), writer);
        Ok(())
    }

    /// Returns the slot of the saved file, which must be in the same export as the current one.
    fn saved_in(&self, volume: &Volume) -> Outcome<usize> {
        let saved = self.saved.ok_or(Status4::NoFileHandle)?;
        if self.host.pseudo.find(&saved).is_some() {
            return Err(Status::XDev.into());
        }
        Ok(volume.find(&saved)?)
    }

    pub(super) fn rename(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let (from, to) = (parse_name(reader)?, parse_name(reader)?);
        let (saved, at) = (self.saved.ok_or(Status4::NoFileHandle)?, self.file()?);
        let _way = self.make_way_of(|host| [host.named(&saved, from), host.named(&at, to)])?;
        let (mut volume, to_at) = self.volume(&at)?;
        let from_at = self.saved_in(&volume)?;
        let from_before = in_directory(&volume, from_at)?;
        let to_before = in_directory(&volume, to_at)?;
        volume
            .files
            .rename(from_at, from, to_at, to)
            .map_err(|refused| match refused {
                // NFSv4 uses one status for an existing name and for a directory that is not empty.
                Refused(Status::NotEmpty) => Refused(Status::Exist),
                other => other,
            })?;
        let (from_after, to_after) = (volume.attributes(from_at), volume.attributes(to_at));
        write_change((change(&from_before), change(&from_after)), writer);
        write_change((change(&to_before), change(&to_after)), writer);
        Ok(())
    }

    pub(super) fn link(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let name = parse_name(reader)?;
        let _way = self.make_way(self.saved.ok_or(Status4::NoFileHandle)?)?;
        let (mut volume, at) = self.volume(&self.file()?)?;
        let slot = self.saved_in(&volume)?;
        let before = in_directory(&volume, at)?;
        volume.files.link(slot, at, name)?;
        let after = volume.attributes(at);
        write_change((change(&before), change(&after)), writer);
        Ok(())
    }

    pub(super) fn read_link(&mut self, writer: &mut Writer<'_>) -> Outcome {
        let (volume, slot) = self.volume(&self.file()?)?;
        let target = volume.files.target(slot)?;
        writer.opaque(target);
        Ok(())
    }

    pub(super) fn list(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let (cookie, _verifier) = (reader.u64()?, reader.u64()?);
        let (_names_bytes, bytes) = (reader.u32()?, reader.u32()?);
        let (asked, _) = Bitmap::parse_known(reader)?;
        if matches!(cookie, 1 | PARENT_COOKIE) {
            return Err(Status::BadCookie.into());
        }
        let most = (bytes as usize)
            .min(MOST_LISTING_BYTES)
            .min(self.room_bytes(writer.0))
            .saturating_sub(AROUND_LISTING_BYTES);
        writer.u64(0); // Cookies never expire.
        let mut listing = Listing {
            asked,
            begin: writer.0.len(),
            most,
            any: false,
        };
        let file = self.file()?;
        let all = match self.host.pseudo.find(&file) {
            Some(directory) => self.list_pseudo(directory, cookie, &mut listing, writer)?,
            None => self.list_export(&file, cookie, &mut listing, writer)?,
        };
        if !listing.any && !all {
            return Err(Status::TooSmall.into());
        }
        writer.u32(0).u32(u32::from(all));
        Ok(())
    }

    fn list_pseudo(
        &self,
        directory: usize,
        cookie: u64,
        listing: &mut Listing,
        writer: &mut Writer<'_>,
    ) -> Outcome<bool> {
        let begin = cookie.saturating_sub(PARENT_COOKIE);
        let place = usize::try_from(begin).unwrap_or(usize::MAX);
        for ((name, step), cookie) in self
            .host
            .pseudo
            .names(directory, place)
            .zip(begin + PARENT_COOKIE + 1..)
        {
            let told = self.told(self.handle_of(step)?, listing.asked)?;
            if !listing.take(cookie, name, &told, writer) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn list_export(
        &self,
        file: &FileHandle,
        cookie: u64,
        listing: &mut Listing,
        writer: &mut Writer<'_>,
    ) -> Outcome<bool> {
        let (volume, at) = self.volume(file)?;
        let room = asks_for_room(listing.asked).then(|| volume.files.room());
        let export = volume.export;
        let max_transfer_bytes = self.asked.max_transfer_bytes;
        let mut refused = None;
        let all = volume.files.list(at, cookie, |listed| {
            let file = match export.handle(listed.slot, listed.serial) {
                Ok(file) => file,
                Err(why) => {
                    refused = Some(why);
                    return false;
                }
            };
            let told = Told {
                file,
                attributes: export.told(listed.attributes),
                mounted_on: listed.attributes.file_id,
                room,
                most_file_bytes: MAX_FILE_BYTES,
                max_transfer_bytes,
            };
            listing.take(listed.cookie, listed.name, &told, writer)
        })?;
        refused.map_or(Ok(all), |why| Err(why.into()))
    }
}

/// A listing that is being written.
struct Listing {
    asked: Bitmap,
    begin: usize,
    most: usize,
    any: bool,
}

impl Listing {
    /// Appends an entry if it fits.
    fn take(&mut self, cookie: u64, name: &[u8], told: &Told, writer: &mut Writer<'_>) -> bool {
        let begin = writer.0.len();
        writer.u32(1).u64(cookie).opaque(name);
        told.write(self.asked, writer);
        let fits = writer.0.len() - self.begin <= self.most;
        if !fits {
            writer.0.truncate(begin);
        }
        self.any |= fits;
        fits
    }
}

/// Returns the attributes of a directory. Refuses anything else.
fn in_directory(volume: &Volume, slot: usize) -> Outcome<Attributes3> {
    let attributes = volume.attributes(slot);
    match attributes.kind {
        DIRECTORY => Ok(attributes),
        _ => Err(Status::NotDir.into()),
    }
}
