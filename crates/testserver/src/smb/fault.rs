//! The names of what the server can be told to do wrong, and what each means.
//!
//! Not for: doing it (`misbehaviour.rs`). Unless it says otherwise, a fault strikes every answer to a request about
//! files, from CREATE on; log-on and share are as ever, so that a client gets there.

use crate::fault::faults;

faults! {
    Delay "delay=5ms" "waits so long before each message that it sends"
    Stall "stall" "takes requests and never answers"
    Pending "pending" "says once that the request goes on, and never more"
    EndlessPending "endless-pending" "says a hundred times that the request goes on, and never more"
    Close "close" "closes the connection instead of answering"
    EarlyClose "early-close" "closes in the middle of the message"
    Truncated "truncated" "a message that ends in the middle of its body, with a frame that fits"
    Oversized "oversized" "a frame that declares 16 MiB, and goes on as ever"
    Garbage "garbage" "random bytes instead of a message, then closes"
    WrongMessageId "wrong-message-id" "the answer to a request that nobody sent"
    WrongCommand "wrong-command" "the answer to another command"
    BadSignature "bad-signature" "one bit of the signature, or of the encrypted message, differs"
    NoCredit "no-credit" "brings no credits"
    SessionDeleted "session-deleted" "says that there is no such session"
    DiskFull "disk-full" "refuses every write as if the disk were full"
    ShortRead "short-read" "half of what was to be read"
    WrongContent "wrong-content" "one bit of what was read differs"
    LostWrites "lost-writes" "takes what is written and keeps none of it (the file's end is right)"
    ForgottenHandles "forgotten-handles" "grants durable handles, and keeps none of them when their connection ends"
    UndoneWrites "undone-writes" "undoes the last write to a durable handle when its connection ends, flushed or not"
    NoBreaks "no-breaks" "never takes back an oplock or a lease: others open and write behind the holder's back"
    NoDirectoryBreaks "no-directory-breaks" "never takes back the lease of a directory: others change its entries behind the holder's back"
}
