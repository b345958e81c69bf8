//! Lists a directory, name by name, from the end of the previous response.

use super::names::{Key, Pattern};
use super::node::Facts;
use super::Volume;
use crate::smb::status::Status;
use std::ops::Bound;

/// Position in a listing.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// Pattern of the first request, which applies until the listing restarts.
    pattern: Option<Pattern>,
    /// Number of `.` and `..` returned so far.
    dots: u8,
    /// The last returned name.
    last: Option<Key>,
    any: bool,
}

/// One name in a listing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u16],
    pub(crate) facts: Facts,
}

const DOTS: [u16; 2] = [b'.' as u16, b'.' as u16];

impl Volume {
    /// Passes the next matching names to `tell` until `tell` refuses a name.
    pub(crate) fn list(
        &mut self,
        open: usize,
        pattern: Pattern,
        restart: bool,
        mut tell: impl FnMut(Entry<'_>) -> bool,
    ) -> Result<(), Status> {
        self.need(open, super::right::READ_DATA)?;
        let index = self.opens[open].node;
        let mut cursor = std::mem::take(&mut self.opens[open].cursor);
        if restart {
            cursor = Cursor::default();
        }
        let before = cursor.any;
        let wanted = cursor.pattern.get_or_insert(pattern).clone();
        let told = self.list_from(index, &mut cursor, &wanted, &mut tell);
        cursor.any |= matches!(told, Ok(true));
        self.opens[open].cursor = cursor;
        match told? {
            true => Ok(()),
            false if before => Err(Status::NO_MORE_FILES),
            false => Err(Status::NO_SUCH_FILE),
        }
    }

    fn list_from(
        &self,
        index: usize,
        cursor: &mut Cursor,
        pattern: &Pattern,
        tell: &mut impl FnMut(Entry<'_>) -> bool,
    ) -> Result<bool, Status> {
        let node = &self.nodes[index];
        let entries = node.entries().ok_or(Status::INVALID_PARAMETER)?;
        let mut any = false;
        while cursor.dots < 2 {
            let name = &DOTS[..=usize::from(cursor.dots)];
            let target = if cursor.dots == 0 { index } else { node.parent };
            let facts = self.nodes[target].facts();
            if pattern.matches(name) {
                if !tell(Entry { name, facts }) {
                    return Ok(any);
                }
                any = true;
            }
            cursor.dots += 1;
        }
        let entry = |index: usize| Entry {
            name: &self.nodes[index].name,
            facts: self.nodes[index].facts(),
        };
        if let Some(name) = pattern.literal() {
            if let (None, Some((key, index))) = (&cursor.last, entries.get_key_value(name)) {
                if tell(entry(*index)) {
                    cursor.last = Some(key.clone());
                    any = true;
                }
            }
            return Ok(any);
        }
        let start = cursor.last.take();
        let from = start.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        for (key, index) in entries.range::<[u16], _>((from, Bound::Unbounded)) {
            if !pattern.matches(key) {
                continue;
            }
            if !tell(entry(*index)) {
                break;
            }
            last = Some(key);
            any = true;
        }
        cursor.last = last.cloned().or(start);
        Ok(any)
    }
}
