//! Reads the XML of S3 responses: elements and their text.
//!
//! Attributes, comments and processing instructions are skipped. A document type is refused, so the only
//! entities are XML's five and character references. Depth, names and texts are limited.

use std::borrow::Cow;

/// S3 nests at most five elements.
const MOST_DEPTH: usize = 8;
const MOST_NAME_BYTES: usize = 128;
/// Maximum size of a text: a key has at most 1024 bytes, each of which may be escaped.
const MOST_TEXT_BYTES: usize = 16 * 1024;

/// The document is not the XML that S3 describes, or exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// End of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End<'a> {
    /// An element without child elements, and its text.
    Text(Cow<'a, str>),
    /// An element with child elements.
    Elements,
}

/// Calls `take` at the end of each element, with the names from the root to the element.
pub(crate) fn read<'a>(
    document: &'a [u8],
    take: &mut impl FnMut(&[&'a str], End<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut rest = std::str::from_utf8(document).map_err(|_| Malformed)?;
    rest = rest.strip_prefix('\u{feff}').unwrap_or(rest);
    let mut place = Place::default();
    while let Some(at) = rest.find('<') {
        place.add_text(&rest[..at])?;
        rest = &rest[at + 1..];
        rest = if let Some(after) = rest.strip_prefix("?") {
            after.split_once("?>").ok_or(Malformed)?.1
        } else if let Some(after) = rest.strip_prefix("!--") {
            after.split_once("-->").ok_or(Malformed)?.1
        } else if let Some(after) = rest.strip_prefix("![CDATA[") {
            let (raw, after) = after.split_once("]]>").ok_or(Malformed)?;
            place.add_raw(raw)?;
            after
        } else if let Some(after) = rest.strip_prefix('/') {
            let (name, after) = after.split_once('>').ok_or(Malformed)?;
            place.close(name.trim_end(), take)?;
            after
        } else {
            let (tag, after) = open_tag(rest)?;
            place.open(tag, take)?;
            after
        };
    }
    place.add_text(rest)?;
    if place.ended {
        Ok(())
    } else {
        Err(Malformed)
    }
}

/// The reader's position in a document.
#[derive(Default)]
struct Place<'a> {
    /// Names of the open elements.
    path: Vec<&'a str>,
    /// Text of the innermost element so far.
    text: Cow<'a, str>,
    has_elements: bool,
    /// Whether the root has ended.
    ended: bool,
}

impl<'a> Place<'a> {
    fn open(
        &mut self,
        tag: &'a str,
        take: &mut impl FnMut(&[&'a str], End<'a>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if self.ended || self.path.len() == MOST_DEPTH {
            return Err(Malformed);
        }
        let (tag, is_empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let name = tag.split_ascii_whitespace().next().ok_or(Malformed)?;
        self.path.push(local(name)?);
        self.text = Cow::Borrowed("");
        self.has_elements = false;
        if is_empty {
            self.close(name, take)?;
        }
        Ok(())
    }

    fn close(
        &mut self,
        name: &'a str,
        take: &mut impl FnMut(&[&'a str], End<'a>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if *self.path.last().ok_or(Malformed)? != local(name)? {
            return Err(Malformed);
        }
        let text = std::mem::take(&mut self.text);
        let end = if self.has_elements {
            End::Elements
        } else {
            End::Text(text)
        };
        take(&self.path, end)?;
        self.has_elements = true;
        self.path.pop();
        self.ended = self.path.is_empty();
        Ok(())
    }

    fn add_text(&mut self, more: &'a str) -> Result<(), Malformed> {
        add_text(&mut self.text, more, self.path.is_empty())
    }

    /// Adds text without references.
    fn add_raw(&mut self, raw: &str) -> Result<(), Malformed> {
        if self.path.is_empty() || self.text.len() + raw.len() > MOST_TEXT_BYTES {
            return Err(Malformed);
        }
        self.text.to_mut().push_str(raw);
        Ok(())
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
