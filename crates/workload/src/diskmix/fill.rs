//! Chooses the offsets and sizes that a script leaves open, so that their totals match the tables.
//!
//! Sizes are drawn without replacement from the tables, so their counts and bytes are exact. Offsets are drawn in
//! proportion to the number of times that each octave, and each relation to the previous request, is still due. If a
//! choice is impossible (for example, beyond the end of the file), later requests and finally `exchange.rs` compensate
//! for it.
//!
//! `share.rs` determines the order of requests.

use super::draft::{Place, Request, Rough};
use super::exchange::{exchange, By, Chosen};
use super::facts::{
    OffsetRow, OCTAVES, READ_BYTES, READ_OFFSETS, READ_RELATIONS, READ_SIZES, WRITE_BYTES, WRITE_OFFSETS,
    WRITE_RELATIONS, WRITE_SIZES,
};
use super::positions::{alignment, octave, relation, BACKWARD, OVERLAPPING, SEQUENTIAL};
use super::share::shuffle;
use super::sizes::free_sizes;
use crate::random::RandomStream;
use crate::{FileAction, Intent, PathId, Presence, Slot};
use std::collections::HashMap;

/// End of the last octave for draws. Few requests are in this octave.
const LAST_OCTAVE_END: u64 = 16_384;
/// Requests of one kind that are still due.
#[derive(Debug)]
struct Due {
    octaves: [i64; 8],
    relations: [i64; 7],
    /// Sizes for requests that continue the previous one (`sequential`) and for those that seek.
    sequential: Vec<u32>,
    seeking: Vec<u32>,
    /// The largest sizes, for bursts of large requests.
    large: Vec<u32>,
}

fn column<const N: usize>(rows: &[OffsetRow; N], application: usize) -> [i64; N] {
    rows.map(|row| i64::from(row.counts[application]))
}

/// Applications whose sequential requests are small and whose seeking reads are large. Derived from the bytes that
/// passed the client's cache in capture 4.
const SMALL_ONES_CONTINUE: [bool; 8] = [false, false, false, false, true, true, false, true];

impl Due {
    fn new(application: usize, write: bool, steps: &[Rough], random: &mut RandomStream) -> Self {
        let requests: Vec<&Request> = steps.iter().filter_map(|step| as_request(step, write)).collect();
        let fixed: Vec<u32> = requests.iter().filter_map(|request| request.bytes).collect();
        let (rows, bytes) = if write {
            (&WRITE_SIZES, &WRITE_BYTES)
        } else {
            (&READ_SIZES, &READ_BYTES)
        };
        let mut sizes = free_sizes(rows, application, bytes[application], &fixed, random);
        if !SMALL_ONES_CONTINUE[application] {
            shuffle(&mut sizes, random);
        }
        let open = requests.iter().filter(|request| request.bytes.is_none());
        let continuing = open.filter(|request| request.place == Place::Next).count();
        let mut seeking = sizes.split_off(continuing);
        seeking.sort_unstable();
        let large = requests
            .iter()
            .filter(|request| request.large && is_open_seek(request))
            .count();
        let mut large = seeking.split_off(seeking.len() - large);
        shuffle(&mut large, random);
        shuffle(&mut sizes, random);
        shuffle(&mut seeking, random);
        let mut due = Self {
            octaves: column(if write { &WRITE_OFFSETS } else { &READ_OFFSETS }, application),
            relations: column(
                if write { &WRITE_RELATIONS } else { &READ_RELATIONS },
                application,
            ),
            sequential: sizes,
            seeking,
            large,
        };
        due.take_fixed(steps, write);
        due
    }

    /// Subtracts the requests that the script fixes. If one of two offsets is still to be chosen, their
    /// relation is not known yet; such requests return to the header of a file.
    fn take_fixed(&mut self, steps: &[Rough], write: bool) {
        let mut lasts: HashMap<Slot, Option<(u64, u64)>> = HashMap::new();
        for step in steps {
            if let Rough::Act(FileAction::Open { slot, .. }) = step {
                lasts.remove(slot);
            }
            let Some(request) = as_request(step, write) else {
                continue;
            };
            let before = lasts.insert(request.slot, None);
            if let Place::At(offset) = request.place {
                self.octaves[octave(offset)] -= 1;
                let relation = match before {
                    None => relation(None, offset),
                    Some(Some(last)) => relation(Some(last), offset),
                    Some(None) if offset == 0 || self.relations[BACKWARD] > self.relations[OVERLAPPING] => {
                        BACKWARD
                    }
                    Some(None) => OVERLAPPING,
                };
                self.relations[relation] -= 1;
                let end = request.bytes.map(|bytes| (offset, offset + u64::from(bytes)));
                lasts.insert(request.slot, end);
            }
        }
    }

    /// Takes a size of at most `most_bytes`, or else the smallest available.
    fn take_size(&mut self, request: &Request, most_bytes: u64) -> u32 {
        let mut pools = [&mut self.seeking, &mut self.large, &mut self.sequential];
        let own = match request.place {
            Place::Next => 2,
            _ => usize::from(request.large),
        };
        pools.swap(0, own);
        let sizes = pools
            .into_iter()
            .find(|sizes| !sizes.is_empty())
            .expect("as many sizes as requests");
        let fitting = sizes.iter().rposition(|&size| u64::from(size) <= most_bytes);
        let place = fitting.or_else(|| (0..sizes.len()).min_by_key(|&place| sizes[place]));
        sizes.remove(place.expect("not empty"))
    }

    /// Returns the offset and size of a request in a file of this size.
    fn choose(
        &mut self,
        request: &Request,
        last: Option<(u64, u64)>,
        file_bytes: u64,
        random: &mut RandomStream,
    ) -> Chosen {
        let (mut by, mut offset) = match request.place {
            Place::At(offset) => (By::Script, offset),
            Place::Next => (By::Before, last.map_or(0, |(_, end)| end)),
            Place::Seek => (By::Draw, 0),
        };
        let room = file_bytes.saturating_sub(offset);
        let bytes = request.bytes.unwrap_or_else(|| self.take_size(request, room));
        if request.bytes.is_none() && u64::from(bytes) > room {
            // The request would pass the end of the file, so it seeks instead.
            by = By::Draw;
        }
        if by == By::Draw {
            let bound = file_bytes
                .checked_sub(u64::from(bytes))
                .expect("a file that fits the request");
            offset = self.draw_offset(last, bytes, bound, random);
        }
        Chosen {
            write: request.write,
            offset,
            bytes,
            file_bytes,
            by,
            before: None,
        }
    }

    /// Draws an offset for a seeking request, up to `last`.
    fn draw_offset(
        &mut self,
        before: Option<(u64, u64)>,
        bytes: u32,
        last: u64,
        random: &mut RandomStream,
    ) -> u64 {
        let step = alignment(bytes);
        let places = possible(before, last, step);
        let weigh = |by: fn(i64, i64) -> i64| -> Vec<u32> {
            let weights = places.iter().map(|place| {
                let weight = by(
                    self.octaves[place.octave].max(0),
                    self.relations[place.relation].max(0),
                );
                u32::try_from(weight).expect("some hundred thousand")
            });
            weights.collect()
        };
        // Prefer places that are still due in both tables, then those due by octave, then those near the
        // start that are due by relation, then any.
        let mut weights = weigh(|octave, relation| octave * relation);
        if weights.iter().all(|&weight| weight == 0) {
            weights = weigh(|octave, _| octave);
        }
        if weights.iter().all(|&weight| weight == 0) {
            weights = weigh(|_, relation| relation);
            for (weight, place) in weights.iter_mut().zip(&places) {
                *weight *= u32::from(place.from < OCTAVES[OCTAVES.len() - 1]);
            }
        }
        if weights.iter().all(|&weight| weight == 0) {
            weights = vec![1; places.len()];
        }
        let mut drawn = random.below(weights.iter().sum());
        let chosen = weights.iter().position(|&weight| {
            let here = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            here
        });
        let place = places[chosen.expect("the draw is less than the sum")];
        self.octaves[place.octave] -= 1;
        self.relations[place.relation] -= 1;
        let count = u32::try_from((place.to - place.from) / place.step + 1).expect("some thousand");
        // Take the smallest of three draws: it makes forward skips small and backward skips large. Forward
        // skips are more frequent.
        let steps = (0..3).map(|_| random.below(count)).min().unwrap_or(0);
        place.from + place.step * u64::from(steps)
    }
}

fn is_open_seek(request: &Request) -> bool {
    request.bytes.is_none() && request.place != Place::Next
}

fn as_request(step: &Rough, write: bool) -> Option<&Request> {
    match step {
        Rough::Data(request) if request.write == write => Some(request),
        _ => None,
    }
}

/// Offsets `from` .. `to` (inclusive) in the same octave and relation.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: u64,
    to: u64,
    step: u64,
    octave: usize,
    relation: usize,
}

fn possible(before: Option<(u64, u64)>, last: u64, step: u64) -> Vec<Stretch> {
    let mut borders: Vec<u64> = OCTAVES.to_vec();
    borders.push(LAST_OCTAVE_END);
    if let Some((start, end)) = before {
        borders.extend([start, start + 1, end, end + 1]);
    }
    borders.sort_unstable();
    borders.dedup();
    let mut stretches = Vec::new();
    for pair in borders.windows(2) {
        let (from, to) = (pair[0], (pair[1] - 1).min(last));
        let relation = relation(before, from);
        if from > to || relation == SEQUENTIAL || from >= LAST_OCTAVE_END {
            continue;
        }
        let (aligned_from, aligned_to) = (from.next_multiple_of(step), to / step * step);
        let (from, to, step) = if aligned_from <= aligned_to {
            (aligned_from, aligned_to, step)
        } else {
            (from, to, 1)
        };
        stretches.push(Stretch {
            from,
            to,
            step,
            octave: octave(from),
            relation,
        });
    }
    stretches
}

/// State of files on which offsets depend.
#[derive(Debug, Default)]
struct Files {
    sizes: Vec<u64>,
    paths: HashMap<PathId, usize>,
    slots: HashMap<Slot, usize>,
}

impl Files {
    fn follow(&mut self, action: &FileAction, documents: &impl Fn(PathId) -> u64) {
        match *action {
            FileAction::Open {
                presence: Presence::NotThere,
                ..
            } => {}
            FileAction::Open {
                slot, path, intent, ..
            } => {
                let file = match (intent, self.paths.get(&path)) {
                    (Intent::Make, _) => self.add(path, 0),
                    (_, Some(&file)) => file,
                    (_, None) => self.add(path, documents(path)),
                };
                self.slots.insert(slot, file);
            }
            FileAction::Rename { from, to } => {
                let file = self.paths.remove(&from).expect("a file that the script created");
                self.paths.insert(to, file);
            }
            FileAction::Delete { path, .. } => {
                self.paths.remove(&path);
            }
            _ => {}
        }
    }

    fn bytes(&self, slot: Slot) -> u64 {
        self.sizes[self.slots[&slot]]
    }

    /// Records the end of a request.
    fn reach(&mut self, slot: Slot, end: u64) {
        let size = &mut self.sizes[self.slots[&slot]];
        *size = (*size).max(end);
    }

    fn add(&mut self, path: PathId, bytes: u64) -> usize {
        self.sizes.push(bytes);
        self.paths.insert(path, self.sizes.len() - 1);
        self.sizes.len() - 1
    }
}

/// The last request of one kind on a handle.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// Start and end, as in the tables.
    classic: Option<(u64, u64)>,
    /// The actual end, which differs from the tables with true offsets.
    end: u64,
    generation: u32,
}

/// Chooses the offsets and sizes that an application's script leaves open.
pub(super) struct Filler<'a, D> {
    /// Sizes of the files of the workspace.
    documents: &'a D,
    true_offsets: bool,
    files: Files,
    lasts: HashMap<(Slot, bool), Last>,
    /// Number of write runs so far. Each run has its own generation.
    runs: u32,
}

impl<'a, D: Fn(PathId) -> u64> Filler<'a, D> {
    pub(super) fn new(documents: &'a D, true_offsets: bool) -> Self {
        Self {
            documents,
            true_offsets,
            files: Files::default(),
            lasts: HashMap::new(),
            runs: 0,
        }
    }

    /// Returns the actions of the application in order.
    pub(super) fn fill(
        self,
        application: usize,
        steps: &[Rough],
        random: &mut RandomStream,
    ) -> Vec<FileAction> {
        let chosen = choose(application, steps, self.documents, random);
        let mut chosen = chosen.iter();
        self.write_out(steps, |_, _| {
            let chosen = chosen.next().expect("one for each request");
            (chosen.offset, chosen.bytes)
        })
    }

    /// Returns the actions of a piece in which everything is fixed.
    pub(super) fn follow_all(self, steps: &[Rough]) -> Vec<FileAction> {
        self.write_out(steps, |request, last| {
            let offset = match request.place {
                Place::At(offset) => offset,
                Place::Next => last.end,
                Place::Seek => unreachable!("only applications leave offsets open"),
            };
            (offset, request.bytes.expect("a size"))
        })
    }

    /// Returns the actions of steps with the offsets and sizes of `choice`.
    fn write_out(
        mut self,
        steps: &[Rough],
        mut choice: impl FnMut(&Request, Last) -> (u64, u32),
    ) -> Vec<FileAction> {
        let mut actions = Vec::with_capacity(steps.len());
        for step in steps {
            actions.push(match step {
                Rough::Act(action) => {
                    self.follow(action);
                    *action
                }
                Rough::Data(request) => {
                    let last = self.lasts.get(&(request.slot, request.write));
                    let last = last.copied().unwrap_or_default();
                    let (offset, bytes) = choice(request, last);
                    let real = self.real_offset(request, last, offset, bytes);
                    self.note(request, offset, real, bytes)
                }
                Rough::Burst(..) => unreachable!("bursts are written out before"),
            });
        }
        actions
    }

    fn follow(&mut self, action: &FileAction) {
        if let FileAction::Open { slot, .. } = *action {
            self.lasts.remove(&(slot, false));
            self.lasts.remove(&(slot, true));
        }
        self.files.follow(action, self.documents);
    }

    /// Returns the offset of a request, which differs from the tables with true offsets.
    fn real_offset(&self, request: &Request, last: Last, offset: u64, bytes: u32) -> u64 {
        let (bytes, file_bytes) = (u64::from(bytes), self.files.bytes(request.slot));
        match request.place {
            _ if !self.true_offsets => offset,
            Place::Next if last.end + bytes <= file_bytes.max(offset + bytes) => last.end,
            Place::Seek => true_offset(offset, bytes, file_bytes),
            _ => offset,
        }
    }

    fn note(&mut self, request: &Request, classic: u64, offset: u64, bytes: u32) -> FileAction {
        let slot = request.slot;
        let last = self.lasts.entry((slot, request.write)).or_default();
        let continues = last.classic.is_some() && offset == last.end;
        if request.write && !continues {
            self.runs += 1;
            last.generation = self.runs;
        }
        last.classic = Some((classic, classic + u64::from(bytes)));
        last.end = offset + u64::from(bytes);
        let (generation, end) = (last.generation, last.end);
        if !request.write {
            return FileAction::Read { slot, offset, bytes };
        }
        self.files.reach(slot, end);
        FileAction::Write {
            slot,
            offset,
            bytes,
            generation,
        }
    }
}

/// Chooses offsets and sizes of all requests of an application, in order.
fn choose(
    application: usize,
    steps: &[Rough],
    documents: &impl Fn(PathId) -> u64,
    random: &mut RandomStream,
) -> Vec<Chosen> {
    let mut reads = Due::new(application, false, steps, random);
    let mut writes = Due::new(application, true, steps, random);
    let mut files = Files::default();
    let mut lasts: HashMap<(Slot, bool), usize> = HashMap::new();
    let mut all: Vec<Chosen> = Vec::new();
    for step in steps {
        match step {
            Rough::Act(action) => {
                if let FileAction::Open { slot, .. } = *action {
                    lasts.remove(&(slot, false));
                    lasts.remove(&(slot, true));
                }
                files.follow(action, documents);
            }
            Rough::Data(request) => {
                let due = if request.write { &mut writes } else { &mut reads };
                let before = lasts.insert((request.slot, request.write), all.len());
                let last = before.map(|place| all[place].span());
                let chosen = due.choose(request, last, files.bytes(request.slot), random);
                files.reach(request.slot, if request.write { chosen.span().1 } else { 0 });
                all.push(Chosen { before, ..chosen });
            }
            Rough::Burst(..) => unreachable!("bursts are written out before"),
        }
    }
    exchange(&mut all, false, &column(&READ_RELATIONS, application), random);
    exchange(&mut all, true, &column(&WRITE_RELATIONS, application), random);
    all
}

/// Returns `offset` with one or two more hexadecimal digits, as it may have been before the recording
/// truncated it to three. Returns `offset` unchanged if the request would not stay within the file.
fn true_offset(offset: u64, bytes: u64, file_bytes: u64) -> u64 {
    let digits = [256, 16].into_iter().map(|factor| offset * factor);
    let mut within = digits.filter(|longer| offset >= 256 && longer + bytes <= file_bytes);
    within.next().unwrap_or(offset)
}
