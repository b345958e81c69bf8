//! The reference NFS server: NFSv3 with MOUNT and NFSv4.1 on one TCP port, and if wanted a portmapper, and UDP for
//! all but NFSv4.1 (`datagrams.rs`), over files in memory. What the generator is measured against, and the NFS
//! server where no other is installed.
//!
//! It shares the codec of `dyno-nfs` with the generator: what one side writes the other parses. That both are right
//! is held against others: libnfs, Linux's client, Ganesha. Each thread has an event loop and counters of its own;
//! the files of an export are under one lock.
//!
//! `connection.rs` cuts the stream, `dialogue.rs` takes calls apart, `programs.rs` answers the portmapper and
//! MOUNT, `procedures.rs` NFSv3, `v4` and `state4` NFSv4.1, whose clients are given read delegations (`recall.rs`);
//! `volume` is the files. COMMIT is honoured or ignored as is chosen: unstable writes are lost when the server
//! starts anew (`Server::restart`), which also gives it another write verifier. A reply to what can't be carried
//! out twice is kept, and given again to the same call (`replies.rs`). On request the server commits a named fault.
//!
//! Not for: NFSv4.0 and 4.2, NFSv4.1 over UDP, locks over NFSv3 (NLM), access control (whoever is let in may do
//! everything; modes and owners are kept and told), times of access; or serving anybody but a load generator and
//! its tests.

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
