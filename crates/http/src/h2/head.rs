//! Checks the rules for response fields (RFC 9113, sections 8.2 and 8.3) as each field is decoded.

use super::violation::Violation;
use crate::head::{content_length, number};

/// Connection-specific fields, forbidden in HTTP/2 (section 8.2.2).
const OF_CONNECTION: [&[u8]; 5] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"transfer-encoding",
    b"upgrade",
];

/// Fields of one header block.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// None in a trailer, or before the status was decoded.
    pub(super) status: Option<u16>,
    /// Declared length of the body.
    pub(super) length: Option<u64>,
    /// A regular field (not a pseudo-field) has been decoded.
    regular: bool,
}

impl Fields {
    pub(super) fn of_trailer() -> Self {
        Self {
            regular: true,
            ..Self::default()
        }
    }

    pub(super) fn is_final(&self) -> bool {
        self.status.is_some_and(|status| status >= 200)
    }

    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), Violation> {
        if name.first() == Some(&b':') {
            return self.take_pseudo(name, value);
        }
        self.regular = true;
        check_name(name)?;
        check_value(value)?;
        if OF_CONNECTION.contains(&name) {
            return Err(Violation::ConnectionField);
        }
        if name == b"content-length" {
            let length = content_length(value, self.length);
            self.length = Some(length.ok_or(Violation::ContentLength)?);
        }
        Ok(())
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), Violation> {
        if name != b":status" || self.regular || self.status.is_some() {
            return Err(Violation::PseudoField);
        }
        match number(value) {
            Some(status @ 100..=999) if value.len() == 3 => {
                self.status = Some(status as u16);
                Ok(())
            }
            _ => Err(Violation::StatusField),
        }
    }
}

/// Whether a byte is valid in a field name: lower-case token characters (RFC 9110, section 5.1). A table,
/// because every byte is checked.
const OF_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let letters = b"abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";
    let mut place = 0;
    while place < letters.len() {
        table[letters[place] as usize] = true;
        place += 1;
    }
    table
};

fn check_name(name: &[u8]) -> Result<(), Violation> {
    if name.is_empty() || !name.iter().all(|byte| OF_NAME[usize::from(*byte)]) {
        return Err(Violation::FieldName);
    }
    Ok(())
}

fn check_value(value: &[u8]) -> Result<(), Violation> {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if blank(value.first())
        || blank(value.last())
        || value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
    {
        return Err(Violation::FieldValue);
    }
    Ok(())
}
