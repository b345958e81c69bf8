//! The sample of bodies that are decoded to check them. It is small, so that it costs little, and covers the whole mix.

use dyno_http::coding::{ContentCheck, Decoded};
use dyno_http::Body;
use dyno_measure::Failure;
use std::cell::Cell;
use std::rc::Rc;

/// Least time between two bodies that an engine thread decodes.
const PAUSE_NS: u64 = 10_000_000;
/// Most bodies that an engine thread decodes at the same time. A br decoder may need 16 MiB.
const MOST_UNDER_WAY: usize = 4;

/// Decides which bodies of an engine thread are decoded.
#[derive(Debug, Default)]
pub(super) struct DecodingTurns {
    next_ns: Cell<u64>,
    /// Each active decoder holds a clone, so that the count of clones is known.
    under_way: Rc<()>,
}

impl DecodingTurns {
    /// Return a decoder for the body of the operation that starts at `now_ns`, or None if it is not in the sample.
    fn draw(&self, now_ns: u64) -> Option<Box<Decoding>> {
        let is_free = Rc::strong_count(&self.under_way) <= MOST_UNDER_WAY;
        (is_free && now_ns >= self.next_ns.get()).then(|| {
            self.next_ns.set(now_ns + PAUSE_NS);
            Box::new(Decoding {
                check: ContentCheck::default(),
                _under_way: self.under_way.clone(),
            })
        })
    }
}

#[derive(Debug)]
struct Decoding {
    check: ContentCheck,
    _under_way: Rc<()>,
}

/// Decodes the body of a response if it is in the sample.
#[derive(Debug, Default)]
pub(super) struct SampledBody(Option<Box<Decoding>>);

impl SampledBody {
    /// Prepare for the response to an operation that starts at `now_ns`. Without `turns`, no body is decoded.
    pub(super) fn begin(&mut self, turns: Option<&DecodingTurns>, now_ns: u64) {
        self.0 = turns.and_then(|turns| turns.draw(now_ns));
    }

    /// Return the result for a complete response with this status.
    ///
    /// # Errors
    /// The body can't be decoded.
    pub(super) fn judge(&self, status: u16) -> Result<Option<Decoded>, Failure> {
        let decoding = self.0.as_ref();
        decoding.map_or(Ok(None), |decoding| decoding.check.judge(status))
    }

    /// Release the decoder after the response, successful or not.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}

impl Body for SampledBody {
    fn wants_fields(&mut self) -> bool {
        let decoding = self.0.as_mut();
        decoding.is_some_and(|decoding| decoding.check.wants_fields())
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if let Some(decoding) = &mut self.0 {
            decoding.check.field(name, value);
        }
    }

    fn part(&mut self, data: &[u8], last: bool) {
        if let Some(decoding) = &mut self.0 {
            decoding.check.part(data, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_body_in_ten_milliseconds_is_decoded_at_most_beginning_with_the_first() {
        let turns = DecodingTurns::default();
        let drawn: Vec<u64> = (1_000..1_100)
            .filter(|ms| turns.draw(ms * 1_000_000 + ms % 7).is_some())
            .collect();
        assert_eq!(drawn.len(), 10);
        assert_eq!(drawn[0], 1_000);
    }

    #[test]
    fn few_bodies_are_decoded_at_a_time_and_others_once_these_have_ended() {
        let turns = DecodingTurns::default();
        let mut bodies: Vec<SampledBody> = (0..10).map(|_| SampledBody::default()).collect();
        for (second, body) in bodies.iter_mut().enumerate() {
            body.begin(Some(&turns), second as u64 * 1_000_000_000);
        }
        let sampled = |bodies: &[SampledBody]| bodies.iter().filter(|body| body.0.is_some()).count();
        assert_eq!(sampled(&bodies), MOST_UNDER_WAY);
        bodies[0].end();
        bodies[9].begin(Some(&turns), u64::MAX - PAUSE_NS);
        assert!(bodies[9].0.is_some());
        assert_eq!(sampled(&bodies), MOST_UNDER_WAY);
    }
}
