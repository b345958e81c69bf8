//! Whole load levels over real sockets, with servers that are correct or make one small mistake.

mod clean;
mod coding;
mod faults;
mod http2;
mod open;
mod paced;
mod page;
mod pipeline;
mod ports;
mod running;
mod server;
mod session;
#[path = "../../../../http/tests/http/network/testbed.rs"]
mod testbed;
