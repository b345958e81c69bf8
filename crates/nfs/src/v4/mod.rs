//! NFSv4.1 and NFSv4.2 (RFC 8881, RFC 7862) as the second dialect of a session: one COMPOUND for each request of NFSv3,
//! and for opens, closes and locks, of which the server keeps a state here.
//!
//! `operation.rs` writes compounds, `results.rs` reads what they bring, `attributes.rs` is the form of attributes, `state.rs`
//! keeps the session, its slots, and what is open; `callback.rs` takes the server's calls; `setup.rs` has the compounds by which a session begins and ends.
//! What calls become, in which order, is the same for both versions (`session/calls.rs`, `session/answers.rs`).
//!
//! Not for: delegations for writing (only those for reading are asked for), pNFS, NFSv4.0, other flavours than AUTH_SYS.

mod attributes;
mod callback;
mod operation;
mod results;
mod setup;
mod state;

pub use state::{Agreed4, State};

pub(crate) use attributes::Attributes4;
pub(crate) use callback::{answer as answer_call, Wish};
pub(crate) use operation::{How4, Operation, Places, Procedure4, AFTER_DATA_BYTES, MOST_OPERATIONS, NFS4};
pub(crate) use results::{
    parse_close, parse_commit, parse_get_attributes, parse_lock, parse_lookup, parse_made, parse_open,
    parse_read, parse_set, parse_space, parse_write, Entries4,
};
pub(crate) use setup::{
    bind_connection, create_session, destroy_client, destroy_session, exchange_id, parse_bind_connection,
    parse_create_session, parse_exchange_id, parse_root, parse_status, reclaim, reclaim_complete,
    reclaim_lock, root, Asked, Channel, Claim, Identity, KnownAs,
};
pub(crate) use state::{Access4, Closing, OpenState, Reply4, Stateid};
