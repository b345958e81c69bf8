//! What is wrong with a document, gathered so that all of it is told at once, each problem with its key's path.
//!
//! Why not a library of validators: the rules that matter here hold between keys, or depend on the target, and those
//! are functions with any of them.

use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;

/// No time of a document is longer than a day.
const MAX_LENGTH_S: f64 = 86_400.0;

/// What a key says that does not go with another: the control plane says why, before it makes a document.
pub(crate) const CONTRADICTS: &str = "contradicts another key";

/// Problems of one document, a line each.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Problems(Vec<String>);

impl Problems {
    /// Notes that `path` is wrong, unless it `holds`.
    pub fn unless(&mut self, holds: bool, path: &str, problem: &str) {
        if !holds {
            self.0.push(format!("{path}: {problem}"));
        }
    }

    /// Notes that what `path` says is out of our bounds, unless it `holds`. The control plane says which they are; a
    /// document of its own never fails here.
    pub(crate) fn bounded(&mut self, holds: bool, path: &str) {
        self.unless(holds, path, "out of bounds");
    }

    /// A time in seconds must lie between 0 and a day.
    pub(crate) fn time(&mut self, seconds: f64, path: &str) {
        self.bounded((0.0..=MAX_LENGTH_S).contains(&seconds), path);
    }

    /// Reads the section that stands at `path` of the document; None where it is wrong.
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

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `value`, unless there is a problem.
    ///
    /// # Errors
    /// The problems.
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
