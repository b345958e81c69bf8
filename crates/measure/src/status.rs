//! A protocol's own status as a failure carries it: a number, and the protocol's table that puts it into words.
//!
//! Not for what a status means to a client: each protocol maps its own to a `Fault`.

use std::fmt;

/// The statuses of one protocol, or the steps at which it refuses a session.
#[derive(Debug)]
pub struct StatusTable {
    /// Names the table; no two tables have the same name.
    pub name: &'static str,
    /// Writes one of its numbers in words. Numbers come from servers: any may be asked for.
    pub write: fn(u32, &mut fmt::Formatter<'_>) -> fmt::Result,
}

/// A number of a table. Carrying one costs no allocation; its text is made where it is displayed.
#[derive(Clone, Copy)]
pub struct ProtocolStatus {
    /// The number as the protocol has it.
    pub code: u32,
    /// The table that it stands in.
    pub table: &'static StatusTable,
}

impl PartialEq for ProtocolStatus {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code && self.table.name == other.table.name
    }
}

impl Eq for ProtocolStatus {}

impl fmt::Display for ProtocolStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.table.write)(self.code, formatter)
    }
}

impl fmt::Debug for ProtocolStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:#010x}", self.table.name, self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ONE: StatusTable = StatusTable {
        name: "one",
        write: |code, formatter| write!(formatter, "status {code}"),
    };
    static OTHER: StatusTable = StatusTable { name: "other", ..ONE };

    #[test]
    fn a_status_is_the_same_only_within_its_table() {
        let of = |table, code| ProtocolStatus { code, table };
        assert_eq!(of(&ONE, 404), of(&ONE, 404));
        assert_ne!(of(&ONE, 404), of(&ONE, 405));
        assert_ne!(of(&ONE, 404), of(&OTHER, 404));
        assert_eq!(of(&ONE, 404).to_string(), "status 404");
    }
}
