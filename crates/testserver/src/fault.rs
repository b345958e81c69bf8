//! Faults that a server can inject on request: a macro turns a list of names into a type that is parsed
//! from a name.
//!
//! The lists are in `fault.rs` of each protocol, the implementations in `misbehaviour.rs`.

use crate::common::{incompressible, NS_PER_MS};
use serde::de::{Deserialize, Deserializer, Error};
use std::str::FromStr;

const GARBAGE_BYTES: usize = 1024;

/// Faults of one protocol.
pub trait FaultKind: Copy + PartialEq + 'static {
    /// The fault that every protocol has: delayed answers.
    const DELAY: Self;

    fn named() -> impl Iterator<Item = (Self, &'static str)>;
}

/// A fault of a server: wrong behaviour, or legal but unusual behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault<Kind> {
    pub(crate) kind: Kind,
    /// The number in the fault's name; 1 if the name has none.
    pub(crate) value: u32,
}

impl<Kind: FaultKind> Fault<Kind> {
    /// Returns the number in the name, in milliseconds, as nanoseconds.
    pub(crate) fn value_ns(self) -> u64 {
        u64::from(self.value) * NS_PER_MS
    }

    /// Returns the delay of each answer: zero unless the fault is `DELAY`.
    pub(crate) fn delay_ns(fault: Option<Self>) -> u64 {
        let delay = fault.filter(|fault| fault.kind == Kind::DELAY);
        delay.map_or(0, Self::value_ns)
    }
}

impl<Kind: FaultKind> FromStr for Fault<Kind> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Kind::named().find_map(|(kind, example)| {
            let value = value_in(text, example)?;
            Some(Self { kind, value })
        });
        named.ok_or_else(|| {
            let names: Vec<&str> = Kind::named().map(|(_, name)| name).collect();
            format!("unknown fault {text:?}; known faults: {}", names.join(" "))
        })
    }
}

impl<'de, Kind: FaultKind> Deserialize<'de> for Fault<Kind> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(Error::custom)
    }
}

/// Defines `Kind`, `Fault` and `faults()` from `Variant "name" "meaning"` for each fault. A number in a name is an
/// example, which any other positive number can replace.
macro_rules! faults {
    ($($variant:ident $name:literal $words:literal)*) => {
        dyno_measure::named_enum! {
            /// Faults that the server can inject.
            pub enum Kind { $($variant $name $words)* }
        }

        impl crate::fault::FaultKind for Kind {
            const DELAY: Self = Self::Delay;

            fn named() -> impl Iterator<Item = (Self, &'static str)> {
                Self::ALL.into_iter().map(|kind| (kind, kind.name()))
            }
        }

        pub type Fault = crate::fault::Fault<Kind>;

        /// Returns the names and meanings of all faults. Each name can be parsed as it is, or with another
        /// number.
        pub fn faults() -> Vec<(&'static str, &'static str)> {
            Kind::ALL.map(|kind| (kind.name(), kind.words())).to_vec()
        }
    };
}
pub(crate) use faults;

/// Returns the positive number in `text`, if `text` equals `example` except for the number.
fn value_in(text: &str, example: &str) -> Option<u32> {
    let Some((name, example_value)) = example.split_once('=') else {
        return (text == example).then_some(1);
    };
    let unit = example_value.trim_start_matches(|character: char| character.is_ascii_digit());
    let value = text.strip_prefix(name)?.strip_prefix('=')?.strip_suffix(unit)?;
    value.parse().ok().filter(|value| *value > 0)
}

/// Returns random bytes to send instead of an answer.
pub(crate) fn garbage() -> Vec<u8> {
    incompressible(GARBAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{http, nfs, s3, smb};

    fn each_name_stands_for_its_own_fault<Kind: FaultKind + std::fmt::Debug>() {
        for (kind, name) in Kind::named() {
            assert_eq!(name.parse::<Fault<Kind>>().expect("a listed name").kind, kind);
        }
        let delay = "delay=250ms".parse().expect("a listed name");
        assert_eq!(Fault::<Kind>::delay_ns(Some(delay)), 250 * NS_PER_MS);
        let stall = "stall".parse().expect("a listed name");
        assert_eq!(Fault::<Kind>::delay_ns(Some(stall)), 0);
        let error = "sulk".parse::<Fault<Kind>>().expect_err("no such fault");
        assert!(error.contains("sulk"), "{error}");
        assert!(Kind::named().all(|(_, name)| error.contains(name)), "{error}");
    }

    #[test]
    fn every_listed_name_stands_for_a_different_fault() {
        each_name_stands_for_its_own_fault::<http::FaultKind>();
        each_name_stands_for_its_own_fault::<smb::FaultKind>();
        each_name_stands_for_its_own_fault::<nfs::FaultKind>();
        each_name_stands_for_its_own_fault::<s3::FaultKind>();
    }

    #[test]
    fn the_number_in_a_name_can_be_chosen() {
        let value = |text: &str| text.parse::<http::Fault>().ok().map(|fault| fault.value);
        assert_eq!(value("delay=250ms"), Some(250));
        assert_eq!(value("close-idle=7"), Some(7));
        for wrong in [
            "delay",
            "delay=5",
            "delay=ms",
            "delay=0ms",
            "slow-drip=0",
            "stall=1",
            "slow-drip=-1",
            "",
        ] {
            assert_eq!(value(wrong), None, "{wrong}");
        }
    }
}
