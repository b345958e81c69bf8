//! The response reader against every kind of answer: right ones, wrong ones, hostile ones, in any pieces.

mod bounds;
mod generated;
mod reading;
mod tables;
