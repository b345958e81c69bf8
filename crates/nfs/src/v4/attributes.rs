//! NFSv4 attributes (RFC 8881, 3.3.1 and 5): a bitmap of the present attributes, and their values in the
//! order of their numbers.

use crate::wire::{Malformed, Reader, SetAttributes, SetTime, Writer, DIRECTORY};
use dyno_files::{Info, SpaceInfo};

// Attribute numbers (RFC 8881, 5.8).
const TYPE: u32 = 1;
const CHANGE: u32 = 3;
const SIZE: u32 = 4;
const FILE_SYSTEM: u32 = 8;
const LEASE_TIME: u32 = 10;
const ERROR: u32 = 11;
const FILE_ID: u32 = 20;
const MAX_READ: u32 = 30;
const MAX_WRITE: u32 = 31;
const MODE: u32 = 33;
const LINKS: u32 = 35;
const OWNER: u32 = 36;
const GROUP: u32 = 37;
const SPACE_AVAILABLE: u32 = 42;
const SPACE_TOTAL: u32 = 44;
const SPACE_USED: u32 = 45;
const TIME_ACCESS: u32 = 47;
const SET_TIME_ACCESS: u32 = 48;
const TIME_METADATA: u32 = 52;
const TIME_MODIFY: u32 = 53;
const SET_TIME_MODIFY: u32 = 54;

/// Number of stored bitmap words; the attributes above need two.
const WORDS: usize = 3;
/// Maximum number of words; those beyond `WORDS` must be zero.
const MOST_WORDS: u32 = 8;
/// Upper bound on the size of all requested values.
const MOST_VALUE_BYTES: usize = 8192;
const MOST_OWNER_BYTES: usize = 1024;
const WRITABLE: u32 = 0o222;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bitmap([u32; WORDS]);

impl Bitmap {
    const fn of(numbers: &[u32]) -> Self {
        let mut words = [0; WORDS];
        let mut at = 0;
        while at < numbers.len() {
            words[numbers[at] as usize / 32] |= 1 << (numbers[at] % 32);
            at += 1;
        }
        Self(words)
    }

    fn has(self, number: u32) -> bool {
        let word = self.0.get(number as usize / 32);
        word.is_some_and(|word| word & (1 << (number % 32)) != 0)
    }

    fn is_within(self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(own, other)| own & !other == 0)
    }

    /// Appends the bitmap without trailing zero words.
    pub(crate) fn write(self, writer: &mut Writer<'_>) {
        let words = WORDS - self.0.iter().rev().take_while(|word| **word == 0).count();
        writer.u32(words as u32);
        for word in &self.0[..words] {
            writer.u32(*word);
        }
    }

    /// Parses a bitmap. Words beyond `WORDS` must be zero.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.u32()?;
        if count > MOST_WORDS {
            return Err(Malformed);
        }
        let mut words = [0; WORDS];
        for at in 0..count as usize {
            let word = reader.u32()?;
            match words.get_mut(at) {
                Some(own) => *own = word,
                None if word != 0 => return Err(Malformed),
                None => {}
            }
        }
        Ok(Self(words))
    }
}

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
pub(crate) const OF_ENTRIES: Bitmap = Bitmap(or(ALL.0, OF_NAMES.0));
/// Space on the file system.
pub(crate) const SPACE: Bitmap = Bitmap::of(&[SPACE_AVAILABLE, SPACE_TOTAL]);
/// Properties of the file system and server that a session needs.
pub(crate) const LIMITS: Bitmap = Bitmap::of(&[TYPE, LEASE_TIME, MAX_READ, MAX_WRITE]);
/// Attributes that must be set after an exclusive creation if the server stores its verifier in them.
const TIMES: [u32; 4] = [TIME_ACCESS, SET_TIME_ACCESS, TIME_MODIFY, SET_TIME_MODIFY];

const fn or(one: [u32; WORDS], other: [u32; WORDS]) -> [u32; WORDS] {
    let mut both = one;
    let mut at = 0;
    while at < WORDS {
        both[at] |= other[at];
        at += 1;
    }
    both
}

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
    /// Parses `fattr4`; `asked` are the requested attributes.
    pub(crate) fn parse(reader: &mut Reader<'_>, asked: Bitmap) -> Result<Self, Malformed> {
        let came = Bitmap::parse(reader)?;
        let mut values = Reader::new(reader.opaque(MOST_VALUE_BYTES)?);
        if !came.is_within(asked) {
            return Err(Malformed);
        }
        let mut own = Self::default();
        for number in (0..WORDS as u32 * 32).filter(|number| came.has(*number)) {
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
