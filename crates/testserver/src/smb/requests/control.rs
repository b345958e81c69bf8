//! IOCTL on open files: object IDs (MS-FSCC 2.3.1) and server-side copy (MS-SMB2 2.2.31.1, 3.3.5.15.5,
//! 3.3.5.15.6). In a copy, a key identifies the source file. The file of the request is the destination.

use super::{Asking, BODY};
use crate::smb::bytes::{slice, u32_at, u64_at, Put};
use crate::smb::message::write_control;
use crate::smb::status::Status;
use crate::smb::volume::{right, FileId, Volume};

const CREATE_OR_GET_OBJECT_ID: u32 = 0x0009_00c0;
const REQUEST_RESUME_KEY: u32 = 0x0014_0078;
const COPY_CHUNKS: u32 = 0x0014_40f2;
const COPY_CHUNKS_WRITE: u32 = 0x0014_80f2;

/// Control codes handled here.
pub(super) const CODES: [u32; 4] = [
    CREATE_OR_GET_OBJECT_ID,
    REQUEST_RESUME_KEY,
    COPY_CHUNKS,
    COPY_CHUNKS_WRITE,
];

const OBJECT_ID_BYTES: u32 = 64;

const KEY_BYTES: usize = 24;
const KEY_ANSWER_BYTES: u32 = 32;
const HEAD_BYTES: usize = 32;
const CHUNK_BYTES: usize = 24;
const COUNTS_BYTES: u32 = 12;
/// Limits of a copy request, as in Windows (MS-SMB2 3.3.3).
const MOST_CHUNKS: u32 = 256;
const MOST_CHUNK_BYTES: u32 = 1 << 20;
const MOST_COPY_BYTES: u32 = 16 << 20;

struct Chunk {
    from: u64,
    to: u64,
    bytes: u32,
}

pub(super) fn control(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Status> {
    let part = asking.part;
    let code = u32_at(part, BODY + 4)?;
    if !CODES.contains(&code) {
        return Err(Status::INVALID_DEVICE_REQUEST);
    }
    let open = asking.file_to_change(volume, 8)?;
    let room = u32_at(part, BODY + 44)?;
    match code {
        CREATE_OR_GET_OBJECT_ID => object_id(asking, volume.facts(open).number, room, out),
        REQUEST_RESUME_KEY => resume_key(part, volume.file_id(open), room, out),
        _ => copy(asking, volume, open, out),
    }
}

/// Appends the object IDs of the file, of the volume, and of the file again as its birth ID, because the file
/// was never moved. There is no domain ID.
fn object_id(asking: &Asking<'_>, number: u64, room: u32, out: &mut Vec<u8>) -> Result<Status, Status> {
    if room < OBJECT_ID_BYTES {
        return Err(Status::INVALID_PARAMETER);
    }
    write_control(asking.part, out, |out| {
        for id in [u128::from(number), asking.host.guid, u128::from(number), 0] {
            out.extend_from_slice(&id.to_le_bytes());
        }
    })?;
    Ok(Status::SUCCESS)
}

fn resume_key(part: &[u8], file: FileId, room: u32, out: &mut Vec<u8>) -> Result<Status, Status> {
    if room < KEY_ANSWER_BYTES {
        return Err(Status::INVALID_PARAMETER);
    }
    write_control(part, out, |out| {
        out.u64(file.0 as u64);
        out.u64(file.1);
        // Append the rest of the key, and an empty context with its length.
        out.zeros(KEY_ANSWER_BYTES as usize - 16);
    })?;
    Ok(Status::SUCCESS)
}

/// Copies ranges of the source file into the open file.
fn copy(asking: &Asking<'_>, volume: &mut Volume, open: usize, out: &mut Vec<u8>) -> Result<Status, Status> {
    let part = asking.part;
    let (code, room) = (u32_at(part, BODY + 4)?, u32_at(part, BODY + 44)?);
    if room < COUNTS_BYTES {
        return Err(Status::INVALID_PARAMETER);
    }
    let input = slice(
        part,
        u32_at(part, BODY + 24)? as usize,
        u32_at(part, BODY + 28)? as usize,
    )?;
    let source = (u64_at(input, 0)? as usize, u64_at(input, 8)?);
    let source = volume
        .find(source, &asking.opener)
        .map_err(|_| Status::OBJECT_NAME_NOT_FOUND)?;
    let Some(chunks) = chunks(input)? else {
        // If the request exceeds a limit, the answer reports the limits.
        let limits = [MOST_CHUNKS, MOST_CHUNK_BYTES, MOST_COPY_BYTES];
        write_counts(part, limits, out)?;
        return Ok(Status::INVALID_PARAMETER);
    };
    let may_read = volume.rights(open) & right::READ_DATA != 0;
    if code == COPY_CHUNKS && !may_read {
        return Err(Status::ACCESS_DENIED);
    }
    let mut copied = 0;
    let mut buffer = Vec::new();
    for chunk in &chunks {
        copied += chunk.bytes;
        buffer.clear();
        let end = chunk.from.checked_add(chunk.bytes.into());
        if end.is_none_or(|end| end > volume.facts(source).end) {
            return Err(Status::INVALID_VIEW_SIZE);
        }
        volume.read(source, chunk.from, chunk.bytes as usize, &mut buffer)?;
        volume.write(open, chunk.to, &buffer, asking.moment)?;
    }
    let count = u32::try_from(chunks.len()).unwrap_or(MOST_CHUNKS);
    write_counts(part, [count, 0, copied], out)?;
    Ok(Status::SUCCESS)
}

/// Parses the ranges of a request. Returns None if they exceed a limit.
fn chunks(input: &[u8]) -> Result<Option<Vec<Chunk>>, Status> {
    let count = u32_at(input, KEY_BYTES)?;
    if count > MOST_CHUNKS {
        return Ok(None);
    }
    let mut chunks = Vec::new();
    let mut all = 0;
    for index in 0..count as usize {
        let at = HEAD_BYTES + CHUNK_BYTES * index;
        let chunk = Chunk {
            from: u64_at(input, at)?,
            to: u64_at(input, at + 8)?,
            bytes: u32_at(input, at + 16)?,
        };
        all += u64::from(chunk.bytes);
        if chunk.bytes == 0 || chunk.bytes > MOST_CHUNK_BYTES || all > u64::from(MOST_COPY_BYTES) {
            return Ok(None);
        }
        chunks.push(chunk);
    }
    Ok(Some(chunks))
}

fn write_counts(part: &[u8], counts: [u32; 3], out: &mut Vec<u8>) -> Result<(), Status> {
    write_control(part, out, |out| {
        counts.into_iter().for_each(|count| out.u32(count))
    })
}
