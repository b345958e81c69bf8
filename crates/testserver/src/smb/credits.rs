//! Message IDs that a client may use (MS-SMB2 3.3.1.1, 3.3.1.2): each ID once, and only as many as were granted.

use std::collections::VecDeque;

/// Maximum number of credits that a client may have: the default of Windows and Samba servers.
const MOST: usize = 8192;

/// The window of message IDs of a connection.
#[derive(Debug)]
pub(crate) struct Credits {
    /// All lower IDs have been used.
    low: u64,
    /// Whether each ID has been used, from `low` to the last one granted.
    used: VecDeque<bool>,
    free: usize,
}

impl Credits {
    /// Returns a window with one ID, for the first message.
    pub(crate) fn new() -> Self {
        Self {
            low: 0,
            used: VecDeque::from([false]),
            free: 1,
        }
    }

    /// Uses `count` IDs, starting at `first`. Returns false if an ID was not granted or was used before.
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

    /// Handles an SMB 1 NEGOTIATE at the start of a connection, which counts as the first message and
    /// requests no credits.
    pub(crate) fn of_smb1(&mut self) -> Option<u16> {
        self.take(0, 1).then(|| self.grant(1))
    }

    /// Grants the requested credits within limits, and always leaves the client at least one.
    pub(crate) fn grant(&mut self, asked: u16) -> u16 {
        // An unused ID keeps the window long, and the window must not grow without limit.
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
    fn an_id_is_valid_once_and_only_after_it_was_granted() {
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
    fn each_client_has_at_least_one_credit_and_at_most_the_limit() {
        let mut credits = Credits::new();
        assert!(credits.take(0, 1));
        assert_eq!(credits.grant(0), 1);
        assert_eq!(usize::from(credits.grant(u16::MAX)), MOST - 1);
        assert_eq!(credits.grant(1), 0);
        // One ID is skipped. The IDs used after it are replaced only while the window is within its limit.
        let mut next = 2;
        while credits.take(next, 1) {
            credits.grant(1);
            next += 1;
        }
        assert!(credits.used.len() <= 2 * MOST);
    }
}
