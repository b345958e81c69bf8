//! The request parsers of the reference S3 server: head, chunks, XML.
#![no_main]

use dyno_testserver::s3::parse_all;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| parse_all(bytes));
