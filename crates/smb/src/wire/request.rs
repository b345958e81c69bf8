//! Request bodies, each written after its header as a part of a message.

use super::bytes::{pad_to_8, put};
use super::command::Command;
use super::header::HEADER_BYTES;
use super::message::Message;
use super::{oplock, FileId};

/// Access rights of an open (MS-SMB2 2.2.13.1.1). Only the needed rights are requested: a server may deny `GENERIC_ALL`
/// on another user's file although it would grant each needed right.
pub mod access {
    /// Attributes and synchronization: does not affect the sharing modes or oplocks of others.
    pub const ATTRIBUTES: u32 = 0x0010_0080;
    /// Attributes, and the names in a directory.
    pub const LIST: u32 = 0x0000_0001 | ATTRIBUTES;
    /// The rights to which a Windows client maps `GENERIC_READ`.
    pub const READ: u32 = 0x0012_0089;
    /// `GENERIC_WRITE`, and reading attributes.
    pub const WRITE: u32 = 0x0012_0196;
    pub const READ_WRITE: u32 = READ | WRITE;
    pub const DELETE: u32 = 0x0001_0000 | ATTRIBUTES;
}

/// Options of an open (MS-SMB2 2.2.13).
pub mod create_options {
    /// The path must be a directory.
    pub const DIRECTORY: u32 = 0x0000_0001;
    /// The path must not be a directory.
    pub const NO_DIRECTORY: u32 = 0x0000_0040;
    /// The file is deleted when its last handle is closed.
    pub const DELETE_ON_CLOSE: u32 = 0x0000_1000;
}

const WRITE_THROUGH: u32 = 1;
/// Flag in the durable handle contexts of SMB 3.
const PERSISTENT: u32 = 2;
const IMPERSONATION: u32 = 2;
/// Other opens may read, write and delete the file.
const SHARE_ALL: u32 = 7;
const ATTRIBUTE_NORMAL: u32 = 0x80;
const ATTRIBUTE_DIRECTORY: u32 = 0x10;
/// Payload that one credit covers, in bytes (MS-SMB2 3.2.4.1.5).
const CREDIT_BYTES: u32 = 65536;
/// Upper bound on the size of a response without data: its fixed part and create contexts.
const SMALL_RESPONSE: u32 = 1024;
const EXCLUSIVE_LOCK: u32 = 0x02;
const UNLOCK: u32 = 0x04;
const FAIL_IMMEDIATELY: u32 = 0x10;
const INFO_FILE: u8 = 1;
const INFO_FILE_SYSTEM: u8 = 2;
const FILE_BASIC_INFORMATION: u8 = 4;
const FILE_RENAME_INFORMATION: u8 = 10;
const FILE_DISPOSITION_INFORMATION: u8 = 13;
const FILE_END_OF_FILE_INFORMATION: u8 = 20;
const FILE_NETWORK_OPEN_INFORMATION: u8 = 34;
const FILE_ID_BOTH_DIRECTORY_INFORMATION: u8 = 37;
const FILE_FS_FULL_SIZE_INFORMATION: u8 = 7;
const RESTART_SCANS: u8 = 1;
/// Flag of a lease: the parent directory's lease key is present.
const PARENT_LEASE_KEY_SET: u32 = 4;

/// Lease that an open requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRequest {
    pub key: u128,
    /// Bits of `oplock::LEASE_*`.
    pub state: u32,
    /// Whether to use the second form, which SMB 3.0 introduced. SMB 2.1 servers ignore the second form and grant
    /// nothing.
    pub second_form: bool,
    /// Key of the client's lease on the parent directory, so that the client's own changes don't break that
    /// lease. Only in the second form.
    pub parent: Option<u128>,
}

/// Create context that requests a durable handle or reconnects to one (MS-SMB2 2.2.13.2.3, 2.2.13.2.4,
/// 2.2.13.2.11, 2.2.13.2.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurableRequest {
    /// DHnQ of SMB 2: request a durable handle.
    First,
    /// DHnC: reconnect to this file.
    FirstAgain(FileId),
    /// DH2Q of SMB 3: request a durable handle.
    Second {
        /// Unique name of the open.
        create_guid: u128,
        /// Whether the handle also survives a restart of the server.
        persistent: bool,
    },
    /// DH2C: reconnect to this file.
    SecondAgain {
        file: FileId,
        /// The create GUID with which the file was opened.
        create_guid: u128,
        /// Whether a persistent handle was granted.
        persistent: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub struct CreateRequest<'a> {
    /// Prefix of `path`; empty, or without a trailing separator.
    pub base: &'a str,
    /// Components separated by `/`.
    pub path: &'a str,
    /// Bits of `access`.
    pub access: u32,
    /// CreateDisposition, as its number in the protocol.
    pub disposition: u32,
    /// Bits of `create_options`.
    pub options: u32,
    /// Level of `oplock`; ignored if there is a `lease`.
    pub oplock: u8,
    /// Lease to request instead of an oplock.
    pub lease: Option<LeaseRequest>,
    /// Durable handle to request or to reconnect to.
    pub durable: Option<DurableRequest>,
}

/// Returns the credit cost of a request that sends or requests `bytes` of data.
fn charge(bytes: u32) -> u16 {
    u16::try_from(bytes.saturating_sub(1) / CREDIT_BYTES + 1).unwrap_or(u16::MAX)
}

/// Appends `text` as a name, in UTF-16 and with backslashes for slashes. Returns the length in bytes.
fn push_name(bytes: &mut Vec<u8>, text: &str) -> usize {
    let start = bytes.len();
    for unit in text.encode_utf16() {
        let unit = if unit == u16::from(b'/') {
            u16::from(b'\\')
        } else {
            unit
        };
        bytes.extend_from_slice(&unit.to_le_bytes());
    }
    bytes.len() - start
}

/// Appends `base` and `path` as one name.
fn push_path(bytes: &mut Vec<u8>, base: &str, path: &str) -> usize {
    let between = if base.is_empty() || path.is_empty() {
        ""
    } else {
        "/"
    };
    push_name(bytes, base) + push_name(bytes, between) + push_name(bytes, path)
}

fn length_field(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes()
}

impl Message {
    /// Adds a SESSION_SETUP with a token (MS-SMB2 2.2.5). `previous`: the session that this one replaces,
    /// or 0. `binds`: whether the connection becomes another channel of the session.
    pub fn session_setup(&mut self, security_mode: u8, token: &[u8], previous: u64, binds: bool) {
        self.part(Command::SessionSetup, 1, CREDIT_BYTES);
        let mut fixed = [0; 24];
        put(&mut fixed, 0, 25u16.to_le_bytes());
        fixed[2] = u8::from(binds);
        fixed[3] = security_mode;
        put(&mut fixed, 12, (HEADER_BYTES as u16 + 24).to_le_bytes());
        put(&mut fixed, 14, length_field(token.len()));
        put(&mut fixed, 16, previous.to_le_bytes());
        self.body().extend_from_slice(&fixed);
        self.body().extend_from_slice(token);
    }

    /// Adds a TREE_CONNECT to `\\server\share` (2.2.9).
    pub fn tree_connect(&mut self, server: &str, share: &str) {
        self.part(Command::TreeConnect, 1, SMALL_RESPONSE);
        let body = self.body();
        let start = body.len();
        body.extend_from_slice(&[0; 8]);
        let length =
            push_name(body, "//") + push_name(body, server) + push_name(body, "/") + push_name(body, share);
        put(&mut body[start..], 0, 9u16.to_le_bytes());
        put(&mut body[start..], 4, (HEADER_BYTES as u16 + 8).to_le_bytes());
        put(&mut body[start..], 6, length_field(length));
    }

    /// Adds a TREE_DISCONNECT (2.2.11) or LOGOFF (2.2.7), which have no contents.
    pub fn empty(&mut self, command: Command) {
        self.part(command, 1, SMALL_RESPONSE);
        self.body().extend_from_slice(&[4, 0, 0, 0]);
    }

    /// Adds a CREATE (2.2.13).
    pub fn create(&mut self, request: &CreateRequest<'_>) {
        self.part(Command::Create, 1, SMALL_RESPONSE);
        let start = self.part_start();
        let is_directory = request.options & create_options::DIRECTORY != 0;
        let level = if request.lease.is_some() {
            oplock::LEASE
        } else {
            request.oplock
        };
        let attributes = if is_directory {
            ATTRIBUTE_DIRECTORY
        } else {
            ATTRIBUTE_NORMAL
        };
        let mut fixed = [0; 56];
        put(&mut fixed, 0, 57u16.to_le_bytes());
        fixed[3] = level;
        put(&mut fixed, 4, IMPERSONATION.to_le_bytes());
        put(&mut fixed, 24, request.access.to_le_bytes());
        put(&mut fixed, 28, attributes.to_le_bytes());
        put(&mut fixed, 32, SHARE_ALL.to_le_bytes());
        put(&mut fixed, 36, request.disposition.to_le_bytes());
        put(&mut fixed, 40, request.options.to_le_bytes());
        put(&mut fixed, 44, (HEADER_BYTES as u16 + 56).to_le_bytes());
        let body = self.body();
        let body_start = body.len();
        body.extend_from_slice(&fixed);
        let length = push_path(body, request.base, request.path);
        if length == 0 {
            // The share's root has an empty name, but the buffer must not be empty.
            body.extend_from_slice(&[0; 8]);
        }
        put(&mut body[body_start..], 46, length_field(length));
        if request.lease.is_some() || request.durable.is_some() {
            pad_to_8(body, start);
            let contexts_start = body.len();
            if let Some(lease) = &request.lease {
                push_lease(body, lease);
            }
            if let Some(durable) = request.durable {
                if request.lease.is_some() {
                    pad_to_8(body, contexts_start);
                    let distance = u32::try_from(body.len() - contexts_start).unwrap_or(0);
                    put(&mut body[contexts_start..], 0, distance.to_le_bytes());
                }
                push_durable(body, durable);
            }
            let offset = u32::try_from(contexts_start - start).unwrap_or(0);
            let length = u32::try_from(body.len() - contexts_start).unwrap_or(0);
            put(&mut body[body_start..], 48, offset.to_le_bytes());
            put(&mut body[body_start..], 52, length.to_le_bytes());
        }
    }

    /// Adds a CLOSE (2.2.15).
    pub fn close(&mut self, file: FileId) {
        self.part(Command::Close, 1, SMALL_RESPONSE);
        self.structure_and_file::<24>(24, 8, file, |_| ());
    }

    /// Adds a FLUSH (2.2.17).
    pub fn flush(&mut self, file: FileId) {
        self.part(Command::Flush, 1, SMALL_RESPONSE);
        self.structure_and_file::<24>(24, 8, file, |_| ());
    }

    /// Adds a READ (2.2.19).
    pub fn read(&mut self, file: FileId, offset: u64, bytes: u32) {
        self.part(Command::Read, charge(bytes), bytes.saturating_add(SMALL_RESPONSE));
        self.structure_and_file::<49>(49, 16, file, |fixed| {
            // Offset for the data in the response: directly after the fixed part.
            fixed[2] = 0x50;
            put(fixed, 4, bytes.to_le_bytes());
            put(fixed, 8, offset.to_le_bytes());
        });
    }

    /// Adds a WRITE (2.2.21) of `bytes` bytes, which follow as the message's tail. `through`: the server
    /// writes them to disk before it responds.
    pub fn write(&mut self, file: FileId, offset: u64, bytes: u32, through: bool) {
        self.part(Command::Write, charge(bytes), SMALL_RESPONSE);
        self.structure_and_file::<48>(49, 16, file, |fixed| {
            put(fixed, 2, (HEADER_BYTES as u16 + 48).to_le_bytes());
            put(fixed, 4, bytes.to_le_bytes());
            put(fixed, 8, offset.to_le_bytes());
            put(fixed, 44, (u32::from(through) * WRITE_THROUGH).to_le_bytes());
        });
        self.expect_tail(bytes as usize);
    }

    /// Adds a LOCK (2.2.26) that locks one range, exclusively and without waiting, or unlocks it if
    /// `release`.
    pub fn lock(&mut self, file: FileId, offset: u64, bytes: u64, release: bool) {
        self.part(Command::Lock, 1, SMALL_RESPONSE);
        let flags = if release {
            UNLOCK
        } else {
            EXCLUSIVE_LOCK | FAIL_IMMEDIATELY
        };
        self.structure_and_file::<48>(48, 8, file, |fixed| {
            put(fixed, 2, 1u16.to_le_bytes());
            put(fixed, 24, offset.to_le_bytes());
            put(fixed, 32, bytes.to_le_bytes());
            put(fixed, 40, flags.to_le_bytes());
        });
    }

    /// Adds a QUERY_DIRECTORY (2.2.33) for the names, sizes, times and attributes of the files that match
    /// `pattern`, in at most `room` bytes. `restart`: begin again with the first file.
    pub fn query_directory(&mut self, file: FileId, pattern: &str, room: u32, restart: bool) {
        self.part(
            Command::QueryDirectory,
            charge(room),
            room.saturating_add(SMALL_RESPONSE),
        );
        let start = self.body().len();
        self.structure_and_file::<32>(33, 8, file, |fixed| {
            fixed[2] = FILE_ID_BOTH_DIRECTORY_INFORMATION;
            fixed[3] = if restart { RESTART_SCANS } else { 0 };
            put(fixed, 24, (HEADER_BYTES as u16 + 32).to_le_bytes());
            put(fixed, 28, room.to_le_bytes());
        });
        let body = self.body();
        let length = push_name(body, pattern);
        put(&mut body[start..], 26, length_field(length));
    }

    /// Adds a QUERY_INFO (2.2.37) for sizes and attributes.
    pub fn query_file_info(&mut self, file: FileId) {
        self.query_info(file, INFO_FILE, FILE_NETWORK_OPEN_INFORMATION, 56);
    }

    /// Adds a QUERY_INFO for the space on the volume.
    pub fn query_space(&mut self, file: FileId) {
        self.query_info(file, INFO_FILE_SYSTEM, FILE_FS_FULL_SIZE_INFORMATION, 32);
    }

    fn query_info(&mut self, file: FileId, kind: u8, class: u8, room: u32) {
        self.part(Command::QueryInfo, 1, SMALL_RESPONSE);
        self.structure_and_file::<40>(41, 24, file, |fixed| {
            fixed[2] = kind;
            fixed[3] = class;
            put(fixed, 4, room.to_le_bytes());
        });
    }

    /// Adds a SET_INFO (2.2.39) that sets the end of the file.
    pub fn set_end(&mut self, file: FileId, bytes: u64) {
        self.set_info(file, FILE_END_OF_FILE_INFORMATION, |body| {
            body.extend_from_slice(&bytes.to_le_bytes());
        });
    }

    /// Adds a SET_INFO that sets the last write time. Other times and the attributes stay unchanged (MS-FSCC 2.4.7).
    pub fn set_write_time(&mut self, file: FileId, filetime: u64) {
        self.set_info(file, FILE_BASIC_INFORMATION, |body| {
            let start = body.len();
            body.extend_from_slice(&[0; 40]);
            put(&mut body[start..], 16, filetime.to_le_bytes());
        });
    }

    /// Adds a SET_INFO that deletes the file when its last handle is closed.
    pub fn set_disposition(&mut self, file: FileId) {
        self.set_info(file, FILE_DISPOSITION_INFORMATION, |body| body.push(1));
    }

    /// Adds a SET_INFO that renames the file. The new name must not exist.
    pub fn rename(&mut self, file: FileId, base: &str, to: &str) {
        self.set_info(file, FILE_RENAME_INFORMATION, |body| {
            let start = body.len();
            body.extend_from_slice(&[0; 20]);
            let length = u32::try_from(push_path(body, base, to)).unwrap_or(0);
            put(&mut body[start..], 16, length.to_le_bytes());
        });
    }

    fn set_info(&mut self, file: FileId, class: u8, value: impl FnOnce(&mut Vec<u8>)) {
        self.part(Command::SetInfo, 1, SMALL_RESPONSE);
        let start = self.body().len();
        self.structure_and_file::<32>(33, 16, file, |fixed| {
            fixed[2] = INFO_FILE;
            fixed[3] = class;
            put(fixed, 8, (HEADER_BYTES as u16 + 32).to_le_bytes());
        });
        let body = self.body();
        value(body);
        let length = u32::try_from(body.len() - start - 32).unwrap_or(0);
        put(&mut body[start..], 4, length.to_le_bytes());
    }

    /// Adds an OPLOCK_BREAK acknowledgement of an oplock break (2.2.24.1).
    pub fn acknowledge_oplock(&mut self, file: FileId, level: u8) {
        self.part(Command::OplockBreak, 1, SMALL_RESPONSE);
        self.structure_and_file::<24>(24, 8, file, |fixed| fixed[2] = level);
    }

    /// Adds an OPLOCK_BREAK acknowledgement of a lease break (2.2.24.2).
    pub fn acknowledge_lease(&mut self, key: u128, state: u32) {
        self.part(Command::OplockBreak, 1, SMALL_RESPONSE);
        let mut fixed = [0; 36];
        put(&mut fixed, 0, 36u16.to_le_bytes());
        put(&mut fixed, 8, key.to_le_bytes());
        put(&mut fixed, 24, state.to_le_bytes());
        self.body().extend_from_slice(&fixed);
    }

    /// Adds a body of `N` bytes with the structure size at its start and `file` at `file_offset`.
    fn structure_and_file<const N: usize>(
        &mut self,
        structure: u16,
        file_offset: usize,
        file: FileId,
        fill: impl FnOnce(&mut [u8; N]),
    ) {
        let mut fixed = [0; N];
        put(&mut fixed, 0, structure.to_le_bytes());
        put(&mut fixed, file_offset, file.0);
        fill(&mut fixed);
        self.body().extend_from_slice(&fixed);
        self.note_file(HEADER_BYTES + file_offset);
    }
}

/// Appends the create context of a lease (2.2.13.2.8, 2.2.13.2.10).
fn push_lease(bytes: &mut Vec<u8>, lease: &LeaseRequest) {
    let mut data = [0; 52];
    put(&mut data, 0, lease.key.to_le_bytes());
    put(&mut data, 16, lease.state.to_le_bytes());
    if let Some(parent) = lease.parent {
        put(&mut data, 20, PARENT_LEASE_KEY_SET.to_le_bytes());
        put(&mut data, 32, parent.to_le_bytes());
    }
    let data_bytes = if lease.second_form { 52 } else { 32 };
    push_context(bytes, *b"RqLs", &data[..data_bytes]);
}

/// Appends the create context of a durable handle. The server chooses the timeout.
fn push_durable(bytes: &mut Vec<u8>, durable: DurableRequest) {
    let mut data = [0; 36];
    let flags = |persistent| if persistent { PERSISTENT } else { 0 };
    let (name, data_bytes) = match durable {
        DurableRequest::First => (*b"DHnQ", 16),
        DurableRequest::FirstAgain(file) => {
            put(&mut data, 0, file.0);
            (*b"DHnC", 16)
        }
        DurableRequest::Second {
            create_guid,
            persistent,
        } => {
            put(&mut data, 4, flags(persistent).to_le_bytes());
            put(&mut data, 16, create_guid.to_le_bytes());
            (*b"DH2Q", 32)
        }
        DurableRequest::SecondAgain {
            file,
            create_guid,
            persistent,
        } => {
            put(&mut data, 0, file.0);
            put(&mut data, 16, create_guid.to_le_bytes());
            put(&mut data, 32, flags(persistent).to_le_bytes());
            (*b"DH2C", 36)
        }
    };
    push_context(bytes, name, &data[..data_bytes]);
}

/// Appends a create context (2.2.13.2). The context is the last one unless the caller sets its `Next` field.
fn push_context(bytes: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    const NAME_AND_GAP: usize = 8;
    let mut head = [0; 16 + NAME_AND_GAP];
    put(&mut head, 4, 16u16.to_le_bytes());
    put(&mut head, 6, 4u16.to_le_bytes());
    put(&mut head, 10, (16 + NAME_AND_GAP as u16).to_le_bytes());
    put(
        &mut head,
        12,
        u32::try_from(data.len()).unwrap_or(0).to_le_bytes(),
    );
    put(&mut head, 16, name);
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Link, FRAME_BYTES};

    fn check(write: impl FnOnce(&mut Message), expected: &[(Command, usize)]) {
        let mut message = Message::default();
        message.begin(Link::default(), 0);
        write(&mut message);
        message.end();
        let parts: Vec<_> = message
            .parts()
            .map(|part| (part.command, part.end - part.start))
            .collect();
        assert_eq!(parts, expected);
        let frame = u32::from_be_bytes(message.bytes()[..4].try_into().expect("four bytes"));
        assert_eq!(frame as usize, message.sent_bytes() - FRAME_BYTES);
    }

    fn create(path: &str, lease: Option<LeaseRequest>) -> CreateRequest<'_> {
        CreateRequest {
            base: "b",
            path,
            access: access::READ,
            disposition: 1,
            options: 0,
            oplock: oplock::NONE,
            lease,
            durable: None,
        }
    }

    #[test]
    fn a_create_has_the_length_of_its_name_and_lease() {
        let lease = |second_form| {
            Some(LeaseRequest {
                key: 1,
                state: 7,
                second_form,
                parent: None,
            })
        };
        check(
            |message| message.create(&create("a/c", None)),
            &[(Command::Create, 120 + 10)],
        );
        check(
            |message| message.create(&create("a/c", lease(false))),
            &[(Command::Create, 136 + 24 + 32)],
        );
        check(
            |message| message.create(&create("a/c", lease(true))),
            &[(Command::Create, 136 + 24 + 52)],
        );
    }

    #[test]
    fn all_parts_of_a_compound_but_the_last_are_padded() {
        check(
            |message| {
                message.create(&create("x", None));
                message.rename(FileId::OF_THE_REQUEST_BEFORE, "b", "yz");
                message.close(FileId::OF_THE_REQUEST_BEFORE);
            },
            &[
                (Command::Create, 128),
                (Command::SetInfo, 128),
                (Command::Close, 88),
            ],
        );
    }

    #[test]
    fn data_sent_after_the_message_count_in_the_frame() {
        check(
            |message| message.write(FileId::default(), 0, 70_000, false),
            &[(Command::Write, 112)],
        );
    }

    #[test]
    fn every_64_kib_cost_one_credit() {
        for (bytes, credits) in [(0, 1), (1, 1), (65_536, 1), (65_537, 2), (1 << 20, 16)] {
            assert_eq!(charge(bytes), credits, "{bytes}");
        }
    }

    #[test]
    fn names_are_utf_16_with_backslashes() {
        let mut bytes = Vec::new();
        assert_eq!(push_path(&mut bytes, "", "a/\u{e9}\u{1f600}"), 10);
        assert_eq!(bytes, [0x61, 0, 0x5c, 0, 0xe9, 0, 0x3d, 0xd8, 0, 0xde]);
    }
}
