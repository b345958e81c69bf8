//! Alignment of transfers with `O_DIRECT`.

/// Alignment for `O_DIRECT` that suits every file system.
const ALIGNMENT: usize = 4096;

/// Returns whether a transfer may use `O_DIRECT`.
pub(super) fn is_aligned(offset: u64, bytes: usize) -> bool {
    offset % ALIGNMENT as u64 == 0 && bytes % ALIGNMENT == 0
}

/// Extends a buffer so that it has room for `bytes` bytes aligned for `O_DIRECT`. Returns the start offset.
pub(super) fn aligned(buffer: &mut Vec<u8>, bytes: usize) -> usize {
    if buffer.len() < bytes + ALIGNMENT {
        buffer.resize(bytes + ALIGNMENT, 0);
    }
    buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT)
}
