//! The formats: pure functions of bytes. XDR (RFC 4506), RPC messages (RFC 5531), and the arguments and results of
//! NFSv3, MOUNT and the portmapper (RFC 1813, RFC 1833).
//!
//! What comes from a server is hostile: every length is bounded, and what breaks the format is [`Malformed`].

mod attributes;
mod directory;
mod mount;
mod request;
mod response;
mod rpc;
mod xdr;

pub use attributes::{Attributes3, FileHandle, Wcc, WccBefore, MAX_HANDLE_BYTES};
pub use directory::{Entries, Entry};
pub use mount::{mount, parse_mount, parse_port, port_of, unmount, Mounted};
pub use request::{create_verifier, Procedure, Request, SetAttributes, SetTime};
pub use response::{
    parse_commit, parse_create, parse_fs_info, parse_fs_stat, parse_get_attributes, parse_lookup, parse_read,
    parse_wcc, parse_write, Committed, Created, Found, FsInfo, Read, Space, Written,
};
pub use rpc::{Body, Credential, Message, Program, Records, MOUNT, NFS, PORTMAPPER, RECORD_MARK_BYTES};
pub use xdr::{Reader, Writer};

use dyno_measure::{Failure, Fault};

/// What came does not follow the format, or passes a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        Fault::MalformedMessage.into()
    }
}
