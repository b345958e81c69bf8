//! Payloads: decodes HTTP's chunked coding and S3's own chunks inside it, and checks received contents.

use super::checksum::Algorithm;
use super::refusal::{Code, Refusal};
use super::request::Request;
use super::signature::{hex, Chain, Payload, Verified};
use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use md5::Md5;
use sha2::{Digest, Sha256};

/// Maximum length of a chunk's size line, or of a trailer's field.
const MAX_LINE_BYTES: usize = 512;
const MAX_TRAILER_FIELDS: usize = 8;

/// What a request stores.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) content: Vec<u8>,
    /// The checksum that the client sent, after it was verified.
    pub(super) checksum: Option<(Algorithm, String)>,
}

/// Returns the content of a body if every hash, checksum and signature that the client sent is correct.
pub(super) fn checked(request: &Request, verified: Verified, body: Vec<u8>) -> Result<Stored, Refusal> {
    let (content, trailer) = match verified.payload {
        Payload::Unsigned => (body, Vec::new()),
        Payload::Signed(digest) => {
            if hex(&Sha256::digest(&body)) != digest {
                return Err(Code::XAmzContentSHA256Mismatch.into());
            }
            (body, Vec::new())
        }
        Payload::Chunks { has_trailer, .. } => decoded(&body, verified.chain, has_trailer)?,
    };
    if let Some(length) = request.field("x-amz-decoded-content-length") {
        if length.parse() != Ok(content.len()) {
            return Err(Code::IncompleteBody.into());
        }
    }
    if let Some(named) = request.field("x-amz-trailer") {
        let has_named = trailer.iter().any(|(name, _)| name.eq_ignore_ascii_case(named));
        if !has_named {
            return Err(Refusal::saying(
                Code::IncompleteBody,
                "The trailer that x-amz-trailer names is missing.",
            ));
        }
    }
    if let Some(told) = request.field("content-md5") {
        if STANDARD.encode(Md5::digest(&content)) != told {
            return Err(Code::BadDigest.into());
        }
    }
    let mut checksum = None;
    for (name, value) in request.fields.iter().chain(&trailer) {
        if let Some(algorithm) = Algorithm::of_field(name) {
            if algorithm.of(&content) != *value {
                let message = format!(
                    "The {} you specified did not match what we received.",
                    algorithm.field()
                );
                return Err(Refusal::saying(Code::BadDigest, message));
            }
            checksum = Some((algorithm, value.clone()));
        } else if name == "x-amz-checksum-sha1" {
            return Err(Refusal::saying(
                Code::NotImplemented,
                "This server does not compute SHA-1.",
            ));
        }
    }
    Ok(Stored { content, checksum })
}

type Trailer = Vec<(String, String)>;

/// Decodes S3's chunks. With a `chain`, each chunk and the trailer must have a signature.
pub(super) fn decoded(
    body: &[u8],
    mut chain: Option<Chain>,
    has_trailer: bool,
) -> Result<(Vec<u8>, Trailer), Refusal> {
    let incomplete = || Refusal::from(Code::IncompleteBody);
    let forged = || {
        Refusal::saying(
            Code::SignatureDoesNotMatch,
            "The signature of a chunk does not match.",
        )
    };
    let (mut content, mut rest) = (Vec::with_capacity(body.len()), body);
    loop {
        let (line, after) = split_line(rest).ok_or_else(incomplete)?;
        let (size, extension) = line.split_once(';').unwrap_or((line, ""));
        let size = usize::from_str_radix(size, 16).map_err(|_| incomplete())?;
        if after.len() < size {
            return Err(incomplete());
        }
        let (chunk, after) = after.split_at(size);
        if let Some(chain) = &mut chain {
            let signature = extension.strip_prefix("chunk-signature=").unwrap_or_default();
            if !chain.accepts_chunk(chunk, signature) {
                return Err(forged());
            }
        }
        content.extend_from_slice(chunk);
        rest = after;
        if size == 0 {
            break;
        }
        rest = rest.strip_prefix(b"\r\n").ok_or_else(incomplete)?;
    }
    if !has_trailer {
        return if rest == b"\r\n" {
            Ok((content, Vec::new()))
        } else {
            Err(incomplete())
        };
    }
    let (fields, signature) = trailer(rest).ok_or_else(incomplete)?;
    if let Some(chain) = &mut chain {
        let lines: String = fields
            .iter()
            .map(|(name, value)| format!("{name}:{value}\n"))
            .collect();
        if !chain.accepts_trailer(&lines, &signature.unwrap_or_default()) {
            return Err(forged());
        }
    }
    Ok((content, fields))
}

/// Returns the fields of a trailer and its signature, if it is complete.
fn trailer(mut rest: &[u8]) -> Option<(Trailer, Option<String>)> {
    let (mut fields, mut signature) = (Vec::new(), None);
    while fields.len() <= MAX_TRAILER_FIELDS {
        let (line, after) = split_line(rest)?;
        rest = after;
        if line.is_empty() {
            return rest.is_empty().then_some((fields, signature));
        }
        // As in S3's reference, some clients end a trailer's field with an additional line feed before the line end.
        let (name, value) = line.trim().split_once(':')?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
        if name == "x-amz-trailer-signature" {
            signature = Some(value);
        } else {
            fields.push((name, value));
        }
    }
    None
}

/// Returns a line without its end, and the bytes after it.
fn split_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes
        .windows(2)
        .take(MAX_LINE_BYTES)
        .position(|two| two == b"\r\n")?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 2..]))
}

/// Decodes HTTP's chunked coding (RFC 9112, section 7.1) piece by piece.
#[derive(Debug, Default)]
pub(super) struct Dechunker {
    left: u64,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Data,
    DataEnd,
    Trailer,
    Done,
}

impl Dechunker {
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Appends the content in `bytes` to `out`. Returns the number of bytes used. The rest is incomplete.
    pub(super) fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>, most: u64) -> Result<usize, Refusal> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match self.state {
                State::Done => return Ok(used),
                State::Data => {
                    let here = rest.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                    out.extend_from_slice(&rest[..here]);
                    used += here;
                    self.left -= here as u64;
                    if self.left > 0 {
                        return Ok(used);
                    }
                    self.state = State::DataEnd;
                }
                State::Size | State::DataEnd | State::Trailer => {
                    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                        let is_long = rest.len() > MAX_LINE_BYTES;
                        return if is_long {
                            Err(Code::IncompleteBody.into())
                        } else {
                            Ok(used)
                        };
                    };
                    let line = rest[..end].trim_ascii();
                    used += end + 1;
                    self.step(line, out.len() as u64, most)?;
                }
            }
        }
    }

    fn step(&mut self, line: &[u8], have: u64, most: u64) -> Result<(), Refusal> {
        match self.state {
            State::Size => {
                let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
                let size = std::str::from_utf8(size).ok().map(str::trim);
                let size = size.and_then(|size| u64::from_str_radix(size, 16).ok());
                self.left = size.ok_or(Code::IncompleteBody)?;
                if have.saturating_add(self.left) > most {
                    return Err(Code::EntityTooLarge.into());
                }
                self.state = if self.left == 0 {
                    State::Trailer
                } else {
                    State::Data
                };
            }
            State::DataEnd if line.is_empty() => self.state = State::Size,
            State::Trailer if line.is_empty() => self.state = State::Done,
            State::Trailer => {}
            _ => return Err(Code::IncompleteBody.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::date::parse_basic;
    use super::super::options::AccessKey;
    use super::super::request::{parse, Framing, Parsed};
    use super::super::signature::{verify, SigningKey};
    use super::*;

    fn code<T>(result: Result<T, Refusal>) -> Option<Code> {
        result.err().map(|refusal| refusal.code)
    }

    #[test]
    fn chunks_and_their_trailer_are_decoded() {
        let body = b"5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n";
        let field = ("x-amz-checksum-crc32".to_owned(), "DUoRhQ==".to_owned());
        assert_eq!(
            decoded(body, None, true),
            Ok((b"hello world".to_vec(), vec![field]))
        );
        assert_eq!(
            decoded(b"3;x=y\r\nabc\r\n0\r\n\r\n", None, false),
            Ok((b"abc".to_vec(), Vec::new()))
        );
        for length in 0..body.len() {
            assert_eq!(
                code(decoded(&body[..length], None, true)),
                Some(Code::IncompleteBody),
                "{length}"
            );
        }
        for wrong in [
            &b"zz\r\nab\r\n"[..],
            b"2\r\nabc\r\n0\r\n\r\n",
            b"ffffffffffffffff\r\na",
            b"0\r\n\r\nmore",
        ] {
            assert_eq!(code(decoded(wrong, None, false)), Some(Code::IncompleteBody));
        }
    }

    #[test]
    fn http_chunks_are_decoded_however_they_are_split() {
        let body = b"4\r\nWiki\r\n6;a=b\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nX: y\r\n\r\nGET";
        for step in 1..body.len() {
            let (mut dechunker, mut out, mut unread) = (Dechunker::default(), Vec::new(), Vec::new());
            for part in body.chunks(step) {
                unread.extend_from_slice(part);
                let used = dechunker.take(&unread, &mut out, 100).expect("well-formed");
                unread.drain(..used);
            }
            assert!(dechunker.is_done());
            assert_eq!(
                (out.as_slice(), unread.as_slice()),
                (&b"Wikipedia in \r\n\r\nchunks."[..], &b"GET"[..])
            );
        }
        let take = |bytes: &[u8]| Dechunker::default().take(bytes, &mut Vec::new(), 100);
        assert_eq!(code(take(b"65\r\n")), Some(Code::EntityTooLarge));
        assert_eq!(code(take(b"x\r\n")), Some(Code::IncompleteBody));
        assert_eq!(
            code(take(&[b'1'; MAX_LINE_BYTES + 1])),
            Some(Code::IncompleteBody)
        );
    }

    /// A recorded request: name, request, content and checksum algorithm.
    type Vector = (&'static str, &'static [u8], &'static [u8], Option<Algorithm>);

    /// Requests as botocore 1.44.8 sends them, in the clear and over TLS.
    const VECTORS: [Vector; 9] = [
        (
            "put_signed",
            include_bytes!("vectors/put_signed.http"),
            HELLO,
            Some(Algorithm::Crc32),
        ),
        (
            "put_trailer",
            include_bytes!("vectors/put_trailer.http"),
            HELLO,
            Some(Algorithm::Crc32),
        ),
        (
            "put_crc64nvme",
            include_bytes!("vectors/put_crc64nvme.http"),
            HELLO,
            Some(Algorithm::Crc64Nvme),
        ),
        (
            "put_crc32c",
            include_bytes!("vectors/put_crc32c.http"),
            HELLO,
            Some(Algorithm::Crc32c),
        ),
        (
            "upload_part",
            include_bytes!("vectors/upload_part.http"),
            HELLO,
            Some(Algorithm::Crc32),
        ),
        ("get_range", include_bytes!("vectors/get_range.http"), b"", None),
        ("list", include_bytes!("vectors/list.http"), b"", None),
        ("copy", include_bytes!("vectors/copy.http"), b"", None),
        (
            "delete_many",
            include_bytes!("vectors/delete_many.http"),
            DELETED,
            Some(Algorithm::Crc32),
        ),
    ];
    const HELLO: &[u8] = b"hello world";
    const DELETED: &[u8] =
        b"<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Object><Key>a&amp;&lt;b</Key>\
        </Object><Object><Key>c</Key></Object><Quiet>true</Quiet></Delete>";

    /// Returns a recorded request and its body without HTTP's own chunks.
    fn recorded(bytes: &[u8]) -> (Request, Vec<u8>) {
        let Parsed::Whole { request, length } = parse(bytes) else {
            panic!("not a request");
        };
        let (mut body, rest) = (Vec::new(), &bytes[length..]);
        if request.framing == Framing::Chunked {
            let used = Dechunker::default().take(rest, &mut body, 1 << 20);
            assert_eq!(used, Ok(rest.len()));
        } else {
            body = rest.to_vec();
        }
        (*request, body)
    }

    fn stored(request: &Request, body: Vec<u8>) -> Result<Stored, Refusal> {
        let key = AccessKey {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
        };
        let now_s = request.field("x-amz-date").and_then(parse_basic).expect("a date");
        let verified = verify(request, Some(&key), "us-east-1", &SigningKey::default(), now_s)?;
        checked(request, verified, body)
    }

    #[test]
    fn recorded_requests_of_botocore_are_accepted() {
        for (name, bytes, content, algorithm) in VECTORS {
            let (request, body) = recorded(bytes);
            let stored = stored(&request, body).unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
            assert_eq!(stored.content, content, "{name}");
            assert_eq!(
                stored.checksum.map(|(algorithm, _)| algorithm),
                algorithm,
                "{name}"
            );
        }
    }

    #[test]
    fn content_that_changed_in_transit_is_refused() {
        for (name, bytes, content, _) in VECTORS.iter().filter(|(.., algorithm)| algorithm.is_some()) {
            let (request, mut body) = recorded(bytes);
            let at = body
                .windows(content.len())
                .position(|part| part == *content)
                .expect("the content");
            body[at] ^= 1;
            let code = code(stored(&request, body));
            let is_signed = request
                .field("x-amz-content-sha256")
                .is_some_and(|digest| digest.len() == 64);
            let expected = if is_signed {
                Code::XAmzContentSHA256Mismatch
            } else {
                Code::BadDigest
            };
            assert_eq!(code, Some(expected), "{name}");
        }
    }
}
