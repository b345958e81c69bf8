//! Collects a response while it arrives: status, ETag, lengths, and the XML or its beginning.

use dyno_http::Body;
use dyno_measure::{named_enum, Detail, Failure, ProtocolStatus, StatusTable};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum size of an XML response. A page of 1000 keys of 1024 bytes, all escaped, has 4 MB.
const MOST_XML_BYTES: usize = 8 << 20;
/// Maximum size of an ETag in a part list. The ETags of servers have 34 to 36 bytes.
const MOST_TAG_BYTES: usize = 256;
/// Size above which the buffer of a response is not kept.
const KEPT_BYTES: usize = 4096;

/// Digest (XXH3-64) of an ETag without its quotes. ETags are only compared. Among a billion pairs that differ, the
/// chance that any pair counts as equal is 5 in 10^11.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tag(pub u64);

impl Tag {
    /// Returns the digest of an ETag from a header or XML.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        Self(xxh3_64(unquoted(text)))
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

pub(crate) fn unquoted(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    match text {
        [b'"', inside @ .., b'"'] => inside,
        _ => text,
    }
}

named_enum! {
    /// What an answer shows about its way, as causes of a wrong object. The words follow those of the fault.
    pub enum Trace {
        Cached "the answer came from a cache (Age or X-Cache)"
        Weak "the answer has a weak ETag (W/)"
        Coded "the answer has a Content-Encoding that nobody asked for"
        InParts "the object was put in parts"
    }
}

static TRACES: StatusTable = StatusTable {
    name: "S3 traces",
    write: |code, formatter| {
        let found = Trace::ALL.into_iter().filter(|trace| code & trace.bit() != 0);
        let words: Vec<_> = found.map(Trace::name).collect();
        formatter.write_str(&words.join(", "))
    },
};

impl Trace {
    fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Returns whether `traced` added this trace to a failure.
    #[must_use]
    pub fn is_in(self, failure: &Failure) -> bool {
        matches!(failure.detail, Detail::Status(status)
            if status.table.name == TRACES.name && status.code & self.bit() != 0)
    }
}

/// Returns the failure with these traces in place of its detail; unchanged if there are none.
#[must_use]
pub fn traced(failure: Failure, traces: impl IntoIterator<Item = Trace>) -> Failure {
    match traces.into_iter().fold(0, |bits, trace| bits | trace.bit()) {
        0 => failure,
        code => Failure {
            detail: Detail::Status(ProtocolStatus { code, table: &TRACES }),
            ..failure
        },
    }
}

/// A response without the content of an object.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    /// `Content-Length`; in the response to HEAD, the length of the object.
    pub length: Option<u64>,
    tag: Vec<u8>,
    /// `x-amz-bucket-region`.
    region: Vec<u8>,
    xml: Vec<u8>,
    is_head: bool,
    is_cached: bool,
    is_coded: bool,
    is_too_large: bool,
}

impl Answer {
    /// Prepares for the next response. `is_head`: the request is HEAD.
    pub(crate) fn begin(&mut self, is_head: bool) {
        self.status = 0;
        self.length = None;
        self.tag.clear();
        self.region.clear();
        self.xml.clear();
        self.xml.shrink_to(KEPT_BYTES);
        self.is_head = is_head;
        (self.is_cached, self.is_coded) = (false, false);
        self.is_too_large = false;
    }

    /// Returns the ETag header.
    #[must_use]
    pub fn tag(&self) -> Option<Tag> {
        (!self.tag.is_empty()).then(|| Tag::of(&self.tag))
    }

    /// Returns what the head shows about the answer's way.
    pub(crate) fn traces(&self) -> [Option<Trace>; 3] {
        [
            self.is_cached.then_some(Trace::Cached),
            self.tag.starts_with(b"W/").then_some(Trace::Weak),
            self.is_coded.then_some(Trace::Coded),
        ]
    }

    /// Returns the ETag header's text.
    pub(crate) fn tag_text(&self) -> Option<String> {
        std::str::from_utf8(&self.tag)
            .ok()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }

    /// Returns the bucket's region from the headers.
    pub(crate) fn region(&self) -> Option<String> {
        std::str::from_utf8(&self.region)
            .ok()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }

    /// Returns the body unless it is too large.
    #[must_use]
    pub fn xml(&self) -> Option<&[u8]> {
        (!self.is_too_large).then_some(&self.xml)
    }

    fn collect(&mut self, data: &[u8]) {
        let room = MOST_XML_BYTES - self.xml.len();
        self.is_too_large |= data.len() > room;
        self.xml.extend_from_slice(&data[..data.len().min(room)]);
    }
}

impl Body for Answer {
    fn wants_fields(&mut self) -> bool {
        true
    }

    fn begins(&mut self, status: u16) {
        self.status = status;
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"etag") => {
                self.tag.clear();
                self.tag
                    .extend_from_slice(&value[..value.len().min(MOST_TAG_BYTES)]);
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let text = std::str::from_utf8(value).ok();
                self.length = text.and_then(|text| text.trim_ascii().parse().ok());
            }
            19 if name.eq_ignore_ascii_case(b"x-amz-bucket-region") => {
                self.region.clear();
                self.region
                    .extend_from_slice(&value[..value.len().min(MOST_TAG_BYTES)]);
            }
            3 if name.eq_ignore_ascii_case(b"age") => self.is_cached = true,
            7 if name.eq_ignore_ascii_case(b"x-cache") => {
                self.is_cached |= value.to_ascii_lowercase().starts_with(b"hit");
            }
            16 if name.eq_ignore_ascii_case(b"content-encoding") => {
                // Some servers store the framing's name as a part of the object.
                let known: [&[u8]; 3] = [b"", b"identity", b"aws-chunked"];
                self.is_coded = !known
                    .iter()
                    .any(|known| value.trim_ascii().eq_ignore_ascii_case(known));
            }
            _ => {}
        }
    }

    fn answers_head(&self) -> bool {
        self.is_head
    }

    fn part(&mut self, data: &[u8], _last: bool) {
        self.collect(data);
    }
}

/// A response whose body, after a success, is the content of an object.
pub(crate) struct Content<'a, F> {
    pub answer: &'a mut Answer,
    pub take: &'a mut F,
}

impl<F: FnMut(&[u8])> Body for Content<'_, F> {
    fn wants_fields(&mut self) -> bool {
        true
    }

    fn begins(&mut self, status: u16) {
        self.answer.begins(status);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.answer.field(name, value);
    }

    fn part(&mut self, data: &[u8], last: bool) {
        if (200..300).contains(&self.answer.status) {
            (self.take)(data);
        } else {
            self.answer.part(data, last);
        }
    }
}
