//! Reads the XML of S3 responses: elements and their text.
//!
//! Attributes, comments and processing instructions are skipped. A document type is refused, so the only
//! entities are XML's five and character references. Depth, names and texts are limited.

use std::borrow::Cow;

/// Maximum nesting. S3 nests at most five elements.
const MOST_DEPTH: usize = 8;
const MOST_NAME_BYTES: usize = 128;
/// Maximum size of a text: a key has at most 1024 bytes, each of which may be escaped.
const MOST_TEXT_BYTES: usize = 16 * 1024;

/// The document is not valid in S3, or exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

#[derive(Debug, Default)]
pub(crate) struct Element<'a> {
    pub(crate) name: &'a str,
    /// Text of the element; meaningful only without child elements.
    text: Cow<'a, str>,
    elements: Vec<Element<'a>>,
}

impl<'a> Element<'a> {
    /// Returns the child elements with this name.
    pub(crate) fn all(&self, name: &'a str) -> impl Iterator<Item = &Element<'a>> {
        self.elements.iter().filter(move |element| element.name == name)
    }

    /// Returns the text of the last child element that has this name and no child elements of its own.
    pub(crate) fn text(&self, name: &'a str) -> Option<&str> {
        let texts = self.all(name).filter(|element| element.elements.is_empty());
        texts.last().map(|element| &*element.text)
    }
}

/// Returns the root element.
pub(crate) fn read(document: &[u8]) -> Result<Element<'_>, Malformed> {
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
            place.close(name.trim_end())?;
            after
        } else {
            let (tag, after) = open_tag(rest)?;
            place.open(tag)?;
            after
        };
    }
    place.add_text(rest)?;
    place.root.ok_or(Malformed)
}

/// Position of the reader in a document.
#[derive(Default)]
struct Place<'a> {
    /// The open elements.
    path: Vec<Element<'a>>,
    /// The root element, once it has ended.
    root: Option<Element<'a>>,
}

impl<'a> Place<'a> {
    fn open(&mut self, tag: &'a str) -> Result<(), Malformed> {
        if self.root.is_some() || self.path.len() == MOST_DEPTH {
            return Err(Malformed);
        }
        let (tag, is_empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let name = tag.split_ascii_whitespace().next().ok_or(Malformed)?;
        self.path.push(Element {
            name: local(name)?,
            ..Element::default()
        });
        if is_empty {
            self.close(name)?;
        }
        Ok(())
    }

    fn close(&mut self, name: &'a str) -> Result<(), Malformed> {
        let ended = self.path.pop().ok_or(Malformed)?;
        if ended.name != local(name)? {
            return Err(Malformed);
        }
        match self.path.last_mut() {
            Some(parent) => parent.elements.push(ended),
            None => self.root = Some(ended),
        }
        Ok(())
    }

    fn add_text(&mut self, more: &'a str) -> Result<(), Malformed> {
        match self.path.last_mut() {
            Some(element) => add_text(&mut element.text, more),
            None => more.trim_ascii().is_empty().then_some(()).ok_or(Malformed),
        }
    }

    /// Adds text as it is, without resolving references.
    fn add_raw(&mut self, raw: &str) -> Result<(), Malformed> {
        let text = &mut self.path.last_mut().ok_or(Malformed)?.text;
        if text.len() + raw.len() > MOST_TEXT_BYTES {
            return Err(Malformed);
        }
        text.to_mut().push_str(raw);
        Ok(())
    }
}

/// Returns a name without its namespace prefix.
fn local(name: &str) -> Result<&str, Malformed> {
    let name = name.rsplit(':').next().unwrap_or(name);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let sound = !name.is_empty() && name.len() <= MOST_NAME_BYTES && name.bytes().all(plain);
    sound.then_some(name).ok_or(Malformed)
}

/// Splits `text` into the inside of a tag and the rest. A `>` in an attribute's value does not end the tag.
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

/// Appends text with its references resolved.
fn add_text<'a>(text: &mut Cow<'a, str>, more: &'a str) -> Result<(), Malformed> {
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

    fn shown(element: &Element) -> String {
        if element.elements.is_empty() {
            return format!("{}={}", element.name, element.text);
        }
        let inside: Vec<String> = element.elements.iter().map(shown).collect();
        format!("{}({})", element.name, inside.join(" "))
    }

    #[test]
    fn elements_end_with_their_text_and_references_are_resolved() {
        let document = "\u{feff}<?xml version=\"1.0\"?>\n<a xmlns='http://x/>'><!-- <no> --><b>1&lt;&#34;&#x41;&amp;</b> <c/>\
                        <p:d x=\"/\"><e><![CDATA[<&>]]>!</e></p:d ></a>\n";
        let root = read(document.as_bytes()).expect("XML");
        assert_eq!(shown(&root), "a(b=1<\"A& c= d(e=<&>!))");
    }

    #[test]
    fn an_incomplete_document_or_one_beyond_a_limit_is_refused() {
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
            assert!(read(document.as_bytes()).is_err(), "{document:.60}");
        }
        assert!(read(("<a>".repeat(8) + &"</a>".repeat(8)).as_bytes()).is_ok());
    }
}
