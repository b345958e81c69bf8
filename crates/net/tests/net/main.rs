//! All integration tests of the crate, as one program: each one more would be linked by itself.

mod ready_work;
mod sockets;
mod waking;
