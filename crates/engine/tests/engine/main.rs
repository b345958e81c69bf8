//! All integration tests of the crate, as one program: each one more would be linked by itself.

mod complete;
mod mix;
mod spec;
mod tally;
