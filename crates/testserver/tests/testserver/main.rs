//! The integration tests of the crate but one, as one program: each program is linked by itself.

mod http;
mod nfs;
mod smb;
