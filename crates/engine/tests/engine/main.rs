//! Integration tests, built as one program to save linking time.

mod complete;
mod mix;
mod spec;
mod tally;
