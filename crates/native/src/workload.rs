//! The WebBench tree and its requests, for writing documents and inspecting a workload.

use dyno_http::Shape;
use dyno_workload::{Catalogue, DiskMixOptions, Outcome, Script, Tree, WebbenchStatic, Workload};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;

#[pyfunction]
pub fn tree_facts(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let tree = Tree::load();
    let digest = py.detach(|| tree.digest().to_owned());
    let classes = PyList::empty(py);
    for class in tree.classes() {
        let row = PyDict::new(py);
        row.set_item("name", &class.name)?;
        row.set_item("files", class.files())?;
        row.set_item("bytes", class.bytes())?;
        row.set_item("weight", class.weight.value)?;
        row.set_item("missing", class.contents.missing())?;
        classes.append(row)?;
    }
    let facts = PyDict::new(py);
    facts.set_item("files", tree.files().len())?;
    facts.set_item("bytes", tree.bytes())?;
    facts.set_item("digest", digest)?;
    facts.set_item("classes", classes)?;
    Ok(facts)
}

#[pyfunction]
pub fn tree_write(py: Python<'_>, directory: PathBuf) -> PyResult<()> {
    py.detach(|| dyno_workload::write_tree(&Tree::load(), &directory))
        .map_err(|error| PyOSError::new_err(error.to_string()))
}

#[pyfunction]
pub fn tree_check(py: Python<'_>, directory: PathBuf) -> Vec<String> {
    py.detach(|| dyno_workload::check_tree(&Tree::load(), &directory))
}

#[pyfunction]
pub fn workload_paths(seed: u64, client: u32, thread: u32, count: usize) -> Vec<String> {
    let tree = Tree::load();
    let catalogue = Catalogue::webbench_static(&tree);
    let mut workload = WebbenchStatic::new(tree, seed, client, thread);
    (0..count)
        .map(|_| {
            let get = workload.next(&Outcome::START);
            catalogue.entries[get.path as usize].path.clone()
        })
        .collect()
}

/// Returns all problems of a session's steps. `steps`: JSON, as in the section `workload`.
#[pyfunction]
pub fn session_problems(steps: &str) -> Vec<String> {
    dyno_engine::session_problems(steps)
}

/// Returns the problems of a request's headers, one sentence each.
#[pyfunction]
pub fn header_problems(headers: Vec<(String, String)>) -> Vec<String> {
    let shape = Shape {
        fields: headers,
        ..Shape::default()
    };
    shape.problems()
}

#[pyfunction]
pub fn diskmix_acceptance(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let lines = py.detach(|| Script::load(&DiskMixOptions::default()).acceptance());
    let rows = PyList::empty(py);
    for line in lines {
        let row = PyDict::new(py);
        row.set_item("name", line.name)?;
        row.set_item("fact", line.fact)?;
        row.set_item("known", format!("{:?}", line.known).to_lowercase())?;
        row.set_item("ours", line.ours)?;
        row.set_item("tolerance", line.tolerance)?;
        row.set_item("within", line.ok)?;
        rows.append(row)?;
    }
    Ok(rows)
}
