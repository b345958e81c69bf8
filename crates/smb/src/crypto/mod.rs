//! Keys, signatures, encryption and the hash over the negotiation (MS-SMB2 3.1.4, 3.1.5), for both sides.
//!
//! Pure: bytes in, bytes out. A connection uses these types in this order:
//!
//! * [`Preauth`]: `new()`, then `update(message)` with each NEGOTIATE and SESSION_SETUP message (from its header
//!   on, without the frame length) except the last response; `value()` enters the key derivation of 3.1.1. It is
//!   `Clone`, because each session starts from the connection's state after NEGOTIATE.
//! * [`Keys::derive`]: from dialect, cipher, session key and preauth value to keys.
//! * [`Signer`]: `new(algorithm, key)`; `sign(&mut message)` sets the flag and the signature in the header of one
//!   message of a compound (including its padding), `verify(&message)` checks a received one.
//! * [`Sealer`] and [`Opener`]: `new(cipher, key)`; a frame is [`TRANSFORM_BYTES`] of space followed by the plain
//!   messages; `seal(session_id, &mut frame)` encrypts in place, `open(session_id, &mut frame)` returns the plain
//!   messages inside it. Each sealer counts its nonces, so use one sealer per key and connection; it is not `Clone`.
//!
//! The session decides what to sign or encrypt, and when.

mod encryption;
mod kdf;
mod preauth;
mod signing;
#[cfg(test)]
pub(crate) mod vectors;

pub use encryption::{Opener, Sealer, Transform, Unopened, Unsealed, TRANSFORM_BYTES};
pub use kdf::{CipherKey, Keys};
pub use preauth::Preauth;
pub use signing::Signer;
