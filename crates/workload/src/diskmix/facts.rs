//! The figures from which the scripts are generated, as tables: counts of one pass of the original, by
//! application.
//!
//! They were counted in the four public captures from which the load files of dbench were made (see its
//! history from June 1999 to November 2004). Capture 1, a sniffer between Windows 95 clients with
//! write-through and their server, shows the writes of applications. Capture 2, Windows 2000 without oplocks,
//! shows their reads and all operations without data. Capture 4 is Windows XP with oplocks. Only statistics
//! of these captures are used, none of their lines. Each table states what was counted (*seen*) and what
//! follows from it (*derived*). `APPS` states which kind of program each column stands for.
//!
//! `apps` has the order of operations, `fill.rs` chooses offsets.

/// Our names of the eight applications, and of their directories, in the order of the columns of all tables:
/// a word processor, a spreadsheet, a presentation program, a page database, a database of table files, a
/// drawing program, a page layout program, and a second word processor.
pub(super) const APPS: [&str; 8] = [
    "letters", "sheets", "slides", "records", "tables", "drawings", "layout", "papers",
];
/// Directory of the seed phases' files.
pub(super) const SEED_DIRECTORY: &str = "bulk";

/// Table columns, one per application.
type Columns = [u32; APPS.len()];

/// A row of a table of sizes: smallest, largest, and the number of requests of each application.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeRow {
    pub(super) least: u32,
    pub(super) most: u32,
    pub(super) counts: Columns,
}

const fn row(least: u32, most: u32, counts: Columns) -> SizeRow {
    SizeRow { least, most, counts }
}

/// Sizes of reads. Seen (capture 2, one pass); the seed phases have no column here because their sizes are fixed.
#[rustfmt::skip]
pub(super) const READ_SIZES: [SizeRow; 17] = [
    row(    1,     1, [  0,   0,    5,   0,   0,  0,  0,   0]),
    row(    2,    16, [  0,   0,   64,   0, 164, 14,  4,  40]),
    row(   17,    64, [  0,   1,   46,   0, 178,  0,  8,  13]),
    row(   65,   128, [  3,   2,   36,   0,   5,  0,  4,   3]),
    row(  129,   256, [ 10,   0,   30,   0,  24,  0,  0,   9]),
    row(  257,   511, [ 11,   3,   78,   0, 308,  4,  0,  13]),
    row(  512,   512, [117,  68, 1604,   0,   0, 23, 28,   9]),
    row(  513,  1023, [  2,   6,    0,   0,  19,  0,  2,   7]),
    row( 1024,  1024, [  4,   0,    0,   0,   0,  0,  0,   5]),
    row( 1025,  2047, [  7,  16,    1,   0,   2,  0,  0,  10]),
    row( 2048,  2048, [ 48, 215,    0, 575, 215,  0,  2,  23]),
    row( 2049,  4095, [  4,   1,    3,   0,   0,  0,  1,   9]),
    row( 4096,  4096, [ 11,   4,   49,   2,   4,  0,  1, 149]),
    row( 4097,  8191, [  1,   0,    0,   3,   4,  0,  0,   3]),
    row( 8192,  8192, [  0,   0,    0,   3,   1, 38,  0,   0]),
    row( 8193, 16383, [  0,   0,    2,   1,   7,  0,  0,   4]),
    row(16384, 16384, [  0,   0,    0,   4,  72,  1,  0,   5]),
];

/// Bytes read. Seen (capture 2).
pub(super) const READ_BYTES: Columns = [
    239_178, 524_394, 1_097_425, 1_304_576, 1_929_454, 341_589, 27_427, 856_179,
];

/// Sizes of writes. Seen (capture 1, mean of its passes); derived: the fractions of the last column are
/// rounded to the sum of the whole capture, 755.
#[rustfmt::skip]
pub(super) const WRITE_SIZES: [SizeRow; 17] = [
    row(    1,     1, [ 0,   0,   0,  4,  0,   9,  0,   2]),
    row(    2,    16, [ 5,   3, 364, 53,  2, 212,  0, 181]),
    row(   17,    64, [ 9,  17,  45,  1,  0,  49,  0, 109]),
    row(   65,   128, [11,   6,   6,  0, 36,  17,  0,   1]),
    row(  129,   256, [ 9,  13,   1,  0,  0,  15,  0,   6]),
    row(  257,   511, [17,  26,  15,  1,  1,  31,  0,   5]),
    row(  512,   512, [53,  48,  85,  3,  0,   0,  0,   0]),
    row(  513,  1023, [ 1,   1,   8,  1,  2,  35,  0,   1]),
    row( 1024,  1024, [10,   3,  11,  0,  0,   0,  0,   0]),
    row( 1025,  2047, [ 3,  18,  12,  7,  8,  32,  0,   7]),
    row( 2048,  2048, [ 0,  47,   6, 83, 46,   0,  0,  60]),
    row( 2049,  4095, [ 5,  42,  18,  1, 31,  47,  1,  11]),
    row( 4096,  4096, [ 8, 280, 114, 24,  6,  22, 70, 369]),
    row( 4097,  8191, [ 4,   0,   2,  0,  0,  53,  0,   0]),
    row( 8192,  8192, [ 0,   0,   0,  0,  0,   4,  0,   0]),
    row( 8193, 16383, [ 6,   0,   2,  0, 39,   3,  0,   2]),
    row(16384, 16384, [ 0,   0,   0,  0,  0,   9,  0,   1]),
];

/// Bytes written. Seen (capture 1).
pub(super) const WRITE_BYTES: Columns = [
    199_033, 1_448_946, 659_363, 283_952, 766_066, 875_511, 288_778, 1_723_451,
];

#[derive(Clone, Copy, Debug)]
pub(super) struct OffsetRow {
    pub(super) name: &'static str,
    pub(super) counts: Columns,
}

const fn offsets(name: &'static str, counts: Columns) -> OffsetRow {
    OffsetRow { name, counts }
}

/// Starts of the octaves of `READ_OFFSETS` and `WRITE_OFFSETS`, from their second row on. Almost all seek offsets of
/// the originals have at most three hexadecimal digits. This is an artefact of the recording, and makes requests reuse
/// the first page or two of a document.
pub(super) const OCTAVES: [u64; 7] = [0, 1, 256, 512, 1024, 2048, 4096];

/// Offsets of reads: sequential on their handle, or an octave. Seen (capture 2, one pass).
#[rustfmt::skip]
pub(super) const READ_OFFSETS: [OffsetRow; 8] = [
    offsets("sequential",           [84, 241, 1475,   0, 324, 59, 11, 47]),
    offsets("at 0",                 [14,   8,   37,  27, 365, 13, 12,  5]),
    offsets("at 1 to 255",          [ 0,   0,    1,   0,   6,  1,  0,  4]),
    offsets("at 256 to 511",        [ 5,  28,  166,  81,  51,  0, 10, 36]),
    offsets("at 512 to 1,023",      [17,  13,   33, 201, 102,  5,  7, 60]),
    offsets("at 1,024 to 2,047",    [59,  13,  120, 138,  54,  2,  1, 69]),
    offsets("at 2,048 to 4,095",    [28,   9,   86, 141,  95,  0,  9, 81]),
    offsets("at 4,096 or more",     [11,   4,    0,   0,   6,  0,  0,  0]),
];

/// Offsets of writes. Seen (capture 1, one pass); derived: the last column is from a pass with 739 writes,
/// scaled to the mean of 755.
#[rustfmt::skip]
pub(super) const WRITE_OFFSETS: [OffsetRow; 8] = [
    offsets("sequential",           [19, 303, 121, 29, 42, 146, 70, 376]),
    offsets("at 0",                 [16,  16,  18,  4, 57,   6,  1,   9]),
    offsets("at 1 to 255",          [ 0,   0,   0,  0,  2,   4,  0,   0]),
    offsets("at 256 to 511",        [ 0,  70, 313, 21,  4, 154,  0,  23]),
    offsets("at 512 to 1,023",      [10,  73, 185, 20,  8,  40,  0,  31]),
    offsets("at 1,024 to 2,047",    [50,  24,  49, 77, 24,  54,  0, 207]),
    offsets("at 2,048 to 4,095",    [46,  10,   3, 27, 34, 134,  0, 109]),
    offsets("at 4,096 or more",     [ 0,   8,   0,  0,  0,   0,  0,   0]),
];

/// Relation of a request to the previous one on its handle. Reads are compared with reads, and writes with
/// writes: a choice, since the counts don't cover handles that do both.
#[rustfmt::skip]
pub(super) const READ_RELATIONS: [OffsetRow; 7] = [
    offsets("first, at 0",          [14,   8,   37,   1, 345, 13, 12,   3]),
    offsets("first, elsewhere",     [ 0,   0,    0,   0,   0,  0,  0,   9]),
    offsets("sequential",           [84, 241, 1475,   0, 324, 59, 11,  47]),
    offsets("forward, beyond",      [21,  14,   24,  21,  94,  5,  7,   7]),
    offsets("forward, overlapping", [36,  10,  137, 271, 129,  2,  9, 107]),
    offsets("the same place",       [ 9,   9,   10,  34,  22,  0,  0,  19]),
    offsets("backward",             [54,  34,  235, 261,  89,  1, 11, 110]),
];

/// Like `READ_RELATIONS`, for writes. Seen (capture 1); derived: the fractions of the last column are rounded to a sum
/// of 755.
#[rustfmt::skip]
pub(super) const WRITE_RELATIONS: [OffsetRow; 7] = [
    offsets("first, at 0",          [ 2,   6,   0,  4, 24,   6,  1,   9]),
    offsets("first, elsewhere",     [10,   6,  18,  1, 21,   0,  0,   0]),
    offsets("sequential",           [19, 303, 121, 29, 42, 146, 70, 376]),
    offsets("forward, beyond",      [13,  22, 179, 27,  9,  84,  0,   3]),
    offsets("forward, overlapping", [35,  62, 172, 48,  3,  33,  0, 294],),
    offsets("the same place",       [ 0,  12, 108,  9,  0, 103,  0,  60]),
    offsets("backward",             [62,  93,  91, 60, 72, 166,  0,  13]),
];

/// Rows of `OPERATIONS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Create,
    Open,
    OpenMissing,
    OpenAttributes,
    Close,
    QueryFile,
    QueryTimes,
    QueryPathFound,
    QueryPathMissing,
    QuerySpace,
    Find,
    FindNone,
    SetTimes,
    Flush,
    Lock,
    Unlock,
    Rename,
    Delete,
}

/// A row of the table of operations without data. The columns after the applications are for all seed phases of a pass,
/// and for the sweep.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationRow {
    pub(super) operation: Operation,
    pub(super) name: &'static str,
    /// Whether a pass must have exactly this number.
    pub(super) exact: bool,
    pub(super) counts: [u32; APPS.len() + 2],
}

const fn operation(
    operation: Operation,
    name: &'static str,
    exact: bool,
    counts: [u32; APPS.len() + 2],
) -> OperationRow {
    OperationRow {
        operation,
        name,
        exact,
        counts,
    }
}

/// Operations without data, by application. Seen (capture 2), except for four kinds:
///
/// * Opens for attributes, closes, path queries: derived. For each rename, the redirector of Windows 2000 added two
///   path queries, an open and a close (in capture 2, applications that rename have these in addition to those that
///   capture 4 has without its redirector's share). With 26 renames, 28 opens for attributes become 2, 721 closes 695,
///   and 452.8 path queries 400.8.
/// * Found or missing, for path queries and finds: derived from capture 4, whose redirector added one path query per
///   delete and two per rename. Without these, 163 path queries and 111 finds have no match, and 217 path queries have
///   one. In capture 2, 238 path queries have one; the table has 226, between the two.
/// * File queries: 515 (capture 2). The number of those for times is derived from capture 4, in which 29 were sent to
///   the server. Queries for sizes were sent there only if there was no oplock (the locked papers), or if Windows
///   itself had extended a file.
/// * Set times: seen (capture 4).
#[rustfmt::skip]
pub(super) const OPERATIONS: [OperationRow; 18] = [
    operation(Operation::Create,           "creates",               true,  [  9, 16,  12,  7,  17, 11, 37, 15,  0,  0]),
    operation(Operation::Delete,           "deletes",               true,  [  7, 10,  10,  4,  13,  7, 36,  9,  0, 28]),
    operation(Operation::Rename,           "renames",               true,  [  6,  6,   4,  0,   1,  4,  0,  5,  0,  0]),
    operation(Operation::Flush,            "flushes",               true,  [  0,  4,  24,  4,   6,  0,  0,  5,  0,  0]),
    operation(Operation::QuerySpace,       "free-space queries",    true,  [ 15, 13,  19, 16,   1, 14, 12, 12,  0,  0]),
    operation(Operation::Find,             "finds with a match",    true,  [  2,  2,   2,  2,  52,  9, 13, 12,  0, 10]),
    operation(Operation::FindNone,         "finds without a match", true,  [ 14, 27,  24, 46,   0,  0,  0,  0,  0,  0]),
    operation(Operation::OpenMissing,      "failed opens",          true,  [  0,  8,   7,  6,  36,  6, 85, 15,  0,  0]),
    operation(Operation::Lock,             "locks",                 true,  [  0,  0,   0,  0,   0,  0,  0,  2,  0,  0]),
    operation(Operation::Unlock,           "unlocks",               true,  [  0,  0,   0,  0,   0,  0,  0,  2,  0,  0]),
    operation(Operation::Open,             "opens",                 false, [ 18, 10,  54,  2, 390, 38, 21, 15, 21,  0]),
    operation(Operation::OpenAttributes,   "opens for attributes",  false, [  2,  0,   0,  0,   0,  0,  0,  0,  0,  0]),
    operation(Operation::Close,            "closes",                false, [ 29, 26,  66,  9, 407, 49, 58, 30, 21,  0]),
    operation(Operation::QueryFile,        "file queries for size", false, [139, 66, 141,  6,  48, 29, 15, 42,  0,  0]),
    operation(Operation::QueryTimes,       "file queries for times", true, [  1,  4,   3,  0,  19,  0,  0,  2,  0,  0]),
    operation(Operation::QueryPathFound,   "path queries, found",   false, [ 20,  5,   5,  3, 128, 14,  1, 19,  3, 28]),
    operation(Operation::QueryPathMissing, "path queries, missing", false, [ 18, 23,   3,  4,  57, 17, 25, 16,  0,  0]),
    operation(Operation::SetTimes,         "set times",             false, [ 16, 16,  18,  0,   0,  0,  0,  0,  0,  0]),
];

/// Number of path queries of a pass, without those of the redirector: 452.8 - 2 x 26. Derived, see `OPERATIONS`.
pub(super) const PATH_QUERIES: f64 = 400.8;

/// A file that an application creates and fills, in the order of creation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) bytes: u64,
    /// Offset of the first write.
    pub(super) first: u64,
    /// Sizes of the first consecutive writes. Further writes have 4,096 bytes, and the last one has the
    /// remainder.
    pub(super) pieces: &'static [u32],
}

const fn made(bytes: u64, first: u64, pieces: &'static [u32]) -> Made {
    Made { bytes, first, pieces }
}

/// Final sizes of the files that a pass creates and fills. Seen (captures 2 and 4 agree).
#[rustfmt::skip]
pub(super) const FINAL_SIZES: [u64; 57] = [
    53, 53, 64, 491, 543, 2048, 2048, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 7983,
    10_438, 10_575, 10_845, 11_588, 11_615, 12_006, 12_543, 14_984, 15_360, 18_630, 19_054, 19_584, 28_489, 29_253,
    30_118, 30_183, 42_388, 42_652, 51_456, 53_077, 57_088, 62_591, 65_585, 67_392, 74_402, 74_834, 77_076, 81_586,
    83_190, 85_026, 85_515, 88_384, 130_386, 288_778, 505_483, 625_081, 647_422,
];

/// Saves of the first word processor. Here and below, the application of each file in `FINAL_SIZES` is seen
/// (capture 4, by the ends of each file's writes). Writes of structured documents start after the header,
/// which is written last. Two of these documents grow later through edits in place: see `LETTERS_GROWN`.
pub(super) const LETTERS: [Made; 4] = [
    made(15_360, 512, &[14_848]),
    made(15_360, 512, &[14_848]),
    made(12_006, 512, &[11_494]),
    made(11_991, 512, &[11_479]),
];
/// Consecutive writes after the header in the last edit of the first word processor's two targets. The targets end at
/// 19,054 and 14,984 bytes. Ends seen (capture 4), pieces derived from the remaining write sizes.
pub(super) const LETTERS_GROWN: [&[u32]; 2] = [&[12_288, 6_254], &[14_472]];
/// Saves of the spreadsheet, three per target. The first save of each is not flushed.
pub(super) const SHEETS: [Made; 6] = [
    made(42_388, 512, &[]),
    made(57_088, 512, &[]),
    made(51_456, 512, &[]),
    made(42_652, 512, &[]),
    made(67_392, 512, &[]),
    made(88_384, 512, &[]),
];
/// Prints of the spreadsheet.
pub(super) const SHEETS_PRINTED: [Made; 4] = [
    made(53_077, 0, &[]),
    made(7_983, 0, &[]),
    made(505_483, 0, &[]),
    made(65_585, 0, &[]),
];
/// Saves of the presentation program.
pub(super) const SLIDES: [Made; 6] = [
    made(85_515, 512, &[]),
    made(83_190, 512, &[]),
    made(85_026, 512, &[]),
    made(74_402, 512, &[]),
    made(74_834, 512, &[]),
    made(77_076, 512, &[]),
];
/// Prints of the page database. The fourth file of the page database is an owner's lock file of 64 bytes.
pub(super) const RECORDS_PRINTED: [Made; 3] =
    [made(62_591, 0, &[]), made(10_845, 0, &[]), made(30_118, 0, &[])];
/// Results of the database of table files: first one block, or all of a list of values, then the rest.
#[rustfmt::skip]
pub(super) const TABLES: [Made; 17] = [
    made(2_048, 0, &[2_048]), made(4_096, 0, &[2_048]), made(491, 0, &[491]), made(4_096, 0, &[2_048]),
    made(4_096, 0, &[2_048]), made(4_096, 0, &[4_096]), made(4_096, 0, &[2_048]), made(4_096, 0, &[2_048]),
    made(4_096, 0, &[4_096]), made(4_096, 0, &[2_048]), made(19_584, 0, &[2_048, 14_336, 3_200]), made(543, 0, &[543]),
    made(4_096, 0, &[2_048]), made(4_096, 0, &[2_048]), made(2_048, 0, &[2_048]), made(4_096, 0, &[2_048]),
    made(4_096, 0, &[2_048]),
];
/// Saves of the drawing program.
pub(super) const DRAWINGS: [Made; 4] = [
    made(10_438, 0, &[8_192, 2_246]),
    made(28_489, 0, &[8_192, 16_384, 3_913]),
    made(29_253, 0, &[8_192, 16_384, 4_677]),
    made(30_183, 0, &[8_192, 16_384, 5_607]),
];
/// The print of the page layout program.
pub(super) const LAYOUT_PRINTED: [Made; 1] = [made(288_778, 0, &[])];
/// Saves of the second word processor.
pub(super) const PAPERS: [Made; 5] = [
    made(10_575, 0, &[]),
    made(12_543, 0, &[]),
    made(11_588, 0, &[]),
    made(11_615, 0, &[]),
    made(18_630, 0, &[16_384, 2_246]),
];
/// Prints of the second word processor.
pub(super) const PAPERS_PRINTED: [Made; 4] = [
    made(625_081, 0, &[]),
    made(647_422, 0, &[]),
    made(81_586, 0, &[]),
    made(130_386, 0, &[]),
];
/// Size of each of the first word processor's two owner's lock files. Seen.
pub(super) const LETTERS_LOCK_BYTES: u64 = 53;
/// Size of the owner's lock file of the page database. Seen.
pub(super) const RECORDS_LOCK_BYTES: u64 = 64;

/// Documents per application in the workspace. Seen.
pub(super) const DOCUMENTS: Columns = [3, 2, 5, 1, 20, 11, 3, 3];
/// Size of each document. Seen.
pub(super) const DOCUMENT_BYTES: u64 = 260_096;
/// Sizes of the files of the seed phases. Seen.
pub(super) const SEED_FILES_BYTES: [u64; 3] = [327_680, 1_048_576, 1_867_776];
/// Bytes of each file that a seed read phase reads, as in the original's version 7. Seen.
pub(super) const SEED_READ_BYTES: [u64; 3] = [327_680, 655_372, 1_867_776];
/// Bytes of each file that a seed read phase reads, as in the original's version 5. Seen.
pub(super) const LEGACY_SEED_READ_BYTES: [u64; 3] = [131_072, 262_144, 524_288];
/// Chunks per file in a seed write phase. Seen.
pub(super) const SEED_WRITE_CHUNKS: [u32; 3] = [2, 4, 8];
/// Size of a seed phase's chunk. Seen.
pub(super) const SEED_CHUNK_BYTES: u32 = 65_534;
/// Write and read phases of a pass. Seen.
pub(super) const SEED_PHASES: [u32; 2] = [4, 3];

/// Size of one filler. Seen.
pub(super) const FILLER_BYTES: u64 = 1 << 20;
/// Write size while the workspace is created. Seen.
pub(super) const BUILD_BYTES: u32 = 65_535;
/// Size of the marker of a complete workspace. Seen.
pub(super) const MARKER_BYTES: u32 = 12;

/// Bytes read in a pass. Seen (capture 2).
pub(super) const PASS_READ_BYTES: u64 = 14_872_706;
/// Bytes written in a pass. Seen (capture 1).
pub(super) const PASS_WRITTEN_BYTES: u64 = 9_915_004;
/// Reads per pass. Derived: capture 2 has 4,742, including 129 by its redirector, which split each full chunk
/// of the seed phases (65,471 + 63 bytes).
pub(super) const PASS_READS: u32 = 4_613;
/// Writes per pass. Seen (capture 1).
pub(super) const PASS_WRITES: u32 = 3_103;
