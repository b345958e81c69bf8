//! The reference NFS server: NFSv3 with MOUNT, and NFSv4.1, on one TCP port, with files in memory. A
//! portmapper, and UDP for all but NFSv4.1 (`datagrams.rs`), are optional. The generator is measured against
//! it, and it serves if no other NFS server is installed.
//!
//! The codec of `dyno-nfs` is common to server and generator. Tests against libnfs, Linux's client and
//! Ganesha check that both are correct. Each thread has its own event loop and counters. The files of an
//! export are under one lock.
//!
//! `connection.rs` splits the stream, `dialogue.rs` parses calls, `programs.rs` answers the portmapper and
//! MOUNT, `procedures.rs` NFSv3, `v4` and `state4` NFSv4.1, with read delegations (`recall.rs`). `volume` has
//! the files. COMMIT is honoured or ignored, depending on the options. A restart of the server
//! (`Server::restart`) loses unstable writes and changes the write verifier. Replies to calls that may not be
//! repeated are cached and sent again for the same call (`replies.rs`). On request, the server injects a
//! named fault.
//!
//! NFSv4.0 and 4.2, NFSv4.1 over UDP, locks over NFSv3 (NLM), access control and access times are not
//! supported. Modes and owners are stored and reported, but every accepted client may do everything. It only
//! serves load generators and their tests.

mod connection;
mod datagrams;
mod dialogue;
mod fault;
mod host;
mod misbehaviour;
mod options;
mod procedures;
mod programs;
mod recall;
mod replies;
mod server;
mod state4;
mod v4;
mod volume;

pub use dialogue::{After, Dialogue};
pub use fault::{faults, Fault, Kind as FaultKind};
pub use options::{Flush, Options};
pub use server::Server;
