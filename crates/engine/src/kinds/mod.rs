//! Table of the kinds of work.

mod http;
mod nfs;
mod null;
mod posix;
mod s3;
mod smb;

use crate::kind::Kind;

const KINDS: &[&dyn Kind] = &[
    &http::Http,
    &smb::Smb,
    &nfs::Nfs,
    &posix::Posix,
    &s3::S3,
    &null::Null,
];

pub(crate) fn kind(name: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().find(|kind| kind.name() == name).copied()
}

/// Returns the message for an unknown kind.
pub(crate) fn unknown(name: &str) -> String {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
    format!("{name:?} is none of {}", names.join(", "))
}
