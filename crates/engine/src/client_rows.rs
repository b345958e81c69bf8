//! Rows of clients, sorted by number, and their encoding: seven little-endian words per row. A level of many nodes can
//! have millions of rows.

use crate::time_fields::seconds_or_none;
use schemars::JsonSchema;
use serde::Serialize;

const WORDS: usize = 7;
const WORD_BYTES: usize = 8;
/// Value for a client that did not leave.
const NEVER: u64 = u64::MAX;

/// One client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClientTally {
    /// The client's number in the level.
    pub client: u64,
    /// Successes in the window.
    pub operations: u64,
    /// All bytes that these operations received.
    pub bytes_in: u64,
    /// Application bytes that these operations received; null in format 1.
    #[schemars(with = "Option<u64>")]
    pub bytes_read: u64,
    /// Application bytes that these operations wrote.
    pub bytes_written: u64,
    /// Failures from start to end.
    pub errors: u64,
    /// When the client left the level, since the start of the level. Null if it stayed; 0 if it could not be
    /// prepared and never began.
    #[serde(rename = "left_at_s", with = "seconds_or_none")]
    #[schemars(with = "Option<f64>")]
    pub left_at_ns: Option<u64>,
}

impl ClientTally {
    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes_in += other.bytes_in;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.errors += other.errors;
        self.left_at_ns = self.left_at_ns.into_iter().chain(other.left_at_ns).min();
    }
}

/// Returns the rows sorted by client, with rows of the same client added up. The rows of each node are
/// already sorted, so the stable sort only merges runs.
pub(crate) fn by_number(mut rows: Vec<ClientTally>) -> Vec<ClientTally> {
    rows.sort_by_key(|row| row.client);
    rows.dedup_by(|row, kept| {
        let same = row.client == kept.client;
        if same {
            kept.add(row);
        }
        same
    });
    rows
}

/// Merges the rows of both parts.
pub(crate) fn together(ours: &mut Vec<ClientTally>, theirs: Vec<ClientTally>) {
    if !theirs.is_empty() {
        ours.extend(theirs);
        *ours = by_number(std::mem::take(ours));
    }
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

/// Decodes rows. Returns None if a row is incomplete.
pub(crate) fn read(bytes: &[u8]) -> Option<Vec<ClientTally>> {
    let rows = bytes.chunks_exact(WORDS * WORD_BYTES);
    rows.remainder().is_empty().then(|| rows.map(read_row).collect())
}

fn read_row(row: &[u8]) -> ClientTally {
    let mut words = row.chunks_exact(WORD_BYTES).map(|word| {
        let bytes = word.try_into().expect("of a word's length");
        u64::from_le_bytes(bytes)
    });
    let mut next = || words.next().expect("a row has all its fields");
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
