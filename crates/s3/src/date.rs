//! Time of a request in the form that signatures use.

/// Seconds per day, without leap seconds, as in Unix time.
const DAY_S: u64 = 86_400;

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
        let (year, month, day) = date_of(unix_s / DAY_S);
        let second = unix_s % DAY_S;
        let mut text = *b"00000000T000000Z";
        let mut put = |at: usize, digits: usize, mut number: u64| {
            for place in (at..at + digits).rev() {
                text[place] = b'0' + u8::try_from(number % 10).unwrap_or(0);
                number /= 10;
            }
        };
        put(0, 4, year);
        put(4, 2, month);
        put(6, 2, day);
        put(9, 2, second / 3600);
        put(11, 2, second / 60 % 60);
        put(13, 2, second % 60);
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

/// Returns year, month and day of a number of days since 1970 (Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `civil_from_days`).
fn date_of(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::AmzTime;

    #[test]
    fn a_time_has_the_form_of_signatures() {
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
