//! Integration tests, built as one program to save linking time, except one that needs its own process.

mod http;
mod nfs;
mod s3;
mod smb;
