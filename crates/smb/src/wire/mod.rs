//! Format of SMB2 and SMB3 messages (MS-SMB2, section 2.2): requests are written into a reusable buffer,
//! responses are parsed in place.
//!
//! Everything here is a pure function of bytes, without the state of a session. A received length or offset
//! is checked against the message before use.

mod bytes;
mod command;
mod directory;
mod header;
mod malformed;
mod message;
mod negotiate;
mod request;
mod response;

pub use bytes::Parsed;
pub use command::Command;
pub use header::{flags, Header, HEADER_BYTES, PROTOCOL_ID, TRANSFORM_ID};
pub use malformed::{in_response_to, Field, Malformed};
pub use message::{Link, Message, Part, FRAME_BYTES, MAX_PARTS};
pub use negotiate::{
    capabilities, parse_negotiated_again, security, write_negotiate, Cipher, Dialect, NegotiateRequest,
    NegotiateResponse, NegotiatedAgain, SigningAlgorithm, CONTEXT_ENCRYPTION, CONTEXT_PREAUTH,
    CONTEXT_SIGNING, SHA_512,
};
pub use request::{access, create_options, CreateRequest, DurableRequest, LeaseRequest};
pub use response::{
    parse_break, parse_create, parse_data, parse_durable, parse_entries, parse_error, parse_file_info,
    parse_session_setup, parse_space_info, parse_structure, parse_tree_connect, parse_write, BreakNotice,
    Created, SessionSetup, TreeConnect,
};

use std::time::{SystemTime, UNIX_EPOCH};

/// Identifies an open file on the server (MS-SMB2 2.2.14.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileId(pub [u8; 16]);

impl FileId {
    /// In a compound: the file that the previous request opened or used (MS-SMB2 3.2.4.1.4).
    pub const OF_THE_REQUEST_BEFORE: Self = Self([0xff; 16]);
}

/// Time from 1601 to 1970, in 100 ns.
const FILETIME_OF_1970: u64 = 116_444_736_000_000_000;

/// Returns the current time in 100 ns since 1601 (MS-DTYP 2.3.3).
pub fn filetime_now() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos() / 100).unwrap_or(0) + FILETIME_OF_1970
}

/// Oplock levels and lease state bits (MS-SMB2 2.2.13).
pub mod oplock {
    pub const NONE: u8 = 0x00;
    /// Level II: read caching.
    pub const LEVEL_II: u8 = 0x01;
    /// Exclusive: read and write caching.
    pub const EXCLUSIVE: u8 = 0x08;
    /// Batch: read, write and handle caching.
    pub const BATCH: u8 = 0x09;
    /// A lease, described by a create context.
    pub const LEASE: u8 = 0xff;
    pub const LEASE_READ: u32 = 1;
    /// Lease state: handle caching.
    pub const LEASE_HANDLE: u32 = 2;
    pub const LEASE_WRITE: u32 = 4;
}
