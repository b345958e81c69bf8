//! The client cache with an in-memory file server that has real oplocks and leases.

mod breaks;
mod clock;
mod close_to_open;
mod connection;
mod consistency;
mod directory;
mod diskmix;
mod durable;
mod failures;
mod holds;
mod names;
mod patterns;
mod request;
mod rig;
mod server;
mod stage;
mod staleness;
mod stateless;
mod streams;
mod streams_at_once;
