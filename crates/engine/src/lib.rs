//! Makes the load of one mix: joins a workload and a protocol in one client loop, and counts what becomes of it.
//!
//! `mix` says what to run and runs it, `client` is the loop, `protocol` the contract, `web` HTTP under it, `tally` the
//! counting. No opinions: what the counts mean is judged elsewhere. Not for: more than one mix at a time in a process
//! where the generator's own CPU time matters.

mod client;
mod mix;
mod protocol;
mod tally;
mod web;

pub use mix::{Load, LoadError, Mix, Snapshot, WorkloadKind};
pub use protocol::{Performed, Protocol};
pub use tally::{ClassTally, ClientTally, FaultTally, GeneratorTally, MixTally, SecondTally};
