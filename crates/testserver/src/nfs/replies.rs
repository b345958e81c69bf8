//! Duplicate request cache: replies to calls that may not be repeated. A client that did not receive a reply
//! repeats the call and gets the same reply (RFC 1813, 4.3). The number and age of cached replies are
//! limited.
//!
//! A call is identified by its contents, including its XID and caller, but not by its connection: a client
//! may repeat a call on another connection.

use dyno_measure::NS_PER_S;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;

const MOST: usize = 16_384;
/// Lifetime of a cached reply, as in Linux's server (`RC_EXPIRE`).
const AGE_NS: u64 = 120 * NS_PER_S;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallName {
    xid: u32,
    digest: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Replies {
    known: HashMap<CallName, Box<[u8]>>,
    /// Times and names of the cached calls, oldest first.
    order: VecDeque<(u64, CallName)>,
    state: RandomState,
    given_again: u64,
}

impl Replies {
    pub(crate) fn name(&self, xid: u32, call: &[u8]) -> CallName {
        CallName {
            xid,
            digest: self.state.hash_one(call),
        }
    }

    /// Appends the earlier reply to the same call. Returns false if there is none.
    pub(crate) fn give_again(&mut self, name: CallName, now_ns: u64, out: &mut Vec<u8>) -> bool {
        self.forget_old(now_ns);
        let Some(reply) = self.known.get(&name) else {
            return false;
        };
        out.extend_from_slice(reply);
        self.given_again += 1;
        true
    }

    pub(crate) fn keep(&mut self, name: CallName, now_ns: u64, reply: &[u8]) {
        if self.order.len() >= MOST {
            self.forget_oldest();
        }
        self.known.insert(name, reply.into());
        self.order.push_back((now_ns, name));
    }

    /// Returns the number of cached replies that were sent again.
    pub(crate) fn given_again(&self) -> u64 {
        self.given_again
    }

    pub(crate) fn forget_all(&mut self) {
        self.known.clear();
        self.order.clear();
    }

    fn forget_old(&mut self, now_ns: u64) {
        while self
            .order
            .front()
            .is_some_and(|(kept_ns, _)| now_ns.saturating_sub(*kept_ns) > AGE_NS)
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, name)) = self.order.pop_front() {
            self.known.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_reply_is_sent_only_for_the_same_call_and_expires() {
        let mut replies = Replies::default();
        let name = replies.name(7, b"REMOVE x");
        replies.keep(name, 0, b"done");
        let mut out = Vec::new();
        assert!(replies.give_again(name, AGE_NS, &mut out));
        assert_eq!((out.as_slice(), replies.given_again()), (&b"done"[..], 1));
        for other in [replies.name(8, b"REMOVE x"), replies.name(7, b"REMOVE y")] {
            assert!(!replies.give_again(other, 0, &mut out));
        }
        assert!(!replies.give_again(name, AGE_NS + 1, &mut out));
        for xid in 0..=u32::try_from(MOST).expect("few") {
            let name = replies.name(xid, b"");
            replies.keep(name, AGE_NS, b"");
        }
        assert!(!replies.give_again(replies.name(0, b""), AGE_NS, &mut out));
        assert!(replies.give_again(replies.name(1, b""), AGE_NS, &mut out));
        replies.forget_all();
        assert!(!replies.give_again(replies.name(1, b""), AGE_NS, &mut out));
    }
}
