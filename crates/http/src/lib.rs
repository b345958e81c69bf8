//! An HTTP/1.0, 1.1 and 2 client for load: requests built beforehand, responses read whole and judged.
//!
//! `response` is the parser, pure and fuzzed: everything that a server sends is hostile input. `connection` carries
//! it over a stream: plain TCP, TLS (`tls.rs`), or whatever implements `Transport`. `consent` is the proof that load is welcome, `get` a
//! single question outside of load, `advice` what to try where one fails, `coding` whether a body can be decoded. Not for:
//! redirects, cookies, what a response should contain (the engine knows).

mod advice;
pub mod coding;
mod connection;
mod consent;
mod conversation;
mod get;
pub mod h2;
mod head;
mod pipeline;
mod proxy_protocol;
mod request;
mod response;
mod room;
mod shared_connection;
mod stream;
mod tls;

pub use advice::{advice, Circumstances};
pub use connection::{Connecting, Connection, Exchange, Streams};
pub use consent::{ConnectTo, Opening, Target, Trusting};
pub use conversation::{Conversation, Ended};
pub use get::Answer;
pub use head::Head;
pub use pipeline::Pipeline;
pub use proxy_protocol::ProxyProtocol;
pub use request::{RequestForm, RequestStyle, Shape, Version, WrittenHttp1, METHODS, USER_AGENT};
pub use response::{Body, Limits, Progress, ResponseReader};
pub use shared_connection::{SharedConnection, StreamClient};
pub use stream::{Handshake, Opened, PlainTcp, Received, Stream, Transport};
pub use tls::{EvenShare, TlsOverTcp};
