//! HTTP/1.1 pipelining (RFC 9112, section 9.3.2): several requests per connection, answered in order.
//!
//! If the server closes the connection after a response, it did not process the requests that follow; they
//! are sent again. After a late response, the connection accepts no new requests but still waits for those
//! already sent.

use crate::conversation::{Conversation, Ended};
use crate::response::{Body, Limits, Progress, ResponseReader};
use dyno_measure::{Failure, Fault};
use std::collections::VecDeque;

#[derive(Debug)]
pub struct Pipeline<B> {
    reader: ResponseReader,
    outgoing: Vec<u8>,
    /// Exchanges by slot. A finished exchange stays until it is taken.
    exchanges: Vec<Option<Pending<B>>>,
    free: Vec<usize>,
    /// Pending responses, in request order.
    order: VecDeque<Turn>,
    finished: Vec<usize>,
    active: u32,
    opened: u32,
    /// True once the pipeline has stopped sending requests.
    closing: bool,
}

/// A request and its response.
#[derive(Debug)]
struct Pending<B> {
    body: B,
    sent_bytes: u64,
    received_bytes: u64,
    body_bytes: u64,
    /// The result, and whether the request was certainly not processed.
    outcome: Option<(Result<u16, Failure>, bool)>,
}

/// A pending response.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// Slot of the exchange, which may be cancelled.
    place: usize,
    answers_head: bool,
}

/// Receives the body of a pending response.
struct Receiver<'a, B> {
    /// None: the exchange was cancelled.
    body: Option<&'a mut B>,
    answers_head: bool,
}

impl<B: Body> Body for Receiver<'_, B> {
    fn wants_fields(&mut self) -> bool {
        self.body.as_mut().is_some_and(|body| body.wants_fields())
    }

    fn begins(&mut self, status: u16) {
        if let Some(body) = &mut self.body {
            body.begins(status);
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if let Some(body) = &mut self.body {
            body.field(name, value);
        }
    }

    fn answers_head(&self) -> bool {
        self.answers_head
    }

    fn part(&mut self, data: &[u8], last: bool) {
        if let Some(body) = &mut self.body {
            body.part(data, last);
        }
    }
}

impl<B: Body> Pipeline<B> {
    fn finish(&mut self, place: usize, result: Result<u16, Failure>, unprocessed: bool) {
        let pending = self.exchanges[place].as_mut();
        if let Some(pending) = pending.filter(|pending| pending.outcome.is_none()) {
            pending.outcome = Some((result, unprocessed));
            self.active -= 1;
            self.finished.push(place);
        }
    }

    /// Completes the first exchange in the queue, which was answered.
    fn answered(&mut self) {
        let (Some(Turn { place, .. }), Some(head)) = (self.order.pop_front(), self.reader.head()) else {
            return;
        };
        self.note_bytes(place);
        self.reader.await_next();
        self.finish(place, Ok(head.status), false);
        if !head.leaves_connection_open() {
            self.closing = true;
            for Turn { place, .. } in std::mem::take(&mut self.order) {
                self.finish(place, Err(Fault::ClosedEarly.into()), true);
            }
        }
    }

    /// Gives surplus bytes as a failure to the response before them, if the same input answered it. Returns
    /// whether it did.
    fn blame(&mut self, place: usize, surplus: Failure) -> bool {
        let pending = self.exchanges[place].as_mut();
        let outcome = pending.and_then(|pending| pending.outcome.as_mut());
        match outcome {
            Some((result @ Ok(_), _)) => {
                *result = Err(surplus);
                true
            }
            _ => false,
        }
    }

    fn note_bytes(&mut self, place: usize) {
        if let Some(pending) = &mut self.exchanges[place] {
            pending.received_bytes = self.reader.received_bytes();
            pending.body_bytes = self.reader.body_bytes();
        }
    }
}

fn receiver<B>(exchanges: &mut [Option<Pending<B>>], turn: Turn) -> Receiver<'_, B> {
    let pending = exchanges[turn.place].as_mut();
    let awaited = pending.filter(|pending| pending.outcome.is_none());
    Receiver {
        body: awaited.map(|pending| &mut pending.body),
        answers_head: turn.answers_head,
    }
}

impl<B: Body> Conversation for Pipeline<B> {
    type Request = [u8];
    type Body = B;
    const HAS_STREAMS: bool = false;

    fn new(limits: Limits) -> Self {
        Self {
            reader: ResponseReader::new(limits),
            outgoing: Vec::new(),
            exchanges: Vec::new(),
            free: Vec::new(),
            order: VecDeque::new(),
            finished: Vec::new(),
            active: 0,
            opened: 0,
            closing: false,
        }
    }

    fn is_open(&self) -> bool {
        !self.closing
    }

    fn has_room(&self) -> bool {
        !self.closing
    }

    fn has_unprocessed(&self) -> bool {
        let mut all = self.exchanges.iter().flatten();
        all.any(|pending| matches!(pending.outcome, Some((_, true))))
    }

    fn active(&self) -> u32 {
        self.active
    }

    fn opened(&self) -> u32 {
        self.opened
    }

    fn open(&mut self, request: &[u8], body: B) -> usize {
        self.outgoing.extend_from_slice(request);
        let answers_head = body.answers_head();
        let pending = Pending {
            body,
            sent_bytes: request.len() as u64,
            received_bytes: 0,
            body_bytes: 0,
            outcome: None,
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.exchanges.push(None);
            self.exchanges.len() - 1
        });
        self.exchanges[place] = Some(pending);
        self.order.push_back(Turn { place, answers_head });
        self.active += 1;
        self.opened = self.opened.saturating_add(1);
        place
    }

    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        let mut answered = None;
        while !bytes.is_empty() {
            let Some(turn) = self.order.front().copied() else {
                let surplus = self.reader.excess();
                // If no exchange is to blame, the next one gets the failure.
                let is_blamed = answered.is_some_and(|place| self.blame(place, surplus));
                self.closing |= is_blamed;
                return if is_blamed { Ok(()) } else { Err(surplus) };
            };
            let fed = self
                .reader
                .feed_first(bytes, &mut receiver(&mut self.exchanges, turn));
            self.note_bytes(turn.place);
            let (progress, taken) = fed.inspect_err(|failure| {
                if let (Fault::ExcessData, Some(place)) = (failure.fault, answered) {
                    self.blame(place, *failure);
                }
            })?;
            bytes = &bytes[taken..];
            if progress == Progress::Done {
                self.answered();
                answered = Some(turn.place);
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        let Some(turn) = self.order.front().copied() else {
            return;
        };
        let ended = self.reader.end(&mut receiver(&mut self.exchanges, turn));
        if ended.is_ok() {
            self.answered();
        }
    }

    fn take_finished(&mut self, into: &mut Vec<usize>) {
        into.clear();
        std::mem::swap(into, &mut self.finished);
    }

    fn has_ended(&self, place: usize) -> bool {
        matches!(self.exchanges.get(place), Some(Some(pending)) if pending.outcome.is_some())
    }

    fn take(&mut self, place: usize) -> Option<Ended<B>> {
        if !self.has_ended(place) {
            return None;
        }
        let pending = self.exchanges[place].take()?;
        // The slot of a cancelled exchange stays reserved while its response may still come.
        if !self.order.iter().any(|turn| turn.place == place) {
            self.free.push(place);
        }
        let (result, unprocessed) = pending.outcome?;
        Some(Ended {
            result,
            unprocessed,
            body: pending.body,
            received_bytes: pending.received_bytes,
            sent_bytes: pending.sent_bytes,
            body_bytes: pending.body_bytes,
        })
    }

    fn cancel(&mut self, place: usize, failure: Failure) {
        self.closing = true;
        let failure = match failure.fault {
            Fault::ResponseTimeout if self.order.front().is_some_and(|turn| turn.place == place) => {
                self.reader.late()
            }
            _ => failure,
        };
        self.finish(place, Err(failure), false);
    }

    fn fail_all(&mut self, failure: Failure) {
        self.closing = true;
        for Turn { place, .. } in std::mem::take(&mut self.order) {
            self.finish(place, Err(failure), false);
        }
    }

    fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Text(Vec<u8>, bool, bool);

    impl Body for Text {
        fn answers_head(&self) -> bool {
            self.2
        }

        fn part(&mut self, data: &[u8], last: bool) {
            self.0.extend_from_slice(data);
            self.1 |= last;
        }
    }

    fn opened(requests: usize) -> Pipeline<Text> {
        let mut pipeline = Pipeline::new(Limits::default());
        for place in 0..requests {
            assert_eq!(pipeline.open(b"GET / HTTP/1.1\r\n\r\n", Text::default()), place);
        }
        pipeline
    }

    fn ended(pipeline: &mut Pipeline<Text>) -> Vec<(usize, Result<u16, Fault>, bool, String)> {
        let mut finished = Vec::new();
        pipeline.take_finished(&mut finished);
        let mut take = |place| {
            let ended = pipeline.take(place).expect("it has ended");
            let body = String::from_utf8_lossy(&ended.body.0).into_owned();
            let result = ended.result.map_err(|failure| failure.fault);
            assert!(result.is_err() || ended.body.1);
            (place, result, ended.unprocessed, body)
        };
        finished.into_iter().map(&mut take).collect()
    }

    /// Opens a pipeline and sends this number of requests, HEAD or GET.
    fn asking(is_head: bool, requests: usize) -> Pipeline<Text> {
        let mut pipeline = Pipeline::new(Limits::default());
        for _ in 0..requests {
            pipeline.open(b"? / HTTP/1.1\r\n\r\n", Text(Vec::new(), false, is_head));
        }
        pipeline
    }

    fn whole(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn responses_reach_their_requests_however_the_bytes_are_divided() {
        let chunked = "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let interim = "HTTP/1.1 103 Early\r\n\r\n";
        let empty = "HTTP/1.1 204 None\r\n\r\n";
        let bytes = [&whole("one"), chunked, interim, &whole("three"), empty].concat();
        for piece in [1, 2, 7, 64, bytes.len()] {
            let mut pipeline = opened(4);
            let mut all = Vec::new();
            for part in bytes.as_bytes().chunks(piece) {
                pipeline.feed(part).expect("it is right");
                all.extend(ended(&mut pipeline));
            }
            let expected = [
                (0, Ok(200), false, "one".to_owned()),
                (1, Ok(404), false, "abc".to_owned()),
                (2, Ok(200), false, "three".to_owned()),
                (3, Ok(204), false, String::new()),
            ];
            assert_eq!(all, expected, "pieces of {piece}");
            assert_eq!((pipeline.active(), pipeline.is_open()), (0, true));
            let excess = pipeline.feed(b"H").expect_err("nobody asked");
            assert_eq!(excess.fault, Fault::ExcessData);
        }
    }

    #[test]
    fn requests_after_the_last_response_were_not_processed() {
        let mut pipeline = opened(3);
        let last = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        pipeline.feed(last.as_bytes()).expect("it is right");
        let closed = |place| (place, Err(Fault::ClosedEarly), true, String::new());
        let expected = [(0, Ok(200), false, String::new()), closed(1), closed(2)];
        assert_eq!(ended(&mut pipeline), expected);
        assert!(!pipeline.is_open());
    }

    #[test]
    fn a_body_may_end_with_the_connection_and_later_requests_were_not_processed() {
        let mut pipeline = opened(2);
        pipeline.feed(b"HTTP/1.1 200 OK\r\n\r\nabc").expect("it is right");
        pipeline.end();
        let expected = [
            (0, Ok(200), false, "abc".to_owned()),
            (1, Err(Fault::ClosedEarly), true, String::new()),
        ];
        assert_eq!(ended(&mut pipeline), expected);
    }

    #[test]
    fn a_late_request_fails_and_later_requests_get_their_own_responses() {
        let mut pipeline = opened(2);
        pipeline.cancel(0, Fault::ResponseTimeout.into());
        assert_eq!(ended(&mut pipeline)[0].1, Err(Fault::ResponseTimeout));
        assert!(!pipeline.has_room());
        let bytes = [whole("late"), whole("mine")].concat();
        pipeline.feed(bytes.as_bytes()).expect("it is right");
        assert_eq!(ended(&mut pipeline), [(1, Ok(200), false, "mine".to_owned())]);
        assert_eq!(pipeline.active(), 0);
    }

    #[test]
    fn a_response_that_stops_is_reported_with_its_length() {
        let mut pipeline = opened(2);
        let begun = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc";
        pipeline.feed(begun.as_bytes()).expect("it is right");
        for (place, words) in [(0, "received 3 bytes, expected 5"), (1, "did not end in time")] {
            pipeline.cancel(place, Fault::ResponseTimeout.into());
            let failure = pipeline.take(place).expect("it has ended").result;
            assert!(failure.expect_err("it is late").to_string().ends_with(words));
        }
    }

    #[test]
    fn a_body_where_none_is_allowed_fails_its_response_and_those_behind_it() {
        let empty = "HTTP/1.1 204 None\r\n\r\n";
        for (is_head, head, said) in [
            (true, whole("abc"), "a response to HEAD has no body"),
            (
                false,
                format!("{empty}abc"),
                "a response with status 204 has no body",
            ),
        ] {
            let failed = |pipeline: &mut Pipeline<Text>, place| {
                let failure = pipeline.take(place).expect("it has ended").result;
                let failure = failure.expect_err("a body came");
                assert_eq!(failure.fault, Fault::ExcessData);
                assert!(failure.to_string().contains(said), "{failure}");
            };
            // With a single response, the failure belongs to that response.
            let mut alone = asking(is_head, 1);
            alone.feed(head.as_bytes()).expect("the response has the failure");
            failed(&mut alone, 0);
            assert!(!alone.is_open());
            // Before the next response.
            let mut two = asking(is_head, 2);
            let failure = two.feed(head.repeat(2).as_bytes()).expect_err("a body came");
            two.fail_all(failure);
            failed(&mut two, 0);
            failed(&mut two, 1);
            // After the response was taken.
            let mut late = asking(is_head, 1);
            let (response, body) = head.split_at(head.len() - 3);
            late.feed(response.as_bytes()).expect("it is right");
            assert_eq!(
                late.take(0).expect("it has ended").result.ok(),
                Some(if is_head { 200 } else { 204 })
            );
            let failure = late.feed(body.as_bytes()).expect_err("a body came");
            assert!(failure.to_string().contains(said), "{failure}");
        }
    }

    #[test]
    fn a_late_response_to_head_has_no_body_either() {
        let mut pipeline = asking(true, 2);
        pipeline.cancel(0, Fault::ResponseTimeout.into());
        assert_eq!(ended(&mut pipeline)[0].1, Err(Fault::ResponseTimeout));
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        pipeline.feed(head.repeat(2).as_bytes()).expect("it is right");
        assert_eq!(ended(&mut pipeline), [(1, Ok(200), false, String::new())]);
    }

    #[test]
    fn a_broken_response_is_the_end_of_all() {
        let mut pipeline = opened(2);
        let bytes = [whole("one").as_str(), "no HTTP\r\n\r\n"].concat();
        let failure = pipeline.feed(bytes.as_bytes()).expect_err("it is none");
        pipeline.fail_all(failure);
        let ended = ended(&mut pipeline);
        assert_eq!(ended[0].1, Ok(200));
        assert_eq!(ended[1].1, Err(Fault::MalformedHead));
    }
}
