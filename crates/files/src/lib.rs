//! The calls to a file server and their replies, independent of the protocol, and the interface of a protocol's
//! client, [`FileClient`]. Applications use a client through [`Uncached`], which sends each call, or [`Cache`].

mod beginning;
mod cache;
mod call;
mod client;
mod counted;
mod hint;
mod page_run;
mod pattern;
pub mod posix;
mod postponed;
mod uncached;

pub use beginning::read_beginning;
pub use cache::{AttributeAges, Cache, CacheCounts, CacheOptions, Policy, Redirector};
pub use call::{
    Access, Ask, Caching, Call, Disposition, Handle, Info, LeaseKey, Open, Reply, SpaceInfo, Stability,
};
pub use client::{
    Attributes, Break, CallId, Event, FileClient, Files, Grant, KeptHandles, Piggyback, Stored, Traffic,
    Verifier,
};
pub use counted::{Breaks, CallKind, Calls, Counted, KindCount};
pub use hint::{Cause, Hint, WRONG_CONTENT};
pub use page_run::PageRun;
pub use pattern::matches_pattern;
pub use postponed::Postponed;
pub use uncached::Uncached;
