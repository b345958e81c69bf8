//! XML that the server writes, and the two documents that it reads: `Delete` and `CompleteMultipartUpload`.

use std::fmt::Write as _;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";
/// Maximum number of elements and texts in a document of a client: 10,000 parts with their elements.
const MOST_PIECES: usize = 200_000;

/// Writes a document; `finish` closes the open elements.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    open: Vec<&'static str>,
}

impl Writer {
    /// Opens the document's element, in the namespace of S3.
    pub(super) fn open_root(&mut self, name: &'static str) {
        let _ = write!(
            self.text,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{name} xmlns=\"{NAMESPACE}\">"
        );
        self.open.push(name);
    }

    /// Opens the document's element without a namespace, as in error documents.
    pub(super) fn open_plain(&mut self, name: &'static str) {
        self.text.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        self.open(name);
    }

    /// Returns a document of one element with a text, in the namespace of S3.
    pub(super) fn root_text(mut self, name: &'static str, text: &str) -> Vec<u8> {
        self.open_root(name);
        self.escaped(text);
        self.finish()
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

    fn escaped(&mut self, text: &str) {
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

/// A piece of a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Open(&'a str),
    Close(&'a str),
    Text(String),
}

/// Returns the pieces of a document, without white space between elements; None if it is malformed.
/// Prefixes of names and attributes are left out. Declarations of entities are refused.
pub(super) fn pieces(document: &[u8]) -> Option<Vec<Piece<'_>>> {
    let mut rest = std::str::from_utf8(document).ok()?.trim_start_matches('\u{feff}');
    let mut pieces = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    while !rest.is_empty() {
        if pieces.len() >= MOST_PIECES {
            return None;
        }
        let Some(tag) = rest.strip_prefix('<') else {
            let end = rest.find('<').unwrap_or(rest.len());
            if !rest[..end].trim().is_empty() {
                open.last()?;
                pieces.push(Piece::Text(unescape(&rest[..end])?));
            }
            rest = &rest[end..];
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
        if let Some(name) = inside.strip_prefix('/') {
            let name = local(name);
            if open.pop() != Some(name) {
                return None;
            }
            pieces.push(Piece::Close(name));
            continue;
        }
        let name = local(inside.trim_end_matches('/'));
        pieces.push(Piece::Open(name));
        if inside.ends_with('/') {
            pieces.push(Piece::Close(name));
        } else {
            open.push(name);
        }
    }
    open.is_empty().then_some(pieces)
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

/// Returns the fields of each element `name` directly below the document's element, as names and texts.
pub(super) fn records(document: &[u8], root: &str, name: &str) -> Option<Vec<Vec<(String, String)>>> {
    let pieces = pieces(document)?;
    let mut found: Vec<Vec<(String, String)>> = Vec::new();
    let mut path: Vec<&str> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Open(element) => {
                if path.is_empty() && element != root {
                    return None;
                }
                path.push(element);
                match path[..] {
                    [_, record] if record == name => found.push(Vec::new()),
                    [_, record, field] if record == name => {
                        found.last_mut()?.push((field.to_owned(), String::new()));
                    }
                    _ => {}
                }
            }
            Piece::Close(_) => {
                path.pop();
            }
            Piece::Text(text) => {
                if let [_, record, _] = path[..] {
                    if record == name {
                        found.last_mut()?.last_mut()?.1 = text;
                    }
                }
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut xml = Writer::default();
        xml.open_root("Delete");
        xml.open("Object");
        xml.text("Key", "a<b>&\"c\u{1}ä");
        xml.close();
        xml.open("Object");
        xml.text("Key", "");
        let document = xml.finish();
        let found = records(&document, "Delete", "Object").expect("well-formed");
        let key = |text: &str| vec![("Key".to_owned(), text.to_owned())];
        assert_eq!(found, [key("a<b>&\"c\u{1}ä"), key("")]);
        assert_eq!(records(&document, "Other", "Object"), None);
    }

    #[test]
    fn prefixes_comments_and_empty_elements_are_read() {
        let document =
            b"<?xml version='1.0'?><!-- <a> --><s:Delete xmlns:s='x'><Quiet>true</Quiet><s:Object>\
            <s:Key>k</s:Key><VersionId/></s:Object></s:Delete>";
        let found = records(document, "Delete", "Object").expect("well-formed");
        let field = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(found, [vec![field("Key", "k"), field("VersionId", "")]]);
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
            assert_eq!(pieces(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(pieces(b"\xff"), None);
    }
}
