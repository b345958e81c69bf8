//! Writes XML, and parses the two documents that the server reads: `Delete` and `CompleteMultipartUpload`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// Texts of an element's fields, by name.
pub(super) type Record = BTreeMap<String, String>;

/// Writes a document. `finish` closes the open elements.
#[derive(Debug)]
pub(super) struct Writer {
    text: String,
    open: Vec<&'static str>,
}

impl Writer {
    /// Opens the root element, in the namespace of S3.
    pub(super) fn new(root: &'static str) -> Self {
        Self::with(root, &format!(" xmlns=\"{NAMESPACE}\""))
    }

    /// Opens the root element without a namespace, as in error documents.
    pub(super) fn plain(root: &'static str) -> Self {
        Self::with(root, "")
    }

    fn with(root: &'static str, attribute: &str) -> Self {
        Self {
            text: format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root}{attribute}>"),
            open: vec![root],
        }
    }

    pub(super) fn open(&mut self, name: &'static str) {
        let _ = write!(self.text, "<{name}>");
        self.open.push(name);
    }

    pub(super) fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            let _ = write!(self.text, "</{name}>");
        }
    }

    pub(super) fn text(&mut self, name: &str, text: &str) {
        let _ = write!(self.text, "<{name}>");
        self.escaped(text);
        let _ = write!(self.text, "</{name}>");
    }

    /// Appends a text to the open element, escaped.
    pub(super) fn escaped(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                control if control < ' ' => {
                    let _ = write!(self.text, "&#x{:x};", u32::from(control));
                }
                other => self.text.push(other),
            }
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        while !self.open.is_empty() {
            self.close();
        }
        self.text.into_bytes()
    }
}

/// Returns the fields of each element `name` directly below the root element `root`, or None if the document
/// is malformed. Ignores namespace prefixes and attributes. Rejects entity declarations.
pub(super) fn records(document: &[u8], root: &str, name: &str) -> Option<Vec<Record>> {
    let mut rest = std::str::from_utf8(document).ok()?.trim_start_matches('\u{feff}');
    let mut found: Vec<Record> = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    while !rest.is_empty() {
        let Some(tag) = rest.strip_prefix('<') else {
            let (text, after) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
            rest = after;
            if !text.trim().is_empty() {
                open.last()?;
                let text = unescape(text)?;
                if let [_, record, field] = open[..] {
                    if record == name {
                        found.last_mut()?.insert(field.to_owned(), text);
                    }
                }
            }
            continue;
        };
        let end = if tag.starts_with("!--") {
            tag.find("-->")? + 2
        } else {
            tag.find('>')?
        };
        let inside = &tag[..end];
        rest = &tag[end + 1..];
        if inside.starts_with("!--") || inside.starts_with('?') {
            continue;
        }
        if inside.starts_with('!') {
            return None;
        }
        if let Some(ended) = inside.strip_prefix('/') {
            if open.pop() != Some(local(ended)) {
                return None;
            }
            continue;
        }
        open.push(local(inside.trim_end_matches('/')));
        match open[..] {
            [element] if element != root => return None,
            [_, record] if record == name => found.push(Record::new()),
            [_, record, field] if record == name => {
                found.last_mut()?.entry(field.to_owned()).or_default();
            }
            _ => {}
        }
        if inside.ends_with('/') {
            open.pop();
        }
    }
    open.is_empty().then_some(found)
}

/// Returns the name in a tag, without its prefix.
fn local(tag: &str) -> &str {
    let name = tag.split_ascii_whitespace().next().unwrap_or_default();
    name.rsplit(':').next().unwrap_or_default()
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let end = at + rest[at..].find(';')?;
        out.push(match &rest[at + 1..end] {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            number => {
                let number = number.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(digits) => u32::from_str_radix(digits, 16),
                    None => number.parse(),
                };
                char::from_u32(code.ok()?)?
            }
        });
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut xml = Writer::new("Delete");
        xml.open("Object");
        xml.text("Key", "a<b>&\"c\u{1}ä");
        xml.close();
        xml.open("Object");
        xml.text("Key", "");
        let document = xml.finish();
        let found = records(&document, "Delete", "Object").expect("well-formed");
        let key = |text: &str| Record::from([("Key".to_owned(), text.to_owned())]);
        assert_eq!(found, [key("a<b>&\"c\u{1}ä"), key("")]);
        assert_eq!(records(&document, "Other", "Object"), None);
    }

    #[test]
    fn prefixes_comments_and_empty_elements_are_parsed() {
        let document =
            b"<?xml version='1.0'?><!-- <a> --><s:Delete xmlns:s='x'><Quiet>true</Quiet><s:Object>\
            <s:Key>k</s:Key><VersionId/></s:Object></s:Delete>";
        let found = records(document, "Delete", "Object").expect("well-formed");
        let field = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(found, [Record::from([field("Key", "k"), field("VersionId", "")])]);
    }

    #[test]
    fn a_malformed_document_is_refused() {
        for wrong in [
            "<a>",
            "</a>",
            "<a></b>",
            "x",
            "<a>&x;</a>",
            "<a>&amp</a>",
            "<!DOCTYPE a><a></a>",
            "<a",
            "<a>&#xffffffff;</a>",
        ] {
            assert_eq!(records(wrong.as_bytes(), "a", "b"), None, "{wrong}");
        }
        assert_eq!(records(b"\xff", "a", "b"), None);
    }
}
