//! The class table of the static workload: parses and checks the data file.
//!
//! `tree.rs` creates the files from the table.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

use crate::content::{least_bytes, Extension};

/// Supported format of the data file.
const FORMAT: u32 = 1;
/// Sum of the weights of all classes, which are percentages.
pub(crate) const WEIGHTS_TOTAL: u32 = 100;
/// Maximum number of files per class: file names have four digits.
const MOST_FILES_OF_A_CLASS: u32 = 10_000;
/// Maximum size of a file: the reference server holds a whole tree in memory, and each file is held in memory
/// while it is written.
const LARGEST_FILE_BYTES: u64 = 1 << 30;

/// Evidence for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// Stated by a source that can be read today.
    Seen,
    /// Calculated from seen numbers.
    Derived,
    /// Remembered, but not confirmed by any source that can be read today.
    Memory,
    Choice,
}

/// A number of the data file, with its evidence.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number<T> {
    pub value: T,
    pub known: Known,
    /// Key of the number's source in [`ClassTable::sources`].
    pub source: String,
}

/// Number and sizes of the files of a class.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Contents {
    /// All files have the same size.
    Fixed { files: Number<u32>, bytes: Number<u64> },
    /// Sizes are quantiles of a bounded Pareto distribution.
    BoundedPareto {
        files: Number<u32>,
        /// Shape of the tail.
        alpha: Number<f64>,
        /// Lower bound of the distribution.
        minimum_bytes: Number<u64>,
        /// Upper bound of the distribution.
        maximum_bytes: Number<u64>,
    },
    /// The files must not exist.
    Missing {
        /// Number of different names that are requested.
        names: Number<u32>,
    },
}

impl Contents {
    /// Returns the sizes of the files in the order of their numbers; empty for the missing class.
    pub fn sizes_bytes(&self) -> Vec<u64> {
        match self {
            Self::Fixed { files, bytes } => vec![bytes.value; files.value as usize],
            Self::BoundedPareto {
                files,
                alpha,
                minimum_bytes,
                maximum_bytes,
            } => (0..files.value)
                .map(|number| {
                    let quantile = (f64::from(number) + 0.5) / f64::from(files.value);
                    let (low, high) = (minimum_bytes.value as f64, maximum_bytes.value as f64);
                    bounded_pareto(quantile, alpha.value, low, high) as u64
                })
                .collect(),
            Self::Missing { .. } => Vec::new(),
        }
    }

    /// Returns the number of different paths of the class, including paths that must not exist.
    pub fn paths(&self) -> u32 {
        match self {
            Self::Fixed { files, .. } | Self::BoundedPareto { files, .. } => files.value,
            Self::Missing { names } => names.value,
        }
    }

    /// Returns whether the files must not exist.
    pub fn missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    fn sources(&self) -> Vec<&str> {
        match self {
            Self::Fixed { files, bytes } => vec![&files.source, &bytes.source],
            Self::BoundedPareto {
                files,
                alpha,
                minimum_bytes,
                maximum_bytes,
            } => vec![
                &files.source,
                &alpha.source,
                &minimum_bytes.source,
                &maximum_bytes.source,
            ],
            Self::Missing { names } => vec![&names.source],
        }
    }
}

/// Returns the `quantile` of a Pareto distribution bounded to `low` .. `high`.
fn bounded_pareto(quantile: f64, alpha: f64, low: f64, high: f64) -> f64 {
    let share = 1.0 - (low / high).powf(alpha);
    low * (1.0 - quantile * share).powf(-1.0 / alpha)
}

/// One class of requests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// The name in reports, such as "223.gif".
    pub name: String,
    /// Directory, and prefix of every file name.
    pub stem: String,
    pub extension: Extension,
    /// Percentage of requests.
    pub weight: Number<u32>,
    pub contents: Contents,
}

impl Class {
    /// Returns the total bytes of the class's files.
    pub fn bytes(&self) -> u64 {
        self.contents.sizes_bytes().iter().sum()
    }

    /// Returns the number of files of the class that exist.
    pub fn files(&self) -> u32 {
        if self.contents.missing() {
            0
        } else {
            self.contents.paths()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassTable {
    /// Version of the file's format.
    pub format: u32,
    /// Name of the workload.
    pub name: String,
    /// The directory above all files.
    pub root: String,
    /// Number of all files, which must match the classes.
    pub files: Number<u32>,
    /// Bytes of all files, which must match the classes.
    pub bytes: Number<u64>,
    /// The classes, in the order of their ids.
    #[serde(rename = "class")]
    pub classes: Vec<Class>,
    /// Description of each source. The keys are those in [`Number::source`].
    pub sources: BTreeMap<String, String>,
}

/// Why a data file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file is not TOML or has the wrong structure.
    #[error("the class table cannot be read: {0}")]
    Shape(#[from] toml::de::Error),
    /// The file's numbers contradict each other, or no tree can be built from them. Contains every problem.
    #[error("the class table is wrong: {}", .0.join("; "))]
    Problems(Vec<String>),
}

impl ClassTable {
    /// Parses and checks a data file.
    ///
    /// # Errors
    /// The text is not a class table, or its numbers contradict each other. The error lists all contradictions.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let table: Self = toml::from_str(text)?;
        let mut problems = table.shape_problems();
        if problems.is_empty() {
            // Sizes can only be calculated now that the numbers are known to be small enough.
            problems = table.total_problems();
        }
        if problems.is_empty() {
            Ok(table)
        } else {
            Err(TableError::Problems(problems))
        }
    }

    /// Returns problems of single entries.
    fn shape_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.format != FORMAT {
            problems.push(format!("format {} is not {FORMAT}", self.format));
        }
        if !is_plain_name(&self.root) {
            problems.push(format!("root {:?} is not a plain name", self.root));
        }
        if self.classes.len() > usize::from(u8::MAX) {
            problems.push(format!(
                "{} classes are more than an ID can number",
                self.classes.len()
            ));
        }
        for class in &self.classes {
            let of_class = class.contents.problems(class.extension).into_iter();
            problems.extend(of_class.map(|problem| format!("class {:?}: {problem}", class.name)));
            if !is_plain_name(&class.stem) {
                problems.push(format!(
                    "class {:?}: stem {:?} is not a plain name",
                    class.name, class.stem
                ));
            }
        }
        problems.extend(repeated("name", self.classes.iter().map(|class| &class.name)));
        problems.extend(repeated("stem", self.classes.iter().map(|class| &class.stem)));
        let named = self.sources_named().into_iter();
        problems.extend(
            named
                .filter(|&source| !self.sources.contains_key(source))
                .map(|source| format!("source {source:?} is not in [sources]")),
        );
        problems
    }

    /// Returns a problem for each total in the table that differs from the sum over its classes.
    fn total_problems(&self) -> Vec<String> {
        let weights: u64 = self
            .classes
            .iter()
            .map(|class| u64::from(class.weight.value))
            .sum();
        let files: u64 = self.classes.iter().map(|class| u64::from(class.files())).sum();
        let bytes: u64 = self.classes.iter().map(Class::bytes).sum();
        [
            ("weights", weights, u64::from(WEIGHTS_TOTAL)),
            ("files", files, u64::from(self.files.value)),
            ("bytes", bytes, self.bytes.value),
        ]
        .into_iter()
        .filter(|(_, sum, expected)| sum != expected)
        .map(|(what, sum, expected)| format!("{what} add up to {sum}, not {expected}"))
        .collect()
    }

    fn sources_named(&self) -> BTreeSet<&str> {
        let of_classes = self.classes.iter().flat_map(|class| {
            let mut sources = class.contents.sources();
            sources.push(&class.weight.source);
            sources
        });
        of_classes
            .chain([self.files.source.as_str(), self.bytes.source.as_str()])
            .collect()
    }
}

impl Contents {
    fn problems(&self, extension: Extension) -> Vec<String> {
        let mut problems = Vec::new();
        if !(1..=MOST_FILES_OF_A_CLASS).contains(&self.paths()) {
            problems.push(format!(
                "{} files: must be 1 to {MOST_FILES_OF_A_CLASS}",
                self.paths()
            ));
        }
        let (smallest, largest) = match self {
            Self::Fixed { bytes, .. } => (bytes.value, bytes.value),
            Self::BoundedPareto {
                alpha,
                minimum_bytes,
                maximum_bytes,
                ..
            } => {
                if !(alpha.value.is_finite() && alpha.value > 0.0) {
                    problems.push(format!("alpha {} is not a positive number", alpha.value));
                }
                (minimum_bytes.value, maximum_bytes.value)
            }
            Self::Missing { .. } => return problems,
        };
        let least = least_bytes(extension);
        if smallest < least {
            problems.push(format!(
                "{smallest} bytes are too few: a {} file needs {least}",
                extension.as_str()
            ));
        }
        if largest < smallest || largest > LARGEST_FILE_BYTES {
            problems.push(format!(
                "largest size {largest}: must be {smallest} to {LARGEST_FILE_BYTES} bytes"
            ));
        }
        problems
    }
}

/// Returns whether `name` has only letters, digits and hyphens: safe as one part of a path and of a URL.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn repeated<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut met = BTreeSet::new();
    names
        .filter(|&name| !met.insert(name))
        .map(|name| format!("{what} {name:?} is used twice"))
        .collect()
}
