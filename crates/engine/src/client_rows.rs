//! The rows of clients, of which a mix from many nodes has millions: in order, and as bytes, seven words a row,
//! little-endian. Not for: what a row means (`tally.rs`).

use crate::tally::ClientTally;

const WORDS: usize = 7;
const WORD_BYTES: usize = 8;
/// In the place of a moment that never came.
const NEVER: u64 = u64::MAX;

/// The rows in the order of their clients, those of one client added up. Clients of a whole mix are numbered without gaps:
/// each row has its place then, and nothing need be sorted.
pub(crate) fn by_number(mut rows: Vec<ClientTally>) -> Vec<ClientTally> {
    let places = rows
        .iter()
        .map(|row| row.client.saturating_add(1))
        .max()
        .unwrap_or(0);
    if places > (2 * rows.len()) as u64 {
        rows.sort_by_key(|row| row.client);
        rows.dedup_by(|row, kept| {
            let same = row.client == kept.client;
            if same {
                kept.add(row);
            }
            same
        });
        return rows;
    }
    let mut placed: Vec<Option<ClientTally>> = vec![None; places as usize];
    for row in rows {
        match &mut placed[row.client as usize] {
            Some(known) => known.add(&row),
            empty => *empty = Some(row),
        }
    }
    placed.into_iter().flatten().collect()
}

pub(crate) fn write(rows: &[ClientTally], bytes: &mut Vec<u8>) {
    bytes.reserve(rows.len() * WORDS * WORD_BYTES);
    for row in rows {
        let words = [
            row.client,
            row.operations,
            row.bytes_in,
            row.bytes_read,
            row.bytes_written,
            row.errors,
            row.left_at_ns.unwrap_or(NEVER),
        ];
        words
            .iter()
            .for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    }
}

/// None where a row is not whole.
pub(crate) fn read(bytes: &[u8]) -> Option<Vec<ClientTally>> {
    let rows = bytes.chunks_exact(WORDS * WORD_BYTES);
    rows.remainder().is_empty().then(|| rows.map(read_row).collect())
}

fn read_row(row: &[u8]) -> ClientTally {
    let mut words = row.chunks_exact(WORD_BYTES).map(|word| {
        let bytes = word.try_into().expect("of a word's length");
        u64::from_le_bytes(bytes)
    });
    let mut next = || words.next().expect("a row has all its words");
    ClientTally {
        client: next(),
        operations: next(),
        bytes_in: next(),
        bytes_read: next(),
        bytes_written: next(),
        errors: next(),
        left_at_ns: Some(next()).filter(|moment| *moment != NEVER),
    }
}
