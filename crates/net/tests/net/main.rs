//! Integration tests, built as one program to save linking time.

mod ready_work;
mod sockets;
mod waking;
