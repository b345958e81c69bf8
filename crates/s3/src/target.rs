//! Buckets that may receive load. The engine accepts only an `S3Target`, and only `S3Target::open` creates one.
//!
//! A server on loopback belongs to the user and needs no consent unless there is a token. Any other bucket must
//! contain an object whose key contains the user's secret token. Only someone who knows the token can create its
//! content (`dyno_net::consent_document`), so a server that answers every request, or echoes it, does not pass. The
//! checked address is the one used for load: the name is resolved once.

use crate::advice::{advice, Circumstances};
use crate::call::Call;
use crate::checksum::Checksum;
use crate::client::{Client, Payload, Settings};
use crate::code::name_in;
use crate::place::Place;
use crate::sign::{Credentials, Signer};
use dyno_http::{PlainTcp, TlsOverTcp, Transport, Trusting};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::tls::{can_be_certified, ClientOptions, TlsClient, Version, Versions};
use dyno_net::{
    is_loopback, name_and_port, resolve, run_alone, unescaped, BeforeLoad, Consent, Dialer, Document,
    Executor, Pace, TargetError,
};
use serde::Deserialize;
use std::cell::RefCell;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

const BUFFER_BYTES: usize = 16 * 1024;
const MAX_DOCUMENT_BYTES: usize = 4096;
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;
/// Maximum number of pages that `look` reads of one list. Most servers need one.
const MOST_PAGES: usize = 64;
/// Maximum length of a prefix: S3's limit for a key, less the space for the names of the workload.
const MOST_PREFIX_BYTES: usize = 512;

/// Where a request names the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Addressing {
    /// The bucket name is the first path segment (path style).
    Path,
    /// The bucket name is a prefix of the host name (virtual-hosted style).
    Virtual,
}

#[derive(Debug, Clone)]
pub struct S3Options {
    pub region: String,
    pub addressing: Addressing,
    pub payload: Payload,
    pub checksum: Option<Checksum>,
    pub trusting: Trusting,
    /// None: requests are anonymous.
    pub credentials: Option<Credentials>,
}

/// State of a bucket before load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketLook {
    /// Whether there is an object or an unfinished upload under a name that load uses.
    pub is_used: bool,
    /// Whether a DELETE leaves old versions. False if the server does not answer the question.
    pub keeps_versions: bool,
}

/// A bucket that may receive load, and the prefix of all keys.
#[derive(Debug, Clone)]
pub struct S3Target {
    address: SocketAddr,
    settings: Settings,
    /// Empty, or ends with a slash.
    prefix: String,
    region: String,
    credentials: Option<Credentials>,
    tls: Option<TlsClient>,
    pace: Option<Pace>,
}

impl S3Target {
    /// Resolves `s3://HOST[:PORT]/BUCKET[/PREFIX]`, or `s3s://` for TLS, and checks the server's consent, unless the
    /// server is on loopback and `asking` has no token.
    ///
    /// # Errors
    /// See `TargetError`.
    pub fn open(url: &str, options: &S3Options, asking: impl Into<BeforeLoad>) -> Result<Self, TargetError> {
        let (parts, asking) = (split_url(url, options.addressing)?, asking.into());
        let (deadline_ns, token) = (asking.deadline_ns(), asking.token.as_deref());
        let port = if parts.is_secure { HTTPS_PORT } else { HTTP_PORT };
        let address = resolve(parts.authority, port, deadline_ns).map_err(TargetError::Io)?;
        let (host, base) = match options.addressing {
            Addressing::Path => (parts.authority.to_owned(), format!("/{}", parts.bucket)),
            Addressing::Virtual => (format!("{}.{}", parts.bucket, parts.authority), String::new()),
        };
        let tls = parts
            .is_secure
            .then(|| tls(&host, &options.trusting))
            .transpose()?;
        let target = Self {
            address,
            settings: Settings {
                host,
                bucket: parts.bucket.to_owned(),
                base,
                payload: options.payload,
                checksum: options.checksum,
                is_secure: parts.is_secure,
            },
            prefix: parts.prefix,
            region: options.region.clone(),
            credentials: options.credentials.clone(),
            tls,
            pace: asking.pace(address),
        };
        if token.is_some() || !target.is_loopback() {
            target.ask_consent(parts.authority, token, deadline_ns)?;
        }
        Ok(target)
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.address.ip())
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the prefix of all keys. It is empty or ends with a slash.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the TLS configuration of clients; None without TLS.
    #[must_use]
    pub fn tls(&self) -> Option<&TlsClient> {
        self.tls.as_ref()
    }

    /// Returns a suggested remedy for a failure, or None if there is nothing to add to its message.
    #[must_use]
    pub fn advice(&self, failure: &Failure) -> Option<&'static str> {
        let is = Circumstances {
            is_anonymous: self.credentials.is_none(),
            payload: self.settings.payload,
            has_checksum: self.settings.checksum.is_some(),
            is_secure: self.settings.is_secure,
            is_virtual: self.settings.base.is_empty(),
        };
        advice(failure, &is)
    }

    #[must_use]
    pub fn signer(&self) -> Signer {
        Signer::new(self.credentials.clone(), &self.region)
    }

    /// Creates a dialer to the bucket's server. Dialers of one process need different numbers.
    #[must_use]
    pub fn dialer(&self, executor: &Executor, number: u8) -> Dialer {
        Dialer::new(executor.clone(), self.address, number)
    }

    /// Returns the state of the bucket before load. `name`: the start of all keys that load uses. Takes at most
    /// `timeout_ns`.
    ///
    /// # Errors
    /// The reason why the bucket can't be listed.
    pub fn look(&self, name: &str, timeout_ns: u64) -> Result<BucketLook, Failure> {
        let deadline_ns = monotonic_ns().saturating_add(timeout_ns);
        let prefix = format!("{}{name}", self.prefix);
        self.alone(deadline_ns, |mut client| async move {
            // One call, so that all pages together have one deadline.
            client.look(&prefix, &mut Call::new(monotonic_ns())).await
        })
    }

    fn ask_consent(&self, host: &str, token: Option<&str>, deadline_ns: u64) -> Result<(), TargetError> {
        let place = format!("the bucket {}", self.settings.bucket);
        let document = Document {
            kind: "object",
            extension: "",
            place: &place,
            is_denied: &|failure| self.denies_object(failure),
            how_to_allow: "This object contains the server's consent to load: create it if it is missing, \
                and allow the access key to read it (s3:GetObject), even if the key is restricted to a \
                prefix.",
        };
        let fetch = |key: &str| self.fetch(key.to_owned(), deadline_ns);
        Consent::ask(host, token, document, fetch, |failure| {
            TargetError::Answer(*failure, self.advice(failure))
        })
    }

    /// Returns whether a failure says that the access key has no permission to read an object, or to learn that the
    /// object is missing.
    fn denies_object(&self, failure: &Failure) -> bool {
        failure.fault == Fault::AccessDenied
            && self.credentials.is_some()
            && matches!(name_in(failure), None | Some("AccessDenied"))
    }

    /// Returns the content of an object, or None if the object does not exist or is too large.
    fn fetch(&self, key: String, deadline_ns: u64) -> Result<Option<Vec<u8>>, Failure> {
        let found = self.alone(deadline_ns, |mut client| async move {
            let mut document = Vec::new();
            let mut take = |data: &[u8]| {
                let room = (MAX_DOCUMENT_BYTES + 1).saturating_sub(document.len());
                document.extend_from_slice(&data[..data.len().min(room)]);
            };
            let call = &mut Call::new(monotonic_ns());
            client.get(&key, &mut take, call).await?;
            Ok(document)
        });
        match found {
            Ok(document) => Ok(Some(document).filter(|document| document.len() <= MAX_DOCUMENT_BYTES)),
            Err(failure) if failure.fault == Fault::ObjectMissing => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Runs `ask` with one client, outside of load.
    fn alone<D: 'static, F: Future<Output = Result<D, Failure>> + 'static>(
        &self,
        deadline_ns: u64,
        ask: impl FnOnce(AnyClient) -> F,
    ) -> Result<D, Failure> {
        run_alone(deadline_ns, |executor| {
            ask(self.client(executor, deadline_ns.saturating_sub(monotonic_ns())))
        })
    }

    /// Creates the shared state of clients on `executor`, which connect with `dialer`.
    #[must_use]
    pub fn place(
        &self,
        executor: &Executor,
        dialer: Rc<Dialer>,
        (buffer_bytes, timeout_ns): (usize, u64),
    ) -> Place {
        Place {
            executor: executor.clone(),
            dialer,
            buffer: Rc::new(RefCell::new(vec![0; buffer_bytes].into_boxed_slice())),
            settings: Rc::new(self.settings.clone()),
            signer: Rc::new(RefCell::new(self.signer())),
            timeout_ns,
            pace: self.pace.clone(),
        }
    }

    fn client(&self, executor: &Executor, timeout_ns: u64) -> AnyClient {
        let dialer = Rc::new(self.dialer(executor, 0));
        let place = self.place(executor, dialer, (BUFFER_BYTES, timeout_ns));
        match &self.tls {
            None => AnyClient::Plain(place.plain()),
            Some(tls) => AnyClient::Secure(place.secure(tls)),
        }
    }
}

/// A client for use outside of load.
enum AnyClient {
    Plain(Client<PlainTcp>),
    Secure(Client<TlsOverTcp>),
}

impl AnyClient {
    async fn look(&mut self, prefix: &str, call: &mut Call) -> Result<BucketLook, Failure> {
        match self {
            Self::Plain(client) => look(client, prefix, call).await,
            Self::Secure(client) => look(client, prefix, call).await,
        }
    }

    async fn get(&mut self, key: &str, take: &mut impl FnMut(&[u8]), call: &mut Call) -> Result<(), Failure> {
        match self {
            Self::Plain(client) => client.get(key, None, take, call).await,
            Self::Secure(client) => client.get(key, None, take, call).await,
        }
        .map(|_| ())
    }
}

async fn look<T: Transport>(
    client: &mut Client<T>,
    prefix: &str,
    call: &mut Call,
) -> Result<BucketLook, Failure> {
    Ok(BucketLook {
        is_used: is_used(client, prefix, call).await?,
        // Some servers can't answer this, and some access keys may not request it.
        keeps_versions: client.keeps_versions(call).await.unwrap_or(false),
    })
}

async fn is_used<T: Transport>(
    client: &mut Client<T>,
    prefix: &str,
    call: &mut Call,
) -> Result<bool, Failure> {
    let mut from = None;
    for page in 0.. {
        if page == MOST_PAGES {
            return Err(Fault::ResponseTimeout.into());
        }
        let page = client.list(prefix, from.as_deref(), 1, call).await?;
        if page.entries.iter().any(|entry| entry.key.starts_with(prefix)) {
            return Ok(true);
        }
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    let mut from = None;
    for _ in 0..MOST_PAGES {
        // Some servers can't list uploads, and some access keys may not.
        let Ok(page) = client.list_uploads(prefix, from.as_ref(), call).await else {
            break;
        };
        if page.uploads.iter().any(|(key, _)| key.starts_with(prefix)) {
            return Ok(true);
        }
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    Ok(false)
}

fn tls(host: &str, trusting: &Trusting) -> Result<TlsClient, TargetError> {
    let (name, _) = name_and_port(host, HTTPS_PORT).unwrap_or_default();
    let options = ClientOptions {
        versions: Versions {
            least: Version::Tls12,
            most: Version::Tls13,
        },
        ciphers: Vec::new(),
        application_protocols: Vec::new(),
        trust: trusting.trust()?,
        server_name: name.to_owned(),
        identity: None,
    };
    TlsClient::new(&options).map_err(TargetError::Url)
}

#[derive(Debug)]
struct Parts<'a> {
    is_secure: bool,
    /// Host, and the port if the URL has one.
    authority: &'a str,
    bucket: &'a str,
    prefix: String,
}

fn split_url(url: &str, addressing: Addressing) -> Result<Parts<'_>, TargetError> {
    let refuse = |why: &str| Err(TargetError::Url(format!("{url:?}: {why}")));
    let (is_secure, rest) = match (url.strip_prefix("s3://"), url.strip_prefix("s3s://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return refuse("the URL of a bucket begins with s3:// or s3s://"),
    };
    if rest.contains(['?', '#']) || rest.chars().any(char::is_control) {
        return refuse("the path can't have ? or #: write %3F for ? and %23 for #");
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !authority.bytes().all(|byte| byte.is_ascii_graphic()) || authority.contains(['%', '\\', '@']) {
        return refuse("only host or host:port may stand between the scheme and the bucket");
    }
    let Some((name, _)) = name_and_port(authority, HTTPS_PORT) else {
        return refuse("only host or host:port may stand between the scheme and the bucket");
    };
    let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
    let of_bucket = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if bucket.is_empty() || bucket.starts_with('.') || !bucket.bytes().all(of_bucket) {
        return refuse("the name of a bucket must follow the host: s3://HOST[:PORT]/BUCKET[/PREFIX]");
    }
    let prefix = unescaped(prefix.trim_end_matches('/')).and_then(|bytes| String::from_utf8(bytes).ok());
    let prefix = match prefix {
        Some(prefix) if !prefix.chars().any(char::is_control) => prefix,
        _ => return refuse("the prefix has a % escape that is not valid UTF-8, or a control character; write % itself as %25"),
    };
    let has = |odd: &str| !prefix.is_empty() && prefix.split('/').any(|part| part == odd);
    if has("") {
        return refuse(
            "the prefix has an empty part (//), which dyno does not support, although S3 allows it",
        );
    }
    if has(".") || has("..") {
        return refuse("the prefix has a part . or .., which proxies and clients remove from URLs");
    }
    if prefix.len() > MOST_PREFIX_BYTES {
        return refuse(
            "the prefix is longer than 512 bytes: a key has at most 1024, with the load's own names",
        );
    }
    if addressing == Addressing::Virtual && (authority.starts_with('[') || is_address(name)) {
        return refuse(
            "with --addressing virtual, the bucket's name precedes the host's name, so the host must be a name, \
             not an address: use the server's name, or --addressing path",
        );
    }
    if is_secure && !can_be_certified(name) {
        return refuse("a certificate can't name such a host");
    }
    Ok(Parts {
        is_secure,
        authority,
        bucket,
        prefix: if prefix.is_empty() {
            String::new()
        } else {
            format!("{prefix}/")
        },
    })
}

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: Option<(bool, &str, &str, &str)>) {
        let split = split_url(url, Addressing::Path).ok();
        let split = split.as_ref();
        let split = split.map(|parts| {
            (
                parts.is_secure,
                parts.authority,
                parts.bucket,
                parts.prefix.as_str(),
            )
        });
        assert_eq!(split, expected, "{url}");
    }

    #[test]
    fn a_url_is_host_bucket_and_prefix() {
        check("s3://127.0.0.1:8333/b", Some((false, "127.0.0.1:8333", "b", "")));
        check("s3s://[::1]:1/b.c-d/", Some((true, "[::1]:1", "b.c-d", "")));
        check(
            "s3://host.example/b/some/where/",
            Some((false, "host.example", "b", "some/where/")),
        );
        check(
            "s3://host/b/a b/\u{fc}n%c3%af+c&=%25/x@y",
            Some((false, "host", "b", "a b/\u{fc}n\u{ef}+c&=%/x@y/")),
        );
    }

    #[test]
    fn an_ambiguous_url_is_refused() {
        for url in [
            "",
            "s3://",
            "s3://host",
            "s3:///b",
            "s3://host//b",
            "http://host/b",
            "s3://user@host/b",
            "s3://host/b?x",
            "s3://host/b/%2e",
            "s3://host/b/%2e%2e/c",
            "s3://host/b/%ff",
            "s3://host/b/a%2fb",
            "s3://host/b/%0a",
            "s3://h\u{e9}/b",
            "s3://host/b/a/../c",
            "s3://host/b//c",
            "s3://host/..",
            "s3://host:0/b",
            "s3://::1/b",
            "s3://host/b c",
            "s3://host/b\r\nx",
        ] {
            check(url, None);
        }
        for url in ["s3://127.0.0.1/b", "s3://[::1]/b"] {
            assert!(split_url(url, Addressing::Virtual).is_err(), "{url}");
        }
        assert!(split_url("s3://localhost/b", Addressing::Virtual).is_ok());
    }
}
