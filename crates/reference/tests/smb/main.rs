//! The reference SMB server as clients see it: Samba's smbclient, and sessions of our own.
//!
//! Two files are those with which the session is tested against smbd: both servers are asked the same.

#[path = "../../../smb/tests/session/breaks.rs"]
mod breaks;
#[allow(dead_code)]
#[path = "../../../smb/tests/session/client.rs"]
mod client;
mod faults;
mod files;
mod hostile;
mod samba;
mod smbclient;
mod waiting;
