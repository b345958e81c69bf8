//! The reference NFS server with handwritten calls and this project's sessions. libnfs's tools and Linux's
//! client are used by the Python tests and in `tools/`.

mod compounds;
mod datagrams;
mod delegated;
mod delegations;
mod faults;
mod files;
mod hostile;
mod names;
mod paced;
mod programs;
mod raw;
mod repeated;
mod restart;
