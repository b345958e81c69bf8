//! Table of the kinds of work.

mod http;
mod nfs;
mod null;
mod posix;
mod s3;
mod smb;

use crate::kind::{OpenError, Secrets, Target};
use serde_json::Value;

/// Opens the target of a section: resolves its address once, and checks that the target consents to load.
type Open = fn(section: &Value, secrets: &Secrets) -> Result<Box<dyn Target>, OpenError>;

const KINDS: [(&str, Open); 6] = [
    ("http", http::open),
    ("smb", smb::open),
    ("nfs", nfs::open),
    ("posix", posix::open),
    ("s3", s3::open),
    ("null", null::open),
];

pub(crate) fn open(kind: &str) -> Option<Open> {
    let known = KINDS.iter().find(|(name, _)| *name == kind);
    known.map(|(_, open)| *open)
}

/// Returns the message for an unknown kind.
pub(crate) fn unknown(kind: &str) -> String {
    format!(
        "{kind:?} is not one of {}",
        KINDS.map(|(name, _)| name).join(", ")
    )
}
