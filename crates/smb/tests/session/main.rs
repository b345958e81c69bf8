//! Sessions against real servers: a private smbd of Samba on loopback (without smbd, these tests print a
//! note and pass), and a server that breaks the protocol on purpose.

mod breaks;
mod calls;
mod capture;
mod channels;
mod client;
mod coherence;
mod hostile;
mod idle;
mod negotiated;
mod network;
mod probe;
mod protection;
mod refusals;
mod samba;
mod scripted;
mod sizes;
/// Requirements on every cache with any server. The in-memory server has its own histories.
#[allow(dead_code)]
#[path = "../../../files/tests/files/stage.rs"]
mod stage;
