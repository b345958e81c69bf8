//! Sizes of requests: integers within the rows of a table of sizes, whose sum is the table's number of bytes.
//!
//! `fill.rs` assigns sizes to requests.

use super::facts::SizeRow;
use crate::random::RandomStream;

/// Returns the remaining sizes of an application's table, in ascending order, after the sizes that the script
/// fixes are removed.
///
/// # Panics
/// The script fixes sizes that are not in the table, or the remaining sizes can't add up to the remaining bytes. The
/// tests find such an error in the script.
pub(super) fn free_sizes(
    rows: &[SizeRow],
    application: usize,
    bytes: u32,
    fixed: &[u32],
    random: &mut RandomStream,
) -> Vec<u32> {
    let mut sizes = Vec::new();
    let mut most = Vec::new();
    let mut least = Vec::new();
    for row in rows {
        let taken = fixed
            .iter()
            .filter(|size| (row.least..=row.most).contains(size))
            .count();
        let count = row.counts[application] as usize;
        let left = count.checked_sub(taken).unwrap_or_else(|| {
            panic!(
                "application {application} fixes {taken} sizes of {} to {}, but there are only {count}",
                row.least, row.most
            )
        });
        for _ in 0..left {
            sizes.push(row.least + random.below(row.most - row.least + 1));
            least.push(row.least);
            most.push(row.most);
        }
    }
    let fixed_bytes: u32 = fixed.iter().sum();
    let wanted = bytes
        .checked_sub(fixed_bytes)
        .expect("the fixed sizes do not exceed the total");
    bring_to_sum(&mut sizes, &least, &most, wanted);
    assert_eq!(
        sizes.iter().sum::<u32>(),
        wanted,
        "bytes of application {application}"
    );
    sizes.sort_unstable();
    sizes
}

/// Moves each size towards its bound in proportion to its distance, until the sum is right. Uses integers, so
/// that the sizes are the same on every machine.
fn bring_to_sum(sizes: &mut [u32], least: &[u32], most: &[u32], wanted: u32) {
    let sum: u32 = sizes.iter().sum();
    let up = sum < wanted;
    let mut missing = u64::from(sum.abs_diff(wanted));
    let room = |place: usize, size: u32| {
        u64::from(if up {
            most[place] - size
        } else {
            size - least[place]
        })
    };
    let all_room: u64 = sizes
        .iter()
        .enumerate()
        .map(|(place, &size)| room(place, size))
        .sum();
    let share_of = missing.min(all_room);
    if all_room == 0 {
        return;
    }
    for round in 0..2 {
        for (place, size) in sizes.iter_mut().enumerate().rev() {
            let most_steps = room(place, *size).min(missing);
            let steps = if round == 0 {
                (room(place, *size) * share_of / all_room).min(most_steps)
            } else {
                most_steps
            };
            missing -= steps;
            let steps = u32::try_from(steps).expect("less than a size");
            *size = if up { *size + steps } else { *size - steps };
        }
    }
}
