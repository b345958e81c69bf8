//! State of an NFSv4.1 server (RFC 8881): data and rules, without messages.
//!
//! `clients.rs` has clients, sessions, slots and cached replies. `opens.rs` has opens, `locks.rs` locks, and `range.rs`
//! their ranges. `delegations.rs` has delegations, `back.rs` the calls of a session's back channel, and `callbacks.rs`
//! their delivery. `pseudo.rs` has the directories above the exports. `operation.rs` and `status.rs` have numbers with
//! their names.

pub(super) mod back;
pub(super) mod callbacks;
pub(super) mod clients;
pub(super) mod delegations;
pub(super) mod locks;
pub(super) mod opens;
pub(super) mod operation;
pub(super) mod pseudo;
pub(super) mod range;
pub(super) mod status;
