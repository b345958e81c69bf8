//! The kinds of work that there are: a file each, and a line of the table.

mod http;
mod nfs;
mod null;
mod posix;
mod smb;

use crate::kind::Kind;

const KINDS: &[&dyn Kind] = &[&http::Http, &smb::Smb, &nfs::Nfs, &posix::Posix, &null::Null];

/// The kind of that name.
pub(crate) fn kind(name: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().find(|kind| kind.name() == name).copied()
}

/// What to say of a name that no kind has.
pub(crate) fn unknown(name: &str) -> String {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
    format!("{name:?} is none of {}", names.join(", "))
}
