//! QUERY_DIRECTORY (MS-SMB2 2.2.33, 3.3.5.18; formats of entries: MS-FSCC 2.4).

use super::{Asking, BODY};
use crate::smb::bytes::{length, slice, u16_at, u32_at, u8_at, units, Put};
use crate::smb::message::HEADER_BYTES;
use crate::smb::status::Status;
use crate::smb::volume::{Entry, Pattern, Volume};

const RESTART: u8 = 0x01;
const SINGLE: u8 = 0x02;
const REOPEN: u8 = 0x10;

/// Formats of an entry by code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Directory,
    Full,
    Both,
    Names,
    IdBoth,
    IdFull,
}

impl Form {
    fn of(code: u8) -> Result<Self, Status> {
        Ok(match code {
            1 => Self::Directory,
            2 => Self::Full,
            3 => Self::Both,
            12 => Self::Names,
            37 => Self::IdBoth,
            38 => Self::IdFull,
            _ => return Err(Status::INVALID_INFO_CLASS),
        })
    }

    /// Returns the size of an entry before its name.
    fn fixed_bytes(self) -> usize {
        match self {
            Self::Names => 12,
            Self::Directory => 64,
            Self::Full => 68,
            Self::IdFull => 80,
            Self::Both => 94,
            Self::IdBoth => 104,
        }
    }
}

pub(super) fn query(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Status> {
    let part = asking.part;
    let open = asking.file(volume, 8)?;
    let form = Form::of(u8_at(part, BODY + 2)?)?;
    let flags = u8_at(part, BODY + 3)?;
    let room = u32_at(part, BODY + 28)?;
    asking.check_charge(room)?;
    let pattern_bytes = usize::from(u16_at(part, BODY + 26)?);
    let pattern = units(slice(part, usize::from(u16_at(part, BODY + 24)?), pattern_bytes)?)?;
    let start = out.len();
    out.u16(9);
    out.u16(HEADER_BYTES as u16 + 8);
    out.u32(0);
    let entries_at = out.len();
    let mut writer = Writer {
        out,
        start: entries_at,
        room: room as usize,
        form,
        single: flags & SINGLE != 0,
        last: None,
        was_full: false,
    };
    let restart = flags & (RESTART | REOPEN) != 0;
    let told = volume.list(open, Pattern::new(&pattern), restart, |entry| writer.entry(entry));
    if writer.was_full && writer.last.is_none() {
        return Err(Status::INFO_LENGTH_MISMATCH);
    }
    told?;
    let bytes = length(out.len() - entries_at);
    out.set_u32(start + 4, bytes);
    Ok(Status::SUCCESS)
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    room: usize,
    form: Form,
    single: bool,
    /// Start of the previous entry.
    last: Option<usize>,
    was_full: bool,
}

impl Writer<'_> {
    /// Writes an entry if it fits completely. Returns whether it did.
    fn entry(&mut self, entry: Entry<'_>) -> bool {
        if self.single && self.last.is_some() {
            return false;
        }
        let place = (self.out.len() - self.start).next_multiple_of(8);
        let bytes = self.form.fixed_bytes() + 2 * entry.name.len();
        if place + bytes > self.room {
            self.was_full = true;
            return false;
        }
        self.out.resize(self.start + place, 0);
        let at = self.out.len();
        if let Some(before) = self.last {
            self.out.set_u32(before, length(at - before));
        }
        self.last = Some(at);
        self.write(entry);
        true
    }

    fn write(&mut self, entry: Entry<'_>) {
        let (out, facts) = (&mut *self.out, entry.facts);
        let name_bytes = length(2 * entry.name.len());
        out.u32(0);
        out.u32(0);
        if self.form == Form::Names {
            out.u32(name_bytes);
            out.name(entry.name);
            return;
        }
        let times = facts.times;
        for value in [
            times.created,
            times.accessed,
            times.written,
            times.changed,
            facts.end,
            facts.allocated,
        ] {
            out.u64(value);
        }
        out.u32(facts.attributes);
        out.u32(name_bytes);
        if self.form != Form::Directory {
            out.u32(0); // Size of extended attributes.
        }
        match self.form {
            // There is no short name: its length, a reserved byte and its 24 bytes are zero. Two more bytes
            // precede a file ID.
            Form::Both => out.zeros(26),
            Form::IdBoth => {
                out.zeros(28);
                out.u64(facts.number);
            }
            Form::IdFull => {
                out.zeros(4);
                out.u64(facts.number);
            }
            _ => {}
        }
        out.name(entry.name);
    }
}
