//! NFSv4.1 and NFSv4.2 (RFC 8881, RFC 7862): one COMPOUND replaces each NFSv3 request of a session. Opens, closes and
//! locks are additional COMPOUNDs, because the server keeps their state.
//!
//! `operation.rs` writes compounds, `results.rs` parses their results, and `attributes.rs` encodes attributes.
//! `state.rs` keeps the session, its slots and the open files. `callback.rs` handles the server's calls. `setup.rs` has
//! the compounds that start and end a session. The sequence of requests per call is the same for all versions
//! (`session/calls.rs`, `session/answers.rs`).
//!
//! There are no write delegations (only read delegations are requested), no pNFS, no NFSv4.0, and no
//! authentication flavor other than AUTH_SYS.

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
    reclaim_lock, root, Asked, Claim, Identity, KnownAs,
};
pub(crate) use state::{Access4, Closing, OpenState, Reply4};
