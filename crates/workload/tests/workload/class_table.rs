//! The contents of the data file. A contradictory data file is rejected, and every problem is reported.

use dyno_workload::{ClassTable, Contents, Known, Tree};

const EMBEDDED: &str = include_str!("../../data/webbench-static.toml");

fn problems_after(replacements: &[(&str, &str)]) -> String {
    let mut text = EMBEDDED.to_owned();
    for (from, to) in replacements {
        assert!(text.contains(from), "{from:?} is not in the table");
        text = text.replacen(from, to, 1);
    }
    ClassTable::parse(&text).expect_err("a wrong table").to_string()
}

#[test]
fn the_classes_are_those_of_the_facts() {
    let facts: Vec<_> = (Tree::load().classes().iter())
        .map(|class| {
            (
                class.name.clone(),
                class.files(),
                class.bytes(),
                class.weight.value,
            )
        })
        .collect();
    let expected = [
        ("223.gif", 1_155, 257_565, 20),
        ("735.gif", 462, 339_570, 8),
        ("1522.gif", 693, 1_054_746, 12),
        ("2895.gif", 1_155, 3_343_725, 20),
        ("6040.htm", 808, 4_880_320, 14),
        ("11426.htm", 924, 10_557_624, 16),
        ("22132.htm", 404, 8_941_328, 7),
        ("fraction.gif", 400, 31_335_500, 1),
        ("404.htm", 0, 0, 2),
    ]
    .map(|(name, files, bytes, weight)| (name.to_owned(), files, bytes, weight));
    assert_eq!(facts, expected);
}

#[test]
fn sizes_of_the_fraction_class_do_not_depend_on_the_last_digits_of_a_power() {
    // Powers differ between mathematical libraries by a few units in the last place, about 1e-10 here. The
    // tree is the same on every machine only if no size is that close to an integer.
    let tree = Tree::load();
    let fraction = tree
        .classes()
        .iter()
        .find(|class| class.name == "fraction.gif")
        .expect("the class");
    let Contents::BoundedPareto {
        files,
        alpha,
        minimum_bytes,
        maximum_bytes,
    } = &fraction.contents
    else {
        panic!("the sizes of the fraction class are a bounded Pareto distribution");
    };
    let (low, high) = (minimum_bytes.value as f64, maximum_bytes.value as f64);
    let share = 1.0 - (low / high).powf(alpha.value);
    let sizes = fraction.contents.sizes_bytes();
    assert_eq!((sizes[0], sizes[399], sizes.len()), (27_029, 486_853, 400));
    for (number, &bytes) in sizes.iter().enumerate() {
        let quantile = (number as f64 + 0.5) / f64::from(files.value);
        let exact = low / (1.0 - quantile * share).powf(1.0 / alpha.value);
        assert_eq!(exact.floor() as u64, bytes, "number {number}");
        assert!(
            exact.fract() > 1e-6 && exact.fract() < 1.0 - 1e-6,
            "number {number}: {exact}"
        );
    }
}

#[test]
fn remembered_numbers_are_marked() {
    let tree = Tree::load();
    let table = tree.table();
    assert_eq!(table.classes[0].weight.known, Known::Memory);
    assert_eq!(table.files.known, Known::Choice);
    assert_eq!(table.bytes.known, Known::Derived);
    assert!(table.sources[&table.bytes.source].contains("60.7 MB"));
}

#[test]
fn weights_that_do_not_add_up_to_a_hundred_are_refused() {
    let message = problems_after(&[("weight = { value = 20,", "weight = { value = 21,")]);
    assert_eq!(
        message,
        "the class table is wrong: weights add up to 101, not 100"
    );
}

#[test]
fn all_totals_that_contradict_the_classes_are_refused_together() {
    let message = problems_after(&[("{ value = 1155,", "{ value = 1154,")]);
    assert_eq!(
        message,
        "the class table is wrong: files add up to 6000, not 6001; bytes add up to 60710155, not 60710378"
    );
}

#[test]
fn every_wrong_entry_is_named_at_once() {
    let message = problems_after(&[
        ("format = 1", "format = 2"),
        ("value = 223,", "value = 39,"),
        ("stem = \"735\"", "stem = \"../735\""),
        ("name = \"2895.gif\"", "name = \"1522.gif\""),
        ("alpha = { value = 1.1", "alpha = { value = -1.1"),
        ("{ value = 1000,", "{ value = 10001,"),
        ("source = \"largest-file\"", "source = \"hearsay\""),
    ]);
    for problem in [
        "format 2 is not 1",
        "class \"223.gif\": 39 bytes are too few: a gif file needs 40",
        "class \"735.gif\": stem \"../735\" is not a plain name",
        "class \"fraction.gif\": alpha -1.1 is not a positive number",
        "class \"404.htm\": 10001 files: must be 1 to 10000",
        "name \"1522.gif\" is used twice",
        "source \"hearsay\" is not in [sources]",
    ] {
        assert!(message.contains(problem), "{problem:?} is not in {message:?}");
    }
}

#[test]
fn an_unknown_key_is_refused() {
    let message = problems_after(&[("root = ", "colour = \"red\"\nroot = ")]);
    assert!(message.contains("unknown field `colour`"), "{message}");
}

#[test]
fn a_number_without_a_mark_is_refused() {
    let message = problems_after(&[("{ value = 6001, known = \"choice\", ", "{ value = 6001, ")]);
    assert!(message.contains("missing field `known`"), "{message}");
}
