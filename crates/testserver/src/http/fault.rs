//! Names and meanings of the server's faults.
//!
//! `misbehaviour.rs` implements them. A fault affects every GET of a document. HEAD, extra documents and the request
//! count are answered normally.

use crate::fault::faults;

faults! {
    Delay "delay=5ms" "delays each answer by this time"
    RandomDelay "random-delay=5ms" "delays each answer by a random time, exponentially distributed with this mean"
    Tire "tire=100" "delays this number of answers of a connection by 50 ms, and each later one by 100 ms"
    Stall "stall" "reads the request and never answers"
    EndlessHead "endless-head" "sends header fields without end"
    HugeHead "huge-head" "sends a head of 1 MiB that is otherwise correct"
    ShortBody "short-body" "declares one byte more than it sends, and closes"
    LongBody "long-body" "sends more than it declares"
    BadChunk "bad-chunk" "sends an invalid chunk size in the middle of the body"
    EndlessChunks "endless-chunks" "sends chunks without end"
    EarlyClose "early-close" "closes in the middle of the head"
    CloseAtOnce "close-at-once" "closes each connection immediately after accepting it; causes a reset if the request has already arrived"
    Reset "reset" "resets the connection instead of answering"
    Garbage "garbage" "sends random bytes instead of an answer, then closes"
    WrongContent "wrong-content" "changes one byte of the body"
    WrongLength "wrong-length" "sends a body that is one byte longer than the document, with the correct length"
    Status500 "status-500" "answers with an internal server error"
    CloseIdle "close-idle=2" "closes a persistent connection after this number of answers without announcing it"
    Chunked "chunked" "answers correctly in chunked coding (until close for HTTP/1.0)"
    CloseDelimited "close-delimited" "answers correctly without a length: the body ends with the connection"
    Truncate "truncate" "answers correctly without a length, but ends TLS without close_notify"
    SlowDrip "slow-drip=100" "answers correctly, but sends this number of bytes at a time, at intervals of 1 ms"
    Interim "interim" "answers correctly after a 103 Early Hints (for HTTP/1.1)"
}
