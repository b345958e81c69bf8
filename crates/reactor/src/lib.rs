//! The event loop of one OS thread: tasks, timers, sockets. Nothing in it is shared with another thread.
//!
//! A task is an ordinary future. Whenever the kernel reports one of its sockets, or its timer is due, the task is
//! polled and tries again what it waited for; so there are no wakers to keep, no registration objects and no queues,
//! and a request on a kept-alive connection costs two system calls (`send`, `recv`) and its share of one `epoll_wait`.
//! A poll too many is harmless by construction.
//!
//! Not for: work that blocks, more than one thread, anything but Linux.

pub mod destination;
mod executor;
mod socket;
mod thread;

pub use executor::Executor;
pub use socket::{Dialer, Idle, Listener, Socket};
pub use thread::pin_to;
