//! All possible requests of a workload, listed so that they can be built before the load starts.
//!
//! The workload chooses among them.

use crate::{ClassId, Tree};

const PAGE_CLASS: &str = "dynamic";
/// Suffix of the classes over TLS if there are also classes without TLS.
const OVER_TLS: &str = " over TLS";

/// The correct answer to a request for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Found {
        bytes: u64,
        /// XXH3-64 of the file's content, seed 0.
        digest: u64,
    },
    /// The file must not exist. An answer that says so is a success.
    Missing,
    /// The dynamic page, whose content depends on the query of the request.
    Page,
    /// Unknown content: every complete answer with a success status is correct.
    Unknown,
}

/// A path that a workload can request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Absolute path on the server, beginning with a slash.
    pub path: String,
    /// Class of the requests for this path.
    pub class: ClassId,
    pub expect: Expect,
    /// Whether to use TLS, in a catalogue in which other entries do not.
    pub secure: bool,
}

/// The paths and classes of one workload. [`crate::Get::path`] and [`ClassId`] are indices into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// Names of the classes, such as "223.gif", in the order of their ids.
    pub classes: Vec<String>,
    /// All paths, in the order of their indices.
    pub entries: Vec<Entry>,
}

impl Catalogue {
    /// Returns the catalogue of [`crate::WebbenchStatic`]: first the files of `tree` in order, then the paths of files
    /// that must not exist.
    ///
    /// Computes the content digests of `tree` if necessary.
    pub fn webbench_static(tree: &Tree) -> Self {
        let found = tree
            .files()
            .iter()
            .zip(tree.content_digests())
            .map(|(file, &digest)| Entry {
                path: file.path.clone(),
                class: file.class,
                expect: Expect::Found {
                    bytes: file.bytes,
                    digest,
                },
                secure: false,
            });
        let missing = tree.missing().iter().map(|(class, path)| Entry {
            path: path.clone(),
            class: *class,
            expect: Expect::Missing,
            secure: false,
        });
        Self {
            classes: tree.classes().iter().map(|class| class.name.clone()).collect(),
            entries: found.chain(missing).collect(),
        }
    }

    /// Returns the catalogue of [`crate::WebbenchDynamic`]: the static workload, then the page at `page`. If `secure`
    /// is set, all entries follow again over TLS.
    pub fn webbench_dynamic(tree: &Tree, page: &str, secure: bool) -> Self {
        let mut clear = Self::webbench_static(tree);
        clear.entries.push(Entry {
            path: page.to_owned(),
            class: ClassId(u8::try_from(clear.classes.len()).unwrap_or(u8::MAX)),
            expect: Expect::Page,
            secure: false,
        });
        clear.classes.push(PAGE_CLASS.to_owned());
        if !secure {
            return clear;
        }
        let classes = u8::try_from(clear.classes.len()).unwrap_or(u8::MAX);
        let over_tls = clear.entries.iter().map(|entry| Entry {
            class: ClassId(entry.class.0 + classes),
            secure: true,
            ..entry.clone()
        });
        let names = clear.classes.iter().map(|name| format!("{name}{OVER_TLS}"));
        Self {
            classes: clear.classes.iter().cloned().chain(names).collect(),
            entries: clear.entries.iter().cloned().chain(over_tls).collect(),
        }
    }

    /// Returns the catalogue of [`crate::WeightedUrls`]: one class per path, with unknown content.
    pub fn urls(paths: &[String]) -> Self {
        let entries = paths.iter().zip(0..);
        Self {
            classes: paths.to_vec(),
            entries: entries
                .map(|(path, class)| Entry {
                    path: path.clone(),
                    class: ClassId(class),
                    expect: Expect::Unknown,
                    secure: false,
                })
                .collect(),
        }
    }

    /// Returns the catalogue of [`crate::Steps`]: one class per step, with the step's name and the template of its
    /// path.
    pub fn steps(steps: impl Iterator<Item = (String, String)>) -> Self {
        let (classes, paths): (Vec<String>, Vec<String>) = steps.unzip();
        Self {
            classes,
            ..Self::urls(&paths)
        }
    }

    /// Returns the catalogue of [`crate::SingleUrl`]: one path with unknown content.
    pub fn single_url(path: &str) -> Self {
        Self {
            classes: vec!["url".to_owned()],
            entries: vec![Entry {
                path: path.to_owned(),
                class: ClassId(0),
                expect: Expect::Unknown,
                secure: false,
            }],
        }
    }
}
