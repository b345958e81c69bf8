//! What was sent of a file to a server that may still lose it, run by run, and what a flush speaks for: all that was
//! answered before it began, and nothing else. What is on its way then, or is written again meanwhile, waits for the next.
//! So each run of pages has a number, and each page knows with which it was last sent (`pages.rs`). Data alone.

use crate::call::Stability;
use crate::client::{Stored, Verifier};
use std::ops::Range;

/// Under which verifiers the writes of a run were answered as unstable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Verifiers {
    /// None was: the server has it for good.
    #[default]
    None,
    One(Verifier),
    /// What was answered under the earlier ones may be lost.
    Several,
}

impl Verifiers {
    fn add(&mut self, stored: Option<Stored>) {
        let Some(stored) = stored.filter(|stored| stored.stability == Stability::Unstable) else {
            return;
        };
        *self = match *self {
            Self::None => Self::One(stored.verifier),
            Self::One(verifier) if verifier == stored.verifier => *self,
            _ => Self::Several,
        };
    }

    fn are_durable_after(self, flushed: Option<Stored>) -> bool {
        match (self, flushed) {
            (Self::One(verifier), Some(stored)) => verifier == stored.verifier,
            (Self::Several, _) => false,
            // A server that says nothing of itself loses the data with the session.
            (_, None) | (Self::None, _) => true,
        }
    }
}

/// A run of pages as it was sent, until the server has it for good.
#[derive(Debug)]
pub(super) struct SentRun {
    pub(super) number: u64,
    pub(super) pages: Range<u64>,
    /// Writes of it without an answer.
    unanswered: usize,
    verifiers: Verifiers,
}

/// What was sent of a file, and is not durable yet.
#[derive(Debug, Default)]
pub(super) struct SentRuns {
    /// In the order of their numbers.
    runs: Vec<SentRun>,
    /// Those that the flush under way speaks for; None where none is.
    flushing: Option<Vec<SentRun>>,
}

impl SentRuns {
    /// A run is sent in so many writes.
    pub(super) fn add(&mut self, number: u64, pages: Range<u64>, writes: usize) {
        self.runs.push(SentRun {
            number,
            pages,
            unanswered: writes,
            verifiers: Verifiers::None,
        });
    }

    /// One of its writes was answered; `stored`: what the server has made of it. Returns the pages of a run that the
    /// server has for good now.
    pub(super) fn answered(&mut self, number: u64, stored: Option<Stored>) -> Option<Range<u64>> {
        let place = self.runs.binary_search_by_key(&number, |run| run.number).ok()?;
        let run = &mut self.runs[place];
        run.verifiers.add(stored);
        run.unanswered = run.unanswered.saturating_sub(1);
        let is_durable = run.unanswered == 0 && run.verifiers == Verifiers::None;
        is_durable.then(|| self.runs.remove(place).pages)
    }

    /// How many pages a flush that begins now would speak for.
    pub(super) fn answered_pages(&self) -> u64 {
        let answered = self.runs.iter().filter(|run| run.unanswered == 0);
        answered.map(|run| run.pages.end - run.pages.start).sum()
    }

    /// Whether a flush is under way.
    pub(super) fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }

    pub(super) fn begin_flush(&mut self) {
        let runs = std::mem::take(&mut self.runs).into_iter();
        let (answered, rest) = runs.partition(|run| run.unanswered == 0);
        (self.flushing, self.runs) = (Some(answered), rest);
    }

    /// The flush under way was answered; `stored`: what the server says of itself. Returns the runs that it spoke for, and
    /// of each whether the server has it for good.
    pub(super) fn flushed(&mut self, stored: Option<Stored>) -> Vec<(SentRun, bool)> {
        let runs = self.flushing.take().unwrap_or_default().into_iter();
        runs.map(|run| {
            let durable = run.verifiers.are_durable_after(stored);
            (run, durable)
        })
        .collect()
    }

    /// Forgets all that is not durable, and returns it.
    pub(super) fn take_all(&mut self) -> Vec<SentRun> {
        let mut runs = std::mem::take(&mut self.runs);
        runs.extend(self.flushing.take().unwrap_or_default());
        runs
    }
}
