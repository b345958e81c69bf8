//! On which CPU a thread runs.

use rustix::io::Errno;
use rustix::thread::{sched_setaffinity, CpuSet};

/// Keeps the calling thread on one CPU. `INVAL` where there is no such CPU, or we may not use it.
pub fn pin_to(cpu: usize) -> Result<(), Errno> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus)
}
