//! Integration tests, built as one program to save linking time.

mod complete;
mod mix;
mod objects;
mod spec;
mod tally;
