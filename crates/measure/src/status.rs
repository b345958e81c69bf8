//! Status of a protocol in a failure: a number and the table that describes it. Each protocol maps its
//! statuses to a `Fault`.

use std::fmt;

/// The statuses of a protocol, or the steps at which it refuses a session.
#[derive(Debug)]
pub struct StatusTable {
    /// Unique name of the table.
    pub name: &'static str,
    /// Writes the text of a number. Servers may send any number.
    pub write: fn(u32, &mut fmt::Formatter<'_>) -> fmt::Result,
}

impl StatusTable {
    /// Returns a number of this table, as failures carry it.
    pub const fn status(&'static self, code: u32) -> ProtocolStatus {
        ProtocolStatus { code, table: self }
    }
}

/// A number from a table. It needs no allocation; its text is generated on display.
#[derive(Clone, Copy)]
pub struct ProtocolStatus {
    pub code: u32,
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
