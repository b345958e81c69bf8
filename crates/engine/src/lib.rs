//! Load of one level: joins a workload and a protocol in one client loop, and counts the results.
//!
//! `spec` is the level document, `kind` the interface of a kind of work, `kinds` their table; `web`, `files`
//! and `objects` contain the work. `prepared` is a checked level, `load` runs it, `client` is the loop,
//! `arrival` and `schedule` determine due times, `counting` counts, and `tally` is the resulting document.
//! Run only one level at a time in a process if the generator's CPU time matters.

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
mod level;
mod load;
mod merging;
mod objects;
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

pub use arrival::{Arrival, Law, OpenArrivals};
pub use bonnie::BonnieSpec;
pub use break_tally::BreakTally;
pub use client_rows::ClientTally;
pub use failover_tally::{FailoverTally, OutageTally};
pub use job::{FileJob, FileTask, GateKind, JobControl, JobFailure, JobLevels, JobStage, StepsSpec};
pub use journal::{Entry, Journal, JournalSpec, LeftOfFile};
pub use kind::{Look, Material, OpenError, Secrets};
pub use load::{Load, LoadError, Snapshot};
pub use open_tally::OpenTally;
pub use prepared::{OpenTarget, PreparedLevel};
pub use problems::Problems;
pub use removal::{LeftOver, Removal};
pub use scenario::{FilesSpec, MetadataSpec, StepAction, StepSpec, StreamsSpec, TreeSpec};
pub use spec::{EngineSpec, LevelSpec, PartSpec, StartRule, WindowSpec};
pub use tally::{
    schema, CallTally, ErrorTally, GeneratorTally, HandshakeTally, LevelTally, OperationTally, RequestTally,
    SecondTally, SessionTally,
};
pub use web::session_problems;
pub use workspaces::Workspaces;
