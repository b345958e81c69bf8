//! HTTP/1.0, 1.1 and 2 client for load: requests are built in advance, responses are read completely and
//! checked.
//!
//! `response` is the parser. It is fuzzed, because all server input is treated as hostile. `connection` runs
//! it over a stream: TCP, TLS (`tls.rs`) or another `Transport`. `consent` proves that the host consents to
//! load, `get` sends a single request outside of load, `advice` returns hints, `coding` checks content
//! codings. The client follows no redirects and keeps no cookies. The engine checks the contents.

mod advice;
mod circumstances;
pub mod coding;
mod connection;
mod consent;
mod conversation;
mod failures;
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

pub use advice::{advice, explaining, size_of_request};
pub use circumstances::{schemes, Asking, Challenge, Circumstances};
pub use connection::{Connecting, Connection, Exchange, Streams};
pub use consent::{ConnectTo, Opening, Target, Trusting};
pub use conversation::{Conversation, Ended};
pub use get::Answer;
pub use head::{Head, Redirect};
pub use pipeline::Pipeline;
pub use proxy_protocol::ProxyProtocol;
pub use request::{one_cookie, RequestForm, RequestStyle, Shape, Version, WrittenHttp1, USER_AGENT};
pub use response::{Body, Limits, Progress, ResponseReader};
pub use shared_connection::{SharedConnection, StreamClient};
pub use stream::{Handshake, Opened, PlainTcp, Received, Stream, Transport};
pub use tls::{EvenShare, TlsOverTcp};
