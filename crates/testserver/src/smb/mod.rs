//! The reference SMB server: SMB 2.0.2 to 3.1.1 over files in memory, what the generator is measured against, and
//! the file server where no other is installed.
//!
//! It reads the protocol on its own account (MS-SMB2, MS-FSCC, MS-FSA), and so checks the generator's codec: of
//! `dyno-smb` it uses authentication, keys, signatures and encryption, and the names of dialects and ciphers that
//! these take as arguments. Each thread has an event loop and counters of its own; the files of a share are under
//! one lock. A request costs one `recv`, one `send` and its share of an `epoll_wait`.
//!
//! `connection.rs` cuts the stream, `dialogue.rs` takes messages apart and answers, `requests` reads and writes
//! bodies, `volume` is the files, their sharing, oplocks, leases (of directories, too), locks, and durable and
//! persistent handles. A session may have several connections (`session.rs`). Oplocks and leases are given and
//! taken back; a FLUSH is answered at once, since nothing is on a disk. `pipes.rs` is IPC$, so that clients can
//! list the shares. On request the server commits a named fault (`fault.rs`).
//!
//! Not for: SMB 1, Kerberos, streams, security descriptors, other pipes and printers; or serving anybody but a load
//! generator and its tests.

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
