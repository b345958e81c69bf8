//! READ, WRITE and COMMIT (RFC 8881, 18.3, 18.22, 18.32).

use super::compound::Compound;
use crate::nfs::state4::status::Outcome;
use dyno_files::Stability;
use dyno_nfs::wire::{Reader, Stateid, Writer, Xdr};

/// Upper bound on the length of data. No record reaches it.
const MOST_DATA_BYTES: usize = 2 << 20;
/// Size of a READ result except its data: end-of-file flag, length and padding.
const AROUND_DATA_BYTES: usize = 16;

impl Compound<'_> {
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let stateid = self.resolved(Stateid::parse(reader)?)?;
        let (offset, bytes) = (reader.u64()?, reader.u32()?);
        let (client, file) = (self.client()?, self.file()?);
        self.host.clients().opens.may_use(client, stateid, &file, false)?;
        let room = self.room_bytes(writer.0).saturating_sub(AROUND_DATA_BYTES);
        let bytes = bytes.min(u32::try_from(room).unwrap_or(u32::MAX));
        let (mut volume, slot) = self.volume(&file)?;
        let head = writer.0.len();
        writer.u32(0).u32(0);
        let data = writer.0.len();
        let is_end = volume.give_data(slot, offset, bytes, &self.asked, writer.0)?;
        let count = writer.0.len() - data;
        writer.0[head..head + 4].copy_from_slice(&u32::from(is_end).to_be_bytes());
        // Does not truncate: `count` is at most `bytes`.
        writer.0[head + 4..data].copy_from_slice(&(count as u32).to_be_bytes());
        writer.0.resize(data + count.next_multiple_of(4), 0);
        Ok(())
    }

    pub(super) fn write(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let stateid = self.resolved(Stateid::parse(reader)?)?;
        let offset = reader.u64()?;
        let stability = Stability::parse(reader)?;
        let data = reader.opaque(MOST_DATA_BYTES)?;
        let (client, file) = (self.client()?, self.file()?);
        self.host.clients().opens.may_use(client, stateid, &file, true)?;
        let _way = self.make_way(file)?;
        let (mut volume, slot) = self.volume(&file)?;
        let taken = volume.take_data(slot, offset, data, stability, &self.asked)?;
        writer
            .u32(taken)
            .u32(stability as u32)
            .u64(self.asked.verifier().0);
        Ok(())
    }

    pub(super) fn commit(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let (_offset, _bytes) = (reader.u64()?, reader.u32()?);
        let (mut volume, slot) = self.volume(&self.file()?)?;
        volume.files.flush(slot)?;
        writer.u64(self.asked.verifier().0);
        Ok(())
    }
}
