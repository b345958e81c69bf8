//! The reference S3 server: objects in memory, signatures that are verified, and named faults on request.
//!
//! It shares no code with the client (`crates/s3`), so that each side checks the other. It has its own code
//! for signatures (`signature.rs`), chunked payloads (`payload.rs`), checksums and XML. Objects live in
//! memory and are lost when the process ends. Versions, access lists, encryption and lifecycle rules are not
//! supported. It only serves load generators and their tests.

mod answer;
mod checksum;
mod connection;
mod copying;
mod date;
mod fault;
mod host;
mod hostile;
mod listing;
mod misbehaviour;
mod multipart;
mod objects;
mod operations;
mod options;
mod payload;
mod refusal;
mod request;
mod server;
mod signature;
mod store;
mod xml;

pub use fault::{faults, Fault, Kind as FaultKind};
pub use host::Host;
pub use hostile::parse_all;
pub use options::{AccessKey, Flush, Options};
pub use server::Server;
