//! State shared by the threads of a server: options, buckets and counters.

use super::checksum::Algorithm;
use super::misbehaviour::Strikes;
use super::options::{Flush, Options};
use super::store::{Bucket, Content, Held, Object};
use crate::common::{random, Share};
use crate::counts::Counts;
use crate::pages::Space;
use dyno_measure::named_enum;
use dyno_net::tls::TlsServer;
use md5::{Digest, Md5};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::SystemTime;

named_enum! {
    /// Kinds of requests, with their names in S3.
    pub(super) enum Operation {
        PutObject "PutObject"
        GetObject "GetObject"
        HeadObject "HeadObject"
        DeleteObject "DeleteObject"
        CopyObject "CopyObject"
        ListObjects "ListObjects"
        DeleteObjects "DeleteObjects"
        CreateMultipartUpload "CreateMultipartUpload"
        UploadPart "UploadPart"
        CompleteMultipartUpload "CompleteMultipartUpload"
        AbortMultipartUpload "AbortMultipartUpload"
        ListMultipartUploads "ListMultipartUploads"
        ListParts "ListParts"
        OfBuckets "OfBuckets"
        Other "Other"
    }
}

#[derive(Debug)]
pub struct Host {
    pub(super) options: Options,
    buckets: Vec<Share<Bucket>>,
    pub(super) space: Arc<Space>,
    pub(super) tls: Option<TlsServer>,
    pub(super) strikes: Strikes,
    pub(super) counts: Counts<{ Operation::ALL.len() }>,
    next_request: AtomicU64,
    next_upload: AtomicU64,
    pub(super) started: SystemTime,
}

impl Host {
    pub(super) fn new(options: &Options) -> io::Result<Self> {
        let refused = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let host = Self {
            options: options.clone(),
            buckets: options
                .buckets
                .iter()
                .map(|name| Share::new(name, Bucket::default()))
                .collect(),
            space: Arc::new(Space::new(options.capacity_bytes)),
            tls: options
                .tls
                .as_ref()
                .map(|tls| tls.server(false))
                .transpose()
                .map_err(refused)?,
            strikes: Strikes::new(options.fault),
            counts: Counts::new(options.threads),
            next_request: AtomicU64::new(u64::from_ne_bytes(random()) >> 8),
            next_upload: AtomicU64::new(u64::from_ne_bytes(random()) >> 8),
            started: SystemTime::now(),
        };
        for bucket in &host.buckets {
            for (key, content) in &options.objects {
                let held = Held::take(&host.space, content.len() as u64);
                let held =
                    held.ok_or_else(|| refused("the initial objects exceed the capacity".to_owned()))?;
                let object = Object {
                    etag: super::signature::hex(&Md5::digest(content)),
                    checksum: Some((Algorithm::Crc64Nvme, Algorithm::Crc64Nvme.of(content))),
                    content: Content::new(content.clone(), held),
                    modified: host.started,
                    fields: Vec::new(),
                    before: None,
                };
                bucket
                    .lock()
                    .objects
                    .insert(key.clone().into_bytes(), Arc::new(object));
            }
        }
        Ok(host)
    }

    pub(super) fn bucket(&self, name: &str) -> Option<&Share<Bucket>> {
        self.buckets.iter().find(|bucket| bucket.name == name)
    }

    pub(super) fn bucket_names(&self) -> impl Iterator<Item = &str> {
        self.buckets.iter().map(|bucket| bucket.name.as_str())
    }

    /// Returns whether `key` is one of the initial objects, which faults never affect.
    pub(super) fn is_initial(&self, key: &[u8]) -> bool {
        self.options
            .objects
            .iter()
            .any(|(name, _)| name.as_bytes() == key)
    }

    /// Discards the objects and uploads that a restart loses. Returns the number of objects.
    pub(super) fn lose(&self) -> u64 {
        if self.options.flush == Flush::Honour {
            return 0;
        }
        let mut lost = 0;
        for bucket in &self.buckets {
            let mut bucket = bucket.lock();
            let before = bucket.objects.len();
            bucket.objects.retain(|key, _| self.is_initial(key));
            bucket.uploads.clear();
            lost += (before - bucket.objects.len()) as u64;
        }
        lost
    }

    pub(super) fn request_id(&self) -> u64 {
        self.next_request.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn upload_id(&self) -> String {
        format!("{:016x}", self.next_upload.fetch_add(1, Ordering::Relaxed))
    }
}
