//! Refusals of operations, by their `nfsstat4` number.

use crate::nfs::volume::Refused;
use dyno_nfs::status::{Status, Status4};
use dyno_nfs::wire::Malformed;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nfs) struct Refused4(pub(in crate::nfs) u32);

pub(in crate::nfs) type Outcome<T = ()> = Result<T, Refused4>;

// Statuses without a name in `dyno-nfs`.
pub(in crate::nfs) const SAME: Refused4 = Refused4(10_009);
pub(in crate::nfs) const NOT_SAME: Refused4 = Refused4(10_027);
pub(in crate::nfs) const SYMLINK: Refused4 = Refused4(10_029);
pub(in crate::nfs) const RESTORE_FH: Refused4 = Refused4(10_030);
pub(in crate::nfs) const COMPLETE_ALREADY: Refused4 = Refused4(10_054);
pub(in crate::nfs) const SEQUENCE_POSITION: Refused4 = Refused4(10_064);
pub(in crate::nfs) const RETRY_UNCACHED: Refused4 = Refused4(10_068);
pub(in crate::nfs) const CLIENT_BUSY: Refused4 = Refused4(10_074);
pub(in crate::nfs) const FALSE_RETRY: Refused4 = Refused4(10_076);
pub(in crate::nfs) const BAD_HIGH_SLOT: Refused4 = Refused4(10_077);
pub(in crate::nfs) const NOT_ONLY_OPERATION: Refused4 = Refused4(10_081);

impl From<Status> for Refused4 {
    fn from(status: Status) -> Self {
        // Statuses of NFSv3 have the same numbers (JUKEBOX is DELAY).
        Self(status as u32)
    }
}

impl From<Status4> for Refused4 {
    fn from(status: Status4) -> Self {
        Self(status as u32)
    }
}

impl From<Refused> for Refused4 {
    fn from(refused: Refused) -> Self {
        refused.0.into()
    }
}

impl From<Malformed> for Refused4 {
    fn from(_: Malformed) -> Self {
        Status4::BadXdr.into()
    }
}
