//! The reference NFS server as clients see it: calls by hand, and sessions of ours. libnfs's tools and Linux's client stand
//! in the Python tests and under `tools/`.

mod compounds;
mod datagrams;
mod delegated;
mod delegations;
mod faults;
mod files;
mod hostile;
mod names;
mod programs;
mod raw;
mod repeated;
mod restart;
