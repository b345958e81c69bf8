//! Tests that need a server outside loopback: consent, slow and failed connections. They use network namespaces.
//! Without the right to create them, the tests skip with a message.

mod connecting;
mod consent;
mod get;
mod testbed;
