//! The two questions before NFS itself: on which port a program is (RFC 1833, portmapper version 2), and the handle of an
//! export's root (RFC 1813, Appendix I).

use super::{FileHandle, Malformed, Message, Program, Reader, MOUNT, PORTMAPPER};
use crate::wire::Credential;

const GETPORT: u32 = 3;
const MNT: u32 = 1;
const UMNT: u32 = 3;
const TCP: u32 = 6;
const MAX_FLAVORS: u32 = 64;

/// Writes the question for a program's port over TCP.
pub fn port_of(message: &mut Message, xid: u32, program: Program) {
    let mut writer = message.begin(xid, PORTMAPPER, GETPORT, None);
    writer.u32(program.0).u32(program.1).u32(TCP).u32(0);
    message.end();
}

/// Reads the answer to `port_of`; None where the program is not there.
///
/// # Errors
/// Where it is no port.
pub fn parse_port(results: &[u8]) -> Result<Option<u16>, Malformed> {
    let port = u16::try_from(Reader::new(results).u32()?).map_err(|_| Malformed)?;
    Ok((port > 0).then_some(port))
}

/// Writes the question for an export's root.
pub fn mount(message: &mut Message, xid: u32, export: &str, credential: &Credential) {
    message
        .begin(xid, MOUNT, MNT, Some(credential))
        .opaque(export.as_bytes());
    message.end();
}

/// Writes that the export is not used any more.
pub fn unmount(message: &mut Message, xid: u32, export: &str, credential: &Credential) {
    message
        .begin(xid, MOUNT, UMNT, Some(credential))
        .opaque(export.as_bytes());
    message.end();
}

/// The answer to `mount`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The root.
    pub root: FileHandle,
    /// The flavours of authentication that are taken there; none: the server does not say.
    pub flavors: Vec<u32>,
}

/// Reads the answer to `mount`: the root, or the status (`mountstat3`) of a refusal.
///
/// # Errors
/// Where it breaks the format.
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
