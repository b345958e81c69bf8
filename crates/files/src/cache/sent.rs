//! Runs of a file sent to a server that may still lose them. A flush covers only runs whose writes were answered before
//! the flush started. Each run has a number, and each page stores the number of the run in which it was last sent
//! (`pages.rs`).

use crate::call::Stability;
use crate::client::{Stored, Verifier};
use std::ops::Range;

/// Verifiers of a run's unstable writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Verifiers {
    /// No write was unstable: the data is durable.
    #[default]
    None,
    One(Verifier),
    /// Different verifiers: the server has restarted in between, so earlier writes may be lost.
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
            // A server without verifiers loses data only if it also loses the session.
            (_, None) | (Self::None, _) => true,
        }
    }
}

#[derive(Debug)]
pub(super) struct SentRun {
    pub(super) number: u64,
    pub(super) pages: Range<u64>,
    /// Number of the run's writes that have not been answered.
    unanswered: usize,
    verifiers: Verifiers,
}

/// Runs of a file that are not durable yet.
#[derive(Debug, Default)]
pub(super) struct SentRuns {
    /// The runs in ascending order of their numbers.
    runs: Vec<SentRun>,
    /// Runs that the current flush covers. None: no flush is in progress.
    flushing: Option<Vec<SentRun>>,
}

impl SentRuns {
    /// Adds a run that was sent in `writes` writes.
    pub(super) fn add(&mut self, number: u64, pages: Range<u64>, writes: usize) {
        self.runs.push(SentRun {
            number,
            pages,
            unanswered: writes,
            verifiers: Verifiers::None,
        });
    }

    pub(super) fn answered(&mut self, number: u64, stored: Option<Stored>) -> Option<Range<u64>> {
        let place = self.runs.binary_search_by_key(&number, |run| run.number).ok()?;
        let run = &mut self.runs[place];
        run.verifiers.add(stored);
        run.unanswered = run.unanswered.saturating_sub(1);
        let is_durable = run.unanswered == 0 && run.verifiers == Verifiers::None;
        is_durable.then(|| self.runs.remove(place).pages)
    }

    pub(super) fn answered_pages(&self) -> u64 {
        let answered = self.runs.iter().filter(|run| run.unanswered == 0);
        answered.map(|run| run.pages.end - run.pages.start).sum()
    }

    pub(super) fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }

    pub(super) fn begin_flush(&mut self) {
        let runs = std::mem::take(&mut self.runs).into_iter();
        let (answered, rest) = runs.partition(|run| run.unanswered == 0);
        (self.flushing, self.runs) = (Some(answered), rest);
    }

    /// Records the answer to a flush, with the verifier in `stored`. Returns the covered runs, and whether
    /// each is durable.
    pub(super) fn flushed(&mut self, stored: Option<Stored>) -> Vec<(SentRun, bool)> {
        let runs = self.flushing.take().unwrap_or_default().into_iter();
        runs.map(|run| {
            let durable = run.verifiers.are_durable_after(stored);
            (run, durable)
        })
        .collect()
    }

    /// Removes and returns all runs that are not durable.
    pub(super) fn take_all(&mut self) -> Vec<SentRun> {
        let mut runs = std::mem::take(&mut self.runs);
        runs.extend(self.flushing.take().unwrap_or_default());
        runs
    }
}
