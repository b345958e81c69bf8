//! Fits the relations between successive requests to their table, by exchanging the offsets of seeking
//! requests. The counts per octave and the sizes stay the same.
//!
//! Offsets drawn one after the other have too few forward skips and too many backward ones. The possible
//! skips depend on earlier requests, and an application's last requests can no longer have the relations that
//! are still missing.
//!
//! `fill.rs` draws the offsets.

use super::facts::READ_RELATIONS;
use super::positions::{alignment, relation, SEQUENTIAL};
use crate::random::RandomStream;

/// Tries per seeking request. With 10, the number of writes at "the same place" is 2.7 % below the table;
/// with 60, 1.4 %.
const TRIES_PER_SEEK: usize = 60;

/// The rule that determined the offset of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Script,
    /// The request continues the previous one.
    Before,
    Draw,
}

/// Size of a request, and its offset as in the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) write: bool,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    /// Size of the request's file before the request.
    pub(super) file_bytes: u64,
    pub(super) by: By,
    /// Index of the previous request of this kind on its handle.
    pub(super) before: Option<usize>,
}

impl Chosen {
    /// Returns the offsets of the request's first byte and of the byte after its last.
    pub(super) fn span(&self) -> (u64, u64) {
        (self.offset, self.offset + u64::from(self.bytes))
    }
}

/// Returns the distance of the relations from their table: the sum of the squared differences.
fn distance(missing: &[i64]) -> i64 {
    missing.iter().map(|count| count * count).sum()
}

/// A seeking request with the requests that continue it.
#[derive(Debug)]
struct Run {
    members: Vec<usize>,
    /// The next run on its handle.
    after: Option<usize>,
    /// Last offset at which the whole run is within its file. None: the run must not move.
    last_offset: Option<u64>,
    alignment: u64,
}

struct Runs<'a> {
    chosen: &'a mut [Chosen],
    runs: Vec<Run>,
}

/// Exchanges offsets among the requests of one kind, to fit their relations to the table as closely as
/// possible.
pub(super) fn exchange(
    chosen: &mut [Chosen],
    write: bool,
    table: &[i64; READ_RELATIONS.len()],
    random: &mut RandomStream,
) {
    let mut runs = Runs::new(chosen, write);
    let free: Vec<usize> = (0..runs.runs.len())
        .filter(|&run| runs.runs[run].last_offset.is_some())
        .collect();
    let Ok(count) = u32::try_from(free.len()) else {
        return;
    };
    let mut missing = *table;
    for request in 0..runs.chosen.len() {
        if runs.chosen[request].write == write {
            missing[runs.relation(request)] -= 1;
        }
    }
    for _ in 0..free.len() * TRIES_PER_SEEK {
        if distance(&missing) == 0 {
            break;
        }
        let (one, other) = (
            free[random.below(count) as usize],
            free[random.below(count) as usize],
        );
        let surplus = missing[runs.relation(runs.runs[one].members[0])] < 0;
        if surplus && runs.may_exchange(one, other) {
            runs.try_exchange(one, other, &mut missing);
        }
    }
}

impl<'a> Runs<'a> {
    fn new(chosen: &'a mut [Chosen], write: bool) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        let mut run_of = vec![0; chosen.len()];
        for request in 0..chosen.len() {
            let Chosen {
                bytes,
                file_bytes,
                by,
                before,
                ..
            } = chosen[request];
            if chosen[request].write != write {
                continue;
            }
            let continued = before.filter(|_| by == By::Before);
            let number = continued.map_or(runs.len(), |before| run_of[before]);
            run_of[request] = number;
            if number == runs.len() {
                if let Some(before) = before {
                    let before: &mut Run = &mut runs[run_of[before]];
                    before.after = Some(number);
                }
                runs.push(Run {
                    members: Vec::new(),
                    after: None,
                    last_offset: (by == By::Draw).then_some(u64::MAX),
                    alignment: alignment(bytes),
                });
            }
            let run = &mut runs[number];
            run.members.push(request);
            let from_head = chosen[request].span().1 - chosen[run.members[0]].offset;
            let last = file_bytes.checked_sub(from_head);
            run.last_offset = run.last_offset.and_then(|so_far| Some(so_far.min(last?)));
        }
        Self { chosen, runs }
    }

    fn relation(&self, request: usize) -> usize {
        let chosen = &self.chosen[request];
        relation(
            chosen.before.map(|before| self.chosen[before].span()),
            chosen.offset,
        )
    }

    fn offset(&self, run: usize) -> u64 {
        self.chosen[self.runs[run].members[0]].offset
    }

    fn move_to(&mut self, run: usize, offset: u64) {
        let from = self.offset(run);
        for &member in &self.runs[run].members {
            let request = &mut self.chosen[member];
            request.offset = request.offset - from + offset;
        }
    }

    fn may_exchange(&self, one: usize, other: usize) -> bool {
        let fits = |run: usize, offset: u64| self.runs[run].last_offset.is_some_and(|last| offset <= last);
        self.runs[one].alignment == self.runs[other].alignment
            && self.offset(one) != self.offset(other)
            && fits(one, self.offset(other))
            && fits(other, self.offset(one))
    }

    /// Exchanges the offsets of two runs if that improves the fit of the relations.
    fn try_exchange(&mut self, one: usize, other: usize, missing: &mut [i64; READ_RELATIONS.len()]) {
        // Count each run only once, even if one of them directly follows the other.
        let afters = [self.runs[one].after, self.runs[other].after];
        let afters = afters.map(|after| after.filter(|&after| after != one && after != other));
        let heads = [Some(one), Some(other), afters[0], afters[1]];
        let heads = heads.map(|run| run.map(|run| self.runs[run].members[0]));
        let mut after = *missing;
        for head in heads.into_iter().flatten() {
            after[self.relation(head)] += 1;
        }
        let (offset, others) = (self.offset(one), self.offset(other));
        self.move_to(one, others);
        self.move_to(other, offset);
        for head in heads.into_iter().flatten() {
            after[self.relation(head)] -= 1;
        }
        // Keep the number of sequential requests, because a run that continues another one by chance would no
        // longer count in its octave.
        if after[SEQUENTIAL] == missing[SEQUENTIAL] && distance(&after) < distance(missing) {
            *missing = after;
        } else {
            self.move_to(one, offset);
            self.move_to(other, others);
        }
    }
}
