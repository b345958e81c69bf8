//! Computes the space that a client's files need by playing a pass of its workload with sizes only.
//! `played.rs` plays contents.

use crate::{FileAction, FileWorkload, Intent, Outcome, PathId};
use std::collections::HashMap;

/// Maximum number of operations that are played, because a load file may have any number.
const MOST_OPERATIONS: u32 = 5_000_000;

#[derive(Clone, Copy, Default)]
struct Size {
    end_bytes: u64,
    /// Bytes actually written: holes in a file do not count.
    written_bytes: u64,
}

#[derive(Default)]
struct Sizes {
    files: HashMap<PathId, Size>,
    open: HashMap<u16, PathId>,
    now_bytes: u64,
    most_bytes: u64,
}

/// Returns the maximum total size of the files of `workload` until the end of its first pass, in bytes.
/// `workload` must not have begun. A server needs this space, plus some for names and partial blocks.
pub fn footprint_bytes(workload: &mut impl FileWorkload) -> u64 {
    let mut sizes = Sizes::default();
    for action in workload.preparation(false) {
        sizes.all(&action);
    }
    let mut last = Outcome::START;
    for _ in 0..MOST_OPERATIONS {
        let op = workload.next(&last);
        if workload.passes() > 0 {
            break;
        }
        last.bytes_read = sizes.all(&op.action);
    }
    sizes.most_bytes
}

impl Sizes {
    /// Performs an action step by step. Returns the number of bytes read.
    fn all(&mut self, action: &FileAction) -> u64 {
        action.steps().map(|step| self.act(&step)).sum()
    }

    fn act(&mut self, action: &FileAction) -> u64 {
        match *action {
            FileAction::Open {
                slot,
                path,
                intent,
                directory: false,
                ..
            } => {
                let makes = matches!(intent, Intent::Make | Intent::MakeOrEdit | Intent::Replace);
                if !makes && !self.files.contains_key(&path) {
                    return 0;
                }
                if intent == Intent::Replace {
                    self.set(path, Size::default());
                }
                self.files.entry(path).or_default();
                self.open.insert(slot.0, path);
            }
            FileAction::Read { slot, offset, bytes } => {
                let end_bytes = self.of(slot.0).map_or(0, |(_, size)| size.end_bytes);
                return end_bytes.saturating_sub(offset).min(u64::from(bytes));
            }
            FileAction::Write {
                slot, offset, bytes, ..
            }
            | FileAction::WriteBlock {
                slot, offset, bytes, ..
            } => {
                if let Some((path, mut size)) = self.of(slot.0) {
                    let end_bytes = offset.saturating_add(u64::from(bytes));
                    size.written_bytes += end_bytes.saturating_sub(size.end_bytes.max(offset));
                    size.end_bytes = size.end_bytes.max(end_bytes);
                    self.set(path, size);
                }
            }
            FileAction::SetEnd { slot, bytes } => {
                if let Some((path, size)) = self.of(slot.0) {
                    let written_bytes = size.written_bytes.min(bytes);
                    self.set(
                        path,
                        Size {
                            end_bytes: bytes,
                            written_bytes,
                        },
                    );
                }
            }
            FileAction::Close { slot } => {
                self.open.remove(&slot.0);
            }
            FileAction::Rename { from, to } => {
                let size = self.files.remove(&from).unwrap_or_default();
                self.now_bytes -= size.written_bytes;
                self.set(to, size);
            }
            FileAction::Delete { path, .. } => {
                self.set(path, Size::default());
                self.files.remove(&path);
            }
            _ => {}
        }
        0
    }

    fn of(&self, slot: u16) -> Option<(PathId, Size)> {
        let path = *self.open.get(&slot)?;
        Some((path, self.files.get(&path).copied()?))
    }

    fn set(&mut self, path: PathId, size: Size) {
        let before = self.files.insert(path, size).unwrap_or_default();
        self.now_bytes = self.now_bytes - before.written_bytes + size.written_bytes;
        self.most_bytes = self.most_bytes.max(self.now_bytes);
    }
}
