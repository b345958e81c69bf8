//! Compares the computed space of a client's files with files written in memory.

use dyno_workload::{footprint_bytes, played, DiskMix, DiskMixOptions, LoadFile, LoadFileReplay, Script};
use std::sync::Arc;

const WORKSPACE_BYTES: u64 = 15 << 20;

fn disk_mix() -> DiskMix {
    let options = DiskMixOptions {
        workspace_bytes: WORKSPACE_BYTES,
        ..DiskMixOptions::default()
    };
    DiskMix::new(Script::load(&options), 1, 0)
}

#[test]
fn a_client_of_the_disk_mix_needs_its_workspace_and_the_growth_of_a_pass() {
    let made: usize = played(&mut disk_mix(), 0, 0, 0).values().map(Vec::len).sum();
    let footprint = footprint_bytes(&mut disk_mix());
    assert!(made as u64 > WORKSPACE_BYTES);
    assert!(
        footprint > made as u64 && footprint < made as u64 + (4 << 20),
        "{footprint} of {made}"
    );
}

#[test]
fn the_maximum_during_a_pass_counts_without_holes() {
    let text = r#"Mkdir "\clients\client1" NT_STATUS_OK
NTCreateX "\clients\client1\KEPT" 0x40 0x2 1 NT_STATUS_OK
WriteX 1 0 1000 1000 NT_STATUS_OK
Close 1 NT_STATUS_OK

QUERY_PATH_INFORMATION "\clients\client1\KEPT" 1004 NT_STATUS_OK
NTCreateX "\clients\client1\ONE" 0x40 0x2 2 NT_STATUS_OK
WriteX 2 1000000 500 500 NT_STATUS_OK
WriteX 2 1000000 500 500 NT_STATUS_OK
Close 2 NT_STATUS_OK
Unlink "\clients\client1\ONE" 0x16 NT_STATUS_OK
NTCreateX "\clients\client1\TWO" 0x40 0x2 3 NT_STATUS_OK
WriteX 3 0 300 300 NT_STATUS_OK
Close 3 NT_STATUS_OK
Unlink "\clients\client1\TWO" 0x16 NT_STATUS_OK
"#;
    let file = Arc::new(LoadFile::parse(text.as_bytes()).expect("is understood"));
    let replay = || LoadFileReplay::new(file.clone(), 0);
    let made: usize = played(&mut replay(), 0, 0, 0).values().map(Vec::len).sum();
    assert_eq!(footprint_bytes(&mut replay()), made as u64 + 500);
}
