//! NFSv3 server input: fragments, replies and the results of all procedures.
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
    // Request numbers begin at 0 for client 0, so that the fuzzer can find them.
    let mut conversation = Conversation::new(Rc::new(Options::default()), 0);
    conversation.establish(root, AGREED);
    converse(&mut conversation, data, None);
});
