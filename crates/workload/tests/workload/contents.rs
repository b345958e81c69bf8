//! Contents of the files: valid, of exact length, incompressible, all different, and always the same.

use std::collections::HashSet;
use std::io::Write;

use dyno_workload::{Extension, File, Tree};
use flate2::{write::DeflateEncoder, Compression};

fn check_gif(file: &File) {
    let content = file.content();
    let mut reader = content.as_slice();
    let mut decoder = gif::DecodeOptions::new()
        .read_info(&mut reader)
        .expect("a GIF head");
    let frame = decoder.read_next_frame().expect("a frame").expect("one image");
    assert_eq!(
        (frame.width, frame.height, frame.buffer.as_ref()),
        (1, 1, &[0][..]),
        "{}",
        file.path
    );
    assert!(
        decoder.read_next_frame().expect("a trailer").is_none(),
        "{}",
        file.path
    );
    drop(decoder);
    assert!(
        reader.is_empty() && content.ends_with(b"\0\x3b"),
        "{}: bytes after the trailer",
        file.path
    );
}

fn check_html(file: &File) {
    // ISO-8859-1: each byte is the character of the same number.
    let page: String = file.content().into_iter().map(char::from).collect();
    assert!(page.starts_with("<!DOCTYPE HTML PUBLIC"), "{}", file.path);
    assert!(page.contains("charset=iso-8859-1"), "{}", file.path);
    let (_, body) = page.split_once("<p>").expect("a paragraph begins");
    let (text, end) = body.split_once("</p>").expect("the paragraph ends");
    assert_eq!(end, "\n</body>\n</html>\n", "{}", file.path);
    let plain = |character: char| !character.is_control() && !"<>&".contains(character);
    assert!(
        text.chars().all(plain),
        "{}: markup or controls in the text",
        file.path
    );
}

/// Returns the compressed size as a share of the original size.
fn share_left(content: &[u8]) -> f64 {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).expect("memory takes everything");
    let compressed = encoder.finish().expect("memory takes everything");
    compressed.len() as f64 / content.len() as f64
}

#[test]
fn every_file_has_exactly_its_declared_size() {
    let tree = Tree::load();
    assert_eq!(tree.files().len(), 6001);
    let lengths = tree.files().iter().map(|file| {
        let bytes = file.content().len() as u64;
        assert_eq!(bytes, file.bytes, "{}", file.path);
        bytes
    });
    assert_eq!(lengths.sum::<u64>(), 60_710_378);
    assert_eq!(tree.bytes(), 60_710_378);
}

#[test]
fn every_file_decodes_as_its_declared_type() {
    // Decode all files of the fraction class, and every 50th file of the others. Their sub-blocks end
    // differently.
    let tree = Tree::load();
    for (number, file) in tree.files().iter().enumerate() {
        let extension = tree.classes()[usize::from(file.class.0)].extension;
        match extension {
            Extension::Gif if number % 50 == 0 || file.bytes > 27_000 => check_gif(file),
            Extension::Htm if number % 50 == 0 => check_html(file),
            _ => {}
        }
    }
}

#[test]
fn large_images_do_not_compress_and_pages_hardly() {
    let tree = Tree::load();
    let largest = tree.files().iter().max_by_key(|file| file.bytes).expect("a file");
    assert!(share_left(&largest.content()) >= 0.97);
    let page = tree
        .files()
        .iter()
        .find(|file| file.bytes == 22_132)
        .expect("a page");
    assert!(share_left(&page.content()) >= 0.92);
}

#[test]
fn no_two_files_have_the_same_content() {
    let tree = Tree::load();
    let digests: HashSet<u64> = tree.content_digests().iter().copied().collect();
    assert_eq!(digests.len(), tree.files().len());
}
