//! Executes a request: determines its operation, then answers or refuses it.

use super::answer::Answer;
use super::fault::Kind;
use super::host::{Host, Operation};
use super::payload::checked;
use super::refusal::{Code, Refusal};
use super::request::{Method, Request};
use super::signature::{verify, SigningKey, Verified};
use super::store::Bucket;
use super::xml::Writer;
use crate::common::Share;
use std::time::{SystemTime, UNIX_EPOCH};

/// Parameters that select features that this server lacks.
const MISSING_FEATURES: [&str; 26] = [
    "accelerate",
    "acl",
    "analytics",
    "attributes",
    "cors",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "tagging",
    "torrent",
    "website",
];

/// A request for a bucket or an object.
pub(super) struct Call<'a> {
    pub(super) host: &'a Host,
    pub(super) request: &'a Request,
    pub(super) share: &'a Share<Bucket>,
    pub(super) bucket: &'a str,
    pub(super) key: &'a [u8],
}

/// The result of a request: its kind, for the counters, and the answer.
pub(super) struct Done {
    pub(super) operation: Operation,
    pub(super) answer: Answer,
    /// Whether a fault may damage the answer.
    pub(super) may_strike: bool,
}

fn kind_of(request: &Request, bucket: &str, key: &[u8]) -> Operation {
    let has = |name: &str| request.parameter(name).is_some();
    if bucket.is_empty() {
        return Operation::OfBuckets;
    }
    match (request.method, key.is_empty()) {
        (Method::Get, true) if has("uploads") => Operation::ListMultipartUploads,
        (Method::Get, true) if has("location") || has("versioning") => Operation::OfBuckets,
        (Method::Get, true) => Operation::ListObjects,
        (Method::Post, true) if has("delete") => Operation::DeleteObjects,
        (Method::Head | Method::Put | Method::Delete, true) => Operation::OfBuckets,
        (Method::Put, false) if has("partNumber") || has("uploadId") => Operation::UploadPart,
        (Method::Put, false) if request.field("x-amz-copy-source").is_some() => Operation::CopyObject,
        (Method::Put, false) => Operation::PutObject,
        (Method::Get, false) if has("uploadId") => Operation::ListParts,
        (Method::Get, false) => Operation::GetObject,
        (Method::Head, false) => Operation::HeadObject,
        (Method::Delete, false) if has("uploadId") => Operation::AbortMultipartUpload,
        (Method::Delete, false) => Operation::DeleteObject,
        (Method::Post, false) if has("uploads") => Operation::CreateMultipartUpload,
        (Method::Post, false) if has("uploadId") => Operation::CompleteMultipartUpload,
        (Method::Post, _) => Operation::Other,
    }
}

/// Answers a request with its whole body.
pub(super) fn carry_out(host: &Host, request: &Request, body: Vec<u8>, key: &SigningKey) -> Done {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let options = &host.options;
    let place = request.place(|name| host.bucket(name).is_some());
    let operation = match &place {
        Ok((bucket, key)) => kind_of(request, bucket, key),
        Err(_) => Operation::Other,
    };
    let may_strike = matches!(&place, Ok((_, key)) if !key.is_empty() && !host.is_initial(key))
        || matches!(operation, Operation::ListObjects | Operation::DeleteObjects);
    let answered = place.and_then(|(bucket, object)| {
        let verified = verify(request, options.access_key.as_ref(), &options.region, key, now_s)?;
        if may_strike && host.strikes.strikes(Kind::SlowDown) {
            return Err(Code::SlowDown.into());
        }
        if may_strike && host.strikes.strikes(Kind::Status500) {
            return Err(Code::InternalError.into());
        }
        if operation == Operation::OfBuckets && bucket.is_empty() {
            return Ok(list_buckets(host));
        }
        let share = host
            .bucket(&bucket)
            .ok_or_else(|| Refusal::from(Code::NoSuchBucket).with("BucketName", &*bucket))?;
        let call = Call {
            host,
            request,
            share,
            bucket: &bucket,
            key: &object,
        };
        call.answer(operation, verified, body)
    });
    let mut answer = answered.unwrap_or_else(|refusal| {
        let path = String::from_utf8_lossy(&request.path).into_owned();
        refusal.answer(&path, host.request_id())
    });
    if request.method == Method::Head {
        answer.body.clear();
    }
    Done {
        operation,
        answer,
        may_strike,
    }
}

impl Call<'_> {
    fn answer(&self, operation: Operation, verified: Verified, body: Vec<u8>) -> Result<Answer, Refusal> {
        let query = &self.request.query;
        let is_missing = |name: &[u8]| MISSING_FEATURES.iter().any(|feature| feature.as_bytes() == name);
        if let Some((name, _)) = query.iter().find(|(name, _)| is_missing(name)) {
            let name = String::from_utf8_lossy(name);
            return Err(Refusal::saying(
                Code::NotImplemented,
                format!("This server has no {name}."),
            ));
        }
        let stored = || checked(self.request, verified, body);
        match operation {
            Operation::PutObject => self.put(stored()?),
            Operation::GetObject => self.get(),
            Operation::HeadObject => self.head(),
            Operation::DeleteObject => self.delete(),
            Operation::CopyObject => self.copy(),
            Operation::ListObjects => self.list(),
            Operation::DeleteObjects => self.delete_many(&stored()?.content),
            Operation::CreateMultipartUpload => self.create_upload(),
            Operation::UploadPart => self.put_part(stored()?),
            Operation::CompleteMultipartUpload => self.complete_upload(&stored()?.content),
            Operation::AbortMultipartUpload => self.abort_upload(),
            Operation::ListMultipartUploads => self.list_uploads(),
            Operation::ListParts => self.list_parts(),
            Operation::OfBuckets => self.of_bucket(),
            Operation::Other => Err(Code::MethodNotAllowed.into()),
        }
    }

    fn of_bucket(&self) -> Result<Answer, Refusal> {
        match self.request.method {
            Method::Get if self.request.parameter("versioning").is_some() => {
                Ok(Answer::xml(Writer::new("VersioningConfiguration").finish()))
            }
            Method::Get => {
                let mut xml = Writer::new("LocationConstraint");
                // For us-east-1, S3 omits the region.
                if self.host.options.region != "us-east-1" {
                    xml.escaped(&self.host.options.region);
                }
                Ok(Answer::xml(xml.finish()))
            }
            Method::Head => {
                let mut answer = Answer::new(200);
                answer.field("x-amz-bucket-region", &self.host.options.region);
                Ok(answer)
            }
            Method::Put => Err(Code::BucketAlreadyOwnedByYou.into()),
            _ => Err(Refusal::saying(
                Code::NotImplemented,
                "The buckets of this server are fixed.",
            )),
        }
    }
}

fn list_buckets(host: &Host) -> Answer {
    let mut xml = Writer::new("ListAllMyBucketsResult");
    xml.open("Owner");
    xml.text("ID", "serverdyno");
    xml.close();
    xml.open("Buckets");
    for name in host.bucket_names() {
        xml.open("Bucket");
        xml.text("Name", name);
        xml.text("CreationDate", &super::date::extended(host.started));
        xml.close();
    }
    Answer::xml(xml.finish())
}
