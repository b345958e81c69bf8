//! What a server sends over NFS: fragments, replies, and the results of every procedure that calls wait for.
#![no_main]

mod nfs_conversation;

use dyno_nfs::session::{Conversation, Options};
use dyno_nfs::wire::FileHandle;
use libfuzzer_sys::fuzz_target;
use nfs_conversation::{converse, AGREED};
use std::rc::Rc;

fuzz_target!(|data: &[u8]| {
    let Some(root) = FileHandle::of(b"root") else {
        return;
    };
    // Numbers of requests begin at 0 for client 0, so that the fuzzer finds them.
    let mut conversation = Conversation::new(Rc::new(Options::default()), 0);
    conversation.establish(root, AGREED);
    converse(&mut conversation, data, None);
});
