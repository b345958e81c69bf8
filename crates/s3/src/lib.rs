//! S3 client for load: builds and signs requests, sends them over a connection of `dyno_http`, and reads the responses.
//!
//! `sign` has Signature Version 4, `framing` the aws-chunked coding with a trailing checksum. `xml` and `documents`
//! read what servers send, within limits, and are fuzzed. `client` performs one operation at a time, `request` names
//! and counts its requests, `place` creates clients, `target` proves that the server consents to load, `advice` has
//! remedies. This crate never retries. The engine checks the contents.

mod advice;
mod answer;
mod call;
mod checksum;
mod client;
mod code;
mod date;
mod documents;
mod encode;
mod framing;
mod place;
mod request;
mod sign;
mod target;
mod xml;

pub use answer::{traced, Answer, Tag, Trace};
pub use call::Call;
pub use checksum::Checksum;
pub use client::{Client, Fetched, Payload, Settings, MOST_KEYS_PER_DELETE, MOST_KEYS_PER_PAGE};
pub use code::{is_of_server, may_act_later, was_refused};
pub use date::AmzTime;
pub use documents::{fuzz_documents, Deleted, Entry, Page, Upload, UploadsPage};
pub use place::Place;
pub use request::RequestCounts;
pub use sign::{Credentials, RequestHead, Signer, EMPTY_SHA256, UNSIGNED};
pub use target::{Addressing, BucketLook, S3Options, S3Target};
