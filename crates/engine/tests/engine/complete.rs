//! Completes documents of load levels that contain only what matters to a test, with the defaults of the
//! control plane's models.

use serde_json::{json, Value};

/// Completes `document` with the defaults from the file that `tools/complete_documents.py` generates.
pub fn complete(mut document: Value) -> Value {
    let usual: Value = serde_json::from_str(include_str!("../complete.json")).expect("it is as made");
    let mut level = usual["level"].clone();
    if document["protocol"] == "http" {
        let workload = &mut document["workload"];
        let name = workload["name"].as_str().unwrap_or_default();
        level["workload"] = usual["workloads"].get(name).cloned().unwrap_or(json!({}));
        let steps = workload.get_mut("steps").and_then(Value::as_array_mut);
        for step in steps.into_iter().flatten() {
            *step = over(usual["step"].clone(), step.take());
        }
    } else {
        for section in ["target", "workload", "client"] {
            level[section] = json!({});
        }
    }
    over(level, document)
}

/// Completes an SMB `target` section with the defaults.
pub fn complete_smb(section: Value) -> Value {
    let usual: Value = serde_json::from_str(include_str!("../complete.json")).expect("it is as made");
    over(usual["smb"].clone(), section)
}

/// Completes a document for objects over S3. Its sections may lack only fields that have defaults.
pub fn complete_s3(document: Value) -> Value {
    let usual: Value = serde_json::from_str(include_str!("../complete.json")).expect("it is as made");
    let mut level = usual["level"].clone();
    level["protocol"] = json!("s3");
    level["target"] = usual["s3"].clone();
    level["workload"] = usual["objects"]["workload"].clone();
    level["client"] = usual["objects"]["client"].clone();
    over(level, document)
}

/// Merges `changed` into the defaults `usual`.
fn over(mut usual: Value, changed: Value) -> Value {
    match (&mut usual, changed) {
        (Value::Object(usual), Value::Object(changed)) if !changed.contains_key("kind") => {
            for (key, value) in changed {
                let place = usual.entry(key).or_insert(Value::Null);
                *place = over(place.take(), value);
            }
        }
        (place, changed) => *place = changed,
    }
    usual
}
