//! The reference SMB server on threads of this process.

use crate::reference::stated;
use dyno_reference::smb::{faults, Options, Server};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// A running reference SMB server; it stops when it is dropped.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct ReferenceSmbServer {
    inner: Mutex<Server>,
}

impl ReferenceSmbServer {
    fn server(&self) -> PyResult<MutexGuard<'_, Server>> {
        self.inner
            .lock()
            .map_err(|_| PyRuntimeError::new_err("an earlier call on this server panicked"))
    }
}

#[pymethods]
impl ReferenceSmbServer {
    #[staticmethod]
    fn start(options: &str, files: HashMap<String, Vec<u8>>) -> PyResult<Self> {
        let options = Options {
            files: files.into_iter().collect(),
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

    #[pyo3(signature = (*, outage_s=0.0))]
    fn restart(&self, py: Python<'_>, outage_s: f64) -> PyResult<()> {
        let outage = Duration::try_from_secs_f64(outage_s)
            .ok()
            .filter(|outage| *outage <= Duration::from_secs(3600))
            .ok_or_else(|| PyValueError::new_err("outage_s is from 0 to 3600"))?;
        py.detach(|| Ok(self.server()?.restart(outage)?))
    }

    fn cut_connections(&self) -> PyResult<()> {
        self.server()?.cut_connections();
        Ok(())
    }

    #[getter]
    fn port(&self) -> PyResult<u16> {
        Ok(self.server()?.port())
    }

    #[getter]
    fn open_files(&self) -> PyResult<usize> {
        Ok(self.server()?.open_files())
    }

    fn requests(&self) -> PyResult<HashMap<&'static str, u64>> {
        Ok(self.server()?.requests().into_iter().collect())
    }
}

/// Names and meanings of the faults that the reference SMB server can commit.
#[pyfunction]
pub fn reference_smb_faults() -> Vec<(&'static str, &'static str)> {
    faults()
}
