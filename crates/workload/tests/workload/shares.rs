//! The workload with dynamic content: its shares, its catalogue, and its golden digest.

use dyno_workload::{Catalogue, Expect, Outcome, Shares, Tree, WebbenchDynamic, Workload};
use xxhash_rust::xxh3::Xxh3Default;

const REQUESTS: usize = 100_000;
const PAGE: &str = "/cgi-bin/dyno";

/// 76 % static and 16 % dynamic without TLS, 8 % over TLS, of which a fifth is dynamic.
fn ecommerce() -> Shares {
    Shares::new(0.16, 0.08, 0.2).expect("they fit")
}

#[test]
fn each_class_gets_its_share_of_the_requests() {
    let tree = Tree::load();
    let catalogue = Catalogue::webbench_dynamic(&tree, PAGE, true);
    let mut workload = WebbenchDynamic::new(tree, ecommerce(), 1, 0, 0);
    // Indices: (without TLS, over TLS), then (static, dynamic).
    let mut counts = [[0_u32; 2]; 2];
    for _ in 0..REQUESTS {
        let get = workload.next(&Outcome::START);
        let entry = &catalogue.entries[get.path as usize];
        assert_eq!(entry.class, get.class);
        let name = &catalogue.classes[usize::from(get.class.0)];
        assert_eq!(name.ends_with(" over TLS"), entry.secure, "{name}");
        assert_eq!(
            name.starts_with("dynamic"),
            entry.expect == Expect::Page,
            "{name}"
        );
        counts[usize::from(entry.secure)][usize::from(entry.expect == Expect::Page)] += 1;
    }
    let share = |secure: usize, page: usize| f64::from(counts[secure][page]) / REQUESTS as f64;
    for (got, expected) in [
        (share(0, 0), 0.76),
        (share(0, 1), 0.16),
        (share(1, 0), 0.064),
        (share(1, 1), 0.016),
    ] {
        // Four standard deviations of a share of 0.76 in this many draws are 0.0054.
        assert!(
            (got - expected).abs() < 0.006,
            "{counts:?}: {got} is not {expected}"
        );
    }
}

#[test]
fn without_a_share_over_tls_no_request_uses_tls() {
    let tree = Tree::load();
    let catalogue = Catalogue::webbench_dynamic(&tree, PAGE, false);
    let shares = Shares::new(0.2, 0.0, 1.0).expect("they fit");
    let mut workload = WebbenchDynamic::new(tree, shares, 1, 0, 0);
    let pages = (0..REQUESTS)
        .filter(|_| {
            let get = workload.next(&Outcome::START);
            catalogue.entries[get.path as usize].expect == Expect::Page
        })
        .count();
    assert!((19_500..20_500).contains(&pages), "{pages}");
}

#[test]
fn invalid_shares_are_refused() {
    for (dynamic, secure, of_secure) in [
        (0.9, 0.2, 0.0),
        (-0.1, 0.0, 0.0),
        (0.0, 0.0, 1.1),
        (f64::NAN, 0.0, 0.0),
    ] {
        assert_eq!(Shares::new(dynamic, secure, of_secure), None);
    }
    assert!(Shares::new(0.0, 1.0, 1.0).is_some() && Shares::new(1.0, 0.0, 0.0).is_some());
}

#[test]
fn the_requests_of_a_seed_never_change() {
    let tree = Tree::load();
    let catalogue = Catalogue::webbench_dynamic(&tree, PAGE, true);
    let mut workload = WebbenchDynamic::new(tree, ecommerce(), 1, 0, 0);
    let mut digest = Xxh3Default::new();
    for _ in 0..10_000 {
        let entry = &catalogue.entries[workload.next(&Outcome::START).path as usize];
        digest.update(entry.path.as_bytes());
        digest.update(&[u8::from(entry.secure), b'\n']);
    }
    assert_eq!(
        format!("{:032x}", digest.digest128()),
        "8d9ad4a0ae793fc0bed52406131e1baf"
    );
}
