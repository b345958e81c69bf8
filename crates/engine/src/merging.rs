//! Merges two parts of a level, by rules that are attributes of the tally's fields (`tally.rs`). The order of
//! merging does not matter.

use dyno_measure::Histogram;
use merge::Merge;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::{AddAssign, BitXorAssign};

/// A row of a list. Rows of two parts with equal keys are merged.
pub(crate) trait Keyed: Merge {
    type Key: Ord;
    fn key(&self) -> Self::Key;
}

pub(crate) fn sum<T: AddAssign>(ours: &mut T, theirs: T) {
    *ours += theirs;
}

/// Adds the known values; the sum is None if there are none.
pub(crate) fn sum_of_known(ours: &mut Option<u64>, theirs: Option<u64>) {
    *ours = ours
        .zip(theirs)
        .map(|(ours, theirs)| ours + theirs)
        .or(*ours)
        .or(theirs);
}

/// Takes the larger value. For an `Option`, None is smaller than any value.
pub(crate) fn max<T: Ord>(ours: &mut T, theirs: T) {
    if theirs > *ours {
        *ours = theirs;
    }
}

/// Takes the smallest known value.
pub(crate) fn min_of_known<T: PartialOrd>(ours: &mut Option<T>, theirs: Option<T>) {
    if ours.is_none() || theirs.is_some() && theirs < *ours {
        *ours = theirs;
    }
}

pub(crate) fn or(ours: &mut bool, theirs: bool) {
    *ours |= theirs;
}

pub(crate) fn histogram(ours: &mut Histogram, theirs: Histogram) {
    ours.add(&theirs);
}

pub(crate) fn histogram_of_known(ours: &mut Option<Histogram>, theirs: Option<Histogram>) {
    if let Some(theirs) = theirs {
        ours.get_or_insert_default().add(&theirs);
    }
}

/// Merges values that some parts don't have.
pub(crate) fn of_known<T: Merge + Default>(ours: &mut Option<T>, theirs: Option<T>) {
    if let Some(theirs) = theirs {
        ours.get_or_insert_default().merge(theirs);
    }
}

/// Merges rows by key and sorts them.
pub(crate) fn union<T: Keyed>(ours: &mut Vec<T>, theirs: Vec<T>) {
    let mut rows: BTreeMap<T::Key, T> = ours.drain(..).map(|row| (row.key(), row)).collect();
    for row in theirs {
        match rows.get_mut(&row.key()) {
            Some(known) => known.merge(row),
            None => {
                rows.insert(row.key(), row);
            }
        }
    }
    ours.extend(rows.into_values());
}

/// Merges rows that both parts have in the same order. A part may still have no rows.
pub(crate) fn each<T: Merge>(ours: &mut Vec<T>, theirs: Vec<T>) {
    if ours.is_empty() {
        *ours = theirs;
    } else {
        let pairs = ours.iter_mut().zip(theirs);
        pairs.for_each(|(ours, theirs)| ours.merge(theirs));
    }
}

/// Appends and sorts the rows of both parts.
pub(crate) fn sorted<T: Ord>(ours: &mut Vec<T>, theirs: Vec<T>) {
    ours.extend(theirs);
    ours.sort_unstable();
}

/// Combines the values of each key with XOR.
pub(crate) fn xor<K: Ord, V: BitXorAssign + Default>(ours: &mut BTreeMap<K, V>, theirs: BTreeMap<K, V>) {
    for (key, value) in theirs {
        *ours.entry(key).or_default() ^= value;
    }
}

/// Takes the value that the parts share. If the values differ, takes the one whose text sorts first, so that
/// the order of merging does not matter.
pub(crate) fn same(ours: &mut Option<Value>, theirs: Option<Value>) {
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    if ours.is_none() || theirs.is_some() && text(&theirs) < text(ours) {
        *ours = theirs;
    }
}
