//! All integration tests of the crate, as one program: each one more would be linked by itself.

mod coding;
mod h2;
mod network;
mod response;
mod stream;
