//! Wire formats as pure functions of bytes: XDR (RFC 4506), RPC messages (RFC 5531), and the arguments and
//! results of NFSv3, MOUNT and the portmapper (RFC 1813, RFC 1833).
//!
//! Client and server share each definition: what one side writes, the other parses. Received data is
//! untrusted: every length is bounded, and format errors are [`Malformed`].

mod arguments;
pub mod attribute4;
mod attributes;
mod directory;
mod mount;
pub mod operation4;
mod records;
mod request;
mod response;
mod rpc;
mod session4;
mod xdr;

pub use arguments::{How, Node, SetAttributes, SetTime};
pub use attribute4::Bitmap;
pub use attributes::{
    Attributes3, FileHandle, Time, Wcc, WccBefore, DIRECTORY, MAX_HANDLE4_BYTES, MAX_HANDLE_BYTES, REGULAR,
    SYMBOLIC_LINK,
};
pub use directory::{end_entries, Entries, Entry};
pub use mount::{
    mount, parse_mount, parse_path, parse_port, parse_port_of, port_of, unmount, write_exports, Mounted,
    DUMP, EXPORT, GETPORT, MNT, UMNT, UMNTALL,
};
pub use records::{Records, Transport};
pub use request::{create_verifier, Payload, Procedure, Request};
pub use response::{
    parse_fs_info, parse_fs_stat, parse_read, parse_write, write_fs_stat, write_path_conf, write_read,
    Committed, Created, Found, FsInfo, Read, Space, Written,
};
pub use rpc::{
    begin_reply, end_reply, reject, Body, Credential, Header, Message, Program, Rejection, AUTH_NONE,
    AUTH_SYS, MOUNT, NFS, PORTMAPPER, RECORD_MARK_BYTES,
};
pub use session4::{Channel, Stateid};
pub use xdr::{parse, Reader, Writer, Xdr, MAX_NAME_BYTES};

use dyno_measure::{Failure, Fault};

/// Received data is malformed, or exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        Fault::MalformedMessage.into()
    }
}
