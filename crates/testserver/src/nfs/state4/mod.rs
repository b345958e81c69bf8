//! What an NFSv4.1 server knows (RFC 8881): data and rules, without messages.
//!
//! `clients.rs` has clients, sessions, slots and their replies; `opens.rs` opens, `locks.rs` locks, `range.rs` what those
//! cover; `delegations.rs` who has which delegation, `back.rs` what a session's back channel is to carry,
//! `callbacks.rs` how and when;
//! `pseudo.rs` the directories that lead to the exports. `operation.rs` and `status.rs` are numbers with their names.

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
