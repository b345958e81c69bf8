//! Basics of measurement: clocks, window, histogram and faults. No statistics (Python has them), no input or
//! output.

mod clock;
mod fault;
mod histogram;
mod named;
mod status;
mod window;

pub use clock::{monotonic_ns, thread_cpu, unix_s, ThreadCpu};
pub use fault::{Detail, Failure, Fault, Side, ValueName};
pub use histogram::Histogram;
pub use status::{plain_text, KeptTexts, ProtocolStatus, StatusTable};
pub use window::{Phase, Window};

/// Nanoseconds per second.
pub const NS_PER_S: u64 = 1_000_000_000;
