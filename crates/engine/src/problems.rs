//! Problems of a document, collected so that all are reported at once, each with the path of its key.
//!
//! No validation library is used, because the important rules compare keys or depend on the target and would
//! still need functions.

use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;

/// Upper bound on every time in a document: one day.
const MAX_LENGTH_S: f64 = 86_400.0;

/// Problem of contradicting keys. The control plane explains the contradiction before it creates a document.
pub(crate) const CONTRADICTS: &str = "contradicts another key";

/// Problems of one document, one per line.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Problems(Vec<String>);

impl Problems {
    /// Records a problem at `path` unless `holds`.
    pub fn unless(&mut self, holds: bool, path: &str, problem: &str) {
        if !holds {
            self.0.push(format!("{path}: {problem}"));
        }
    }

    /// Records that the value at `path` is out of range unless `holds`. The control plane checks and explains
    /// the same ranges, so its documents never fail here. Returns `holds`.
    pub(crate) fn bounded(&mut self, holds: bool, path: &str) -> bool {
        self.unless(holds, path, "out of bounds");
        holds
    }

    pub(crate) fn time(&mut self, seconds: f64, path: &str) {
        self.bounded((0.0..=MAX_LENGTH_S).contains(&seconds), path);
    }

    /// Parses the section at `path` of the document. Returns None if the section is invalid.
    pub fn section<T: DeserializeOwned>(&mut self, path: &str, section: &Value) -> Option<T> {
        match serde_path_to_error::deserialize(section.clone()) {
            Ok(read) => Some(read),
            Err(error) => {
                let key = error.path().to_string();
                let path = if key == "." {
                    path.to_owned()
                } else {
                    format!("{path}.{key}")
                };
                self.0.push(format!("{path}: {}", error.into_inner()));
                None
            }
        }
    }

    /// Returns whether there are no problems.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `value` if there are no problems.
    pub fn none_or<T>(self, value: Option<T>) -> Result<T, Self> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            _ => Err(self),
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("\n"))
    }
}
