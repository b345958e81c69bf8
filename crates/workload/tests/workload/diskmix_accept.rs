//! Compares the disk mix with its source figures.

use dyno_workload::{DiskMixOptions, Line, Script};

fn hold(lines: &[Line]) {
    let off: Vec<&Line> = lines.iter().filter(|line| !line.ok).collect();
    for line in &off {
        eprintln!(
            "{}: {} instead of {} +- {}",
            line.name, line.ours, line.fact, line.tolerance
        );
    }
    assert!(off.is_empty(), "{} of {} lines", off.len(), lines.len());
}

#[test]
fn a_pass_has_the_counts_of_the_captures() {
    hold(&Script::load(&DiskMixOptions::default()).acceptance());
}

#[test]
fn each_application_has_the_counts_of_the_captures() {
    hold(&Script::load(&DiskMixOptions::default()).acceptance_by_application());
}
