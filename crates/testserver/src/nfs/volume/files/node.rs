//! A file of any type with its attributes.

use super::contents::Contents;
use super::directory::Directory;
use super::Caller;
use dyno_nfs::wire::{Attributes3, Time, DIRECTORY, REGULAR, SYMBOLIC_LINK};

/// Unit of the reported space.
const BLOCK_BYTES: u64 = 4096;

/// Contents by type.
#[derive(Debug)]
pub(crate) enum Body {
    File(Contents),
    Directory(Directory),
    SymbolicLink(Box<[u8]>),
    /// A pipe, socket or device: its type (`ftype3`), and its major and minor numbers.
    Special(u32, (u32, u32)),
}

/// A file of any type.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) serial: u64,
    pub(crate) body: Body,
    pub(crate) mode: u32,
    pub(crate) owner: Caller,
    pub(crate) links: u32,
    pub(crate) accessed: Time,
    pub(crate) modified: Time,
    pub(crate) changed: Time,
    /// The client's verifier of an exclusive creation.
    pub(crate) verifier: Option<u64>,
}

impl Node {
    pub(crate) fn new(serial: u64, body: Body, mode: u32, owner: Caller, now: Time) -> Self {
        let links = if matches!(body, Body::Directory(_)) { 2 } else { 1 };
        Self {
            serial,
            body,
            mode,
            owner,
            links,
            accessed: now,
            modified: now,
            changed: now,
            verifier: None,
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    pub(crate) fn was_written(&mut self, now: Time) {
        (self.modified, self.changed) = (now, now);
    }

    pub(crate) fn attributes(&self) -> Attributes3 {
        let (kind, bytes, device) = match &self.body {
            Body::File(contents) => (REGULAR, contents.end(), (0, 0)),
            Body::Directory(_) => (DIRECTORY, BLOCK_BYTES, (0, 0)),
            Body::SymbolicLink(target) => (SYMBOLIC_LINK, target.len() as u64, (0, 0)),
            Body::Special(kind, device) => (*kind, 0, *device),
        };
        Attributes3 {
            kind,
            mode: self.mode,
            links: self.links,
            uid: self.owner.uid,
            gid: self.owner.gid,
            bytes,
            used_bytes: bytes.next_multiple_of(BLOCK_BYTES),
            device,
            // `ExportName::told` sets it.
            file_system: 0,
            file_id: self.serial,
            accessed: self.accessed,
            modified: self.modified,
            changed: self.changed,
        }
    }
}
