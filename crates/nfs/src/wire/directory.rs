//! Listings: the entries of READDIR and READDIRPLUS (RFC 1813, 3.3.16 and 3.3.17).

use super::xdr::Xdr;
use super::{Attributes3, FileHandle, Malformed, Reader, Writer, MAX_NAME_BYTES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    pub file_id: u64,
    pub name: &'a [u8],
    /// Position after this entry, for continuing the listing.
    pub cookie: u64,
    /// Attributes, in READDIRPLUS, if the server sends them.
    pub attributes: Option<Attributes3>,
    /// Handle, in READDIRPLUS, if the server sends it.
    pub file: Option<FileHandle>,
}

impl Entry<'_> {
    /// Appends the entry to a listing. `plus`: READDIRPLUS.
    pub fn write(&self, plus: bool, writer: &mut Writer<'_>) {
        writer.u32(1).u64(self.file_id).opaque(self.name).u64(self.cookie);
        if plus {
            self.attributes.write(writer);
            self.file.write(writer);
        }
    }
}

/// Appends the end of a part of a listing.
pub fn end_entries(is_last_part: bool, writer: &mut Writer<'_>) {
    writer.u32(0).u32(u32::from(is_last_part));
}

/// A part of a listing.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'a> {
    reader: Reader<'a>,
    plus: bool,
    /// Verifier that the request for the next part of the listing must contain.
    pub verifier: u64,
}

impl<'a> Entries<'a> {
    /// Parses the results of a listing up to its first entry. `plus`: READDIRPLUS.
    pub fn parse(results: &'a [u8], plus: bool) -> Result<Self, Malformed> {
        let mut reader = Reader::new(results);
        Option::<Attributes3>::parse(&mut reader)?;
        let verifier = reader.u64()?;
        Ok(Self {
            reader,
            plus,
            verifier,
        })
    }

    /// Reads the next entry; None after the last.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'a>>, Malformed> {
        if !self.reader.bool()? {
            return Ok(None);
        }
        let file_id = self.reader.u64()?;
        let name = self.reader.opaque(MAX_NAME_BYTES)?;
        let cookie = self.reader.u64()?;
        let (mut attributes, mut file) = (None, None);
        if self.plus {
            attributes = Xdr::parse(&mut self.reader)?;
            file = Xdr::parse(&mut self.reader)?;
        }
        Ok(Some(Entry {
            file_id,
            name,
            cookie,
            attributes,
            file,
        }))
    }

    /// Reads whether the listing ends. Call it after the last entry of this part.
    pub fn is_last_part(&mut self) -> Result<bool, Malformed> {
        self.reader.bool()
    }
}
