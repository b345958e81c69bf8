//! Common parts of the NFS targets: calls of each kind, and server input in pieces.

use dyno_files::{Access, Ask, Caching, Call, CallId, Disposition, Handle, LeaseKey, Open, Reply, Stability};
use dyno_nfs::session::{Conversation, Data, TransferSizes};
use dyno_nfs::v4::State;
use dyno_nfs::wire::Records;
use std::collections::{HashMap, HashSet};

pub const AGREED: TransferSizes = TransferSizes {
    max_read_bytes: 64,
    max_write_bytes: 64,
    listing_bytes: 4096,
};

fn open(path: &str, disposition: Disposition) -> Call<'_> {
    Call::Open(Open {
        path,
        access: Access::ReadWrite,
        disposition,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    })
}

fn open_to_keep() -> Call<'static> {
    Call::Open(Open {
        path: "f",
        access: Access::Read,
        disposition: Disposition::Open,
        directory: false,
        delete_on_close: false,
        ask: Ask::Lease(LeaseKey(1), Caching::READ_HANDLE),
    })
}

/// Handles recalls and discards the results.
fn give_back(conversation: &mut Conversation) {
    while let Some(broken) = conversation.next_break() {
        conversation.give_back(broken.grant);
    }
    conversation.take_answers(&mut Vec::new());
}

/// Reads and writes an open file. If the version has locks, also locks and closes it. If the file is to be
/// closed with its lock, returns the call that locks it.
fn use_file(
    conversation: &mut Conversation,
    handle: Handle,
    locks: bool,
    keeps_lock: bool,
    now_ns: u64,
) -> Option<CallId> {
    let (offset, bytes, data) = (0, 64, &[7; 64]);
    let stability = Stability::Unstable;
    let _ = conversation.begin(
        &Call::Read {
            handle,
            offset,
            bytes,
        },
        now_ns,
    );
    let write = Call::Write {
        handle,
        offset,
        data,
        stability,
    };
    let _ = conversation.begin(&write, now_ns);
    let _ = conversation.begin(&Call::Flush { handle }, now_ns);
    if !locks {
        return None;
    }
    let bytes = 1;
    let lock = conversation.begin(
        &Call::Lock {
            handle,
            offset,
            bytes,
        },
        now_ns,
    );
    if let (Ok(lock), true) = (lock, keeps_lock) {
        return Some(lock);
    }
    let _ = conversation.begin(&Call::Close { handle }, now_ns);
    None
}

/// Performs calls of each kind. `session`: the version has sessions, and its client also locks and closes.
pub fn converse(conversation: &mut Conversation, data: &[u8], session: Option<fn() -> State>) {
    let mut records = Records::new(4096);
    let calls = [
        open_to_keep(),
        open("a", Disposition::Open),
        open("d/b", Disposition::Create),
        Call::Find {
            directory: "d",
            pattern: "a*",
        },
        Call::QuerySpace { directory: "" },
        Call::Rename { from: "a", to: "c" },
        Call::MakeDirectory { path: "e" },
    ];
    let mut now_ns = 0;
    let (mut told, mut locking) = (HashSet::new(), HashMap::new());
    for call in &calls {
        let _ = conversation.begin(call, now_ns);
    }
    for piece in data.chunks(64) {
        now_ns += 1_000_000_000;
        while conversation.next_departure(now_ns).is_some() {}
        let room = records.room();
        let count = room.len().min(piece.len());
        room[..count].copy_from_slice(&piece[..count]);
        records.filled(count);
        loop {
            match conversation.receive(&mut records, now_ns) {
                Ok(Some(ended)) => {
                    assert!(told.insert(ended.id), "a call ends once");
                    if let Data::Received(range) = &ended.data {
                        assert!(range.end <= records.bytes().len());
                    }
                    // Unlock a file that was closed with its lock.
                    if let Some(handle) = locking.remove(&ended.id) {
                        let _ = conversation.begin(&Call::Close { handle }, now_ns);
                    }
                    if let Ok(Reply::Opened { handle, created, .. }) = ended.result {
                        let lock = use_file(conversation, handle, session.is_some(), created, now_ns);
                        locking.extend(lock.map(|lock| (lock, handle)));
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        give_back(conversation);
        if let (Some(session), true) = (session, conversation.needs_session()) {
            conversation.go_on_in(session());
        }
    }
}
