//! The steps of a session: requests made one after the other, as by a logged-in user. The session is
//! repeated.
//!
//! The protocol sends the requests and extracts values from their answers.

use crate::{ClassId, Get, Outcome, Workload};
use std::sync::Arc;

/// Requests the entries of a catalogue that [`crate::Catalogue::steps`] created, in order. After a failed step, the
/// session starts again, because later steps depend on the failed one.
#[derive(Clone, Debug)]
pub struct Steps {
    /// Think time before each step.
    think_ns: Arc<[u64]>,
    /// Index of the last step; None before the first.
    last: Option<usize>,
}

impl Steps {
    /// Creates the steps. `think_ns`: the think time before each step. There must be at least one step.
    pub fn new(think_ns: Arc<[u64]>) -> Self {
        Self { think_ns, last: None }
    }
}

impl Workload for Steps {
    type Op = Get;

    fn next(&mut self, last: &Outcome) -> Get {
        let step = match self.last {
            Some(before) if last.ok && before + 1 < self.think_ns.len() => before + 1,
            _ => 0,
        };
        self.last = Some(step);
        Get {
            class: ClassId(u8::try_from(step).unwrap_or(u8::MAX)),
            path: u32::try_from(step).unwrap_or(u32::MAX),
        }
    }

    fn pause_ns(&self) -> u64 {
        self.last.map_or(0, |step| self.think_ns[step])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other_and_a_failed_one_restarts_the_session() {
        let mut steps = Steps::new([0, 7, 9].into());
        let failed = Outcome {
            ok: false,
            ..Outcome::START
        };
        let outcomes = [
            Outcome::START,
            Outcome::START,
            Outcome::START,
            Outcome::START,
            Outcome::START,
            failed,
            failed,
            Outcome::START,
        ];
        let made: Vec<(u32, u64)> = outcomes
            .iter()
            .map(|outcome| (steps.next(outcome).path, steps.pause_ns()))
            .collect();
        assert_eq!(
            made,
            [(0, 0), (1, 7), (2, 9), (0, 0), (1, 7), (0, 0), (0, 0), (1, 7)]
        );
    }
}
