//! Documents for objects over S3: the control plane's defaults are valid, and every problem is reported with its key.

use crate::complete::complete_s3;
use dyno_engine::{LevelSpec, Material, OpenError, OpenTarget, PreparedLevel, Secrets};
use serde_json::{json, Value};

/// Prepares the level of a document. Returns its problems, one per line.
fn problems(document: Value) -> String {
    let document = complete_s3(document);
    let target = match OpenTarget::open("s3", document["target"].clone(), &Secrets::default()) {
        Ok(target) => target,
        Err(OpenError::Section(problems)) => return problems.to_string(),
        Err(OpenError::Target(error)) => return format!("{error:?}"),
    };
    let spec = LevelSpec::parse(&document.to_string()).expect("a level");
    match PreparedLevel::new(&spec, &target, &Material::default()) {
        Ok(_) => String::new(),
        Err(problems) => problems.to_string(),
    }
}

fn with(changed: Value) -> Value {
    let mut document = json!({"target": {"url": "s3://127.0.0.1:1/bucket"}});
    for (section, changes) in changed.as_object().expect("sections") {
        for (key, value) in changes.as_object().expect("keys") {
            document[section][key] = value.clone();
        }
    }
    document
}

#[test]
fn the_defaults_of_the_control_plane_are_valid() {
    assert_eq!(problems(with(json!({}))), "");
}

#[test]
fn every_problem_is_reported_with_its_key() {
    for (changed, expected) in [
        (
            json!({"target": {"region": "a b"}}),
            "target.region: out of bounds",
        ),
        (
            json!({"target": {"checksum": "md5"}}),
            "target.checksum: unknown variant",
        ),
        (
            json!({"target": {"payload": "chunked", "checksum": "none"}}),
            "target.checksum: must not be none if payload is chunked",
        ),
        (json!({"target": {"url": "s3://127.0.0.1:1/"}}), "Url("),
        (
            json!({"workload": {"objects": 0}}),
            "workload.objects: out of bounds",
        ),
        (
            json!({"workload": {"part_bytes": 1, "size": {"fixed": 6 << 20}}}),
            "workload.part_bytes: out",
        ),
        (
            json!({"workload": {"objects_per_prefix": 0}}),
            "workload.objects_per_prefix: out of bounds",
        ),
        (
            json!({"workload": {"parts_in_flight": 0}}),
            "workload.parts_in_flight: out of bounds",
        ),
        (
            json!({"workload": {"weights": {"post": 1}}}),
            "workload.weights: \"post\" is not an operation",
        ),
        (
            json!({"client": {"receive_buffer_bytes": 1}}),
            "client.receive_buffer_bytes: out of bounds",
        ),
    ] {
        let found = problems(with(changed.clone()));
        assert!(found.contains(expected), "{changed}: {found}");
    }
}

#[test]
fn an_access_key_that_would_break_a_header_is_refused_without_being_shown() {
    let document = complete_s3(with(json!({})));
    let secrets = Secrets {
        access_key: Some(("ID".to_owned(), "hid\r\nden".to_owned(), None)),
        ..Secrets::default()
    };
    match OpenTarget::open("s3", document["target"].clone(), &secrets) {
        Err(OpenError::Section(problems)) => {
            let text = problems.to_string();
            assert!(
                text.starts_with("access_key: has blanks") && !text.contains("den"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(!format!("{secrets:?}").contains("den"));
}
