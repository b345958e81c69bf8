//! Documents over HTTP as a kind of work: its sections of the document, and its target. The work itself is in `web/`.

use crate::kind::{Answer, Kind, Material, OpenError, Secrets, Sections, Target, Work};
use crate::mix::Mix;
use crate::problems::Problems;
use crate::web::{WebClientOptions, WebWork, WebWorkload};
use dyno_http::Version;
use dyno_measure::Failure;
use serde::Deserialize;
use serde_json::{json, Value};
use std::sync::Arc;

/// Its line in the table of kinds.
pub(crate) struct Http;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetSection {
    url: String,
}

#[derive(Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
enum WorkloadSection {
    WebbenchStatic {},
    Url {},
}

#[derive(Deserialize)]
enum VersionName {
    #[serde(rename = "1.0")]
    Http10,
    #[serde(rename = "1.1")]
    Http11,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Close {
    Ordinary,
    Reset,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ClientSection {
    version: VersionName,
    keep_alive: bool,
    close: Close,
    receive_buffer_bytes: usize,
    fresh_sockets: bool,
}

impl Default for ClientSection {
    fn default() -> Self {
        Self {
            version: VersionName::Http11,
            keep_alive: true,
            close: Close::Ordinary,
            receive_buffer_bytes: 65_536,
            fresh_sockets: false,
        }
    }
}

impl Kind for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn open(&self, section: &Value, secrets: &Secrets) -> Result<Box<dyn Target>, OpenError> {
        let mut problems = Problems::default();
        let section: Option<TargetSection> = problems.section("target", section);
        let section = problems.none_or(section).map_err(OpenError::Section)?;
        let token = secrets.consent_token.as_deref();
        let target = dyno_http::Target::open(&section.url, token).map_err(OpenError::Target)?;
        Ok(Box::new(HttpTarget(target)))
    }
}

#[derive(Debug)]
struct HttpTarget(dyno_http::Target);

impl Target for HttpTarget {
    fn address(&self) -> String {
        self.0.address().to_string()
    }

    fn is_loopback(&self) -> bool {
        self.0.is_loopback()
    }

    fn facts(&self) -> Value {
        json!({"host": self.0.host(), "path": self.0.path()})
    }

    fn get(&self, path: &str, deadline_ns: u64, most_bytes: usize) -> Option<Result<Answer, Failure>> {
        let answer = self.0.get(path, deadline_ns, most_bytes);
        Some(answer.map(|answer| Answer {
            status: answer.status,
            server: answer.server,
            body: answer.body,
            whole: answer.whole,
        }))
    }

    fn prepare(
        &self,
        _mix: &Arc<Mix>,
        sections: Sections<'_>,
        _material: &Material,
        problems: &mut Problems,
    ) -> Option<Arc<dyn Work>> {
        let workload = problems.section("workload", sections.workload);
        let client: Option<ClientSection> = problems.section("client", sections.client);
        let (workload, client) = (workload?, client?);
        problems.unless(
            (256..=16 * 1024 * 1024).contains(&client.receive_buffer_bytes),
            "client.receive_buffer_bytes",
            "must lie between 256 and 16 MiB",
        );
        let workload = match workload {
            WorkloadSection::WebbenchStatic {} => WebWorkload::WebbenchStatic,
            WorkloadSection::Url {} => WebWorkload::Url,
        };
        let options = WebClientOptions {
            version: match client.version {
                VersionName::Http10 => Version::Http10,
                VersionName::Http11 => Version::Http11,
            },
            keep_alive: client.keep_alive,
            reset: matches!(client.close, Close::Reset),
            fresh_sockets: client.fresh_sockets,
            receive_buffer_bytes: client.receive_buffer_bytes,
        };
        Some(Arc::new(WebWork::new(self.0.clone(), workload, options)))
    }
}
