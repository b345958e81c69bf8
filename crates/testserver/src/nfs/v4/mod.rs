//! NFSv4.1 (RFC 8881) on the server's side: COMPOUNDs over the same files as NFSv3.
//!
//! `compound.rs` carries a compound out, operation by operation: one table. `setup.rs`, `states.rs`, `names.rs` and
//! `contents.rs` are the operations; `attributes.rs` is the form of attributes, `wire.rs` what several operations have.
//! What the server knows of clients and their files is in `../state4`.
//!
//! It reads requests by itself: the generator's codec of NFSv4.1 has the other side alone, so each checks the other.
//!
//! `callbacks.rs` has the calls to clients.
//!
//! Not for: NFSv4.0 and 4.2, delegations for writing and of directories, pNFS, ACLs, named attributes, mandatory
//! locks, other flavours than AUTH_SYS. Locks that wait are refused as others are: a client asks again.

mod attributes;
mod callbacks;
mod compound;
mod contents;
mod names;
mod setup;
mod states;
mod wire;

pub(super) use callbacks::{parse_answer, write_recall};
pub(super) use compound::answer_compound;
