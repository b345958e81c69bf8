//! Names and meanings of the server's faults.
//!
//! `misbehaviour.rs` implements them. Unless its meaning says otherwise, a fault affects every answer to a request for
//! files, from CREATE on. Log-on and share connection work normally, so that a client can start.

use crate::fault::faults;

faults! {
    Delay "delay=5ms" "delays each message by this time"
    Stall "stall" "receives requests and never answers"
    Pending "pending" "sends one interim response, and never an answer"
    EndlessPending "endless-pending" "sends a hundred interim responses, and never an answer"
    Close "close" "closes the connection instead of answering"
    EarlyClose "early-close" "closes in the middle of the message"
    Truncated "truncated" "sends a message that ends in the middle of its body, in a frame of that length"
    Oversized "oversized" "sends a frame length of 16 MiB, then continues normally"
    Garbage "garbage" "sends random bytes instead of a message, then closes"
    WrongMessageId "wrong-message-id" "sends the answer to a request that was never sent"
    WrongCommand "wrong-command" "sends the answer to another command"
    BadSignature "bad-signature" "changes one bit of the signature, or of the encrypted message"
    NoCredit "no-credit" "grants no credits"
    SessionDeleted "session-deleted" "reports that the session does not exist"
    DiskFull "disk-full" "refuses every write as if the disk were full"
    ShortRead "short-read" "returns half of the requested data"
    WrongContent "wrong-content" "changes one bit of the data read"
    LostWrites "lost-writes" "accepts writes and discards the data (the file size is correct)"
    ForgottenHandles "forgotten-handles" "grants durable handles, but keeps none of them when the connection ends"
    UndoneWrites "undone-writes" "undoes the last write to a durable handle when the connection ends, even if it was flushed"
    NoBreaks "no-breaks" "never breaks an oplock or a lease: others open and write without the holder noticing"
    NoDirectoryBreaks "no-directory-breaks" "never breaks a directory lease: others change entries without the holder noticing"
}
