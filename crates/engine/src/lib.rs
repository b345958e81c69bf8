//! Makes the load of one mix: joins a workload and a protocol in one client loop, and counts what becomes of it.
//!
//! `spec` is the document that says what to run, `kind` the contract of a kind of work, `kinds` the table of them, with
//! `web` and `files` for what is done over HTTP and on file servers. `prepared` is a mix that was checked, `load` runs it,
//! `client` is the loop, `arrival` says when an operation is due, `schedule` when one comes that waits for nobody,
//! `counting` counts and `tally` is the document of what was counted. No opinions: what the counts mean is judged elsewhere. Not for: more than one mix at a time in a process
//! where the generator's own CPU time matters.

mod arrival;
mod bonnie;
mod break_tally;
mod client;
mod client_rows;
mod counting;
mod digest;
mod engine_thread;
mod failover_tally;
mod files;
mod job;
mod journal;
mod kind;
mod kinds;
mod load;
mod merging;
mod mix;
mod open_tally;
mod prepared;
mod problems;
mod protocol;
mod recent;
mod removal;
mod sampling;
mod scenario;
mod schedule;
mod spec;
mod stall;
mod start;
mod tally;
mod time_fields;
mod web;
mod workspaces;

pub use arrival::{Arrival, Law};
pub use bonnie::BonnieSpec;
pub use break_tally::BreakTally;
pub use client_rows::ClientTally;
pub use failover_tally::{FailoverTally, OutageTally};
pub use job::{FileJob, FileTask, GateKind, JobControl, JobFailure, JobLevels, JobStage, StepsSpec};
pub use journal::{Entry, Journal, JournalSpec, LeftOfFile};
pub use kind::{Answer, Look, Material, OpenError, Secrets};
pub use load::{Load, LoadError, Snapshot};
pub use open_tally::OpenTally;
pub use prepared::{OpenTarget, PreparedMix};
pub use problems::Problems;
pub use removal::{LeftOver, Removal};
pub use scenario::{FilesSpec, MetadataSpec, StepAction, StepSpec, StreamsSpec, TreeSpec};
pub use spec::{EngineSpec, MixSpec, PartSpec, StartRule, WindowSpec};
pub use tally::{
    schema, CallTally, ErrorTally, GeneratorTally, HandshakeTally, MixTally, OperationTally, RequestTally,
    SecondTally, SessionTally,
};
pub use web::session_problems;
pub use workspaces::Workspaces;
