//! A session against real servers: Samba's smbd, private and on loopback (without it, those tests say so and do
//! nothing), and one that breaks the protocol on purpose.

mod breaks;
mod calls;
mod capture;
mod client;
mod hostile;
mod network;
mod protection;
mod samba;
mod scripted;
mod sizes;
