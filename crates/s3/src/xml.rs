//! Reads the XML of S3 responses: elements and their text.
//!
//! Attributes, comments and processing instructions are skipped. A document type is refused, so there are no entities
//! but the five of XML and character references. Depth, names and texts are limited.

use std::borrow::Cow;

/// S3 nests at most five elements.
const MOST_DEPTH: usize = 8;
const MOST_NAME_BYTES: usize = 128;
/// A key has at most 1024 bytes, each of which may be escaped.
const MOST_TEXT_BYTES: usize = 16 * 1024;

/// The document is not the XML that S3 describes, or exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// End of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End<'a> {
    /// An element without others, and its text.
    Text(Cow<'a, str>),
    /// An element with others.
    Elements,
}

/// Calls `take` at the end of each element, with the names from the root to the element.
pub(crate) fn read<'a>(
    document: &'a [u8],
    take: &mut impl FnMut(&[&'a str], End<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut rest = std::str::from_utf8(document).map_err(|_| Malformed)?;
    rest = rest.strip_prefix('\u{feff}').unwrap_or(rest);
    let mut path: Vec<&'a str> = Vec::with_capacity(MOST_DEPTH);
    let mut text: Cow<'a, str> = Cow::Borrowed("");
    let mut has_elements = false;
    let mut ended = false;
    while let Some(at) = rest.find('<') {
        add_text(&mut text, &rest[..at], path.is_empty())?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix("?") {
            rest = after.split_once("?>").ok_or(Malformed)?.1;
        } else if let Some(after) = rest.strip_prefix("!--") {
            rest = after.split_once("-->").ok_or(Malformed)?.1;
        } else if let Some(after) = rest.strip_prefix("![CDATA[") {
            let (raw, after) = after.split_once("]]>").ok_or(Malformed)?;
            if path.is_empty() || text.len() + raw.len() > MOST_TEXT_BYTES {
                return Err(Malformed);
            }
            text.to_mut().push_str(raw);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('/') {
            let (name, after) = after.split_once('>').ok_or(Malformed)?;
            let open = path.last().ok_or(Malformed)?;
            if *open != local(name.trim_end())? {
                return Err(Malformed);
            }
            let text = std::mem::take(&mut text);
            take(
                &path,
                if has_elements {
                    End::Elements
                } else {
                    End::Text(text)
                },
            )?;
            has_elements = true;
            path.pop();
            ended = path.is_empty();
            rest = after;
        } else {
            if ended || path.len() == MOST_DEPTH {
                return Err(Malformed);
            }
            let (tag, after) = open_tag(rest)?;
            rest = after;
            let (tag, is_empty) = match tag.strip_suffix('/') {
                Some(tag) => (tag, true),
                None => (tag, false),
            };
            let name = tag.split_ascii_whitespace().next().ok_or(Malformed)?;
            path.push(local(name)?);
            text = Cow::Borrowed("");
            has_elements = false;
            if is_empty {
                take(&path, End::Text(Cow::Borrowed("")))?;
                path.pop();
                has_elements = true;
                ended = path.is_empty();
            }
        }
    }
    add_text(&mut text, rest, true)?;
    if ended {
        Ok(())
    } else {
        Err(Malformed)
    }
}

/// Returns a name without its prefix.
fn local(name: &str) -> Result<&str, Malformed> {
    let name = name.rsplit(':').next().unwrap_or(name);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let sound = !name.is_empty() && name.len() <= MOST_NAME_BYTES && name.bytes().all(plain);
    sound.then_some(name).ok_or(Malformed)
}

/// Returns the inside of a tag, and what follows it. A `>` in an attribute's value does not end it.
fn open_tag(text: &str) -> Result<(&str, &str), Malformed> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'>') => return Ok((&text[..at], &text[at + 1..])),
            (None, b'<') => return Err(Malformed),
            _ => {}
        }
    }
    Err(Malformed)
}

/// Appends text with its references resolved. `outside`: only white space is allowed there.
fn add_text<'a>(text: &mut Cow<'a, str>, more: &'a str, outside: bool) -> Result<(), Malformed> {
    if outside {
        return more.trim_ascii().is_empty().then_some(()).ok_or(Malformed);
    }
    if text.len() + more.len() > MOST_TEXT_BYTES {
        return Err(Malformed);
    }
    if text.is_empty() && !more.contains('&') {
        *text = Cow::Borrowed(more);
        return Ok(());
    }
    let mut rest = more;
    while let Some((plain, after)) = rest.split_once('&') {
        let (reference, after) = after.split_once(';').ok_or(Malformed)?;
        let text = text.to_mut();
        text.push_str(plain);
        text.push(character(reference)?);
        rest = after;
    }
    text.to_mut().push_str(rest);
    Ok(())
}

fn character(reference: &str) -> Result<char, Malformed> {
    let number = |digits: &str, radix| {
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        all_digits.then(|| u32::from_str_radix(digits, radix).ok())?
    };
    let code = match reference {
        "amp" => return Ok('&'),
        "lt" => return Ok('<'),
        "gt" => return Ok('>'),
        "quot" => return Ok('"'),
        "apos" => return Ok('\''),
        _ => match reference.strip_prefix('#') {
            Some(text) => match text.strip_prefix('x') {
                Some(digits) => number(digits, 16),
                None => number(text, 10),
            },
            None => None,
        },
    };
    code.and_then(char::from_u32).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(document: &str) -> Result<Vec<String>, Malformed> {
        let mut found = Vec::new();
        read(document.as_bytes(), &mut |path, end| {
            found.push(match end {
                End::Text(text) => format!("{}={text}", path.join("/")),
                End::Elements => path.join("/"),
            });
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn elements_end_with_their_text_and_references_are_resolved() {
        let document = "\u{feff}<?xml version=\"1.0\"?>\n<a xmlns='http://x/>'><!-- <no> --><b>1&lt;&#34;&#x41;&amp;</b> <c/>\
                        <p:d x=\"/\"><e><![CDATA[<&>]]>!</e></p:d ></a>\n";
        assert_eq!(
            ends(document).expect("XML"),
            ["a/b=1<\"A&", "a/c=", "a/d/e=<&>!", "a/d", "a"]
        );
    }

    #[test]
    fn what_is_not_whole_or_exceeds_a_limit_is_refused() {
        let deep = "<a>".repeat(9) + &"</a>".repeat(9);
        let long = format!("<a>{}</a>", "x".repeat(MOST_TEXT_BYTES + 1));
        let name = format!("<{0}></{0}>", "n".repeat(MOST_NAME_BYTES + 1));
        for document in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "<a/>more",
            "<a/><b/>",
            "</a>",
            "<a b='></a>",
            "<a>&nbsp;</a>",
            "<a>&#xd800;</a>",
            "<a>&#+65;</a>",
            "<a>& </a>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
            "<a><!-- </a>",
            "<a<b></a>",
            &deep,
            &long,
            &name,
        ] {
            assert_eq!(ends(document), Err(Malformed), "{document:.60}");
        }
        assert!(ends(&("<a>".repeat(8) + &"</a>".repeat(8))).is_ok());
    }
}
