//! The integration tests of the crate except one, in one program, because each program is linked
//! separately.

mod http;
mod nfs;
mod s3;
mod smb;
