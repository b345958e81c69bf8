//! A running level and its counts.

use crate::data::{counted, to_python};
use dyno_engine::{LoadError, PreparedLevel};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Mutex;
use std::time::Duration;

/// A running level and, once it has ended, its counts.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Load {
    inner: Mutex<dyno_engine::Load>,
}

pub(crate) fn poisoned<T>(_: T) -> PyErr {
    PyRuntimeError::new_err("an earlier call on this level panicked")
}

pub(crate) fn seconds(timeout_s: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(timeout_s).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn load_error(error: &LoadError) -> PyErr {
    match error {
        LoadError::Running | LoadError::Lost => PyRuntimeError::new_err(error.to_string()),
        LoadError::Files { .. } | LoadError::Ports { .. } | LoadError::System(_) => {
            PyOSError::new_err(error.to_string())
        }
    }
}

impl Load {
    pub(crate) fn start(py: Python<'_>, prepared: &PreparedLevel) -> PyResult<Self> {
        let load = py
            .detach(|| dyno_engine::Load::start(prepared))
            .map_err(|error| load_error(&error))?;
        Ok(Self {
            inner: Mutex::new(load),
        })
    }
}

#[pymethods]
impl Load {
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.inner.lock().map_err(poisoned)?.snapshot())
    }

    fn go(&self, start_monotonic_ns: u64) -> PyResult<()> {
        self.inner.lock().map_err(poisoned)?.go(start_monotonic_ns);
        Ok(())
    }

    fn stop(&self) -> PyResult<()> {
        self.inner.lock().map_err(poisoned)?.stop();
        Ok(())
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = seconds(timeout_s)?;
        py.detach(|| Ok(self.inner.lock().map_err(poisoned)?.wait(timeout)))
    }

    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let load = self.inner.lock().map_err(poisoned)?;
        let tally = load.result().map_err(|error| load_error(&error))?;
        counted(py, tally)
    }

    fn tally<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let load = self.inner.lock().map_err(poisoned)?;
        let tally = load.result().map_err(|error| load_error(&error))?;
        Ok(PyBytes::new(py, &tally.to_bytes()))
    }
}
