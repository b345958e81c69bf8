//! Requests of the workloads: shares of the classes, uniformity within a class, and correct answers.

use std::collections::HashSet;

use dyno_workload::{
    Catalogue, ClassId, Expect, Get, Outcome, SingleUrl, Tree, WebbenchStatic, WeightedUrls, Workload,
};

const DRAWS: usize = 1_000_000;
/// A fair generator exceeds five standard deviations in one of two million tests. The seed is fixed.
const STANDARD_DEVIATIONS: f64 = 5.0;

fn counts_by_path(seed: u64) -> Vec<u32> {
    let tree = Tree::load();
    let mut counts = vec![0; tree.files().len() + tree.missing().len()];
    let mut workload = WebbenchStatic::new(tree, seed, 3, 1);
    for _ in 0..DRAWS {
        let get = workload.next(&Outcome::START);
        counts[get.path as usize] += 1;
    }
    counts
}

#[test]
fn every_class_is_requested_according_to_its_weight() {
    let tree = Tree::load();
    let counts = counts_by_path(1);
    let catalogue = Catalogue::webbench_static(&tree);
    for (id, class) in tree.classes().iter().enumerate() {
        let of_class = catalogue.entries.iter().zip(&counts);
        let observed: u32 = of_class
            .filter(|(entry, _)| usize::from(entry.class.0) == id)
            .map(|(_, count)| count)
            .sum();
        let share = f64::from(class.weight.value) / 100.0;
        let expected = DRAWS as f64 * share;
        let bound = STANDARD_DEVIATIONS * (expected * (1.0 - share)).sqrt();
        let distance = (f64::from(observed) - expected).abs();
        assert!(
            distance < bound,
            "{}: {observed} of {expected} +- {bound:.0}",
            class.name
        );
    }
}

#[test]
fn the_files_of_a_class_are_requested_evenly() {
    let tree = Tree::load();
    let counts = counts_by_path(2);
    let catalogue = Catalogue::webbench_static(&tree);
    for (id, class) in tree.classes().iter().enumerate() {
        let of_class: Vec<f64> = (catalogue.entries.iter().zip(&counts))
            .filter(|(entry, _)| usize::from(entry.class.0) == id)
            .map(|(_, &count)| f64::from(count))
            .collect();
        // Pearson's chi-squared test of uniformity: mean k - 1, variance 2 (k - 1).
        let expected = of_class.iter().sum::<f64>() / of_class.len() as f64;
        let chi_squared: f64 = of_class
            .iter()
            .map(|count| (count - expected).powi(2) / expected)
            .sum();
        let freedom = (of_class.len() - 1) as f64;
        let distance = (chi_squared - freedom).abs() / (2.0 * freedom).sqrt();
        assert!(
            distance < STANDARD_DEVIATIONS,
            "{}: {distance} standard deviations",
            class.name
        );
    }
}

#[test]
fn every_path_is_requested_and_belongs_to_the_class_of_its_request() {
    let tree = Tree::load();
    assert!(counts_by_path(3).iter().all(|&count| count > 0));
    let catalogue = Catalogue::webbench_static(&tree);
    let mut workload = WebbenchStatic::new(tree, 3, 0, 0);
    for _ in 0..10_000 {
        let get = workload.next(&Outcome::START);
        assert_eq!(catalogue.entries[get.path as usize].class, get.class);
    }
}

#[test]
fn requests_do_not_depend_on_the_outcome_of_the_last_one() {
    let tree = Tree::load();
    let mut after_success = WebbenchStatic::new(tree.clone(), 4, 0, 0);
    let mut after_failure = WebbenchStatic::new(tree, 4, 0, 0);
    let failure = Outcome {
        ok: false,
        bytes_read: 17,
        session_lost: false,
    };
    for _ in 0..1000 {
        assert_eq!(after_success.next(&Outcome::START), after_failure.next(&failure));
    }
}

#[test]
fn the_mean_body_of_a_request_is_as_the_table_implies() {
    // 5,871 bytes: at 3,771 requests/s, 22.1 MB/s, against 22.4 MB/s remembered from Mindcraft's first test.
    let tree = Tree::load();
    let mean: f64 = (tree.classes().iter())
        .filter(|class| !class.contents.missing())
        .map(|class| f64::from(class.weight.value) / 100.0 * class.bytes() as f64 / f64::from(class.files()))
        .sum();
    assert!((mean - 5871.0).abs() < 1.0, "{mean}");
}

#[test]
fn the_catalogue_has_the_size_and_digest_of_every_file() {
    let tree = Tree::load();
    let catalogue = Catalogue::webbench_static(&tree);
    assert_eq!(catalogue.entries.len(), tree.files().len() + tree.missing().len());
    for (file, entry) in tree.files().iter().zip(&catalogue.entries).step_by(97) {
        let content = file.content();
        assert_eq!(entry.path, file.path);
        let expect = Expect::Found {
            bytes: content.len() as u64,
            digest: xxhash_rust::xxh3::xxh3_64(&content),
        };
        assert_eq!(entry.expect, expect, "{}", file.path);
    }
}

#[test]
fn missing_paths_are_a_thousand_names_that_are_not_in_the_tree() {
    let tree = Tree::load();
    let catalogue = Catalogue::webbench_static(&tree);
    let (found, missing) = catalogue.entries.split_at(tree.files().len());
    let files: HashSet<&str> = found.iter().map(|entry| entry.path.as_str()).collect();
    let names: HashSet<&str> = missing.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!((files.len(), names.len()), (6001, 1000));
    assert!(files.is_disjoint(&names));
    for entry in missing {
        assert_eq!(entry.expect, Expect::Missing);
        assert_eq!(catalogue.classes[usize::from(entry.class.0)], "404.htm");
    }
}

#[test]
fn paths_are_plain_and_numbered_from_zero() {
    let catalogue = Catalogue::webbench_static(&Tree::load());
    let path = |index: usize| catalogue.entries[index].path.as_str();
    assert_eq!(path(0), "/wbtree/223/223_0000.gif");
    assert_eq!(path(6000), "/wbtree/fraction/fraction_0399.gif");
    assert_eq!(path(7000), "/wbtree/404/404_0999.htm");
}

#[test]
fn a_single_url_is_always_requested_with_unknown_content() {
    let catalogue = Catalogue::single_url("/a?b=c");
    let get = Get {
        class: ClassId(0),
        path: 0,
    };
    assert_eq!(SingleUrl.next(&Outcome::START), get);
    assert_eq!(catalogue.classes, ["url"]);
    assert_eq!(catalogue.entries.len(), 1);
    assert_eq!(catalogue.entries[0].path, "/a?b=c");
    assert_eq!(catalogue.entries[0].expect, Expect::Unknown);
}

#[test]
fn several_urls_are_requested_by_weight_and_in_the_order_of_the_seed() {
    let weights = [3, 0, 1];
    let mut workload = WeightedUrls::new(&weights, 7, 1, 2);
    let mut counts = [0_u32; 3];
    let mut first = Vec::new();
    for draw in 0..100_000 {
        let get = workload.next(&Outcome::START);
        assert_eq!(usize::from(get.class.0), get.path as usize);
        counts[get.path as usize] += 1;
        if draw < 16 {
            first.push(get.path);
        }
    }
    assert_eq!(counts[1], 0);
    let share = f64::from(counts[0]) / 100_000.0;
    assert!(
        (share - 0.75).abs() < STANDARD_DEVIATIONS * (0.75 * 0.25 / 100_000.0_f64).sqrt(),
        "{share}"
    );
    assert_eq!(first, GOLDEN_URLS);
    assert_eq!(
        Catalogue::urls(&["/a".to_owned(), "/b".to_owned()]).classes,
        ["/a", "/b"]
    );
}

/// Golden requests for seed 7, client 1, thread 2. The requests of a seed never change.
const GOLDEN_URLS: [u32; 16] = [0, 2, 2, 2, 0, 0, 0, 0, 2, 0, 0, 2, 0, 2, 0, 0];
