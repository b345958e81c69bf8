//! The workload on objects: its operations, which are the same on every machine, its population, and its
//! ledger.

use dyno_workload::{
    part_of_object, ObjectFault, ObjectLedger, ObjectOp, ObjectSize, Objects, ObjectsOptions, Outcome,
    Workload,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

const MIXED: [u32; 8] = [15, 45, 30, 10, 0, 0, 0, 0];
const ALL: [u32; 8] = [3, 2, 1, 1, 1, 2, 1, 1];

fn options(weights: [u32; 8], objects: u32) -> Arc<ObjectsOptions> {
    Arc::new(ObjectsOptions {
        weights,
        size: ObjectSize::Lognormal {
            median_bytes: 4096,
            sigma: 1.5,
            most_bytes: 1 << 20,
        },
        objects,
        objects_per_prefix: 10,
        shared: false,
    })
}

fn outcome(ok: bool) -> Outcome {
    Outcome { ok, ..Outcome::START }
}

/// The expected values change only if a seed's operations change. Results of the two versions are then
/// incomparable.
#[test]
fn the_first_operations_of_a_seed_never_change() {
    let mut workload = Objects::new(options(ALL, 100), 7, 3, 1);
    let mut digest = Xxh3Default::new();
    for place in 0..10_000 {
        let op = workload.next(&outcome(place % 97 != 0));
        digest.update(format!("{op:?}").as_bytes());
    }
    assert_eq!(
        digest.digest(),
        17_318_309_226_864_231_316,
        "the digest of the operations"
    );
}

#[test]
fn operations_have_the_shares_of_their_weights() {
    let options = options(MIXED, 50);
    assert_eq!(options.classes(), ["put", "get", "head", "delete"]);
    let mut workload = Objects::new(options.clone(), 1, 0, 0);
    let mut counts = [0_u32; 4];
    for _ in 0..100_000 {
        let op = workload.next(&Outcome::START);
        counts[usize::from(options.class_of(&op).0)] += 1;
    }
    for (count, weight) in counts.iter().zip(MIXED) {
        let share = f64::from(*count) / 1000.0;
        assert!((share - f64::from(weight)).abs() < 0.6, "{counts:?}");
    }
}

/// Tracks the existing objects from the operations alone. One operation in ten fails.
#[test]
fn only_existing_objects_are_read_or_deleted() {
    for (weights, objects) in [(MIXED, 1), (ALL, 2), (ALL, 25), ([1, 1, 1, 9, 1, 1, 1, 9], 30)] {
        let mut workload = Objects::new(options(weights, objects), 2, 0, 0);
        let mut there: BTreeSet<u32> = (0..objects).collect();
        let mut last = Outcome::START;
        for place in 0..20_000 {
            let op = workload.next(&last);
            last = outcome(place % 10 != 0);
            let mut removed = Vec::new();
            let mut made = None;
            match op {
                ObjectOp::Put { object, .. } => made = Some(object),
                ObjectOp::Get { object, .. }
                | ObjectOp::Head { object, .. }
                | ObjectOp::GetRange { object, .. } => {
                    assert!(there.contains(&object), "{op:?}");
                }
                ObjectOp::Delete { object } => removed.push(object),
                ObjectOp::DeleteMany { objects, count } => {
                    removed.extend(&objects[..usize::from(count)]);
                    assert_eq!(removed.iter().collect::<BTreeSet<_>>().len(), removed.len());
                }
                ObjectOp::Copy { from, to } => {
                    assert!(from != to && there.contains(&from), "{op:?}");
                    made = Some(to);
                }
                ObjectOp::List { prefix } => assert!(prefix < objects.div_ceil(10)),
            }
            assert!(removed.iter().all(|object| there.remove(object)), "{op:?}");
            if let Some(object) = made {
                assert!(object < objects);
                if last.ok {
                    there.insert(object);
                } else {
                    there.remove(&object);
                }
            }
        }
    }
}

#[test]
fn a_part_lies_within_its_object() {
    for bytes in [1, 2, 1000, 5 << 40] {
        for part in [
            0,
            u64::MAX,
            1 << 63,
            0x8000_0000,
            u64::MAX << 32,
            12_345_678_901_234_567,
        ] {
            let (first, last) = part_of_object(part, bytes);
            assert!(first <= last && last < bytes, "{part} of {bytes}");
        }
    }
    assert_eq!(part_of_object(0xffff_ffff, 1000), (0, 999));
}

fn put(ledger: &mut ObjectLedger, object: u32, bytes: u64, tag: u64) {
    let version = ledger.begin_put(object, bytes);
    ledger.stored(object, version, tag);
}

#[test]
fn an_answer_is_judged_right_stale_or_wrong() {
    let mut ledger = ObjectLedger::new(1, 3);
    put(&mut ledger, 0, 10, 100);
    let old = ledger.known(0).expect("stored");
    put(&mut ledger, 0, 20, 200);
    assert_ne!(
        old.content(0, 10),
        ledger.known(0).expect("stored").content(0, 10)
    );
    assert_eq!(ledger.judge(0, Some(20), Some(200)), Ok(()));
    assert_eq!(ledger.judge(0, Some(20), None), Ok(()));
    assert_eq!(ledger.judge(0, None, Some(200)), Ok(()));
    assert_eq!(ledger.judge(0, Some(10), Some(100)), Err(ObjectFault::Stale));
    assert_eq!(ledger.judge(0, None, Some(100)), Err(ObjectFault::Stale));
    assert_eq!(ledger.judge(0, Some(20), Some(300)), Err(ObjectFault::Tag));
    let length = ObjectFault::Length {
        expected: 20,
        got: 21,
    };
    assert_eq!(ledger.judge(0, Some(21), Some(200)), Err(length));
    put(&mut ledger, 0, 30, 300);
    put(&mut ledger, 0, 40, 400);
    assert_eq!(
        ledger.judge(0, Some(10), Some(100)),
        Err(ObjectFault::Stale),
        "long ago"
    );
    assert_eq!(ledger.judge(0, Some(40), Some(500)), Err(ObjectFault::Tag));
    ledger.clear();
    assert_eq!((ledger.known(0), ledger.present().count()), (None, 0));
    put(&mut ledger, 0, 45, 450);
    for (bytes, tag) in [(10, 100), (40, 400)] {
        let judged = ledger.judge(0, Some(bytes), Some(tag));
        assert_eq!(judged, Err(ObjectFault::Stale), "before the removal");
    }
    ledger.retire(0);
    put(&mut ledger, 0, 50, 500);
    assert_eq!(
        ledger.judge(0, Some(50), Some(100)),
        Err(ObjectFault::Tag),
        "another key's"
    );
}

#[test]
fn an_object_is_unknown_during_a_change_and_after_a_failed_one() {
    let mut ledger = ObjectLedger::new(1, 3);
    put(&mut ledger, 0, 10, 100);
    ledger.begin_change(0);
    assert_eq!(ledger.known(0), None);
    assert_eq!(ledger.judge(0, Some(99), Some(99)), Ok(()));
    let mut check = ledger.begin_list(0, 3);
    assert_eq!(check.entry(&mut ledger, (0, 0), 99, Some(99)), Ok(()));
    assert_eq!(check.end(&ledger), Ok(()));
    assert_eq!(ledger.begin_list(0, 3).end(&ledger), Ok(()));
    assert_eq!(ledger.present().collect::<Vec<_>>(), [0]);
    ledger.deleted(0);
    assert_eq!(ledger.present().count(), 0);
}

#[test]
fn a_retired_key_is_not_checked_and_the_next_key_starts_empty() {
    let mut ledger = ObjectLedger::new(1, 3);
    put(&mut ledger, 0, 10, 100);
    put(&mut ledger, 0, 20, 200);
    ledger.begin_change(0);
    ledger.retire(0);
    assert_eq!((ledger.retired(0), ledger.retired(1)), (1, 0));
    assert_eq!((ledger.known(0), ledger.before(0)), (None, None));
    let mut check = ledger.begin_list(0, 3);
    assert_eq!(check.entry(&mut ledger, (0, 0), 99, Some(99)), Ok(()));
    for turn in [1, 2] {
        let unexpected = check.entry(&mut ledger, (0, turn), 99, Some(99));
        assert_eq!(unexpected, Err(ObjectFault::Unexpected), "{turn}");
    }
    put(&mut ledger, 0, 30, 300);
    assert_eq!(
        ledger
            .judge(0, Some(20), Some(200))
            .map_err(|fault| fault == ObjectFault::Stale),
        Err(false)
    );
    let mut check = ledger.begin_list(0, 3);
    assert_eq!(check.entry(&mut ledger, (0, 0), 99, Some(99)), Ok(()));
    assert_eq!(check.entry(&mut ledger, (0, 1), 30, Some(300)), Ok(()));
    assert_eq!(check.end(&ledger), Ok(()));
    let mut check = ledger.begin_list(0, 3);
    assert_eq!(check.entry(&mut ledger, (0, 0), 99, Some(99)), Ok(()));
    assert_eq!(check.end(&ledger), Err(ObjectFault::Missing));
}

#[test]
fn a_list_has_every_object_once_as_it_was_put() {
    let mut ledger = ObjectLedger::new(1, 4);
    for object in 0..3 {
        put(&mut ledger, object, 10, u64::from(object));
    }
    put(&mut ledger, 2, 11, 22);
    let mut check = ledger.begin_list(0, 3);
    assert_eq!(check.entry(&mut ledger, (0, 0), 10, Some(0)), Ok(()));
    assert_eq!(
        check.entry(&mut ledger, (0, 0), 10, Some(0)),
        Err(ObjectFault::Unexpected)
    );
    assert_eq!(
        check.entry(&mut ledger, (1, 0), 12, Some(1)),
        Err(ObjectFault::Listed)
    );
    assert_eq!(
        check.entry(&mut ledger, (2, 0), 10, Some(2)),
        Err(ObjectFault::Stale)
    );
    assert_eq!(
        check.entry(&mut ledger, (3, 0), 10, None),
        Err(ObjectFault::Unexpected)
    );
    assert_eq!(check.end(&ledger), Ok(()));
    let mut check = ledger.begin_list(2, 9);
    assert_eq!(
        check.entry(&mut ledger, (3, 0), 10, None),
        Err(ObjectFault::Unexpected)
    );
    assert_eq!(check.end(&ledger), Err(ObjectFault::Missing));
}

#[test]
fn shared_objects_are_the_same_for_all_threads_and_their_tags_are_learned() {
    let (mut one, two) = (ObjectLedger::shared(9, &[5, 6]), ObjectLedger::shared(9, &[5, 6]));
    let content = |ledger: &ObjectLedger| ledger.known(1).expect("there").content(0, 6);
    assert_eq!(content(&one), content(&two));
    assert_eq!(one.judge(1, Some(6), Some(1)), Ok(()));
    assert_eq!(one.judge(1, Some(6), Some(2)), Err(ObjectFault::Tag));
    assert!(one.judge(1, Some(7), Some(1)).is_err());
}
