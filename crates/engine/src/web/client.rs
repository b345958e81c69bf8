//! HTTP as a `Protocol`: requests built in advance, with each response compared with the expected file.

use super::decoding::{Sample, SampledBody};
use super::page::{placeholder, Page};
use crate::protocol::{Performed, Protocol};
use crate::sampling::Sampling;
use dyno_http::{Body, Connection, Exchange, Head, Transport};
use dyno_measure::{Detail, Failure, Fault};
use dyno_workload::{Catalogue, ClassId, Entry, Expect, Get};
use std::rc::Rc;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, Xxh3Default};

/// All possible requests, built in advance. Shared by all client threads.
#[derive(Debug)]
pub(crate) struct WebCatalogue<R> {
    pub(super) requests: Vec<R>,
    pub(super) expects: Vec<Expect>,
    /// Paths of pages without their queries, by path index; empty for other documents.
    pub(super) pages: Vec<Box<str>>,
    pub(super) stated: Option<Stated>,
    pub(super) is_head: bool,
}

/// The user's criteria for a correct answer. They replace those of the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stated {
    /// Permitted status codes; empty: 200 to 299.
    pub status: Vec<u16>,
    pub bytes: Option<u64>,
}

impl<R> WebCatalogue<R> {
    /// Builds all requests. `request` builds the request for an entry's path.
    pub(crate) fn new(
        catalogue: &Catalogue,
        request: impl Fn(&Entry, &str) -> R,
        stated: Option<Stated>,
        is_head: bool,
    ) -> Self {
        let entries = &catalogue.entries;
        let request = |entry: &Entry| match entry.expect {
            Expect::Page => request(entry, &placeholder(&entry.path)),
            _ => request(entry, &entry.path),
        };
        let page = |entry: &Entry| match entry.expect {
            Expect::Page => entry.path.clone(),
            _ => String::new(),
        };
        Self {
            requests: entries.iter().map(request).collect(),
            expects: entries.iter().map(|entry| entry.expect).collect(),
            pages: entries.iter().map(|entry| page(entry).into()).collect(),
            stated,
            is_head,
        }
    }
}

/// One client thread that speaks HTTP.
pub(crate) struct Web<T: Transport> {
    catalogue: Arc<WebCatalogue<Box<[u8]>>>,
    client: Connection<T>,
    body: BodyCheck,
    page: Page,
    page_request: Box<[u8]>,
    sampling: Sampling,
    sample: Rc<Sample>,
    decodes: bool,
}

impl<T: Transport> Web<T> {
    pub(crate) fn new(
        catalogue: Arc<WebCatalogue<Box<[u8]>>>,
        client: Connection<T>,
        page: Page,
        sampling: Sampling,
        (sample, decodes): (Rc<Sample>, bool),
    ) -> Self {
        Self {
            catalogue,
            client,
            body: BodyCheck::default(),
            page,
            page_request: Box::default(),
            sampling,
            sample,
            decodes,
        }
    }

    /// Requests the dynamic page, and checks it byte for byte.
    async fn ask_page(&mut self, get: &Get, start_ns: u64, cost: &mut Exchange) -> Result<(), Failure> {
        let place = get.path as usize;
        let template = &self.catalogue.requests[place];
        let mut body = self.page.begin(template, &mut self.page_request);
        let request = &self.page_request;
        let head = self.client.exchange(request, start_ns, &mut body, cost).await?;
        self.page.judge(head, body, &self.catalogue.pages[place], cost)
    }

    /// Requests a document, and checks the answer.
    async fn ask_document(&mut self, get: &Get, start_ns: u64, cost: &mut Exchange) -> Result<(), Failure> {
        let place = get.path as usize;
        let (request, expect) = (&self.catalogue.requests[place], self.catalogue.expects[place]);
        self.body.begin(
            matches!(expect, Expect::Found { .. }) && self.sampling.draw(),
            self.catalogue.is_head,
            (&self.sample, self.decodes),
            start_ns,
        );
        let exchanged = self
            .client
            .exchange(request, start_ns, &mut self.body, cost)
            .await;
        let stated = self.catalogue.stated.as_ref();
        let judged = exchanged.and_then(|head| self.body.judge(head, expect, stated, cost));
        self.body.end();
        judged
    }
}

impl<T: Transport> Protocol for Web<T> {
    type Op = Get;

    async fn perform(&mut self, get: &Get, start_ns: u64) -> Performed {
        let mut cost = Exchange::default();
        let result = match self.catalogue.expects[get.path as usize] {
            Expect::Page => self.ask_page(get, start_ns, &mut cost).await,
            _ => self.ask_document(get, start_ns, &mut cost).await,
        };
        performed(get.class, result, cost)
    }
}

/// Returns the result of an operation, with its traffic and connections.
pub(super) fn performed(class: ClassId, result: Result<(), Failure>, cost: Exchange) -> Performed {
    Performed {
        class,
        result,
        bytes_read: cost.body_bytes,
        bytes_written: 0,
        cost,
        session_lost: false,
    }
}

/// Checks a complete response by the workload's criteria.
fn judge(head: Head, expect: Expect, cost: &Exchange, body: &BodyCheck) -> Result<(), Failure> {
    let status = |fault| {
        Err(Failure {
            fault,
            detail: head.detail(),
        })
    };
    match (expect, head.status) {
        (Expect::Found { bytes, .. }, 200) if bytes != cost.body_bytes => Err(Failure {
            fault: Fault::WrongLength,
            detail: Detail::Length {
                expected: bytes,
                got: cost.body_bytes,
            },
        }),
        (Expect::Found { digest: wanted, .. }, 200) if body.digest().is_some_and(|got| got != wanted) => {
            Err(Fault::WrongContent.into())
        }
        (Expect::Found { .. }, 200) | (Expect::Missing, 404 | 410) | (Expect::Unknown, 200..300) => Ok(()),
        (Expect::Missing, 200..300) => status(Fault::WrongStatus),
        _ => status(Fault::ErrorStatus),
    }
}

/// Checks a complete response by the user's criteria.
pub(super) fn judge_stated(head: Head, stated: &Stated, cost: &Exchange) -> Result<(), Failure> {
    let right = match stated.status.as_slice() {
        [] => (200..300).contains(&head.status),
        wanted => wanted.contains(&head.status),
    };
    if !right {
        return Err(Failure {
            fault: Fault::ErrorStatus,
            detail: head.detail(),
        });
    }
    match stated.bytes {
        Some(expected) if expected != cost.body_bytes => Err(Failure {
            fault: Fault::WrongLength,
            detail: Detail::Length {
                expected,
                got: cost.body_bytes,
            },
        }),
        _ => Ok(()),
    }
}

/// Checks a body's XXH3-64 digest, and whether the body can be decoded. Most bodies arrive in one piece and
/// are hashed at once.
#[derive(Default)]
pub(super) struct BodyCheck {
    wanted: bool,
    whole: Option<u64>,
    stream: Option<Box<Xxh3Default>>,
    streaming: bool,
    is_head: bool,
    sampled: SampledBody,
}

impl BodyCheck {
    /// Prepares for the response to an operation that starts at `now_ns`. `wanted`: whether to compute the
    /// digest of the body; `is_head`: whether the request is HEAD; `decodes`: whether the body may be
    /// decoded.
    pub(super) fn begin(
        &mut self,
        wanted: bool,
        is_head: bool,
        (sample, decodes): (&Sample, bool),
        now_ns: u64,
    ) {
        // An answer to HEAD has the fields of GET and no body.
        self.sampled.begin(sample, decodes && !is_head, now_ns);
        self.is_head = is_head;
        self.wanted = wanted;
        self.whole = None;
        self.streaming = false;
    }

    /// Checks the response with this body by the user's criteria or the workload's.
    pub(super) fn judge(
        &self,
        head: Head,
        expect: Expect,
        stated: Option<&Stated>,
        cost: &mut Exchange,
    ) -> Result<(), Failure> {
        let head = self.sampled.explained(head);
        match stated {
            None => judge(head, expect, cost, self),
            Some(stated) => judge_stated(head, stated, cost),
        }?;
        cost.decoded = self.sampled.judge(head.status)?;
        Ok(())
    }

    /// Releases the decoder after the response, successful or not.
    pub(super) fn end(&mut self) {
        self.sampled.end();
    }

    /// Returns the body's digest, or None if no digest was requested or the body has not ended.
    fn digest(&self) -> Option<u64> {
        self.whole
    }
}

impl Body for BodyCheck {
    fn wants_fields(&mut self) -> bool {
        self.sampled.wants_fields()
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.sampled.field(name, value);
    }

    fn answers_head(&self) -> bool {
        self.is_head
    }

    fn part(&mut self, data: &[u8], last: bool) {
        self.sampled.part(data, last);
        if !self.wanted {
            return;
        }
        if last && !self.streaming {
            self.whole = Some(xxh3_64(data));
            return;
        }
        let stream = self.stream.get_or_insert_default();
        if !self.streaming {
            stream.reset();
            self.streaming = true;
        }
        stream.update(data);
        if last {
            self.whole = Some(stream.digest());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_divided_body_has_the_digest_of_the_whole_body() {
        let (mut body, sample) = (BodyCheck::default(), Sample::default());
        for _ in 0..2 {
            body.begin(true, false, (&sample, false), 0);
            body.part(b"one ", false);
            assert_eq!(body.digest(), None);
            body.part(b"two", true);
            assert_eq!(body.digest(), Some(xxh3_64(b"one two")));
        }
        body.begin(true, false, (&sample, false), 0);
        body.part(b"one two", true);
        assert_eq!(body.digest(), Some(xxh3_64(b"one two")));
    }
}
