//! A session against a real server: Samba's smbd, private and on loopback. Without it, these tests say so and do nothing.

mod breaks;
mod calls;
mod client;
mod protection;
mod samba;
mod sizes;
