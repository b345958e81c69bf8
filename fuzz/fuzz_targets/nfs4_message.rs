//! NFSv4.1 server input: fragments, replies, compound headers with slots, results of all operations including
//! delegations, and callbacks.
#![no_main]

mod nfs_conversation;

use dyno_nfs::session::{Conversation, Options, Version};
use dyno_nfs::v4::{Agreed4, State};
use dyno_nfs::wire::FileHandle;
use libfuzzer_sys::fuzz_target;
use nfs_conversation::{converse, AGREED};
use std::rc::Rc;

/// A session with an identifier that the fuzzer can find.
fn state() -> State {
    State::new(Agreed4 {
        minor: 1,
        client_id: 0,
        session: [0; 16],
        slots: 8,
        kept_reply_bytes: 4096,
        lease_s: 60,
        is_called: true,
    })
}

fuzz_target!(|data: &[u8]| {
    let Some(root) = FileHandle::of(b"root") else {
        return;
    };
    // Request numbers begin at 0 for client 0, so that the fuzzer can find them.
    let options = Options {
        version: Version::V4_1,
        delegations: true,
        ..Options::default()
    };
    let mut conversation = Conversation::new(Rc::new(options), 0);
    conversation.establish4(root, AGREED, state());
    converse(&mut conversation, data, Some(state));
});
