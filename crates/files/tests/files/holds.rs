//! Oplocks and leases on the server: how they are granted and broken.

use crate::clock::note_event;
use crate::server::{Message, NodeId, OpenId, Server};
use dyno_files::{Access, Ask, Break, Caching, Grant, LeaseKey};

/// Holder of an oplock or a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Open(OpenId),
    Lease(usize, u128),
}

/// Caching of a holder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hold {
    pub(crate) caching: Caching,
    /// Requested remaining caching of a break that is not acknowledged yet.
    pub(crate) breaking: Option<Caching>,
}

impl Hold {
    pub(crate) fn new(caching: Caching) -> Self {
        Self {
            caching,
            breaking: None,
        }
    }
}

pub(crate) fn lacks(has: Caching, wanted: Caching) -> bool {
    (wanted.read && !has.read) || (wanted.write && !has.write) || (wanted.handle && !has.handle)
}

fn least(one: Caching, other: Caching) -> Caching {
    Caching {
        read: one.read && other.read,
        write: one.write && other.write,
        handle: one.handle && other.handle,
    }
}

/// Returns the remaining caching when another client opens the file: an oplock becomes level II, a lease
/// loses W.
pub(crate) fn minus_write(owner: Owner, has: Caching) -> Caching {
    match owner {
        Owner::Open(_) => Caching::READ,
        Owner::Lease(..) => Caching { write: false, ..has },
    }
}

impl Server {
    /// Returns the opens of a file for its data by others than `owner`.
    pub(crate) fn others(&self, node: NodeId, owner: Option<Owner>) -> impl Iterator<Item = OpenId> + '_ {
        let is_other = move |id: &OpenId| {
            let open = &self.opens[id];
            let lease = open.lease.map(|key| Owner::Lease(open.client, key.0));
            open.node == Some(node)
                && open.access != Access::Attributes
                && (lease.is_none() || lease != owner)
        };
        self.opens.keys().copied().filter(is_other)
    }

    /// Returns the holders of caching on a file other than `owner`.
    pub(crate) fn holders(&self, node: NodeId, owner: Option<Owner>) -> Vec<Owner> {
        let mut found: Vec<Owner> = self
            .others(node, owner)
            .filter_map(|id| {
                let open = &self.opens[&id];
                match open.lease {
                    Some(key) => Some(Owner::Lease(open.client, key.0)),
                    None => open.hold.map(|_| Owner::Open(id)),
                }
            })
            .filter(|owner| self.hold(*owner).is_some())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    pub(crate) fn hold(&self, owner: Owner) -> Option<Hold> {
        match owner {
            Owner::Open(id) => self.opens.get(&id)?.hold,
            Owner::Lease(client, key) => self.leases.get(&(client, key)).copied(),
        }
    }

    fn set_hold(&mut self, owner: Owner, hold: Hold) {
        match owner {
            Owner::Open(id) => self.opens.get_mut(&id).expect("is open").hold = Some(hold),
            Owner::Lease(client, key) => {
                self.leases.insert((client, key), hold);
            }
        }
    }

    pub(crate) fn break_to(&mut self, owner: Owner, to: Caching) -> bool {
        let mut hold = self.hold(owner).expect("is a holder");
        if hold.breaking.is_some() {
            // The new open is checked again after the answer.
            return true;
        }
        if !lacks(to, hold.caching) {
            return false;
        }
        let to = least(to, hold.caching);
        let acknowledge = (hold.caching.write && !to.write) || (hold.caching.handle && !to.handle);
        if acknowledge {
            hold.breaking = Some(to);
        } else {
            hold.caching = to;
        }
        self.set_hold(owner, hold);
        let (client, grant) = match owner {
            Owner::Open(id) => (self.opens[&id].client, Grant::Handle(self.opens[&id].handle)),
            Owner::Lease(client, key) => (client, Grant::Lease(LeaseKey(key))),
        };
        let broken = Break {
            grant,
            to,
            acknowledge,
        };
        if self.slow_breaks && !acknowledge {
            self.on_their_way.push((client, broken));
        } else {
            self.sides[client].inbox.push_back(Message::Break(broken));
        }
        note_event();
        acknowledge
    }

    /// Breaks read caching of others after a write or lock under `open`, without waiting. `own_too`: also breaks the
    /// writer's own level II oplock, but not its lease. A holder of only handle caching has read nothing.
    pub(crate) fn break_reads(&mut self, node: NodeId, open: OpenId, own_too: bool) {
        let opened = &self.opens[&open];
        let owner = match opened.lease {
            Some(key) => Owner::Lease(opened.client, key.0),
            None => Owner::Open(open),
        };
        for other in self.holders(node, None) {
            let has = self.hold(other).expect("is a holder").caching;
            let is_own_oplock = other == owner && matches!(owner, Owner::Open(_)) && own_too;
            if has.write || !has.read || (other == owner && !is_own_oplock) {
                continue;
            }
            self.break_to(other, Caching::NONE);
        }
    }

    pub(crate) fn grant(&mut self, node: NodeId, client: usize, ask: &Ask) -> Caching {
        let wanted = match *ask {
            Ask::Nothing => return Caching::NONE,
            Ask::Oplock(wanted) | Ask::Lease(_, wanted) => least(wanted, self.grants),
        };
        let owner = match *ask {
            Ask::Lease(key, _) => Some(Owner::Lease(client, key.0)),
            _ => None,
        };
        let alone = self.others(node, owner).next().is_none();
        let shared = match *ask {
            _ if alone => wanted,
            Ask::Oplock(_) => least(wanted, Caching::READ),
            _ => Caching {
                write: false,
                ..wanted
            },
        };
        // A client that caches reads would not notice the locks of others.
        let granted = if self.has_locks(node) {
            Caching::NONE
        } else {
            shared
        };
        let Some(owner) = owner else { return granted };
        let granted = match self.hold(owner) {
            Some(hold) if hold.breaking.is_some() => return hold.caching,
            Some(hold) => Caching {
                read: hold.caching.read || granted.read,
                write: hold.caching.write || granted.write,
                handle: hold.caching.handle || granted.handle,
            },
            None => granted,
        };
        self.set_hold(owner, Hold::new(granted));
        granted
    }
}
