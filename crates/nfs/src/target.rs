//! Exports that may receive load. The engine accepts only an `NfsTarget`, and only `NfsTarget::open` creates one.
//!
//! A server on loopback belongs to the user and needs no consent unless there is a token. This includes the loopback of
//! another network namespace of this machine. Any other server must have a consent file in the root of each export. The
//! file's name contains the user's secret token. Only someone who knows the token can create its content
//! (`dyno_net::consent_document`). The checked address is the one used for load: name and ports are resolved once, and
//! a namespace stays open.
//!
//! Other code can neither construct nor change an `NfsTarget`:
//!
//! ```compile_fail,E0277
//! let target: dyno_nfs::NfsTarget = Default::default();
//! ```
//! ```compile_fail,E0616
//! let mut target = dyno_nfs::NfsTarget::open("nfs://127.0.0.1/a?nfsport=1&mountport=2", vec![], Default::default(), None, None).unwrap();
//! target.address = ([10, 0, 0, 1], 2049).into();
//! ```

use crate::advice::advice;
use crate::mount_options::{refusal, version_in};
use crate::session::{ask_ports, Options, Portmapped, Session, Version, NFS_PORT};
use crate::wire::Transport;
use dyno_files::{read_beginning, Postponed};
use dyno_measure::Failure;
use dyno_net::{is_loopback, is_plain_host, name_and_port, resolve, run_alone, unescaped};
use dyno_net::{BeforeLoad, Consent, Dialer, Document, Executor, Namespace, Pace, TargetError};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

const MAX_DOCUMENT_BYTES: u32 = 4096;
/// Client number of the session that checks the consent. No client of a load level has this number.
const ASKING_CLIENT: u64 = u64::MAX;

/// Exports of one server that may receive load.
#[derive(Debug, Clone)]
pub struct NfsTarget {
    address: SocketAddr,
    mount_address: SocketAddr,
    host: String,
    exports: Vec<String>,
    options: Options,
    namespace: Namespace,
    postponed: Arc<Postponed>,
    pace: Option<Pace>,
}

/// The parts of `nfs://host[:port]/export[?nfsport=..&mountport=..&uid=..&gid=..&vers=..&proto=..]`. Mount options
/// with the same meaning are also accepted: `port`, `nfsvers`, `v4.1`, `udp`.
#[derive(Debug, PartialEq, Eq, Default)]
struct Url<'a> {
    host: &'a str,
    /// Path of the export with its leading slash; may be `/`.
    path: String,
    nfs_port: Option<u16>,
    mount_port: Option<u16>,
    uid: Option<u32>,
    gid: Option<u32>,
    version: Option<Version>,
    transport: Option<Transport>,
}

impl NfsTarget {
    /// Resolves `url` (`nfs://host[:port]/export`), queries the portmapper for ports that are not given, and checks
    /// the server's consent. Consent is not needed on loopback if `asking` has no token. Clients are distributed over
    /// `exports`, or use the URL's path if `exports` is empty. The query part of the URL may have libnfs's parameters
    /// `nfsport`, `mountport`, `uid` and `gid`, and the mount options `vers` and `proto`. The server is in the given
    /// network namespace (file `/proc/PID/ns/net`), if any.
    pub fn open(
        url: &str,
        exports: Vec<String>,
        options: Options,
        network_namespace: Option<&Path>,
        asking: impl Into<BeforeLoad>,
    ) -> Result<Self, TargetError> {
        let parts = split_url(url)?;
        let exports = choose_exports(url, &parts.path, exports)?;
        let namespace = Namespace::open(network_namespace)?;
        let (host, nfs_port, mount_port) = (parts.host.to_owned(), parts.nfs_port, parts.mount_port);
        let mut options = options;
        options.credential.uid = parts.uid.unwrap_or(options.credential.uid);
        options.credential.gid = parts.gid.unwrap_or(options.credential.gid);
        options.version = parts.version.unwrap_or(options.version);
        options.transport = parts.transport.unwrap_or(options.transport);
        let (version, transport) = (options.version, options.transport);
        if version.is_four() && transport == Transport::Udp {
            return Err(TargetError::Url(format!(
                "{url:?}: NFSv4 does not run over UDP (RFC 8881, 2.9.1): use proto=tcp or vers=3"
            )));
        }
        let (within, asking) = (namespace.clone(), asking.into());
        namespace.within(move || {
            let (deadline_ns, token) = (asking.deadline_ns(), asking.token.as_deref());
            let address = resolve(&host, NFS_PORT, deadline_ns).map_err(TargetError::Io)?;
            let named = name_and_port(&host, 0).map(|(_, port)| port);
            let (nfs_port, mount_port) = match (nfs_port.or(named), mount_port) {
                // NFSv4 has a well-known port (RFC 8881, 2.9.3) and no MOUNT.
                (nfs_port, _) if version.is_four() => (nfs_port.unwrap_or(NFS_PORT), 0),
                (Some(nfs_port), Some(mount_port)) => (nfs_port, mount_port),
                (nfs_port, mount_port) => {
                    let server = SocketAddr::new(address.ip(), nfs_port.unwrap_or(NFS_PORT));
                    let pace = asking.pace(server);
                    let asked = run_alone(deadline_ns, |executor| {
                        let executor = executor.clone();
                        async move {
                            let executor = &executor;
                            let host = Portmapped {
                                executor,
                                pace,
                                server,
                                transport,
                            };
                            ask_ports(host).await
                        }
                    });
                    let found = asked.map_err(|failure| no_session(&host, &failure, &options))?;
                    (nfs_port.unwrap_or(found.0), mount_port.unwrap_or(found.1))
                }
            };
            let address = SocketAddr::new(address.ip(), nfs_port);
            let target = Self {
                address,
                pace: asking.pace(address),
                mount_address: SocketAddr::new(address.ip(), mount_port),
                host,
                exports,
                options,
                namespace: within,
                postponed: Arc::default(),
            };
            if token.is_some() || !target.is_loopback() {
                for export in &target.exports {
                    target.ask_consent(export, token, asking.next_deadline_ns(deadline_ns))?;
                }
            }
            Ok(target)
        })
    }

    /// Returns the checked address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn version(&self) -> Version {
        self.options.version
    }

    /// Returns the counts of answers that asked clients to wait.
    pub fn postponed(&self) -> &Arc<Postponed> {
        &self.postponed
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns whether sessions request delegations: the option is set, and the version supports them.
    pub fn delegates(&self) -> bool {
        self.options.delegations && self.options.version.is_four()
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

    pub fn exports(&self) -> &[String] {
        &self.exports
    }

    pub fn is_loopback(&self) -> bool {
        is_loopback(self.address.ip())
    }

    /// Moves the calling thread into the server's network namespace.
    ///
    /// # Errors
    /// The process lacks `CAP_SYS_ADMIN`, or the file is not a network namespace.
    pub fn enter(&self) -> Result<(), Errno> {
        self.namespace.enter()
    }

    /// Returns a session on `export` that is not connected yet. `client` must differ from the number of every
    /// other client of the server.
    pub fn session(&self, executor: &Executor, dialer: &Rc<Dialer>, export: &str, client: u64) -> Session {
        Session::new(
            executor.clone(),
            dialer.clone(),
            Rc::new(self.options.clone()),
            self.mount_address,
            export,
            client,
        )
        .counting_postponed(self.postponed.clone())
    }

    fn ask_consent(&self, export: &str, token: Option<&str>, deadline_ns: u64) -> Result<(), TargetError> {
        let place = format!("the root of the export {export}");
        let fetch = |name: &str| {
            let asked = name.to_owned();
            run_alone(deadline_ns, |executor| {
                let dialer = Dialer::new(executor.clone(), self.address, 0).paced(self.pace.clone());
                let dialer = Rc::new(dialer);
                let session = self.session(executor, &dialer, export, ASKING_CLIENT);
                async move { read_beginning(session, &asked, MAX_DOCUMENT_BYTES).await }
            })
        };
        Consent::ask(&self.host, token, Document::file(&place), fetch, |failure| {
            no_session(export, failure, &self.options)
        })
    }
}

fn no_session(place: &str, failure: &Failure, options: &Options) -> TargetError {
    TargetError::of_session(place, failure, advice(failure, options))
}

fn choose_exports(url: &str, path: &str, exports: Vec<String>) -> Result<Vec<String>, TargetError> {
    if exports.is_empty() {
        return Ok(vec![path.to_owned()]);
    }
    let is_export = |export: &String| export.starts_with('/') && !export.contains('\0');
    match exports.iter().all(is_export) {
        true => Ok(exports),
        false => Err(TargetError::Url(format!(
            "{url:?}: the path of an export begins with /"
        ))),
    }
}

/// Splits a URL into its parts; rejects an ambiguous URL.
fn split_url(url: &str) -> Result<Url<'_>, TargetError> {
    let refuse = |why: &str| TargetError::Url(format!("{url:?}: {why}"));
    let rest = url
        .strip_prefix("nfs://")
        .ok_or_else(|| refuse("the URL of an NFS server begins with nfs://"))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let end = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    if !is_plain_host(host) {
        return Err(refuse(
            "only host or host:port may stand between nfs:// and the path",
        ));
    }
    if path.contains('#') || path.chars().any(char::is_control) {
        return Err(refuse("the path can't have #: write %23 for #"));
    }
    let path = unescaped(path)
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| refuse("the path has a % escape that is not valid UTF-8; write % itself as %25"))?;
    let path = match path.strip_suffix('/') {
        Some("") | None if path.len() <= 1 => "/",
        Some(path) => path,
        None => &path,
    };
    if path[1..].split('/').any(|part| matches!(part, "." | ".."))
        || (path.len() > 1 && path[1..].split('/').any(str::is_empty))
    {
        return Err(refuse("the path has empty parts, or the parts . or .."));
    }
    let mut parts = Url {
        host,
        path: path.to_owned(),
        ..Url::default()
    };
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let taken = match name {
            "nfsport" | "port" => port(value).map(|port| parts.nfs_port = Some(port)),
            "mountport" => port(value).map(|port| parts.mount_port = Some(port)),
            "uid" => value.parse().ok().map(|uid| parts.uid = Some(uid)),
            "gid" => value.parse().ok().map(|gid| parts.gid = Some(gid)),
            "vers" | "version" | "nfsvers" => {
                Version::of_name(value).map(|version| parts.version = Some(version))
            }
            "proto" => Transport::of_name(value).map(|transport| parts.transport = Some(transport)),
            "tcp" | "udp" if parameter == name => {
                Transport::of_name(name).map(|transport| parts.transport = Some(transport))
            }
            _ if parameter == name => version_in(name).map(|version| parts.version = Some(version)),
            _ => None,
        };
        if taken.is_none() {
            return Err(refuse(&refusal(parameter)));
        }
    }
    Ok(parts)
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_into_host_export_and_parameters() {
        let check = |url: &str, host: &str, path: &str| {
            let parts = split_url(url).expect(url);
            assert_eq!((parts.host, parts.path.as_str()), (host, path), "{url}");
        };
        check("nfs://nas", "nas", "/");
        check("nfs://nas/", "nas", "/");
        check("nfs://nas:2050/a/b c/", "nas:2050", "/a/b c");
        check("nfs://[::1]:2049/a", "[::1]:2049", "/a");
        check("nfs://nas/my%20export/%C3%A9?vers=3", "nas", "/my export/\u{e9}");
        let parts = split_url("nfs://nas/a?nfsport=1&mountport=2&uid=3&gid=4&vers=4.1").expect("plain");
        let ports = (parts.nfs_port, parts.mount_port);
        assert_eq!(
            (ports, parts.uid, parts.gid),
            ((Some(1), Some(2)), Some(3), Some(4))
        );
        assert_eq!(parts.version, Some(Version::V4_1));
        for (query, version) in [
            ("vers=4", Version::V4_2),
            ("nfsvers=4", Version::V4_2),
            ("nfsvers=4.1", Version::V4_1),
            ("version=3", Version::V3),
            ("v4.2", Version::V4_2),
        ] {
            let url = format!("nfs://nas/a?{query}");
            assert_eq!(split_url(&url).expect("plain").version, Some(version), "{url}");
        }
        assert_eq!(
            split_url("nfs://nas/a?port=2050").expect("plain").nfs_port,
            Some(2050)
        );
        for query in ["proto=udp", "udp"] {
            let url = format!("nfs://nas/a?{query}");
            assert_eq!(
                split_url(&url).expect("plain").transport,
                Some(Transport::Udp),
                "{url}"
            );
        }
    }

    #[test]
    fn version_4_over_udp_is_refused_without_any_request() {
        for version in ["4.1", "4.2"] {
            let url = format!("nfs://127.0.0.1:1/a?vers={version}&proto=udp");
            let refused = NfsTarget::open(&url, vec![], Options::default(), None, None);
            assert!(
                matches!(refused, Err(TargetError::Url(why)) if why.contains("NFSv4 does not run over UDP"))
            );
        }
    }

    #[test]
    fn an_ambiguous_url_is_refused() {
        for url in [
            "",
            "nfs://",
            "nfs:///data",
            "smb://nas/data",
            "nas:/data",
            "nfs://user@nas/data",
            "nfs://nas:0/data",
            "nfs://nas/data/../other",
            "nfs://nas//data",
            "nfs://nas/da%7",
            "nfs://nas/da%FFa",
            "nfs://nas/data/%2e%2e/other",
            "nfs://nas/da%2Fa",
            "nfs://nas/data#a",
            "nfs://nas/data?mountport=0",
            "nfs://nas/data?vers=4.0",
            "nfs://nas/data?vers=v4",
            "nfs://nas/data?v4.1=1",
            "nfs://nas/data?udp=1",
            "nfs://nas/data?proto=rdma",
            "nfs://nas/data?debug=9",
            "nfs://nas/data\0",
        ] {
            assert!(matches!(split_url(url), Err(TargetError::Url(_))), "{url}");
        }
    }
}
