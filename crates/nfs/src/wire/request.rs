//! Arguments of the NFSv3 procedures (RFC 1813, 3.3).

use super::arguments::{parse_if, How, Node, SetAttributes};
use super::attributes::{parse_time, write_time};
use super::{Credential, FileHandle, Malformed, Message, Reader, Time, Writer, NFS};
use dyno_files::{PageRun, Stability};
use dyno_measure::named_enum;

/// Upper bound on the length of a file name or path (`PATH_MAX` of Linux).
pub const MAX_NAME_BYTES: usize = 4096;
/// Upper bound on the data of one WRITE; no server accepts as much.
const MAX_DATA_BYTES: usize = 1 << 26;

named_enum! {
    /// Procedures, in the order of their numbers.
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

/// Data of a WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// A slice, which is copied into the message; received data are always slices.
    Whole(&'a [u8]),
    /// Pages, which the message shares.
    Pages(&'a PageRun),
}

impl Payload<'_> {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(data) => data.len(),
            Self::Pages(pages) => pages.len(),
        }
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the length and the data; pages are only added when the message ends.
    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Whole(data) => writer.opaque(data),
            Self::Pages(pages) => {
                let count = u32::try_from(pages.len()).expect("messages are bounded");
                writer.u32(count).filling(pages.len())
            }
        };
    }
}

/// A request. Names have one component, in the directory `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    Null,
    GetAttributes {
        file: FileHandle,
    },
    /// SETATTR. With a `guard`, the server sets the attributes only if the file last changed at that time.
    SetAttributes {
        file: FileHandle,
        set: SetAttributes,
        guard: Option<Time>,
    },
    Lookup {
        at: FileHandle,
        name: &'a [u8],
    },
    /// ACCESS, for a mask of rights.
    Access {
        file: FileHandle,
        rights: u32,
    },
    ReadLink {
        link: FileHandle,
    },
    Read {
        file: FileHandle,
        offset: u64,
        bytes: u32,
    },
    Write {
        file: FileHandle,
        offset: u64,
        data: Payload<'a>,
        stability: Stability,
    },
    Create {
        at: FileHandle,
        name: &'a [u8],
        how: How,
    },
    MakeDirectory {
        at: FileHandle,
        name: &'a [u8],
        set: SetAttributes,
    },
    SymbolicLink {
        at: FileHandle,
        name: &'a [u8],
        set: SetAttributes,
        target: &'a [u8],
    },
    MakeNode {
        at: FileHandle,
        name: &'a [u8],
        node: Node,
    },
    Remove {
        at: FileHandle,
        name: &'a [u8],
    },
    RemoveDirectory {
        at: FileHandle,
        name: &'a [u8],
    },
    Rename {
        from_at: FileHandle,
        from: &'a [u8],
        to_at: FileHandle,
        to: &'a [u8],
    },
    /// LINK: adds a name to a file.
    Link {
        file: FileHandle,
        at: FileHandle,
        name: &'a [u8],
    },
    List {
        directory: FileHandle,
        cookie: u64,
        verifier: u64,
        bytes: u32,
        plus: bool,
    },
    FsStat {
        root: FileHandle,
    },
    FsInfo {
        root: FileHandle,
    },
    PathConf {
        file: FileHandle,
    },
    /// COMMIT; from `offset` to the end of the file if `bytes` is 0.
    Commit {
        file: FileHandle,
        offset: u64,
        bytes: u32,
    },
}

impl<'a> Request<'a> {
    /// Returns the maximum number of data bytes in the answer.
    pub fn data_bytes(&self) -> usize {
        match *self {
            Self::Read { bytes, .. } | Self::List { bytes, .. } => bytes as usize,
            _ => 0,
        }
    }

    pub fn procedure(&self) -> Procedure {
        match self {
            Self::Null => Procedure::Null,
            Self::GetAttributes { .. } => Procedure::GetAttributes,
            Self::SetAttributes { .. } => Procedure::SetAttributes,
            Self::Lookup { .. } => Procedure::Lookup,
            Self::Access { .. } => Procedure::Access,
            Self::ReadLink { .. } => Procedure::ReadLink,
            Self::Read { .. } => Procedure::Read,
            Self::Write { .. } => Procedure::Write,
            Self::Create { .. } => Procedure::Create,
            Self::MakeDirectory { .. } => Procedure::MakeDirectory,
            Self::SymbolicLink { .. } => Procedure::SymbolicLink,
            Self::MakeNode { .. } => Procedure::MakeNode,
            Self::Remove { .. } => Procedure::Remove,
            Self::RemoveDirectory { .. } => Procedure::RemoveDirectory,
            Self::Rename { .. } => Procedure::Rename,
            Self::Link { .. } => Procedure::Link,
            Self::List { plus: true, .. } => Procedure::ReadDirectoryPlus,
            Self::List { plus: false, .. } => Procedure::ReadDirectory,
            Self::FsStat { .. } => Procedure::FsStat,
            Self::FsInfo { .. } => Procedure::FsInfo,
            Self::PathConf { .. } => Procedure::PathConf,
            Self::Commit { .. } => Procedure::Commit,
        }
    }

    /// Returns COMMIT of a whole file.
    pub fn commit_of_all(file: FileHandle) -> Self {
        Self::Commit {
            file,
            offset: 0,
            bytes: 0,
        }
    }

    /// Returns the first file or directory in the arguments; None for NULL.
    pub fn file(&self) -> Option<&FileHandle> {
        match self {
            Self::Null => None,
            Self::GetAttributes { file }
            | Self::SetAttributes { file, .. }
            | Self::Access { file, .. }
            | Self::ReadLink { link: file }
            | Self::Read { file, .. }
            | Self::Write { file, .. }
            | Self::Link { file, .. }
            | Self::List { directory: file, .. }
            | Self::FsStat { root: file }
            | Self::FsInfo { root: file }
            | Self::PathConf { file }
            | Self::Commit { file, .. }
            | Self::Lookup { at: file, .. }
            | Self::Create { at: file, .. }
            | Self::MakeDirectory { at: file, .. }
            | Self::SymbolicLink { at: file, .. }
            | Self::MakeNode { at: file, .. }
            | Self::Remove { at: file, .. }
            | Self::RemoveDirectory { at: file, .. }
            | Self::Rename { from_at: file, .. } => Some(file),
        }
    }

    /// Writes the request as a call with this XID.
    pub fn write(&self, message: &mut Message, xid: u32, credential: &Credential) {
        let mut writer = message.begin(xid, NFS, self.procedure() as u32, Some(credential));
        self.write_arguments(&mut writer);
        message.end_with(self.pages(), 0);
    }

    /// Returns the data of the request if they are in pages.
    pub(crate) fn pages(&self) -> Option<&'a PageRun> {
        match *self {
            Self::Write {
                data: Payload::Pages(pages),
                ..
            } => Some(pages),
            _ => None,
        }
    }

    fn write_arguments(&self, writer: &mut Writer<'_>) {
        match *self {
            Self::Null => {}
            Self::GetAttributes { file }
            | Self::ReadLink { link: file }
            | Self::FsStat { root: file }
            | Self::FsInfo { root: file }
            | Self::PathConf { file } => file.write(writer),
            Self::SetAttributes { file, set, guard } => {
                file.write(writer);
                set.write(writer);
                writer.u32(u32::from(guard.is_some()));
                if let Some(time) = guard {
                    write_time(writer, time);
                }
            }
            Self::Lookup { at, name } | Self::Remove { at, name } | Self::RemoveDirectory { at, name } => {
                write_name(writer, at, name);
            }
            Self::Access { file, rights } => {
                file.write(writer);
                writer.u32(rights);
            }
            Self::Read { file, offset, bytes } | Self::Commit { file, offset, bytes } => {
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
                data.write(writer.u64(offset).u32(count).u32(stability as u32));
            }
            Self::Link { file, at, name } => {
                file.write(writer);
                write_name(writer, at, name);
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
                    writer.u32(bytes); // dircount, which never exceeds maxcount
                }
                writer.u32(bytes);
            }
            _ => self.write_new_name(writer),
        }
    }

    /// Writes the arguments of procedures that add a name.
    fn write_new_name(&self, writer: &mut Writer<'_>) {
        match *self {
            Self::Create { at, name, how } => {
                write_name(writer, at, name);
                how.write(writer);
            }
            Self::MakeDirectory { at, name, set } => {
                write_name(writer, at, name);
                set.write(writer);
            }
            Self::SymbolicLink {
                at,
                name,
                set,
                target,
            } => {
                write_name(writer, at, name);
                set.write(writer);
                writer.opaque(target);
            }
            Self::MakeNode { at, name, node } => {
                write_name(writer, at, name);
                node.write(writer);
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
            _ => unreachable!("the others are written above"),
        }
    }

    pub fn parse(procedure: Procedure, arguments: &'a [u8]) -> Result<Self, Malformed> {
        let reader = &mut Reader::new(arguments);
        if procedure == Procedure::Null {
            return Ok(Self::Null);
        }
        // The arguments of all other procedures begin with a file handle.
        let file = FileHandle::parse(reader)?;
        Ok(match procedure {
            Procedure::GetAttributes => Self::GetAttributes { file },
            Procedure::SetAttributes => Self::SetAttributes {
                file,
                set: SetAttributes::parse(reader)?,
                guard: parse_if(reader, parse_time)?,
            },
            Procedure::Access => Self::Access {
                file,
                rights: reader.u32()?,
            },
            Procedure::ReadLink => Self::ReadLink { link: file },
            Procedure::Read => Self::Read {
                file,
                offset: reader.u64()?,
                bytes: reader.u32()?,
            },
            Procedure::Write => Self::parse_write(file, reader)?,
            Procedure::Link => Self::Link {
                file,
                at: FileHandle::parse(reader)?,
                name: parse_name(reader)?,
            },
            Procedure::ReadDirectory | Procedure::ReadDirectoryPlus => {
                let plus = procedure == Procedure::ReadDirectoryPlus;
                let (cookie, verifier) = (reader.u64()?, reader.u64()?);
                if plus {
                    reader.u32()?; // dircount, a mere hint
                }
                Self::List {
                    directory: file,
                    cookie,
                    verifier,
                    bytes: reader.u32()?,
                    plus,
                }
            }
            Procedure::FsStat => Self::FsStat { root: file },
            Procedure::FsInfo => Self::FsInfo { root: file },
            Procedure::PathConf => Self::PathConf { file },
            Procedure::Commit => Self::Commit {
                file,
                offset: reader.u64()?,
                bytes: reader.u32()?,
            },
            _ => Self::parse_with_name(procedure, file, reader)?,
        })
    }

    fn parse_write(file: FileHandle, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (offset, count) = (reader.u64()?, reader.u32()?);
        let stability = parse_stability(reader)?;
        let data = reader.opaque(MAX_DATA_BYTES)?;
        if data.len() != count as usize {
            return Err(Malformed);
        }
        Ok(Self::Write {
            file,
            offset,
            data: Payload::Whole(data),
            stability,
        })
    }

    fn parse_with_name(
        procedure: Procedure,
        at: FileHandle,
        reader: &mut Reader<'a>,
    ) -> Result<Self, Malformed> {
        let name = parse_name(reader)?;
        Ok(match procedure {
            Procedure::Lookup => Self::Lookup { at, name },
            Procedure::Create => Self::Create {
                at,
                name,
                how: How::parse(reader)?,
            },
            Procedure::MakeDirectory => Self::MakeDirectory {
                at,
                name,
                set: SetAttributes::parse(reader)?,
            },
            Procedure::SymbolicLink => Self::SymbolicLink {
                at,
                name,
                set: SetAttributes::parse(reader)?,
                target: parse_name(reader)?,
            },
            Procedure::MakeNode => Self::MakeNode {
                at,
                name,
                node: Node::parse(reader)?,
            },
            Procedure::Remove => Self::Remove { at, name },
            Procedure::RemoveDirectory => Self::RemoveDirectory { at, name },
            Procedure::Rename => Self::Rename {
                from_at: at,
                from: name,
                to_at: FileHandle::parse(reader)?,
                to: parse_name(reader)?,
            },
            _ => unreachable!("the others have no name behind the file"),
        })
    }
}

/// Reads `stable_how`.
pub(super) fn parse_stability(reader: &mut Reader<'_>) -> Result<Stability, Malformed> {
    match reader.u32()? {
        0 => Ok(Stability::Unstable),
        1 => Ok(Stability::Data),
        2 => Ok(Stability::File),
        _ => Err(Malformed),
    }
}

fn parse_name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    reader.opaque(MAX_NAME_BYTES)
}

fn write_name(writer: &mut Writer<'_>, at: FileHandle, name: &[u8]) {
    at.write(writer);
    writer.opaque(name);
}

/// Returns a verifier for an exclusive CREATE that differs for each call of each client.
pub fn create_verifier(client: u64, call: u64) -> u64 {
    client.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ call
}

#[cfg(test)]
mod tests;
