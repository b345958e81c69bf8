//! The workload of somebody's own server: the same path again and again.
//!
//! Not for: the URL's host and port, which belong to the target, nor for whether load may go there.

use crate::{ClassId, Get, Outcome, Workload};

/// Asks for the one path of [`crate::Catalogue::single_url`], always.
#[derive(Clone, Copy, Debug)]
pub struct SingleUrl;

impl Workload for SingleUrl {
    type Op = Get;

    fn next(&mut self, _last: &Outcome) -> Get {
        Get {
            class: ClassId(0),
            path: 0,
        }
    }
}
