//! Names and meanings of the server's faults.
//!
//! `misbehaviour.rs` implements them. Faults affect replies to requests for files. MOUNT, FSINFO and the
//! portmapper work normally, so that a client can start.

use crate::fault::faults;

faults! {
    Delay "delay=5ms" "delays its replies by this time"
    Stall "stall" "receives requests and never replies"
    DroppedReply "dropped-reply=10" "executes every tenth request and never replies to it"
    DroppedCall "dropped-call=10" "drops every tenth request: neither executes it nor replies to it"
    DoubleReply "double-reply=10" "replies to every tenth request twice"
    LostReply "lost-reply=10" "executes every tenth request and closes the connection instead of replying"
    Restart "restart=500ms" "restarts at this interval: closes all connections, loses unstable writes, changes its verifier"
    OtherVerifier "other-verifier=10" "reports a changed verifier, as after a restart, in every tenth reply to WRITE and COMMIT"
    JukeBox "jukebox=3" "replies to every third request with JUKEBOX, without executing it"
    Close "close" "closes the connection instead of replying"
    EarlyClose "early-close" "closes in the middle of the reply"
    Truncated "truncated" "sends a reply that ends in the middle of its results, in a record of that length"
    Oversized "oversized" "sends a record mark of 2 GiB, then continues normally"
    Garbage "garbage" "sends random bytes instead of a reply, then closes"
    WrongNumber "wrong-number" "sends a reply to a call that was never made"
    Denied "denied" "rejects the credentials (AUTH_TOOWEAK)"
    Stale "stale" "reports every file as stale"
    DiskFull "disk-full" "refuses every write as if the disk were full"
    ShortRead "short-read" "returns half of the requested data, at least one byte"
    ShortWrite "short-write" "writes half of the data, at least one byte"
    WrongContent "wrong-content" "changes one bit of the data read"
    NoRecall "no-recall" "lets clients change files that it has delegated to others, without a recall"
    SilentRecall "silent-recall" "never sends a recall: conflicting clients wait until the delegation is revoked"
    DoubleRecall "double-recall" "recalls each delegation twice"
    UnknownRecall "unknown-recall" "before each recall, recalls a delegation that does not exist"
    LostWrites "lost-writes" "accepts writes and discards the data (the file size is correct)"
}
