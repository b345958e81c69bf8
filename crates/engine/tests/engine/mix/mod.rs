//! Whole mixes over real sockets, against servers that answer rightly or wrongly in one small way each.

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
