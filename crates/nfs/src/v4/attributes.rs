//! NFSv4 attributes (RFC 8881, 3.3.1 and 5): a bitmap of the present attributes, and their values in the
//! order of their numbers.

use crate::wire::attribute4::*;
use crate::wire::{Malformed, Reader, SetAttributes, SetTime, Writer, DIRECTORY};
use dyno_files::{Info, SpaceInfo};

/// Upper bound on the size of all requested values.
const MOST_VALUE_BYTES: usize = 8192;
const MOST_OWNER_BYTES: usize = 1024;
const WRITABLE: u32 = 0o222;

/// Attributes requested for files that are looked up, opened, created, listed or queried: those of Linux's
/// client without the device number.
pub(crate) const ALL: Bitmap = Bitmap::of(&[
    TYPE,
    CHANGE,
    SIZE,
    FILE_SYSTEM,
    FILE_ID,
    MODE,
    LINKS,
    OWNER,
    GROUP,
    SPACE_USED,
    TIME_ACCESS,
    TIME_METADATA,
    TIME_MODIFY,
]);
/// Attributes requested after a change: those that `Info` needs.
pub(crate) const SOME: Bitmap = Bitmap::of(&[TYPE, CHANGE, SIZE, FILE_ID, MODE, SPACE_USED]);
/// Attributes requested for each entry of a listing without attributes: a server may report an error for a
/// single entry.
pub(crate) const OF_NAMES: Bitmap = Bitmap::of(&[ERROR, FILE_ID]);
/// Attributes requested in a listing with attributes.
pub(crate) const OF_ENTRIES: Bitmap = ALL.or(OF_NAMES);
/// Space on the file system.
pub(crate) const SPACE: Bitmap = Bitmap::of(&[SPACE_AVAILABLE, SPACE_TOTAL]);
/// Properties of the file system and server that a session needs.
pub(crate) const LIMITS: Bitmap = Bitmap::of(&[TYPE, LEASE_TIME, MAX_READ, MAX_WRITE]);
/// Attributes that must be set after an exclusive creation if the server stores its verifier in them.
const TIMES: [u32; 4] = [TIME_ACCESS, SET_TIME_ACCESS, TIME_MODIFY, SET_TIME_MODIFY];

/// Returns whether an exclusive creation has set the mode and has not stored its verifier in the times.
/// `set`: the attributes that the server has set.
pub(crate) fn is_furnished(set: Bitmap) -> bool {
    set.has(MODE) && !TIMES.iter().any(|time| set.has(*time))
}

/// Received attributes; None: the server did not send the attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Attributes4 {
    kind: Option<u32>,
    change: Option<u64>,
    bytes: Option<u64>,
    file_id: Option<u64>,
    mode: Option<u32>,
    used_bytes: Option<u64>,
    available_bytes: Option<u64>,
    total_bytes: Option<u64>,
    pub(crate) lease_s: Option<u32>,
    pub(crate) max_read_bytes: Option<u64>,
    pub(crate) max_write_bytes: Option<u64>,
}

impl Attributes4 {
    /// Parses `fattr4`. `asked`: the requested attributes.
    pub(crate) fn parse(reader: &mut Reader<'_>, asked: Bitmap) -> Result<Self, Malformed> {
        let came = Bitmap::parse(reader)?;
        let mut values = Reader::new(reader.opaque(MOST_VALUE_BYTES)?);
        if !came.is_within(asked) {
            return Err(Malformed);
        }
        let mut own = Self::default();
        for number in came.numbers() {
            own.take(number, &mut values)?;
        }
        match values.is_at_end() {
            true => Ok(own),
            false => Err(Malformed),
        }
    }

    fn take(&mut self, number: u32, values: &mut Reader<'_>) -> Result<(), Malformed> {
        match number {
            TYPE => self.kind = Some(values.u32()?),
            CHANGE => self.change = Some(values.u64()?),
            SIZE => self.bytes = Some(values.u64()?),
            FILE_ID => self.file_id = Some(values.u64()?),
            MODE => self.mode = Some(values.u32()?),
            SPACE_USED => self.used_bytes = Some(values.u64()?),
            SPACE_AVAILABLE => self.available_bytes = Some(values.u64()?),
            SPACE_TOTAL => self.total_bytes = Some(values.u64()?),
            LEASE_TIME => self.lease_s = Some(values.u32()?),
            MAX_READ => self.max_read_bytes = Some(values.u64()?),
            MAX_WRITE => self.max_write_bytes = Some(values.u64()?),
            FILE_SYSTEM => {
                values.u64()?;
                values.u64()?;
            }
            LINKS | ERROR => {
                values.u32()?;
            }
            OWNER | GROUP => {
                values.opaque(MOST_OWNER_BYTES)?;
            }
            TIME_ACCESS | TIME_METADATA | TIME_MODIFY => {
                values.u64()?;
                values.u32()?;
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    /// Returns the `Info` of a file. Every server must support type, change and size.
    pub(crate) fn info(&self) -> Result<Info, Malformed> {
        let bytes = self.bytes.ok_or(Malformed)?;
        Ok(Info {
            file_id: self.file_id.unwrap_or(0),
            change: self.change.ok_or(Malformed)?.max(1),
            bytes,
            allocated_bytes: self.used_bytes.unwrap_or(bytes),
            directory: self.kind.ok_or(Malformed)? == DIRECTORY,
            read_only: self.mode.is_some_and(|mode| mode & WRITABLE == 0),
        })
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == Some(DIRECTORY)
    }

    pub(crate) fn space(&self) -> Result<SpaceInfo, Malformed> {
        Ok(SpaceInfo {
            total_bytes: self.total_bytes.ok_or(Malformed)?,
            free_bytes: self.available_bytes.ok_or(Malformed)?,
        })
    }
}

/// Appends `fattr4` with the attributes to set. Owner and group are not set by any call.
pub(crate) fn write_set(set: &SetAttributes, writer: &mut Writer<'_>) {
    let mut numbers = Vec::with_capacity(4);
    let mut values = Vec::with_capacity(40);
    let mut of_values = Writer(&mut values);
    if let Some(bytes) = set.bytes {
        numbers.push(SIZE);
        of_values.u64(bytes);
    }
    if let Some(mode) = set.mode {
        numbers.push(MODE);
        of_values.u32(mode);
    }
    for (number, time) in [(SET_TIME_ACCESS, set.accessed), (SET_TIME_MODIFY, set.modified)] {
        match time {
            SetTime::Keep => continue,
            SetTime::Server => {
                of_values.u32(0);
            }
            SetTime::Client((seconds, nanoseconds)) => {
                of_values.u32(1).u64(u64::from(seconds)).u32(nanoseconds);
            }
        }
        numbers.push(number);
    }
    Bitmap::of(&numbers).write(writer);
    writer.opaque(&values);
}
