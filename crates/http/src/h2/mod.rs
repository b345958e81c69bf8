//! HTTP/2 (RFC 9113) for load: several requests at a time on one connection.
//!
//! `session` is the state of one connection without sockets and clock, fuzzed: bytes in, ended streams and bytes out. Below
//! it are `frame` (layout), `reader` (frames out of bytes as they come), `hpack` and `huffman` (header compression,
//! RFC 7541), `head` (the rules of a response's fields); `violation` lists all that a server can break, and whose kind of
//! fault it is. `shared_connection.rs` carries sessions over streams for the threads of a client. Everything that a server sends is
//! hostile input.
//!
//! Not for: server push, which is switched off; priorities; upgrade from HTTP/1.1, which RFC 9113 has dropped.

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

/// Its name by ALPN (RFC 9113, section 3.2).
pub const BY_ALPN: &[u8] = b"h2";

pub use request::{Request, RequestMaker, Written};
pub use session::Session;
pub use violation::Violation;
