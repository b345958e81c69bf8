//! The tree on a real disk: written, checked, damaged, and checked again.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use dyno_workload::{check_tree, write_tree, Tree, MOST_PROBLEMS_REPORTED};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it was written").permissions().mode() & 0o7777
}

#[test]
fn a_written_tree_is_complete_and_each_damage_is_reported() {
    let tree = Tree::load();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = |path: &str| directory.path().join(path);
    write_tree(&tree, directory.path()).expect("a disk that takes 61 MB");
    assert_eq!(check_tree(&tree, directory.path()), Vec::<String>::new());
    assert_eq!(mode(&place("wbtree")), 0o755);
    assert_eq!(mode(&place("wbtree/6040")), 0o755);
    assert_eq!(mode(&place("wbtree/6040/6040_0807.htm")), 0o644);

    let truncated = place("wbtree/735/735_0001.gif");
    let opened = OpenOptions::new().write(true).open(&truncated).expect("ours");
    opened.set_len(734).expect("shorter");
    let lost = place("wbtree/2895/2895_0002.gif");
    fs::remove_file(&lost).expect("ours");
    let corrupted = place("wbtree/11426/11426_0003.htm");
    let opened = OpenOptions::new().write(true).open(&corrupted).expect("ours");
    opened.write_all_at(b"<", 11_000).expect("one byte");
    let replaced = place("wbtree/fraction/fraction_0004.gif");
    fs::remove_file(&replaced).expect("ours");
    fs::create_dir(&replaced).expect("a directory instead");
    let unwanted = place("wbtree/404/404_0005.htm");
    fs::create_dir(place("wbtree/404")).expect("a directory");
    fs::write(&unwanted, "").expect("a file that must not exist");

    let expected = [
        format!("{}: has 734 bytes, but must have 735", truncated.display()),
        format!("{}: No such file or directory (os error 2)", lost.display()),
        format!("{}: has the wrong content", corrupted.display()),
        format!("{}: is not a regular file", replaced.display()),
        format!("{}: exists, but must not exist", unwanted.display()),
    ];
    assert_eq!(check_tree(&tree, directory.path()), expected);

    fs::remove_dir(&replaced).expect("ours");
    fs::remove_file(&unwanted).expect("ours");
    write_tree(&tree, directory.path()).expect("writing again mends it");
    assert_eq!(check_tree(&tree, directory.path()), Vec::<String>::new());
}

#[test]
fn an_empty_directory_is_reported_with_at_most_twenty_problems() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let problems = check_tree(&Tree::load(), directory.path());
    assert_eq!(problems.len(), MOST_PROBLEMS_REPORTED);
    assert_eq!(MOST_PROBLEMS_REPORTED, 20);
}

#[test]
fn a_missing_directory_is_an_error_that_names_the_path() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let absent = directory.path().join("absent");
    let error = write_tree(&Tree::load(), &absent).expect_err("nothing to write into");
    let message = format!(
        "cannot write {}: No such file or directory (os error 2)",
        absent.join("wbtree").display()
    );
    assert_eq!(error.to_string(), message);
}
