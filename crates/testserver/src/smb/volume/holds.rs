//! Oplocks and leases: permissions to cache, and their breaks (MS-FSA 2.1.5.18, MS-SMB2 3.3.4.6, 3.3.4.7,
//! 3.3.5.22).
//!
//! Both use the same bits here: level II is R, exclusive RW, batch RWH. An operation that depends on data
//! that another client may have changed waits until that client acknowledges the break or times out.
//! Breaking only R needs no wait.

use super::{ConnectionId, Moment, Notice, Volume};
use crate::smb::fault::Kind;
use crate::smb::status::Status;

/// Caching bits, as in leases (MS-SMB2 2.2.13.2.8).
pub(crate) mod caching {
    pub(crate) const NONE: u8 = 0;
    pub(crate) const READ: u8 = 1;
    pub(crate) const HANDLE: u8 = 2;
    pub(crate) const WRITE: u8 = 4;
}

use caching::{HANDLE, READ, WRITE};

/// A break that is not acknowledged yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Breaking {
    to: u8,
    since_ns: u64,
}

/// Caching that one holder may do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) state: u8,
    pub(crate) breaking: Option<Breaking>,
}

/// Caching of an open.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hold {
    None,
    Oplock(Held),
    Lease(usize),
}

/// Client GUID and key of a lease.
pub(crate) type LeaseName = (u128, u128);

/// A lease, which exists as long as one of its opens.
#[derive(Debug)]
pub(crate) struct Lease {
    /// Client GUID and key.
    pub(crate) name: LeaseName,
    pub(crate) node: usize,
    pub(crate) held: Held,
    /// Number of changes of the lease, counted from the client's value. Only in version 2 (`second_form`).
    pub(crate) epoch: u16,
    pub(crate) second_form: bool,
    pub(crate) opens: u32,
    /// The connection that used the lease last.
    pub(crate) connection: ConnectionId,
}

impl Lease {
    /// Returns the notification of a change from the state `from`.
    fn notice(&self, from: u8) -> Notice {
        let breaking = self.held.breaking;
        Notice::LeaseBreak {
            key: self.name.1,
            from,
            to: breaking.map_or(self.held.state, |breaking| breaking.to),
            acknowledge: breaking.is_some(),
            epoch: if self.second_form { self.epoch } else { 0 },
        }
    }
}

/// Returns the largest valid state within `state`: W and H require R (MS-SMB2 2.2.13.2.8).
fn sensible(state: u8) -> u8 {
    if state & READ == 0 {
        caching::NONE
    } else {
        state
    }
}

/// Returns the nearest oplock state; oplocks have no level for R and H.
fn as_oplock(state: u8) -> u8 {
    match sensible(state) {
        state if state & WRITE != 0 => state,
        state => state & READ,
    }
}

enum Step {
    Nothing,
    MustWait,
    /// A notification was sent. True: it needs an acknowledgement.
    Told(bool),
}

impl Held {
    /// Breaks all caching except `keep`.
    fn take_away(&mut self, keep: u8, is_oplock: bool, moment: Moment, patience_ns: u64) -> Step {
        if let Some(breaking) = self.breaking {
            if moment.ns < breaking.since_ns.saturating_add(patience_ns) {
                let enough = self.state & !keep == 0;
                return if enough { Step::Nothing } else { Step::MustWait };
            }
            // MS-SMB2 3.3.6.1, 3.3.6.5: without an acknowledgement, the holder loses all caching.
            *self = Self::default();
        }
        if self.state & !keep == 0 {
            return Step::Nothing;
        }
        let left = self.state & keep;
        // A broken oplock keeps at most level II (MS-SMB2 3.3.4.6).
        let to = if is_oplock { left & READ } else { sensible(left) };
        if self.state == READ {
            self.state = to;
            return Step::Told(false);
        }
        self.breaking = Some(Breaking {
            to,
            since_ns: moment.ns,
        });
        Step::Told(true)
    }

    /// Acknowledges a break. Returns false if `state` exceeds what the break permits, or if there was no break.
    fn acknowledge(&mut self, state: u8) -> bool {
        let suits = self.breaking.is_some_and(|breaking| state & !breaking.to == 0);
        if suits {
            (self.state, self.breaking) = (sensible(state), None);
        }
        suits
    }
}

/// A lease, as reported in the response to CREATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) key: u128,
    pub(crate) state: u8,
    pub(crate) breaking: bool,
    pub(crate) epoch: u16,
    pub(crate) second_form: bool,
}

impl Volume {
    /// Breaks all caching of `node` except `keep`, for all opens except `own` and its lease. Returns true if an
    /// acknowledgement must arrive first.
    pub(super) fn take_away(&mut self, node: usize, own: Own, keep: u8, moment: Moment) -> bool {
        if self.fault == Some(Kind::NoBreaks) {
            return false;
        }
        self.close_outdated(node, own, keep, moment);
        let mut must_wait = false;
        for index in 0..self.nodes[node].opens.len() {
            let open = self.nodes[node].opens[index];
            must_wait |= self.take_away_from(open, own, keep, moment);
        }
        must_wait
    }

    /// Breaks the caching of a single open, except `keep`, like `take_away`.
    pub(super) fn take_away_from(&mut self, open: usize, own: Own, keep: u8, moment: Moment) -> bool {
        let patience_ns = self.break_timeout_ns;
        let holder = &mut self.opens[open];
        let (step, notice) = match &mut holder.hold {
            Hold::None => return false,
            Hold::Oplock(held) => {
                // A change by the holder itself also breaks level II (MS-FSA 2.1.4.12), because the server
                // can't tell whether the change came from the holder's cache.
                let is_own = own == Own::Open(open);
                if is_own && (held.state & !READ != 0 || keep & READ != 0) {
                    return false;
                }
                let step = held.take_away(keep, true, moment, patience_ns);
                let to = held.breaking.map_or(held.state, |breaking| breaking.to);
                let notice = Notice::OplockBreak {
                    file: (open, holder.serial),
                    to,
                };
                (step, (holder.connection, notice))
            }
            Hold::Lease(index) => {
                let index = *index;
                let connection = self.connection_of(index);
                let lease = &mut self.leases[index];
                if own == Own::Lease(lease.name) {
                    return false;
                }
                let from = lease.held.state;
                let step = lease.held.take_away(keep, false, moment, patience_ns);
                if matches!(step, Step::Told(_)) {
                    lease.epoch = lease.epoch.wrapping_add(1);
                }
                (step, (connection, lease.notice(from)))
            }
        };
        match step {
            Step::Nothing => false,
            Step::MustWait => true,
            Step::Told(waits) => {
                self.notices.push(notice);
                waits
            }
        }
    }

    /// Breaks the leases of a changed directory, except `by`, the lease of the client that made the change
    /// (MS-FSA 2.1.4.12: the parent's oplock). As with a changed file, the server waits for no
    /// acknowledgement.
    pub(super) fn take_directory_away(&mut self, directory: usize, by: Option<LeaseName>, moment: Moment) {
        if matches!(self.fault, Some(Kind::NoBreaks | Kind::NoDirectoryBreaks)) {
            return;
        }
        let own = by.map_or(Own::Nobody, Own::Lease);
        for index in 0..self.nodes[directory].opens.len() {
            let open = self.nodes[directory].opens[index];
            let _ = self.take_away_from(open, own, caching::NONE, moment);
        }
    }

    /// Returns the connection for notifications of a lease: the one that used the lease last or, if that one is closed,
    /// another one with an open under the lease (MS-SMB2 3.3.4.7).
    fn connection_of(&self, lease: usize) -> ConnectionId {
        let last = self.leases[lease].connection;
        let node = self.leases[lease].node;
        let theirs = self.nodes[node].opens.iter().filter(|open| {
            !self.is_left(**open) && matches!(self.opens[**open].hold, Hold::Lease(held) if held == lease)
        });
        let mut connections = theirs.map(|open| self.opens[*open].connection);
        let first = connections.clone().next();
        if connections.any(|connection| connection == last) {
            return last;
        }
        first.unwrap_or(last)
    }

    /// Redirects notifications of an open from the lost connection `from` to `to`, and repeats an
    /// unacknowledged break.
    pub(super) fn tell_again(&mut self, open: usize, from: ConnectionId, to: ConnectionId) {
        let holder = &self.opens[open];
        let notice = match holder.hold {
            Hold::Oplock(Held {
                breaking: Some(breaking),
                ..
            }) => Notice::OplockBreak {
                file: (open, holder.serial),
                to: breaking.to,
            },
            Hold::Lease(index) if self.leases[index].connection == from => {
                let lease = &mut self.leases[index];
                lease.connection = to;
                if lease.held.breaking.is_none() {
                    return;
                }
                lease.notice(lease.held.state)
            }
            _ => return,
        };
        self.notices.push((to, notice));
    }

    /// Returns the caching of one open.
    pub(super) fn held(&self, open: usize) -> Held {
        match self.opens[open].hold {
            Hold::None => Held::default(),
            Hold::Oplock(held) => held,
            Hold::Lease(lease) => self.leases[lease].held,
        }
    }

    /// Returns the identity of an open for breaks: its own caching is not affected.
    pub(super) fn own(&self, open: usize) -> Own {
        match self.opens[open].hold {
            Hold::Lease(lease) => Own::Lease(self.leases[lease].name),
            _ => Own::Open(open),
        }
    }

    /// Returns the maximum caching that a new open can get, given the other opens of the file except those of its own
    /// lease. Level II and H exclude each other (MS-FSA 2.1.5.18).
    fn possible(&self, newcomer: usize, own: Own, as_lease: bool) -> u8 {
        let node = self.opens[newcomer].node;
        let mut possible = READ | WRITE | HANDLE;
        for open in &self.nodes[node].opens {
            let same = *open == newcomer || own == self.own(*open);
            if same || self.opens[*open].is_for_attributes {
                continue;
            }
            let state = self.held(*open).state;
            if state & WRITE != 0 || (!as_lease && state & HANDLE != 0) {
                return caching::NONE;
            }
            possible &= !WRITE;
            if as_lease && state != caching::NONE && matches!(self.opens[*open].hold, Hold::Oplock(_)) {
                possible &= !HANDLE;
            }
        }
        if possible & WRITE == 0 && !self.nodes[node].locks.is_empty() {
            return caching::NONE;
        }
        possible
    }

    /// Grants a new open the nearest possible oplock.
    pub(super) fn grant_oplock(&mut self, open: usize, wanted: u8) {
        let possible = self.possible(open, Own::Open(open), false);
        // If W is impossible, the client gets level II.
        let state = as_oplock(wanted & possible);
        if state != caching::NONE {
            self.opens[open].hold = Hold::Oplock(Held {
                state,
                breaking: None,
            });
        }
    }

    /// Adds a new open to its lease, which is created if necessary, and raises the lease as far as
    /// possible.
    pub(super) fn grant_lease(&mut self, open: usize, name: LeaseName, wanted: u8, epoch: Option<u16>) {
        let (node, connection) = (self.opens[open].node, self.opens[open].connection);
        // Directories are never written, so write caching is not granted for them.
        let of_file = !self.nodes[node].is_directory();
        let wanted = if of_file { wanted } else { wanted & !WRITE };
        let possible = self.possible(open, Own::Lease(name), true);
        let is_new = !self.lease_index.contains_key(&name);
        let index = match self.lease_index.get(&name) {
            Some(index) => *index,
            None => {
                let index = self.leases.insert(Lease {
                    name,
                    node,
                    held: Held::default(),
                    epoch: epoch.unwrap_or(0),
                    second_form: epoch.is_some(),
                    opens: 0,
                    connection,
                });
                self.lease_index.insert(name, index);
                index
            }
        };
        let lease = &mut self.leases[index];
        lease.opens += 1;
        lease.connection = connection;
        let granted = sensible(wanted & possible);
        // A lease is only raised, only to the full requested state, and not during a break (MS-SMB2
        // 3.3.5.9.8).
        let raises = granted & lease.held.state == lease.held.state && (is_new || wanted & !possible == 0);
        if lease.held.breaking.is_none() && raises {
            if granted != lease.held.state {
                lease.epoch = lease.epoch.wrapping_add(1);
            }
            lease.held.state = granted;
        }
        self.opens[open].hold = Hold::Lease(index);
    }

    /// Returns the lease of an open.
    pub(super) fn granted(&self, open: usize) -> Option<Granted> {
        let Hold::Lease(index) = self.opens[open].hold else {
            return None;
        };
        let lease = &self.leases[index];
        Some(Granted {
            key: lease.name.1,
            state: lease.held.state,
            breaking: lease.held.breaking.is_some(),
            epoch: lease.epoch,
            second_form: lease.second_form,
        })
    }

    /// Returns whether the lease with this name belongs to another file.
    pub(super) fn lease_is_elsewhere(&self, name: LeaseName, node: Option<usize>) -> bool {
        let lease = self.lease_index.get(&name).map(|index| &self.leases[*index]);
        lease.is_some_and(|lease| Some(lease.node) != node)
    }

    /// Releases the caching of an open that is being closed.
    pub(super) fn let_go(&mut self, open: usize) {
        if let Hold::Lease(index) = std::mem::replace(&mut self.opens[open].hold, Hold::None) {
            let lease = &mut self.leases[index];
            lease.opens -= 1;
            if lease.opens == 0 {
                let name = lease.name;
                self.lease_index.remove(&name);
                self.leases.remove(index);
            }
        }
    }

    /// Handles the acknowledgement of an oplock break. Returns the remaining state.
    pub(crate) fn acknowledge_oplock(&mut self, open: usize, state: u8) -> Result<u8, Status> {
        let node = self.opens[open].node;
        let Hold::Oplock(held) = &mut self.opens[open].hold else {
            return Err(Status::INVALID_OPLOCK_PROTOCOL);
        };
        let suits = held.acknowledge(state);
        if !suits {
            // MS-SMB2 3.3.5.22.1: after an invalid acknowledgement, the oplock is lost.
            *held = Held::default();
        }
        let left = held.state;
        if left == caching::NONE {
            self.opens[open].hold = Hold::None;
        }
        self.wake(node);
        if suits {
            Ok(left)
        } else {
            Err(Status::INVALID_OPLOCK_PROTOCOL)
        }
    }

    /// Handles the acknowledgement of a lease break.
    pub(crate) fn acknowledge_lease(&mut self, name: LeaseName, state: u8) -> Result<(), Status> {
        let index = *self.lease_index.get(&name).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        let lease = &mut self.leases[index];
        let node = lease.node;
        let answered = if lease.held.breaking.is_none() {
            Err(Status::UNSUCCESSFUL)
        } else if lease.held.acknowledge(state) {
            Ok(())
        } else {
            // After an invalid acknowledgement, the client may send another one (MS-SMB2 3.3.5.22.2).
            Err(Status::REQUEST_NOT_ACCEPTED)
        };
        self.wake(node);
        answered
    }
}

/// The holder that causes a break, and is exempt from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    Nobody,
    Open(usize),
    Lease(LeaseName),
}
