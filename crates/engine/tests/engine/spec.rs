//! All errors in a document are reported together, each with its key.

use crate::complete::{complete, complete_smb};
use dyno_engine::{LevelSpec, Material, OpenError, OpenTarget, PreparedLevel, Secrets};
use serde_json::{json, Value};

fn document() -> Value {
    complete(json!({
        "version": 1,
        "protocol": "http",
        "target": {"url": "http://127.0.0.1:1/"},
        "workload": {"name": "url"},
        "clients": 2,
        "window": {"length_s": 0.2},
    }))
}

/// Returns the problems of the document after `change`.
fn problems(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut document = document();
    change(&mut document);
    let said = match LevelSpec::parse(&document.to_string()) {
        Err(problems) => problems.to_string(),
        Ok(spec) => {
            let target = self::document()["target"].take();
            let target = OpenTarget::open("http", target, &Secrets::default()).expect("loopback");
            match PreparedLevel::new(&spec, &target, &Material::default()) {
                Err(problems) => problems.to_string(),
                Ok(_) => return Vec::new(),
            }
        }
    };
    said.lines().map(str::to_owned).collect()
}

#[test]
fn a_valid_document_has_no_problem() {
    assert_eq!(problems(|_| {}), [""; 0]);
}

#[test]
fn all_problems_are_reported_at_once_with_their_paths() {
    let said = problems(|document| {
        document["window"]["ramp_up_s"] = json!(1.0);
        document["leave_after_errors"] = json!(0);
        document["workload"]["name"] = json!("nonsense");
        document["client"]["version"] = json!("3");
        document["engine"] = json!({"threads": 3, "cpus": [0, 1]});
        document["part"] = json!({"client_offset": 1, "client_step": 1, "client_run": 1, "clients": 2});
        document["arrival"] = json!({"kind": "paced", "interval_s": 0.0});
    });
    let paths: Vec<&str> = said.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(
        paths,
        [
            "engine.threads",
            "window",
            "arrival.interval_s",
            "part",
            "leave_after_errors",
            "workload.name",
            "client.version",
        ],
        "{said:#?}"
    );
    assert_eq!(
        said[0],
        "engine.threads: 3 threads on 2 CPU(s) would compete for CPU time"
    );
}

#[test]
fn an_invalid_document_is_reported_with_the_path_of_its_first_error() {
    let said = problems(|document| document["window"]["length_s"] = json!("long"));
    assert!(
        said[0].starts_with("level.window.length_s: invalid type"),
        "{said:?}"
    );
    let said = problems(|document| document["windows"] = json!({}));
    assert!(said[0].contains("unknown field `windows`"), "{said:?}");
    let said = problems(|document| document["version"] = json!(2));
    assert_eq!(said, ["version: 2 is not supported; the supported version is 1"]);
    assert!(LevelSpec::parse("{").is_err());
}

#[test]
fn a_level_is_accepted_only_for_the_target_that_was_opened() {
    let said = problems(|document| document["target"]["url"] = json!("http://192.0.2.1/"));
    assert_eq!(said, ["target: is not the target that was opened"]);
}

#[test]
fn an_unknown_protocol_and_an_invalid_target_are_refused_with_a_message() {
    let opened = OpenTarget::open("gopher", json!({}), &Secrets::default());
    let Err(OpenError::Section(problems)) = opened else {
        panic!("{opened:?}")
    };
    assert_eq!(
        problems.to_string(),
        "protocol: \"gopher\" is not one of http, smb, nfs, posix, s3, null"
    );
    let section = json!({"url": "smb://127.0.0.1/a", "min_dialect": "3.0", "max_dialect": "2.1"});
    let section = complete_smb(section);
    let opened = OpenTarget::open("smb", section, &Secrets::default());
    let Err(OpenError::Section(problems)) = opened else {
        panic!("{opened:?}")
    };
    assert_eq!(
        problems.to_string(),
        "target.min_dialect: contradicts another key"
    );
    let section = complete_smb(json!({"url": "smb://127.0.0.1/a", "min_dialect": "1.0"}));
    let opened = OpenTarget::open("smb", section, &Secrets::default());
    let Err(OpenError::Section(problems)) = opened else {
        panic!("{opened:?}")
    };
    assert_eq!(
        problems.to_string(),
        "target.min_dialect: unknown dialect \"1.0\"; expected 2.0.2, 2.1, 3.0, 3.0.2 or 3.1.1"
    );
}

#[test]
fn open_arrivals_are_bounded_and_not_for_files() {
    let open = |change: Value| {
        let said = problems(|document| {
            document["arrival"] = json!({"kind": "open", "rate_per_s": 100.0, "law": "poisson", "queue": 9});
            document["max_rate_per_s"] = json!(1000.0);
            for (key, value) in change.as_object().into_iter().flatten() {
                document["arrival"][key] = value.clone();
            }
        });
        said.join("\n")
    };
    assert_eq!(open(json!({})), "");
    assert!(open(json!({"rate_per_s": 0.0})).contains("arrival.rate_per_s: out of bounds"));
    assert!(open(json!({"rate_per_s": 1e9})).contains("arrival.rate_per_s: out of bounds"));
    assert!(open(json!({"rate_per_s": 1001.0})).contains("is above max_rate_per_s"));
    assert!(open(json!({"queue": 1_000_000_000})).contains("arrival.queue"));
    assert!(open(json!({"law": "pareto"})).contains("pareto"));
}
