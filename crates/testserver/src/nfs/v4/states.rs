//! Operations on opens and locks (RFC 8881, 18.2, 18.10 to 18.12, 18.16, 18.18, 18.38, 18.48).

use super::attributes::{change, parse_set};
use super::compound::Compound;
use super::wire::{parse_name, write_change};
use crate::nfs::host::Host;
use crate::nfs::state4::clients::Clients;
use crate::nfs::state4::locks::InTheWay;
use crate::nfs::state4::opens::{Owner, Stateid};
use crate::nfs::state4::range::Range;
use crate::nfs::state4::status::{Outcome, SYMLINK};
use dyno_nfs::status::{Status, Status4};
use dyno_nfs::wire::{
    Attributes3, Bitmap, FileHandle, How, Malformed, Reader, SetAttributes, Writer, DIRECTORY, REGULAR,
    SYMBOLIC_LINK,
};
use std::sync::MutexGuard;

const MOST_OWNER_BYTES: usize = 1024;
const ACCESS: u32 = 3;
/// Bits of the share access that tell which delegation the client wants.
const WISHES: u32 = 0x0003_ff00;
const NOT_WANTED: [u32; 2] = [0x0400, 0x0500];
const READ: u32 = 1;
const WRITE: u32 = 2;
/// Delegation type `OPEN_DELEGATE_READ`.
const FOR_READING: u32 = 1;
/// Result flag of OPEN (`OPEN4_RESULT_LOCKTYPE_POSIX`): locks can be split and merged, as in POSIX.
const POSIX_LOCKS: u32 = 4;
const MOST_TESTED: u32 = 4096;

/// How a file is opened.
enum How4 {
    Open,
    /// Created, as in NFSv3, with the further attributes of an exclusive creation.
    Create(How, Bitmap, Option<SetAttributes>),
}

enum Claim<'a> {
    Name(&'a [u8]),
    Previous,
    File,
    /// By the client's delegation, with the file's name if there is one.
    Delegation(Stateid, Option<&'a [u8]>),
}

fn parse_how(reader: &mut Reader<'_>) -> Outcome<How4> {
    if !reader.bool()? {
        return Ok(How4::Open);
    }
    Ok(match reader.u32()? {
        0 => {
            let (mut set, which) = parse_set(reader)?;
            // For an existing file, only truncation to 0 applies.
            set.bytes = set.bytes.filter(|bytes| *bytes == 0);
            How4::Create(How::Unchecked(set), which, None)
        }
        1 => {
            let (set, which) = parse_set(reader)?;
            How4::Create(How::Guarded(set), which, None)
        }
        2 => How4::Create(How::Exclusive(reader.u64()?), Bitmap::default(), None),
        3 => {
            let verifier = reader.u64()?;
            let (set, which) = parse_set(reader)?;
            How4::Create(How::Exclusive(verifier), which, Some(set))
        }
        _ => return Err(Malformed.into()),
    })
}

fn parse_claim<'a>(reader: &mut Reader<'a>) -> Outcome<Claim<'a>> {
    Ok(match reader.u32()? {
        0 => Claim::Name(parse_name(reader)?),
        1 => {
            reader.u32()?; // type of the previous delegation, which is not granted again
            Claim::Previous
        }
        2 => Claim::Delegation(Stateid::parse(reader)?, Some(parse_name(reader)?)),
        4 => Claim::File,
        5 => Claim::Delegation(Stateid::parse(reader)?, None),
        3 | 6 => return Err(Status::NotSupp.into()),
        _ => return Err(Malformed.into()),
    })
}

/// Appends the delegation of an open, if any. Its access control entry permits nothing, so the client must send ACCESS.
fn write_delegation(delegated: Option<Stateid>, writer: &mut Writer<'_>) {
    let Some(stateid) = delegated else {
        writer.u32(0);
        return;
    };
    stateid.write(writer.u32(FOR_READING));
    writer.u32(0); // not recalled yet
    writer.u32(0).u32(0).u32(0).opaque(b"");
}

/// Fails unless the attributes are those of a regular file.
fn need_file(attributes: &Attributes3) -> Outcome {
    match attributes.kind {
        REGULAR => Ok(()),
        DIRECTORY => Err(Status::IsDir.into()),
        SYMBOLIC_LINK => Err(SYMLINK),
        _ => Err(Status4::WrongType.into()),
    }
}

impl<'a> Compound<'a> {
    /// Returns the current state ID if `stateid` is the special value for it, otherwise `stateid` itself.
    pub(super) fn resolved(&self, stateid: Stateid) -> Outcome<Stateid> {
        match stateid == Stateid::CURRENT {
            true => self.stateid.ok_or_else(|| Status4::BadStateid.into()),
            false => Ok(stateid),
        }
    }

    fn owner(&self, reader: &mut Reader<'_>) -> Outcome<Owner> {
        reader.u64()?; // the client ID, which the session determines (18.16.3)
        Ok((self.client()?, reader.opaque(MOST_OWNER_BYTES)?.into()))
    }

    pub(super) fn open(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        reader.u32()?;
        let wished = reader.u32()?;
        let (access, deny) = (wished & !WISHES, reader.u32()?);
        let owner = self.owner(reader)?;
        let how = parse_how(reader)?;
        let claim = parse_claim(reader)?;
        if access == 0 || access & !ACCESS != 0 || deny & !ACCESS != 0 {
            return Err(Status::Inval.into());
        }
        let at = self.file()?;
        let host = self.host;
        let mut clients = host.clients();
        let reclaims = matches!(claim, Claim::Previous);
        clients.may_claim(owner.0, reclaims, self.now_ns)?;
        let client = owner.0;
        if let Some(file) = self.in_question(&at, &claim, &how, (access, deny)) {
            let recalled = host.recall(&mut clients, Some(client), &file);
            self.is_in_the_way = recalled.is_err();
            recalled?;
        }
        let (file, changed, set) = match claim {
            Claim::Delegation(stateid, name) => {
                let file = name.map_or(Some(at), |name| host.named(&at, name));
                let file = file.ok_or(Status::NoEnt)?;
                clients
                    .opens
                    .may_use(client, stateid, &file, access & WRITE != 0)?;
                (file, (0, 0), Bitmap::default())
            }
            Claim::Name(name) => {
                let may_open = |file: &FileHandle| clients.opens.may_open(&owner, file, access, deny);
                self.open_name(&at, name, how, may_open)?
            }
            Claim::Previous | Claim::File => {
                let (volume, slot) = self.volume(&at)?;
                need_file(&volume.attributes(slot))?;
                (at, (0, 0), Bitmap::default())
            }
        };
        let stateid = clients.opens.open(owner, file, access, deny)?;
        let may_delegate = host.options.delegations.is_some()
            && (access, deny) == (READ, 0)
            && !NOT_WANTED.contains(&(wished & WISHES))
            && !reclaims
            && clients.can_be_called(client);
        let delegated = may_delegate
            .then(|| clients.opens.delegate(client, file, self.now_ns))
            .flatten();
        drop(clients);
        (self.current, self.stateid) = (Some(file), Some(stateid));
        stateid.write(writer);
        write_change(changed, writer);
        writer.u32(POSIX_LOCKS);
        set.write(writer);
        write_delegation(delegated, writer);
        Ok(())
    }

    /// Returns the file whose delegations conflict with an open that writes, denies reading or truncates, or None.
    fn in_question(
        &self,
        at: &FileHandle,
        claim: &Claim<'_>,
        how: &How4,
        (access, deny): (u32, u32),
    ) -> Option<FileHandle> {
        let empties = match how {
            How4::Create(How::Unchecked(set), ..) => set.bytes.is_some(),
            How4::Create(..) => return None,
            How4::Open => false,
        };
        if access & WRITE == 0 && deny & READ == 0 && !empties {
            return None;
        }
        match claim {
            Claim::Name(name) | Claim::Delegation(_, Some(name)) => self.host.named(at, name),
            Claim::Previous | Claim::File | Claim::Delegation(_, None) => Some(*at),
        }
    }

    /// Recalls delegations that conflict with a change to a file.
    pub(super) fn make_way(&mut self, file: FileHandle) -> Outcome<Option<MutexGuard<'a, Clients>>> {
        self.make_way_of(|_| [Some(file), None])
    }

    pub(super) fn make_way_of(
        &mut self,
        files: impl FnOnce(&Host) -> [Option<FileHandle>; 2],
    ) -> Outcome<Option<MutexGuard<'a, Clients>>> {
        let (host, client) = (self.host, self.client()?);
        let way = host.make_way(Some(client), files);
        self.is_in_the_way = way.is_err();
        Ok(way?)
    }

    pub(super) fn give_back(&mut self, reader: &mut Reader<'_>) -> Outcome {
        let stateid = self.resolved(Stateid::parse(reader)?)?;
        let (client, file) = (self.client()?, self.file()?);
        let mut clients = self.host.clients();
        clients.opens.give_back(client, stateid, &file)?;
        clients.given_back(client, stateid);
        Ok(())
    }

    /// Finds or creates a file. Returns the file, the directory's change attribute before and after, and the
    /// attributes that were set.
    fn open_name(
        &self,
        at: &FileHandle,
        name: &[u8],
        how: How4,
        may_open: impl Fn(&FileHandle) -> Outcome,
    ) -> Outcome<(FileHandle, (u64, u64), Bitmap)> {
        let (mut volume, directory) = self.volume(at)?;
        let before = volume.attributes(directory);
        if before.kind != DIRECTORY {
            return Err(Status::NotDir.into());
        }
        let there = volume.files.look_up(directory, name).ok();
        if let Some(slot) = there {
            // Truncate a file only if it may be opened.
            let file = volume.handle(slot)?;
            let attributes = volume.attributes(slot);
            match how {
                How4::Create(How::Guarded(_) | How::Exclusive(_), ..) => {}
                _ => {
                    need_file(&attributes)?;
                    may_open(&file)?;
                }
            }
        }
        let (slot, set) = match how {
            How4::Open => (volume.files.look_up(directory, name)?, Bitmap::default()),
            How4::Create(how, which, besides) => {
                let slot = volume.files.create(directory, name, &how, self.asked.caller)?;
                if let Some(set) = besides {
                    volume.files.set(slot, &set)?;
                }
                let is_set = there.is_none() || matches!(how, How::Exclusive(_));
                (slot, if is_set { which } else { Bitmap::default() })
            }
        };
        let after = volume.attributes(directory);
        Ok((volume.handle(slot)?, (change(&before), change(&after)), set))
    }

    pub(super) fn downgrade(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let stateid = self.resolved(Stateid::parse(reader)?)?;
        reader.u32()?;
        let less = (reader.u32()? & !WISHES, reader.u32()?);
        let (client, file) = (self.client()?, self.file()?);
        let stateid = self
            .host
            .clients()
            .opens
            .downgrade(client, stateid, &file, less)?;
        self.stateid = Some(stateid);
        stateid.write(writer);
        Ok(())
    }

    pub(super) fn close(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        reader.u32()?;
        let stateid = self.resolved(Stateid::parse(reader)?)?;
        let (client, file) = (self.client()?, self.file()?);
        self.host.clients().opens.close(client, stateid, &file)?;
        self.stateid = None;
        Stateid::INVALID.write(writer);
        Ok(())
    }

    fn refuse_lock(&mut self, met: &InTheWay) -> Outcome {
        let length = match met.range.end {
            u64::MAX => u64::MAX,
            end => end - met.range.begin,
        };
        let kind = if met.range.write { 2 } else { 1 };
        let mut writer = Writer(&mut self.behind_refusal);
        writer.u64(met.range.begin).u64(length).u32(kind);
        writer.u64(met.owner.0).opaque(&met.owner.1);
        Err(Status4::Denied.into())
    }

    pub(super) fn lock(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let write = parse_kind(reader)?;
        let reclaims = reader.bool()?;
        let range = Range::of(reader.u64()?, reader.u64()?, write)?;
        let (client, file) = (self.client()?, self.file()?);
        let is_first = reader.bool()?;
        if is_first {
            reader.u32()?;
        }
        let stateid = self.resolved(Stateid::parse(reader)?)?;
        reader.u32()?;
        let new_owner = is_first.then(|| self.owner(reader)).transpose()?;
        let host = self.host;
        let mut clients = host.clients();
        clients.may_claim(client, reclaims, self.now_ns)?;
        let owner = match &new_owner {
            Some(owner) => owner.clone(),
            None => clients.opens.lock_owner(client, stateid, &file)?,
        };
        if clients.opens.in_the_way(&owner, &file, &range).is_some() {
            // A client that was silent for longer than its lease has lost its locks.
            clients.forget_silent(self.now_ns);
        }
        if let Some(met) = clients.opens.in_the_way(&owner, &file, &range) {
            return self.refuse_lock(&met);
        }
        let lock = match new_owner {
            Some(owner) => clients.opens.lock_first(owner, stateid, &file, range)?,
            None => clients.opens.lock_more(client, stateid, &file, range)?,
        };
        self.stateid = Some(lock);
        lock.write(writer);
        Ok(())
    }

    pub(super) fn test_lock(&mut self, reader: &mut Reader<'_>) -> Outcome {
        let write = parse_kind(reader)?;
        let range = Range::of(reader.u64()?, reader.u64()?, write)?;
        let owner = self.owner(reader)?;
        let file = self.file()?;
        let met = self.host.clients().opens.in_the_way(&owner, &file, &range);
        met.map_or(Ok(()), |met| self.refuse_lock(&met))
    }

    pub(super) fn unlock(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let write = parse_kind(reader)?;
        reader.u32()?;
        let stateid = self.resolved(Stateid::parse(reader)?)?;
        let range = Range::of(reader.u64()?, reader.u64()?, write)?;
        let (client, file) = (self.client()?, self.file()?);
        let lock = self.host.clients().opens.unlock(client, stateid, &file, range)?;
        self.stateid = Some(lock);
        lock.write(writer);
        Ok(())
    }

    pub(super) fn test_states(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let count = reader.u32()?;
        if count > MOST_TESTED {
            return Err(Malformed.into());
        }
        let client = self.client()?;
        let clients = self.host.clients();
        writer.u32(count);
        for _ in 0..count {
            let tested = clients.opens.test(client, Stateid::parse(reader)?);
            writer.u32(tested.map_or_else(|refused| refused.0, |()| 0));
        }
        Ok(())
    }

    pub(super) fn free_state(&mut self, reader: &mut Reader<'_>) -> Outcome {
        let stateid = self.resolved(Stateid::parse(reader)?)?;
        let client = self.client()?;
        let mut clients = self.host.clients();
        clients.opens.free(client, stateid)?;
        clients.given_back(client, stateid);
        Ok(())
    }
}

/// Returns whether a lock is for writing. Blocking lock types are treated as non-blocking.
fn parse_kind(reader: &mut Reader<'_>) -> Outcome<bool> {
    match reader.u32()? {
        1 | 3 => Ok(false),
        2 | 4 => Ok(true),
        _ => Err(Malformed.into()),
    }
}
