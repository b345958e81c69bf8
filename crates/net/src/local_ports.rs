//! Range of this machine's local ports. It limits the number of connections to one address and port.

use std::fs;

const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Range from which the kernel chooses the local ports of outgoing connections (`ip_local_port_range`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalPorts {
    pub first: u16,
    pub last: u16,
}

impl LocalPorts {
    /// Returns the range of the calling thread's network namespace, or None if it can't be read.
    pub fn here() -> Option<Self> {
        Self::parse(&fs::read_to_string(RANGE).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.trim().split_once(char::is_whitespace)?;
        Some(Self {
            first: first.parse().ok()?,
            last: last.trim().parse().ok()?,
        })
    }

    pub fn count(self) -> u64 {
        u64::from(self.last.saturating_sub(self.first)) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_parsed_in_the_kernels_format() {
        let range = LocalPorts::parse("32768\t60999\n");
        assert_eq!(range.map(LocalPorts::count), Some(28_232));
        assert_eq!(LocalPorts::parse("one"), None);
        assert!(LocalPorts::here().is_some());
    }
}
