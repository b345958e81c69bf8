//! Calls by path on the in-memory server: opens, look-ups, renames, deletes, and the breaks that they
//! cause.

use crate::holds::{minus_write, Owner};
use crate::request::Request;
use crate::server::{Node, NodeId, Server};
use dyno_files::{Access, Ask, Caching, Disposition, Handle, Info, Reply};
use dyno_measure::{Failure, Fault};

/// Returns whether the pattern of a find matches.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.first(), name.first()) {
        (None, None) => true,
        (Some(b'*'), _) => matches(&pattern[1..], name) || (!name.is_empty() && matches(pattern, &name[1..])),
        (Some(b'?'), Some(_)) => matches(&pattern[1..], &name[1..]),
        (Some(one), Some(other)) if one == other => matches(&pattern[1..], &name[1..]),
        _ => false,
    }
}

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

impl Server {
    pub(crate) fn open(&mut self, client: usize, request: &Request) -> Option<Result<Reply, Failure>> {
        let Request::Open {
            path,
            access,
            delete_on_close,
            directory,
            ask,
            ..
        } = request
        else {
            unreachable!("called only for opens");
        };
        let key = path.to_ascii_lowercase();
        if *directory {
            if !self.directories.contains(&key) {
                return Some(Ok(Reply::NotThere));
            }
            let handle = self.add_open(client, None, *access, false, None);
            return Some(Ok(opened(
                handle,
                Caching::NONE,
                false,
                Info {
                    directory: true,
                    ..Info::default()
                },
            )));
        }
        let (node, created) = match self.find_or_make(client, &key, request)? {
            Ok(Some(found)) => found,
            Ok(None) => return Some(Ok(Reply::NotThere)),
            Err(fault) => return Some(Err(fault.into())),
        };
        let granted = match *access {
            Access::Attributes => Caching::NONE,
            _ => self.grant(node, client, ask),
        };
        let handle = self.add_open(
            client,
            Some(node),
            *access,
            *delete_on_close,
            Some((*ask, granted)),
        );
        let info = self.info(node);
        Some(Ok(opened(handle, granted, created, info)))
    }

    /// Returns the file of an open, and whether it was created. None: a break must be acknowledged first.
    fn find_or_make(
        &mut self,
        client: usize,
        key: &str,
        request: &Request,
    ) -> Option<Result<Option<(NodeId, bool)>, Fault>> {
        let Request::Open {
            access,
            disposition,
            delete_on_close,
            ask,
            ..
        } = request
        else {
            unreachable!("called only for opens");
        };
        let makes = matches!(
            disposition,
            Disposition::Create | Disposition::OpenIf | Disposition::OverwriteIf
        );
        let empties = matches!(disposition, Disposition::Overwrite | Disposition::OverwriteIf);
        let owner = match ask {
            Ask::Lease(key, _) => Some(Owner::Lease(client, key.0)),
            _ => None,
        };
        let Some(&node) = self.names.get(key) else {
            return Some(match makes {
                false => Ok(None),
                true if !self.directories.contains(split(key).0) => Err(Fault::NotFound),
                true => {
                    self.nodes.push(Node::default());
                    self.names.insert(key.to_owned(), self.nodes.len() - 1);
                    self.changed(self.nodes.len() - 1);
                    Ok(Some((self.nodes.len() - 1, true)))
                }
            });
        };
        if *disposition == Disposition::Create {
            return Some(Err(Fault::AlreadyThere));
        }
        if self.nodes[node].delete_pending {
            return Some(Err(Fault::AccessDenied));
        }
        let deletes = *access == Access::Delete || *delete_on_close;
        let looks = *access == Access::Attributes && !empties;
        if !looks && self.break_for_open(node, owner, empties, deletes && !self.share_delete) {
            return None;
        }
        if deletes && !self.share_delete && self.others(node, owner).next().is_some() {
            return Some(Err(Fault::SharingViolation));
        }
        if empties {
            self.nodes[node].data.clear();
            self.changed(node);
        }
        Some(Ok(Some((node, false))))
    }

    pub(crate) fn query_path(&self, path: &str) -> Reply {
        let key = path.to_ascii_lowercase();
        if self.directories.contains(&key) {
            return Reply::Info(Info {
                directory: true,
                ..Info::default()
            });
        }
        self.names
            .get(&key)
            .map_or(Reply::NotThere, |node| Reply::Info(self.info(*node)))
    }

    pub(crate) fn find(&self, directory: &str, pattern: &str) -> Reply {
        let (directory, pattern) = (directory.to_ascii_lowercase(), pattern.to_ascii_lowercase());
        let names = self
            .names
            .keys()
            .chain(self.directories.iter().filter(|name| !name.is_empty()));
        let found = names.filter(|key| {
            let (parent, name) = split(key);
            parent == directory && matches(pattern.as_bytes(), name.as_bytes())
        });
        Reply::Found {
            entries: u32::try_from(found.count()).unwrap(),
        }
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Option<Result<Reply, Failure>> {
        let (from, to) = (from.to_ascii_lowercase(), to.to_ascii_lowercase());
        let Some(&node) = self.names.get(&from) else {
            return Some(Err(Fault::NotFound.into()));
        };
        if self.names.contains_key(&to) {
            return Some(Err(Fault::AlreadyThere.into()));
        }
        if self.break_for_open(node, None, false, true) {
            return None;
        }
        if !self.share_delete && self.others(node, None).next().is_some() {
            return Some(Err(Fault::SharingViolation.into()));
        }
        self.names.remove(&from);
        self.names.insert(to, node);
        Some(Ok(Reply::Done))
    }

    pub(crate) fn delete(&mut self, path: &str) -> Option<Result<Reply, Failure>> {
        let key = path.to_ascii_lowercase();
        let Some(&node) = self.names.get(&key) else {
            return Some(Err(Fault::NotFound.into()));
        };
        if self.nodes[node].delete_pending {
            return Some(Err(Fault::AccessDenied.into()));
        }
        if self.break_for_open(node, None, false, true) {
            return None;
        }
        if !self.share_delete && self.others(node, None).next().is_some() {
            return Some(Err(Fault::SharingViolation.into()));
        }
        if self.opens.values().any(|open| open.node == Some(node)) {
            self.nodes[node].delete_pending = true;
        } else {
            self.names.remove(&key);
        }
        Some(Ok(Reply::Done))
    }

    pub(crate) fn remove_directory(&mut self, path: &str) -> Result<Reply, Failure> {
        let key = path.to_ascii_lowercase();
        let below = format!("{key}/");
        if self.names.keys().any(|name| name.starts_with(&below)) {
            return Err(Fault::ErrorStatus.into());
        }
        match self.directories.remove(&key) {
            true => Ok(Reply::Done),
            false => Err(Fault::NotFound.into()),
        }
    }

    /// Breaks the caching that conflicts with another open of a file; returns whether an acknowledgement
    /// must arrive first.
    fn break_for_open(&mut self, node: NodeId, owner: Option<Owner>, empties: bool, deletes: bool) -> bool {
        let mut waits = false;
        for other in self.holders(node, owner) {
            let has = self.hold(other).expect("is a holder").caching;
            let mut to = if has.write { minus_write(other, has) } else { has };
            if deletes {
                to.handle = false;
            }
            waits |= self.break_to(other, if empties { Caching::NONE } else { to });
        }
        waits
    }
}

fn opened(handle: Handle, granted: Caching, created: bool, info: Info) -> Reply {
    Reply::Opened {
        handle,
        granted,
        created,
        info,
    }
}
