//! Verifies AWS Signature Version 4 in the `Authorization` header. Written from the specification.

use super::date::parse_basic;
use super::options::AccessKey;
use super::refusal::{Code, Refusal};
use super::request::{encoded, Request};
use data_encoding::HEXLOWER;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::fmt::Write as _;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Maximum difference of the clocks: 15 minutes, as S3 documents it.
const MOST_SKEW_S: u64 = 900;

/// Kind of the payload, according to `x-amz-content-sha256`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Payload {
    Unsigned,
    /// The SHA-256 of the payload in hexadecimal.
    Signed(String),
    /// S3's own chunks, with or without signatures and a trailer.
    Chunks {
        are_signed: bool,
        has_trailer: bool,
    },
}

impl Payload {
    fn of(value: &str) -> Result<Self, Refusal> {
        let chunks = |are_signed, has_trailer| {
            Ok(Self::Chunks {
                are_signed,
                has_trailer,
            })
        };
        match value {
            "UNSIGNED-PAYLOAD" => Ok(Self::Unsigned),
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => chunks(false, true),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => chunks(true, false),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => chunks(true, true),
            digest if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Ok(Self::Signed(digest.to_ascii_lowercase()))
            }
            _ => Err(Refusal::saying(
                Code::InvalidRequest,
                "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a streaming payload or a valid SHA-256.",
            )),
        }
    }
}

/// State for verifying the signature of the next chunk of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    key: [u8; 32],
    date: String,
    scope: String,
    previous: String,
}

impl Chain {
    /// Returns whether `signature` is that of the next chunk, which continues the chain.
    pub(super) fn accepts_chunk(&mut self, content: &[u8], signature: &str) -> bool {
        let hashes = format!("{}\n{}", hex(&Sha256::digest(b"")), hex(&Sha256::digest(content)));
        self.accepts("AWS4-HMAC-SHA256-PAYLOAD", &hashes, signature)
    }

    /// Returns whether `signature` is that of the trailer. `lines`: the fields, each with a line feed at its
    /// end.
    pub(super) fn accepts_trailer(&mut self, lines: &str, signature: &str) -> bool {
        self.accepts(
            "AWS4-HMAC-SHA256-TRAILER",
            &hex(&Sha256::digest(lines.as_bytes())),
            signature,
        )
    }

    fn accepts(&mut self, kind: &str, hashes: &str, signature: &str) -> bool {
        let text = format!(
            "{kind}\n{}\n{}\n{}\n{hashes}",
            self.date, self.scope, self.previous
        );
        self.previous = hex(&mac(&self.key, text.as_bytes()));
        self.previous == signature
    }
}

/// A request whose signature was verified or is not required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verified {
    pub(super) payload: Payload,
    /// None if chunks need no signatures.
    pub(super) chain: Option<Chain>,
}

/// The latest signing key with its scope, which changes once a day.
#[derive(Debug, Default)]
pub(super) struct SigningKey(RefCell<Option<(String, [u8; 32])>>);

impl SigningKey {
    fn get(&self, secret: &str, scope: &Scope<'_>) -> [u8; 32] {
        let text = scope.text();
        if let Some((known, key)) = &*self.0.borrow() {
            if *known == text {
                return *key;
            }
        }
        let start = mac(format!("AWS4{secret}").as_bytes(), scope.date.as_bytes());
        let parts = [scope.region, scope.service, "aws4_request"];
        let key = parts.iter().fold(start, |key, part| mac(&key, part.as_bytes()));
        self.0.replace(Some((text, key)));
        key
    }
}

/// The scope of a credential.
struct Scope<'a> {
    date: &'a str,
    region: &'a str,
    service: &'a str,
}

impl Scope<'_> {
    fn text(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date, self.region, self.service)
    }
}

/// The parts of an `Authorization` header.
struct Authorization<'a> {
    key_id: &'a str,
    scope: Scope<'a>,
    signed: Vec<&'a str>,
    signature: &'a str,
}

impl<'a> Authorization<'a> {
    fn of(value: &'a str) -> Option<Self> {
        let rest = value.strip_prefix(ALGORITHM)?.strip_prefix(' ')?;
        let (mut credential, mut signed, mut signature) = (None, None, None);
        for part in rest.split(',') {
            let (name, value) = part.trim().split_once('=')?;
            match name {
                "Credential" => credential = Some(value),
                "SignedHeaders" => signed = Some(value),
                "Signature" => signature = Some(value),
                _ => return None,
            }
        }
        // The key's ID may contain slashes.
        let mut parts = credential?.rsplitn(5, '/');
        let [end, service, region, date, key_id] = std::array::from_fn(|_| parts.next());
        (end? == "aws4_request").then_some(Self {
            key_id: key_id?,
            scope: Scope {
                date: date?,
                region: region?,
                service: service?,
            },
            signed: signed?.split(';').collect(),
            signature: signature?,
        })
    }
}

/// Verifies a request. `key`: the access key, or None if anyone may do everything. `now_s`: the Unix time.
pub(super) fn verify(
    request: &Request,
    key: Option<&AccessKey>,
    region: &str,
    signing_key: &SigningKey,
    now_s: i64,
) -> Result<Verified, Refusal> {
    let payload = request
        .field("x-amz-content-sha256")
        .map(Payload::of)
        .transpose()?;
    let Some(access) = key else {
        return Ok(Verified {
            payload: payload.unwrap_or(Payload::Unsigned),
            chain: None,
        });
    };
    let value = request.field("authorization").ok_or(Code::AccessDenied)?;
    let authorization = Authorization::of(value).ok_or_else(|| {
        let message = format!("The authorization header is not of the form {ALGORITHM}.");
        Refusal::saying(Code::AuthorizationHeaderMalformed, message)
    })?;
    let payload = payload.ok_or_else(|| {
        let message = "Missing required header for this request: x-amz-content-sha256";
        Refusal::saying(Code::InvalidRequest, message)
    })?;
    if authorization.key_id != access.id {
        return Err(Refusal::from(Code::InvalidAccessKeyId).with("AWSAccessKeyId", authorization.key_id));
    }
    let scope = &authorization.scope;
    let date = request.field("x-amz-date").unwrap_or_default();
    check_scope(scope, region, date, now_s)?;
    check_signed_fields(request, &authorization.signed)?;
    let signing = signing_key.get(&access.secret, scope);
    let canonical = canonical(request, &authorization.signed);
    let text = format!(
        "{ALGORITHM}\n{date}\n{}\n{}",
        scope.text(),
        hex(&Sha256::digest(canonical.as_bytes()))
    );
    if hex(&mac(&signing, text.as_bytes())) != authorization.signature {
        return Err(Refusal::from(Code::SignatureDoesNotMatch)
            .with("StringToSign", text)
            .with("CanonicalRequest", canonical));
    }
    let chain = Chain {
        key: signing,
        date: date.to_owned(),
        scope: scope.text(),
        previous: authorization.signature.to_owned(),
    };
    let is_signed = matches!(payload, Payload::Chunks { are_signed: true, .. });
    Ok(Verified {
        payload,
        chain: is_signed.then_some(chain),
    })
}

/// Checks that a credential is for this service, region and time.
fn check_scope(scope: &Scope<'_>, region: &str, date: &str, now_s: i64) -> Result<(), Refusal> {
    let malformed = |message| Refusal::saying(Code::AuthorizationHeaderMalformed, message);
    if scope.service != "s3" {
        let message = format!(
            "The credential is for the service '{}', not for 's3'.",
            scope.service
        );
        return Err(malformed(message));
    }
    if scope.region != region {
        let message = format!(
            "The authorization header is malformed; the region '{}' is wrong; expecting '{region}'",
            scope.region
        );
        return Err(malformed(message).with("Region", region));
    }
    let time_s = parse_basic(date).ok_or_else(|| {
        let message = "AWS authentication requires a valid x-amz-date header";
        Refusal::saying(Code::AccessDenied, message)
    })?;
    if !date.starts_with(scope.date) {
        return Err(malformed(
            "The credential's date differs from x-amz-date.".to_owned(),
        ));
    }
    if now_s.abs_diff(time_s) > MOST_SKEW_S {
        return Err(Refusal::from(Code::RequestTimeTooSkewed).with("RequestTime", date));
    }
    Ok(())
}

/// Checks that the signature covers `host` and every `x-amz-` header, and no header that is missing.
fn check_signed_fields(request: &Request, signed: &[&str]) -> Result<(), Refusal> {
    let must = |name: &str| name == "host" || name.starts_with("x-amz-");
    let names = request.fields.iter().map(|(name, _)| name.as_str());
    let forgotten = names.filter(|name| must(name) && !signed.contains(name));
    if let Some(name) = forgotten.into_iter().next() {
        let message = "There were headers present in the request which were not signed";
        return Err(Refusal::saying(Code::AccessDenied, message).with("HeadersNotSigned", name));
    }
    match signed.iter().find(|name| request.field(name).is_none()) {
        Some(missing) => Err(Refusal::saying(
            Code::SignatureDoesNotMatch,
            format!("The signed header {missing} is missing."),
        )),
        None => Ok(()),
    }
}

fn canonical(request: &Request, signed: &[&str]) -> String {
    let mut query: Vec<(String, String)> = request
        .query
        .iter()
        .map(|(name, value)| (encoded(name, false), encoded(value, false)))
        .collect();
    query.sort();
    let query: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut text = format!(
        "{}\n{}\n{}\n",
        request.method.name(),
        encoded(&request.path, true),
        query.join("&")
    );
    for name in signed {
        let values = request.fields.iter().filter(|(field, _)| field == name);
        let values: Vec<String> = values.map(|(_, value)| single_spaced(value)).collect();
        let _ = writeln!(text, "{name}:{}", values.join(","));
    }
    let payload = request.field("x-amz-content-sha256").unwrap_or_default();
    let _ = write!(text, "\n{}\n{payload}", signed.join(";"));
    text
}

fn single_spaced(value: &str) -> String {
    value
        .split(' ')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::request::{parse, Parsed};
    use super::*;

    /// The examples of "Signature Calculations for the Authorization Header" in S3's API reference.
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    const NOW_S: i64 = 1_369_353_600;
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn request(start: &str, fields: &[(&str, &str)], signed: &str, signature: &str) -> Request {
        let mut head = format!("{start} HTTP/1.1\r\nHost: examplebucket.s3.amazonaws.com\r\n");
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!(
            "X-Amz-Date: 20130524T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders={signed},Signature={signature}\r\n\r\n"
        );
        match parse(head.as_bytes()) {
            Parsed::Whole { request, .. } => *request,
            other => panic!("{other:?}"),
        }
    }

    fn key() -> AccessKey {
        AccessKey {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: SECRET.to_owned(),
        }
    }

    fn verified(request: &Request, now_s: i64) -> Result<Verified, Code> {
        verify(request, Some(&key()), "us-east-1", &SigningKey::default(), now_s)
            .map_err(|refusal| refusal.code)
    }

    fn get(signature: &str) -> Request {
        request(
            "GET /test.txt",
            &[("Range", "bytes=0-9"), ("x-amz-content-sha256", EMPTY)],
            "host;range;x-amz-content-sha256;x-amz-date",
            signature,
        )
    }

    const GET: &str = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";

    #[test]
    fn the_published_examples_are_accepted() {
        assert_eq!(
            verified(&get(GET), NOW_S).map(|verified| verified.payload),
            Ok(Payload::Signed(EMPTY.to_owned()))
        );
        let put = request(
            "PUT /test%24file.text",
            &[
                ("Date", "Fri, 24 May 2013 00:00:00 GMT"),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                (
                    "x-amz-content-sha256",
                    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
                ),
            ],
            "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        );
        assert!(verified(&put, NOW_S).is_ok());
        for (start, signature) in [
            (
                "GET /?lifecycle",
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "GET /?max-keys=2&prefix=J",
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let fields = [("x-amz-content-sha256", EMPTY)];
            let listing = request(start, &fields, "host;x-amz-content-sha256;x-amz-date", signature);
            assert!(verified(&listing, NOW_S).is_ok(), "{start}");
        }
    }

    #[test]
    fn the_published_chunks_are_accepted_only_in_their_order() {
        let put = request(
            "PUT /examplebucket/chunkObject.txt",
            &[
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
                ("Content-Encoding", "aws-chunked"),
                ("x-amz-decoded-content-length", "66560"),
                ("Content-Length", "66824"),
            ],
            "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;\
             x-amz-decoded-content-length;x-amz-storage-class",
            "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
        );
        // The host of the example does not contain the bucket.
        let mut put = put;
        put.fields[0].1 = "s3.amazonaws.com".to_owned();
        let mut chain = verified(&put, NOW_S)
            .expect("as published")
            .chain
            .expect("signed chunks");
        let chunks = [
            (
                65_536,
                "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
            ),
            (
                1024,
                "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
            ),
            (
                0,
                "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
            ),
        ];
        let mut late = chain.clone();
        for (length, signature) in chunks {
            assert!(chain.accepts_chunk(&vec![b'a'; length], signature), "{length}");
        }
        assert!(!late.accepts_chunk(&[b'a'; 1024], chunks[1].1));
    }

    #[test]
    fn each_invalid_part_has_its_own_error() {
        let wrong = |change: fn(&mut Request)| {
            let mut request = get(GET);
            change(&mut request);
            verified(&request, NOW_S).err()
        };
        let set = |request: &mut Request, name: &str, from: &str, to: &str| {
            let field = request.fields.iter_mut().find(|(field, _)| field == name);
            let value = &mut field.expect("the field is there").1;
            *value = value.replace(from, to);
        };
        let in_authorization = |from: &'static str, to: &'static str| {
            let mut request = get(GET);
            set(&mut request, "authorization", from, to);
            verified(&request, NOW_S).err()
        };
        assert_eq!(
            wrong(|request| request.path = b"/other".to_vec()),
            Some(Code::SignatureDoesNotMatch)
        );
        assert_eq!(
            wrong(|request| request.method = super::super::request::Method::Head),
            Some(Code::SignatureDoesNotMatch)
        );
        assert_eq!(
            wrong(|request| request.fields.retain(|(name, _)| name != "authorization")),
            Some(Code::AccessDenied)
        );
        assert_eq!(
            wrong(|request| request.fields.push(("x-amz-acl".into(), "public".into()))),
            Some(Code::AccessDenied)
        );
        assert_eq!(in_authorization("AKIA", "BKIA"), Some(Code::InvalidAccessKeyId));
        assert_eq!(
            in_authorization("us-east-1", "eu-west-1"),
            Some(Code::AuthorizationHeaderMalformed)
        );
        assert_eq!(
            in_authorization("AWS4-HMAC-SHA256", "AWS"),
            Some(Code::AuthorizationHeaderMalformed)
        );
        assert_eq!(
            in_authorization("/20130524/", "/20130525/"),
            Some(Code::AuthorizationHeaderMalformed)
        );
        assert_eq!(
            verified(&get(GET), NOW_S + 901).err(),
            Some(Code::RequestTimeTooSkewed)
        );
        assert_eq!(
            verified(&get(GET), NOW_S - 901).err(),
            Some(Code::RequestTimeTooSkewed)
        );
        assert!(verified(&get(GET), NOW_S + 900).is_ok());
    }
}
