//! The reference SMB server as clients see it: Samba's smbclient, and sessions of our own.
//!
//! Three files are those with which the session is tested against smbd: both servers are asked the same.

#[path = "../../../../smb/tests/session/breaks.rs"]
mod breaks;
#[path = "../../../../smb/tests/session/channels.rs"]
mod channels;
#[allow(dead_code)]
#[path = "../../../../smb/tests/session/client.rs"]
mod client;
mod directories;
mod dissector;
mod durable;
mod faults;
mod files;
mod hostile;
mod listings;
#[allow(dead_code)]
#[path = "../../../../smb/tests/session/network.rs"]
mod network;
mod samba;
mod smbclient;
mod waiting;
