//! NFSv4 attributes (RFC 8881, 5): a bitmap of the attributes that are present, and their values in the order of the
//! bits.

use crate::nfs::options::LEASE_S;
use crate::nfs::state4::status::{Outcome, Refused4};
use crate::nfs::volume::{Room, MOST_LINKS, MOST_NAME_BYTES};
use dyno_nfs::status::{Status, Status4};
use dyno_nfs::wire::attribute4::*;
use dyno_nfs::wire::{
    Attributes3, Bitmap, FileHandle, Malformed, Reader, SetAttributes, SetTime, Time, Writer, Xdr,
};

const MOST_VALUE_BYTES: usize = 4096;
const MOST_OWNER_BYTES: usize = 1024;

/// All attributes that can be read.
const TOLD: Bitmap = Bitmap::of(&ALL).without(Bitmap::of(&[SET_TIME_ACCESS, SET_TIME_MODIFY]));
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

/// Returns a number that increases with every change.
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
            SUPPORTED => TOLD.or(SETTABLE).write(writer),
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

/// Parses the attributes to set. Also returns the bitmap of these attributes.
pub(super) fn parse_set(reader: &mut Reader<'_>) -> Outcome<(SetAttributes, Bitmap)> {
    let (which, _) = Bitmap::parse_known(reader)?;
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
