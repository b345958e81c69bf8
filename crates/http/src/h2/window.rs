//! Receive windows (RFC 9113, section 5.2).

/// The rest of a receive window, and an increment that counts once it has been sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    full: i64,
    left: i64,
    added: i64,
    /// Value of `flushes` when the increment was added.
    added_at: u64,
}

impl Window {
    pub(super) fn new(full: i64) -> Self {
        Self {
            full,
            left: full,
            added: 0,
            added_at: 0,
        }
    }

    /// Deducts a DATA payload including padding. Returns whether it fitted. `flushes`: number of times that
    /// all output was sent.
    pub(super) fn take(&mut self, bytes: usize, flushes: u64) -> bool {
        if self.added > 0 && flushes > self.added_at {
            self.left += std::mem::take(&mut self.added);
        }
        self.left -= bytes as i64;
        self.left >= 0
    }

    /// Returns the increment to announce if more than half of the window is used and no increment is
    /// outstanding.
    pub(super) fn grow(&mut self, flushes: u64) -> Option<u32> {
        if self.added > 0 || self.left >= self.full / 2 {
            return None;
        }
        (self.added, self.added_at) = (self.full - self.left, flushes);
        u32::try_from(self.added).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_once_half_of_it_is_used_and_counts_when_that_was_sent() {
        let mut window = Window::new(100);
        assert!(window.take(50, 0));
        assert_eq!(window.grow(0), None);
        assert!(window.take(20, 0));
        assert_eq!(window.grow(0), Some(70));
        assert!(window.take(30, 0));
        assert_eq!(window.grow(0), None, "told already");
        assert!(!window.take(1, 0), "it is not sent");
        let mut window = Window::new(100);
        assert!(window.take(100, 0));
        assert_eq!(window.grow(0), Some(100));
        assert!(window.take(100, 1), "it was sent");
    }
}
