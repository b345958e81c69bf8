//! Dates in S3: `20261129T124500Z` in signatures, `2026-11-29T12:45:00.000Z` in XML.

use std::time::SystemTime;
use time::{Date, Month, OffsetDateTime, Time};

/// Returns the Unix time of a date like `20261129T124500Z`, or None if the text is not such a date.
pub(super) fn parse_basic(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u16> {
        let digits = &bytes[from..to];
        digits.iter().all(u8::is_ascii_digit).then(|| {
            digits
                .iter()
                .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
        })
    };
    let part = |from: usize| u8::try_from(number(from, from + 2)?).ok();
    let date =
        Date::from_calendar_date(number(0, 4)?.into(), Month::try_from(part(4)?).ok()?, part(6)?).ok()?;
    let time = Time::from_hms(part(9)?, part(11)?, part(13)?).ok()?;
    Some(date.with_time(time).assume_utc().unix_timestamp())
}

/// Returns a time in the format of S3's XML: `2026-11-29T12:45:00.000Z`.
pub(super) fn extended(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second, ms) = (time.hour(), time.minute(), time.second(), time.millisecond());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn dates_are_parsed_and_written_according_to_the_calendar() {
        for (basic, unix_s, text) in [
            ("19700101T000000Z", 0, "1970-01-01T00:00:00.000Z"),
            ("20000229T235959Z", 951_868_799, "2000-02-29T23:59:59.000Z"),
            ("20130524T000000Z", 1_369_353_600, "2013-05-24T00:00:00.000Z"),
            ("20261129T124500Z", 1_795_956_300, "2026-11-29T12:45:00.000Z"),
        ] {
            assert_eq!(parse_basic(basic), Some(unix_s), "{basic}");
            let time = UNIX_EPOCH + Duration::from_secs(unix_s.unsigned_abs());
            assert_eq!(extended(time), text);
        }
        for wrong in [
            "",
            "2013-05-24T00:00",
            "20131324T000000Z",
            "20130524T250000Z",
            "+0130524T000000Z",
        ] {
            assert_eq!(parse_basic(wrong), None, "{wrong}");
        }
    }
}
