//! State of an NFSv4.1 server (RFC 8881): data and rules, without messages.
//!
//! `clients.rs`: clients, sessions, slots and cached replies. `opens.rs`: opens. `locks.rs`, `range.rs`: locks and
//! their ranges. `delegations.rs`: delegations. `back.rs`, `callbacks.rs`: the back channel of a session, and the
//! delivery of its calls. `pseudo.rs`: the directories above the exports. `operation.rs`, `status.rs`: numbers with
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
