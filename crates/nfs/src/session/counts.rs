//! Counts of a conversation.

use crate::v4::Procedure4;
use crate::wire::Procedure;

/// Largest number of procedures in any NFS version.
const MOST_PROCEDURES: usize = if Procedure::ALL.len() > Procedure4::ALL.len() {
    Procedure::ALL.len()
} else {
    Procedure4::ALL.len()
};

/// Counts of requests and other events since the session was created.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Transmissions by procedure number or, with NFSv4.1, by the main operation of the compound.
    pub requests: [u64; MOST_PROCEDURES],
    /// Requests answered with JUKEBOX and sent again.
    pub jukeboxes: u64,
    /// Requests sent again on another connection.
    pub resent: u64,
    /// Requests sent again over UDP after a timeout.
    pub retransmitted: u64,
    /// Ignored datagrams: replies without an outstanding request, or messages that are not replies.
    pub strays: u64,
    /// Delegations granted by the server.
    pub delegations: u64,
    pub calls: u64,
    pub refused_calls: u64,
    /// Reported breaks.
    pub breaks: u64,
}

impl Counts {
    /// Returns the counts other than `requests`, with their names in reports.
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
