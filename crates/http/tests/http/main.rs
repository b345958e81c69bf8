//! Integration tests, built as one program to save linking time.

mod coding;
mod h2;
mod network;
mod response;
mod stream;
