//! An HTTP/2 session with handwritten input that a real server cannot produce at the right moment.

use dyno_http::h2::{Request, RequestMaker, Session};
use dyno_http::{Body, Conversation, Limits, Shape};
use dyno_measure::{Failure, Fault, Side};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const WINDOW_BYTES: usize = 1 << 22;
const ALL_WINDOW_BYTES: usize = 1 << 24;
const FRAME_BYTES: usize = 16_384;

#[derive(Debug, Default)]
struct Counted {
    bytes: usize,
    ended: bool,
    is_head: bool,
}

impl Body for Counted {
    fn answers_head(&self) -> bool {
        self.is_head
    }

    fn part(&mut self, data: &[u8], last: bool) {
        assert!(!self.ended, "a part came after the last one");
        self.bytes += data.len();
        self.ended = last;
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn request() -> Request {
    RequestMaker::new("h", false, &Shape::default()).request("/")
}

/// Creates a session with `streams` streams whose heads have arrived.
fn session(streams: u32) -> Session<Counted> {
    let mut session = Session::new(Limits::default());
    session.feed(&frame(SETTINGS, 0, 0, &[])).expect("it is right");
    for number in 0..streams {
        session.open(&request(), Counted::default());
        let head = frame(HEADERS, 4, 2 * number + 1, &[0x88]);
        session.feed(&head).expect("it is right");
    }
    session
}

fn fault(result: Result<(), Failure>) -> Option<Fault> {
    result.err().map(|failure| failure.fault)
}

#[test]
fn data_beyond_what_was_sent_of_the_windows_is_refused() {
    let data = |stream| frame(DATA, 0, stream, &[0; FRAME_BYTES]);
    // Nothing is sent, so no window grows. A full stream window ends the stream, a full connection window the
    // connection.
    let mut one = session(1);
    for _ in 0..WINDOW_BYTES / FRAME_BYTES {
        one.feed(&data(1)).expect("it fits");
    }
    assert!(!one.has_ended(0));
    assert_eq!(fault(one.feed(&data(1))), None);
    let ended = one.take(0).expect("it has ended");
    assert_eq!(
        ended.result.expect_err("it was reset").fault,
        Fault::WindowExceeded
    );
    assert_eq!(ended.body.bytes, WINDOW_BYTES);
    let mut many = session(4);
    for round in 0..ALL_WINDOW_BYTES / FRAME_BYTES {
        let stream = 2 * (round % 4) as u32 + 1;
        many.feed(&data(stream)).expect("it fits");
    }
    assert_eq!(fault(many.feed(&data(1))), Some(Fault::WindowExceeded));
}

#[test]
fn windows_grow_with_what_was_sent_and_only_then() {
    let mut session = session(1);
    for _ in 0..4 * ALL_WINDOW_BYTES / FRAME_BYTES {
        session.outgoing().clear();
        session
            .feed(&frame(DATA, 0, 1, &[0; FRAME_BYTES]))
            .expect("it fits");
    }
    session.feed(&frame(DATA, 1, 1, &[])).expect("it is right");
    assert_eq!(
        session.take(0).expect("it has ended").body.bytes,
        4 * ALL_WINDOW_BYTES
    );
}

#[test]
fn a_response_that_stops_is_told_with_its_length() {
    let mut session = session(0);
    session.open(&request(), Counted::default());
    // Status 200 and content-length 5.
    let head = frame(HEADERS, 4, 1, &[0x88, 0x5c, 1, b'5']);
    session.feed(&head).expect("it is right");
    session.feed(&frame(DATA, 0, 1, b"abc")).expect("it is right");
    session.cancel(0, Fault::ResponseTimeout.into());
    let late = session.take(0).expect("it has ended").result.expect_err("late");
    assert!(
        late.to_string().ends_with("received 3 bytes, expected 5"),
        "{late}"
    );
}

#[test]
fn data_where_a_response_has_no_content_is_the_servers_error() {
    let length = [0x5c, 1, b'3'];
    for (is_head, status, said) in [
        (true, 0x88, "a response to HEAD has no body"),
        (false, 0x89, "a response with status 204 has no body"),
        (false, 0x8b, "a response with status 304 has no body"),
    ] {
        let heads = [vec![status], [&[status][..], &length].concat()];
        let data = [&b""[..], b"abc"];
        for (head, data) in heads.iter().flat_map(|head| data.map(|data| (head, data))) {
            let mut session = session(0);
            let body = Counted {
                is_head,
                ..Counted::default()
            };
            session.open(&request(), body);
            session.feed(&frame(HEADERS, 4, 1, head)).expect("it is right");
            session
                .feed(&frame(DATA, 1, 1, data))
                .expect("it concerns the stream alone");
            let result = session.take(0).expect("it has ended").result;
            // An empty frame that ends the stream is not content.
            assert_eq!(result.is_ok(), data.is_empty(), "{said}: {result:?}");
            if let Err(failure) = result {
                assert_eq!(
                    (failure.fault.side(), failure.fault),
                    (Side::Server, Fault::ExcessData)
                );
                assert!(failure.to_string().contains(said), "{failure}");
            }
        }
    }
}

#[test]
fn late_data_of_a_cancelled_stream_is_nobodys_and_bounded() {
    let mut session = session(1);
    // The frame is divided where the stream is cancelled and its slot reused.
    let late = frame(DATA, 0, 1, &[7; 100]);
    session.feed(&late[..50]).expect("it is right");
    session.cancel(0, Fault::ResponseTimeout.into());
    assert!(session.take(0).expect("it has ended").result.is_err());
    assert_eq!(session.open(&request(), Counted::default()), 0);
    session.feed(&late[50..]).expect("it was under way");
    session.feed(&frame(HEADERS, 4, 3, &[0x88])).expect("it is right");
    session.feed(&frame(DATA, 1, 3, b"hello")).expect("it is right");
    assert_eq!(session.take(0).expect("it has ended").body.bytes, 5);
    let mut fed = 0;
    let refused = loop {
        session.outgoing().clear();
        match session.feed(&frame(DATA, 0, 1, &[7; 1000])) {
            Ok(()) => fed += 1000,
            Err(failure) => break failure,
        }
        assert!(fed <= WINDOW_BYTES, "it never ends");
    };
    assert_eq!(refused.fault, Fault::WindowExceeded);
}

#[test]
fn answers_to_a_server_that_does_not_read_are_bounded() {
    let mut session = session(1);
    let pings = [frame(PING, 0, 0, &[0; 8]).repeat(500), frame(DATA, 0, 1, b"x")].concat();
    let refused = loop {
        if let Err(failure) = session.feed(&pings) {
            break failure;
        }
        assert!(session.outgoing().len() < 1 << 20, "it grows without end");
    };
    assert_eq!(refused.fault, Fault::FrameFlood);
}

fn setting(name: u16, value: u32) -> Vec<u8> {
    frame(
        SETTINGS,
        0,
        0,
        &[&name.to_be_bytes()[..], &value.to_be_bytes()].concat(),
    )
}

fn grown(stream: u32, bytes: usize) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &(bytes as u32).to_be_bytes())
}

/// Removes the queued frames. Returns the stream, kind and length of each.
fn sent_frames(session: &mut Session<Counted>) -> Vec<(u32, u8, usize)> {
    let outgoing = std::mem::take(session.outgoing());
    session.all_sent();
    let mut rest = outgoing
        .strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap_or(&outgoing);
    let mut frames = Vec::new();
    while let [a, b, c, kind, _, stream @ ..] = rest {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let stream = stream.first_chunk().expect("a whole head");
        frames.push((u32::from_be_bytes(*stream), *kind, length));
        rest = &rest[9 + length..];
    }
    frames
}

/// Removes the queued frames. Returns the lengths of all DATA frames.
fn sent_data(session: &mut Session<Counted>) -> Vec<usize> {
    let mut lengths = Vec::new();
    while !session.outgoing().is_empty() {
        let frames = sent_frames(session).into_iter();
        lengths.extend(
            frames
                .filter(|(_, kind, _)| *kind == DATA)
                .map(|(_, _, length)| length),
        );
    }
    lengths
}

fn uploading(streams: usize, bytes: usize) -> Session<Counted> {
    let shape = Shape {
        method: "POST".into(),
        body: Some(vec![1; bytes]),
        ..Shape::default()
    };
    let request = RequestMaker::new("h", false, &shape).request("/");
    let mut session = Session::new(Limits::default());
    session.feed(&frame(SETTINGS, 0, 0, &[])).expect("it is right");
    for _ in 0..streams {
        session.open(&request, Counted::default());
    }
    session
}

/// Feeds a frame until it counts as a flood. Returns how many times it was accepted.
fn fed_before_flood(session: &mut Session<Counted>, bytes: &[u8]) -> usize {
    for fed in 0..1_000_000 {
        session.outgoing().clear();
        if let Err(failure) = session.feed(bytes) {
            assert_eq!(failure.fault, Fault::FrameFlood);
            return fed;
        }
    }
    panic!("there is no end to it");
}

#[test]
fn windows_and_pings_that_answer_our_data_are_no_flood_however_large_the_upload() {
    // Like servers whose handlers read 4 KiB at a time: two window updates per read, and an occasional ping.
    const READ_BYTES: usize = 4096;
    const BODY_BYTES: usize = 8 << 20;
    let (streams, mut answered) = (8, 0);
    let mut session = uploading(streams, BODY_BYTES);
    let mut unread: Vec<usize> = sent_data(&mut session);
    assert!(unread.iter().sum::<usize>() <= 65_535);
    let mut left = vec![BODY_BYTES; streams];
    while left.iter().any(|left| *left > 0) {
        for (place, left) in left.iter_mut().enumerate() {
            let bytes = READ_BYTES.min(*left);
            let stream = 2 * place as u32 + 1;
            let answer = [grown(stream, bytes), grown(0, bytes)].concat();
            session.feed(&answer).expect("it answers what was sent");
            if answered % 4 == 0 {
                session
                    .feed(&frame(PING, 0, 0, &[0; 8]))
                    .expect("it times the way");
            }
            answered += 1;
            *left -= bytes;
            unread = sent_data(&mut session);
        }
    }
    assert!(answered > 16_000 && unread.is_empty());
}

#[test]
fn windows_beyond_what_our_data_can_be_answered_by_are_a_flood() {
    let idle = fed_before_flood(&mut uploading(0, 0), &grown(0, 1));
    for bytes in [1000, 16_384, 65_000] {
        let allowed = fed_before_flood(&mut uploading(1, bytes), &grown(0, 1));
        assert!(
            allowed > idle && allowed <= idle + bytes / 100,
            "{bytes}: {allowed}"
        );
    }
    // The credit for answers is limited, however much was sent.
    let mut patient = uploading(1, 256 << 20);
    patient
        .feed(&setting(INITIAL_WINDOW_SIZE, (1 << 31) - 1))
        .expect("it is right");
    patient.feed(&grown(0, 1 << 30)).expect("it is right");
    assert_eq!(sent_data(&mut patient).iter().sum::<usize>(), 256 << 20);
    assert!(fed_before_flood(&mut patient, &grown(0, 1)) < 300_000);
}

#[test]
fn settings_are_no_answer_to_our_data() {
    let idle = fed_before_flood(&mut uploading(0, 0), &frame(SETTINGS, 0, 0, &[]));
    let uploading = fed_before_flood(&mut uploading(1, 65_000), &frame(SETTINGS, 0, 0, &[]));
    assert_eq!(idle, uploading);
}

#[test]
fn resets_that_end_requests_are_no_flood() {
    let mut session = session(0);
    for number in 0..3000u32 {
        let place = session.open(&request(), Counted::default());
        let reset = frame(RST_STREAM, 0, 2 * number + 1, &7u32.to_be_bytes());
        session.feed(&reset).expect("it ends a request");
        assert!(session.take(place).expect("it has ended").unprocessed);
    }
}

/// Opens streams while there is room, at most 1,000. Returns their number.
fn open_all(session: &mut Session<Counted>) -> usize {
    let room = |session: &mut Session<Counted>| {
        session
            .has_room()
            .then(|| session.open(&request(), Counted::default()))
    };
    (0..1000).map_while(|_| room(session)).count()
}

#[test]
fn no_more_streams_are_opened_than_the_last_settings_allow() {
    // Without settings, the recommended minimum applies.
    let mut session = Session::new(Limits::default());
    assert_eq!(open_all(&mut session), 100);
    // Settings without a limit mean an unlimited number.
    session.feed(&frame(SETTINGS, 0, 0, &[])).expect("it is right");
    assert_eq!(open_all(&mut session), 1000);
    let mut session = Session::new(Limits::default());
    session
        .feed(&setting(MAX_CONCURRENT_STREAMS, 5))
        .expect("it is right");
    assert_eq!(open_all(&mut session), 5);
    // A lower limit ends no stream, but none may be opened until enough have ended.
    session
        .feed(&setting(MAX_CONCURRENT_STREAMS, 2))
        .expect("it is right");
    for stream in [1, 3, 5] {
        assert_eq!(open_all(&mut session), 0);
        session
            .feed(&frame(HEADERS, 5, stream, &[0x88]))
            .expect("it is right");
    }
    assert_eq!(open_all(&mut session), 0);
    session.feed(&frame(HEADERS, 5, 7, &[0x88])).expect("it is right");
    assert_eq!((session.active(), open_all(&mut session)), (1, 1));
    session
        .feed(&setting(MAX_CONCURRENT_STREAMS, 0))
        .expect("it is right");
    session
        .feed(&setting(MAX_CONCURRENT_STREAMS, 4))
        .expect("it is right");
    assert_eq!(open_all(&mut session), 2);
}

#[test]
fn a_refusal_is_the_servers_within_its_limit_and_ours_beyond_it() {
    let refused = |stream| frame(RST_STREAM, 0, stream, &7u32.to_be_bytes());
    let mut session = Session::new(Limits::default());
    assert_eq!(open_all(&mut session), 100);
    session
        .feed(&setting(MAX_CONCURRENT_STREAMS, 4))
        .expect("it is right");
    for (place, stream, expected) in [
        (3, 7, Fault::StreamRefused),
        (4, 9, Fault::StreamsOverLimit),
        (99, 199, Fault::StreamsOverLimit),
    ] {
        session.feed(&refused(stream)).expect("it is right");
        let ended = session.take(place).expect("it has ended");
        assert_eq!(ended.result.expect_err("it was refused").fault, expected);
        assert!(ended.unprocessed);
    }
    // A reset for another reason does not say whether the request was processed.
    let cancelled = frame(RST_STREAM, 0, 1, &8u32.to_be_bytes());
    session.feed(&cancelled).expect("it is right");
    let ended = session.take(0).expect("it has ended");
    assert_eq!(ended.result.expect_err("it was reset").fault, Fault::StreamReset);
    assert!(!ended.unprocessed);
}

#[test]
fn streams_above_the_last_of_a_goaway_are_unprocessed_and_those_below_go_on() {
    let mut session = session(0);
    for _ in 0..3 {
        session.open(&request(), Counted::default());
    }
    let goaway = [3u32.to_be_bytes(), 0u32.to_be_bytes()].concat();
    session.feed(&frame(GOAWAY, 0, 0, &goaway)).expect("it is right");
    let ended = session.take(2).expect("it has ended");
    assert_eq!(ended.result.expect_err("it ends").fault, Fault::GoingAway);
    assert!(ended.unprocessed && !session.is_open());
    session.feed(&frame(HEADERS, 5, 3, &[0x88])).expect("it is right");
    assert_eq!(session.take(1).expect("it has ended").result, Ok(200));
}

fn uploading_freely(streams: usize) -> Session<Counted> {
    let mut session = uploading(streams, 8 << 20);
    session
        .feed(&setting(INITIAL_WINDOW_SIZE, (1 << 31) - 1))
        .expect("it is right");
    session.feed(&grown(0, 1 << 30)).expect("it is right");
    session
}

#[test]
fn however_much_a_server_lets_us_send_little_is_before_what_it_is_answered_next() {
    let mut session = uploading_freely(8);
    let mut sent = 0;
    for _ in 0..20 {
        session
            .feed(&frame(PING, 0, 0, &[0; 8]))
            .expect("it times the way");
        assert!(session.outgoing().len() < 300 * 1024);
        let frames = sent_frames(&mut session);
        assert!(frames.iter().any(|(_, kind, _)| *kind == PING), "it is answered");
        sent += frames.iter().map(|(_, _, length)| length).sum::<usize>();
    }
    assert!(sent > 4 << 20);
    sent += sent_data(&mut session).iter().sum::<usize>();
    assert!(sent >= 64 << 20, "all of it is sent in the end");
}

#[test]
fn uploads_take_turns() {
    let mut session = uploading_freely(8);
    sent_frames(&mut session);
    for _ in 0..20 {
        let frames = sent_frames(&mut session);
        let streams: Vec<u32> = frames.iter().map(|(stream, ..)| *stream).collect();
        for turns in streams.windows(8) {
            let mut once = turns.to_vec();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), 8, "{streams:?}");
        }
    }
}

#[test]
fn nothing_more_is_sent_of_a_request_that_has_ended() {
    let mut session = uploading_freely(2);
    let reset = frame(RST_STREAM, 0, 1, &2u32.to_be_bytes());
    session.feed(&reset).expect("it ends a request");
    session
        .feed(&frame(HEADERS, 5, 3, &[0x88]))
        .expect("it is answered early");
    sent_frames(&mut session);
    assert_eq!(
        sent_data(&mut session),
        [0_usize; 0],
        "nobody has taken what became of them"
    );
    for place in 0..2 {
        session.take(place).expect("it has ended");
        session.open(&request(), Counted::default());
    }
    assert_eq!(sent_data(&mut session), [0_usize; 0], "others have their places");
}

#[test]
fn windows_count_as_sent_although_an_upload_goes_on() {
    let mut session = uploading_freely(8);
    session.feed(&frame(HEADERS, 4, 1, &[0x88])).expect("it is right");
    let data = frame(DATA, 0, 1, &[0; FRAME_BYTES]).repeat(16);
    for _ in 0..2 * ALL_WINDOW_BYTES / (16 * FRAME_BYTES) {
        session.feed(&data).expect("there is room");
        sent_frames(&mut session);
        assert!(!session.outgoing().is_empty(), "the upload goes on");
    }
}
