//! Signature Version 4 of requests, chunks and trailers.
//!
//! The day's key and the scope are cached, so that a signature usually costs two short SHA-256 computations and no
//! allocation. Written from Amazon's description ("Authenticating Requests (AWS Signature Version 4)"); the tests
//! compare the results with botocore's.

use crate::date::AmzTime;
use crate::encode::{decimal, escape, hex};
use dyno_http::USER_AGENT;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::fmt;

/// Payload hash of a request whose body is not signed.
pub const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
/// SHA-256 of an empty body.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Maximum number of signed headers.
const MOST_HEADERS: usize = 16;

type HmacSha256 = Hmac<Sha256>;

/// An access key.
#[derive(Clone)]
pub struct Credentials {
    pub key_id: String,
    pub secret: String,
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// A request without its body.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    pub method: &'static str,
    /// Path, already escaped. Begins with `/`.
    pub path: &'a str,
    /// Parameters in the order of their names, not escaped.
    pub query: &'a [(&'a str, &'a str)],
    pub host: &'a str,
    /// Further headers to sign. Their names must be in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// SHA-256 of the body in hexadecimal, or a constant such as `UNSIGNED`.
    pub payload: &'a str,
    /// Length of the body as sent; None: no body, as in GET.
    pub content_length: Option<u64>,
}

/// A signature in hexadecimal.
pub type Signature = [u8; 64];

/// Signs the requests of one access key and region.
pub struct Signer {
    credentials: Option<Credentials>,
    region: String,
    time: AmzTime,
    /// HMAC with the key of the day, before any input.
    key: Option<HmacSha256>,
    scope: Vec<u8>,
    scratch: Vec<u8>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Signer").finish_non_exhaustive()
    }
}

fn keyed(key: &[u8]) -> HmacSha256 {
    <HmacSha256 as Mac>::new_from_slice(key).expect("HMAC accepts keys of any length")
}

fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    keyed(key).chain_update(text).finalize().into_bytes().into()
}

impl Signer {
    /// Creates a signer. Without `credentials`, requests are anonymous.
    #[must_use]
    pub fn new(credentials: Option<Credentials>, region: &str) -> Self {
        let mut signer = Self {
            credentials,
            region: region.to_owned(),
            time: AmzTime::of(0),
            key: None,
            scope: Vec::new(),
            scratch: Vec::new(),
        };
        signer.begin_day();
        signer
    }

    fn begin_day(&mut self) {
        let date = self.time.date().to_owned();
        self.scope = format!("{date}/{}/s3/aws4_request", self.region).into_bytes();
        self.key = self.credentials.as_ref().map(|credentials| {
            let day = mac(format!("AWS4{}", credentials.secret).as_bytes(), date.as_bytes());
            let region = mac(&day, self.region.as_bytes());
            let service = mac(&region, b"s3");
            keyed(&mac(&service, b"aws4_request"))
        });
    }

    /// Sets the time of the next signatures, in seconds since 1970.
    pub fn set_time(&mut self, unix_s: u64) {
        if self.time.unix_s() == unix_s {
            return;
        }
        let day = self.time.date().to_owned();
        self.time = AmzTime::of(unix_s);
        if self.time.date() != day {
            self.begin_day();
        }
    }

    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.key.is_none()
    }

    /// Replaces the contents of `out` with the head of a request. Returns the signature, which starts the chain of
    /// chunk signatures; None for an anonymous request.
    pub fn write(&mut self, request: &RequestHead<'_>, out: &mut Vec<u8>) -> Option<Signature> {
        let time = self.time;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        out.clear();
        let token = self
            .credentials
            .as_ref()
            .and_then(|credentials| credentials.session_token.as_deref());
        let headers = &mut [("", ""); MOST_HEADERS];
        let headers = signed_headers(request, time.as_str(), token, headers);

        write_target(request, &mut scratch);
        out.extend(request.method.as_bytes());
        out.push(b' ');
        out.extend(request.path.as_bytes());
        if !request.query.is_empty() {
            out.push(b'?');
            write_query(request.query, out);
        }
        out.extend(b" HTTP/1.1\r\n");
        for (name, value) in headers.iter() {
            for text in [&mut scratch, out] {
                text.extend(name.as_bytes());
                text.push(b':');
                text.extend(value.as_bytes());
            }
            scratch.push(b'\n');
            out.extend(b"\r\n");
        }
        scratch.push(b'\n');
        let names_at = scratch.len();
        for (place, (name, _)) in headers.iter().enumerate() {
            if place > 0 {
                scratch.push(b';');
            }
            scratch.extend(name.as_bytes());
        }
        let names = names_at..scratch.len();
        scratch.push(b'\n');
        scratch.extend(request.payload.as_bytes());
        if let Some(bytes) = request.content_length {
            out.extend(b"content-length:");
            decimal(bytes, out);
            out.extend(b"\r\n");
        }
        out.extend(b"user-agent:");
        out.extend(USER_AGENT.as_bytes());
        out.extend(b"\r\n");
        let signature = self.signature(ALGORITHM, &[], &Sha256::digest(&scratch));
        if let (Some(signature), Some(credentials)) = (&signature, &self.credentials) {
            for text in [
                b"authorization:AWS4-HMAC-SHA256 Credential=".as_slice(),
                credentials.key_id.as_bytes(),
                b"/",
                &self.scope,
                b", SignedHeaders=",
                &scratch[names],
                b", Signature=",
                signature,
                b"\r\n",
            ] {
                out.extend(text);
            }
        }
        out.extend(b"\r\n");
        self.scratch = scratch;
        signature
    }

    /// Returns the signature of a chunk. `before`: the signature of the previous chunk, or of the request.
    #[must_use]
    pub fn chunk(&self, before: &Signature, sha256: &[u8]) -> Option<Signature> {
        let before = [before.as_slice(), b"\n", EMPTY_SHA256.as_bytes(), b"\n"].concat();
        self.signature("AWS4-HMAC-SHA256-PAYLOAD", &before, sha256)
    }

    /// Returns the signature of the trailing headers, each of which ends with a line feed.
    #[must_use]
    pub fn trailer(&self, before: &Signature, headers: &[u8]) -> Option<Signature> {
        let before = [before.as_slice(), b"\n"].concat();
        self.signature("AWS4-HMAC-SHA256-TRAILER", &before, &Sha256::digest(headers))
    }

    /// Signs the text common to all kinds of signatures: name, time, scope, `between`, and a hash.
    fn signature(&self, name: &str, between: &[u8], sha256: &[u8]) -> Option<Signature> {
        let mut mac = self.key.clone()?;
        for text in [
            name.as_bytes(),
            b"\n",
            self.time.as_str().as_bytes(),
            b"\n",
            &self.scope,
            b"\n",
            between,
            &hex_of(sha256),
        ] {
            mac.update(text);
        }
        Some(hex_of(&mac.finalize().into_bytes()))
    }
}

/// Returns 32 bytes in hexadecimal.
pub(crate) fn hex_of(bytes: &[u8]) -> Signature {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'0'; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// Fills `headers` with the signed headers, in the order of their names. Returns the filled part. An anonymous request
/// has the same headers, because they state the coding of its body.
fn signed_headers<'a, 'b>(
    request: &RequestHead<'a>,
    time: &'a str,
    token: Option<&'a str>,
    headers: &'b mut [(&'a str, &'a str); MOST_HEADERS],
) -> &'b [(&'a str, &'a str)] {
    let ours = [
        ("host", request.host),
        ("x-amz-content-sha256", request.payload),
        ("x-amz-date", time),
    ];
    let token = token.map(|token| ("x-amz-security-token", token));
    let all = ours
        .into_iter()
        .chain(token)
        .chain(request.headers.iter().copied());
    let mut count = 0;
    for (slot, header) in headers.iter_mut().zip(all) {
        *slot = header;
        count += 1;
    }
    debug_assert!(3 + usize::from(token.is_some()) + request.headers.len() <= MOST_HEADERS);
    let filled = &mut headers[..count];
    filled.sort_unstable_by_key(|(name, _)| *name);
    filled
}

/// Appends the first lines of the canonical request.
fn write_target(request: &RequestHead<'_>, out: &mut Vec<u8>) {
    out.extend(request.method.as_bytes());
    out.push(b'\n');
    out.extend(request.path.as_bytes());
    out.push(b'\n');
    write_query(request.query, out);
    out.push(b'\n');
}

fn write_query(query: &[(&str, &str)], out: &mut Vec<u8>) {
    for (place, (name, value)) in query.iter().enumerate() {
        if place > 0 {
            out.push(b'&');
        }
        escape(name, false, out);
        out.push(b'=');
        escape(value, false, out);
    }
}

/// Appends the SHA-256 of `parts` together in hexadecimal.
pub(crate) fn sha256_hex<'a>(parts: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let mut digest = Sha256::new();
    parts.into_iter().for_each(|part| digest.update(part));
    hex(&digest.finalize(), out);
}
