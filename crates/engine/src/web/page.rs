//! The dynamic page under load: each request has its own number, and each answer is checked byte for byte.

use dyno_http::h2::Request;
use dyno_http::{Body, Exchange, Head};
use dyno_measure::{Detail, Failure, Fault};
use rand_xoshiro::rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Prefix of the query: a name, followed by a hexadecimal number. Without a name, CGI would treat the query as
/// arguments (RFC 3875, section 4.4).
const NAME: &str = "n=";
const NUMBER_BYTES: usize = 16;
const QUERY_BYTES: usize = NAME.len() + NUMBER_BYTES;
const NO_QUERY: [u8; QUERY_BYTES] = *b"n=0000000000000000";
const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// Distinguishes the random stream for page numbers from the others of a client thread.
pub(crate) const PAGE_STREAM: u64 = u64::from_le_bytes(*b"pagenumb");

/// Returns the path of a page in the catalogue, with a placeholder query.
pub(crate) fn placeholder(path: &str) -> String {
    format!("{path}?{NAME}{}", "0".repeat(NUMBER_BYTES))
}

/// The page for the current request of one client thread.
#[derive(Debug)]
pub(crate) struct Page {
    /// Number that no other request of any level has, so that no cache can answer the request.
    number: u64,
    query: [u8; QUERY_BYTES],
    body: Vec<u8>,
}

/// A request in which the query of a page can be replaced.
pub(crate) trait PageRequest: Clone + Default {
    /// Replaces `before` by `after`, which must have the same length.
    fn exchange(&mut self, before: &[u8], after: &[u8]);
}

impl PageRequest for Box<[u8]> {
    fn exchange(&mut self, before: &[u8], after: &[u8]) {
        let place = self.windows(before.len()).position(|bytes| bytes == before);
        if let Some(bytes) = place.and_then(|place| self.get_mut(place..place + after.len())) {
            bytes.copy_from_slice(after);
        }
    }
}

impl PageRequest for Request {
    fn exchange(&mut self, before: &[u8], after: &[u8]) {
        self.exchange_text(before, after);
    }
}

impl Page {
    pub(crate) fn new(mut random: Xoshiro256PlusPlus, nonce: u64) -> Self {
        Self {
            number: random.next_u64() ^ nonce,
            query: NO_QUERY,
            body: Vec::new(), // `begin` reserves the memory, so that only clients that request pages use it.
        }
    }

    /// Fills `request` with the next request from a template for `placeholder(path)`. Returns the receiver of
    /// its answer, for `judge`.
    pub(crate) fn begin<R: PageRequest>(&mut self, template: &R, request: &mut R) -> PageBody {
        self.number = self.number.wrapping_add(1);
        for (place, digit) in self.query.iter_mut().rev().take(NUMBER_BYTES).enumerate() {
            *digit = DIGITS[(self.number >> (4 * place)) as usize & 0xf];
        }
        request.clone_from(template);
        request.exchange(&NO_QUERY, &self.query);
        self.body.clear();
        self.body.reserve(dyno_page::BYTES);
        PageBody(std::mem::take(&mut self.body))
    }

    /// Checks that a complete response is the page at `path` for this request.
    pub(crate) fn judge(
        &mut self,
        head: Head,
        body: PageBody,
        path: &str,
        cost: &Exchange,
    ) -> Result<(), Failure> {
        self.body = body.0;
        let status = |fault| Failure {
            fault,
            detail: head.detail(),
        };
        match head.status {
            200 => {}
            403 | 404 | 405 | 410 | 501 => return Err(status(Fault::NoProgram)),
            500 | 502..=504 => return Err(status(Fault::ProgramFailed)),
            _ => return Err(status(Fault::ErrorStatus)),
        }
        let expected = dyno_page::BYTES as u64;
        if cost.body_bytes != expected {
            return Err(Failure {
                fault: Fault::WrongLength,
                detail: Detail::Length {
                    expected,
                    got: cost.body_bytes,
                },
            });
        }
        let query = std::str::from_utf8(&self.query).unwrap_or_default();
        if dyno_page::check(&self.body, path, query) {
            Ok(())
        } else {
            Err(Fault::WrongPage.into())
        }
    }
}

/// Keeps the beginning of a body, up to the length of a page.
#[derive(Debug, Default)]
pub(crate) struct PageBody(Vec<u8>);

impl Body for PageBody {
    fn part(&mut self, data: &[u8], _last: bool) {
        let room = dyno_page::BYTES.saturating_sub(self.0.len());
        self.0.extend_from_slice(&data[..data.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn each_request_has_its_own_query_and_is_otherwise_as_built() {
        let mut page = Page::new(Xoshiro256PlusPlus::seed_from_u64(1), 7);
        let template = format!("GET {} HTTP/1.1\r\nHost: h?0\r\n\r\n", placeholder("/p"));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let mut request = Box::default();
            page.begin(&Box::<[u8]>::from(template.as_bytes()), &mut request);
            let request = String::from_utf8(request.into()).expect("ASCII");
            let query = &request["GET /p?".len()..][..QUERY_BYTES];
            assert!(seen.insert(query.to_owned()), "{query} twice");
            assert_eq!(request.replace(query, "n=0000000000000000"), template);
        }
    }
}
