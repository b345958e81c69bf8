//! Computes the contents of a client's files after a number of operations. It plays the workload on files in
//! memory, byte by byte, so that a server's files can be compared with them after a level. During a level,
//! the ledger checks reads without storing bytes. Here it only numbers the files.

use crate::{content_of, FileAction, FileWorkload, Intent, Ledger, Outcome, PathId, MOST_BYTES_AT_ONCE};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

type Bytes = Rc<RefCell<Vec<u8>>>;

/// Files of a server without faults, and the ledger that numbers them.
struct InMemory {
    files: BTreeMap<PathId, Bytes>,
    open: HashMap<u16, Bytes>,
    books: Ledger,
}

/// Plays `workload`, whose client has no files yet: creates the workspace, performs this many operations and
/// leaves. Returns its files by path. All operations succeed. Writes belong to `level`.
pub fn played(
    workload: &mut impl FileWorkload,
    client: u32,
    level: u32,
    operations: u64,
) -> BTreeMap<String, Vec<u8>> {
    let mut books = Ledger::new(client);
    books.begin_level(level);
    let mut disk = InMemory {
        files: BTreeMap::new(),
        open: HashMap::new(),
        books,
    };
    for action in workload.preparation(false) {
        disk.all(&action);
    }
    let mut last = Outcome::START;
    for _ in 0..operations {
        let op = workload.next(&last);
        last.bytes_read = disk.all(&op.action);
    }
    for action in workload.leaving() {
        disk.all(&action);
    }
    let paths = &workload.catalogue().paths;
    let named = disk
        .files
        .iter()
        .map(|(path, bytes)| (paths[path.0 as usize].clone(), bytes.take()));
    named.collect()
}

impl InMemory {
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
                let opened = self.open(slot.0, path, intent);
                if !opened {
                    return 0;
                }
            }
            FileAction::Read { slot, offset, bytes } => {
                let end = self.open[&slot.0].borrow().len() as u64;
                return end.saturating_sub(offset).min(u64::from(bytes));
            }
            FileAction::Write { .. } => self.write(action),
            FileAction::SetEnd { slot, bytes } => {
                let file = &self.open[&slot.0];
                file.borrow_mut().resize(in_memory(bytes), 0);
            }
            FileAction::Close { slot } => {
                self.open.remove(&slot.0);
            }
            FileAction::Rename { from, to } => {
                let file = self.files.remove(&from).expect("is there");
                self.files.insert(to, file);
            }
            FileAction::Delete { path, .. } => {
                self.files.remove(&path);
            }
            _ => {}
        }
        self.books.apply(action);
        0
    }

    /// Opens a file. Returns false if it does not exist.
    fn open(&mut self, slot: u16, path: PathId, intent: Intent) -> bool {
        let makes = matches!(intent, Intent::Make | Intent::MakeOrEdit | Intent::Replace);
        if !makes && !self.files.contains_key(&path) {
            return false;
        }
        let file = self.files.entry(path).or_default().clone();
        if intent == Intent::Replace {
            file.borrow_mut().clear();
        }
        self.open.insert(slot, file);
        true
    }

    fn write(&mut self, action: &FileAction) {
        let FileAction::Write {
            slot,
            offset,
            bytes,
            generation,
        } = *action
        else {
            unreachable!("called with a write");
        };
        let writing = self.books.writing(slot, generation).expect("is open");
        let mut file = self.open[&slot.0].borrow_mut();
        let mut at = offset;
        let end = offset + u64::from(bytes);
        if bytes > 0 && file.len() < in_memory(end) {
            file.resize(in_memory(end), 0);
        }
        while at < end {
            let piece = content_of(writing, at, in_memory(end - at).min(MOST_BYTES_AT_ONCE));
            file[in_memory(at)..][..piece.len()].copy_from_slice(piece);
            at += piece.len() as u64;
        }
    }
}

fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is played fits into memory")
}
