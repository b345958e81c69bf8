//! Time of a request in the format that signatures use.

use time::OffsetDateTime;

/// A time as `YYYYMMDDTHHMMSSZ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmzTime {
    unix_s: u64,
    text: [u8; 16],
}

impl AmzTime {
    /// Returns the text of a time in seconds since 1970.
    #[must_use]
    pub fn of(unix_s: u64) -> Self {
        let seconds = i64::try_from(unix_s).unwrap_or(i64::MAX);
        let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let mut text = *b"00000000T000000Z";
        let mut put = |at: usize, digits: usize, mut number: u32| {
            for place in (at..at + digits).rev() {
                text[place] = b'0' + u8::try_from(number % 10).unwrap_or(0);
                number /= 10;
            }
        };
        put(0, 4, time.year().unsigned_abs());
        put(4, 2, u8::from(time.month()).into());
        put(6, 2, time.day().into());
        put(9, 2, time.hour().into());
        put(11, 2, time.minute().into());
        put(13, 2, time.second().into());
        Self { unix_s, text }
    }

    #[must_use]
    pub fn unix_s(&self) -> u64 {
        self.unix_s
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// Returns the date as `YYYYMMDD`.
    #[must_use]
    pub fn date(&self) -> &str {
        &self.as_str()[..8]
    }
}

#[cfg(test)]
mod tests {
    use super::AmzTime;

    #[test]
    fn a_time_has_the_format_of_signatures() {
        for (unix_s, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_369_353_600, "20130524T000000Z"),
            (1_735_689_599, "20241231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(AmzTime::of(unix_s).as_str(), text);
        }
        assert_eq!(AmzTime::of(1_369_353_600).date(), "20130524");
    }
}
