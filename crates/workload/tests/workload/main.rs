//! Integration tests, built as one program to save linking time.

mod class_table;
mod contents;
mod diskmix;
mod diskmix_accept;
mod diskmix_golden;
mod diskmix_ledger;
mod diskmix_played;
mod disturbed_golden;
mod footprint;
mod golden;
mod loadfile;
mod objects;
mod requests;
mod shares;
mod tree_on_disk;
