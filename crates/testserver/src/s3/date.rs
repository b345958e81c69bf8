//! Dates of S3: `20261129T124500Z` in signatures, `2026-11-29T12:45:00.000Z` in XML.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: i64 = 86_400;

/// Returns the Unix time of a date like `20261129T124500Z`; None if it is not one.
pub(super) fn parse_basic(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = &bytes[from..to];
        digits.iter().all(u8::is_ascii_digit).then(|| {
            digits
                .iter()
                .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let is_real =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    is_real.then(|| days_before(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second)
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that
/// the leap day is the last of a year.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns a time as XML has it: `2026-11-29T12:45:00.000Z`.
pub(super) fn extended(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let (days, in_day) = (seconds.div_euclid(DAY_S) + 719_468, seconds.rem_euclid(DAY_S));
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = days.div_euclid(146_097) * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (in_day / 3600, in_day / 60 % 60, in_day % 60);
    let ms = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_read_and_written_as_the_calendar_has_them() {
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
