//! HTTP as a kind of work: document sections and target. `web/` performs it.

use crate::kind::{Material, OpenError, Secrets, Sections, Target, Work};
use crate::level::Level;
use crate::problems::{Problems, CONTRADICTS};
use crate::web::{Stated, StepSection, Targets, Tls, WebClientOptions, WebWork, WebWorkload};
use base64::prelude::{Engine, BASE64_STANDARD};
use dyno_http::h2::BY_ALPN;
use dyno_http::{one_cookie, Answer, ConnectTo, Limits, Opening, ProxyProtocol, Shape, Trusting, Version};
use dyno_measure::Failure;
use dyno_net::tls::{key_log_problem, ClientOptions, TlsClient, Version as TlsVersion, Versions};
use dyno_workload::Shares;
use serde::Deserialize;
use serde_json::{json, Value};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetSection {
    url: String,
    /// URL of the same server over TLS, in addition to a target without TLS.
    secure_url: Option<String>,
    trust: Trusting,
    /// IP address or Unix socket to connect to instead of the URL's host.
    connect_to: Option<String>,
    /// PROXY protocol header that each connection sends first.
    proxy_protocol: Option<ProxyProtocol>,
    /// Version for load and for the consent request.
    version: VersionName,
}

impl TargetSection {
    fn connect_to(&self, problems: &mut Problems) -> Option<ConnectTo> {
        let place = self.connect_to.as_deref()?;
        problems.unless(
            self.secure_url.is_none(),
            "target.connect_to",
            "applies to a single URL, so it can't be used with secure_url",
        );
        if place.starts_with('/') {
            return Some(ConnectTo::Unix(place.into()));
        }
        let address = place.parse().ok();
        problems.unless(
            address.is_some(),
            "target.connect_to",
            "must be an IP address or the absolute path of a socket",
        );
        address.map(ConnectTo::Address)
    }
}

#[derive(Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
enum WorkloadSection {
    WebbenchStatic {},
    /// Shares of all requests, except that `dynamic_share_of_secure` is a share of the requests over TLS.
    WebbenchDynamic {
        dynamic_share: f64,
        secure_share: f64,
        dynamic_share_of_secure: f64,
    },
    Url {
        /// Paths with weights. Empty: the target URL's path.
        paths: Vec<(String, u32)>,
    },
    /// Consecutive requests of a user.
    Session {
        steps: Vec<StepSection>,
    },
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsSection {
    min_version: TlsVersion,
    max_version: TlsVersion,
    ciphers: Vec<String>,
    resumption: f64,
}

/// Properties of all requests, and the criteria for a correct answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSection {
    method: String,
    headers: Vec<(String, String)>,
    /// Request body in Base64.
    body: Option<String>,
    status: Vec<u16>,
    bytes: Option<u64>,
}

impl RequestSection {
    /// Returns whether the section sets only headers.
    fn has_fields_alone(&self) -> bool {
        self.method == "GET" && self.body.is_none() && self.status.is_empty() && self.bytes.is_none()
    }
}

#[derive(Deserialize)]
enum VersionName {
    #[serde(rename = "1.0")]
    Http10,
    #[serde(rename = "1.1")]
    Http11,
    #[serde(rename = "2")]
    Http2,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Close {
    Ordinary,
    Reset,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientSection {
    version: VersionName,
    /// HTTP/2: threads per client on one connection.
    streams: usize,
    /// HTTP/1.1: threads per client that pipeline on one connection. None: 1.
    pipeline: Option<usize>,
    keep_alive: bool,
    close: Close,
    receive_buffer_bytes: usize,
    max_head_bytes: usize,
    max_head_fields: usize,
    /// Whether each connection uses a new socket. For benchmarks.
    #[serde(default)]
    fresh_sockets: bool,
    tls: TlsSection,
    request: Option<RequestSection>,
}

impl ClientSection {
    fn options(&self, streams: Option<usize>) -> WebClientOptions {
        WebClientOptions {
            version: match self.version {
                VersionName::Http10 => Version::Http10,
                VersionName::Http11 | VersionName::Http2 => Version::Http11,
            },
            streams,
            pipeline: self.pipeline,
            keep_alive: self.keep_alive,
            reset: matches!(self.close, Close::Reset),
            fresh_sockets: self.fresh_sockets,
            receive_buffer_bytes: self.receive_buffer_bytes,
            limits: Limits {
                head_bytes: self.max_head_bytes,
                fields: self.max_head_fields,
                ..Limits::default()
            },
        }
    }

    fn check_pipeline(&self, workload: &WebWorkload, problems: &mut Problems) {
        let Some(requests) = self.pipeline else { return };
        problems.unless(
            matches!(self.version, VersionName::Http11)
                && self.keep_alive
                && matches!(self.close, Close::Ordinary),
            "client.pipeline",
            CONTRADICTS,
        );
        problems.unless(
            !matches!(workload, WebWorkload::Session(_)) && !workload.is_split(),
            "client.pipeline",
            CONTRADICTS,
        );
        problems.bounded((1..=MOST_STREAMS).contains(&requests), "client.pipeline");
    }

    /// Returns the number of threads that share an HTTP/2 connection, or None for HTTP/1.
    fn streams_of_http2(&self, problems: &mut Problems) -> Option<usize> {
        if !matches!(self.version, VersionName::Http2) {
            return None;
        }
        problems.unless(
            self.keep_alive && matches!(self.close, Close::Ordinary),
            "client.version",
            CONTRADICTS,
        );
        problems.bounded((1..=MOST_STREAMS).contains(&self.streams), "client.streams");
        Some(self.streams.max(1))
    }
}

impl WorkloadSection {
    fn checked(self, client: &ClientSection, problems: &mut Problems) -> Option<WebWorkload> {
        Some(match self {
            Self::WebbenchStatic {} => WebWorkload::WebbenchStatic,
            Self::WebbenchDynamic {
                dynamic_share,
                secure_share,
                dynamic_share_of_secure,
            } => {
                let shares = Shares::new(dynamic_share, secure_share, dynamic_share_of_secure);
                problems.bounded(shares.is_some(), "workload");
                WebWorkload::WebbenchDynamic(shares?)
            }
            Self::Url { paths } if paths.is_empty() => WebWorkload::Url,
            Self::Url { paths } => {
                check_paths(&paths, problems);
                WebWorkload::Urls(paths)
            }
            Self::Session { steps } => {
                let of_steps = client
                    .request
                    .as_ref()
                    .is_none_or(RequestSection::has_fields_alone);
                problems.unless(of_steps, "client.request", CONTRADICTS);
                WebWorkload::Session(steps.into())
            }
        })
    }
}

pub(super) fn open(section: &Value, secrets: &Secrets) -> Result<Box<dyn Target>, OpenError> {
    let mut problems = Problems::default();
    let section: Option<TargetSection> = problems.section("target", section);
    let connect_to = section
        .as_ref()
        .and_then(|section| section.connect_to(&mut problems));
    let section = problems.none_or(section).map_err(OpenError::Section)?;
    let opening = Opening {
        trusting: section.trust,
        connect_to,
        proxy_protocol: section.proxy_protocol,
        identity: secrets.identity.clone(),
        http2: matches!(section.version, VersionName::Http2),
    };
    let open = |url: &str| {
        dyno_http::Target::open(url, secrets.before_load.clone(), &opening).map_err(OpenError::Target)
    };
    let target = open(&section.url)?;
    let secure = section.secure_url.as_deref().map(open).transpose()?;
    let speaks = |target: &dyno_http::Target| target.trust().is_some();
    if secure
        .as_ref()
        .is_some_and(|secure| speaks(&target) || !speaks(secure))
    {
        let mut problems = Problems::default();
        problems.unless(
            false,
            "target.secure_url",
            "must be an https:// URL, and target.url an http:// URL",
        );
        return Err(OpenError::Section(problems));
    }
    Ok(Box::new(HttpTarget { target, secure }))
}

#[derive(Debug)]
struct HttpTarget {
    target: dyno_http::Target,
    secure: Option<dyno_http::Target>,
}

impl HttpTarget {
    /// Returns the clients' TLS options. Returns None without TLS or after an error. `protocol`: the protocol
    /// that ALPN must select.
    fn tls(
        target: &dyno_http::Target,
        section: TlsSection,
        protocol: Option<&[u8]>,
        problems: &mut Problems,
    ) -> Option<Tls> {
        problems.bounded((0.0..=1.0).contains(&section.resumption), "client.tls.resumption");
        let versions = Versions {
            least: section.min_version,
            most: section.max_version,
        };
        problems.unless(
            versions.least <= versions.most,
            "client.tls.min_version",
            CONTRADICTS,
        );
        let trust = target.trust()?.clone();
        if let Some(why) = key_log_problem() {
            problems.unless(false, "client.tls", &why);
        }
        let client = TlsClient::new(&ClientOptions {
            versions,
            ciphers: section.ciphers,
            application_protocols: protocol.into_iter().map(<[u8]>::to_vec).collect(),
            trust,
            server_name: target.server_name().to_owned(),
            identity: target.identity().cloned(),
        });
        if let Err(why) = &client {
            problems.unless(versions.least > versions.most, "client.tls", why);
        }
        Some(Tls {
            client: client.ok()?,
            resumption: section.resumption,
        })
    }
}

impl Target for HttpTarget {
    fn address(&self) -> String {
        self.target.peer().to_string()
    }

    fn is_loopback(&self) -> bool {
        self.target.is_loopback() && self.secure.as_ref().is_none_or(dyno_http::Target::is_loopback)
    }

    fn facts(&self) -> Value {
        json!({"host": self.target.host(), "path": self.target.path()})
    }

    fn get(&self, path: &str, deadline_ns: u64, most_bytes: usize) -> Option<Result<Answer, Failure>> {
        Some(self.target.get(path, deadline_ns, most_bytes))
    }

    fn connect(&self, deadline_ns: u64) -> Result<(), Failure> {
        self.target.connect(deadline_ns)
    }

    fn advice_on(&self, failure: &Failure, _has_answered: bool) -> Option<&'static str> {
        dyno_http::advice(failure, &self.target.circumstances(None, false))
    }

    fn prepare(
        &self,
        _level: &Arc<Level>,
        sections: Sections<'_>,
        _material: &Material,
        problems: &mut Problems,
    ) -> Option<Arc<dyn Work>> {
        let workload: Option<WorkloadSection> = problems.section("workload", sections.workload);
        let client: Option<ClientSection> = problems.section("client", sections.client);
        let (workload, client) = (workload?, client?);
        problems.bounded(
            (256..=16 * 1024 * 1024).contains(&client.receive_buffer_bytes),
            "client.receive_buffer_bytes",
        );
        problems.bounded(
            (1024..=MOST_HEAD_BYTES).contains(&client.max_head_bytes),
            "client.max_head_bytes",
        );
        problems.bounded(
            (100..=MOST_HEAD_FIELDS).contains(&client.max_head_fields),
            "client.max_head_fields",
        );
        let workload = workload.checked(&client, problems)?;
        let streams = client.streams_of_http2(problems);
        client.check_pipeline(&workload, problems);
        let options = client.options(streams);
        problems.unless(
            !workload.is_split() || self.secure.is_some(),
            "target.secure_url",
            "is missing, but part of the requests use TLS",
        );
        let protocol = streams.is_some().then_some(BY_ALPN);
        let secure = self.secure.as_ref().filter(|_| workload.is_split());
        let secure = secure.and_then(|target| {
            let tls = Self::tls(target, client.tls.clone(), protocol, problems)?;
            Some((target.clone(), tls))
        });
        let tls = Self::tls(&self.target, client.tls, protocol, problems);
        let (shape, stated) = requests(client.request, problems);
        let targets = Targets {
            target: self.target.clone(),
            tls,
            secure,
        };
        match WebWork::new(targets, workload, options, &shape, stated) {
            Ok(work) => Some(Arc::new(work)),
            Err(wrong) => {
                wrong
                    .iter()
                    .for_each(|problem| problems.unless(false, "workload.steps", problem));
                None
            }
        }
    }
}

const MOST_HEAD_BYTES: usize = 16 << 20;
const MOST_HEAD_FIELDS: usize = 100_000;
/// Maximum streams per connection.
const MOST_STREAMS: usize = 10_000;

/// Maximum number of paths. Each is a class of operations, and the sums of their weights have 32 bits.
const MOST_PATHS: usize = 250;

fn check_paths(paths: &[(String, u32)], problems: &mut Problems) {
    let all: u64 = paths.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let few = paths.len() <= MOST_PATHS;
    problems.bounded(few && (1..=u64::from(u32::MAX)).contains(&all), "workload.paths");
    let plain = |path: &String| {
        path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
    };
    problems.bounded(paths.iter().all(|(path, _)| plain(path)), "workload.paths");
}

/// Returns the shape of requests and the user's criteria for an answer, if any.
fn requests(section: Option<RequestSection>, problems: &mut Problems) -> (Shape, Option<Stated>) {
    let Some(section) = section else {
        return (Shape::default(), None);
    };
    let body = section.body.map(|body| BASE64_STANDARD.decode(body));
    problems.unless(
        !matches!(body, Some(Err(_))),
        "client.request.body",
        "is not valid Base64",
    );
    let shape = Shape {
        method: section.method,
        fields: one_cookie(section.headers),
        body: body.and_then(Result::ok),
    };
    for problem in shape.problems() {
        problems.unless(false, "client.request", &problem);
    }
    let stated = Stated {
        status: section.status,
        bytes: section.bytes,
    };
    let says = !stated.status.is_empty() || stated.bytes.is_some() || shape != Shape::default();
    (shape, says.then_some(stated))
}
