//! A page layout program: tries the prefixes of a long name, tests many times whether it may write, and
//! prints once.

use crate::diskmix::draft::{Burst, Draft, Place};
use crate::diskmix::facts::LAYOUT_PRINTED;
use crate::{Intent, PathId};

/// Long name. An open is tried for each of its 49 prefixes. Seen: together with the writability tests, 85 opens fail.
const LONG_NAME: &str = "yearly-overview-of-all-branches-with-figures-plus";
/// Number of writability tests, without that of the print. Seen: 36 with it.
const TRIALS: u32 = 35;
const SIGNATURE_BYTES: u32 = 24;

pub(super) fn write(draft: &mut Draft<'_>, documents: &[PathId]) {
    draft.space(2);
    draft.list(4);
    draft.stat(documents[0]);
    for end in 1..LONG_NAME.len() {
        let path = draft.file(&LONG_NAME[..end]);
        draft.probe(path);
    }
    draft.miss_some("colour", 6);
    for (round, &path) in documents.iter().enumerate() {
        draft.space(3);
        draft.list(3);
        draft.miss_some(&format!("import{round}"), 6);
        signature(draft, path);
        try_some(draft, round, TRIALS / 3);
        draft.touch(path, Intent::Read);
        draft.view(path, Intent::Read, 2, Burst::reads(2, 1));
        draft.touch(path, Intent::Edit);
        draft.view(path, Intent::Edit, 2, Burst::reads(3, 2));
        draft.touch(path, Intent::Read);
    }
    signature(draft, documents[0]);
    draft.view(documents[0], Intent::Edit, 1, Burst::reads(2, 1));
    draft.view(documents[1], Intent::Edit, 1, Burst::reads(2, 1));
    try_some(draft, documents.len(), TRIALS % 3);
    let path = draft.file("pages.prn");
    draft.print(path, &LAYOUT_PRINTED[0], 0, 1);
}

fn signature(draft: &mut Draft<'_>, path: PathId) {
    let slot = draft.open(path, Intent::Read);
    draft.read(slot, Place::At(0), SIGNATURE_BYTES);
    draft.close(slot);
}

fn try_some(draft: &mut Draft<'_>, round: usize, count: u32) {
    for number in 0..count {
        let path = draft.file(&format!("trial{round}{number:02}.tmp"));
        draft.try_to_write(path, true);
    }
}
