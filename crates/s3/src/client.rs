//! The operations of S3, one at a time over one connection.
//!
//! An operation is one request and its response. Contents are sent without a copy, and passed on while they arrive.
//! Every length in a response is limited, and an error is reported under the name that the server sent.

use crate::answer::{Answer, Content, Tag, Trace};
use crate::call::Call;
use crate::checksum::Checksum;
use crate::code::{explained, failure, in_answer_to, is_foreign, name_in, Broken, FOREIGN};
use crate::documents::{self, Page, Upload, UploadsPage};
use crate::encode::{decimal, escape, escape_xml};
use crate::framing::{body_hash, payload_hash, Frames, SIGNED_TRAILER, UNSIGNED_TRAILER};
use crate::request::{Kind, Request};
use crate::sign::{RequestHead, Signer, EMPTY_SHA256, UNSIGNED};
use crate::xml::Malformed;
use base64::prelude::{Engine, BASE64_STANDARD};
use dyno_http::{Body, Connection, Exchange, Transport};
use dyno_measure::{unix_s, Failure, Fault};
use dyno_net::{Executor, Pace};
use md5::{Digest, Md5};
use serde::Deserialize;
use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;

/// S3's limits for one request.
pub const MOST_KEYS_PER_PAGE: u32 = 1000;
pub const MOST_KEYS_PER_DELETE: usize = 1000;

/// How a request protects the content of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// The signature does not cover the content.
    Unsigned,
    /// The signature covers the SHA-256 of the content.
    Signed,
    /// The content is sent in chunks, with a trailing checksum.
    Chunked,
}

/// Properties of all requests to a bucket.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Value of the `Host` header.
    pub host: String,
    pub bucket: String,
    /// Start of every path: the bucket in path style, otherwise empty.
    pub base: String,
    pub payload: Payload,
    pub checksum: Option<Checksum>,
    /// Whether connections use TLS.
    pub is_secure: bool,
}

/// What a GET or HEAD returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// Length of the body. For HEAD, the length of the object that the response states, if any.
    pub bytes: Option<u64>,
    pub tag: Option<Tag>,
    /// Causes that the head shows, if the object turns out to be wrong.
    pub traces: [Option<Trace>; 3],
}

enum Sent<'a> {
    Nothing,
    /// A short body of our own, always signed.
    Text(&'a [u8]),
    /// Content of an object, and its checksum if requests carry checksums.
    Object(&'a [&'a [u8]], Option<&'a str>),
}

/// A client of one bucket on one connection, which is established when needed.
#[derive(Debug)]
pub struct Client<T: Transport> {
    connection: Connection<T>,
    settings: Rc<Settings>,
    signer: Rc<RefCell<Signer>>,
    pace: Option<(Pace, Executor)>,
    path: Vec<u8>,
    head: Vec<u8>,
    answer: Answer,
}

impl<T: Transport> Client<T> {
    #[must_use]
    pub fn new(connection: Connection<T>, settings: Rc<Settings>, signer: Rc<RefCell<Signer>>) -> Self {
        Self {
            connection: connection.sending_at_once(),
            settings,
            signer,
            pace: None,
            path: Vec::new(),
            head: Vec::new(),
            answer: Answer::default(),
        }
    }

    /// Sets the rate limit of all requests.
    #[must_use]
    pub(crate) fn paced(self, pace: Option<(Pace, Executor)>) -> Self {
        Self { pace, ..self }
    }

    /// Waits until the next request is permitted, and counts it.
    async fn take_turn(&self, call: &mut Call) {
        let Some((pace, executor)) = &self.pace else {
            return;
        };
        if std::mem::take(&mut call.is_due) {
            let _ = pace.take(1);
        } else {
            call.start_ns += pace.turn(executor, 1).await;
        }
    }

    /// Stores an object. Returns its ETag.
    ///
    /// # Errors
    /// The reason why the object may not have been stored.
    pub async fn put(&mut self, key: &str, content: &[&[u8]], call: &mut Call) -> Result<Tag, Failure> {
        let sum = self.checksum_of(content);
        let sent = Sent::Object(content, sum.as_deref());
        self.ask(&Request::new(Kind::PutObject, key), &sent, call).await?;
        self.answer.tag().ok_or(Broken::NoTag.into())
    }

    /// Reads an object, or the bytes of `range` (first and last), and passes the content to `take`.
    ///
    /// # Errors
    /// The reason why it could not be read.
    pub async fn get(
        &mut self,
        key: &str,
        range: Option<(u64, u64)>,
        take: &mut impl FnMut(&[u8]),
        call: &mut Call,
    ) -> Result<Fetched, Failure> {
        let text = range.map(|(first, last)| {
            let mut text = b"bytes=".to_vec();
            decimal(first, &mut text);
            text.push(b'-');
            decimal(last, &mut text);
            String::from_utf8(text).unwrap_or_default()
        });
        let headers = text.as_deref().map(|text| [("range", text)]);
        let request = Request {
            headers: headers.as_ref().map_or(&[], |headers| headers.as_slice()),
            ..Request::new(Kind::GetObject, key)
        };
        let mut answer = std::mem::take(&mut self.answer);
        answer.begin(false);
        let mut content = Content {
            answer: &mut answer,
            take,
        };
        let sent = self.send(&request, &Sent::Nothing, &mut content, call).await;
        self.answer = answer;
        let cost = sent?;
        self.judge(request.kind)?;
        match (self.answer.status == 206, range.is_some()) {
            (false, true) => return Err(Broken::Range.into()),
            (true, false) => return Err(Broken::NoRange.into()),
            _ => {}
        }
        Ok(Fetched {
            bytes: Some(cost.body_bytes),
            tag: self.answer.tag(),
            traces: self.answer.traces(),
        })
    }

    /// Returns the length and ETag of an object, if the response has them.
    ///
    /// # Errors
    /// The reason why they are unknown.
    pub async fn head(&mut self, key: &str, call: &mut Call) -> Result<Fetched, Failure> {
        self.ask(&Request::new(Kind::HeadObject, key), &Sent::Nothing, call)
            .await?;
        Ok(Fetched {
            bytes: self.answer.length,
            tag: self.answer.tag(),
            traces: self.answer.traces(),
        })
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// The reason why the object may still exist.
    pub async fn delete(&mut self, key: &str, call: &mut Call) -> Result<(), Failure> {
        self.ask(&Request::new(Kind::DeleteObject, key), &Sent::Nothing, call)
            .await
    }

    /// Deletes several objects, at most [`MOST_KEYS_PER_DELETE`].
    ///
    /// # Errors
    /// The reason why some objects may still exist.
    pub async fn delete_many(&mut self, keys: &[impl AsRef<str>], call: &mut Call) -> Result<(), Failure> {
        let mut text = b"<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_vec();
        for key in keys {
            text.extend(b"<Object><Key>");
            escape_xml(key.as_ref(), &mut text);
            text.extend(b"</Key></Object>");
        }
        text.extend(b"<Quiet>true</Quiet></Delete>");
        let md5 = BASE64_STANDARD.encode(Md5::digest(&text));
        let request = Request {
            query: &[("delete", "")],
            headers: &[("content-md5", &md5)],
            ..Request::new(Kind::DeleteObjects, "")
        };
        self.ask(&request, &Sent::Text(&text), call).await?;
        let deleted = self.document(documents::deleted)?;
        let (code, text) = (deleted.code.as_deref(), deleted.message.unwrap_or_default());
        let refused = || explained(failure(200, code), code, &text);
        (deleted.failed == 0).then_some(()).ok_or_else(refused)
    }

    /// Returns whether the last response says that the server does not know the request, as GCS and gateways answer
    /// to DeleteObjects.
    #[must_use]
    pub fn lacks_request(&self) -> bool {
        matches!(self.answer.status, 400 | 405 | 501)
    }

    /// Lists a page of at most `most` objects whose keys begin with `prefix`. `from`: the end of the previous
    /// page.
    ///
    /// # Errors
    /// The reason why the page could not be read.
    pub async fn list(
        &mut self,
        prefix: &str,
        from: Option<&str>,
        most: u32,
        call: &mut Call,
    ) -> Result<Page, Failure> {
        let most = most.to_string();
        let query = [
            ("continuation-token", from.unwrap_or_default()),
            ("list-type", "2"),
            ("max-keys", &most),
            ("prefix", prefix),
        ];
        let request = Request {
            query: &query[usize::from(from.is_none())..],
            ..Request::new(Kind::ListObjects, "")
        };
        self.ask(&request, &Sent::Nothing, call).await?;
        self.document(documents::page)
    }

    /// Copies an object within the bucket. Returns the ETag of the copy.
    ///
    /// # Errors
    /// The reason why the copy may not exist.
    pub async fn copy(&mut self, from: &str, to: &str, call: &mut Call) -> Result<Tag, Failure> {
        let mut source = Vec::new();
        for part in ["/", &self.settings.bucket, "/", from] {
            escape(part, true, &mut source);
        }
        let source = String::from_utf8(source).unwrap_or_default();
        let request = Request {
            headers: &[("x-amz-copy-source", &source)],
            ..Request::new(Kind::CopyObject, to)
        };
        self.ask(&request, &Sent::Text(b""), call).await?;
        self.document(documents::copied)
    }

    /// Begins a multipart upload. Returns the upload ID.
    ///
    /// # Errors
    /// The reason why the upload may not have begun.
    pub async fn begin_upload(&mut self, key: &str, call: &mut Call) -> Result<String, Failure> {
        let checksum = self.settings.checksum;
        let headers = checksum.map(|checksum| [("x-amz-checksum-algorithm", checksum.algorithm())]);
        let request = Request {
            query: &[("uploads", "")],
            headers: headers.as_ref().map_or(&[], |headers| headers.as_slice()),
            ..Request::new(Kind::CreateMultipartUpload, key)
        };
        self.ask(&request, &Sent::Text(b""), call).await?;
        self.document(documents::upload_id)
    }

    /// Stores a part of an upload; the first has number 1. Returns the part's entry for `complete_upload`.
    ///
    /// # Errors
    /// The reason why the part may not have been stored.
    pub async fn put_part(
        &mut self,
        key: &str,
        upload: &str,
        number: u32,
        content: &[&[u8]],
        call: &mut Call,
    ) -> Result<String, Failure> {
        let text = number.to_string();
        let request = Request {
            query: &[("partNumber", &text), ("uploadId", upload)],
            ..Request::new(Kind::UploadPart, key)
        };
        let sum = self.checksum_of(content);
        let sent = Sent::Object(content, sum.as_deref());
        self.ask(&request, &sent, call).await?;
        let tag = self.answer.tag_text().ok_or(Broken::NoTag)?;
        let mut entry = format!("<Part><PartNumber>{text}</PartNumber><ETag>").into_bytes();
        escape_xml(&tag, &mut entry);
        entry.extend(b"</ETag>");
        if let Some((checksum, sum)) = self.settings.checksum.zip(sum) {
            let element = checksum.element();
            entry.extend(format!("<{element}>{sum}</{element}>").into_bytes());
        }
        entry.extend(b"</Part>");
        String::from_utf8(entry).map_err(|_| Fault::MalformedMessage.into())
    }

    /// Completes an upload from the entries of its parts, in order. Returns the object's ETag.
    ///
    /// # Errors
    /// The reason why the object may not have been stored.
    pub async fn complete_upload(
        &mut self,
        key: &str,
        upload: &str,
        parts: &[String],
        call: &mut Call,
    ) -> Result<Tag, Failure> {
        let mut text =
            String::from("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
        parts.iter().for_each(|part| text.push_str(part));
        text.push_str("</CompleteMultipartUpload>");
        let request = Request {
            query: &[("uploadId", upload)],
            ..Request::new(Kind::CompleteMultipartUpload, key)
        };
        self.ask(&request, &Sent::Text(text.as_bytes()), call).await?;
        self.document(documents::completed)
    }

    /// Ends an upload without an object, and removes its parts.
    ///
    /// # Errors
    /// The reason why the parts may still exist.
    pub async fn abort_upload(&mut self, key: &str, upload: &str, call: &mut Call) -> Result<(), Failure> {
        let request = Request {
            query: &[("uploadId", upload)],
            ..Request::new(Kind::AbortMultipartUpload, key)
        };
        self.ask(&request, &Sent::Nothing, call).await
    }

    /// Lists a page of the unfinished uploads whose keys begin with `prefix`. `from`: the end of the previous page.
    ///
    /// # Errors
    /// The reason why the page could not be read.
    pub async fn list_uploads(
        &mut self,
        prefix: &str,
        from: Option<&Upload>,
        call: &mut Call,
    ) -> Result<UploadsPage, Failure> {
        let first = [("prefix", prefix), ("uploads", "")];
        let further = from.map(|(key, upload)| {
            [
                ("key-marker", key.as_str()),
                ("prefix", prefix),
                ("upload-id-marker", upload),
                ("uploads", ""),
            ]
        });
        let request = Request {
            query: further.as_ref().map_or(&first, |query| query.as_slice()),
            ..Request::new(Kind::ListMultipartUploads, "")
        };
        match self.ask(&request, &Sent::Nothing, call).await {
            // rclone's answer if there are no uploads.
            Err(failure) if name_in(&failure) == Some("NoSuchUpload") => Ok(UploadsPage::default()),
            Err(failure) => Err(failure),
            Ok(()) => self.document(documents::uploads),
        }
    }

    /// Returns whether the bucket keeps versions of its objects, or did so earlier.
    ///
    /// # Errors
    /// The reason why this is unknown.
    pub async fn keeps_versions(&mut self, call: &mut Call) -> Result<bool, Failure> {
        let request = Request {
            query: &[("versioning", "")],
            ..Request::new(Kind::GetBucketVersioning, "")
        };
        self.ask(&request, &Sent::Nothing, call).await?;
        self.document(documents::versioning)
    }

    /// Sends a request, collects the body of the response, and checks the response for errors.
    async fn ask(&mut self, request: &Request<'_>, sent: &Sent<'_>, call: &mut Call) -> Result<(), Failure> {
        let mut answer = std::mem::take(&mut self.answer);
        answer.begin(request.kind == Kind::HeadObject);
        let sent = self.send(request, sent, &mut answer, call).await;
        self.answer = answer;
        sent?;
        self.judge(request.kind).map_err(|failure| match failure.fault {
            // A 404 about a bucket has a code, unless the answer is not from an S3 server.
            Fault::ObjectMissing if request.key.is_empty() => Broken::Document.into(),
            _ => failure,
        })
    }

    /// Returns the failure that the response to a request of this kind reports.
    fn judge(&self, kind: Kind) -> Result<(), Failure> {
        match self.answer.status {
            200..300 => Ok(()),
            status => {
                let code = self.code();
                // The response to HEAD has no body.
                let is_foreign = is_foreign(status) && !self.answer.answers_head();
                let name = code.as_deref().or(is_foreign.then_some(FOREIGN));
                Err(in_answer_to(self.refusal(name, code.as_deref()), kind))
            }
        }
    }

    fn refusal(&self, name: Option<&str>, code: Option<&str>) -> Failure {
        let text = documents::cause(&self.answer, code).unwrap_or_default();
        explained(failure(self.answer.status, name), code, &text)
    }

    fn code(&self) -> Option<String> {
        self.answer.xml().and_then(documents::error_code)
    }

    /// Reads the body of a response with a success status. The body may still report an error, because servers begin
    /// the response to a copy or completion before they know the result.
    fn document<D>(&self, read: impl Fn(&[u8]) -> Result<D, Malformed>) -> Result<D, Failure> {
        let xml = self.answer.xml().ok_or(Fault::BodyTooLarge)?;
        read(xml).map_err(|Malformed| match self.code() {
            Some(code) => self.refusal(Some(&code), Some(&code)),
            None => Broken::Document.into(),
        })
    }

    async fn send(
        &mut self,
        request: &Request<'_>,
        sent: &Sent<'_>,
        body: &mut impl Body,
        call: &mut Call,
    ) -> Result<Exchange, Failure> {
        self.take_turn(call).await;
        self.write_path(request.key);
        let mut cost = Exchange::default();
        let exchanged = match sent {
            Sent::Nothing => {
                self.write_head(request, &[], EMPTY_SHA256, None)?;
                self.connection
                    .exchange(&self.head, call.start_ns, body, &mut cost)
                    .await
            }
            Sent::Text(text) => {
                let hash = body_hash(text);
                let hash = std::str::from_utf8(&hash).unwrap_or_default();
                self.write_head(request, &[], hash, Some(text.len() as u64))?;
                let parts = [self.head.as_slice(), text];
                let parts = &parts[..if text.is_empty() { 1 } else { 2 }];
                self.connection
                    .exchange_parts(parts, call.start_ns, body, &mut cost)
                    .await
            }
            Sent::Object(content, sum) => match (self.settings.payload, self.settings.checksum.zip(*sum)) {
                (Payload::Chunked, Some(checksum)) => {
                    let frames = self.frame(request, content, checksum)?;
                    let parts = frames.parts(&self.head, content);
                    self.connection
                        .exchange_parts(&parts, call.start_ns, body, &mut cost)
                        .await
                }
                (payload, checksum) => {
                    self.write_object_head(request, content, payload, checksum)?;
                    let mut parts = Vec::with_capacity(content.len() + 1);
                    parts.push(self.head.as_slice());
                    parts.extend_from_slice(content);
                    self.connection
                        .exchange_parts(&parts, call.start_ns, body, &mut cost)
                        .await
                }
            },
        };
        call.add(&cost);
        call.requests.count(request.kind);
        exchanged.map(|_| cost)
    }

    /// Writes the head of a request whose body is the unchanged `content`.
    fn write_object_head(
        &mut self,
        request: &Request<'_>,
        content: &[&[u8]],
        payload: Payload,
        checksum: Option<(Checksum, &str)>,
    ) -> Result<(), Failure> {
        let bytes = content.iter().map(|piece| piece.len() as u64).sum();
        let hash = (payload == Payload::Signed).then(|| payload_hash(content));
        let headers = checksum.map(|(checksum, sum)| {
            [
                (checksum.header(), sum),
                ("x-amz-sdk-checksum-algorithm", checksum.algorithm()),
            ]
        });
        let headers = headers.as_ref().map_or(&[] as &[_], |headers| headers.as_slice());
        self.write_head(request, headers, hash.as_deref().unwrap_or(UNSIGNED), Some(bytes))
    }

    /// Writes the head of a request whose body is `content` in chunks. Returns the frames of the chunks.
    fn frame(
        &mut self,
        request: &Request<'_>,
        content: &[&[u8]],
        (checksum, sum): (Checksum, &str),
    ) -> Result<Frames, Failure> {
        let is_signed = !self.settings.is_secure && !self.signer.borrow().is_anonymous();
        let bytes: u64 = content.iter().map(|piece| piece.len() as u64).sum();
        let mut frames = Frames::new(content, (checksum, sum), is_signed);
        let decoded = bytes.to_string();
        let headers = [
            ("content-encoding", "aws-chunked"),
            ("x-amz-decoded-content-length", &decoded),
            ("x-amz-sdk-checksum-algorithm", checksum.algorithm()),
            ("x-amz-trailer", checksum.header()),
        ];
        let payload = if is_signed {
            SIGNED_TRAILER
        } else {
            UNSIGNED_TRAILER
        };
        let length = Some(bytes + frames.bytes() as u64);
        let signature = self.write_signed_head(request, &headers, payload, length)?;
        if let Some(signature) = signature.filter(|_| is_signed) {
            frames.sign(&self.signer.borrow(), signature, content);
        }
        Ok(frames)
    }

    fn checksum_of(&self, content: &[&[u8]]) -> Option<String> {
        let checksum = self.settings.checksum?;
        Some(checksum.of(content.iter().copied()))
    }

    fn write_path(&mut self, key: &str) {
        self.path.clear();
        self.path.extend(self.settings.base.as_bytes());
        self.path.push(b'/');
        escape(key, true, &mut self.path);
    }

    fn write_head(
        &mut self,
        request: &Request<'_>,
        headers: &[(&str, &str)],
        payload: &str,
        content_length: Option<u64>,
    ) -> Result<(), Failure> {
        self.write_signed_head(request, headers, payload, content_length)
            .map(|_| ())
    }

    /// Writes a head with the request's headers and with `headers`. Returns its signature.
    fn write_signed_head(
        &mut self,
        request: &Request<'_>,
        more: &[(&str, &str)],
        payload: &str,
        content_length: Option<u64>,
    ) -> Result<Option<[u8; 64]>, Failure> {
        let joined;
        let headers = if more.is_empty() {
            request.headers
        } else {
            joined = [request.headers, more].concat();
            &joined
        };
        let head = RequestHead {
            method: request.kind.method(),
            path: std::str::from_utf8(&self.path).map_err(|_| Fault::OtherIo)?,
            query: request.query,
            host: &self.settings.host,
            headers,
            payload,
            content_length,
        };
        let mut signer = self.signer.borrow_mut();
        signer.set_time(unix_s() as u64);
        Ok(signer.write(&head, &mut self.head))
    }
}
