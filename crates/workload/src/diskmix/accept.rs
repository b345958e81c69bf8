//! Compares a pass of the scripts, line by line, with the figures from which the scripts were generated.
//!
//! The effect of a client's cache is accepted separately.

use super::count::{count, PieceCount, Requests, COLUMNS};
use super::facts::{
    OffsetRow, Operation, SizeRow, APPS, FINAL_SIZES, OPERATIONS, PASS_READS, PASS_READ_BYTES, PASS_WRITES,
    PASS_WRITTEN_BYTES, PATH_QUERIES, READ_OFFSETS, READ_RELATIONS, READ_SIZES, WRITE_OFFSETS,
    WRITE_RELATIONS, WRITE_SIZES,
};
use super::Script;
use crate::Known;

/// Tolerance of a sum, as a share of the figure in the captures.
const BYTES_SHARE: f64 = 0.01;
const COUNTS_SHARE: f64 = 0.05;
/// Tolerance of a row of a histogram: a share or a number of requests, whichever is larger.
type Slack = (f64, f64);
const OF_THE_SUM: Slack = (COUNTS_SHARE, 1.0);
const OF_AN_APPLICATION: Slack = (0.10, 2.0);

/// A figure of a pass, and the corresponding fact from the captures.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    /// Count in the captures, per pass.
    pub fact: f64,
    /// Evidence for the fact.
    pub known: Known,
    /// Count in our pass.
    pub ours: f64,
    /// Permitted difference from the fact.
    pub tolerance: f64,
    /// Whether the difference is within the tolerance.
    pub ok: bool,
}

impl Line {
    fn new(name: impl Into<String>, known: Known, fact: impl Into<f64>, ours: f64, tolerance: f64) -> Self {
        let fact = fact.into();
        Self {
            name: name.into(),
            fact,
            known,
            ours,
            tolerance,
            ok: (ours - fact).abs() <= tolerance,
        }
    }

    fn near(name: impl Into<String>, known: Known, fact: impl Into<f64>, ours: f64, share: f64) -> Self {
        let fact = fact.into();
        Self::new(name, known, fact, ours, fact * share)
    }

    fn of_histogram(name: String, fact: u32, ours: u32, (share, least): Slack) -> Self {
        let tolerance = (f64::from(fact) * share).max(least);
        Self::new(name, Known::Seen, fact, f64::from(ours), tolerance)
    }
}

impl Script {
    /// Compares one pass of all pieces with the facts. The sums of operations, requests and bytes include the
    /// seed phases. The histograms cover only documents.
    ///
    /// The facts are for the original's version 7 with its three-digit offsets; with other options, lines
    /// fail.
    pub fn acceptance(&self) -> Vec<Line> {
        let counts = count(self);
        let mut lines = sums(&counts);
        lines.extend(operations(&counts));
        lines.extend(made(&counts));
        let applications = &counts[..APPS.len()];
        let reads: Vec<&Requests> = applications.iter().map(|piece| &piece.reads).collect();
        let writes: Vec<&Requests> = applications.iter().map(|piece| &piece.writes).collect();
        lines.extend(sizes("reads", &READ_SIZES, &reads));
        lines.extend(sizes("writes", &WRITE_SIZES, &writes));
        lines.extend(rows("reads", &READ_OFFSETS, &reads, |requests| &requests.offsets));
        lines.extend(rows("writes", &WRITE_OFFSETS, &writes, |requests| {
            &requests.offsets
        }));
        lines.extend(rows("reads", &READ_RELATIONS, &reads, |requests| {
            &requests.relations
        }));
        lines.extend(rows("writes", &WRITE_RELATIONS, &writes, |requests| {
            &requests.relations
        }));
        lines
    }

    /// Compares each application separately: operations, sizes and offsets. Names begin with the
    /// application's.
    ///
    /// Relations between successive requests are excluded. Together with the offsets, they can be met only in the sums,
    /// not for each application.
    pub fn acceptance_by_application(&self) -> Vec<Line> {
        let counts = count(self);
        let mut lines = Vec::new();
        for (application, name) in APPS.iter().enumerate() {
            let piece = &counts[application];
            for (row, ours) in OPERATIONS.iter().zip(piece.operations) {
                let (fact, known) = (row.counts[application], known(row.operation));
                let line = format!("{name}: {}", row.name);
                lines.push(Line::near(line, known, fact, f64::from(ours), share(row.exact)));
            }
            for (kind, requests, size_rows, offset_rows) in [
                ("reads", &piece.reads, &READ_SIZES, &READ_OFFSETS),
                ("writes", &piece.writes, &WRITE_SIZES, &WRITE_OFFSETS),
            ] {
                for (row, ours) in size_rows.iter().zip(requests.sizes) {
                    let line = format!("{name}: {kind} of {}", range(row));
                    lines.push(Line::of_histogram(
                        line,
                        row.counts[application],
                        ours,
                        OF_AN_APPLICATION,
                    ));
                }
                for (row, ours) in offset_rows.iter().zip(requests.offsets) {
                    let line = format!("{name}: {kind} {}", row.name);
                    lines.push(Line::of_histogram(
                        line,
                        row.counts[application],
                        ours,
                        OF_AN_APPLICATION,
                    ));
                }
            }
        }
        lines
    }
}

fn share(exact: bool) -> f64 {
    if exact {
        0.0
    } else {
        COUNTS_SHARE
    }
}

/// Returns the evidence for the row of an operation in `OPERATIONS`.
fn known(operation: Operation) -> Known {
    match operation {
        Operation::OpenAttributes
        | Operation::Close
        | Operation::QueryTimes
        | Operation::QueryPathFound
        | Operation::QueryPathMissing
        | Operation::Find
        | Operation::FindNone => Known::Derived,
        _ => Known::Seen,
    }
}

fn sums(counts: &[PieceCount]) -> Vec<Line> {
    let sum = |of: fn(&PieceCount) -> u64| counts.iter().map(of).sum::<u64>() as f64;
    let reads = sum(|piece| u64::from(piece.reads.count));
    let writes = sum(|piece| u64::from(piece.writes.count));
    let bytes_read = sum(|piece| piece.reads.bytes);
    let bytes_written = sum(|piece| piece.writes.bytes);
    vec![
        Line::near(
            "bytes read",
            Known::Seen,
            PASS_READ_BYTES as f64,
            bytes_read,
            BYTES_SHARE,
        ),
        Line::near(
            "bytes written",
            Known::Seen,
            PASS_WRITTEN_BYTES as f64,
            bytes_written,
            BYTES_SHARE,
        ),
        Line::near("reads", Known::Derived, PASS_READS, reads, COUNTS_SHARE),
        Line::near("writes", Known::Seen, PASS_WRITES, writes, COUNTS_SHARE),
    ]
}

fn operations(counts: &[PieceCount]) -> Vec<Line> {
    let ours = |place: usize| -> u32 { counts.iter().map(|piece| piece.operations[place]).sum() };
    let of = |operation: Operation| {
        let place = OPERATIONS.iter().position(|row| row.operation == operation);
        f64::from(ours(place.expect("a row for each operation")))
    };
    let mut lines: Vec<Line> = (0..OPERATIONS.len())
        .map(|place| {
            let row = &OPERATIONS[place];
            let fact: u32 = row.counts[..COLUMNS].iter().sum();
            Line::near(
                row.name,
                known(row.operation),
                fact,
                f64::from(ours(place)),
                share(row.exact),
            )
        })
        .collect();
    let finds = of(Operation::Find) + of(Operation::FindNone);
    lines.push(Line::near("directory finds", Known::Seen, 215, finds, 0.0));
    let path_queries = of(Operation::QueryPathFound) + of(Operation::QueryPathMissing);
    lines.push(Line::near(
        "path queries",
        Known::Derived,
        PATH_QUERIES,
        path_queries,
        COUNTS_SHARE,
    ));
    lines
}

/// Compares the files that a pass creates: the number of empty files, and the number of other files whose size is in
/// `FINAL_SIZES`.
fn made(counts: &[PieceCount]) -> Vec<Line> {
    let mut sizes: Vec<u64> = counts.iter().flat_map(|piece| &piece.made).copied().collect();
    let all = sizes.len();
    sizes.retain(|&bytes| bytes > 0);
    let empty = all - sizes.len();
    let mut agreeing = 0_u32;
    for bytes in FINAL_SIZES {
        if let Some(place) = sizes.iter().position(|&size| size == bytes) {
            sizes.remove(place);
            agreeing += 1;
        }
    }
    let fact = FINAL_SIZES.len() as f64;
    vec![
        Line::near(
            "created files that stay empty",
            Known::Seen,
            67,
            empty as f64,
            0.0,
        ),
        Line::near(
            "created files of a listed size",
            Known::Seen,
            fact,
            f64::from(agreeing),
            0.0,
        ),
        Line::near(
            "created files of another size",
            Known::Seen,
            0,
            sizes.len() as f64,
            0.0,
        ),
    ]
}

fn range(row: &SizeRow) -> String {
    if row.least == row.most {
        format!("{} bytes", row.least)
    } else {
        format!("{} to {} bytes", row.least, row.most)
    }
}

fn sizes(kind: &str, rows: &[SizeRow], requests: &[&Requests]) -> Vec<Line> {
    let lines = rows.iter().enumerate().map(|(place, row)| {
        let ours: u32 = requests.iter().map(|requests| requests.sizes[place]).sum();
        let (name, fact) = (format!("{kind} of {}", range(row)), row.counts.iter().sum());
        Line::of_histogram(name, fact, ours, OF_THE_SUM)
    });
    lines.collect()
}

fn rows<const N: usize>(
    kind: &str,
    rows: &[OffsetRow; N],
    requests: &[&Requests],
    of: impl Fn(&Requests) -> &[u32; N],
) -> Vec<Line> {
    let lines = rows.iter().enumerate().map(|(place, row)| {
        let ours: u32 = requests.iter().map(|&requests| of(requests)[place]).sum();
        let (name, fact) = (format!("{kind} {}", row.name), row.counts.iter().sum());
        Line::of_histogram(name, fact, ours, OF_THE_SUM)
    });
    lines.collect()
}
