//! The reference HTTP server over real sockets.

mod behind;
mod client;
mod faults;
mod lifetime;
mod serving;
