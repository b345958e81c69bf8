//! Compares the ledger with a simple model that stores every byte of every file, known or unknown.

use dyno_workload::{content_of, FileAction, Intent, Ledger, PathId, Presence, Slot};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of a file; None: unknown.
type Bytes = Rc<RefCell<Vec<Option<u8>>>>;

#[derive(Debug, Clone, Copy)]
enum Step {
    Open(u16, u32, Intent),
    Close(u16),
    Write(u16, u64, u32, u32),
    SetEnd(u16, u64),
    Forget(u16, u64, u32),
    Rename(u32, u32),
    Delete(u32),
    Lose,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (slot, path, offset) = (0_u16..4, 0_u32..5, 0_u64..400);
    let intent = prop_oneof![
        Just(Intent::Read),
        Just(Intent::Edit),
        Just(Intent::Make),
        Just(Intent::Replace),
        Just(Intent::MakeOrEdit)
    ];
    let step = prop_oneof![
        4 => (slot.clone(), path.clone(), intent).prop_map(|(slot, path, intent)| Step::Open(slot, path, intent)),
        2 => slot.clone().prop_map(Step::Close),
        12 => (slot.clone(), offset.clone(), 0_u32..200, 0_u32..4)
            .prop_map(|(slot, offset, bytes, generation)| Step::Write(slot, offset, bytes, generation)),
        1 => (slot.clone(), offset.clone()).prop_map(|(slot, bytes)| Step::SetEnd(slot, bytes)),
        1 => (slot, offset, 1_u32..50).prop_map(|(slot, offset, bytes)| Step::Forget(slot, offset, bytes)),
        1 => (path.clone(), path.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => path.prop_map(Step::Delete),
        1 => Just(Step::Lose),
    ];
    prop::collection::vec(step, 1..120)
}

/// Files of a server. Steps that the server would refuse are skipped on both sides.
#[derive(Default)]
struct Model {
    paths: BTreeMap<u32, Bytes>,
    slots: BTreeMap<u16, Bytes>,
}

impl Model {
    /// Performs `step`, and updates the ledger if the server would allow it.
    fn act(&mut self, ledger: &mut Ledger, step: Step) {
        match step {
            Step::Open(slot, path, intent) => self.open(ledger, slot, path, intent),
            Step::Close(slot) => {
                if self.slots.remove(&slot).is_some() {
                    ledger.apply(&FileAction::Close { slot: Slot(slot) });
                }
            }
            Step::Write(slot, offset, bytes, generation) => {
                self.write(ledger, slot, offset, bytes, generation)
            }
            Step::SetEnd(slot, bytes) => {
                if let Some(file) = self.slots.get(&slot) {
                    file.borrow_mut().resize(bytes as usize, Some(0));
                    ledger.apply(&FileAction::SetEnd {
                        slot: Slot(slot),
                        bytes,
                    });
                }
            }
            Step::Forget(slot, offset, bytes) => {
                if let Some(file) = self.slots.get(&slot) {
                    let mut file = file.borrow_mut();
                    let end = (offset as usize + bytes as usize).min(file.len());
                    if offset as usize + bytes as usize > file.len() {
                        return; // The size would be unknown, which the model can't express.
                    }
                    file[offset as usize..end].fill(None);
                    ledger.forget(Slot(slot), offset, bytes);
                }
            }
            Step::Rename(from, to) => {
                if !self.paths.contains_key(&to) {
                    if let Some(file) = self.paths.remove(&from) {
                        self.paths.insert(to, file);
                        ledger.apply(&FileAction::Rename {
                            from: PathId(from),
                            to: PathId(to),
                        });
                    }
                }
            }
            Step::Delete(path) => {
                let presence = Presence::Either;
                self.paths.remove(&path);
                ledger.apply(&FileAction::Delete {
                    path: PathId(path),
                    presence,
                });
            }
            Step::Lose => {
                self.slots.clear();
                // Another test covers unsent data. Here all data was sent.
                for slot in 0..4 {
                    ledger.apply(&FileAction::Flush { slot: Slot(slot) });
                }
                ledger.session_lost();
            }
        }
    }

    fn open(&mut self, ledger: &mut Ledger, slot: u16, path: u32, intent: Intent) {
        let there = self.paths.contains_key(&path);
        let allowed = match intent {
            Intent::Make => !there,
            Intent::Read | Intent::Edit | Intent::Look => there,
            Intent::MakeOrEdit | Intent::Replace => true,
        };
        if !allowed || self.slots.contains_key(&slot) {
            return;
        }
        let file = self.paths.entry(path).or_default().clone();
        if intent == Intent::Replace {
            file.borrow_mut().clear();
        }
        self.slots.insert(slot, file);
        ledger.apply(&FileAction::Open {
            slot: Slot(slot),
            path: PathId(path),
            intent,
            directory: false,
            presence: Presence::There,
        });
    }

    fn write(&mut self, ledger: &mut Ledger, slot: u16, offset: u64, bytes: u32, generation: u32) {
        let Some(file) = self.slots.get(&slot) else {
            return;
        };
        let writing = ledger.writing(Slot(slot), generation).expect("an open slot");
        let (start, end) = (offset as usize, offset as usize + bytes as usize);
        let mut file = file.borrow_mut();
        if bytes > 0 {
            let length = file.len().max(end);
            file.resize(length, Some(0));
            for (byte, &new) in file[start..end]
                .iter_mut()
                .zip(content_of(writing, offset, bytes as usize))
            {
                *byte = Some(new);
            }
        }
        ledger.apply(&FileAction::Write {
            slot: Slot(slot),
            offset,
            bytes,
            generation,
        });
    }
}

/// Checks `start` .. `end` of the model with the ledger, which must accept correct bytes and reject a wrong
/// known byte.
fn hold_against(ledger: &Ledger, slot: Slot, file: &[Option<u8>], start: usize, end: usize) {
    let known = file[start..end].iter().flatten().count() as u64;
    let mut data: Vec<u8> = file[start..end].iter().map(|byte| byte.unwrap_or(0xEE)).collect();
    assert_eq!(ledger.check(slot, start as u64, &data), Ok(known));
    for place in [0, data.len() / 2, data.len().saturating_sub(1)] {
        if file[start..end].get(place).copied().flatten().is_some() {
            data[place] ^= 0x40;
            assert!(
                ledger.check(slot, start as u64, &data).is_err(),
                "byte {} of {}",
                start + place,
                file.len()
            );
            data[place] ^= 0x40;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_ledger_agrees_with_a_byte_by_byte_model(steps in steps(), from in 0_usize..500, bytes in 1_usize..300) {
        let (mut ledger, mut model) = (Ledger::new(7), Model::default());
        for path in 0..5 {
            // Make the file known to be missing, as after a sweep.
            ledger.apply(&FileAction::Delete { path: PathId(path), presence: Presence::Either });
        }
        for step in steps {
            model.act(&mut ledger, step);
            for (&slot, file) in &model.slots {
                let (slot, file) = (Slot(slot), file.borrow());
                let got = ledger.expected_bytes(slot, from as u64, bytes as u32);
                prop_assert_eq!(got, Some(file.len().saturating_sub(from).min(bytes) as u32));
                hold_against(&ledger, slot, &file, 0, file.len());
                let start = from.min(file.len());
                hold_against(&ledger, slot, &file, start, (start + bytes).min(file.len()));
            }
        }
        let sizes: BTreeMap<u32, u64> = model.paths.iter().map(|(&path, file)| (path, file.borrow().len() as u64)).collect();
        let ours: BTreeMap<u32, u64> = ledger.files().map(|(path, bytes)| (path.0, bytes.expect("known"))).collect();
        prop_assert_eq!(ours, sizes);
    }
}

fn open(ledger: &mut Ledger, slot: u16, path: u32, intent: Intent) {
    ledger.apply(&FileAction::Open {
        slot: Slot(slot),
        path: PathId(path),
        intent,
        directory: false,
        presence: Presence::There,
    });
}

fn write(ledger: &mut Ledger, slot: u16, offset: u64, bytes: u32, generation: u32) {
    ledger.apply(&FileAction::Write {
        slot: Slot(slot),
        offset,
        bytes,
        generation,
    });
}

#[test]
fn a_renamed_file_keeps_its_number() {
    let mut ledger = Ledger::new(1);
    open(&mut ledger, 0, 1, Intent::Make);
    let before = ledger.writing(Slot(0), 5);
    ledger.apply(&FileAction::Close { slot: Slot(0) });
    ledger.apply(&FileAction::Rename {
        from: PathId(1),
        to: PathId(2),
    });
    open(&mut ledger, 3, 2, Intent::Edit);
    assert_eq!(ledger.writing(Slot(3), 5), before);
    open(&mut ledger, 0, 1, Intent::Make);
    assert_ne!(
        ledger.writing(Slot(0), 5),
        before,
        "another file under the old name"
    );
}

#[test]
fn a_lost_write_leaves_data_of_an_earlier_level_which_are_wrong() {
    let mut ledger = Ledger::new(1);
    ledger.begin_level(1);
    open(&mut ledger, 0, 1, Intent::Make);
    let former = content_of(ledger.writing(Slot(0), 5).expect("open"), 0, 100);
    write(&mut ledger, 0, 0, 100, 5);
    ledger.apply(&FileAction::Close { slot: Slot(0) });
    ledger.begin_level(2);
    open(&mut ledger, 0, 1, Intent::Edit);
    assert_eq!(
        ledger.check(Slot(0), 0, former),
        Ok(100),
        "nothing has been written since"
    );
    // All levels of one seed use the same generation numbers.
    let present = content_of(ledger.writing(Slot(0), 5).expect("open"), 0, 40);
    write(&mut ledger, 0, 0, 40, 5);
    assert_eq!(
        ledger.check(Slot(0), 0, former).map_err(|wrong| wrong.offset),
        Err(0)
    );
    let both = [present, &former[40..]].concat();
    assert_eq!(ledger.check(Slot(0), 0, &both), Ok(100));
}

#[test]
fn files_recreated_under_a_new_ledger_have_other_contents() {
    let made = |level| {
        let mut ledger = Ledger::new(1);
        ledger.begin_level(level);
        open(&mut ledger, 0, 1, Intent::Replace);
        content_of(ledger.writing(Slot(0), 0).expect("open"), 0, 100)
    };
    assert_eq!(made(1), made(1));
    assert_ne!(made(1), made(2));
}

#[test]
fn unsent_data_are_unknown_after_a_lost_session() {
    let mut ledger = Ledger::new(1);
    open(&mut ledger, 0, 1, Intent::Make);
    write(&mut ledger, 0, 0, 100, 1);
    ledger.apply(&FileAction::Flush { slot: Slot(0) });
    ledger.session_lost();
    assert!(ledger.check_path(PathId(1), 0, &[0; 100]).is_err(), "it was sent");
    open(&mut ledger, 0, 1, Intent::Edit);
    write(&mut ledger, 0, 50, 100, 2);
    ledger.session_lost();
    assert_eq!(ledger.check_path(PathId(1), 0, &[0; 100]), Ok(0));
    assert_eq!(ledger.files().collect::<Vec<_>>(), [(PathId(1), None)]);
}

#[test]
fn after_a_failed_write_past_the_end_the_size_is_unknown_but_the_beginning_known() {
    let mut ledger = Ledger::new(1);
    open(&mut ledger, 0, 1, Intent::Make);
    write(&mut ledger, 0, 0, 100, 1);
    ledger.forget(Slot(0), 80, 100);
    assert_eq!(ledger.expected_bytes(Slot(0), 0, 10), None);
    let right = content_of(ledger.writing(Slot(0), 1).expect("open"), 0, 100);
    assert_eq!(ledger.check(Slot(0), 0, right), Ok(80));
    assert!(ledger.check(Slot(0), 0, &[0; 80]).is_err());
}

#[test]
fn files_that_existed_before_are_unknown() {
    let mut ledger = Ledger::new(1);
    open(&mut ledger, 0, 1, Intent::Edit);
    assert_eq!(ledger.check(Slot(0), 0, &[1, 2, 3]), Ok(0));
    assert_eq!(ledger.expected_bytes(Slot(0), 0, 10), None);
    write(&mut ledger, 0, 10, 10, 1);
    assert!(ledger.check(Slot(0), 5, &[0; 20]).is_err());
    assert_eq!(ledger.check(Slot(0), 0, &[9; 10]), Ok(0));
}

#[test]
fn more_bytes_than_the_file_has_are_wrong() {
    let mut ledger = Ledger::new(1);
    open(&mut ledger, 0, 1, Intent::Make);
    write(&mut ledger, 0, 0, 10, 1);
    let right = content_of(ledger.writing(Slot(0), 1).expect("open"), 0, 11);
    assert_eq!(ledger.check(Slot(0), 0, &right[..10]), Ok(10));
    assert_eq!(
        ledger.check(Slot(0), 0, right).map_err(|wrong| wrong.offset),
        Err(10)
    );
}

#[test]
fn sequential_writes_are_one_extent_and_scattered_writes_stay_bounded() {
    let mut ledger = Ledger::new(1);
    open(&mut ledger, 0, 1, Intent::Make);
    for piece in 0..1000 {
        write(&mut ledger, 0, piece * 4096, 4096, 1);
    }
    assert_eq!(ledger.extents(), 1);
    for piece in 0..3000 {
        write(&mut ledger, 0, piece * 100, 50, piece as u32 + 2);
    }
    assert!(ledger.extents() <= 4096, "{}", ledger.extents());
}
