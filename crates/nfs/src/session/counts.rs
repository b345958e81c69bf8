//! What a conversation counts.

use crate::v4::Procedure4;
use crate::wire::Procedure;

/// The procedures of the version that has more.
const MOST_PROCEDURES: usize = if Procedure::ALL.len() > Procedure4::ALL.len() {
    Procedure::ALL.len()
} else {
    Procedure4::ALL.len()
};

/// Numbers of requests, and of what came otherwise, from the session's beginning on.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// By the number of the procedure, each sending counted. Of NFSv4.1 by what compounds are for.
    pub requests: [u64; MOST_PROCEDURES],
    /// Answered with JUKEBOX, and sent again.
    pub jukeboxes: u64,
    /// Sent again on another connection.
    pub resent: u64,
    /// Sent again over UDP, as no answer came in time.
    pub retransmitted: u64,
    /// Datagrams that answer nothing that is asked, or are no answers: passed over.
    pub strays: u64,
    /// Files that the server has delegated.
    pub delegations: u64,
    /// Calls of the server's.
    pub calls: u64,
    /// Those of them that were refused.
    pub refused_calls: u64,
    /// Breaks that were told.
    pub breaks: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            requests: [0; MOST_PROCEDURES],
            jukeboxes: 0,
            resent: 0,
            retransmitted: 0,
            strays: 0,
            delegations: 0,
            calls: 0,
            refused_calls: 0,
            breaks: 0,
        }
    }
}

impl Counts {
    /// Returns what stands among the requests by name without being one, each with its count.
    pub(super) fn others(&self) -> [(&'static str, u64); 7] {
        [
            ("(JUKEBOX, asked again)", self.jukeboxes),
            ("(sent again after a lost connection)", self.resent),
            ("(sent again without an answer in time)", self.retransmitted),
            ("(datagrams passed over)", self.strays),
            ("(read delegations granted)", self.delegations),
            ("(calls of the server)", self.calls),
            ("(calls of the server, refused)", self.refused_calls),
        ]
    }
}
