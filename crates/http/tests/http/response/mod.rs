//! The response reader with valid, invalid and hostile input in arbitrary pieces.

mod bounds;
mod generated;
mod reading;
mod tables;
