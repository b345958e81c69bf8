//! Shares that may receive load. The engine accepts only an `SmbTarget`, and only `SmbTarget::open` creates one.
//!
//! A server on loopback belongs to the user and needs no consent unless there is a token. This includes the loopback of
//! another network namespace of this machine. Any other server must have a consent file in the root of each share. The
//! file's name contains the user's secret token. Only someone who knows the token can create its content
//! (`dyno_net::consent_document`). The checked address is the one used for load: the name is resolved once, and a
//! namespace stays open.
//!
//! Other code can neither construct nor change an `SmbTarget`:
//!
//! ```compile_fail,E0277
//! let target: dyno_smb::SmbTarget = Default::default();
//! ```
//! ```compile_fail,E0616
//! let mut target = dyno_smb::SmbTarget::open("smb://127.0.0.1/a", vec![], Default::default(), None, None).unwrap();
//! target.address = ([10, 0, 0, 1], 445).into();
//! ```

use crate::advice::advice;
use crate::session::{Options, Session};
use crate::smb1;
use dyno_files::read_beginning;
use dyno_measure::Failure;
use dyno_net::{is_loopback, is_plain_host, name_and_port, resolve, run_alone, unescaped};
use dyno_net::{BeforeLoad, Consent, Dialer, Document, Namespace, Pace, TargetError};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;

const SMB_PORT: u16 = 445;
const MAX_DOCUMENT_BYTES: u32 = 4096;
/// Client number of the session that checks the consent. No client of a load level has this number.
const ASKING_CLIENT: u32 = u32::MAX;

/// Shares of one server that may receive load.
#[derive(Debug, Clone)]
pub struct SmbTarget {
    address: SocketAddr,
    host: String,
    shares: Vec<String>,
    options: Options,
    namespace: Namespace,
    pace: Option<Pace>,
}

/// The parts of `smb://host[:port]/share[/path]`.
#[derive(Debug, PartialEq, Eq)]
struct Url<'a> {
    host: &'a str,
    share: String,
    path: String,
}

impl SmbTarget {
    /// Resolves `url`, `smb://host[:port]/share[/path]`, and checks the server's consent, unless the server is on
    /// loopback and `asking` has no token.
    ///
    /// Clients are distributed over `shares`, or use the URL's share if `shares` is empty. The URL's path
    /// becomes the prefix of all paths, and its host becomes `options.server`. The server is in the given
    /// network namespace (file `/proc/PID/ns/net`), if any.
    pub fn open(
        url: &str,
        shares: Vec<String>,
        options: Options,
        network_namespace: Option<&Path>,
        asking: impl Into<BeforeLoad>,
    ) -> Result<Self, TargetError> {
        let parts = split_url(url)?;
        let shares = choose_shares(url, &parts.share, shares)?;
        let namespace = Namespace::open(network_namespace)?;
        let (name, _) = name_and_port(parts.host, SMB_PORT).unwrap_or((parts.host, SMB_PORT));
        let options = Options {
            server: name.to_owned(),
            base_path: parts.path,
            ..options
        };
        let host = parts.host.to_owned();
        let (within, asking) = (namespace.clone(), asking.into());
        namespace.within(move || Self::open_here(host, shares, options, within, &asking))
    }

    fn open_here(
        host: String,
        shares: Vec<String>,
        options: Options,
        namespace: Namespace,
        asking: &BeforeLoad,
    ) -> Result<Self, TargetError> {
        let (deadline_ns, token) = (asking.deadline_ns(), asking.token.as_deref());
        let address = resolve(&host, SMB_PORT, deadline_ns).map_err(TargetError::Io)?;
        let target = Self {
            address,
            pace: asking.pace(address),
            host,
            shares,
            options,
            namespace,
        };
        if token.is_some() || !target.is_loopback() {
            for share in &target.shares {
                target.ask_consent(share, token, asking.next_deadline_ns(deadline_ns))?;
            }
        }
        Ok(target)
    }

    /// Returns the checked address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns a copy of the target that ignores the path of the URL.
    pub fn at_roots(&self) -> Self {
        let mut target = self.clone();
        target.options.base_path.clear();
        target
    }

    /// Returns a copy of the target with `pace` as the rate limit of its requests.
    #[must_use]
    pub fn paced(&self, pace: Option<Pace>) -> Self {
        Self { pace, ..self.clone() }
    }

    /// Returns the rate limit of all requests, or None if there is no limit.
    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref()
    }

    pub fn shares(&self) -> &[String] {
        &self.shares
    }

    pub fn is_loopback(&self) -> bool {
        is_loopback(self.address.ip())
    }

    /// Moves the calling thread into the server's network namespace, in which its new sockets are then created. Does
    /// nothing without a namespace.
    ///
    /// # Errors
    /// The process lacks `CAP_SYS_ADMIN`, or the file is not a network namespace.
    pub fn enter(&self) -> Result<(), Errno> {
        self.namespace.enter()
    }

    fn ask_consent(&self, share: &str, token: Option<&str>, deadline_ns: u64) -> Result<(), TargetError> {
        let place = format!("the root of the share {share}");
        let fetch = |name: &str| self.fetch(share, name.to_owned(), deadline_ns);
        Consent::ask(&self.host, token, Document::file(&place), fetch, |failure| {
            let advice = advice(failure, &self.options);
            TargetError::of_session(&format!("share {share}"), failure, advice)
        })
    }

    /// Returns the first bytes of the file `name` in the share's root, or None if it does not exist.
    fn fetch(&self, share: &str, name: String, deadline_ns: u64) -> Result<Option<Vec<u8>>, Failure> {
        let options = Rc::new(self.at_roots().options);
        run_alone(deadline_ns, |executor| {
            let dialer = Dialer::new(executor.clone(), self.address, 0).paced(self.pace.clone());
            let dialer = Rc::new(dialer);
            let session = Session::new(executor.clone(), dialer.clone(), options, ASKING_CLIENT, share);
            async move {
                match read_beginning(session, &name, MAX_DOCUMENT_BYTES).await {
                    Err(failure) => Err(smb1::explained(failure, &dialer).await),
                    found => found,
                }
            }
        })
    }
}

fn choose_shares(url: &str, share: &str, shares: Vec<String>) -> Result<Vec<String>, TargetError> {
    let shares = if shares.is_empty() {
        vec![share.to_owned()]
    } else {
        shares
    };
    if shares
        .iter()
        .any(|share| share.is_empty() || share.contains(['/', '\\', '\0']))
    {
        return Err(TargetError::Url(format!(
            "{url:?}: name a share, smb://HOST/SHARE; its name can't have / or \\"
        )));
    }
    Ok(shares)
}

/// Splits a URL into its parts; rejects an ambiguous URL.
fn split_url(url: &str) -> Result<Url<'_>, TargetError> {
    let refuse = |why: &str| Err(TargetError::Url(format!("{url:?}: {why}")));
    let Some(rest) = url.strip_prefix("smb://") else {
        return refuse("the URL of a file server begins with smb://");
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !is_plain_host(host) {
        return refuse("only host or host:port may stand between smb:// and the share");
    }
    if path.contains(['?', '#']) {
        return refuse("only a share and a path may follow the host: write ? as %3F and # as %23");
    }
    let Some(path) = unescaped(path).and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return refuse("the path has a % escape that is not valid UTF-8; write % itself as %25");
    };
    if path.contains(['\\', '?', ':', '*', '"', '<', '>', '|']) || path.chars().any(char::is_control) {
        return refuse("the path has characters that file names can't have");
    }
    let (share, path) = path.split_once('/').unwrap_or((&path, ""));
    let path = path.strip_suffix('/').unwrap_or(path);
    if !path.is_empty() && path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return refuse("the path has empty parts, or the parts . or ..");
    }
    Ok(Url {
        host,
        share: share.to_owned(),
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: Option<(&str, &str, &str)>) {
        let split = split_url(url).ok();
        let split = split.map(|parts| (parts.host.to_owned(), parts.share, parts.path));
        let expected =
            expected.map(|(host, share, path)| (host.to_owned(), share.to_owned(), path.to_owned()));
        assert_eq!(split, expected, "{url}");
    }

    #[test]
    fn a_url_is_split_into_host_share_and_path() {
        check("smb://127.0.0.1/data", Some(("127.0.0.1", "data", "")));
        check("smb://127.0.0.1:1445/data/", Some(("127.0.0.1:1445", "data", "")));
        check("smb://nas/data/a/b c/", Some(("nas", "data", "a/b c")));
        check(
            "smb://[::1]:445/d\u{e9}p\u{f4}t",
            Some(("[::1]:445", "d\u{e9}p\u{f4}t", "")),
        );
        check("smb://nas", Some(("nas", "", "")));
        check(
            "smb://nas/with%20space/%C5%BDlu%C5%A5/a%23b",
            Some(("nas", "with space", "\u{17d}lu\u{165}/a#b")),
        );
    }

    #[test]
    fn an_ambiguous_url_is_refused() {
        for url in [
            "",
            "smb://",
            "smb:///data",
            "http://nas/data",
            "//nas/data",
            "smb://user@nas/data",
            "smb://user:secret@nas/data",
            "smb://nas:0/data",
            "smb://nas:/data",
            "smb://nas\\data",
            "smb://nas/data\\..\\other",
            "smb://nas/data/../other",
            "smb://nas/data//a",
            "smb://nas/data/./a",
            "smb://nas/data?user=a",
            "smb://nas/data#a",
            "smb://nas/da%7",
            "smb://nas/da%FFa",
            "smb://nas/da%2Fa",
            "smb://nas/data/%2e%2e/other",
            "smb://nas/data/a%3astream",
            "smb://nas/data/a:stream",
            "smb://nas/data/\0",
            "smb://n\u{e4}s/data",
        ] {
            check(url, None);
        }
    }

    #[test]
    fn a_target_has_the_path_of_the_url_and_the_usual_port() {
        let target = SmbTarget::open("smb://127.0.0.1/a/x", vec![], Options::default(), None, None);
        let target = target.expect("loopback needs no consent");
        assert_eq!(target.options().base_path, "x");
        assert_eq!(target.address().port(), SMB_PORT);
    }

    #[test]
    fn a_target_needs_a_share_with_a_plain_name() {
        for (url, shares) in [
            ("smb://127.0.0.1", vec![]),
            ("smb://127.0.0.1/a", vec!["b".to_owned(), String::new()]),
            ("smb://127.0.0.1/a", vec!["b/c".to_owned()]),
        ] {
            let opened = SmbTarget::open(url, shares, Options::default(), None, None);
            assert!(matches!(opened, Err(TargetError::Url(_))), "{url}");
        }
    }

    #[test]
    fn a_file_that_is_not_a_network_namespace_is_refused() {
        let opened = SmbTarget::open(
            "smb://127.0.0.1/a",
            vec![],
            Options::default(),
            Some(Path::new("/dev/null")),
            None,
        );
        assert!(matches!(opened, Err(TargetError::Io(_))));
    }
}
