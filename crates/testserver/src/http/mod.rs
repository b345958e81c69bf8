//! The reference HTTP/1.0, 1.1 and 2 server: what the generator is measured against, and the web server where no
//! other is installed.
//!
//! It answers GET and HEAD from memory, and POST in the application that users log in to (`application.rs`). Each
//! thread has a listener, an event loop and a counter of its own. A request on a kept-alive connection costs one
//! `recv`, one `sendmsg`, no allocation and no change to the epoll set. On request it hands what it has no document
//! for on to servers behind it (`behind.rs`), or commits a named fault, so that a generator's accounting of errors
//! can be put to the test. `wire.rs` has TLS.
//!
//! Not for: files on disk (it opens none, so no path can lead out of a root), other request bodies, conditional and
//! range requests, or serving anybody but a load generator and its tests.

mod application;
mod behind;
mod connection;
mod documents;
mod fault;
mod http2;
mod misbehaviour;
mod opening;
mod options;
mod request;
mod responder;
mod server;
mod wire;
mod worker;

pub use documents::{Documents, REQUEST_COUNT_PATH};
pub use fault::{faults, Fault, Kind as FaultKind};
pub use options::Options;
pub use server::Server;
