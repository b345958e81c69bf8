//! The base of all protocols: an event loop for one OS thread (tasks, timers, sockets), TLS (`tls`), permitted
//! destinations (`target`) and the rate limit (`pace`). Linux only, without blocking work.
//!
//! A task is an ordinary future. It is polled when one of its sockets has an event, when its timer is due, or when
//! another task or thread wakes it. Extra polls are harmless. Reports are kept per socket, so a request on a kept
//! connection costs two system calls (`send`, `recv`) and its share of one `epoll_wait`.
//!
//! Each protocol's crate has its own way to ask a host for consent (`dyno_http::Target`,
//! `dyno_smb::SmbTarget`).

mod deadlines;
mod executor;
mod local_ports;
mod pace;
mod readiness;
mod ready_work;
mod socket;
mod target;
mod task_times;
mod thread;
pub mod tls;
mod wake;

pub use executor::{run_alone, system_failure, Executor};
pub use local_ports::LocalPorts;
pub use pace::Pace;
pub use ready_work::{ReadyWork, ReadyWorkMeter};
pub use socket::datagrams::{Datagrams, MOST_DATAGRAM_BYTES};
pub use socket::{Dialer, Idle, Listener, Peer, Preamble, Socket};
pub use target::{
    consent_document, is_loopback, is_plain_host, name_and_port, names_loopback, resolve, unescaped,
    BeforeLoad, Consent, Document, Namespace, TargetError, NO_CONNECTION, NO_FILES, SILENT_LATER,
};
pub use thread::{pin_to, run_delay_ns, wake_on_time};
