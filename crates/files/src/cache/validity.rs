//! How long what is known of a file counts, where rules and not the server's grants say so: which state of the file is
//! kept here, when the server last said that this is its state, and which changes since then were our own. Data alone.
//!
//! Not for: asking the server (`close_to_open.rs`).

use super::policy::AttributeAges;

#[derive(Debug)]
pub(super) struct Validity {
    ages: AttributeAges,
    /// `Info::change` of the state that is kept; 0 where nobody can know whether it is the server's.
    change: u64,
    /// When the server was last asked for it; None: it has to be asked again before anything is used.
    checked_ns: Option<u64>,
    /// How long that counts.
    age_ns: u64,
    /// When the file's path last led to it, and how long that counts.
    named_ns: u64,
    name_age_ns: u64,
    /// Changes of our own, before and after, that have not found their place behind `change` yet: answers to writes
    /// come in any order.
    own: Vec<(u64, u64)>,
    /// The server tells before anybody else changes the file.
    held: bool,
}

fn doubled(age_ns: u64, most_ns: u64) -> u64 {
    age_ns.saturating_mul(2).min(most_ns)
}

impl Validity {
    /// Of a file that was just opened by its path: its state, asked for at `asked_ns`.
    pub(super) fn new(change: u64, asked_ns: u64, ages: AttributeAges) -> Self {
        Self {
            ages,
            change,
            checked_ns: Some(asked_ns),
            age_ns: ages.file_least_ns,
            named_ns: asked_ns,
            name_age_ns: ages.name_least_ns,
            own: Vec::new(),
            held: false,
        }
    }

    /// Returns the state that is kept; 0 where nobody can know.
    pub(super) fn change(&self) -> u64 {
        self.change
    }

    /// Whether what is known may be used without asking.
    pub(super) fn is_fresh(&self, now_ns: u64) -> bool {
        self.checked_ns
            .is_some_and(|checked_ns| self.held || now_ns < checked_ns.saturating_add(self.age_ns))
    }

    /// The server promises to tell before anybody else changes the file: until `release`, nothing ages.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// It has told, or the promise was given back.
    pub(super) fn release(&mut self) {
        if std::mem::take(&mut self.held) {
            self.expire();
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Whether its path may be taken to lead to it without asking.
    pub(super) fn is_name_fresh(&self, now_ns: u64) -> bool {
        now_ns < self.named_ns.saturating_add(self.name_age_ns)
    }

    /// Notes that its path has led to it again.
    pub(super) fn named(&mut self, asked_ns: u64) {
        if !self.is_name_fresh(asked_ns) {
            self.name_age_ns = doubled(self.name_age_ns, self.ages.name_most_ns);
        }
        self.named_ns = asked_ns;
    }

    /// From now on the server has to be asked before anything is used.
    pub(super) fn expire(&mut self) {
        self.checked_ns = None;
    }

    /// What is kept may be of no state that the server ever had.
    pub(super) fn doubt(&mut self) {
        self.change = 0;
        self.own.clear();
        self.expire();
    }

    /// The server was asked at `asked_ns` and said that this is its state. Returns whether it is the one that is kept;
    /// if not, it is from now on, and the caller forgets what it has of the other.
    pub(super) fn confirm(&mut self, change: u64, asked_ns: u64) -> bool {
        self.place_own();
        let is_same = change != 0 && change == self.change && self.own.is_empty();
        if !is_same {
            (self.change, self.age_ns) = (change, self.ages.file_least_ns);
            self.own.clear();
        } else if !self.is_fresh(asked_ns) {
            self.age_ns = doubled(self.age_ns, self.ages.file_most_ns);
        }
        self.checked_ns = Some(asked_ns);
        is_same
    }

    /// Notes a change of our own. Where the reply does not say from which state, somebody else's may lie in between.
    pub(super) fn changed_by_us(&mut self, before: Option<u64>, after: u64) {
        match before {
            Some(before) => self.own.push((before, after)),
            None => self.doubt(),
        }
        self.place_own();
    }

    fn place_own(&mut self) {
        while let Some(place) = self.own.iter().position(|&(before, _)| before == self.change) {
            self.change = self.own.swap_remove(place).1;
        }
    }

    /// The server has another state than the one that is kept, as far as a reply by the way can tell.
    pub(super) fn seen(&mut self, change: u64) {
        if change != self.change {
            self.expire();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn validity() -> Validity {
        Validity::new(7, 0, AttributeAges::default())
    }

    #[test]
    fn what_has_not_changed_counts_longer_each_time_up_to_a_minute() {
        let mut validity = validity();
        let mut now_ns = 0;
        for age_s in [3, 6, 12, 24, 48, 60, 60] {
            assert!(validity.is_fresh(now_ns + age_s * S - 1), "{age_s}");
            now_ns += age_s * S;
            assert!(!validity.is_fresh(now_ns), "{age_s}");
            assert!(validity.confirm(7, now_ns));
        }
        now_ns += 60 * S;
        assert!(!validity.confirm(8, now_ns));
        assert!(validity.is_fresh(now_ns + 3 * S - 1) && !validity.is_fresh(now_ns + 3 * S));
    }

    #[test]
    fn own_changes_are_told_from_those_of_others_in_whatever_order_they_are_answered() {
        let mut validity = validity();
        for (before, after) in [(9, 10), (7, 8), (8, 9)] {
            validity.changed_by_us(Some(before), after);
        }
        assert!(validity.confirm(10, S));
        validity.changed_by_us(Some(11), 12);
        assert!(!validity.confirm(12, S), "somebody else made 11 of 10");
        validity.changed_by_us(None, 13);
        assert!(!validity.is_fresh(S) && !validity.confirm(13, S));
        assert!(validity.confirm(13, S));
    }

    #[test]
    fn a_protocol_without_a_change_attribute_confirms_nothing() {
        let mut validity = Validity::new(0, 0, AttributeAges::default());
        assert!(!validity.confirm(0, S) && !validity.confirm(0, S));
    }

    #[test]
    fn what_is_held_does_not_age_and_counts_for_nothing_once_it_is_released() {
        let mut validity = validity();
        validity.hold();
        assert!(validity.is_fresh(1000 * S));
        validity.changed_by_us(None, 9);
        assert!(!validity.is_fresh(0), "what is doubted is asked for, held or not");
        assert!(!validity.confirm(9, S) && validity.is_fresh(1000 * S));
        validity.release();
        assert!(!validity.is_fresh(S), "it may change from now on");
        assert!(validity.confirm(9, S) && !validity.is_fresh(1000 * S));
    }

    #[test]
    fn a_name_counts_for_half_a_minute_and_then_longer() {
        let mut validity = validity();
        assert!(validity.is_name_fresh(30 * S - 1) && !validity.is_name_fresh(30 * S));
        validity.named(30 * S);
        assert!(validity.is_name_fresh(90 * S - 1) && !validity.is_name_fresh(90 * S));
    }
}
