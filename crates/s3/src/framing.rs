//! The aws-chunked coding: the content in chunks, then its checksum as a trailing header. Without TLS, both are signed.
//!
//! Each piece of the content is a chunk. The frames are in one buffer, and the pieces are sent between them
//! without a copy.

use crate::checksum::Checksum;
use crate::sign::{hex_of, sha256_hex, Signature, Signer};
use sha2::{Digest, Sha256};
use std::ops::Range;

/// Payload hash of a request with a trailing checksum over TLS.
pub(crate) const UNSIGNED_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
/// Payload hash of a request with signed chunks and a signed trailing checksum.
pub(crate) const SIGNED_TRAILER: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
const CHUNK_SIGNATURE: &[u8] = b";chunk-signature=";
const TRAILER_SIGNATURE: &[u8] = b"x-amz-trailer-signature:";
const NO_SIGNATURE: Signature = [b'0'; 64];

/// Frames of one body.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// For each piece, the end in `bytes` of the frame before it. The last frame follows the last piece.
    ends: Vec<usize>,
    /// Positions of the signatures in `bytes`: those of the chunks, of the last chunk, and of the trailer.
    signatures: Vec<usize>,
    /// Checksum line in `bytes`, without its line end.
    checksum: Range<usize>,
}

impl Frames {
    /// Creates the frames of `content`, whose checksum is `sum`. If `signed` is set, they have space for signatures.
    pub(crate) fn new(content: &[&[u8]], (checksum, sum): (Checksum, &str), signed: bool) -> Self {
        let mut frames = Self::default();
        for (place, piece) in content.iter().enumerate() {
            if place > 0 {
                frames.bytes.extend(b"\r\n");
            }
            frames.begin_chunk(piece.len(), signed);
            frames.ends.push(frames.bytes.len());
        }
        if !content.is_empty() {
            frames.bytes.extend(b"\r\n");
        }
        frames.begin_chunk(0, signed);
        let line = frames.bytes.len();
        frames.bytes.extend(checksum.header().as_bytes());
        frames.bytes.push(b':');
        frames.bytes.extend(sum.as_bytes());
        frames.checksum = line..frames.bytes.len();
        frames.bytes.extend(b"\r\n");
        if signed {
            frames.bytes.extend(TRAILER_SIGNATURE);
            frames.leave_signature();
            frames.bytes.extend(b"\r\n");
        }
        frames.bytes.extend(b"\r\n");
        frames
    }

    fn begin_chunk(&mut self, bytes: usize, signed: bool) {
        self.bytes.extend(format!("{bytes:x}").into_bytes());
        if signed {
            self.bytes.extend(CHUNK_SIGNATURE);
            self.leave_signature();
        }
        self.bytes.extend(b"\r\n");
    }

    fn leave_signature(&mut self) {
        self.signatures.push(self.bytes.len());
        self.bytes.extend(NO_SIGNATURE);
    }

    /// Returns the number of bytes of all frames.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Fills in the signatures. `before`: the signature of the request.
    pub(crate) fn sign(&mut self, signer: &Signer, mut before: Signature, content: &[&[u8]]) {
        let empty: &[u8] = &[];
        let chunks = content.iter().copied().chain(std::iter::once(empty));
        for (place, chunk) in self.signatures.iter().zip(chunks) {
            let Some(signature) = signer.chunk(&before, &Sha256::digest(chunk)) else {
                return;
            };
            self.bytes[*place..place + signature.len()].copy_from_slice(&signature);
            before = signature;
        }
        let line = [&self.bytes[self.checksum.clone()], b"\n"].concat();
        if let (Some(place), Some(signature)) = (self.signatures.last(), signer.trailer(&before, &line)) {
            self.bytes[*place..place + signature.len()].copy_from_slice(&signature);
        }
    }

    /// Returns the parts of a request: `head`, then the frames and the pieces of `content` in turn.
    pub(crate) fn parts<'a>(&'a self, head: &'a [u8], content: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let mut parts = Vec::with_capacity(2 * content.len() + 2);
        parts.push(head);
        let mut begin = 0;
        for (end, piece) in self.ends.iter().zip(content) {
            parts.extend([&self.bytes[begin..*end], piece]);
            begin = *end;
        }
        parts.push(&self.bytes[begin..]);
        parts
    }
}

/// Returns the payload hash of a body that is sent without chunks: its SHA-256.
pub(crate) fn payload_hash(content: &[&[u8]]) -> String {
    let mut text = Vec::with_capacity(64);
    sha256_hex(content.iter().copied(), &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Returns the SHA-256 of a short body in hexadecimal.
pub(crate) fn body_hash(body: &[u8]) -> Signature {
    hex_of(&Sha256::digest(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sign::Credentials;

    fn sent(content: &[&[u8]], signer: Option<(&Signer, Signature)>) -> Vec<u8> {
        let sum = Checksum::Crc32.of(content.iter().copied());
        let mut frames = Frames::new(content, (Checksum::Crc32, &sum), signer.is_some());
        let length = frames.bytes() + content.iter().map(|piece| piece.len()).sum::<usize>();
        if let Some((signer, before)) = signer {
            frames.sign(signer, before, content);
        }
        let sent = frames.parts(b"", content).concat();
        assert_eq!(sent.len(), length, "the length in the head is that of the body");
        sent
    }

    #[test]
    fn an_unsigned_body_has_chunks_and_a_trailing_checksum() {
        assert_eq!(sent(&[], None), b"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
        assert_eq!(
            sent(&[b"1234567890", b"ab"], None),
            b"a\r\n1234567890\r\n2\r\nab\r\n0\r\nx-amz-checksum-crc32:jOTnNg==\r\n\r\n".as_slice()
        );
    }

    /// The example of Amazon's page "Signature calculations for trailing headers": 66,560 bytes of `a` in chunks of 64 KiB,
    /// with CRC32C. Its request signature is given; the chunk signatures follow.
    #[test]
    fn chunks_and_trailer_have_the_signatures_of_amazons_example() {
        let credentials = Credentials {
            key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
        };
        let mut signer = Signer::new(Some(credentials), "us-east-1");
        signer.set_time(1_369_353_600);
        let mut before = NO_SIGNATURE;
        before.copy_from_slice(b"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");
        let content = [b'a'; 66_560];
        let content = [&content[..65_536], &content[65_536..]];
        let sum = Checksum::Crc32c.of(content);
        let mut frames = Frames::new(&content, (Checksum::Crc32c, &sum), true);
        frames.sign(&signer, before, &content);
        let signature = |place: usize| {
            let from = frames.signatures[place];
            String::from_utf8_lossy(&frames.bytes[from..from + 64]).into_owned()
        };
        assert_eq!(
            [signature(0), signature(1), signature(2), signature(3)],
            [
                "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
                "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
                "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
                "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435",
            ]
        );
    }
}
