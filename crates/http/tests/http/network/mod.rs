//! Tests that need a server outside loopback: consent, slow and failed connections. They use network
//! namespaces, and skip with a message without the right to create them.

mod connecting;
mod consent;
mod get;
mod testbed;
