//! What all protocols stand on: the event loop of one OS thread (tasks, timers, sockets), TLS (`tls`), and where load may go
//! (`target`).
//!
//! A task is an ordinary future with an ordinary waker. It is polled when the kernel reports a socket that it waits for,
//! when its timer is due, or when another task or another thread wakes it; then it tries again what it waited for. What
//! is reported of a socket is kept by socket, so a request on a kept-alive connection costs two system calls (`send`,
//! `recv`) and its share of one `epoll_wait`. A poll too many is harmless by construction.
//!
//! Not for: work that blocks, more than one thread, anything but Linux; nor for asking a host for its consent, which each
//! protocol's crate does in its own words (`dyno_http::Target`, `dyno_smb::SmbTarget`).

mod executor;
mod readiness;
mod ready_work;
mod socket;
mod target;
mod thread;
pub mod tls;
mod wake;

pub use executor::Executor;
pub use ready_work::{ReadyWork, ReadyWorkMeter};
pub use socket::datagrams::{Datagrams, MOST_DATAGRAM_BYTES};
pub use socket::{Dialer, Idle, Listener, Peer, Preamble, Socket};
pub use target::{
    consent_document, is_loopback, name_and_port, names_loopback, resolve, unescaped, Consent, Namespace,
    TargetError,
};
pub use thread::{pin_to, run_delay_ns, wake_on_time};
