//! XDR (RFC 4506): numbers of four or eight bytes, and byte strings. Each string follows its length and is padded to a
//! multiple of four.

use super::Malformed;

/// Upper bound on the length of a file name or path (`PATH_MAX` of Linux).
pub const MAX_NAME_BYTES: usize = 4096;

/// Reads received bytes in sequence.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Reads `count` bytes and their padding.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let filled = count.checked_next_multiple_of(4).ok_or(Malformed)?;
        let end = self.at.checked_add(filled).ok_or(Malformed)?;
        let all = self.bytes.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(&all[..count])
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_be_bytes(bytes.try_into().map_err(|_| Malformed)?))
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        let bytes = self.bytes(8)?;
        Ok(u64::from_be_bytes(bytes.try_into().map_err(|_| Malformed)?))
    }

    /// Reads a boolean, which is 0 or 1.
    ///
    /// # Errors
    /// Too few bytes are left, or the number is neither 0 nor 1.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Reads the length of a byte string, and then the string, which may have at most `most` bytes.
    ///
    /// # Errors
    /// Too few bytes are left, or the string is longer than `most`.
    pub fn opaque(&mut self, most: usize) -> Result<&'a [u8], Malformed> {
        let count = self.u32()? as usize;
        if count > most {
            return Err(Malformed);
        }
        self.bytes(count)
    }
}

/// Appends XDR values to a buffer.
#[derive(Debug)]
pub struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends bytes without a length, and their padding.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self.filling(bytes.len())
    }

    /// Appends the padding that follows `bytes` bytes.
    pub fn filling(&mut self, bytes: usize) -> &mut Self {
        self.0.extend_from_slice(&[0; 3][..bytes.wrapping_neg() % 4]);
        self
    }

    /// Appends a byte string after its length.
    ///
    /// # Panics
    /// Panics if `bytes` has 4 GiB or more, which no caller passes.
    pub fn opaque(&mut self, bytes: &[u8]) -> &mut Self {
        let count = u32::try_from(bytes.len()).expect("messages are bounded");
        self.u32(count).bytes(bytes)
    }
}

/// A value with a single XDR encoding.
pub trait Xdr<'a>: Sized {
    /// Appends the value to a message.
    fn write(&self, writer: &mut Writer<'_>);

    fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed>;
}

/// Parses a value at the start of `bytes`.
pub fn parse<'a, T: Xdr<'a>>(bytes: &'a [u8]) -> Result<T, Malformed> {
    T::parse(&mut Reader::new(bytes))
}

/// Implements `Xdr` for a structure whose fields are encoded in this order.
macro_rules! xdr {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl Xdr<'_> for $name {
            fn write(&self, writer: &mut Writer<'_>) {
                $(self.$field.write(writer);)*
            }

            fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(Self { $($field: Xdr::parse(reader)?),* })
            }
        }
    };
}
pub(super) use xdr;

impl Xdr<'_> for u32 {
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(*self);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.u32()
    }
}

impl Xdr<'_> for u64 {
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u64(*self);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.u64()
    }
}

impl Xdr<'_> for (u32, u32) {
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(self.0).u32(self.1);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((reader.u32()?, reader.u32()?))
    }
}

/// A name or path.
impl<'a> Xdr<'a> for &'a [u8] {
    fn write(&self, writer: &mut Writer<'_>) {
        writer.opaque(self);
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        reader.opaque(MAX_NAME_BYTES)
    }
}

impl<'a, T: Xdr<'a>> Xdr<'a> for Option<T> {
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(u32::from(self.is_some()));
        if let Some(value) = self {
            value.write(writer);
        }
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        reader.bool()?.then(|| T::parse(reader)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_parsed_again() {
        let mut bytes = Vec::new();
        Writer(&mut bytes)
            .u32(7)
            .u64(u64::MAX)
            .opaque(b"abcde")
            .bytes(b"xy");
        assert_eq!(bytes.len(), 4 + 8 + 12 + 4);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.u32(), Ok(7));
        assert_eq!(reader.u64(), Ok(u64::MAX));
        assert_eq!(reader.opaque(5), Ok(&b"abcde"[..]));
        assert_eq!(reader.bytes(2), Ok(&b"xy"[..]));
        assert_eq!(reader.u32(), Err(Malformed));
    }

    #[test]
    fn a_value_beyond_its_limit_is_malformed() {
        let mut bytes = Vec::new();
        Writer(&mut bytes).opaque(b"abcde");
        assert_eq!(Reader::new(&bytes).opaque(4), Err(Malformed));
        assert_eq!(Reader::new(&[0xff; 4]).opaque(usize::MAX), Err(Malformed));
        assert_eq!(Reader::new(&[0, 0, 0, 2]).bool(), Err(Malformed));
        assert_eq!(Reader::new(&[]).bytes(usize::MAX), Err(Malformed));
    }
}
