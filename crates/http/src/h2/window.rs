//! Room for data that we have given to the server (RFC 9113, section 5.2).

/// What is left of a window, and what was added to it and may not be sent yet: that counts once it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    full: i64,
    left: i64,
    added: i64,
    /// How often all was sent when it was added.
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

    /// Takes the payload of a DATA frame, padding included; whether there was room. `flushes`: how often all was sent.
    pub(super) fn take(&mut self, bytes: usize, flushes: u64) -> bool {
        if self.added > 0 && flushes > self.added_at {
            self.left += std::mem::take(&mut self.added);
        }
        self.left -= bytes as i64;
        self.left >= 0
    }

    /// By how much the server is to be told that it grows: to all of it, once half is used.
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
