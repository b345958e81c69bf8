//! Multipart uploads: create them, upload and list parts, complete, abort, and list unfinished uploads.

use super::answer::Answer;
use super::date::extended;
use super::fault::Kind;
use super::objects::kept_fields;
use super::operations::Call;
use super::payload::Stored;
use super::refusal::{Code, Refusal};
use super::signature::hex;
use super::store::{Bucket, Content, Object, Part, Upload};
use super::xml::{records, Record, Writer};
use md5::{Digest, Md5};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::SystemTime;

const MOST_PARTS: u32 = 10_000;
/// Minimum size of each part but the last one: 5 MiB.
const LEAST_PART_BYTES: u64 = 5 << 20;

impl Call<'_> {
    fn upload_key(&self) -> (Vec<u8>, String) {
        let id = self.request.parameter("uploadId").unwrap_or_default();
        (self.key.to_vec(), String::from_utf8_lossy(id).into_owned())
    }

    pub(super) fn create_upload(&self) -> Result<Answer, Refusal> {
        let id = self.host.upload_id();
        let upload = Upload {
            key: self.key.to_vec(),
            fields: kept_fields(self.request),
            parts: BTreeMap::new(),
            begun: SystemTime::now(),
        };
        self.share
            .lock()
            .uploads
            .insert((self.key.to_vec(), id.clone()), upload);
        let mut xml = Writer::new("InitiateMultipartUploadResult");
        xml.text("Bucket", self.bucket);
        xml.text("Key", &String::from_utf8_lossy(self.key));
        xml.text("UploadId", &id);
        let mut answer = Answer::xml(xml.finish());
        if let Some(algorithm) = self.request.field("x-amz-checksum-algorithm") {
            answer.field("x-amz-checksum-algorithm", algorithm);
        }
        Ok(answer)
    }

    pub(super) fn put_part(&self, stored: Stored) -> Result<Answer, Refusal> {
        let number = self.request.number("partNumber", 1..=MOST_PARTS)?;
        let number = number.ok_or(Code::InvalidArgument)?;
        let is_copy = self.request.field("x-amz-copy-source").is_some();
        let content = if is_copy {
            self.copied()?
        } else {
            self.kept(stored.content)?
        };
        let mut md5 = Md5::new();
        content.pieces.iter().for_each(|piece| md5.update(piece));
        let md5: [u8; 16] = md5.finalize().into();
        let (etag, modified) = (hex(&md5), SystemTime::now());
        let part = Part {
            content,
            etag: etag.clone(),
            md5,
            modified,
        };
        let mut bucket = self.share.lock();
        let upload = bucket
            .uploads
            .get_mut(&self.upload_key())
            .ok_or(Code::NoSuchUpload)?;
        upload.parts.insert(number, part);
        drop(bucket);
        if is_copy {
            let mut xml = Writer::new("CopyPartResult");
            xml.text("LastModified", &extended(modified));
            xml.text("ETag", &format!("\"{etag}\""));
            return Ok(Answer::xml(xml.finish()));
        }
        let mut answer = Answer::new(200);
        answer.field("ETag", &format!("\"{etag}\""));
        if let Some((algorithm, value)) = stored.checksum {
            answer.field(algorithm.field(), &value);
        }
        Ok(answer)
    }

    /// Returns the content that a part copies: the whole source or a range of it.
    fn copied(&self) -> Result<Content, Refusal> {
        let source = self.source()?;
        let Some(value) = self.request.field("x-amz-copy-source-range") else {
            return Ok(source.content.clone());
        };
        let range = value
            .strip_prefix("bytes=")
            .and_then(|range| range.split_once('-'));
        let range =
            range.and_then(|(first, last)| Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?)));
        let (first, last) = range.ok_or(Code::InvalidArgument)?;
        if first > last || last >= source.content.length {
            return Err(Code::InvalidRange.into());
        }
        self.kept(source.content.slice(first..last + 1).concat())
    }

    pub(super) fn complete_upload(&self, document: &[u8]) -> Result<Answer, Refusal> {
        let wanted = records(document, "CompleteMultipartUpload", "Part").ok_or(Code::MalformedXML)?;
        let key = self.upload_key();
        let (object, etag) = {
            let bucket = self.share.lock();
            let upload = bucket.uploads.get(&key).ok_or(Code::NoSuchUpload)?;
            completed(upload, &wanted)?
        };
        if self.strikes(Kind::LateError) {
            return Ok(self.late_error());
        }
        let told = self.store(object)?;
        debug_assert!(told.len() == etag.len());
        self.share.lock().uploads.remove(&key);
        let mut xml = Writer::new("CompleteMultipartUploadResult");
        xml.text("Location", &String::from_utf8_lossy(&self.request.path));
        xml.text("Bucket", self.bucket);
        xml.text("Key", &String::from_utf8_lossy(self.key));
        xml.text("ETag", &format!("\"{told}\""));
        Ok(Answer::xml(xml.finish()))
    }

    pub(super) fn abort_upload(&self) -> Result<Answer, Refusal> {
        let removed = self.share.lock().uploads.remove(&self.upload_key());
        removed
            .map(|_| Answer::new(204))
            .ok_or_else(|| Code::NoSuchUpload.into())
    }

    pub(super) fn list_parts(&self) -> Result<Answer, Refusal> {
        let most = self.request.most_listed("max-parts")?;
        let after = self
            .request
            .number("part-number-marker", 0..=MOST_PARTS)?
            .unwrap_or(0);
        let bucket = self.share.lock();
        let upload = bucket.uploads.get(&self.upload_key()).ok_or(Code::NoSuchUpload)?;
        let mut xml = Writer::new("ListPartsResult");
        xml.text("Bucket", self.bucket);
        xml.text("Key", &String::from_utf8_lossy(self.key));
        xml.text("UploadId", &self.upload_key().1);
        xml.text("MaxParts", &most.to_string());
        let mut parts = upload.parts.range((Bound::Excluded(after), Bound::Unbounded));
        let page: Vec<_> = parts.by_ref().take(most as usize).collect();
        xml.text(
            "IsTruncated",
            if parts.next().is_some() { "true" } else { "false" },
        );
        if let Some((number, _)) = page.last() {
            xml.text("NextPartNumberMarker", &number.to_string());
        }
        for (number, part) in page {
            xml.open("Part");
            xml.text("PartNumber", &number.to_string());
            xml.text("LastModified", &extended(part.modified));
            xml.text("ETag", &format!("\"{}\"", part.etag));
            xml.text("Size", &part.content.length.to_string());
            xml.close();
        }
        Ok(Answer::xml(xml.finish()))
    }

    pub(super) fn list_uploads(&self) -> Result<Answer, Refusal> {
        let given = |name: &str| self.request.parameter(name).unwrap_or_default();
        let most = self.request.most_listed("max-uploads")?;
        let prefix = given("prefix");
        let mut xml = Writer::new("ListMultipartUploadsResult");
        xml.text("Bucket", self.bucket);
        xml.text("Prefix", &String::from_utf8_lossy(prefix));
        xml.text("MaxUploads", &most.to_string());
        let bucket = self.share.lock();
        let mut uploads = uploads_after(&bucket, given("key-marker"), given("upload-id-marker"))
            .filter(|(_, upload)| upload.key.starts_with(prefix));
        let page: Vec<_> = uploads.by_ref().take(most as usize).collect();
        let is_truncated = uploads.next().is_some();
        xml.text("IsTruncated", if is_truncated { "true" } else { "false" });
        if let Some((key, id)) = page
            .last()
            .map(|((key, id), _)| (key, id))
            .filter(|_| is_truncated)
        {
            xml.text("NextKeyMarker", &String::from_utf8_lossy(key));
            xml.text("NextUploadIdMarker", id);
        }
        for ((key, id), upload) in page {
            xml.open("Upload");
            xml.text("Key", &String::from_utf8_lossy(key));
            xml.text("UploadId", id);
            xml.text("Initiated", &extended(upload.begun));
            xml.close();
        }
        Ok(Answer::xml(xml.finish()))
    }
}

/// Returns the uploads after a key, or after an upload of a key.
fn uploads_after<'a>(
    bucket: &'a Bucket,
    key: &'a [u8],
    id: &'a [u8],
) -> impl Iterator<Item = (&'a (Vec<u8>, String), &'a Upload)> {
    let is_after = move |known: &(Vec<u8>, String)| {
        known.0.as_slice() > key
            || (known.0 == key && (key.is_empty() || (!id.is_empty() && known.1.as_bytes() > id)))
    };
    bucket.uploads.iter().filter(move |(known, _)| is_after(known))
}

/// Returns the object made of the parts that a client lists, and the object's ETag.
fn completed(upload: &Upload, wanted: &[Record]) -> Result<(Object, String), Refusal> {
    if wanted.is_empty() {
        return Err(Code::MalformedXML.into());
    }
    let (mut chosen, mut before, mut md5) = (Vec::new(), 0, Md5::new());
    for fields in wanted {
        let number = fields.get("PartNumber").and_then(|text| text.trim().parse().ok());
        let number: u32 = number.ok_or(Code::MalformedXML)?;
        if number <= before {
            return Err(Code::InvalidPartOrder.into());
        }
        let part = upload.parts.get(&number).ok_or(Code::InvalidPart)?;
        let etag = fields.get("ETag").map(|etag| etag.trim().trim_matches('"'));
        if etag != Some(part.etag.as_str()) {
            return Err(Code::InvalidPart.into());
        }
        md5.update(part.md5);
        chosen.push(&part.content);
        before = number;
    }
    let (_, but_last) = chosen.split_last().ok_or(Code::MalformedXML)?;
    if but_last.iter().any(|content| content.length < LEAST_PART_BYTES) {
        return Err(Code::EntityTooSmall.into());
    }
    let etag = format!("{}-{}", hex(&md5.finalize()), chosen.len());
    let object = Object {
        content: Content::joined(chosen.into_iter()),
        etag: etag.clone(),
        modified: SystemTime::now(),
        fields: upload.fields.clone(),
        checksum: None,
        before: None,
    };
    Ok((object, etag))
}
