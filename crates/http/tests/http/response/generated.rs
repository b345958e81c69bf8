//! A reader returns the same result however the response is divided.

use super::reading::{read, read_with, Ending};
use dyno_http::{Limits, ResponseReader};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, Index};

const LIMITS: Limits = Limits {
    head_bytes: 300,
    fields: 1000,
    body_bytes: 300,
};

fn cut<'a>(bytes: &'a [u8], places: &[Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts
        .zip(&ends)
        .map(|(start, end)| &bytes[start..*end])
        .collect()
}

/// Generates a valid response and its body.
fn right_response() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let chunks = vec(vec(any::<u8>(), 1..40), 0..5);
    (0..3usize, 0..3u8, chunks, "[a-z]{0,20}", any::<bool>()).prop_map(
        |(interim, framing, chunks, field, trailer)| {
            let body = chunks.concat();
            let mut response = b"HTTP/1.1 103 Early\r\nA: b\r\n\r\n".repeat(interim);
            response.extend(format!("HTTP/1.1 200 OK\r\nX: {field}\r\n").bytes());
            match framing {
                0 => {
                    response.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                    response.extend(&body);
                }
                1 => {
                    response.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                    for chunk in &chunks {
                        response.extend(format!("{:x};{field}\r\n", chunk.len()).bytes());
                        response.extend(chunk);
                        response.extend(b"\r\n");
                    }
                    response.extend(if trailer {
                        &b"0\r\nT: u\r\n\r\n"[..]
                    } else {
                        b"0\r\n\r\n"
                    });
                }
                _ => {
                    response.extend(b"Connection: close\r\n\r\n");
                    response.extend(&body);
                }
            }
            (response, body)
        },
    )
}

/// Generates protocol words mixed with noise. A parser gets further with these than with noise alone.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 100 C\r\n\r\n",
        "HTTP/1.1 204 N\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 400\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "\r\n",
        "\n",
        "\r",
        "5\r\nhello\r\n",
        "12c\r\n",
        "0\r\n\r\n",
        ";x",
        "hello",
        ": ",
    ]);
    let word = prop_oneof![4 => word.prop_map(|word| word.as_bytes().to_vec()), 1 => vec(any::<u8>(), 0..60)];
    vec(word, 0..14).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_response_is_read_completely_however_it_is_divided(
        (response, body) in right_response(),
        places in vec(any::<Index>(), 0..8),
    ) {
        let ending = read(cut(&response, &places), LIMITS);
        prop_assert!(
            matches!(&ending, Ending::Whole { status: 200, body: got, .. } if *got == body),
            "{ending:?}",
        );
    }

    #[test]
    fn any_bytes_give_one_result_however_they_are_divided(response in words(), places in vec(any::<Index>(), 0..8)) {
        prop_assert_eq!(read([&response[..]], LIMITS), read(cut(&response, &places), LIMITS));
        prop_assert_eq!(read([&response[..]], LIMITS), read(response.chunks(1), LIMITS));
    }

    #[test]
    fn a_damaged_response_gives_the_same_result_however_it_is_divided(
        (mut response, _) in right_response(),
        (place, byte) in any::<(Index, u8)>(),
        places in vec(any::<Index>(), 0..8),
    ) {
        let place = place.index(response.len());
        response[place] = byte;
        prop_assert_eq!(read([&response[..]], LIMITS), read(cut(&response, &places), LIMITS));
    }

    #[test]
    fn an_earlier_response_does_not_matter(before in words(), response in words()) {
        let mut reader = ResponseReader::new(LIMITS);
        read_with(&mut reader, [&before[..]]);
        prop_assert_eq!(read_with(&mut reader, [&response[..]]), read([&response[..]], LIMITS));
    }
}
