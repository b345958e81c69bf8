//! The two requests before NFS: the port of a program (RFC 1833, portmapper version 2), and the handle of
//! an export's root (RFC 1813, Appendix I).

use super::{FileHandle, Malformed, Message, Program, Reader, Transport, Writer, Xdr, MOUNT, PORTMAPPER};
use crate::wire::Credential;

/// Portmapper: port of a program.
pub const GETPORT: u32 = 3;
/// MOUNT: root of an export.
pub const MNT: u32 = 1;
/// MOUNT: list of mounts and their clients.
pub const DUMP: u32 = 2;
/// MOUNT: the client no longer uses an export.
pub const UMNT: u32 = 3;
/// MOUNT: the client no longer uses any export.
pub const UMNTALL: u32 = 4;
/// MOUNT: list of exports.
pub const EXPORT: u32 = 5;
const MAX_FLAVORS: u32 = 64;
/// `MNTPATHLEN`.
const MAX_PATH_BYTES: usize = 1024;

/// Writes a request for a program's port.
pub fn port_of(message: &mut Message, xid: u32, program: Program, transport: Transport) {
    let mut writer = message.begin(xid, PORTMAPPER, GETPORT, None);
    writer
        .u32(program.0)
        .u32(program.1)
        .u32(transport.number())
        .u32(0);
    message.end();
}

/// Parses the answer to `port_of`; None if the program is not registered.
///
/// # Errors
/// The answer is not a port.
pub fn parse_port(results: &[u8]) -> Result<Option<u16>, Malformed> {
    let port = u16::try_from(Reader::new(results).u32()?).map_err(|_| Malformed)?;
    Ok((port > 0).then_some(port))
}

/// Parses the arguments of `port_of`: the program with its version, and the transport; None for an unknown
/// transport.
pub fn parse_port_of(arguments: &[u8]) -> Result<Option<(Program, Transport)>, Malformed> {
    let mut reader = Reader::new(arguments);
    let program = Program(reader.u32()?, reader.u32()?);
    Ok(Transport::of_number(reader.u32()?).map(|transport| (program, transport)))
}

/// Parses the arguments of `mount` and `unmount`: the path of an export.
pub fn parse_path(arguments: &[u8]) -> Result<&[u8], Malformed> {
    Reader::new(arguments).opaque(MAX_PATH_BYTES)
}

/// Writes a request for an export's root.
pub fn mount(message: &mut Message, xid: u32, export: &str, credential: &Credential) {
    message
        .begin(xid, MOUNT, MNT, Some(credential))
        .opaque(export.as_bytes());
    message.end();
}

/// Writes the notice that the export is no longer in use.
pub fn unmount(message: &mut Message, xid: u32, export: &str, credential: &Credential) {
    message
        .begin(xid, MOUNT, UMNT, Some(credential))
        .opaque(export.as_bytes());
    message.end();
}

/// Answer to `mount`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    pub root: FileHandle,
    /// Accepted authentication flavors; empty if the server does not report them.
    pub flavors: Vec<u32>,
}

impl Mounted {
    /// Appends the answer to `mount`, without the status before it.
    pub fn write(&self, writer: &mut Writer<'_>) {
        self.root.write(writer);
        writer.u32(u32::try_from(self.flavors.len()).unwrap_or(0));
        for flavor in &self.flavors {
            writer.u32(*flavor);
        }
    }
}

/// Appends the list of exports, each available to all clients.
pub fn write_exports<'a>(paths: impl Iterator<Item = &'a str>, writer: &mut Writer<'_>) {
    for path in paths {
        writer.u32(1).opaque(path.as_bytes()).u32(0);
    }
    writer.u32(0);
}

/// Parses the answer to `mount`: the root, or the status (`mountstat3`) of a refusal.
pub fn parse_mount(results: &[u8]) -> Result<Result<Mounted, u32>, Malformed> {
    let mut reader = Reader::new(results);
    let status = reader.u32()?;
    if status != 0 {
        return Ok(Err(status));
    }
    let root = FileHandle::parse(&mut reader)?;
    let count = reader.u32()?;
    if count > MAX_FLAVORS {
        return Err(Malformed);
    }
    let flavors = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
    Ok(Ok(Mounted { root, flavors }))
}
