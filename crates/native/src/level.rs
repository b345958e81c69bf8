//! Checks and prepares level documents, and merges the results of their parts.

use crate::data::{counted, to_python};
use crate::files::{LoadFile, Workspaces};
use crate::load::{poisoned, seconds, Load};
use crate::target::Target;
use dyno_engine::{LevelSpec, LevelTally, Material};
use dyno_measure::NS_PER_S;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::sync::Mutex;

const MAX_REMOVAL_S: f64 = 86_400.0;

#[pyclass(frozen, module = "serverdyno._native")]
pub struct PreparedLevel {
    inner: dyno_engine::PreparedLevel,
}

/// Checks a level document for an open target. Raises all problems at once, one per line.
#[pyfunction]
#[pyo3(signature = (document, target, workspaces=None, load_file=None))]
pub fn prepare(
    py: Python<'_>,
    document: &str,
    target: &Target,
    workspaces: Option<&Workspaces>,
    load_file: Option<&LoadFile>,
) -> PyResult<PreparedLevel> {
    let material = Material {
        workspaces: workspaces.map(|known| known.inner.clone()).unwrap_or_default(),
        load_file: load_file.map(|file| file.inner.clone()),
    };
    let prepared = py.detach(|| {
        let spec = LevelSpec::parse(document)?;
        dyno_engine::PreparedLevel::new(&spec, &target.inner, &material)
    });
    Ok(PreparedLevel {
        inner: prepared.map_err(|problems| PyValueError::new_err(problems.to_string()))?,
    })
}

#[pymethods]
impl PreparedLevel {
    fn start(&self, py: Python<'_>) -> PyResult<Load> {
        Load::start(py, &self.inner)
    }

    /// Returns the minimum space for one client's files, in bytes, or None if there are no files.
    fn workspace_bytes(&self, py: Python<'_>) -> Option<u64> {
        py.detach(|| self.inner.workspace_bytes())
    }

    /// Estimates how long the rate limit makes the preparation of the clients' files take, in seconds.
    fn preparation_s(&self, py: Python<'_>) -> f64 {
        py.detach(|| self.inner.preparation_ns()) as f64 / NS_PER_S as f64
    }

    /// Starts to remove the clients' files, for at most `most_s` seconds. Returns None if there are no files.
    fn remove_workspaces(&self, most_s: f64) -> PyResult<Option<Removal>> {
        if !(0.0..=MAX_REMOVAL_S).contains(&most_s) {
            return Err(PyValueError::new_err("most_s must be between 0 and 86,400"));
        }
        let most_ns = (most_s * NS_PER_S as f64) as u64;
        let removal = self.inner.remove_workspaces(most_ns);
        Ok(removal.map(|removal| Removal {
            inner: Mutex::new(removal),
        }))
    }
}

/// Returns the JSON schema of a level's counts, with a description of each figure.
#[pyfunction]
pub fn counted_schema() -> String {
    dyno_engine::schema().to_string()
}

/// Merges the tallies of a level's parts, in any order. `with_clients`: whether to include one row per
/// client.
#[pyfunction]
#[pyo3(signature = (tallies, *, with_clients=true))]
pub fn merge(py: Python<'_>, tallies: Vec<PyBackedBytes>, with_clients: bool) -> PyResult<Bound<'_, PyAny>> {
    let merged = py.detach(|| LevelTally::from_parts(tallies.iter().map(|part| &**part)));
    let mut merged = merged.map_err(PyValueError::new_err)?;
    if !with_clients {
        merged.by_client.clear();
    }
    counted(py, &merged)
}

/// A running removal of the clients' files.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Removal {
    inner: Mutex<dyno_engine::Removal>,
}

#[pymethods]
impl Removal {
    fn stop(&self) -> PyResult<()> {
        self.inner.lock().map_err(poisoned)?.stop();
        Ok(())
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = seconds(timeout_s)?;
        py.detach(|| Ok(self.inner.lock().map_err(poisoned)?.wait(timeout)))
    }

    fn left<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.inner.lock().map_err(poisoned)?.left())
    }
}
