//! A session against real servers: Samba's smbd, private and on loopback (without it, those tests say so and do
//! nothing), and one that breaks the protocol on purpose.

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
/// What is asked of every cache, whatever the server. The one in memory has histories of its own.
#[allow(dead_code)]
#[path = "../../../files/tests/files/stage.rs"]
mod stage;
