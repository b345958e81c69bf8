//! The arguments of NFSv3's procedures (RFC 1813, 3.3), as far as they are used.

use super::{Credential, FileHandle, Message, Writer, NFS};
use dyno_files::Stability;
use dyno_measure::named_enum;

named_enum! {
    /// A procedure, at its number.
    pub enum Procedure {
        Null "NULL"
        GetAttributes "GETATTR"
        SetAttributes "SETATTR"
        Lookup "LOOKUP"
        Access "ACCESS"
        ReadLink "READLINK"
        Read "READ"
        Write "WRITE"
        Create "CREATE"
        MakeDirectory "MKDIR"
        SymbolicLink "SYMLINK"
        MakeNode "MKNOD"
        Remove "REMOVE"
        RemoveDirectory "RMDIR"
        Rename "RENAME"
        Link "LINK"
        ReadDirectory "READDIR"
        ReadDirectoryPlus "READDIRPLUS"
        FsStat "FSSTAT"
        FsInfo "FSINFO"
        PathConf "PATHCONF"
        Commit "COMMIT"
    }
}

/// What becomes of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// It stays.
    #[default]
    Keep,
    /// The server's own time now.
    Server,
}

/// What `sattr3` sets; the rest stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// Permissions.
    pub mode: Option<u32>,
    /// The end.
    pub bytes: Option<u64>,
    /// Of the last access.
    pub accessed: SetTime,
    /// Of the last write.
    pub modified: SetTime,
}

impl SetAttributes {
    fn write(&self, writer: &mut Writer<'_>) {
        match self.mode {
            Some(mode) => writer.u32(1).u32(mode),
            None => writer.u32(0),
        };
        writer.u32(0).u32(0); // owner and group
        match self.bytes {
            Some(bytes) => writer.u32(1).u64(bytes),
            None => writer.u32(0),
        };
        for time in [self.accessed, self.modified] {
            writer.u32(match time {
                SetTime::Keep => 0,
                SetTime::Server => 1,
            });
        }
    }
}

/// One request. Names are of one part, in the directory `at`.
#[allow(missing_docs)] // Fields: what their names and the variant's line say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// GETATTR.
    GetAttributes { file: FileHandle },
    /// SETATTR.
    SetAttributes { file: FileHandle, set: SetAttributes },
    /// LOOKUP.
    Lookup { at: FileHandle, name: &'a str },
    /// READ.
    Read {
        file: FileHandle,
        offset: u64,
        bytes: u32,
    },
    /// WRITE.
    Write {
        file: FileHandle,
        offset: u64,
        data: &'a [u8],
        stability: Stability,
    },
    /// CREATE that fails where the name is there. `exclusive`: by a verifier of the client's, so that sending it twice
    /// makes one file; its attributes are then set apart.
    Create {
        at: FileHandle,
        name: &'a str,
        mode: u32,
        exclusive: Option<u64>,
    },
    /// MKDIR.
    MakeDirectory {
        at: FileHandle,
        name: &'a str,
        mode: u32,
    },
    /// REMOVE.
    Remove { at: FileHandle, name: &'a str },
    /// RMDIR.
    RemoveDirectory { at: FileHandle, name: &'a str },
    /// RENAME.
    Rename {
        from_at: FileHandle,
        from: &'a str,
        to_at: FileHandle,
        to: &'a str,
    },
    /// READDIRPLUS, or READDIR.
    List {
        directory: FileHandle,
        cookie: u64,
        verifier: u64,
        bytes: u32,
        plus: bool,
    },
    /// FSSTAT.
    FsStat { root: FileHandle },
    /// FSINFO.
    FsInfo { root: FileHandle },
    /// COMMIT of the whole file.
    Commit { file: FileHandle },
}

impl Request<'_> {
    /// Returns the procedure that it calls.
    #[must_use]
    pub fn procedure(&self) -> Procedure {
        match self {
            Self::GetAttributes { .. } => Procedure::GetAttributes,
            Self::SetAttributes { .. } => Procedure::SetAttributes,
            Self::Lookup { .. } => Procedure::Lookup,
            Self::Read { .. } => Procedure::Read,
            Self::Write { .. } => Procedure::Write,
            Self::Create { .. } => Procedure::Create,
            Self::MakeDirectory { .. } => Procedure::MakeDirectory,
            Self::Remove { .. } => Procedure::Remove,
            Self::RemoveDirectory { .. } => Procedure::RemoveDirectory,
            Self::Rename { .. } => Procedure::Rename,
            Self::List { plus: true, .. } => Procedure::ReadDirectoryPlus,
            Self::List { plus: false, .. } => Procedure::ReadDirectory,
            Self::FsStat { .. } => Procedure::FsStat,
            Self::FsInfo { .. } => Procedure::FsInfo,
            Self::Commit { .. } => Procedure::Commit,
        }
    }

    /// Writes it as a call with that number.
    pub fn write(&self, message: &mut Message, xid: u32, credential: &Credential) {
        let mut writer = message.begin(xid, NFS, self.procedure() as u32, Some(credential));
        self.write_arguments(&mut writer);
        message.end();
    }

    fn write_arguments(&self, writer: &mut Writer<'_>) {
        match *self {
            Self::GetAttributes { file } | Self::FsStat { root: file } | Self::FsInfo { root: file } => {
                file.write(writer);
            }
            Self::SetAttributes { file, set } => {
                file.write(writer);
                set.write(writer);
                writer.u32(0); // no guard
            }
            Self::Lookup { at, name } | Self::Remove { at, name } | Self::RemoveDirectory { at, name } => {
                write_name(writer, at, name);
            }
            Self::Read { file, offset, bytes } => {
                file.write(writer);
                writer.u64(offset).u32(bytes);
            }
            Self::Write {
                file,
                offset,
                data,
                stability,
            } => {
                file.write(writer);
                let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
                writer.u64(offset).u32(count).u32(stability as u32).opaque(data);
            }
            Self::Create {
                at,
                name,
                mode,
                exclusive,
            } => {
                write_name(writer, at, name);
                write_how(writer, mode, exclusive);
            }
            Self::MakeDirectory { at, name, mode } => {
                write_name(writer, at, name);
                write_mode(writer, mode);
            }
            Self::Rename {
                from_at,
                from,
                to_at,
                to,
            } => {
                write_name(writer, from_at, from);
                write_name(writer, to_at, to);
            }
            Self::List {
                directory,
                cookie,
                verifier,
                bytes,
                plus,
            } => {
                directory.write(writer);
                writer.u64(cookie).u64(verifier);
                if plus {
                    writer.u32(bytes); // of names and cookies alone, which are never more than all of it
                }
                writer.u32(bytes);
            }
            Self::Commit { file } => {
                file.write(writer);
                writer.u64(0).u32(0);
            }
        }
    }
}

fn write_name(writer: &mut Writer<'_>, at: FileHandle, name: &str) {
    at.write(writer);
    writer.opaque(name.as_bytes());
}

/// `createhow3`.
fn write_how(writer: &mut Writer<'_>, mode: u32, exclusive: Option<u64>) {
    match exclusive {
        Some(verifier) => {
            writer.u32(2).u64(verifier);
        }
        None => {
            writer.u32(1);
            write_mode(writer, mode);
        }
    }
}

fn write_mode(writer: &mut Writer<'_>, mode: u32) {
    let set = SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    };
    set.write(writer);
}

/// Makes a verifier for an exclusive CREATE: another one for each call of each client.
#[must_use]
pub fn create_verifier(client: u64, call: u64) -> u64 {
    client.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ call
}
