//! Validity of cached data by close-to-open rules: the cached version, the time at which the server last confirmed it,
//! and this client's changes since then. `close_to_open.rs` queries the server.

use super::policy::AttributeAges;

#[derive(Debug)]
pub(super) struct Validity {
    ages: AttributeAges,
    /// `Info::change` of the cached version; 0 if the data may match no version of the server.
    change: u64,
    /// Time of the last request for the version. None: a request is needed before use.
    checked_ns: Option<u64>,
    /// Time for which the confirmation is valid.
    age_ns: u64,
    /// Time of the last look-up of the file's path, and how long the look-up is valid.
    named_ns: u64,
    name_age_ns: u64,
    /// This client's changes (version before and after) not yet linked to `change`, because answers to writes arrive
    /// in any order.
    own: Vec<(u64, u64)>,
    /// Whether a lease is held, so that a break announces changes by others.
    held: bool,
}

fn doubled(age_ns: u64, most_ns: u64) -> u64 {
    age_ns.saturating_mul(2).min(most_ns)
}

impl Validity {
    /// Creates the state of a file just opened by its path at `asked_ns`.
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

    /// Returns the cached version; 0 if unknown.
    pub(super) fn change(&self) -> u64 {
        self.change
    }

    /// Returns whether cached data may be used without asking the server.
    pub(super) fn is_fresh(&self, now_ns: u64) -> bool {
        self.checked_ns
            .is_some_and(|checked_ns| self.held || now_ns < checked_ns.saturating_add(self.age_ns))
    }

    /// Starts a lease: nothing expires until `release`.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    pub(super) fn release(&mut self) {
        if std::mem::take(&mut self.held) {
            self.expire();
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Returns whether the look-up of the file's path is still valid.
    pub(super) fn is_name_fresh(&self, now_ns: u64) -> bool {
        now_ns < self.named_ns.saturating_add(self.name_age_ns)
    }

    /// Records a new look-up of the file's path.
    pub(super) fn named(&mut self, asked_ns: u64) {
        if !self.is_name_fresh(asked_ns) {
            self.name_age_ns = doubled(self.name_age_ns, self.ages.name_most_ns);
        }
        self.named_ns = asked_ns;
    }

    /// Makes the cached data expire: the next use queries the server.
    pub(super) fn expire(&mut self) {
        self.checked_ns = None;
    }

    pub(super) fn doubt(&mut self) {
        self.change = 0;
        self.own.clear();
        self.expire();
    }

    /// Applies the version that the server returned for a request at `asked_ns`. Returns whether it is the cached
    /// version. If not, it becomes the cached version, and the caller must drop the old data.
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

    /// Records a change by this client. If the reply lacks the version before the change, other clients may also have
    /// changed the file.
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

    /// Checks the version in a reply to another call.
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
    fn unchanged_attributes_are_valid_longer_each_time_up_to_a_minute() {
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
    fn own_changes_are_distinguished_from_others_in_any_order_of_answers() {
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
    fn without_a_change_attribute_nothing_is_confirmed() {
        let mut validity = Validity::new(0, 0, AttributeAges::default());
        assert!(!validity.confirm(0, S) && !validity.confirm(0, S));
    }

    #[test]
    fn a_leased_file_does_not_age_and_expires_on_release() {
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
    fn a_name_is_valid_for_half_a_minute_and_then_longer() {
        let mut validity = validity();
        assert!(validity.is_name_fresh(30 * S - 1) && !validity.is_name_fresh(30 * S));
        validity.named(30 * S);
        assert!(validity.is_name_fresh(90 * S - 1) && !validity.is_name_fresh(90 * S));
    }
}
