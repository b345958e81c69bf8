//! NFSv4 attributes (RFC 8881, 5.8) by number, and bitmaps of them (3.3.1).

use super::{Malformed, Reader, Writer};

/// Declares a constant for each attribute, and the list of all.
macro_rules! attributes {
    ($($name:ident = $number:literal)*) => {
        $(pub const $name: u32 = $number;)*

        pub const ALL: [u32; [$($number),*].len()] = [$($number),*];
    };
}

attributes! {
    SUPPORTED = 0
    TYPE = 1
    EXPIRY = 2
    CHANGE = 3
    SIZE = 4
    LINK_SUPPORT = 5
    SYMLINK_SUPPORT = 6
    NAMED_ATTRIBUTES = 7
    FILE_SYSTEM = 8
    UNIQUE_HANDLES = 9
    LEASE_TIME = 10
    ERROR = 11
    ACL_SUPPORT = 13
    CAN_SET_TIME = 15
    CASE_INSENSITIVE = 16
    CASE_PRESERVING = 17
    CHOWN_RESTRICTED = 18
    FILE_HANDLE = 19
    FILE_ID = 20
    FILES_AVAILABLE = 21
    FILES_FREE = 22
    FILES_TOTAL = 23
    HOMOGENEOUS = 26
    MAX_FILE = 27
    MAX_LINK = 28
    MAX_NAME = 29
    MAX_READ = 30
    MAX_WRITE = 31
    MODE = 33
    NO_TRUNCATION = 34
    LINKS = 35
    OWNER = 36
    GROUP = 37
    DEVICE = 41
    SPACE_AVAILABLE = 42
    SPACE_FREE = 43
    SPACE_TOTAL = 44
    SPACE_USED = 45
    TIME_ACCESS = 47
    SET_TIME_ACCESS = 48
    TIME_DELTA = 51
    TIME_METADATA = 52
    TIME_MODIFY = 53
    SET_TIME_MODIFY = 54
    MOUNTED_ON = 55
    OF_EXCLUSIVE_CREATION = 75
}

/// Number of stored words.
const WORDS: usize = 3;
/// Maximum number of words that are sent.
const MOST_WORDS: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bitmap([u32; WORDS]);

impl Bitmap {
    pub const fn of(numbers: &[u32]) -> Self {
        let mut words = [0; WORDS];
        let mut at = 0;
        while at < numbers.len() {
            words[numbers[at] as usize / 32] |= 1 << (numbers[at] % 32);
            at += 1;
        }
        Self(words)
    }

    pub const fn or(self, other: Self) -> Self {
        let ([a, b, c], [d, e, f]) = (self.0, other.0);
        Self([a | d, b | e, c | f])
    }

    pub const fn and(self, other: Self) -> Self {
        let ([a, b, c], [d, e, f]) = (self.0, other.0);
        Self([a & d, b & e, c & f])
    }

    pub const fn without(self, other: Self) -> Self {
        let [a, b, c] = other.0;
        self.and(Self([!a, !b, !c]))
    }

    pub fn has(self, number: u32) -> bool {
        let word = self.0.get(number as usize / 32);
        word.is_some_and(|word| word & (1 << (number % 32)) != 0)
    }

    pub fn is_within(self, other: Self) -> bool {
        self.without(other) == Self::default()
    }

    pub fn numbers(self) -> impl Iterator<Item = u32> {
        (0..WORDS as u32 * 32).filter(move |number| self.has(*number))
    }

    /// Appends the bitmap without trailing zero words.
    pub fn write(self, writer: &mut Writer<'_>) {
        let words = WORDS - self.0.iter().rev().take_while(|word| **word == 0).count();
        writer.u32(words as u32);
        for word in &self.0[..words] {
            writer.u32(*word);
        }
    }

    /// Parses a bitmap without unknown attributes: words beyond `WORDS` must be zero.
    pub fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match Self::parse_known(reader)? {
            (known, true) => Ok(known),
            (_, false) => Err(Malformed),
        }
    }

    /// Parses a bitmap. Returns its known words, and whether all others are zero.
    pub fn parse_known(reader: &mut Reader<'_>) -> Result<(Self, bool), Malformed> {
        let count = reader.u32()?;
        if count > MOST_WORDS {
            return Err(Malformed);
        }
        let (mut known, mut is_all) = (Self::default(), true);
        for at in 0..count as usize {
            let word = reader.u32()?;
            match known.0.get_mut(at) {
                Some(own) => *own = word,
                None => is_all &= word == 0,
            }
        }
        Ok((known, is_all))
    }
}
