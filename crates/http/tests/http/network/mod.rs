//! What only shows where the server is not on loopback: consent, and connections that take time or can't be made.
//! Everything happens in network namespaces of the tests' own; without the right to make them, the tests say so and end.

mod connecting;
mod consent;
mod get;
mod testbed;
