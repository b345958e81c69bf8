//! Requests as COMPOUNDs (RFC 8881, 16 and 18): SEQUENCE, PUTFH, the main operation, and queries of the result.
//!
//! | request | operations after SEQUENCE and PUTFH |
//! |---|---|
//! | look-up | LOOKUP, GETFH, GETATTR |
//! | open | OPEN, GETFH, GETATTR |
//! | directory creation | CREATE, GETFH, GETATTR |
//! | close, read, commit, list, lock, unlock, remove | CLOSE, READ, COMMIT, READDIR, LOCK, LOCKU, REMOVE |
//! | close of a file with locked ranges | LOCKU, CLOSE |
//! | write, setting of attributes | WRITE or SETATTR, GETATTR |
//! | attributes, space | GETATTR |
//! | return of a delegation | DELEGRETURN |
//! | rename | SAVEFH, PUTFH, RENAME |
//! | release of a revoked state ID | FREE_STATEID, without PUTFH |
//! | renewal of the lease | none, without PUTFH |
//!
//! A compound is counted as one request under the name of its main operation, as in Linux's
//! `/proc/self/mountstats`.

use super::attributes::{write_set, ALL, OF_ENTRIES, OF_NAMES, SOME, SPACE};
use super::state::{Access4, State};
use crate::wire::operation4::*;
use crate::wire::{
    Credential, FileHandle, Message, Payload, Program, Request, SetAttributes, Stateid, Writer, Xdr,
    DIRECTORY,
};
use dyno_files::Stability;
use dyno_measure::named_enum;

/// NFS version 4.
pub(crate) const NFS4: Program = Program(100_003, 4);
/// `NFSPROC4_COMPOUND`.
const COMPOUND: u32 = 1;
/// Maximum number of operations in a compound: that of a rename.
pub(crate) const MOST_OPERATIONS: u32 = 5;
/// Size of the GETATTR after the data of a WRITE.
pub(crate) const AFTER_DATA_BYTES: usize = 16;
/// Size of SEQUENCE's arguments up to the flag for caching the reply.
const SEQUENCE_BYTES: usize = 28;

const WRITE_LOCK: u32 = 2;
const READ_LOCK: u32 = 1;

named_enum! {
    /// Names under which compounds are counted.
    pub(crate) enum Procedure4 {
        ExchangeId "EXCHANGE_ID"
        CreateSession "CREATE_SESSION"
        ReclaimComplete "RECLAIM_COMPLETE"
        DestroySession "DESTROY_SESSION"
        DestroyClientId "DESTROY_CLIENTID"
        Sequence "SEQUENCE"
        Root "PUTROOTFH"
        Lookup "LOOKUP"
        GetAttributes "GETATTR"
        SetAttributes "SETATTR"
        Open "OPEN"
        Close "CLOSE"
        Read "READ"
        Write "WRITE"
        Commit "COMMIT"
        List "READDIR"
        ListWithAttributes "READDIR with attributes"
        Remove "REMOVE"
        Rename "RENAME"
        Create "CREATE"
        Lock "LOCK"
        Unlock "LOCKU"
        GiveBack "DELEGRETURN"
        Free "FREE_STATEID"
        Bind "BIND_CONN_TO_SESSION"
    }
}

/// How an open creates the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How4 {
    /// The file must exist.
    Open,
    /// The file is created if it does not exist; a size of 0 truncates an existing file.
    Unchecked(SetAttributes),
    /// The file must not exist.
    Guarded(SetAttributes),
    /// The file must not exist, unless it was created with this verifier of the client.
    Exclusive(u64, SetAttributes),
}

impl How4 {
    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Open => {
                writer.u32(0);
            }
            Self::Unchecked(set) => write_set(set, writer.u32(1).u32(0)),
            Self::Guarded(set) => write_set(set, writer.u32(1).u32(1)),
            Self::Exclusive(verifier, set) => write_set(set, writer.u32(1).u32(3).u64(*verifier)),
        }
    }
}

/// A request. Names have one component, in the directory `at`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation<'a> {
    /// A request that NFSv3 also has.
    Plain(Request<'a>),
    Open {
        at: FileHandle,
        name: &'a [u8],
        access: Access4,
        /// Whether to request a read delegation.
        wants: bool,
        how: How4,
        owner: u64,
    },
    Close {
        file: FileHandle,
        stateid: Stateid,
        /// Locks to release first: a server may refuse to close a locked file (RFC 8881, 18.2.3).
        locks: Option<Stateid>,
    },
    Lock {
        file: FileHandle,
        offset: u64,
        bytes: u64,
        owner: u64,
    },
    Unlock {
        file: FileHandle,
        offset: u64,
        bytes: u64,
    },
    GiveBack {
        file: FileHandle,
        stateid: Stateid,
    },
    /// Frees a revoked state ID.
    Free {
        stateid: Stateid,
    },
    Space {
        root: FileHandle,
    },
    Renew,
}

/// Offsets of the fields that are filled in when a message is sent: the arguments of SEQUENCE, and the state ID of a
/// file. A restart of the server changes state IDs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) sequence: usize,
    pub(crate) stateid: Option<(usize, FileHandle)>,
}

impl Operation<'_> {
    pub(crate) fn procedure(&self) -> Procedure4 {
        match self {
            Self::Open { .. } => Procedure4::Open,
            Self::Close { .. } => Procedure4::Close,
            Self::GiveBack { .. } => Procedure4::GiveBack,
            Self::Free { .. } => Procedure4::Free,
            Self::Lock { .. } => Procedure4::Lock,
            Self::Unlock { .. } => Procedure4::Unlock,
            Self::Space { .. } => Procedure4::GetAttributes,
            Self::Renew => Procedure4::Sequence,
            Self::Plain(request) => match request {
                Request::Lookup { .. } => Procedure4::Lookup,
                Request::SetAttributes { .. } => Procedure4::SetAttributes,
                Request::Read { .. } => Procedure4::Read,
                Request::Write { .. } => Procedure4::Write,
                Request::Commit { .. } => Procedure4::Commit,
                Request::List { plus: false, .. } => Procedure4::List,
                Request::List { plus: true, .. } => Procedure4::ListWithAttributes,
                Request::Remove { .. } | Request::RemoveDirectory { .. } => Procedure4::Remove,
                Request::Rename { .. } => Procedure4::Rename,
                Request::MakeDirectory { .. } => Procedure4::Create,
                _ => Procedure4::GetAttributes,
            },
        }
    }

    /// Returns whether repeating the request may do harm, so that the server must cache the reply.
    fn is_to_be_kept(&self) -> bool {
        !matches!(
            self.procedure(),
            Procedure4::Lookup
                | Procedure4::GetAttributes
                | Procedure4::Read
                | Procedure4::Write
                | Procedure4::Commit
                | Procedure4::List
                | Procedure4::ListWithAttributes
                | Procedure4::Sequence
        )
    }

    fn operations(&self) -> u32 {
        match self {
            Self::Renew => 1,
            Self::Free { .. } => 2,
            Self::GiveBack { .. } => 3,
            Self::Close { locks: Some(_), .. } => 4,
            Self::Close { .. } | Self::Lock { .. } | Self::Unlock { .. } | Self::Space { .. } => 3,
            Self::Open { .. } => 5,
            Self::Plain(request) => match request {
                Request::Lookup { .. } | Request::MakeDirectory { .. } | Request::Rename { .. } => 5,
                Request::SetAttributes { .. } | Request::Write { .. } => 4,
                _ => 3,
            },
        }
    }

    /// Writes the request as a call with this XID, without a slot.
    pub(crate) fn write(
        &self,
        message: &mut Message,
        xid: u32,
        credential: &Credential,
        state: &State,
    ) -> Places {
        let mut writer = begin_compound(message, xid, credential, state.agreed().minor, self.operations());
        let sequence = writer.u32(SEQUENCE).0.len();
        writer.0.resize(sequence + SEQUENCE_BYTES, 0);
        writer.u32(u32::from(self.is_to_be_kept() && state.keeps_replies()));
        let mut places = Places {
            sequence,
            stateid: None,
        };
        self.write_operations(&mut writer, state, &mut places);
        let pages = match self {
            Self::Plain(request) => request.pages(),
            _ => None,
        };
        message.end_with(pages, AFTER_DATA_BYTES);
        places
    }

    fn write_operations(&self, writer: &mut Writer<'_>, state: &State, places: &mut Places) {
        match *self {
            Self::Plain(ref request) => write_plain(request, writer, state, places),
            Self::Open {
                at,
                name,
                access,
                wants,
                how,
                owner,
            } => {
                at.write(writer.u32(PUTFH));
                access.write(wants, writer.u32(OPEN).u32(0));
                write_owner(owner, writer);
                how.write(writer);
                writer.u32(0).opaque(name); // CLAIM_NULL
                file_and_attributes(writer);
            }
            Self::Close { file, stateid, locks } => {
                file.write(writer.u32(PUTFH));
                if let Some(locks) = locks {
                    // Unlocks the whole file, whatever ranges are locked, as Linux's client does.
                    writer.u32(LOCKU).u32(WRITE_LOCK).u32(0);
                    writer.bytes(&locks.bytes(0)).u64(0).u64(u64::MAX);
                }
                writer.u32(CLOSE).u32(0).bytes(&stateid.bytes(stateid.version));
            }
            Self::Lock {
                file,
                offset,
                bytes,
                owner,
            } => {
                file.write(writer.u32(PUTFH));
                let is_reclaim = false;
                write_lock(&file, (offset, bytes), owner, is_reclaim, writer, state, places);
            }
            Self::Unlock { file, offset, bytes } => {
                file.write(writer.u32(PUTFH));
                writer.u32(LOCKU).u32(kind_of_lock(state, &file)).u32(0);
                write_stateid(state.stateid(&file), &file, writer, places);
                writer.u64(offset).u64(bytes);
            }
            Self::Space { root } => {
                root.write(writer.u32(PUTFH));
                SPACE.write(writer.u32(GETATTR));
            }
            // DELEGRETURN and FREE_STATEID end with the state ID, for `Stateid::last_of`.
            Self::GiveBack { file, stateid } => {
                file.write(writer.u32(PUTFH));
                writer.u32(DELEGRETURN).bytes(&stateid.bytes(stateid.version));
            }
            Self::Free { stateid } => {
                writer.u32(FREE_STATEID).bytes(&stateid.bytes(stateid.version));
            }
            Self::Renew => {}
        }
    }
}

/// Starts a compound of `operations` operations with this minor version.
pub(super) fn begin_compound<'a>(
    message: &'a mut Message,
    xid: u32,
    credential: &Credential,
    minor: u32,
    operations: u32,
) -> Writer<'a> {
    let mut writer = message.begin(xid, NFS4, COMPOUND, Some(credential));
    writer.u32(0).u32(minor).u32(operations);
    writer
}

fn write_plain(request: &Request<'_>, writer: &mut Writer<'_>, state: &State, places: &mut Places) {
    let file = *request.file().expect("each has one");
    file.write(writer.u32(PUTFH));
    match *request {
        Request::Lookup { name, .. } => {
            writer.u32(LOOKUP).opaque(name);
            file_and_attributes(writer);
        }
        Request::SetAttributes { set, .. } => {
            writer.u32(SETATTR);
            write_stateid(state.stateid(&file), &file, writer, places);
            write_set(&set, writer);
            SOME.write(writer.u32(GETATTR));
        }
        Request::Read { offset, bytes, .. } => {
            writer.u32(READ);
            write_stateid(state.stateid(&file), &file, writer, places);
            writer.u64(offset).u32(bytes);
        }
        Request::Write {
            offset,
            data,
            stability,
            ..
        } => write_data(&file, offset, data, stability, writer, state, places),
        Request::Commit { offset, bytes, .. } => {
            writer.u32(COMMIT).u64(offset).u32(bytes);
        }
        Request::List {
            cookie,
            verifier,
            bytes,
            plus,
            ..
        } => {
            writer
                .u32(READDIR)
                .u64(cookie)
                .u64(verifier)
                .u32(bytes)
                .u32(bytes);
            if plus { OF_ENTRIES } else { OF_NAMES }.write(writer);
        }
        Request::Remove { name, .. } | Request::RemoveDirectory { name, .. } => {
            writer.u32(REMOVE).opaque(name);
        }
        Request::Rename { from, to_at, to, .. } => {
            to_at.write(writer.u32(SAVEFH).u32(PUTFH));
            writer.u32(RENAME).opaque(from).opaque(to);
        }
        Request::MakeDirectory { name, set, .. } => {
            writer.u32(CREATE).u32(DIRECTORY).opaque(name);
            write_set(&set, writer);
            file_and_attributes(writer);
        }
        _ => ALL.write(writer.u32(GETATTR)),
    }
}

fn write_data(
    file: &FileHandle,
    offset: u64,
    data: Payload<'_>,
    stability: Stability,
    writer: &mut Writer<'_>,
    state: &State,
    places: &mut Places,
) {
    writer.u32(WRITE);
    write_stateid(state.stateid(file), file, writer, places);
    data.write(writer.u64(offset).u32(stability as u32));
    SOME.write(writer.u32(GETATTR));
}

/// Writes LOCK with the file's lock state ID, if it has one, or with that of its open.
pub(super) fn write_lock(
    file: &FileHandle,
    (offset, bytes): (u64, u64),
    owner: u64,
    is_reclaim: bool,
    writer: &mut Writer<'_>,
    state: &State,
    places: &mut Places,
) {
    writer.u32(LOCK).u32(kind_of_lock(state, file));
    writer.u32(u32::from(is_reclaim)).u64(offset).u64(bytes);
    match state.opens().get(file).map(|open| (open.lock, open.stateid)) {
        Some((Some(lock), _)) => {
            writer.u32(0);
            write_stateid(lock, file, writer, places);
            writer.u32(0);
        }
        other => {
            let open = other.map_or(Stateid::ANONYMOUS, |(_, open)| open);
            writer.u32(1).u32(0);
            write_stateid(open, file, writer, places);
            writer.u32(0);
            write_owner(owner, writer);
        }
    }
}

fn file_and_attributes(writer: &mut Writer<'_>) {
    ALL.write(writer.u32(GETFH).u32(GETATTR));
}

fn write_stateid(stateid: Stateid, file: &FileHandle, writer: &mut Writer<'_>, places: &mut Places) {
    places.stateid = Some((writer.0.len(), *file));
    writer.bytes(&stateid.bytes(0));
}

/// Appends the owner of an open or lock. The session determines the client ID (RFC 8881, 18.16.3).
pub(super) fn write_owner(owner: u64, writer: &mut Writer<'_>) {
    writer.u64(0).opaque(&owner.to_be_bytes());
}

fn kind_of_lock(state: &State, file: &FileHandle) -> u32 {
    match state.opens().get(file) {
        Some(open) if !open.access.writes() => READ_LOCK,
        _ => WRITE_LOCK,
    }
}
