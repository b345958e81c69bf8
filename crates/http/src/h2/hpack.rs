//! HPACK header compression (RFC 7541): a decoder, and functions that encode requests. The decoder stores
//! only the dynamic table, whose size is bounded.

use super::huffman;
use super::violation::Violation;
use std::collections::VecDeque;

/// Default size of the dynamic table (RFC 9113, section 6.5.2).
pub(super) const TABLE_BYTES: usize = 4096;
/// Overhead of an entry (section 4.1).
const ENTRY_BYTES: usize = 32;
/// Upper bound of an encoded integer. No acceptable response contains a larger one.
const LARGEST_INTEGER: usize = 1 << 24;
const FIRST_DYNAMIC: usize = STATIC_TABLE.len() + 1;

#[rustfmt::skip]
pub(super) const STATIC_TABLE: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

#[derive(Debug, Default)]
struct Entry {
    bytes: Vec<u8>,
    name_bytes: usize,
}

impl Entry {
    fn size(&self) -> usize {
        self.bytes.len() + ENTRY_BYTES
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes.split_at(self.name_bytes)
    }
}

/// Decoder of one connection.
#[derive(Debug)]
pub(super) struct Decoder {
    table: VecDeque<Entry>,
    bytes: usize,
    most_bytes: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            table: VecDeque::new(),
            bytes: 0,
            most_bytes: TABLE_BYTES,
            name: Vec::new(),
            value: Vec::new(),
        }
    }
}

impl Decoder {
    /// Decodes a complete header block and passes each field to `field`. Names and values may total
    /// `most_bytes`, counted as in RFC 9113, section 6.5.2. An error of `field` is returned after the whole
    /// block, because the table must stay synchronised with the server's encoder.
    pub(super) fn decode(
        &mut self,
        mut block: &[u8],
        most_bytes: usize,
        field: &mut impl FnMut(&[u8], &[u8]) -> Result<(), Violation>,
    ) -> Result<Result<(), Violation>, Violation> {
        let (mut list_bytes, mut verdict, mut begun) = (0, Ok(()), false);
        while let Some(first) = block.first().copied() {
            if first & 0xe0 == 0x20 {
                if begun {
                    return Err(Violation::LateTableSize);
                }
                self.resize(integer(&mut block, 5)?)?;
                continue;
            }
            begun = true;
            let mut take = |name: &[u8], value: &[u8]| {
                list_bytes += name.len() + value.len() + ENTRY_BYTES;
                if list_bytes > most_bytes {
                    return Err(Violation::HeaderList);
                }
                if verdict.is_ok() {
                    verdict = field(name, value);
                }
                Ok(())
            };
            if first & 0x80 != 0 {
                let (name, value) = self.entry(integer(&mut block, 7)?)?;
                take(name, value)?;
                continue;
            }
            let keeps = first & 0xc0 == 0x40;
            let index = integer(&mut block, if keeps { 6 } else { 4 })?;
            self.read_literal(index, &mut block)?;
            take(&self.name, &self.value)?;
            if keeps {
                self.insert();
            }
        }
        Ok(verdict)
    }

    /// Reads a literal's name, unless it is indexed, and its value.
    fn read_literal(&mut self, index: usize, block: &mut &[u8]) -> Result<(), Violation> {
        let (mut name, mut value) = (std::mem::take(&mut self.name), std::mem::take(&mut self.value));
        name.clear();
        value.clear();
        if index == 0 {
            string(block, &mut name)?;
        } else {
            name.extend_from_slice(self.entry(index)?.0);
        }
        string(block, &mut value)?;
        (self.name, self.value) = (name, value);
        Ok(())
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Violation> {
        if index == 0 {
            return Err(Violation::IndexZero);
        }
        if let Some((name, value)) = STATIC_TABLE.get(index - 1) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.table.get(index - FIRST_DYNAMIC);
        entry.map(Entry::parts).ok_or(Violation::IndexBeyond)
    }

    /// Inserts the field in `name` and `value`. A field larger than the table empties the table (section
    /// 4.4).
    fn insert(&mut self) {
        let size = self.name.len() + self.value.len() + ENTRY_BYTES;
        let spare = self.evict(self.most_bytes.saturating_sub(size));
        if size > self.most_bytes {
            return;
        }
        let mut bytes = spare.unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(&self.name);
        bytes.extend_from_slice(&self.value);
        self.bytes += size;
        self.table.push_front(Entry {
            bytes,
            name_bytes: self.name.len(),
        });
    }

    /// Evicts the oldest entries until at most `bytes` remain. Returns the buffer of one, for reuse.
    fn evict(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut spare = None;
        while self.bytes > bytes {
            let Some(entry) = self.table.pop_back() else { break };
            self.bytes -= entry.size();
            spare = Some(entry.bytes);
        }
        spare
    }

    fn resize(&mut self, bytes: usize) -> Result<(), Violation> {
        if bytes > TABLE_BYTES {
            return Err(Violation::TableSize);
        }
        self.most_bytes = bytes;
        self.evict(bytes);
        Ok(())
    }
}

/// Decodes an integer with a prefix of `bits` bits (section 5.1).
fn integer(block: &mut &[u8], bits: u32) -> Result<usize, Violation> {
    let most = (1usize << bits) - 1;
    let mut next = || {
        let (byte, rest) = block.split_first().ok_or(Violation::CutOff)?;
        *block = rest;
        Ok(usize::from(*byte))
    };
    let mut value = next()? & most;
    if value < most {
        return Ok(value);
    }
    let mut shift = 0;
    loop {
        let byte = next()?;
        value += (byte & 0x7f) << shift;
        if value > LARGEST_INTEGER || shift > 28 {
            return Err(Violation::HugeInteger);
        }
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        shift += 7;
    }
}

/// Decodes a string and appends it to `out` (section 5.2).
fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Violation> {
    let coded = block.first().ok_or(Violation::CutOff)? & 0x80 != 0;
    let length = integer(block, 7)?;
    let (bytes, rest) = block.split_at_checked(length).ok_or(Violation::CutOff)?;
    *block = rest;
    if coded {
        return huffman::decode(bytes, out);
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// How a literal may be indexed (section 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// The decoder adds the field to its dynamic table.
    Yes,
    No,
    /// The field is never indexed, not even by intermediaries, because it may be a secret.
    Never,
}

pub(super) fn write_integer(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let most = (1usize << bits) - 1;
    if value < most {
        out.push(first | value as u8);
        return;
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(super) fn write_indexed(out: &mut Vec<u8>, index: usize) {
    write_integer(out, 0x80, 7, index);
}

pub(super) fn write_literal(out: &mut Vec<u8>, keep: Keep, name: &str, value: &[u8]) {
    let index = STATIC_TABLE.iter().position(|(known, _)| *known == name);
    let (first, bits) = match keep {
        Keep::Yes => (0x40, 6),
        Keep::No => (0x00, 4),
        Keep::Never => (0x10, 4),
    };
    write_integer(out, first, bits, index.map_or(0, |place| place + 1));
    let mut write_string = |text: &[u8]| {
        write_integer(out, 0, 7, text.len());
        out.extend_from_slice(text);
    };
    if index.is_none() {
        write_string(name.as_bytes());
    }
    write_string(value);
}

/// Returns the size of a table entry in bytes (section 4.1).
pub(super) fn entry_bytes(name: &str, value: &str) -> usize {
    name.len() + value.len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Violation> {
        let mut fields = Vec::new();
        let verdict = decoder.decode(block, 8192, &mut |name, value| {
            fields.push(format!(
                "{}: {}",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value)
            ));
            Ok(())
        })?;
        verdict.map(|()| fields)
    }

    #[test]
    fn the_responses_of_the_rfc_are_read_and_the_table_evicts() {
        // RFC 7541, appendix C.5, with a table of 256 bytes: the size is set at the beginning of the first block.
        let mut decoder = Decoder::default();
        let mut first = vec![0x3f, 0xe1, 0x01];
        first.extend(b"\x48\x03302\x58\x07private\x61\x1dMon, 21 Oct 2013 20:13:21 GMT");
        first.extend(b"\x6e\x17https://www.example.com");
        let read = decode(&mut decoder, &first).expect("it is right");
        assert_eq!(
            read,
            [
                ":status: 302",
                "cache-control: private",
                "date: Mon, 21 Oct 2013 20:13:21 GMT",
                "location: https://www.example.com"
            ]
        );
        assert_eq!(decoder.bytes, 222);
        let second = decode(&mut decoder, b"\x48\x03307\xc1\xc0\xbf").expect("it is right");
        assert_eq!(second[0], ":status: 307");
        assert_eq!(second[3], "location: https://www.example.com");
        assert_eq!(decoder.bytes, 222);
        assert_eq!(decode(&mut decoder, b"\xc2"), Err(Violation::IndexBeyond));
    }

    #[test]
    fn what_is_written_is_read() {
        for keep in [Keep::Yes, Keep::No, Keep::Never] {
            let mut block = Vec::new();
            write_literal(&mut block, keep, "user-agent", "x".repeat(300).as_bytes());
            write_literal(&mut block, keep, "x-own", b"");
            let mut decoder = Decoder::default();
            let read = decode(&mut decoder, &block).expect("it is right");
            assert_eq!(
                read,
                [format!("user-agent: {}", "x".repeat(300)), "x-own: ".to_owned()]
            );
            assert_eq!(decoder.table.len(), if keep == Keep::Yes { 2 } else { 0 });
        }
    }

    #[test]
    fn a_broken_block_is_refused_by_its_rule() {
        for (block, violation) in [
            (&b"\x80"[..], Violation::IndexZero),
            (b"\xbe", Violation::IndexBeyond),
            (b"\xff\xff\xff\xff\xff\x0f", Violation::HugeInteger),
            (b"\xff\x80\x80\x80\x80\x80\x80", Violation::HugeInteger),
            (b"\xff", Violation::CutOff),
            (b"\x40", Violation::CutOff),
            (b"\x40\x05a", Violation::CutOff),
            (b"\x40\x01a", Violation::CutOff),
            (b"\x3f\xe2\x1f", Violation::TableSize),
            (b"\x88\x20", Violation::LateTableSize),
            (b"\x40\x81\xff\x00", Violation::HuffmanPadding),
        ] {
            assert_eq!(
                decode(&mut Decoder::default(), block),
                Err(violation),
                "{block:?}"
            );
        }
    }

    #[test]
    fn a_block_that_unfolds_beyond_the_bound_is_refused_before_it_does() {
        let mut block = Vec::new();
        write_literal(&mut block, Keep::Yes, "x-bomb", "x".repeat(4000).as_bytes());
        block.extend([0xbe; 30_000]);
        assert_eq!(
            decode(&mut Decoder::default(), &block),
            Err(Violation::HeaderList)
        );
    }

    #[test]
    fn an_entry_that_is_larger_than_the_table_empties_it() {
        let mut decoder = Decoder::default();
        let mut block = Vec::new();
        write_literal(&mut block, Keep::Yes, "a", b"b");
        write_literal(&mut block, Keep::Yes, "x-large", "x".repeat(5000).as_bytes());
        decode(&mut decoder, &block).expect("it is right");
        assert_eq!((decoder.table.len(), decoder.bytes), (0, 0));
    }
}
