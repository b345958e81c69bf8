//! The reference server on threads of this process.

use dyno_reference::http::{Options, Server};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// Reads the options of a server; errors have no place in the text, which nobody has written.
pub(crate) fn stated<T: DeserializeOwned>(options: &str) -> PyResult<T> {
    let value: Result<Value, _> = serde_json::from_str(options);
    let read = value.and_then(serde_json::from_value);
    read.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A running reference server; it stops when it is dropped.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct ReferenceServer {
    inner: Mutex<Server>,
}

impl ReferenceServer {
    fn server(&self) -> PyResult<MutexGuard<'_, Server>> {
        self.inner
            .lock()
            .map_err(|_| PyRuntimeError::new_err("an earlier call on this server panicked"))
    }
}

#[pymethods]
impl ReferenceServer {
    #[staticmethod]
    fn start(options: &str, documents: HashMap<String, Vec<u8>>) -> PyResult<Self> {
        let options = Options {
            extra_documents: documents.into_iter().collect(),
            ..stated(options)?
        };
        Ok(Self {
            inner: Mutex::new(Server::start(&options)?),
        })
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.server()?.stop();
            Ok(())
        })
    }

    #[getter]
    fn port(&self) -> PyResult<u16> {
        Ok(self.server()?.port())
    }

    #[getter]
    fn secure_port(&self) -> PyResult<Option<u16>> {
        Ok(self.server()?.secure_port())
    }

    #[getter]
    fn requests(&self) -> PyResult<u64> {
        Ok(self.server()?.requests())
    }
}

/// Names and meanings of the faults that the reference server can commit.
#[pyfunction]
pub fn reference_faults() -> Vec<(&'static str, &'static str)> {
    dyno_reference::http::faults()
}
