//! Properties of operations: whether they change something, and their weight when a compound is counted.

pub(in crate::nfs) use dyno_nfs::wire::operation4::*;

pub(in crate::nfs) const ILLEGAL: u32 = 10_044;

/// Returns whether an operation can be repeated without harm.
pub(in crate::nfs) fn is_harmless(number: u32) -> bool {
    weight(number) < 4 || matches!(number, LOOKUP | LOOKUPP | ACCESS)
}

/// Returns the weight of an operation. A compound is counted as the first of its heaviest operations.
pub(in crate::nfs) fn weight(number: u32) -> u32 {
    match number {
        SEQUENCE => 1,
        PUTFH | SAVEFH | RESTOREFH | GETFH => 2,
        PUTROOTFH | PUTPUBFH | GETATTR => 3,
        _ => 4,
    }
}
