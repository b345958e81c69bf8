//! The document tree of the static workload, in memory: its files and their contents.
//!
//! `tree_on_disk.rs` writes it, `webbench.rs` orders the requests.

use std::sync::{Arc, LazyLock, OnceLock};

use xxhash_rust::xxh3::{xxh3_64, Xxh3Default};

use crate::content::content;
use crate::{Class, ClassId, ClassTable, Extension};

const WEBBENCH_STATIC: &str = include_str!("../data/webbench-static.toml");

/// One file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Absolute path on the server, such as "/wbtree/223/223_0000.gif".
    pub path: String,
    pub class: ClassId,
    pub bytes: u64,
    extension: Extension,
}

impl File {
    /// Generates the file's content. It is deterministic and has `bytes` bytes.
    pub fn content(&self) -> Vec<u8> {
        let bytes = usize::try_from(self.bytes).expect("the table allows no file larger than memory");
        content(&self.path, self.extension, bytes)
    }
}

/// The paths of one class, as a range of the catalogue's entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) class: ClassId,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

#[derive(Debug)]
struct Digests {
    contents: Vec<u64>,
    tree: String,
}

/// The files and the missing paths of the WebBench static workload.
#[derive(Debug)]
pub struct Tree {
    table: ClassTable,
    files: Vec<File>,
    missing: Vec<(ClassId, String)>,
    percents: Vec<Stretch>,
    digests: OnceLock<Digests>,
}

impl Tree {
    /// Returns the tree of the embedded class table, which is always the same.
    ///
    /// Contents are generated on request, and digests on their first use.
    ///
    /// # Panics
    /// The embedded table contradicts itself, which this crate's tests rule out.
    pub fn load() -> Arc<Self> {
        static TREE: LazyLock<Arc<Tree>> = LazyLock::new(|| {
            let table = ClassTable::parse(WEBBENCH_STATIC).expect("the embedded class table is whole");
            Arc::new(Tree::of_table(table))
        });
        Arc::clone(&TREE)
    }

    fn of_table(table: ClassTable) -> Self {
        let (mut files, mut missing) = (Vec::new(), Vec::new());
        for (id, class) in (0..).map(ClassId).zip(&table.classes) {
            let sizes = class.contents.sizes_bytes();
            files.extend((0..).zip(sizes).map(|(number, bytes)| File {
                path: path(&table.root, class, number),
                class: id,
                bytes,
                extension: class.extension,
            }));
            if class.contents.missing() {
                let numbers = 0..class.contents.paths();
                missing.extend(numbers.map(|number| (id, path(&table.root, class, number))));
            }
        }
        let percents = percents(&table.classes);
        Self {
            table,
            files,
            missing,
            percents,
            digests: OnceLock::new(),
        }
    }

    /// Returns the class table of the tree, with the evidence and source of each number.
    pub fn table(&self) -> &ClassTable {
        &self.table
    }

    /// Returns the classes in the order of their ids.
    pub fn classes(&self) -> &[Class] {
        &self.table.classes
    }

    /// Returns every file, class by class.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns every path that is requested although it must not exist.
    pub fn missing(&self) -> &[(ClassId, String)] {
        &self.missing
    }

    /// Returns the total size of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns the XXH3-64 digest (seed 0) of each file's content, in the order of [`Tree::files`].
    pub fn content_digests(&self) -> &[u64] {
        &self.digests().contents
    }

    /// Returns the XXH3-128 digest, in hexadecimal, of every file's path, a zero byte, its size (8 bytes,
    /// little endian) and its content.
    ///
    /// Equal digests mean equal trees in design and version; the digest does not protect against forgery.
    pub fn digest(&self) -> &str {
        &self.digests().tree
    }

    /// Returns one entry per percent of the requests: the range of its class's paths in the catalogue.
    pub(crate) fn percents(&self) -> &[Stretch] {
        &self.percents
    }

    /// Returns the digests. Computes them on first use, because they need all contents.
    fn digests(&self) -> &Digests {
        self.digests.get_or_init(|| {
            let mut whole = Xxh3Default::new();
            let mut contents = Vec::with_capacity(self.files.len());
            for file in &self.files {
                let content = file.content();
                contents.push(xxh3_64(&content));
                whole.update(file.path.as_bytes());
                whole.update(&[0]);
                whole.update(&file.bytes.to_le_bytes());
                whole.update(&content);
            }
            Digests {
                contents,
                tree: format!("{:032x}", whole.digest128()),
            }
        })
    }
}

fn path(root: &str, class: &Class, number: u32) -> String {
    let (stem, extension) = (&class.stem, class.extension.as_str());
    format!("/{root}/{stem}/{stem}_{number:04}.{extension}")
}

/// Returns one entry per percent of the requests. In the catalogue, files come first, then missing paths, both class by
/// class.
fn percents(classes: &[Class]) -> Vec<Stretch> {
    let mut next_file = 0;
    let mut next_missing = classes.iter().map(Class::files).sum();
    let mut percents = Vec::new();
    for (class, facts) in (0..).map(ClassId).zip(classes) {
        let next = if facts.contents.missing() {
            &mut next_missing
        } else {
            &mut next_file
        };
        let (first, count) = (*next, facts.contents.paths());
        *next += count;
        let stretch = Stretch { class, first, count };
        percents.extend(std::iter::repeat_n(stretch, facts.weight.value as usize));
    }
    percents
}
