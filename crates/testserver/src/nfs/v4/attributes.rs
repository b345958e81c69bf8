//! NFSv4 attributes (RFC 8881, 5): a bitmap of the attributes that are present, and their values in the order of the
//! bits.

use crate::nfs::options::LEASE_S;
use crate::nfs::state4::status::{Outcome, Refused4};
use crate::nfs::volume::{Room, MOST_LINKS, MOST_NAME_BYTES};
use dyno_nfs::status::{Status, Status4};
use dyno_nfs::wire::{Attributes3, FileHandle, Malformed, Reader, SetAttributes, SetTime, Time, Writer};

const SUPPORTED: u32 = 0;
const TYPE: u32 = 1;
const EXPIRY: u32 = 2;
const CHANGE: u32 = 3;
const SIZE: u32 = 4;
const LINK_SUPPORT: u32 = 5;
const SYMLINK_SUPPORT: u32 = 6;
const NAMED_ATTRIBUTES: u32 = 7;
const FILE_SYSTEM: u32 = 8;
const UNIQUE_HANDLES: u32 = 9;
const LEASE_TIME: u32 = 10;
const ERROR: u32 = 11;
const ACL_SUPPORT: u32 = 13;
const CAN_SET_TIME: u32 = 15;
const CASE_INSENSITIVE: u32 = 16;
const CASE_PRESERVING: u32 = 17;
const CHOWN_RESTRICTED: u32 = 18;
const FILE_HANDLE: u32 = 19;
const FILE_ID: u32 = 20;
const FILES_AVAILABLE: u32 = 21;
const FILES_FREE: u32 = 22;
const FILES_TOTAL: u32 = 23;
const HOMOGENEOUS: u32 = 26;
const MAX_FILE: u32 = 27;
const MAX_LINK: u32 = 28;
const MAX_NAME: u32 = 29;
const MAX_READ: u32 = 30;
const MAX_WRITE: u32 = 31;
const MODE: u32 = 33;
const NO_TRUNCATION: u32 = 34;
const LINKS: u32 = 35;
const OWNER: u32 = 36;
const GROUP: u32 = 37;
const DEVICE: u32 = 41;
const SPACE_AVAILABLE: u32 = 42;
const SPACE_FREE: u32 = 43;
const SPACE_TOTAL: u32 = 44;
const SPACE_USED: u32 = 45;
const TIME_ACCESS: u32 = 47;
const SET_TIME_ACCESS: u32 = 48;
const TIME_DELTA: u32 = 51;
const TIME_METADATA: u32 = 52;
const TIME_MODIFY: u32 = 53;
const SET_TIME_MODIFY: u32 = 54;
const MOUNTED_ON: u32 = 55;
const OF_EXCLUSIVE_CREATION: u32 = 75;

const WORDS: usize = 3;
const MOST_WORDS: u32 = 8;
const MOST_VALUE_BYTES: usize = 4096;
const MOST_OWNER_BYTES: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bitmap([u32; WORDS]);

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
        self.0[number as usize / 32] & (1 << (number % 32)) != 0
    }

    fn and(self, other: Self) -> Self {
        let mut both = self;
        for (word, theirs) in both.0.iter_mut().zip(other.0) {
            *word &= theirs;
        }
        both
    }

    fn numbers(self) -> impl Iterator<Item = u32> {
        (0..WORDS as u32 * 32).filter(move |number| self.has(*number))
    }

    /// Parses a bitmap. Words beyond the known ones stand for unknown attributes and are dropped.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.u32()?;
        if count > MOST_WORDS {
            return Err(Malformed);
        }
        let mut own = Self::default();
        for at in 0..count as usize {
            let word = reader.u32()?;
            if let Some(known) = own.0.get_mut(at) {
                *known = word;
            }
        }
        Ok(own)
    }

    pub(super) fn write(self, writer: &mut Writer<'_>) {
        let empty = self.0.iter().rev().take_while(|word| **word == 0).count();
        let words = &self.0[..WORDS - empty];
        writer.u32(words.len() as u32);
        for word in words {
            writer.u32(*word);
        }
    }
}

const TOLD: Bitmap = Bitmap::of(&[
    SUPPORTED,
    TYPE,
    EXPIRY,
    CHANGE,
    SIZE,
    LINK_SUPPORT,
    SYMLINK_SUPPORT,
    NAMED_ATTRIBUTES,
    FILE_SYSTEM,
    UNIQUE_HANDLES,
    LEASE_TIME,
    ERROR,
    ACL_SUPPORT,
    CAN_SET_TIME,
    CASE_INSENSITIVE,
    CASE_PRESERVING,
    CHOWN_RESTRICTED,
    FILE_HANDLE,
    FILE_ID,
    FILES_AVAILABLE,
    FILES_FREE,
    FILES_TOTAL,
    HOMOGENEOUS,
    MAX_FILE,
    MAX_LINK,
    MAX_NAME,
    MAX_READ,
    MAX_WRITE,
    MODE,
    NO_TRUNCATION,
    LINKS,
    OWNER,
    GROUP,
    DEVICE,
    SPACE_AVAILABLE,
    SPACE_FREE,
    SPACE_TOTAL,
    SPACE_USED,
    TIME_ACCESS,
    TIME_DELTA,
    TIME_METADATA,
    TIME_MODIFY,
    MOUNTED_ON,
    OF_EXCLUSIVE_CREATION,
]);
/// Attributes that can be set.
const SETTABLE: Bitmap = Bitmap::of(&[SIZE, MODE, OWNER, GROUP, SET_TIME_ACCESS, SET_TIME_MODIFY]);
const OF_ROOM: Bitmap = Bitmap::of(&[
    FILES_AVAILABLE,
    FILES_FREE,
    FILES_TOTAL,
    SPACE_AVAILABLE,
    SPACE_FREE,
    SPACE_TOTAL,
]);

/// Returns whether attributes of the free space are requested.
pub(super) fn asks_for_room(asked: Bitmap) -> bool {
    asked.and(OF_ROOM) != Bitmap::default()
}

/// Reported properties of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    pub(super) file: FileHandle,
    pub(super) attributes: Attributes3,
    /// File ID in the parent directory, if that directory is on another file system.
    pub(super) mounted_on: u64,
    pub(super) room: Option<Room>,
    pub(super) most_file_bytes: u64,
    pub(super) max_transfer_bytes: u32,
}

/// Returns a number that grows with every change.
pub(super) fn change(attributes: &Attributes3) -> u64 {
    u64::from(attributes.changed.0) << 32 | u64::from(attributes.changed.1)
}

impl Told {
    /// Appends the supported attributes among `asked`.
    pub(super) fn write(&self, asked: Bitmap, writer: &mut Writer<'_>) {
        let told = asked.and(TOLD);
        told.write(writer);
        let mut values = Vec::with_capacity(160);
        for number in told.numbers() {
            self.write_value(number, &mut Writer(&mut values));
        }
        writer.opaque(&values);
    }

    fn write_value(&self, number: u32, writer: &mut Writer<'_>) {
        let own = &self.attributes;
        match number {
            SUPPORTED => Bitmap([
                TOLD.0[0] | SETTABLE.0[0],
                TOLD.0[1] | SETTABLE.0[1],
                TOLD.0[2] | SETTABLE.0[2],
            ])
            .write(writer),
            OF_EXCLUSIVE_CREATION => SETTABLE.write(writer),
            FILE_HANDLE => self.file.write(writer),
            OWNER => write_number(own.uid, writer),
            GROUP => write_number(own.gid, writer),
            TIME_ACCESS => write_time(own.accessed, writer),
            TIME_METADATA => write_time(own.changed, writer),
            TIME_MODIFY => write_time(own.modified, writer),
            TIME_DELTA => write_time((0, 1), writer),
            FILE_SYSTEM => {
                writer.u64(own.file_system).u64(0);
            }
            DEVICE => {
                writer.u32(own.device.0).u32(own.device.1);
            }
            CHANGE | SIZE | FILE_ID | MOUNTED_ON | MAX_FILE | MAX_READ | MAX_WRITE | SPACE_USED
            | SPACE_AVAILABLE | SPACE_FREE | SPACE_TOTAL | FILES_AVAILABLE | FILES_FREE | FILES_TOTAL => {
                writer.u64(self.number(number));
            }
            _ => {
                writer.u32(self.word(number));
            }
        }
    }

    fn number(&self, number: u32) -> u64 {
        let own = &self.attributes;
        let room = |part: fn(&Room) -> u64| self.room.as_ref().map_or(0, part);
        match number {
            CHANGE => change(own),
            SIZE => own.bytes,
            FILE_ID => own.file_id,
            MOUNTED_ON => self.mounted_on,
            MAX_FILE => self.most_file_bytes,
            MAX_READ | MAX_WRITE => self.max_transfer_bytes.into(),
            SPACE_USED => own.used_bytes,
            SPACE_AVAILABLE | SPACE_FREE => room(|room| room.free_bytes),
            SPACE_TOTAL => room(|room| room.total_bytes),
            _ => room(|room| room.free_files),
        }
    }

    /// Returns the value of a one-word attribute. ERROR is 0, and handles never expire.
    fn word(&self, number: u32) -> u32 {
        let own = &self.attributes;
        match number {
            TYPE => own.kind,
            MODE => own.mode,
            LINKS => own.links,
            LEASE_TIME => LEASE_S,
            MAX_LINK => MOST_LINKS,
            MAX_NAME => MOST_NAME_BYTES,
            LINK_SUPPORT | SYMLINK_SUPPORT | UNIQUE_HANDLES | CAN_SET_TIME | CASE_PRESERVING
            | CHOWN_RESTRICTED | HOMOGENEOUS | NO_TRUNCATION => 1,
            _ => 0,
        }
    }
}

fn write_time((seconds, nanoseconds): Time, writer: &mut Writer<'_>) {
    writer.u64(seconds.into()).u32(nanoseconds);
}

/// Appends a user or group as a decimal number, as with AUTH_SYS (RFC 8881, 5.9).
fn write_number(number: u32, writer: &mut Writer<'_>) {
    writer.opaque(number.to_string().as_bytes());
}

fn parse_number(reader: &mut Reader<'_>) -> Outcome<u32> {
    let text = std::str::from_utf8(reader.opaque(MOST_OWNER_BYTES)?).map_err(|_| Status::Inval)?;
    text.parse().map_err(|_| Status4::BadOwner.into())
}

fn parse_time(reader: &mut Reader<'_>) -> Outcome<SetTime> {
    match reader.u32()? {
        0 => Ok(SetTime::Server),
        1 => {
            let (seconds, nanoseconds) = (reader.u64()?, reader.u32()?);
            // Times before 1970 and after 2106 can't be stored.
            let seconds = u32::try_from(seconds).map_err(|_| Status::Inval)?;
            match nanoseconds < 1_000_000_000 {
                true => Ok(SetTime::Client((seconds, nanoseconds))),
                false => Err(Status::Inval.into()),
            }
        }
        _ => Err(Malformed.into()),
    }
}

/// Parses the attributes to set. Also returns their bitmap.
pub(super) fn parse_set(reader: &mut Reader<'_>) -> Outcome<(SetAttributes, Bitmap)> {
    let which = Bitmap::parse(reader)?;
    let mut values = Reader::new(reader.opaque(MOST_VALUE_BYTES)?);
    let mut set = SetAttributes::default();
    for number in which.numbers() {
        match number {
            SIZE => set.bytes = Some(values.u64()?),
            MODE => set.mode = Some(values.u32()?),
            OWNER => set.uid = Some(parse_number(&mut values)?),
            GROUP => set.gid = Some(parse_number(&mut values)?),
            SET_TIME_ACCESS => set.accessed = parse_time(&mut values)?,
            SET_TIME_MODIFY => set.modified = parse_time(&mut values)?,
            told if TOLD.has(told) => return Err(Status::Inval.into()),
            _ => return Err(Status4::AttributesNotSupported.into()),
        }
    }
    match values.is_at_end() {
        true => Ok((set, which)),
        false => Err(Refused4::from(Malformed)),
    }
}
