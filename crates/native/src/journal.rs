//! Python interface of the journal for power-cut tests.

use crate::data::to_python;
use crate::question::{answer_error, in_slices};
use crate::target::Target;
use dyno_engine::{Entry, JournalSpec};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

/// A running journal: it writes files until the server is gone.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Journal {
    inner: dyno_engine::Journal,
}

#[pymethods]
impl Journal {
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.inner.entries())
    }

    fn end(&self, py: Python<'_>) -> Vec<String> {
        let failures = py.detach(|| self.inner.end());
        failures.iter().map(ToString::to_string).collect()
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn no_files() -> PyErr {
    PyValueError::new_err("a target without files has no journal")
}

/// Starts to write files on a file server. `spec`: JSON text.
#[pyfunction]
pub fn begin_journal(target: &Target, spec: &str, nonce: u64) -> PyResult<Journal> {
    let spec: JournalSpec = parsed(spec)?;
    let inner = target.inner.begin_journal(spec, nonce).ok_or_else(no_files)?;
    Ok(Journal { inner })
}

/// Reads what remains of a journal's files. `spec` and `entries`: JSON texts.
#[pyfunction]
pub fn read_journal<'py>(
    py: Python<'py>,
    target: &Target,
    spec: &str,
    entries: &str,
    nonce: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let (spec, entries): (JournalSpec, Vec<Entry>) = (parsed(spec)?, parsed(entries)?);
    let target = target.inner.clone();
    let read = in_slices(py, move || target.read_back(&spec, &entries, nonce))?;
    let left = read.ok_or_else(no_files)?;
    to_python(py, &left.map_err(|failure| answer_error(&failure, None))?)
}
