//! Files and directories that are kept open, so that not every request opens its file anew. Bounded: what was not used while
//! as many others were is closed.

use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::mem::take;
use std::sync::Arc;

/// One that is open.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub(super) file: Arc<OwnedFd>,
    pub(super) writable: bool,
}

/// Those that are open, by slot: two halves, of which the one that was used longer ago goes as a whole.
#[derive(Debug)]
pub(super) struct OpenFiles {
    half: usize,
    young: HashMap<usize, Opened>,
    old: HashMap<usize, Opened>,
}

impl OpenFiles {
    /// `most`: of them, at a time.
    pub(super) fn new(most: usize) -> Self {
        Self {
            half: (most / 2).max(1),
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    pub(super) fn get(&mut self, slot: usize) -> Option<Opened> {
        if let Some(opened) = self.young.get(&slot) {
            return Some(opened.clone());
        }
        let opened = self.old.remove(&slot)?;
        self.keep(slot, opened.clone());
        Some(opened)
    }

    pub(super) fn keep(&mut self, slot: usize, opened: Opened) {
        if self.young.len() >= self.half {
            self.old = take(&mut self.young);
        }
        self.old.remove(&slot);
        self.young.insert(slot, opened);
    }

    pub(super) fn close(&mut self, slot: usize) {
        self.young.remove(&slot);
        self.old.remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{open, Mode, OFlags};

    #[test]
    fn what_is_used_stays_open_and_no_more_than_the_bound_are() {
        let file =
            Arc::new(open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).expect("there"));
        let opened = |writable| Opened {
            file: file.clone(),
            writable,
        };
        let mut files = OpenFiles::new(8);
        files.keep(0, opened(false));
        for slot in 1..100 {
            files.keep(slot, opened(false));
            assert!(files.get(0).is_some(), "{slot}");
            assert!(Arc::strong_count(&file) <= 1 + 8);
        }
        assert!(files.get(50).is_none());
        files.keep(0, opened(true));
        assert!(files.get(0).is_some_and(|opened| opened.writable));
        files.close(0);
        assert!(files.get(0).is_none());
    }
}
