//! Distributes the requests that a script leaves open among its bursts: the number of reads, writes and file queries of
//! each burst, how many of them continue the previous request, and their order.
//!
//! `fill.rs` chooses offsets and sizes.

use super::draft::{Burst, Place, Request, Rough, Share};
use super::facts::{
    OffsetRow, Operation, SizeRow, OPERATIONS, READ_OFFSETS, READ_SIZES, WRITE_OFFSETS, WRITE_SIZES,
};
use crate::random::RandomStream;
use crate::{FileAction, Slot};

/// Upper bound on the slots of an application.
const MOST_SLOTS: usize = 64;

/// The requests assigned to one burst.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    requests: u32,
    sequential: u32,
    large: bool,
}

/// Divides `total` in proportion to the weights into integers, by largest remainders. If two remainders are
/// equal, the earlier part takes precedence. No part exceeds its cap.
fn apportion(total: u32, weights: &[u32], caps: &[u32]) -> Vec<u32> {
    let mut parts = vec![0; weights.len()];
    let mut left = total;
    while left > 0 {
        let open: Vec<usize> = (0..parts.len())
            .filter(|&place| weights[place] > 0 && parts[place] < caps[place])
            .collect();
        let sum: u64 = open.iter().map(|&place| u64::from(weights[place])).sum();
        assert!(sum > 0, "no burst accepts {left} of {total} requests");
        let round = u64::from(left);
        let mut remainders = Vec::new();
        for &place in &open {
            let product = round * u64::from(weights[place]);
            let whole = u32::try_from(product / sum).expect("no more than what is left");
            let taken = whole.min(caps[place] - parts[place]);
            parts[place] += taken;
            left -= taken;
            remainders.push((product % sum, place));
        }
        remainders.sort_by_key(|&(remainder, place)| (std::cmp::Reverse(remainder), place));
        for (_, place) in remainders {
            if left > 0 && parts[place] < caps[place] {
                parts[place] += 1;
                left -= 1;
            }
        }
    }
    parts
}

fn requests_left(steps: &[Rough], write: bool, total: u32, sequential: u32) -> (u32, u32) {
    let fixed = |next: bool| {
        let of_kind = steps.iter().filter(|step| match step {
            Rough::Data(request) => request.write == write && (!next || request.place == Place::Next),
            _ => false,
        });
        u32::try_from(of_kind.count()).expect("some thousand requests")
    };
    let left = |total: u32, fixed: u32, what: &str| {
        total
            .checked_sub(fixed)
            .unwrap_or_else(|| panic!("the script fixes {fixed} {what}, but there are only {total}"))
    };
    let what = if write { "writes" } else { "reads" };
    (
        left(total, fixed(false), what),
        left(sequential, fixed(true), what),
    )
}

/// Returns the parts of all bursts, in order.
fn parts(steps: &[Rough], write: bool, total: u32, sequential: u32, first: &[bool]) -> Vec<Part> {
    let large: Vec<bool> = bursts(steps).map(|(_, burst)| burst.large).collect();
    let shares: Vec<Share> = bursts(steps)
        .map(|(_, burst)| if write { burst.writes } else { burst.reads })
        .collect();
    let (left, sequential_left) = requests_left(steps, write, total, sequential);
    let weights: Vec<u32> = shares.iter().map(|share| share.requests).collect();
    let least: Vec<u32> = weights.iter().map(|&weight| weight.min(1)).collect();
    let beyond = left
        .checked_sub(least.iter().sum())
        .expect("a request for each burst that has a weight");
    let requests = apportion(beyond, &weights, &vec![u32::MAX; weights.len()]);
    let requests: Vec<u32> = requests
        .iter()
        .zip(&least)
        .map(|(more, least)| more + least)
        .collect();
    let weights: Vec<u32> = shares.iter().map(|share| share.sequential).collect();
    let caps: Vec<u32> = requests
        .iter()
        .zip(first)
        .map(|(&requests, &first)| requests.saturating_sub(u32::from(first)))
        .collect();
    let sequential = apportion(sequential_left, &weights, &caps);
    (0..shares.len())
        .map(|place| Part {
            requests: requests[place],
            sequential: sequential[place],
            large: large[place],
        })
        .collect()
}

fn bursts(steps: &[Rough]) -> impl Iterator<Item = (Slot, Burst)> + '_ {
    steps.iter().filter_map(|step| match step {
        Rough::Burst(slot, burst) => Some((*slot, *burst)),
        _ => None,
    })
}

/// Returns for each burst whether it has the first request of this kind on its handle.
fn first_of_handle(steps: &[Rough], write: bool) -> Vec<bool> {
    let mut used = [false; MOST_SLOTS];
    let mut first = Vec::new();
    for step in steps {
        match step {
            Rough::Act(FileAction::Open { slot, .. }) => used[usize::from(slot.0)] = false,
            Rough::Data(request) if request.write == write => used[usize::from(request.slot.0)] = true,
            Rough::Burst(slot, burst) => {
                let share = if write { burst.writes } else { burst.reads };
                first.push(!used[usize::from(slot.0)]);
                used[usize::from(slot.0)] |= share.requests > 0;
            }
            _ => {}
        }
    }
    first
}

fn total(rows: &[SizeRow], application: usize) -> u32 {
    rows.iter().map(|row| row.counts[application]).sum()
}

fn sequential(rows: &[OffsetRow], application: usize) -> u32 {
    rows[0].counts[application]
}

fn asks(steps: &[Rough], application: usize) -> Vec<u32> {
    let row = OPERATIONS
        .iter()
        .find(|row| row.operation == Operation::QueryFile);
    let total = row.expect("a row for file queries").counts[application];
    let fixed = steps
        .iter()
        .filter(|step| matches!(step, Rough::Act(FileAction::QueryFile { .. })))
        .count();
    let left = total
        .checked_sub(u32::try_from(fixed).expect("some hundred"))
        .expect("no more file queries than the table has");
    let weights: Vec<u32> = bursts(steps).map(|(_, burst)| burst.asks).collect();
    apportion(left, &weights, &vec![u32::MAX; weights.len()])
}

/// Returns the steps of an application with every burst expanded.
pub(super) fn write_out(application: usize, steps: &[Rough], random: &mut RandomStream) -> Vec<Rough> {
    let read_firsts = first_of_handle(steps, false);
    let write_firsts = first_of_handle(steps, true);
    let reads = parts(
        steps,
        false,
        total(&READ_SIZES, application),
        sequential(&READ_OFFSETS, application),
        &read_firsts,
    );
    let writes = parts(
        steps,
        true,
        total(&WRITE_SIZES, application),
        sequential(&WRITE_OFFSETS, application),
        &write_firsts,
    );
    let asks = asks(steps, application);
    let mut out = Vec::new();
    let mut burst = 0;
    for &step in steps {
        let Rough::Burst(slot, _) = step else {
            out.push(step);
            continue;
        };
        let mut groups = groups(slot, false, reads[burst], read_firsts[burst], random);
        groups.extend(self::groups(
            slot,
            true,
            writes[burst],
            write_firsts[burst],
            random,
        ));
        let ask = Rough::Act(FileAction::QueryFile { slot });
        groups.extend((0..asks[burst]).map(|_| vec![ask]));
        shuffle(&mut groups, random);
        // Requests that continue the last request before the burst precede seeking requests.
        groups.sort_by_key(|group| !continues(group));
        out.extend(groups.into_iter().flatten());
        burst += 1;
    }
    out
}

fn continues(group: &[Rough]) -> bool {
    matches!(group.first(), Some(Rough::Data(request)) if request.place == Place::Next)
}

/// Returns the requests of one kind as runs: a seeking request, and the requests that continue it.
fn groups(slot: Slot, write: bool, part: Part, first: bool, random: &mut RandomStream) -> Vec<Vec<Rough>> {
    let mut places: Vec<Place> = (0..part.requests)
        .map(|number| {
            if number < part.sequential {
                Place::Next
            } else {
                Place::Seek
            }
        })
        .collect();
    shuffle(&mut places, random);
    if first {
        if let Some(seek) = places.iter().position(|&place| place == Place::Seek) {
            places.swap(0, seek);
        }
    }
    let mut groups: Vec<Vec<Rough>> = Vec::new();
    for place in places {
        let request = Rough::Data(Request {
            slot,
            write,
            place,
            bytes: None,
            large: part.large,
        });
        match groups.last_mut() {
            Some(group) if place == Place::Next => group.push(request),
            _ => groups.push(vec![request]),
        }
    }
    groups
}

pub(super) fn shuffle<T>(items: &mut [T], random: &mut RandomStream) {
    for place in (1..items.len()).rev() {
        let bound = u32::try_from(place + 1).expect("some thousand items");
        items.swap(place, random.below(bound) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::apportion;

    #[test]
    fn parts_have_the_right_sum_and_follow_their_weights_within_their_caps() {
        let free = [u32::MAX; 3];
        assert_eq!(apportion(10, &[1, 1, 2], &free), [3, 2, 5]);
        assert_eq!(apportion(7, &[0, 1, 0], &free), [0, 7, 0]);
        assert_eq!(apportion(10, &[1, 1, 2], &[1, 20, 3]), [1, 6, 3]);
        assert_eq!(apportion(0, &[0, 0, 0], &free), [0, 0, 0]);
    }
}
