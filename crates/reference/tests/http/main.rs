//! The reference server over real sockets.

mod client;
mod faults;
mod lifetime;
mod serving;
