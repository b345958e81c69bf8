//! ListObjects, version 2 and the old version 1.

use super::answer::Answer;
use super::date::extended;
use super::fault::Kind;
use super::operations::Call;
use super::refusal::{Code, Refusal};
use super::request::encoded;
use super::signature::hex;
use super::store::{Bucket, Object};
use super::xml::Writer;
use data_encoding::HEXLOWER_PERMISSIVE;
use std::ops::Bound;
use std::sync::Arc;

/// An entry of a page: an object, or all keys with a common prefix.
enum Entry {
    Object(Vec<u8>, Arc<Object>),
    Prefix(Vec<u8>),
}

impl Entry {
    fn name(&self) -> &[u8] {
        match self {
            Self::Object(name, _) | Self::Prefix(name) => name,
        }
    }
}

struct Page {
    entries: Vec<Entry>,
    is_truncated: bool,
}

/// Parameters of a listing.
struct Wanted<'a> {
    prefix: &'a [u8],
    delimiter: &'a [u8],
    /// Only names after this one are listed. If it is a common prefix, all keys with it are left out.
    after: Vec<u8>,
    most: usize,
}

impl Wanted<'_> {
    /// Returns the common prefix of a key, if it has one. The key must begin with the requested prefix.
    fn group<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        if self.delimiter.is_empty() {
            return None;
        }
        let rest = &key[self.prefix.len()..];
        let at = rest
            .windows(self.delimiter.len())
            .position(|part| part == self.delimiter)?;
        Some(&key[..self.prefix.len() + at + self.delimiter.len()])
    }

    fn page(&self, bucket: &Bucket) -> Page {
        let mut entries: Vec<Entry> = Vec::new();
        let is_group = self.after.starts_with(self.prefix) && self.group(&self.after) == Some(&self.after);
        let mut from = match (self.after.is_empty(), is_group) {
            (true, _) => Bound::Included(self.prefix.to_vec()),
            (false, true) => Bound::Included(behind(&self.after)),
            (false, false) if self.after.as_slice() < self.prefix => Bound::Included(self.prefix.to_vec()),
            (false, false) => Bound::Excluded(self.after.clone()),
        };
        let mut is_truncated = false;
        'groups: loop {
            let bounds = (from.as_ref().map(Vec::as_slice), Bound::Unbounded);
            for (key, object) in bucket.objects.range::<[u8], _>(bounds) {
                if !key.starts_with(self.prefix) {
                    break 'groups;
                }
                if entries.len() == self.most {
                    is_truncated = self.most > 0;
                    break 'groups;
                }
                if let Some(group) = self.group(key) {
                    entries.push(Entry::Prefix(group.to_vec()));
                    from = Bound::Included(behind(group));
                    continue 'groups;
                }
                entries.push(Entry::Object(key.clone(), object.clone()));
            }
            break;
        }
        Page {
            entries,
            is_truncated,
        }
    }
}

/// Returns the first name after all names that begin with `prefix`. UTF-8 has no byte 0xff.
fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut name = prefix.to_vec();
    if let Some(last) = name.last_mut() {
        *last = last.saturating_add(1);
    }
    name
}

impl Call<'_> {
    pub(super) fn list(&self) -> Result<Answer, Refusal> {
        let request = self.request;
        let is_second = match request.parameter("list-type") {
            None => false,
            Some(b"2") => true,
            Some(_) => return Err(Code::InvalidArgument.into()),
        };
        let given = |name: &str| request.parameter(name).unwrap_or_default();
        let token = request.parameter("continuation-token").map(name_in).transpose()?;
        let start = given(if is_second { "start-after" } else { "marker" });
        let most = request.most_listed("max-keys")?;
        let wanted = Wanted {
            prefix: given("prefix"),
            delimiter: given("delimiter"),
            after: token.filter(|_| is_second).unwrap_or_else(|| start.to_vec()),
            most: most as usize,
        };
        let mut page = wanted.page(&self.share.lock());
        let last = page.entries.last().map(|entry| entry.name().to_vec());
        let mut next = last.filter(|_| page.is_truncated);
        self.spoil(&mut page, &mut next, &wanted);
        let is_url = given("encoding-type") == b"url";
        let name = |name: &[u8]| {
            if is_url {
                encoded(name, true)
            } else {
                String::from_utf8_lossy(name).into_owned()
            }
        };
        let mut xml = Writer::new("ListBucketResult");
        xml.text("Name", self.bucket);
        xml.text("Prefix", &name(wanted.prefix));
        xml.text("MaxKeys", &most.to_string());
        for (element, parameter) in [
            ("Delimiter", "delimiter"),
            ("StartAfter", "start-after"),
            ("Marker", "marker"),
        ] {
            if let Some(value) = request.parameter(parameter) {
                xml.text(element, &name(value));
            }
        }
        if is_url {
            xml.text("EncodingType", "url");
        }
        xml.text("IsTruncated", if next.is_some() { "true" } else { "false" });
        if is_second {
            xml.text("KeyCount", &page.entries.len().to_string());
            if let Some(token) = request.parameter("continuation-token") {
                xml.text("ContinuationToken", &String::from_utf8_lossy(token));
            }
        }
        match next {
            Some(next) if is_second => xml.text("NextContinuationToken", &hex(&next)),
            Some(next) => xml.text("NextMarker", &name(&next)),
            None => {}
        }
        for entry in &page.entries {
            write_entry(&mut xml, entry, &name);
        }
        Ok(Answer::xml(xml.finish()))
    }

    /// Damages a page if the server's fault requires it.
    fn spoil(&self, page: &mut Page, next: &mut Option<Vec<u8>>, wanted: &Wanted<'_>) {
        let strikes = &self.host.strikes;
        if strikes.is(Kind::EndlessList) {
            // The token points to the start of this page, so the next page is the same.
            *next = Some(wanted.after.clone());
        }
        if !page.entries.is_empty() && strikes.strikes(Kind::TruncatedList) {
            page.entries.pop();
        }
        let object = page.entries.iter().rev().find_map(|entry| match entry {
            Entry::Object(name, object) => Some((name.clone(), object.clone())),
            Entry::Prefix(_) => None,
        });
        if let Some((mut name, object)) = object {
            if strikes.strikes(Kind::GhostEntry) {
                name.extend_from_slice(b"-ghost");
                page.entries.push(Entry::Object(name, object));
            }
        }
    }
}

fn write_entry(xml: &mut Writer, entry: &Entry, name: &impl Fn(&[u8]) -> String) {
    match entry {
        Entry::Object(key, object) => {
            xml.open("Contents");
            xml.text("Key", &name(key));
            xml.text("LastModified", &extended(object.modified));
            xml.text("ETag", &format!("\"{}\"", object.etag));
            xml.text("Size", &object.content.length.to_string());
            xml.text("StorageClass", "STANDARD");
        }
        Entry::Prefix(prefix) => {
            xml.open("CommonPrefixes");
            xml.text("Prefix", &name(prefix));
        }
    }
    xml.close();
}

/// Returns the name that a continuation token contains.
fn name_in(token: &[u8]) -> Result<Vec<u8>, Refusal> {
    HEXLOWER_PERMISSIVE.decode(token).map_err(|_| {
        let message = "The continuation token provided is incorrect";
        Refusal::saying(Code::InvalidArgument, message)
    })
}
