//! Consent to load: the document that a host outside loopback must serve, and the check of this document.

use crate::pace::Pace;
use crate::target::{names_loopback, TargetError};
use dyno_measure::{monotonic_ns, Failure, Fault, NS_PER_S};
use sha2::{Digest, Sha256};
use std::net::SocketAddr;

const MIN_TOKEN_CHARACTERS: usize = 16;
/// Length of a SHA-256 digest in hexadecimal.
const DIGEST_CHARACTERS: usize = 64;

const FILE: &str = "file";
/// Default time limit before load.
const TIMEOUT_NS: u64 = 10 * NS_PER_S;

/// Settings for opening a target: the user's token, a time limit and a rate limit.
#[derive(Clone)]
pub struct BeforeLoad {
    /// The user's consent token.
    pub token: Option<String>,
    /// Time limit for name look-up, connections and all answers together.
    pub timeout_ns: u64,
    /// Maximum rate of requests per second; None: no limit.
    pub max_rate_per_s: Option<f64>,
    /// Number of processes that share this rate while they ask for consent.
    pub processes: usize,
    /// Number of other processes whose first request precedes that of this process.
    pub turn: usize,
}

impl BeforeLoad {
    /// Returns the deadline on the monotonic clock for a request that starts now.
    #[must_use]
    pub fn deadline_ns(&self) -> u64 {
        monotonic_ns().saturating_add(self.timeout_ns)
    }

    /// Returns the deadline of a later request, if the deadline of the first request was `first_ns`. With a rate limit,
    /// which may have delayed earlier requests, a new time limit begins.
    #[must_use]
    pub fn next_deadline_ns(&self, first_ns: u64) -> u64 {
        self.max_rate_per_s.map_or(first_ns, |_| self.deadline_ns())
    }

    /// Returns the rate limit of this process's requests to `address`, or None if there is no limit.
    #[must_use]
    pub fn pace(&self, address: SocketAddr) -> Option<Pace> {
        Pace::of(address, self.max_rate_per_s, (1, self.processes), self.turn)
    }
}

impl Default for BeforeLoad {
    fn default() -> Self {
        Self {
            token: None,
            timeout_ns: TIMEOUT_NS,
            max_rate_per_s: None,
            processes: 1,
            turn: 0,
        }
    }
}

impl From<Option<&str>> for BeforeLoad {
    fn from(token: Option<&str>) -> Self {
        Self {
            token: token.map(str::to_owned),
            ..Self::default()
        }
    }
}

/// Where a protocol stores a consent document, as part of its name and for messages.
#[derive(Clone, Copy)]
pub struct Document<'a> {
    /// `file`, or `object`.
    pub kind: &'a str,
    /// End of the document's name, after the token.
    pub extension: &'a str,
    /// The directory, share, export or bucket, such as "the root of the share x".
    pub place: &'a str,
    /// Whether a failure says that the user may not read the document.
    pub is_denied: &'a dyn Fn(&Failure) -> bool,
    /// Remedy for such a failure.
    pub how_to_allow: &'static str,
}

impl<'a> Document<'a> {
    /// Returns the document of a protocol of files.
    #[must_use]
    pub fn file(place: &'a str) -> Self {
        Self {
            kind: FILE,
            extension: ".txt",
            place,
            is_denied: &|failure| failure.fault == Fault::AccessDenied,
            how_to_allow: "This file contains the server's consent to load: allow the user to read it there \
                           (chmod a+r).",
        }
    }
}

/// One host's consent to one user's load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent<'a> {
    host: &'a str,
    token: &'a str,
    document: String,
}

impl<'a> Consent<'a> {
    /// Creates the check of `host`, which requires a token.
    ///
    /// # Errors
    /// `TargetError::Consent` if there is no token, or if the token is too short or has characters other than
    /// letters and digits.
    pub fn of(host: &'a str, token: Option<&'a str>) -> Result<Self, TargetError> {
        let token = token.filter(|token| is_token(token)).ok_or_else(|| {
            TargetError::Consent(format!(
                "{host} is not this machine, and there is no token for requesting its consent"
            ))
        })?;
        Ok(Self {
            host,
            token,
            document: consent_document(host, token),
        })
    }

    /// Reads the consent document from a directory, an export, a share or a bucket. `read` gets its name, and returns
    /// the beginning of its contents, or None if it does not exist. `refused` converts failures of `read` that have
    /// no specific advice.
    ///
    /// # Errors
    /// There is no valid consent, the user is not allowed to read the document, or it is not a regular file. Otherwise,
    /// the error from `refused`.
    pub fn ask(
        host: &'a str,
        token: Option<&'a str>,
        document: Document<'_>,
        read: impl FnOnce(&str) -> Result<Option<Vec<u8>>, Failure>,
        refused: impl FnOnce(&Failure) -> TargetError,
    ) -> Result<(), TargetError> {
        let consent = Self::of(host, token)?;
        let name = format!("serverdyno-{}{}", consent.token, document.extension);
        let named = format!("{} {name} in {}", document.kind, document.place);
        let found = read(&name).map_err(|failure| match failure.fault {
            _ if (document.is_denied)(&failure) => TargetError::Session {
                why: format!("the {named}: {failure}"),
                advice: Some(document.how_to_allow),
            },
            Fault::ErrorStatus if document.kind == FILE => TargetError::Session {
                why: format!("the {named}: {failure}"),
                advice: Some(
                    "The server's consent to load must be a regular file of this name. Remove or rename what has this \
                     name now, such as a directory or a socket.",
                ),
            },
            _ => refused(&failure),
        })?;
        consent.judge(found.as_deref(), &named)
    }

    /// Returns the token, which is the name of the document.
    pub fn token(&self) -> &str {
        self.token
    }

    /// Checks the content that the host served as the document. It may have a line for each port that
    /// consents. `place` describes the document for the error message: "file ... in ...".
    ///
    /// # Errors
    /// `TargetError::Consent`, which says how to consent, if a line is not a digest or no line is the
    /// expected one.
    pub fn judge(&self, found: Option<&[u8]>, place: &str) -> Result<(), TargetError> {
        let found = found.map(|found| found.strip_prefix(b"\xef\xbb\xbf").unwrap_or(found));
        let lines = || {
            found
                .unwrap_or_default()
                .trim_ascii()
                .split(|byte| *byte == b'\n')
        };
        let agrees = |line: &[u8]| line.trim_ascii() == self.document.as_bytes();
        if lines().all(|line| is_document(line.trim_ascii())) && lines().any(agrees) {
            return Ok(());
        }
        let (host, document) = (self.host, &self.document);
        let elsewhere = if names_loopback(host) {
            ""
        } else {
            " is not this machine and"
        };
        let other = match found {
            None => "",
            Some(found) if found.starts_with(b"\xff\xfe") || found.starts_with(b"\xfe\xff") => {
                ": the document exists, but in UTF-16 (save it as UTF-8)"
            }
            Some(_) => ": the document exists, but its content is not the line below",
        };
        Err(TargetError::Consent(format!(
            "{host}{elsewhere} has not consented to load{other}. To consent, the person who runs it creates a {place} that \
             contains this one line:\n{document}"
        )))
    }
}

/// Returns the required content of the token file on `host`. It depends on the token and is valid only for
/// this host.
pub fn consent_document(host: &str, token: &str) -> String {
    let digest = Sha256::digest(format!("serverdyno consent\n{host}\n{token}\n"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether a line has the form of a consent. A document with any other line does not count.
fn is_document(line: &[u8]) -> bool {
    line.len() == DIGEST_CHARACTERS && line.iter().all(u8::is_ascii_hexdigit)
}

/// Returns whether a token is long enough to be secret, and valid as a path segment.
fn is_token(token: &str) -> bool {
    token.len() >= MIN_TOKEN_CHARACTERS && token.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn the_consent_document_differs_by_host_port_and_token() {
        let documents = [
            consent_document("a:80", TOKEN),
            consent_document("a:81", TOKEN),
            consent_document("b:80", TOKEN),
            consent_document("a:80", "0123456789abcdeF"),
        ];
        let different: std::collections::BTreeSet<_> = documents.iter().collect();
        assert_eq!(different.len(), documents.len());
        assert!(documents.iter().all(|document| document.len() == 64));
    }

    #[test]
    fn a_token_is_long_and_can_stand_in_a_path() {
        assert!(Consent::of("a", Some(TOKEN)).is_ok());
        assert!(matches!(Consent::of("a", None), Err(TargetError::Consent(_))));
        for token in [
            "",
            "short",
            "0123456789abcde",
            "0123456789abcde/",
            "../../../../../index",
            "0123456789abcd\r\n",
        ] {
            let refused = Consent::of("a", Some(token));
            assert!(matches!(refused, Err(TargetError::Consent(_))), "{token:?}");
        }
    }

    #[test]
    fn only_the_document_itself_is_consent_and_a_refusal_says_how_to_agree() {
        let consent = Consent::of("a:80", Some(TOKEN)).expect("a token");
        let document = consent_document("a:80", TOKEN);
        assert!(consent
            .judge(Some(format!(" {document}\r\n").as_bytes()), "x")
            .is_ok());
        let marked = format!("\u{feff}{document}\r\n");
        assert!(consent.judge(Some(marked.as_bytes()), "x").is_ok());
        let with_others = format!("{}\r\n{document}\n", consent_document("a:81", TOKEN));
        assert!(consent.judge(Some(with_others.as_bytes()), "x").is_ok());
        for found in [
            None,
            Some(""),
            Some(TOKEN),
            Some(&document[1..]),
            Some(&*document.to_uppercase()),
            Some(&*consent_document("a:81", TOKEN)),
            Some(&*format!("welcome\n{document}")),
            Some(&*format!("{document}\n\n{document}")),
        ] {
            let Err(TargetError::Consent(told)) =
                consent.judge(found.map(str::as_bytes), "file FILE in PLACE")
            else {
                panic!("{found:?} was taken for consent");
            };
            assert!(told.contains("a file FILE in PLACE that contains") && told.ends_with(&document));
            assert_eq!(
                told.contains("its content is not the line below"),
                found.is_some(),
                "{told}"
            );
        }
    }
}
