//! Golden digests: the tree and the requests of a seed never change. If they change, the workload is a new
//! one, and its figures are not comparable with earlier ones.

use dyno_workload::{Catalogue, Outcome, Tree, WebbenchStatic, Workload};
use xxhash_rust::xxh3::Xxh3Default;

const REQUESTS: usize = 10_000;

/// Returns the XXH3-128 digest of the first 10,000 paths, each followed by a newline.
fn digest_of_requests(seed: u64, client: u32, thread: u32) -> String {
    let tree = Tree::load();
    let catalogue = Catalogue::webbench_static(&tree);
    let mut workload = WebbenchStatic::new(tree, seed, client, thread);
    let mut digest = Xxh3Default::new();
    for _ in 0..REQUESTS {
        let get = workload.next(&Outcome::START);
        digest.update(catalogue.entries[get.path as usize].path.as_bytes());
        digest.update(b"\n");
    }
    format!("{:032x}", digest.digest128())
}

#[test]
fn the_tree_has_its_golden_digest() {
    assert_eq!(Tree::load().digest(), "c5f38c83d33ddf482fbc01ee82c9bd8d");
}

#[test]
fn the_first_ten_thousand_requests_of_three_seeds_have_their_golden_digests() {
    assert_eq!(digest_of_requests(1, 0, 0), "547aa11f1533e90d1bada0041ed922fd");
    assert_eq!(digest_of_requests(2, 0, 0), "4cf1d7118f96afe627fc655e9b778929");
    assert_eq!(
        digest_of_requests(u64::MAX, 119, 1),
        "583ae59aa3f7eeb473fce44cba39a7a0"
    );
}

#[test]
fn seed_client_and_thread_each_give_another_stream() {
    let digests = [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1), (0, 0, 0)]
        .map(|(seed, client, thread)| digest_of_requests(seed, client, thread));
    for (number, digest) in digests.iter().enumerate() {
        assert!(
            !digests[..number].contains(digest),
            "stream {number} repeats another"
        );
    }
}
