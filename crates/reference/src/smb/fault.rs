//! The names of what the server can be told to do wrong, and what each means.
//!
//! Not for: doing it (`misbehaviour.rs`). Unless it says otherwise, a fault strikes every answer to a request about
//! files, from CREATE on; log-on and share are as ever, so that a client gets there.

use std::str::FromStr;

macro_rules! kinds {
    ($($variant:ident $name:literal $words:literal)*) => {
        /// What goes wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kind { $(#[doc = $words] $variant),* }

        const KINDS: &[Kind] = &[$(Kind::$variant),*];
        const FAULTS: &[(&str, &str)] = &[$(($name, $words)),*];
    };
}

kinds! {
    Delay "delay=5ms" "waits so long before each message that it sends"
    Stall "stall" "takes requests and never answers"
    Pending "pending" "says once that the request goes on, and never more"
    EndlessPending "endless-pending" "says a hundred times that the request goes on, and never more"
    Close "close" "closes the connection instead of answering"
    EarlyClose "early-close" "closes in the middle of the message"
    Truncated "truncated" "a message that ends in the middle of its body, with a frame that fits"
    Oversized "oversized" "a frame that declares 16 MiB, and goes on as ever"
    Garbage "garbage" "random bytes instead of a message, then closes"
    WrongMessageId "wrong-message-id" "the answer to a request that nobody sent"
    WrongCommand "wrong-command" "the answer to another command"
    BadSignature "bad-signature" "one bit of the signature, or of the encrypted message, differs"
    NoCredit "no-credit" "brings no credits"
    SessionDeleted "session-deleted" "says that there is no such session"
    DiskFull "disk-full" "refuses every write as if the disk were full"
    ShortRead "short-read" "half of what was to be read"
    WrongContent "wrong-content" "one bit of what was read differs"
    LostWrites "lost-writes" "takes what is written and keeps none of it (the file's end is right)"
    NoBreaks "no-breaks" "never takes back an oplock or a lease: others open and write behind the holder's back"
}

/// Names and meanings of all faults; each name can be parsed as it stands, and another number put in its place.
#[must_use]
pub fn faults() -> &'static [(&'static str, &'static str)] {
    FAULTS
}

/// Something that the server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub(crate) kind: Kind,
    /// The number in the name, ms; 1 where the name has none.
    pub(crate) value: u32,
}

/// A name that stands for no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault {0:?}; there are: {names}", names = names())]
pub struct UnknownFault(String);

fn names() -> String {
    FAULTS.iter().map(|fault| fault.0).collect::<Vec<_>>().join(" ")
}

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = FAULTS.iter().zip(KINDS).find_map(|((example, _), kind)| {
            let value = crate::fault::value_in(text, example)?;
            Some(Self { kind: *kind, value })
        });
        named.ok_or_else(|| UnknownFault(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_stands_for_its_own_fault() {
        for ((name, _), kind) in FAULTS.iter().zip(KINDS) {
            assert_eq!(name.parse::<Fault>().expect("a listed name").kind, *kind);
        }
        let delay = "delay=250ms".parse::<Fault>().map(|fault| fault.value);
        assert_eq!(delay, Ok(250));
        let error = "sulk".parse::<Fault>().expect_err("no such fault").to_string();
        assert!(error.contains("no-breaks"), "{error}");
    }
}
