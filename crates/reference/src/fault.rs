//! Names for what a server can be told to do wrong: a list of them becomes a type that is parsed from its name.
//!
//! Not for: the lists (`fault.rs` of each protocol), and doing it.

/// Makes `Kind`, `Fault`, `UnknownFault` and `faults()` of `Variant "name" "what it means"` for each fault. A number in a
/// name is an example: another can be put in its place.
macro_rules! faults {
    ($($variant:ident $name:literal $words:literal)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kind { $(#[doc = $words] $variant),* }

        const KINDS: &[Kind] = &[$(Kind::$variant),*];
        const FAULTS: &[(&str, &str)] = &[$(($name, $words)),*];

        /// Names and meanings of all faults; each name can be parsed as it stands, and another number put in its place.
        #[must_use]
        pub fn faults() -> &'static [(&'static str, &'static str)] {
            FAULTS
        }

        /// Something that the server does wrong, or at least in an unusual way.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Fault {
            pub(crate) kind: Kind,
            /// The number in the name; 1 where the name has none.
            pub(crate) value: u32,
        }

        /// A name that stands for no fault.
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[error("there is no fault {0:?}; there are: {names}", names = names())]
        pub struct UnknownFault(String);

        fn names() -> String {
            FAULTS.iter().map(|fault| fault.0).collect::<Vec<_>>().join(" ")
        }

        impl std::str::FromStr for Fault {
            type Err = UnknownFault;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let named = FAULTS.iter().zip(KINDS).find_map(|((example, _), kind)| {
                    let value = crate::fault::value_in(text, example)?;
                    Some(Self { kind: *kind, value })
                });
                named.ok_or_else(|| UnknownFault(text.to_owned()))
            }
        }

        impl<'de> serde::Deserialize<'de> for Fault {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                name.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use faults;

/// The number in `text`, if but for it `text` is `example`; zero is none.
pub(crate) fn value_in(text: &str, example: &str) -> Option<u32> {
    let Some((name, example_value)) = example.split_once('=') else {
        return (text == example).then_some(1);
    };
    let unit = example_value.trim_start_matches(|character: char| character.is_ascii_digit());
    let value = text.strip_prefix(name)?.strip_prefix('=')?.strip_suffix(unit)?;
    value.parse().ok().filter(|value| *value > 0)
}
