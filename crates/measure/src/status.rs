//! Status of a protocol in a failure: a number and the table that describes it. Each protocol maps its
//! statuses to a `Fault`.

use std::fmt;
use std::sync::Mutex;

/// Table of a protocol's statuses, or of the steps at which it may refuse a session.
#[derive(Debug)]
pub struct StatusTable {
    /// Unique name of the table.
    pub name: &'static str,
    /// Writes the text of a number. Servers may send any number.
    pub write: fn(u32, &mut fmt::Formatter<'_>) -> fmt::Result,
}

impl StatusTable {
    /// Returns the status with this number, as failures store it.
    pub const fn status(&'static self, code: u32) -> ProtocolStatus {
        ProtocolStatus { code, table: self }
    }
}

/// A number from a table. It needs no allocation; its text is generated on display.
#[derive(Clone, Copy)]
pub struct ProtocolStatus {
    pub code: u32,
    pub table: &'static StatusTable,
}

impl PartialEq for ProtocolStatus {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code && self.table.name == other.table.name
    }
}

impl Eq for ProtocolStatus {}

impl fmt::Display for ProtocolStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.table.write)(self.code, formatter)
    }
}

impl fmt::Debug for ProtocolStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:#010x}", self.table.name, self.code)
    }
}

/// Texts from servers, stored so that failures can show them. A failure stores the index of its text. The
/// number of texts is limited.
#[derive(Debug)]
pub struct KeptTexts(Mutex<Vec<String>>);

impl KeptTexts {
    const MOST: usize = 100;

    #[must_use]
    #[allow(clippy::new_without_default)] // For statics only.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Stores a text unless it is already there, and returns its index. If the table is full, returns an
    /// index without a text.
    pub fn keep(&self, text: String) -> u32 {
        let Ok(mut texts) = self.0.lock() else {
            return u32::MAX;
        };
        let place = texts.iter().position(|kept| *kept == text).unwrap_or_else(|| {
            if texts.len() < Self::MOST {
                texts.push(text);
                return texts.len() - 1;
            }
            Self::MOST
        });
        u32::try_from(place).unwrap_or(u32::MAX)
    }

    #[must_use]
    pub fn get(&self, place: u32) -> Option<String> {
        self.0.lock().ok()?.get(place as usize).cloned()
    }
}

/// Returns the printable ASCII characters of a server's text, at most `most` of them.
#[must_use]
pub fn plain_text(text: &[u8], most: usize) -> String {
    let is_plain = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    text.iter()
        .filter(is_plain)
        .take(most)
        .map(|byte| char::from(*byte))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_once_and_their_number_is_limited() {
        let texts = KeptTexts::new();
        assert_eq!(texts.keep("a".to_owned()), texts.keep("a".to_owned()));
        let places: Vec<_> = (0..200).map(|number| texts.keep(number.to_string())).collect();
        assert_eq!(texts.get(places[0]).as_deref(), Some("0"));
        assert_eq!(texts.get(places[199]), None);
        assert_eq!(plain_text(b"too\x1b[2J many \xff\n", 9), "too[2J ma");
    }

    static ONE: StatusTable = StatusTable {
        name: "one",
        write: |code, formatter| write!(formatter, "status {code}"),
    };
    static OTHER: StatusTable = StatusTable { name: "other", ..ONE };

    #[test]
    fn statuses_are_equal_only_within_one_table() {
        let of = |table, code| ProtocolStatus { code, table };
        assert_eq!(of(&ONE, 404), of(&ONE, 404));
        assert_ne!(of(&ONE, 404), of(&ONE, 405));
        assert_ne!(of(&ONE, 404), of(&OTHER, 404));
        assert_eq!(of(&ONE, 404).to_string(), "status 404");
    }
}
