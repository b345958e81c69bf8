//! Names in UTF-16, case-preserving and case-insensitive, and name patterns.

use crate::smb::status::Status;

/// A name in capitals, for look-ups.
pub(crate) type Key = Box<[u16]>;

/// Maximum length of a name in UTF-16 units, as in NTFS.
const MAX_NAME_UNITS: usize = 255;
const BACKSLASH: u16 = b'\\' as u16;
const DOT: u16 = b'.' as u16;

/// Returns a name in capitals by the rules of Windows, which map every unit to a single unit.
pub(crate) fn folded(name: &[u16]) -> Key {
    name.iter().map(|unit| fold(*unit)).collect()
}

fn fold(unit: u16) -> u16 {
    match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii() => u16::from(byte.to_ascii_uppercase()),
        _ => fold_beyond_ascii(unit),
    }
}

fn fold_beyond_ascii(unit: u16) -> u16 {
    let Some(character) = char::from_u32(u32::from(unit)) else {
        return unit; // Half of a surrogate pair.
    };
    let mut capitals = character.to_uppercase();
    match (capitals.next(), capitals.next()) {
        (Some(capital), None) => u16::try_from(u32::from(capital)).unwrap_or(unit),
        _ => unit,
    }
}

/// Returns the components of a path; none for the root.
pub(crate) fn parts(path: &[u16]) -> Result<Vec<&[u16]>, Status> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let path = path.strip_suffix(&[BACKSLASH]).unwrap_or(path);
    let parts: Vec<_> = path.split(|unit| *unit == BACKSLASH).collect();
    if parts.iter().all(|part| is_name(part)) {
        Ok(parts)
    } else {
        Err(Status::OBJECT_NAME_INVALID)
    }
}

fn is_name(part: &[u16]) -> bool {
    let allowed = |unit: &u16| {
        let byte = u8::try_from(*unit).unwrap_or(b'x');
        byte >= b' ' && !b"\"*/:<>?|\\".contains(&byte)
    };
    let dots = part == [DOT] || part == [DOT, DOT];
    !part.is_empty() && part.len() <= MAX_NAME_UNITS && !dots && part.iter().all(allowed)
}

/// A listing pattern in capitals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(Key);

impl Pattern {
    pub(crate) fn new(text: &[u16]) -> Self {
        let all = [u16::from(b'*')];
        Self(folded(if text.is_empty() { &all } else { text }))
    }

    /// Returns the name if the pattern has no wildcards.
    pub(crate) fn literal(&self) -> Option<&[u16]> {
        let wild = |unit: &u16| u8::try_from(*unit).is_ok_and(|byte| b"*?<>\"".contains(&byte));
        (!self.0.iter().any(wild)).then_some(&self.0)
    }

    /// Returns whether a name in capitals matches (MS-FSA 2.1.4.4). The time is proportional to the product
    /// of both lengths, for any pattern.
    pub(crate) fn matches(&self, name: &[u16]) -> bool {
        if *self.0 == [u16::from(b'*')] {
            return true;
        }
        let last_dot = name.iter().rposition(|unit| *unit == DOT).unwrap_or(name.len());
        // For each prefix of the name: whether the pattern so far matches it.
        let mut reached = vec![false; name.len() + 1];
        reached[0] = true;
        for wanted in &self.0 {
            let kind = u8::try_from(*wanted).unwrap_or(0);
            let mut next = vec![false; name.len() + 1];
            for at in 0..=name.len() {
                if kind == b'*' || kind == b'<' {
                    // `<` stops before the last dot, and matches everything after the dot.
                    let goes_on = at > 0 && next[at - 1] && (kind == b'*' || at - 1 != last_dot);
                    next[at] = reached[at] || goes_on;
                    continue;
                }
                if !reached[at] {
                    continue;
                }
                let unit = name.get(at).copied();
                match (kind, unit) {
                    (b'>', None) | (b'"', None) => next[at] = true,
                    (b'>', Some(DOT)) => next[at] = true,
                    (b'?' | b'>', Some(_)) | (b'"', Some(DOT)) => next[at + 1] = true,
                    (_, Some(unit)) if unit == *wanted => next[at + 1] = true,
                    _ => {}
                }
            }
            reached = next;
        }
        reached[name.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn check(pattern: &str, name: &str, expected: bool) {
        let matches = Pattern::new(&utf16(pattern)).matches(&folded(&utf16(name)));
        assert_eq!(matches, expected, "{pattern} and {name}");
    }

    #[test]
    fn patterns_match_exactly_the_expected_names() {
        for (pattern, name, expected) in [
            ("*", "anything", true),
            ("", "anything", true),
            ("*.txt", "A.TXT", true),
            ("*.txt", "a.txt.bak", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*b*d", "abcd", true),
            ("*b*d", "abce", false),
            ("Abc", "aBC", true),
            ("abc", "abcd", false),
            ("<.doc", "a.b.doc", true),
            ("<\"*", "readme", true),
            ("a>>>", "ab", true),
            ("\u{e9}*", "\u{c9}t\u{e9}", true),
        ] {
            check(pattern, name, expected);
        }
        check(&"*a".repeat(100), &"a".repeat(200), true);
        check(&"*a".repeat(100), &"b".repeat(250), false);
    }

    #[test]
    fn a_path_is_split_only_if_every_part_is_a_name() {
        assert_eq!(parts(&[]), Ok(vec![]));
        let path = utf16("a\\b.c\\");
        assert_eq!(parts(&path), Ok(vec![&utf16("a")[..], &utf16("b.c")[..]]));
        for wrong in [
            "\\a", "a\\\\b", "a/b", "..", "a\\.\\b", "a:b", "a*", "a\u{1}", "\\",
        ] {
            assert_eq!(parts(&utf16(wrong)), Err(Status::OBJECT_NAME_INVALID), "{wrong}");
        }
        assert!(parts(&utf16(&"n".repeat(256))).is_err());
    }
}
