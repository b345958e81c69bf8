//! The names of what the server can be told to do wrong, and what each means.
//!
//! Not for: doing it (`misbehaviour.rs`). A fault strikes answers to requests about files; MOUNT, FSINFO and the
//! portmapper are as ever, so that a client gets there.

use crate::fault::faults;

faults! {
    Delay "delay=5ms" "waits so long before it answers what has come"
    Stall "stall" "takes requests and never answers"
    DroppedReply "dropped-reply=10" "carries every tenth request out and never answers it"
    DroppedCall "dropped-call=10" "neither carries every tenth request out nor answers it"
    DoubleReply "double-reply=10" "answers every tenth request twice"
    LostReply "lost-reply=10" "carries every tenth request out and closes the connection instead of answering"
    Restart "restart=500ms" "starts anew so long after each start: closes all connections, forgets unstable writes, has another verifier"
    OtherVerifier "other-verifier=10" "says in every tenth answer to WRITE and COMMIT that it has started anew, and has not"
    JukeBox "jukebox=3" "answers every third request with JUKEBOX, and does not carry it out"
    Close "close" "closes the connection instead of answering"
    EarlyClose "early-close" "closes in the middle of the answer"
    Truncated "truncated" "an answer that ends in the middle of its results, in a record that fits"
    Oversized "oversized" "a record that declares 2 GiB, and goes on as ever"
    Garbage "garbage" "random bytes instead of an answer, then closes"
    WrongNumber "wrong-number" "the answer to a call that nobody made"
    Denied "denied" "does not believe who asks (AUTH_TOOWEAK)"
    Stale "stale" "knows no file any more"
    DiskFull "disk-full" "refuses every write as if the disk were full"
    ShortRead "short-read" "half of what was to be read, at least a byte"
    ShortWrite "short-write" "takes half of what was to be written, at least a byte"
    WrongContent "wrong-content" "one bit of what was read differs"
    NoRecall "no-recall" "lets a file be changed that it has delegated to others, and recalls nothing"
    SilentRecall "silent-recall" "never sends a recall: who is in the way waits until the delegation is revoked"
    DoubleRecall "double-recall" "recalls each delegation twice"
    UnknownRecall "unknown-recall" "recalls, before each delegation, one that nobody has"
    LostWrites "lost-writes" "takes what is written and keeps none of it (the file's end is right)"
}
