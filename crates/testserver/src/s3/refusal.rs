//! Errors of S3, with their status and message.

use super::answer::Answer;
use super::xml::Writer;

/// Defines `Code` from `Variant status "message"` for each error.
macro_rules! codes {
    ($($variant:ident $status:literal $message:literal)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Code { $($variant),* }

        impl Code {
            pub(super) fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),* }
            }

            pub(super) fn status(self) -> u16 {
                match self { $(Self::$variant => $status),* }
            }

            fn message(self) -> &'static str {
                match self { $(Self::$variant => $message),* }
            }
        }
    };
}

codes! {
    AccessDenied 403 "Access Denied"
    AuthorizationHeaderMalformed 400 "The authorization header is malformed."
    BadDigest 400 "The checksum you specified did not match what we received."
    BucketAlreadyOwnedByYou 409 "The bucket exists and is yours."
    EntityTooLarge 400 "Your proposed upload exceeds the maximum allowed size."
    EntityTooSmall 400 "Your proposed upload is smaller than the minimum allowed size."
    IncompleteBody 400 "The body is shorter than declared, or its chunks are malformed."
    InsufficientStorage 507 "The server's memory for objects is full."
    InternalError 500 "We encountered an internal error. Please try again."
    InvalidAccessKeyId 403 "The AWS access key ID you provided does not exist in our records."
    InvalidArgument 400 "Invalid argument."
    InvalidPart 400 "One or more of the specified parts could not be found, or its ETag is another one."
    InvalidPartOrder 400 "The list of parts was not in ascending order."
    InvalidRange 416 "The requested range is not satisfiable."
    InvalidRequest 400 "Invalid request."
    InvalidURI 400 "The URI could not be parsed."
    KeyTooLongError 400 "Your key is too long."
    MalformedXML 400 "The XML you provided was not well-formed or did not validate."
    MethodNotAllowed 405 "The specified method is not allowed against this resource."
    NoSuchBucket 404 "The specified bucket does not exist."
    NoSuchKey 404 "The specified key does not exist."
    NoSuchUpload 404 "The specified multipart upload does not exist."
    NotImplemented 501 "This server does not support what the request asks for."
    NotModified 304 "Not Modified"
    PreconditionFailed 412 "At least one of the preconditions you specified did not hold."
    RequestTimeTooSkewed 403 "The difference between the request time and the current time is too large."
    SignatureDoesNotMatch 403 "The request signature we calculated does not match the signature you provided."
    SlowDown 503 "Please reduce your request rate."
    XAmzContentSHA256Mismatch 400 "The provided 'x-amz-content-sha256' header does not match what was computed."
}

/// An error that answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: Code,
    message: Option<String>,
    /// Further elements of the error document: name and text.
    details: Vec<(&'static str, String)>,
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Self {
        Self {
            code,
            message: None,
            details: Vec::new(),
        }
    }
}

impl Refusal {
    pub(super) fn saying(code: Code, message: impl Into<String>) -> Self {
        Self {
            message: Some(message.into()),
            ..code.into()
        }
    }

    pub(super) fn with(mut self, element: &'static str, text: impl Into<String>) -> Self {
        self.details.push((element, text.into()));
        self
    }

    /// Returns the error document of a request for `resource`.
    pub(super) fn document(&self, resource: &str, request_id: u64) -> Vec<u8> {
        let mut xml = Writer::plain("Error");
        xml.text("Code", self.code.name());
        xml.text("Message", self.message.as_deref().unwrap_or(self.code.message()));
        for (element, text) in &self.details {
            xml.text(element, text);
        }
        xml.text("Resource", resource);
        xml.text("RequestId", &format!("{request_id:016X}"));
        xml.finish()
    }

    pub(super) fn answer(&self, resource: &str, request_id: u64) -> Answer {
        let status = self.code.status();
        if self.code == Code::NotModified {
            return Answer::new(status);
        }
        Answer::xml(self.document(resource, request_id)).with_status(status)
    }
}
