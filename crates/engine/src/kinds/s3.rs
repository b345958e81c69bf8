//! S3 as a kind of work: document sections and target. `objects/` performs it.

use crate::kind::{later_silence, Look, Material, OpenError, Secrets, Sections, Target, Work};
use crate::level::Level;
use crate::objects::{ObjectsClientOptions, ObjectsWork, SharedObjectsWork};
use crate::problems::Problems;
use crate::workspaces::Workspaces;
use dyno_http::Trusting;
use dyno_measure::Failure;
use dyno_s3::{Addressing, Checksum, Credentials, Payload, S3Options, S3Target};
use dyno_workload::{ObjectSize, ObjectsOptions, OBJECT_KINDS};
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// S3's limits: the maximum size of an object, and the minimum size of a part other than the last.
const MOST_OBJECT_BYTES: u64 = 5 << 40;
const LEAST_PART_BYTES: u64 = 5 << 20;
/// S3's limits for one PUT and for the number of parts.
const MOST_PUT_BYTES: u64 = 5 << 30;
const MOST_PARTS: u64 = 10_000;
const MOST_PARTS_IN_FLIGHT: usize = 64;
/// Maximum number of objects per client thread, because their ledger is kept in memory.
const MOST_OBJECTS: u32 = 1_000_000;
const MOST_LISTED_SIZES: usize = 1000;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChecksumName {
    None,
    Crc32,
    Crc32c,
    Crc64nvme,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetSection {
    url: String,
    region: String,
    addressing: Addressing,
    payload: Payload,
    checksum: ChecksumName,
    /// Accepted certificates for an `s3s` URL.
    trust: Trusting,
}

impl TargetSection {
    fn options(self, secrets: &Secrets) -> S3Options {
        S3Options {
            region: self.region,
            addressing: self.addressing,
            payload: self.payload,
            checksum: match self.checksum {
                ChecksumName::None => None,
                ChecksumName::Crc32 => Some(Checksum::Crc32),
                ChecksumName::Crc32c => Some(Checksum::Crc32c),
                ChecksumName::Crc64nvme => Some(Checksum::Crc64Nvme),
            },
            trusting: self.trust,
            credentials: secrets
                .access_key
                .clone()
                .map(|(key_id, secret, session_token)| Credentials {
                    key_id,
                    secret,
                    session_token,
                }),
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
enum WorkloadSection {
    Objects {
        weights: BTreeMap<String, u32>,
        size: ObjectSize,
        objects: u32,
        objects_per_prefix: u32,
        part_bytes: u64,
        parts_in_flight: usize,
        shared: bool,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientSection {
    receive_buffer_bytes: usize,
    /// Whether to keep the objects after the level.
    keep: bool,
}

fn check_size(size: &ObjectSize, problems: &mut Problems) {
    match size {
        ObjectSize::Fixed(_) => {}
        ObjectSize::Listed(sizes) => {
            let total: u64 = sizes.iter().map(|(_, weight)| u64::from(*weight)).sum();
            problems.bounded(
                (1..=MOST_LISTED_SIZES).contains(&sizes.len()) && (1..=u64::from(u32::MAX)).contains(&total),
                "workload.size.listed",
            );
        }
        ObjectSize::Lognormal {
            median_bytes,
            sigma,
            most_bytes,
        } => {
            problems.bounded(
                (0.0..=10.0).contains(sigma) && (1..=*most_bytes).contains(median_bytes),
                "workload.size.lognormal",
            );
        }
    }
}

fn weights(named: &BTreeMap<String, u32>, problems: &mut Problems) -> [u32; OBJECT_KINDS] {
    let names = ObjectsOptions::names();
    for name in named.keys().filter(|name| !names.contains(&name.as_str())) {
        problems.unless(
            false,
            "workload.weights",
            &format!("{name:?} is not an operation"),
        );
    }
    let weights = names.map(|name| named.get(name).copied().unwrap_or(0));
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    problems.bounded((1..=u64::from(u32::MAX)).contains(&total), "workload.weights");
    weights
}

impl WorkloadSection {
    /// Returns the workload, the part size, and the number of parts sent at the same time.
    fn checked(self, problems: &mut Problems) -> (ObjectsOptions, u64, usize) {
        let Self::Objects {
            weights: named,
            size,
            objects,
            objects_per_prefix,
            part_bytes,
            parts_in_flight,
            shared,
        } = self;
        check_size(&size, problems);
        let options = ObjectsOptions {
            weights: weights(&named, problems),
            size,
            objects,
            objects_per_prefix,
            shared,
        };
        problems.bounded((1..=MOST_OBJECTS).contains(&objects), "workload.objects");
        problems.bounded(objects_per_prefix > 0, "workload.objects_per_prefix");
        problems.bounded(
            (1..=MOST_PARTS_IN_FLIGHT).contains(&parts_in_flight),
            "workload.parts_in_flight",
        );
        let most = options.size.most_bytes();
        problems.bounded(most <= MOST_OBJECT_BYTES, "workload.size");
        problems.bounded(
            match part_bytes {
                0 => most <= MOST_PUT_BYTES,
                _ => {
                    (LEAST_PART_BYTES.min(most)..=MOST_PUT_BYTES).contains(&part_bytes)
                        && most.div_ceil(part_bytes) <= MOST_PARTS
                }
            },
            "workload.part_bytes",
        );
        // If all objects are smaller than a part, do not look for unfinished uploads at the end, because not
        // every access key may list them.
        let part_bytes = if most > part_bytes { part_bytes } else { 0 };
        (options, part_bytes, parts_in_flight)
    }
}

pub(super) fn open(section: &Value, secrets: &Secrets) -> Result<Box<dyn Target>, OpenError> {
    let mut problems = Problems::default();
    let section: Option<TargetSection> = problems.section("target", section);
    if let Some(section) = &section {
        let is_word = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        problems.bounded(is_word(&section.region), "target.region");
        problems.unless(
            section.payload != Payload::Chunked || !matches!(section.checksum, ChecksumName::None),
            "target.checksum",
            "must not be none if payload is chunked, because its chunks end with a checksum",
        );
    }
    if let Some((key_id, secret, token)) = &secrets.access_key {
        let sound = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic());
        let all = [key_id, secret].into_iter().chain(token);
        problems.unless(
            all.into_iter().all(sound) && !key_id.is_empty(),
            "access_key",
            "has blanks, control or non-ASCII characters, or no ID",
        );
    }
    let section = problems.none_or(section).map_err(OpenError::Section)?;
    let url = section.url.clone();
    let options = section.options(secrets);
    let target = S3Target::open(&url, &options, secrets.before_load.clone());
    Ok(Box::new(ObjectsTarget(target.map_err(OpenError::Target)?)))
}

#[derive(Debug)]
struct ObjectsTarget(S3Target);

impl Target for ObjectsTarget {
    fn address(&self) -> String {
        self.0.address().to_string()
    }

    fn is_loopback(&self) -> bool {
        self.0.is_loopback()
    }

    fn facts(&self) -> Value {
        let settings = self.0.settings();
        json!({"host": settings.host, "bucket": settings.bucket, "prefix": self.0.prefix()})
    }

    fn look(&self, _nonce: u64, _sessions: u32, timeout_ns: u64) -> Vec<Look> {
        let looked = self.0.look(Workspaces::DIRECTORY, timeout_ns);
        let failure = looked.as_ref().err();
        vec![Look {
            share: self.0.settings().bucket.clone(),
            free_bytes: None,
            is_used: looked.is_ok_and(|look| look.is_used),
            keeps_versions: looked.is_ok_and(|look| look.keeps_versions),
            recycle_bin: None,
            recycled_entries: 0,
            why: failure.map(Failure::to_string),
            fault: failure.map(|failure| failure.fault.name()),
            advice: failure
                .and_then(|failure| self.0.advice(failure))
                .map(str::to_owned),
        }]
    }

    fn advice_on(&self, failure: &Failure, has_answered: bool) -> Option<&'static str> {
        later_silence(failure, has_answered).or_else(|| self.0.advice(failure))
    }

    fn prepare(
        &self,
        level: &Arc<Level>,
        sections: Sections<'_>,
        material: &Material,
        problems: &mut Problems,
    ) -> Option<Arc<dyn Work>> {
        let workload: Option<WorkloadSection> = problems.section("workload", sections.workload);
        let client: Option<ClientSection> = problems.section("client", sections.client);
        let (workload, client) = (workload?, client?);
        problems.bounded(
            (256..=16 * 1024 * 1024).contains(&client.receive_buffer_bytes),
            "client.receive_buffer_bytes",
        );
        let (workload, part_bytes, parts_in_flight) = workload.checked(problems);
        let options = ObjectsClientOptions {
            part_bytes,
            parts_in_flight,
            receive_buffer_bytes: client.receive_buffer_bytes,
            // Other clients may still read shared objects, so they are removed after the last level.
            keep: client.keep || workload.shared,
        };
        if !problems.is_empty() {
            return None;
        }
        let workspaces = material.workspaces.clone();
        let work = ObjectsWork::new(level, self.0.clone(), workload, options, workspaces);
        Some(Arc::new(SharedObjectsWork(Arc::new(work))))
    }
}
