//! The server side of NFSv4.1 (RFC 8881): COMPOUNDs on the same files as NFSv3.
//!
//! `compound.rs` executes a compound with one table of operations. `setup.rs`, `states.rs`, `names.rs` and
//! `contents.rs` implement the operations; `attributes.rs` encodes attributes, `wire.rs` parts common to several
//! messages, and `callbacks.rs` calls to clients. The state of clients and their files is in `../state4`.
//!
//! The server has its own parser of requests. The generator's codec of NFSv4.1 covers only the client side, so each
//! side checks the other.
//!
//! NFSv4.0 and 4.2, write and directory delegations, pNFS, ACLs, named attributes, mandatory locks, and flavors other
//! than AUTH_SYS are not supported. A blocking lock that conflicts is refused like any other, so the client must retry.

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
