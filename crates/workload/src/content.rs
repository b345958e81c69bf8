//! Contents of the documents: incompressible random bytes in a valid GIF or HTML wrapper, of exact length.
//!
//! A file's content depends only on its path, size and kind.

use crate::random::RandomStream;
use serde::Deserialize;

/// Type of the files of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extension {
    Gif,
    /// An HTML page in ISO-8859-1.
    Htm,
}

impl Extension {
    /// Returns the extension without its dot.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gif => "gif",
            Self::Htm => "htm",
        }
    }
}

/// Signature, one-pixel screen, black-and-white palette, start of a comment (GIF89a, sections 17-19 and 24).
const GIF_HEAD: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff\x21\xfe";
/// End of the comment, one black pixel, trailer (GIF89a, sections 20, 22 and 27).
const GIF_TAIL: &[u8] = b"\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b";
/// Maximum size of a sub-block: its length byte and data (GIF89a, section 15).
const GIF_BLOCK_BYTES: usize = 256;

const HTML_HEAD: &str =
    "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
    <html>\n<head>\n\
    <meta http-equiv=\"Content-Type\" content=\"text/html; charset=iso-8859-1\">\n\
    <title>Serverdyno</title>\n</head>\n<body>\n<p>";
const HTML_TAIL: &str = "</p>\n</body>\n</html>\n";

/// The 188 permitted bytes of ISO-8859-1 text, indexed by a random byte. Some occur twice.
///
/// Excluded are control characters (including 80 to 9F, which browsers read as another character set) and the
/// three characters that could start or end markup. 7.5 bits of each byte are random, so text compresses by
/// at most 7 %.
const TEXT: [u8; 256] = text_bytes();

const fn text_bytes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut filled = 0;
    let mut byte = 0_u8;
    while filled < table.len() {
        if is_text(byte) {
            table[filled] = byte;
            filled += 1;
        }
        byte = byte.wrapping_add(1);
    }
    table
}

const fn is_text(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e | 0xa0..=0xff) && !matches!(byte, b'<' | b'>' | b'&')
}

/// Returns the size of the wrapper. For a GIF, it includes one byte of comment, because an empty sub-block would end
/// the comment.
pub(crate) const fn least_bytes(extension: Extension) -> u64 {
    match extension {
        Extension::Gif => (GIF_HEAD.len() + 2 + GIF_TAIL.len()) as u64,
        Extension::Htm => (HTML_HEAD.len() + HTML_TAIL.len()) as u64,
    }
}

/// Returns the content of the file at `path`; `bytes` must be at least [`least_bytes`].
pub(crate) fn content(path: &str, extension: Extension, bytes: usize) -> Vec<u8> {
    let (head, tail) = match extension {
        Extension::Gif => (GIF_HEAD, GIF_TAIL),
        Extension::Htm => (HTML_HEAD.as_bytes(), HTML_TAIL.as_bytes()),
    };
    let mut content = vec![0; bytes];
    let (start, end) = (head.len(), bytes - tail.len());
    content[..start].copy_from_slice(head);
    content[end..].copy_from_slice(tail);
    let body = &mut content[start..end];
    RandomStream::of_file(path).fill(body);
    match extension {
        Extension::Gif => divide_into_sub_blocks(body),
        Extension::Htm => body.iter_mut().for_each(|byte| *byte = TEXT[usize::from(*byte)]),
    }
    content
}

/// Writes a length byte at the start of every sub-block. `body` must have at least two bytes.
fn divide_into_sub_blocks(body: &mut [u8]) {
    let mut start = 0;
    while start < body.len() {
        let left = body.len() - start;
        // A single remaining byte would be a length without data.
        let block = if left == GIF_BLOCK_BYTES + 1 {
            GIF_BLOCK_BYTES - 1
        } else {
            left.min(GIF_BLOCK_BYTES)
        };
        body[start] = u8::try_from(block - 1).expect("a sub-block has at most 255 bytes of data");
        start += block;
    }
}

#[cfg(test)]
mod tests {
    use super::{content, least_bytes};
    use crate::Extension;

    #[test]
    fn an_image_of_any_size_ends_with_a_complete_sub_block() {
        let least = usize::try_from(least_bytes(Extension::Gif)).expect("small");
        for bytes in least..least + 1024 {
            let image = content("/any", Extension::Gif, bytes);
            let mut rest = image.as_slice();
            let mut decoder = gif::DecodeOptions::new().read_info(&mut rest).expect("a head");
            let frame = decoder.read_next_frame().expect("whole sub-blocks");
            assert!(frame.is_some(), "{bytes} bytes");
            assert!(decoder.read_next_frame().expect("a trailer").is_none());
            drop(decoder);
            assert!(rest.is_empty(), "{bytes} bytes: {} after the trailer", rest.len());
        }
    }

    #[test]
    fn the_smallest_page_is_only_its_wrapper() {
        let least = usize::try_from(least_bytes(Extension::Htm)).expect("small");
        let page = content("/any", Extension::Htm, least);
        assert!(page.ends_with(b"<p></p>\n</body>\n</html>\n"));
    }
}
