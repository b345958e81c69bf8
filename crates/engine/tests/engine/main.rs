//! Integration tests, built as one program to save linking time.

mod complete;
mod level;
mod objects;
mod spec;
mod tally;
