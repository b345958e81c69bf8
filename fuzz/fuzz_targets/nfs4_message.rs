//! What a server sends over NFSv4.1: fragments, replies, the beginnings of compounds with their slots, and the results of
//! every operation that calls wait for.
#![no_main]

use dyno_files::{Access, Ask, Call, Disposition, Open, Reply, Stability};
use dyno_nfs::session::{Conversation, Data, Options, TransferSizes, Version};
use dyno_nfs::v4::{Agreed4, State};
use dyno_nfs::wire::{FileHandle, Records};
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;
use std::rc::Rc;

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

/// A session whose name the fuzzer finds.
fn state() -> State {
    State::new(Agreed4 { client_id: 0, session: [0; 16], slots: 8, kept_reply_bytes: 4096, lease_s: 60 })
}

fuzz_target!(|data: &[u8]| {
    let Some(root) = FileHandle::of(b"root") else {
        return;
    };
    // Numbers of requests begin at 0 for client 0, so that the fuzzer finds them.
    let options = Options { version: Version::V4_1, ..Options::default() };
    let mut conversation = Conversation::new(Rc::new(options), 0);
    let agreed = TransferSizes {
        max_read_bytes: 64,
        max_write_bytes: 64,
        listing_bytes: 4096,
    };
    conversation.establish4(root, agreed, state());
    let mut records = Records::new(4096);
    let calls = [
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
    let mut told = HashSet::new();
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
                    if let Ok(Reply::Opened { handle, .. }) = ended.result {
                        let data = [7; 64];
                        let stability = Stability::Unstable;
                        let _ = conversation.begin(
                            &Call::Read {
                                handle,
                                offset: 0,
                                bytes: 64,
                            },
                            now_ns,
                        );
                        let write = Call::Write {
                            handle,
                            offset: 0,
                            data: &data,
                            stability,
                        };
                        let _ = conversation.begin(&write, now_ns);
                        let _ = conversation.begin(&Call::Flush { handle }, now_ns);
                        let _ = conversation.begin(&Call::Lock { handle, offset: 0, bytes: 1 }, now_ns);
                        let _ = conversation.begin(&Call::Close { handle }, now_ns);
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        if conversation.needs_session() {
            conversation.go_on_in(state());
        }
    }
});
