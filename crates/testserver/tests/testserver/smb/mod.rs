//! The reference SMB server with Samba's smbclient and this project's sessions.
//!
//! Three of the files also run with smbd, so that both servers pass the same tests.

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
