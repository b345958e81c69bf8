//! Kinds of requests, with their names in S3 and their methods, and the number of requests of each kind.

use dyno_measure::named_enum;

named_enum! {
    /// Kinds of requests, with their names in S3.
    pub(crate) enum Kind {
        PutObject "PutObject"
        GetObject "GetObject"
        HeadObject "HeadObject"
        DeleteObject "DeleteObject"
        CopyObject "CopyObject"
        ListObjects "ListObjectsV2"
        DeleteObjects "DeleteObjects"
        CreateMultipartUpload "CreateMultipartUpload"
        UploadPart "UploadPart"
        CompleteMultipartUpload "CompleteMultipartUpload"
        AbortMultipartUpload "AbortMultipartUpload"
        ListMultipartUploads "ListMultipartUploads"
        GetBucketVersioning "GetBucketVersioning"
    }
}

impl Kind {
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::PutObject | Self::CopyObject | Self::UploadPart => "PUT",
            Self::GetObject | Self::ListObjects | Self::ListMultipartUploads | Self::GetBucketVersioning => {
                "GET"
            }
            Self::HeadObject => "HEAD",
            Self::DeleteObject | Self::AbortMultipartUpload => "DELETE",
            Self::DeleteObjects | Self::CreateMultipartUpload | Self::CompleteMultipartUpload => "POST",
        }
    }
}

/// A request without its body.
pub(crate) struct Request<'a> {
    pub kind: Kind,
    pub key: &'a str,
    pub query: &'a [(&'a str, &'a str)],
    pub headers: &'a [(&'a str, &'a str)],
}

impl<'a> Request<'a> {
    pub(crate) fn new(kind: Kind, key: &'a str) -> Self {
        Self {
            kind,
            key,
            query: &[],
            headers: &[],
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounts([u64; Kind::ALL.len()]);

impl RequestCounts {
    pub(crate) fn count(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// Returns the number of requests of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns each kind that occurred, by its name in S3, with its count.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = Kind::ALL.into_iter().zip(self.0);
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| (kind.name(), count))
    }
}
