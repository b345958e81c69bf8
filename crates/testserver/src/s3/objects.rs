//! PUT, GET, HEAD and DELETE of objects.

use super::answer::Answer;
use super::fault::Kind;
use super::operations::Call;
use super::payload::Stored;
use super::refusal::{Code, Refusal};
use super::request::{checked_key, Request};
use super::signature::hex;
use super::store::{Content, Held, Object};
use super::xml::{records, Writer};
use bytes::Bytes;
use md5::{Digest, Md5};
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of keys in a DeleteObjects.
const MOST_DELETED: usize = 1000;
/// Header fields of a PUT that are returned by GET.
const KEPT_FIELDS: [&str; 6] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
];

impl Call<'_> {
    pub(super) fn put(&self, stored: Stored) -> Result<Answer, Refusal> {
        let etag = hex(&Md5::digest(&stored.content));
        let mut content = self.kept(stored.content)?;
        if self.strikes(Kind::TornPut) {
            content = content.first(content.length / 2);
        }
        let checksum = stored.checksum;
        let mut answer = Answer::new(200);
        if let Some((algorithm, value)) = &checksum {
            answer.field(algorithm.field(), value);
            answer.field("x-amz-checksum-type", "FULL_OBJECT");
        }
        let object = Object {
            content,
            etag,
            modified: SystemTime::now(),
            fields: kept_fields(self.request),
            checksum,
            before: None,
        };
        let etag = self.store(object)?;
        answer.field("ETag", &format!("\"{etag}\""));
        Ok(answer)
    }

    /// Returns content, counted towards the server's memory limit.
    pub(super) fn kept(&self, content: Vec<u8>) -> Result<Content, Refusal> {
        let held = Held::take(&self.host.space, content.len() as u64).ok_or(Code::InsufficientStorage)?;
        Ok(Content::new(content, held))
    }

    /// Stores an object if the request's conditions hold. Returns the ETag for the answer.
    pub(super) fn store(&self, mut object: Object) -> Result<String, Refusal> {
        let mut etag = object.etag.clone();
        if self.strikes(Kind::WrongEtag) {
            let other = if etag.starts_with('0') { "1" } else { "0" };
            etag.replace_range(..1, other);
        }
        let mut bucket = self.share.lock();
        let before = bucket.objects.get(self.key);
        conditions(
            self.request,
            before.map(|object| object.etag.as_str()),
            Code::PreconditionFailed,
        )?;
        if self.strikes(Kind::LostPut) {
            return Ok(etag);
        }
        if self.host.strikes.is(Kind::StaleRead) {
            object.before = before.map(|before| {
                Arc::new(Object {
                    before: None,
                    ..Object::clone(before)
                })
            });
        }
        bucket.objects.insert(self.key.to_vec(), Arc::new(object));
        Ok(etag)
    }

    pub(super) fn strikes(&self, kind: Kind) -> bool {
        !self.host.is_initial(self.key) && self.host.strikes.strikes(kind)
    }

    /// Returns an object for reading.
    fn found(&self) -> Result<Arc<Object>, Refusal> {
        let missing = || {
            let key = String::from_utf8_lossy(self.key).into_owned();
            Refusal::from(Code::NoSuchKey).with("Key", key)
        };
        let object = self
            .share
            .lock()
            .objects
            .get(self.key)
            .cloned()
            .ok_or_else(missing)?;
        let object = if self.strikes(Kind::StaleRead) {
            object.before.clone().ok_or_else(missing)?
        } else {
            object
        };
        conditions(self.request, Some(&object.etag), Code::NotModified)?;
        Ok(object)
    }

    pub(super) fn head(&self) -> Result<Answer, Refusal> {
        let object = self.found()?;
        let range = range_of(self.request, object.content.length)?;
        Ok(self.opening(&object, range).0)
    }

    pub(super) fn get(&self) -> Result<Answer, Refusal> {
        let object = self.found()?;
        let range = range_of(self.request, object.content.length)?;
        let (mut answer, range) = self.opening(&object, range);
        answer.body = object.content.slice(range);
        if self.strikes(Kind::WrongContent) {
            flip_one_bit(&mut answer.body);
        }
        Ok(answer)
    }

    /// Returns an answer without its body, and the range of the body.
    fn opening(&self, object: &Object, range: Option<Range<u64>>) -> (Answer, Range<u64>) {
        let whole = object.content.length;
        let mut answer = Answer::new(if range.is_some() { 206 } else { 200 });
        if !object.fields.iter().any(|(name, _)| name == "content-type") {
            answer.field("Content-Type", "binary/octet-stream");
        }
        for (name, value) in &object.fields {
            answer.field(name, value);
        }
        answer.field("ETag", &format!("\"{}\"", object.etag));
        answer.field("Last-Modified", &httpdate::fmt_http_date(object.modified));
        answer.field("Accept-Ranges", "bytes");
        let wants = |value: &str| value.eq_ignore_ascii_case("enabled");
        if let (Some((algorithm, value)), None) = (&object.checksum, &range) {
            if self.request.field("x-amz-checksum-mode").is_some_and(wants) {
                answer.field(algorithm.field(), value);
                answer.field("x-amz-checksum-type", "FULL_OBJECT");
            }
        }
        if let Some(range) = &range {
            answer.field(
                "Content-Range",
                &format!("bytes {}-{}/{whole}", range.start, range.end - 1),
            );
        }
        let range = range.unwrap_or(0..whole);
        answer.length = range.end - range.start;
        (answer, range)
    }

    pub(super) fn delete(&self) -> Result<Answer, Refusal> {
        if !self.strikes(Kind::LostDelete) {
            self.share.lock().objects.remove(self.key);
        }
        Ok(Answer::new(204))
    }

    pub(super) fn delete_many(&self, document: &[u8]) -> Result<Answer, Refusal> {
        let wanted = records(document, "Delete", "Object").ok_or(Code::MalformedXML)?;
        if wanted.is_empty() || wanted.len() > MOST_DELETED {
            return Err(Code::MalformedXML.into());
        }
        let is_quiet = document
            .windows(19)
            .any(|text| text == b"<Quiet>true</Quiet>".as_slice());
        let mut xml = Writer::new("DeleteResult");
        let mut bucket = self.share.lock();
        for mut fields in wanted {
            let key = fields.remove("Key").filter(|key| !key.is_empty());
            let key = key.ok_or(Code::MalformedXML)?;
            let is_lost =
                !self.host.is_initial(key.as_bytes()) && self.host.strikes.strikes(Kind::LostDelete);
            match checked_key(key.as_bytes()) {
                Ok(known) => {
                    if !is_lost {
                        bucket.objects.remove(&known);
                    }
                    if !is_quiet {
                        xml.open("Deleted");
                        xml.text("Key", &key);
                        xml.close();
                    }
                }
                Err(refusal) => {
                    xml.open("Error");
                    xml.text("Key", &key);
                    xml.text("Code", refusal.code.name());
                    xml.close();
                }
            }
        }
        Ok(Answer::xml(xml.finish()))
    }
}

/// Changes one bit in the middle of a body.
fn flip_one_bit(body: &mut [Bytes]) {
    let middle = body.len() / 2;
    if let Some(piece) = body.get_mut(middle).filter(|piece| !piece.is_empty()) {
        let mut changed = piece.to_vec();
        let at = changed.len() / 2;
        changed[at] ^= 1;
        *piece = changed.into();
    }
}

/// Returns the header fields to store with an object.
pub(super) fn kept_fields(request: &Request) -> Vec<(String, String)> {
    let is_kept = |name: &str| KEPT_FIELDS.contains(&name) || name.starts_with("x-amz-meta-");
    let fields = request.fields.iter().filter(|(name, _)| is_kept(name));
    let cleaned = fields.filter_map(|(name, value)| {
        if name != "content-encoding" {
            return Some((name.clone(), value.clone()));
        }
        // `aws-chunked` is a coding of the upload only.
        let codings = value
            .split(',')
            .map(str::trim)
            .filter(|coding| *coding != "aws-chunked");
        let value = codings.collect::<Vec<_>>().join(",");
        (!value.is_empty()).then(|| (name.clone(), value))
    });
    cleaned.collect()
}

/// Checks `If-Match` and `If-None-Match` against the ETag of the existing object.
pub(super) fn conditions(request: &Request, etag: Option<&str>, if_unmodified: Code) -> Result<(), Refusal> {
    let names = |value: &str, etag: &str| {
        let plain = |part: &str| part.trim().trim_start_matches("W/").trim_matches('"') == etag;
        value.trim() == "*" || value.split(',').any(plain)
    };
    if let Some(value) = request.field("if-match") {
        if !etag.is_some_and(|etag| names(value, etag)) {
            return Err(Code::PreconditionFailed.into());
        }
    }
    if let Some(value) = request.field("if-none-match") {
        if etag.is_some_and(|etag| names(value, etag)) {
            return Err(if_unmodified.into());
        }
    }
    Ok(())
}

/// Returns the requested range, or None for the whole object. Ranges in a form that a server may ignore also
/// give None.
fn range_of(request: &Request, length: u64) -> Result<Option<Range<u64>>, Refusal> {
    let Some(range) = request
        .field("range")
        .and_then(|value| value.strip_prefix("bytes="))
    else {
        return Ok(None);
    };
    let Some((first, last)) = range.split_once('-') else {
        return Ok(None);
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let found = match (first.is_empty(), last.is_empty(), number(first), number(last)) {
        (true, false, _, Some(count)) => length.saturating_sub(count)..length,
        (false, true, Some(first), _) => first..length,
        (false, false, Some(first), Some(last)) if first <= last => first..length.min(last.saturating_add(1)),
        _ => return Ok(None),
    };
    if found.start >= found.end {
        return Err(Refusal::from(Code::InvalidRange).with("ActualObjectSize", length.to_string()));
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::super::request::{parse, Parsed};
    use super::*;

    fn request(field: &str) -> Request {
        match parse(format!("GET /b/k HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n").as_bytes()) {
            Parsed::Whole { request, .. } => *request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ranges_are_parsed_as_in_rfc_9110() {
        let range = |text: &str, length| {
            range_of(&request(&format!("Range: {text}")), length).map_err(|refusal| refusal.code)
        };
        assert_eq!(range("bytes=0-9", 100), Ok(Some(0..10)));
        assert_eq!(range("bytes=90-", 100), Ok(Some(90..100)));
        assert_eq!(range("bytes=-5", 100), Ok(Some(95..100)));
        assert_eq!(range("bytes=-500", 100), Ok(Some(0..100)));
        assert_eq!(range("bytes=50-18446744073709551615", 100), Ok(Some(50..100)));
        for ignored in ["bytes=1-0", "bytes=a-b", "items=0-1", "bytes=0-1,3-4", "bytes=5"] {
            assert_eq!(range(ignored, 100), Ok(None), "{ignored}");
        }
        for beyond in ["bytes=100-", "bytes=100-200", "bytes=-0"] {
            assert_eq!(range(beyond, 100), Err(Code::InvalidRange), "{beyond}");
        }
        assert_eq!(range("bytes=0-", 0), Err(Code::InvalidRange));
    }

    #[test]
    fn conditions_compare_etags() {
        let check = |field: &str, etag| {
            conditions(&request(field), etag, Code::NotModified).map_err(|refusal| refusal.code)
        };
        assert_eq!(check("If-Match: \"a\", \"b\"", Some("b")), Ok(()));
        assert_eq!(check("If-Match: \"a\"", Some("b")), Err(Code::PreconditionFailed));
        assert_eq!(check("If-Match: *", None), Err(Code::PreconditionFailed));
        assert_eq!(check("If-None-Match: \"b\"", Some("b")), Err(Code::NotModified));
        assert_eq!(check("If-None-Match: *", None), Ok(()));
        assert_eq!(check("If-None-Match: *", Some("b")), Err(Code::NotModified));
    }
}
