//! Name patterns, for protocols whose servers list directories without matching names.

/// Matches a name against a pattern of `*` and `?` like a shell: case matters, and `*.*` requires a dot.
pub fn matches_pattern(pattern: &str, name: &[u8]) -> bool {
    let pattern = pattern.as_bytes();
    let (mut at, mut star) = ((0, 0), None);
    while at.1 < name.len() {
        match pattern.get(at.0) {
            Some(b'*') => {
                star = Some(at);
                at.0 += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[at.1] => at = (at.0 + 1, at.1 + 1),
            _ => match &mut star {
                Some((begin, from)) => {
                    *from += 1;
                    at = (*begin + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[at.0..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("aaa*", "aaa1", true),
            ("aaa*", "baaa1", false),
            ("*.doc", "a.b.doc", true),
            ("*.doc", "a.docx", false),
            ("?a*b?", "xaybbz", true),
            ("?", "", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
        ] {
            assert_eq!(
                matches_pattern(pattern, name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }
}
