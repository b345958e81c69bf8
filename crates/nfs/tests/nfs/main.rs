//! All integration tests of the crate, as one program: each one more would be linked by itself.

mod conversation;
mod conversation4;
mod ganesha;
