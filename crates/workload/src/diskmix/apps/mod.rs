//! The eight applications and the order of their requests. They are our own imitations of typical programs.
//! The frequency of each routine was seen in the captures. The order is derived from dependencies (a file is
//! created before it is renamed), or is a choice.
//!
//! `share.rs` and `fill.rs` choose offsets, sizes and the number of requests in bursts from the tables.

mod drawings;
mod layout;
mod letters;
mod papers;
mod records;
mod sheets;
mod slides;
mod tables;

use super::draft::Draft;
use super::facts::{APPS, DOCUMENTS};
use crate::PathId;

/// Extensions of the documents, by application.
const EXTENSIONS: [&str; 8] = ["ltr", "sht", "sld", "rec", "tab", "drw", "lay", "ppr"];

/// Returns the name of a document in its application's directory.
pub(super) fn document(application: usize, number: u32) -> String {
    let stem = &APPS[application][..4];
    format!("{stem}{number:02}.{}", EXTENSIONS[application])
}

fn documents(draft: &mut Draft<'_>, application: usize) -> Vec<PathId> {
    (0..DOCUMENTS[application])
        .map(|number| draft.file(&document(application, number)))
        .collect()
}

pub(super) fn write(application: usize, draft: &mut Draft<'_>) {
    let documents = documents(draft, application);
    match application {
        0 => letters::write(draft, &documents),
        1 => sheets::write(draft, &documents),
        2 => slides::write(draft, &documents),
        3 => records::write(draft, &documents),
        4 => tables::write(draft, &documents),
        5 => drawings::write(draft, &documents),
        6 => layout::write(draft, &documents),
        7 => papers::write(draft, &documents),
        _ => unreachable!("there are eight applications"),
    }
}
