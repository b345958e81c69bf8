//! Contents of a QUERY_DIRECTORY response: a chain of FileIdBothDirectoryInformation (MS-FSCC 2.4.21).

use super::bytes::{array, size_at, Parsed};
use super::malformed::{Field, Malformed};

/// Offset of the name in an entry, which is also the minimum length of an entry.
const NAME_OFFSET: usize = 104;
const NAME_LENGTH_OFFSET: usize = 60;
const DOT: [u8; 2] = *b".\0";

/// Returns the number of names in `entries`, without those of the directory itself and its parent.
///
/// # Errors
/// The chain leaves the buffer or goes backwards.
pub fn count_entries(entries: &[u8]) -> Parsed<u32> {
    let mut rest = entries;
    let mut count = 0;
    loop {
        let place = entries.len() - rest.len();
        let in_entry = |wrong: Malformed| wrong.behind(place);
        let next = size_at(rest, 0).map_err(in_entry)?;
        let name_bytes = size_at(rest, NAME_LENGTH_OFFSET).map_err(in_entry)?;
        let name = rest
            .get(NAME_OFFSET..)
            .and_then(|names| names.get(..name_bytes))
            .ok_or(Malformed::at(Field::FileNameLength, place + NAME_LENGTH_OFFSET))?;
        count += u32::from(!is_dots(name));
        if next == 0 {
            return Ok(count);
        }
        // Every step is at least as long as an entry's fixed part, so the chain ends.
        if next < NAME_OFFSET + name_bytes {
            return Err(Malformed::at(Field::NextEntryOffset, place));
        }
        rest = rest
            .get(next..)
            .ok_or(Malformed::at(Field::NextEntryOffset, place))?;
    }
}

fn is_dots(name: &[u8]) -> bool {
    name == DOT || array::<4>(name, 0).is_ok_and(|two| name.len() == 4 && two[..2] == DOT && two[2..] == DOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, next: Option<u32>) -> Vec<u8> {
        let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut bytes = vec![0; NAME_OFFSET];
        bytes[60..64].copy_from_slice(&u32::try_from(name.len()).expect("short").to_le_bytes());
        bytes.extend(name);
        if let Some(next) = next {
            bytes[..4].copy_from_slice(&next.to_le_bytes());
        }
        bytes
    }

    fn chain(names: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let mut one = entry(name, None);
            if index + 1 < names.len() {
                one.resize(one.len().next_multiple_of(8), 0);
                let length = u32::try_from(one.len()).expect("short");
                one[..4].copy_from_slice(&length.to_le_bytes());
            }
            bytes.extend(one);
        }
        bytes
    }

    #[test]
    fn names_are_counted_without_the_directory_itself_and_its_parent() {
        for (names, expected) in [
            (&["."][..], 0),
            (&[".", "..", "a"], 1),
            (&["...", ".a", "b."], 3),
            (&["a", "bb", "ccc", "dddd"], 4),
        ] {
            assert_eq!(count_entries(&chain(names)), Ok(expected), "{names:?}");
        }
    }

    #[test]
    fn an_error_is_reported_with_its_offset_in_the_entries() {
        let mut two = chain(&["a", "b"]);
        let second = two.len() - NAME_OFFSET - 2;
        two[second + 60..second + 64].copy_from_slice(&u32::MAX.to_le_bytes());
        let wrong = Malformed::at(Field::FileNameLength, second + 60);
        assert_eq!(count_entries(&two), Err(wrong));
        two.truncate(second + 62);
        assert_eq!(count_entries(&two), Err(Malformed::at(Field::End, second + 64)));
    }

    #[test]
    fn a_chain_that_leaves_its_buffer_or_goes_back_is_refused() {
        let mut long_name = entry("a", None);
        long_name[60..64].copy_from_slice(&u32::MAX.to_le_bytes());
        for bytes in [
            vec![],
            vec![0; NAME_OFFSET - 1],
            entry("a", Some(8)),
            entry("a", Some(104)),
            entry("a", Some(4096)),
            entry("a", Some(u32::MAX)),
            long_name,
        ] {
            assert!(count_entries(&bytes).is_err(), "{bytes:?}");
        }
    }
}
