//! The names of what the server can be told to do wrong, and what each means.
//!
//! Not for: doing it (`misbehaviour.rs`). A fault strikes every GET of a document; HEAD, extra documents and the count
//! of requests are answered as ever.

use crate::fault::faults;

faults! {
    Delay "delay=5ms" "waits so long before each answer"
    RandomDelay "random-delay=5ms" "waits before each answer by chance, exponentially distributed, so long in the mean"
    Tire "tire=100" "waits 50 ms before each of so many answers of a connection, and 100 ms before each later one"
    Stall "stall" "reads the request and never answers"
    EndlessHead "endless-head" "header fields without end"
    HugeHead "huge-head" "a head of a mebibyte, otherwise right"
    ShortBody "short-body" "declares one byte more than it sends, and closes"
    LongBody "long-body" "sends more than it declares"
    BadChunk "bad-chunk" "a chunk size in the middle of the body that is no number"
    EndlessChunks "endless-chunks" "chunks without end"
    EarlyClose "early-close" "closes in the middle of the head"
    CloseAtOnce "close-at-once" "closes each connection once accepted; a reset where the request was there already"
    Reset "reset" "resets the connection instead of answering"
    Garbage "garbage" "random bytes instead of an answer, then closes"
    WrongContent "wrong-content" "one byte of the body differs"
    WrongLength "wrong-length" "a body that is one byte longer than the document, rightly declared"
    Status500 "status-500" "an internal server error"
    CloseIdle "close-idle=2" "closes a kept-alive connection after so many answers without having said so"
    Chunked "chunked" "right, in the chunked coding (until close for HTTP/1.0)"
    CloseDelimited "close-delimited" "right, but of undeclared length: the body ends where the connection does"
    Truncate "truncate" "right, of undeclared length, but over TLS ended without close_notify"
    SlowDrip "slow-drip=100" "right, but so many bytes at a time, with a millisecond between them"
    Interim "interim" "right, after a 103 Early Hints (for HTTP/1.1)"
}
