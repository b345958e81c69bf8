//! Parses the parts of S3's XML responses that the client needs.

use crate::answer::{Answer, Tag};
use crate::xml::{read, Element, Malformed};

/// Maximum number of entries of a page: S3's own limit is 1000.
const MOST_ENTRIES: usize = 10_000;

/// An object in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub bytes: u64,
    /// None: the list has no ETags.
    pub tag: Option<Tag>,
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// Token of the next page. None: this is the last page.
    pub next: Option<String>,
}

/// An unfinished upload: its key and upload ID.
pub type Upload = (String, String);

/// A page of unfinished uploads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadsPage {
    pub uploads: Vec<Upload>,
    /// The markers after which the next page begins. None: this is the last page.
    pub next: Option<Upload>,
}

/// Result of a request that deletes several objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Number of keys that were not deleted.
    pub failed: usize,
    /// Error code of the first key that was not deleted.
    pub code: Option<String>,
    /// Message of the first key that was not deleted.
    pub message: Option<String>,
}

/// Reads a page of `ListObjectsV2`.
pub(crate) fn page(document: &[u8]) -> Result<Page, Malformed> {
    let list = rooted(document, "ListBucketResult")?;
    let entries = entries(&list, "Contents", |entry| {
        Some(Entry {
            key: entry.text("Key")?.to_owned(),
            bytes: number(entry.text("Size")?)?,
            tag: entry.text("ETag").map(|tag| Tag::of(tag.as_bytes())),
        })
    })?;
    let token = filled(&list, "NextContinuationToken");
    let next = if is_truncated(&list)? { Some(token?) } else { None };
    Ok(Page { entries, next })
}

/// Reads a page of `ListMultipartUploads`.
pub(crate) fn uploads(document: &[u8]) -> Result<UploadsPage, Malformed> {
    let list = rooted(document, "ListMultipartUploadsResult")?;
    let uploads = entries(&list, "Upload", |entry| {
        Some((entry.text("Key")?.to_owned(), entry.text("UploadId")?.to_owned()))
    })?;
    let mut next = None;
    if is_truncated(&list)? {
        let upload = list.text("NextUploadIdMarker").unwrap_or_default();
        next = Some((filled(&list, "NextKeyMarker")?, upload.to_owned()));
    }
    Ok(UploadsPage { uploads, next })
}

/// Reads the result of `DeleteObjects`.
pub(crate) fn deleted(document: &[u8]) -> Result<Deleted, Malformed> {
    let result = rooted(document, "DeleteResult")?;
    let first = |name| Some(result.all("Error").find_map(|error| error.text(name))?.to_owned());
    Ok(Deleted {
        failed: result.all("Error").count(),
        code: first("Code"),
        message: first("Message"),
    })
}

/// Reads a document whose root element must have this name.
fn rooted<'a>(document: &'a [u8], name: &str) -> Result<Element<'a>, Malformed> {
    read(document).and_then(|root| (root.name == name).then_some(root).ok_or(Malformed))
}

/// Reads the entries of a page.
fn entries<'a, E>(
    list: &Element<'a>,
    name: &'static str,
    entry: impl Fn(&Element<'a>) -> Option<E>,
) -> Result<Vec<E>, Malformed> {
    if list.all(name).count() > MOST_ENTRIES {
        return Err(Malformed);
    }
    list.all(name).map(entry).collect::<Option<_>>().ok_or(Malformed)
}

fn is_truncated(list: &Element<'_>) -> Result<bool, Malformed> {
    match list.text("IsTruncated").map(str::trim_ascii) {
        Some("true") => Ok(true),
        Some("false") | None => Ok(false),
        Some(_) => Err(Malformed),
    }
}

/// Returns the text of a child element, which must exist and not be empty.
fn filled<'a>(root: &Element<'a>, name: &'a str) -> Result<String, Malformed> {
    let text = root.text(name).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or(Malformed)
}

/// Reads one text of a result. The root's name differs between servers, so only the root of an error is refused.
fn text_of_result(document: &[u8], name: &str) -> Result<String, Malformed> {
    let root = read(document)?;
    if root.name == "Error" {
        return Err(Malformed);
    }
    filled(&root, name)
}

/// Reads the ID of a new multipart upload.
pub(crate) fn upload_id(document: &[u8]) -> Result<String, Malformed> {
    text_of_result(document, "UploadId")
}

/// Reads the ETag of a completed upload.
pub(crate) fn completed(document: &[u8]) -> Result<Tag, Malformed> {
    text_of_result(document, "ETag").map(|tag| Tag::of(tag.as_bytes()))
}

/// Reads the ETag of a copy.
pub(crate) fn copied(document: &[u8]) -> Result<Tag, Malformed> {
    text_of_result(document, "ETag").map(|tag| Tag::of(tag.as_bytes()))
}

/// Returns whether a bucket keeps versions of its objects, or did so earlier.
pub(crate) fn versioning(document: &[u8]) -> Result<bool, Malformed> {
    let status = rooted(document, "VersioningConfiguration")?;
    let status = status.text("Status").map(str::trim_ascii);
    Ok(matches!(status, Some("Enabled" | "Suspended")))
}

/// Returns the code of an error; None: the document is not an error.
pub(crate) fn error_code(document: &[u8]) -> Option<String> {
    error_text(document, "Code")
}

/// Returns the `Message` or `Region` of an error.
pub(crate) fn error_text(document: &[u8], name: &str) -> Option<String> {
    rooted(document, "Error")
        .and_then(|error| filled(&error, name))
        .ok()
}

/// Returns the server's explanation of an error, apart from its status and code.
pub(crate) fn cause(answer: &Answer, code: Option<&str>) -> Option<String> {
    let xml = answer.xml()?;
    let is_of_region = matches!(
        code,
        None | Some("AuthorizationHeaderMalformed" | "PermanentRedirect")
    );
    let region = || error_text(xml, "Region").or_else(|| answer.region());
    if let Some(region) = is_of_region.then(region).flatten() {
        return Some(format!("the bucket's region is {region}"));
    }
    match code {
        Some(_) => error_text(xml, "Message"),
        // The error pages of nginx and of Go's servers.
        None => [
            "plain HTTP request was sent to HTTPS port",
            "Client sent an HTTP request to an HTTPS server",
        ]
        .into_iter()
        .find(|text| xml.windows(text.len()).any(|part| part == text.as_bytes()))
        .map(str::to_owned),
    }
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim_ascii();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Parses the same bytes as each kind of document, for the fuzz target. Returns all results as text.
#[must_use]
pub fn fuzz_documents(document: &[u8]) -> String {
    let (list, deleted) = (page(document), deleted(document));
    if let Ok(page) = &list {
        assert!(page.entries.len() <= MOST_ENTRIES && page.entries.len() <= document.len());
    }
    format!(
        "{list:?} {deleted:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        versioning(document),
        uploads(document),
        upload_id(document),
        completed(document),
        copied(document),
        error_code(document)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_entries_and_the_start_of_the_next_page() {
        let entry = "<Contents><Key>a/&amp;1</Key><Size> 12 </Size><ETag>&#34;ab&#34;</ETag></Contents>";
        let list = |rest: &str| format!("<ListBucketResult>{entry}{rest}</ListBucketResult>");
        let more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>";
        let found = page(list(more).as_bytes()).expect("a page");
        assert_eq!(found.next.as_deref(), Some("t"));
        let expected = Entry {
            key: "a/&1".to_owned(),
            bytes: 12,
            tag: Some(Tag::of(b"\"ab\"")),
        };
        assert_eq!(found.entries, [expected]);
        let last = page(list("<IsTruncated>false</IsTruncated>").as_bytes());
        assert_eq!(last.expect("a page").next, None);
        for wrong in [
            list("<IsTruncated>true</IsTruncated>"),
            list("<IsTruncated>perhaps</IsTruncated>"),
            list("<Contents><Key>b</Key></Contents>"),
            list("<Contents><Key>b</Key><Size>-1</Size></Contents>"),
            "<Error><Code>NoSuchBucket</Code></Error>".to_owned(),
            "<html></html>".to_owned(),
        ] {
            assert_eq!(page(wrong.as_bytes()), Err(Malformed), "{wrong}");
        }
    }

    #[test]
    fn a_page_of_uploads_has_its_entries_and_the_start_of_the_next_page() {
        let list = |rest: &str| {
            let upload = "<Upload><Key>a</Key><UploadId>1</UploadId></Upload>";
            format!("<ListMultipartUploadsResult>{upload}{rest}</ListMultipartUploadsResult>")
        };
        let more = "<IsTruncated>true</IsTruncated><NextKeyMarker>a</NextKeyMarker>";
        let pair = |key: &str, upload: &str| (key.to_owned(), upload.to_owned());
        for (rest, next) in [
            (String::new(), None),
            (
                format!("{more}<NextUploadIdMarker>1</NextUploadIdMarker>"),
                Some(pair("a", "1")),
            ),
            (more.to_owned(), Some(pair("a", ""))),
        ] {
            let found = uploads(list(&rest).as_bytes()).expect("a page");
            assert_eq!((found.uploads, found.next), (vec![pair("a", "1")], next));
        }
        let endless = list("<IsTruncated>true</IsTruncated>");
        assert_eq!(uploads(endless.as_bytes()), Err(Malformed));
    }

    #[test]
    fn an_error_with_a_success_status_has_a_code_but_no_result() {
        let error = b"<Error><Code>SlowDown</Code><ETag>x</ETag><UploadId>1</UploadId></Error>";
        assert_eq!(completed(error), Err(Malformed));
        assert_eq!(copied(error), Err(Malformed));
        assert_eq!(upload_id(error), Err(Malformed));
        assert_eq!(error_code(error).as_deref(), Some("SlowDown"));
        // rclone uses this name for the root.
        let begun = b"<InitiateMultipartUpload><UploadId>1</UploadId></InitiateMultipartUpload>";
        assert_eq!(upload_id(begun).as_deref(), Ok("1"));
        assert_eq!(
            completed(b"<A><ETag>&quot;x-2&quot;</ETag></A>"),
            Ok(Tag::of(b"x-2"))
        );
    }

    #[test]
    fn a_bucket_keeps_versions_if_its_document_says_so() {
        for (answer, keeps) in [
            (
                "<VersioningConfiguration xmlns=\"u\"><Status>Enabled</Status></VersioningConfiguration>",
                Ok(true),
            ),
            (
                "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>",
                Ok(true),
            ),
            ("<VersioningConfiguration/>", Ok(false)),
            (
                "<Error><Code>NotImplemented</Code><Status>Enabled</Status></Error>",
                Err(Malformed),
            ),
        ] {
            assert_eq!(versioning(answer.as_bytes()), keeps, "{answer}");
        }
    }

    #[test]
    fn keys_that_were_not_deleted_are_counted() {
        let none = deleted(b"<DeleteResult><Deleted><Key>a</Key></Deleted></DeleteResult>");
        assert_eq!(none, Ok(Deleted::default()));
        let error = "<Error><Key>a</Key><Code>AccessDenied</Code></Error>";
        let two =
            deleted(format!("<DeleteResult>{error}{error}</DeleteResult>").as_bytes()).expect("a result");
        assert_eq!((two.failed, two.code.as_deref()), (2, Some("AccessDenied")));
    }
}
