//! The reference server for HTTP/1.0, 1.1 and 2. The generator is measured against it, and it is the web
//! server if no other is installed.
//!
//! It answers GET and HEAD from memory, and POST in the application (`application.rs`). Each thread has its
//! own listener, event loop and counter. A request on a persistent connection costs one `recv`, one
//! `sendmsg`, no allocation and no change of the epoll set. Depending on the options, the server forwards
//! requests to backends (`behind.rs`), or injects a named fault to test how a generator counts errors.
//! `wire.rs` has TLS.
//!
//! It opens no files on disk, so no path can leave a root. Other request bodies and conditional or range
//! requests are not supported. It only serves load generators and their tests.

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
pub(crate) use opening::SOFTWARE;
pub use options::{Options, Tls};
pub use server::Server;
pub(crate) use wire::{Received, Wire, LATE};
