//! CopyObject, and the source of UploadPartCopy.

use super::answer::Answer;
use super::date::extended;
use super::fault::Kind;
use super::objects::kept_fields;
use super::operations::Call;
use super::refusal::{Code, Refusal};
use super::request::{checked_key, decoded};
use super::store::Object;
use super::xml::Writer;
use std::sync::Arc;
use std::time::SystemTime;

impl Call<'_> {
    pub(super) fn copy(&self) -> Result<Answer, Refusal> {
        let source = self.source()?;
        let is_replaced = match self.request.field("x-amz-metadata-directive") {
            None | Some("COPY") => false,
            Some("REPLACE") => true,
            Some(_) => return Err(Code::InvalidArgument.into()),
        };
        let modified = SystemTime::now();
        let object = Object {
            modified,
            fields: if is_replaced {
                kept_fields(self.request)
            } else {
                source.fields.clone()
            },
            before: None,
            ..Object::clone(&source)
        };
        if self.strikes(Kind::LateError) {
            return Ok(self.late_error());
        }
        let etag = self.store(object)?;
        let mut xml = Writer::new("CopyObjectResult");
        xml.text("LastModified", &extended(modified));
        xml.text("ETag", &format!("\"{etag}\""));
        Ok(Answer::xml(xml.finish()))
    }

    /// Returns an error with status 200, as S3 sends it when an operation fails after its answer has begun.
    pub(super) fn late_error(&self) -> Answer {
        let path = String::from_utf8_lossy(&self.request.path);
        Answer::xml(Refusal::from(Code::InternalError).document(&path, self.host.request_id()))
    }

    /// Returns the object in `x-amz-copy-source`.
    pub(super) fn source(&self) -> Result<Arc<Object>, Refusal> {
        let value = self.request.field("x-amz-copy-source").unwrap_or_default();
        let path = value
            .split('?')
            .next()
            .unwrap_or_default()
            .trim_start_matches('/');
        let path = decoded(path.as_bytes()).ok_or(Code::InvalidArgument)?;
        let slash = path
            .iter()
            .position(|byte| *byte == b'/')
            .ok_or(Code::InvalidArgument)?;
        let bucket = String::from_utf8_lossy(&path[..slash]);
        let share = self.host.bucket(&bucket).ok_or(Code::NoSuchBucket)?;
        let key = checked_key(&path[slash + 1..])?;
        let found = share.lock().objects.get(&key).cloned();
        found.ok_or_else(|| Code::NoSuchKey.into())
    }
}
