//! The reference NFS server on threads of this process.

use crate::reference::stated;
use dyno_reference::nfs::{faults, Options, Server};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::{RwLock, RwLockReadGuard};
use std::time::Duration;

/// A running reference NFS server; it stops when it is dropped.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct ReferenceNfsServer {
    inner: RwLock<Server>,
}

impl ReferenceNfsServer {
    fn server(&self) -> PyResult<RwLockReadGuard<'_, Server>> {
        self.inner.read().map_err(|_| panicked())
    }
}

fn panicked() -> PyErr {
    PyRuntimeError::new_err("an earlier call on this server panicked")
}

#[pymethods]
impl ReferenceNfsServer {
    #[staticmethod]
    fn start(options: &str, files: HashMap<String, Vec<u8>>) -> PyResult<Self> {
        let options = Options {
            files: files.into_iter().collect(),
            ..stated(options)?
        };
        Ok(Self {
            inner: RwLock::new(Server::start(&options)?),
        })
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.inner.write().map_err(|_| panicked())?.stop();
            Ok(())
        })
    }

    #[pyo3(signature = (*, outage_s=0.0))]
    fn restart(&self, py: Python<'_>, outage_s: f64) -> PyResult<u64> {
        if !(0.0..=3600.0).contains(&outage_s) {
            return Err(PyValueError::new_err("outage_s is from 0 to 3600"));
        }
        py.detach(|| Ok(self.server()?.restart(Duration::from_secs_f64(outage_s))))
    }

    #[getter]
    fn port(&self) -> PyResult<u16> {
        Ok(self.server()?.port())
    }

    #[getter]
    fn restarts(&self) -> PyResult<u64> {
        Ok(self.server()?.restarts())
    }

    #[getter]
    fn replies_given_again(&self) -> PyResult<u64> {
        Ok(self.server()?.replies_given_again())
    }

    fn requests(&self) -> PyResult<HashMap<&'static str, u64>> {
        Ok(self.server()?.requests().into_iter().collect())
    }
}

/// Names and meanings of the faults that the reference NFS server can commit.
#[pyfunction]
pub fn reference_nfs_faults() -> Vec<(&'static str, &'static str)> {
    faults()
}
