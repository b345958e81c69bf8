//! The message ids that a client may use (MS-SMB2 3.3.1.1, 3.3.1.2): each once, and no more than it was granted.

use std::collections::VecDeque;

/// As many as a client may hold at a time; the number that Windows and Samba servers give by default.
const MOST: usize = 8192;

/// The window of ids of one connection.
#[derive(Debug)]
pub(crate) struct Credits {
    /// Lower ids were all used.
    low: u64,
    /// From `low` on, up to the last that was granted: whether it was used.
    used: VecDeque<bool>,
    free: usize,
}

impl Credits {
    /// One id, for the first message.
    pub(crate) fn new() -> Self {
        Self {
            low: 0,
            used: VecDeque::from([false]),
            free: 1,
        }
    }

    /// Uses `count` ids from `first` on; false where one was not granted or was used before.
    #[must_use]
    pub(crate) fn take(&mut self, first: u64, count: u16) -> bool {
        let Some(start) = first
            .checked_sub(self.low)
            .and_then(|start| usize::try_from(start).ok())
        else {
            return false;
        };
        let end = start.saturating_add(usize::from(count));
        if end > self.used.len() || self.used.range(start..end).any(|used| *used) {
            return false;
        }
        for used in self.used.range_mut(start..end) {
            *used = true;
        }
        self.free -= usize::from(count);
        while self.used.front() == Some(&true) {
            self.used.pop_front();
            self.low += 1;
        }
        true
    }

    /// For the NEGOTIATE of SMB 1 that begins a connection, which counts as the first message and asks for nothing.
    pub(crate) fn of_smb1(&mut self) -> Option<u16> {
        self.take(0, 1).then(|| self.grant(1))
    }

    /// Grants what is asked for, within bounds; never leaves the client without any.
    pub(crate) fn grant(&mut self, asked: u16) -> u16 {
        // An id that is left out for long makes the window long; it must not grow without end.
        let room = (MOST - self.free).min((2 * MOST).saturating_sub(self.used.len()));
        let least = usize::from(self.free == 0);
        let granted = usize::from(asked.max(1)).min(room).max(least);
        self.used.resize(self.used.len() + granted, false);
        self.free += granted;
        u16::try_from(granted).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_good_once_and_only_after_it_was_granted() {
        let mut credits = Credits::new();
        assert!(!credits.take(1, 1));
        assert!(credits.take(0, 1));
        assert!(!credits.take(0, 1));
        assert_eq!(credits.grant(4), 4);
        assert!(credits.take(3, 1) && credits.take(1, 2));
        assert!(!credits.take(2, 2));
        assert!(!credits.take(4, 2));
        assert!(credits.take(4, 1));
        assert!(!credits.take(u64::MAX, 1));
    }

    #[test]
    fn nobody_is_left_without_a_credit_or_has_more_than_the_bound() {
        let mut credits = Credits::new();
        assert!(credits.take(0, 1));
        assert_eq!(credits.grant(0), 1);
        assert_eq!(usize::from(credits.grant(u16::MAX)), MOST - 1);
        assert_eq!(credits.grant(1), 0);
        // One id is left out; what is used behind it is replaced only while the window is bounded.
        let mut next = 2;
        while credits.take(next, 1) {
            credits.grant(1);
            next += 1;
        }
        assert!(credits.used.len() <= 2 * MOST);
    }
}
