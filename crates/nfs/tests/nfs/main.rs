//! All integration tests of the crate in one program, because each program is linked separately.

mod conversation;
mod conversation4;
mod ganesha;
