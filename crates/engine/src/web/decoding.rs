//! The sample of responses to inspect: the first response, for some of its headers, and a few more, whose
//! bodies are decoded as a check. The sample is small, to save time, but covers the whole level.

use crate::engine_thread::{FailedStep, FirstAnswer};
use dyno_http::coding::{ContentCheck, Decoded};
use dyno_http::{schemes, Body, Head, Redirect};
use dyno_measure::Failure;
use std::cell::Cell;
use std::rc::Rc;

/// Minimum time between two bodies that an engine thread decodes.
const PAUSE_NS: u64 = 10_000_000;
/// Maximum concurrent bodies that an engine thread decodes. A br decoder may need 16 MiB.
const MOST_UNDER_WAY: usize = 4;
/// Maximum length of a quoted Location, because the server may send any length.
const MOST_QUOTED: usize = 200;

/// Decides which responses of an engine thread are in the sample.
#[derive(Debug, Default)]
pub(super) struct Sample {
    next_ns: Cell<u64>,
    first: Rc<FirstAnswer>,
    had_first: Cell<bool>,
    /// Each active decoder holds a clone, to count the decoders.
    under_way: Rc<()>,
}

impl Sample {
    pub(super) fn new(first: Rc<FirstAnswer>) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }

    pub(super) fn note_failed(&self, failed: FailedStep) {
        self.first.note_failed(failed);
    }

    /// Returns the inspection of the response to the operation that starts at `now_ns`, or None if the response is not
    /// in the sample. `decodes`: whether its body may be decoded.
    #[inline]
    fn draw(&self, decodes: bool, now_ns: u64) -> Option<Box<Look>> {
        if !decodes && self.had_first.get() {
            return None;
        }
        let is_free = Rc::strong_count(&self.under_way) <= MOST_UNDER_WAY;
        let is_decoded = decodes && is_free && now_ns >= self.next_ns.get();
        let is_first = !self.had_first.replace(true);
        if is_decoded {
            self.next_ns.set(now_ns + PAUSE_NS);
        }
        (is_decoded || is_first).then(|| {
            Box::new(Look {
                decoding: is_decoded.then(|| (ContentCheck::default(), self.under_way.clone())),
                first: is_first.then(|| self.first.clone()),
                redirect: Redirect::default(),
            })
        })
    }
}

#[derive(Debug)]
struct Look {
    decoding: Option<(ContentCheck, Rc<()>)>,
    first: Option<Rc<FirstAnswer>>,
    redirect: Redirect,
}

/// Inspects a response if it is in the sample.
#[derive(Debug, Default)]
pub(super) struct SampledBody(Option<Box<Look>>);

impl SampledBody {
    /// Prepares for the response to an operation that starts at `now_ns`. `decodes`: whether its body may be
    /// decoded.
    pub(super) fn begin(&mut self, sample: &Sample, decodes: bool, now_ns: u64) {
        self.0 = sample.draw(decodes, now_ns);
    }

    fn check(&mut self) -> Option<&mut ContentCheck> {
        let (check, _) = self.0.as_mut()?.decoding.as_mut()?;
        Some(check)
    }

    /// Returns the result of decoding for a complete response with this status; None if its body was not decoded.
    ///
    /// # Errors
    /// The body can't be decoded.
    pub(super) fn judge(&self, status: u16) -> Result<Option<Decoded>, Failure> {
        let decoding = self.0.as_ref().and_then(|look| look.decoding.as_ref());
        decoding.map_or(Ok(None), |(check, _)| check.judge(status))
    }

    /// Returns the head of this response with the redirect that its headers describe.
    pub(super) fn explained(&self, head: Head) -> Head {
        self.0
            .as_ref()
            .map_or(head, |look| head.with_redirect(look.redirect))
    }

    /// Releases the decoder after the response, successful or not.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}

impl Body for SampledBody {
    fn wants_fields(&mut self) -> bool {
        let decodes = self.check().is_some_and(ContentCheck::wants_fields);
        decodes || self.0.as_ref().is_some_and(|look| look.first.is_some())
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if let Some(check) = self.check() {
            check.field(name, value);
        }
        let Some((look, first)) = self
            .0
            .as_mut()
            .and_then(|look| look.first.clone().map(|first| (look, first)))
        else {
            return;
        };
        look.redirect.read(name, value);
        if name.eq_ignore_ascii_case(b"server") {
            first
                .server
                .get_or_init(|| String::from_utf8_lossy(value).into_owned());
        } else if name.eq_ignore_ascii_case(b"location") {
            first.location.get_or_init(|| quoted(value));
        } else if name.eq_ignore_ascii_case(b"allow") {
            first.allow.get_or_init(|| quoted(value));
        } else if name.eq_ignore_ascii_case(b"www-authenticate") {
            for scheme in schemes(value) {
                add(&mut first.schemes.borrow_mut(), scheme);
            }
        }
    }

    fn part(&mut self, data: &[u8], last: bool) {
        if let Some(check) = self.check() {
            check.part(data, last);
        }
    }
}

/// Adds the name of a scheme to a list for a message, unless the list already has it or is too long.
fn add(names: &mut String, scheme: &[u8]) {
    let name = quoted(scheme);
    let is_there = names.split(", ").any(|known| known == name);
    if is_there || names.len() + name.len() > MOST_QUOTED {
        return;
    }
    if !names.is_empty() {
        names.push_str(", ");
    }
    names.push_str(&name);
}

/// Returns a value from the server as text for a message: printable ASCII of bounded length.
fn quoted(value: &[u8]) -> String {
    let plain = |byte: &u8| {
        if byte.is_ascii_graphic() || *byte == b' ' {
            char::from(*byte)
        } else {
            '?'
        }
    };
    let end = if value.len() > MOST_QUOTED { "..." } else { "" };
    value
        .iter()
        .take(MOST_QUOTED)
        .map(plain)
        .chain(end.chars())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_body_in_ten_milliseconds_is_decoded_and_the_first_one_always() {
        let sample = Sample::default();
        let drawn: Vec<u64> = (1_000..1_100)
            .filter(|ms| sample.draw(true, ms * 1_000_000 + ms % 7).is_some())
            .collect();
        assert_eq!(drawn.len(), 10);
        assert_eq!(drawn[0], 1_000);
    }

    #[test]
    fn the_first_response_gives_the_servers_name() {
        let answer = Rc::new(FirstAnswer::default());
        let sample = Sample::new(answer.clone());
        let (mut first, mut second) = (SampledBody::default(), SampledBody::default());
        first.begin(&sample, false, 0);
        second.begin(&sample, false, 0);
        assert!(first.wants_fields() && !second.wants_fields());
        first.field(b"SERVER", b"nginx");
        assert_eq!(answer.server.get().map(String::as_str), Some("nginx"));
        first.field(b"location", b"/a\x1b[31m\xe9");
        assert_eq!(answer.location.get().map(String::as_str), Some("/a?[31m?"));
        first.field(b"Allow", b"GET, HEAD");
        assert_eq!(answer.header("Allow").as_deref(), Some("GET, HEAD"));
        first.field(b"WWW-Authenticate", b"Digest realm=\"x\"");
        first.field(b"www-authenticate", b"NTLM, Digest");
        first.field(b"www-authenticate", &[b'a'; 70_000]);
        assert_eq!(answer.header("WWW-Authenticate").as_deref(), Some("Digest, NTLM"));
        let long = quoted(&[b'a'; 70_000]);
        assert!(long.len() < 300 && long.ends_with("a..."), "{long}");
        assert_eq!(first.judge(200), Ok(None));
    }

    #[test]
    fn few_bodies_are_decoded_at_a_time_and_others_once_these_have_ended() {
        let sample = Sample::default();
        let mut bodies: Vec<SampledBody> = (0..10).map(|_| SampledBody::default()).collect();
        for (second, body) in bodies.iter_mut().enumerate() {
            body.begin(&sample, true, second as u64 * 1_000_000_000);
        }
        let sampled = |bodies: &[SampledBody]| bodies.iter().filter(|body| body.0.is_some()).count();
        assert_eq!(sampled(&bodies), MOST_UNDER_WAY);
        bodies[0].end();
        bodies[9].begin(&sample, true, u64::MAX - PAUSE_NS);
        assert!(bodies[9].0.is_some());
        assert_eq!(sampled(&bodies), MOST_UNDER_WAY);
    }
}
