//! HTTP/2 (RFC 9113) for load: several concurrent requests per connection.
//!
//! `session` is one connection, without sockets or clock, and is fuzzed. Below it are `frame` (layout),
//! `reader` (parses frames), `hpack` and `huffman` (header compression), `head` (rules for response fields)
//! and `violation` (all protocol errors with their faults). `shared_connection.rs` shares a connection
//! between the threads of a client. All server input is treated as hostile.
//!
//! Server push is disabled. Priorities and upgrade from HTTP/1.1 are not supported.

mod control;
mod frame;
mod head;
mod hpack;
mod huffman;
mod peer;
mod reader;
mod request;
mod sending;
mod session;
mod state;
mod stream;
mod violation;
mod window;

/// ALPN identifier of HTTP/2 over TLS (RFC 9113, section 3.2).
pub const BY_ALPN: &[u8] = b"h2";

pub(crate) use frame::{error_code, ENDED};
pub use request::{Request, RequestMaker, Written};
pub use session::Session;
pub use violation::Violation;
