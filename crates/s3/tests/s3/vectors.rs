//! Compares signatures with those of botocore, recorded by `record_vectors.py`.

use dyno_s3::{Credentials, RequestHead, Signer};
use serde_json::Value;

fn pairs(value: &Value) -> Vec<(&str, &str)> {
    let pairs = value.as_array().expect("pairs").iter();
    pairs
        .map(|pair| {
            (
                pair[0].as_str().expect("a name"),
                pair[1].as_str().expect("a value"),
            )
        })
        .collect()
}

fn method(name: &str) -> &'static str {
    let known = ["GET", "PUT", "POST", "DELETE", "HEAD"];
    known.into_iter().find(|known| *known == name).expect("a method")
}

#[test]
fn requests_have_the_same_signatures_as_in_botocore() {
    let recorded: Value = serde_json::from_str(include_str!("vectors.json")).expect("JSON");
    let vectors = recorded["vectors"].as_array().expect("vectors");
    assert!(vectors.len() >= 30);
    for vector in vectors {
        let text = |name: &str| vector[name].as_str().expect("a text");
        let credentials = Credentials {
            key_id: recorded["key"][0].as_str().expect("an ID").to_owned(),
            secret: recorded["key"][1].as_str().expect("a secret").to_owned(),
            session_token: vector["token"].as_str().map(str::to_owned),
        };
        let mut signer = Signer::new(Some(credentials), text("region"));
        signer.set_time(vector["unix_s"].as_u64().expect("a time"));
        let mut head = Vec::new();
        signer.write(
            &RequestHead {
                method: method(text("method")),
                path: text("path"),
                query: &pairs(&vector["query"]),
                host: text("host"),
                headers: &pairs(&vector["headers"]),
                payload: text("payload"),
                content_length: None,
            },
            &mut head,
        );
        let head = String::from_utf8(head).expect("ASCII");
        let line = head.lines().find_map(|line| line.strip_prefix("authorization:"));
        assert_eq!(line, Some(text("authorization")), "{vector}\n{head}");
    }
}

/// A signer may be used for days. Its key and scope must follow the date.
#[test]
fn one_signer_works_across_midnight() {
    let recorded: Value = serde_json::from_str(include_str!("vectors.json")).expect("JSON");
    let credentials = Credentials {
        key_id: recorded["key"][0].as_str().expect("an ID").to_owned(),
        secret: recorded["key"][1].as_str().expect("a secret").to_owned(),
        session_token: None,
    };
    let head = |signer: &mut Signer| {
        let mut head = Vec::new();
        let request = RequestHead {
            method: "HEAD",
            path: "/b/o",
            query: &[],
            host: "h",
            headers: &[],
            payload: "UNSIGNED-PAYLOAD",
            content_length: None,
        };
        signer.write(&request, &mut head);
        head
    };
    let mut kept = Signer::new(Some(credentials.clone()), "us-east-1");
    for unix_s in [1_709_251_199, 1_709_251_200, 1_709_251_201] {
        kept.set_time(unix_s);
        let mut fresh = Signer::new(Some(credentials.clone()), "us-east-1");
        fresh.set_time(unix_s);
        assert_eq!(head(&mut kept), head(&mut fresh));
    }
    let mut anonymous = Signer::new(None, "us-east-1");
    assert!(!String::from_utf8_lossy(&head(&mut anonymous)).contains("authorization"));
}
