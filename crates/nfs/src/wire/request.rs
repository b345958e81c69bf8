//! Arguments of the NFSv3 procedures (RFC 1813, 3.3).

use super::arguments::{How, Node, SetAttributes};
use super::xdr::Xdr;
use super::{Credential, FileHandle, Malformed, Message, Reader, Time, Writer, NFS};
use dyno_files::{PageRun, Stability};
use dyno_measure::named_enum;

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
    /// A slice, which is copied into the message; received data is always a slice.
    Whole(&'a [u8]),
    /// Pages, which the message shares.
    Pages(&'a PageRun),
}

impl Payload<'_> {
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(data) => data.len(),
            Self::Pages(pages) => pages.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the length and the data. Pages are added only when the message ends.
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

/// Defines the requests and their codec. Arguments are listed in wire order; the first one is a file handle. NULL,
/// WRITE and READDIR have special forms.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $file:ident: FileHandle $(, $field:ident: $type:ty)* })*) => {
        /// A request. Names have one component, in the directory `at`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Request<'a> {
            Null,
            Write { file: FileHandle, offset: u64, data: Payload<'a>, stability: Stability },
            List { directory: FileHandle, cookie: u64, verifier: u64, bytes: u32, plus: bool },
            $($(#[$doc])* $name { $file: FileHandle $(, $field: $type)* },)*
        }

        impl<'a> Request<'a> {
            pub fn procedure(&self) -> Procedure {
                match self {
                    Self::Null => Procedure::Null,
                    Self::Write { .. } => Procedure::Write,
                    Self::List { plus: false, .. } => Procedure::ReadDirectory,
                    Self::List { plus: true, .. } => Procedure::ReadDirectoryPlus,
                    $(Self::$name { .. } => Procedure::$name,)*
                }
            }

            /// Returns the first file or directory in the arguments; None for NULL.
            pub fn file(&self) -> Option<&FileHandle> {
                match self {
                    Self::Null => None,
                    Self::Write { file, .. } | Self::List { directory: file, .. } => Some(file),
                    $(Self::$name { $file, .. } => Some($file),)*
                }
            }

            fn write_arguments(&self, writer: &mut Writer<'_>) {
                match self {
                    Self::Null => {}
                    Self::Write { file, offset, data, stability } => {
                        file.write(writer);
                        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
                        data.write(writer.u64(*offset).u32(count).u32(*stability as u32));
                    }
                    Self::List { directory, cookie, verifier, bytes, plus } => {
                        directory.write(writer);
                        writer.u64(*cookie).u64(*verifier);
                        if *plus {
                            writer.u32(*bytes); // dircount, which never exceeds maxcount
                        }
                        writer.u32(*bytes);
                    }
                    $(Self::$name { $file $(, $field)* } => {
                        $file.write(writer);
                        $($field.write(writer);)*
                    })*
                }
            }

            pub fn parse(procedure: Procedure, arguments: &'a [u8]) -> Result<Self, Malformed> {
                let reader = &mut Reader::new(arguments);
                match procedure {
                    Procedure::Null => Ok(Self::Null),
                    Procedure::Write => Self::parse_write(reader),
                    Procedure::ReadDirectory => Self::parse_list(reader, false),
                    Procedure::ReadDirectoryPlus => Self::parse_list(reader, true),
                    $(Procedure::$name => Ok(Self::$name {
                        $file: Xdr::parse(reader)?
                        $(, $field: Xdr::parse(reader)?)*
                    }),)*
                }
            }
        }
    };
}

requests! {
    GetAttributes { file: FileHandle }
    /// SETATTR. With a `guard`, the server sets the attributes only if the file last changed at that time.
    SetAttributes { file: FileHandle, set: SetAttributes, guard: Option<Time> }
    Lookup { at: FileHandle, name: &'a [u8] }
    /// ACCESS, for a mask of rights.
    Access { file: FileHandle, rights: u32 }
    ReadLink { link: FileHandle }
    Read { file: FileHandle, offset: u64, bytes: u32 }
    Create { at: FileHandle, name: &'a [u8], how: How }
    MakeDirectory { at: FileHandle, name: &'a [u8], set: SetAttributes }
    SymbolicLink { at: FileHandle, name: &'a [u8], set: SetAttributes, target: &'a [u8] }
    MakeNode { at: FileHandle, name: &'a [u8], node: Node }
    Remove { at: FileHandle, name: &'a [u8] }
    RemoveDirectory { at: FileHandle, name: &'a [u8] }
    Rename { from_at: FileHandle, from: &'a [u8], to_at: FileHandle, to: &'a [u8] }
    /// LINK: adds a name to a file.
    Link { file: FileHandle, at: FileHandle, name: &'a [u8] }
    FsStat { root: FileHandle }
    FsInfo { root: FileHandle }
    PathConf { file: FileHandle }
    /// COMMIT; from `offset` to the end of the file if `bytes` is 0.
    Commit { file: FileHandle, offset: u64, bytes: u32 }
}

impl<'a> Request<'a> {
    /// Returns the maximum number of data bytes in the answer.
    pub fn data_bytes(&self) -> usize {
        match *self {
            Self::Read { bytes, .. } | Self::List { bytes, .. } => bytes as usize,
            _ => 0,
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

    /// Writes the request as a call with this XID.
    pub fn write(&self, message: &mut Message, xid: u32, credential: &Credential) {
        let mut writer = message.begin(xid, NFS, self.procedure() as u32, Some(credential));
        self.write_arguments(&mut writer);
        message.end_with(self.pages(), 0);
    }

    /// Returns the data of the request if it is in pages.
    pub(crate) fn pages(&self) -> Option<&'a PageRun> {
        match *self {
            Self::Write {
                data: Payload::Pages(pages),
                ..
            } => Some(pages),
            _ => None,
        }
    }

    fn parse_write(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let file = FileHandle::parse(reader)?;
        let (offset, count) = (reader.u64()?, reader.u32()?);
        let stability = Stability::parse(reader)?;
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

    fn parse_list(reader: &mut Reader<'a>, plus: bool) -> Result<Self, Malformed> {
        let directory = FileHandle::parse(reader)?;
        let (cookie, verifier) = (reader.u64()?, reader.u64()?);
        if plus {
            reader.u32()?; // dircount, a mere hint
        }
        Ok(Self::List {
            directory,
            cookie,
            verifier,
            bytes: reader.u32()?,
            plus,
        })
    }
}

/// `stable_how`.
impl Xdr<'_> for Stability {
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(*self as u32);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.u32()? {
            0 => Ok(Self::Unstable),
            1 => Ok(Self::Data),
            2 => Ok(Self::File),
            _ => Err(Malformed),
        }
    }
}

/// Returns a verifier for an exclusive CREATE that differs for each call of each client.
pub fn create_verifier(client: u64, call: u64) -> u64 {
    client.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ call
}

#[cfg(test)]
mod tests;
