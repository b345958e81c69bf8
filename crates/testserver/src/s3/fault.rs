//! Names and meanings of the server's faults.
//!
//! `operations.rs` implements faults of contents, `connection.rs` faults of messages. Faults affect requests
//! for objects. Requests for initial objects (proof of consent) are answered normally.

use crate::fault::faults;

faults! {
    Delay "delay=5ms" "delays each answer by this time"
    Stall "stall" "receives requests and never answers"
    WrongContent "wrong-content=10" "changes one bit of the content in every tenth answer to GET"
    WrongEtag "wrong-etag=10" "answers every tenth PUT and completed upload with another ETag"
    LostPut "lost-put=10" "acknowledges every tenth PUT and completed upload, and does not store it"
    TornPut "torn-put=10" "acknowledges every tenth PUT, and stores only the first half of its content"
    LostDelete "lost-delete=10" "acknowledges every tenth DELETE, and does not remove the object"
    StaleRead "stale-read=10" "answers every tenth GET and HEAD as if the last PUT had not happened"
    TruncatedList "truncated-list=10" "leaves the last entry out of every tenth listing, without a mark"
    GhostEntry "ghost-entry=10" "adds an object that does not exist to every tenth listing"
    EndlessList "endless-list" "marks every listing as truncated and continues with the same page"
    SlowDown "slow-down=10" "refuses every tenth request with 503 SlowDown, without executing it"
    Status500 "status-500=10" "refuses every tenth request with 500 InternalError, without executing it"
    LateError "late-error=10" "answers every tenth completed upload and copy with status 200 and an error"
    ShortBody "short-body=10" "declares the whole content of every tenth GET, sends half of it, and closes"
    BadXml "bad-xml=10" "ends the XML of every tenth answer in its middle"
    Close "close=10" "executes every tenth request and closes the connection instead of answering"
    EarlyClose "early-close=10" "closes in the middle of the head of every tenth answer"
    Garbage "garbage=10" "sends random bytes instead of every tenth answer, then closes"
}
