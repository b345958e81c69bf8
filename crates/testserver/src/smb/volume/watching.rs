//! Change notification (MS-FSA 2.1.5.11, 2.1.4.1): the watcher of a directory learns that something has
//! changed, but not what, and must list the directory again (MS-SMB2 3.3.4.4, STATUS_NOTIFY_ENUM_DIR). A
//! change also breaks directory leases.

use super::{right, LeaseName, Moment, Volume, Waiter};
use crate::smb::status::{Status, Stop};

/// Bits of a completion filter for file and directory names. Other bits stand for sizes, times and attributes.
const NAMES: u32 = 0x3;

/// Counts of changes in a directory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Changes {
    own: Kinds,
    /// Changes in the directory and in all directories below it.
    all: Kinds,
}

#[derive(Debug, Clone, Copy, Default)]
struct Kinds {
    names: u64,
    others: u64,
}

impl Kinds {
    fn add(&mut self, is_name: bool) {
        self.names += u64::from(is_name);
        self.others += u64::from(!is_name);
    }
}

impl Volume {
    /// Records a change through an open.
    pub(super) fn note_change_by(&mut self, open: usize, moment: Moment) {
        let (directory, by) = (self.node(open).parent, self.opens[open].parent_lease);
        self.note_change(directory, false, by, moment);
    }

    /// Records a change of a name in a directory, or of the file with that name. `by`: the changing client's lease on
    /// the directory.
    pub(super) fn note_change(
        &mut self,
        directory: usize,
        is_name: bool,
        by: Option<LeaseName>,
        moment: Moment,
    ) {
        self.take_directory_away(directory, by, moment);
        self.nodes[directory].changes.own.add(is_name);
        let mut at = directory;
        loop {
            self.nodes[at].changes.all.add(is_name);
            self.wake(at);
            if at == self.root {
                return;
            }
            at = self.nodes[at].parent;
        }
    }

    /// Waits for a change in an open directory after the last reported one. `below`: whether to include the
    /// directories below it.
    pub(crate) fn watch(
        &mut self,
        open: usize,
        below: bool,
        filter: u32,
        waiter: Waiter,
    ) -> Result<(), Stop> {
        self.need(open, right::READ_DATA)?;
        let index = self.opens[open].node;
        let node = &self.nodes[index];
        if !node.is_directory() {
            return Err(Status::INVALID_PARAMETER.into());
        }
        let kinds = if below { node.changes.all } else { node.changes.own };
        let names = if filter & NAMES != 0 { kinds.names } else { 0 };
        let others = if filter & !NAMES != 0 { kinds.others } else { 0 };
        let count = names + others;
        let told = self.opens[open].told_changes.get_or_insert(count);
        if *told == count {
            return Err(self.wait(index, waiter));
        }
        *told = count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, ConnectionId, Moment, Notice, Opener, Space, Want};
    use super::*;
    use std::sync::Arc;

    const MOMENT: Moment = Moment { ns: 1, filetime: 1 };
    const CONNECTION: ConnectionId = ConnectionId { thread: 0, serial: 1 };
    const WAITER: Waiter = Waiter {
        connection: CONNECTION,
        async_id: 7,
    };
    const SIZE: u32 = 0x8;
    const DIRECTORY: u32 = 1;

    fn open(volume: &mut Volume, path: &str, options: u32) -> usize {
        let opener = Opener {
            connection: CONNECTION,
            session: 1,
            tree: 1,
        };
        let want = Want {
            path: &path.encode_utf16().collect::<Vec<_>>(),
            access: right::ALL,
            share: 7,
            disposition: 3,
            options,
            attributes: 0,
            asked: Asked::Nothing,
            parent: None,
        };
        volume
            .open(&opener, &want, MOMENT, WAITER)
            .expect("it can be opened")
            .file
            .0
    }

    #[test]
    fn a_watcher_is_notified_once_per_change_of_the_requested_kind() {
        let mut volume = Volume::new(Arc::new(Space::new(1 << 20)), 1, None, 0);
        let directory = open(&mut volume, "d", DIRECTORY);
        let root = open(&mut volume, "", DIRECTORY);
        let shallow = open(&mut volume, "", DIRECTORY);
        for (watched, below) in [(directory, false), (root, true), (shallow, false)] {
            assert_eq!(volume.watch(watched, below, NAMES, WAITER), Err(Stop::Wait));
        }
        volume.notices.clear();
        let file = open(&mut volume, "d\\x", 0);
        let again = (CONNECTION, Notice::TryAgain { async_id: 7 });
        assert_eq!(volume.notices, [again, again]);
        assert_eq!(volume.watch(directory, false, NAMES, WAITER), Ok(()));
        assert_eq!(volume.watch(directory, false, NAMES, WAITER), Err(Stop::Wait));
        assert_eq!(volume.watch(root, true, NAMES, WAITER), Ok(()));
        assert_eq!(volume.watch(shallow, false, NAMES, WAITER), Err(Stop::Wait));
        // A write does not change names.
        volume.write(file, 0, b"new", MOMENT).expect("it may write");
        assert_eq!(volume.watch(directory, false, NAMES, WAITER), Err(Stop::Wait));
        let sizes = open(&mut volume, "d", DIRECTORY);
        assert_eq!(volume.watch(sizes, false, SIZE, WAITER), Err(Stop::Wait));
        volume.write(file, 0, b"new", MOMENT).expect("it may write");
        assert_eq!(volume.watch(sizes, false, SIZE, WAITER), Ok(()));
        assert_eq!(
            volume.watch(file, false, NAMES, WAITER),
            Err(Status::INVALID_PARAMETER.into())
        );
    }
}
