//! Makes the load of one mix: joins a workload and a protocol in one client loop, and counts what becomes of it.
//!
//! `mix` says what to run, `load` runs it, `client` is the loop, `protocol` the contract, `web` and `files` what is done
//! over HTTP and on file servers, `tally` the counting. `look` asks a file server a little before its load, `removal`
//! takes away what clients have left there. No opinions: what the counts mean is judged elsewhere. Not for: more than
//! one mix at a time in a process where the generator's own CPU time matters.

mod client;
mod files;
mod files_client;
mod load;
mod look;
mod mix;
mod names;
mod protocol;
mod removal;
mod sampling;
mod start;
mod tally;
mod web;
mod web_client;

pub use files::{FilesWork, FilesWorkload, Workspaces};
pub use load::{Load, LoadError, Snapshot};
pub use look::{look, ShareLook};
pub use mix::{Mix, Work};
pub use protocol::{Performed, Protocol};
pub use removal::{LeftOver, Removal};
pub use tally::{
    ClassTally, ClientTally, FaultTally, FilesTally, GeneratorTally, MixTally, SecondTally, SessionKind,
};
pub use web::{WebWork, WebWorkload};
