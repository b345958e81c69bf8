//! The reference SMB server: SMB 2.0.2 to 3.1.1 with files in memory. The generator is measured against it,
//! and it serves if no other file server is installed.
//!
//! It implements the protocol independently (MS-SMB2, MS-FSCC, MS-FSA), so that each side checks the other.
//! It uses only these parts of `dyno-smb`: authentication, keys, signatures, encryption, and the dialect and
//! cipher types. Each thread has its own event loop and counters. The files of a share are under one lock. A
//! request costs one `recv`, one `send` and its share of an `epoll_wait`.
//!
//! `connection.rs` splits the stream, `dialogue.rs` parses messages and answers them, and `requests` parses
//! and writes bodies. `volume` has the files with their sharing modes, oplocks, leases (including directory
//! leases), locks, and durable and persistent handles. A session may have several connections (`session.rs`).
//! The server grants and breaks oplocks and leases. It answers a FLUSH immediately, because there is no disk.
//! `pipes.rs` is IPC$, so that clients can list the shares. On request, the server injects a named fault
//! (`fault.rs`).
//!
//! SMB 1, Kerberos, streams, security descriptors, other pipes and printers are not supported. It only serves
//! load generators and their tests.

mod bytes;
mod connection;
mod connections;
mod credits;
mod dialogue;
mod fault;
mod host;
mod logon;
mod message;
mod misbehaviour;
mod negotiate;
mod notices;
mod options;
mod pipes;
mod requests;
mod server;
mod session;
mod status;
mod volume;

pub use dyno_smb::wire::Dialect;
pub use fault::{faults, Fault, Kind as FaultKind};
pub use options::{Encryption, Options, Signing};
pub use server::Server;
