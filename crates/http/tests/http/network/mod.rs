//! Tests that need a server outside loopback: consent, slow and failed connections. They use network
//! namespaces. If this process may not create them, the tests are skipped with a message.

mod connecting;
mod consent;
mod get;
mod testbed;
