//! Python interface of levels on files: workspaces and load files.

use dyno_workload::{DiskMix, DiskMixOptions, Script};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// State of the clients' files across levels.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Workspaces {
    pub(crate) inner: dyno_engine::Workspaces,
}

#[pymethods]
impl Workspaces {
    #[new]
    #[pyo3(signature = (name=None))]
    fn new(name: Option<u32>) -> Self {
        Self {
            inner: match name {
                Some(name) => dyno_engine::Workspaces::named(name),
                None => dyno_engine::Workspaces::default(),
            },
        }
    }

    #[classattr]
    const DIRECTORY: &'static str = dyno_engine::Workspaces::DIRECTORY;

    /// Returns the numbers of the clients that have a complete or partial workspace on the server.
    fn standing(&self) -> Vec<usize> {
        self.inner.standing()
    }

    /// Marks clients whose workspaces may exist although their process can no longer report it.
    fn assume_standing(&self, clients: Vec<usize>) {
        self.inner.assume_standing(&clients);
    }

    /// Returns whether any workspace was ever started.
    fn begun(&self) -> bool {
        self.inner.begun()
    }

    #[pyo3(signature = (client, *, seed, operations, workspace_bytes=20 << 20))]
    fn diskmix_files<'py>(
        &self,
        py: Python<'py>,
        client: u32,
        seed: u64,
        operations: u64,
        workspace_bytes: u64,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(ledger) = self.inner.ledger_of(client as usize) else {
            return Ok(None);
        };
        let options = DiskMixOptions {
            workspace_bytes,
            ..DiskMixOptions::default()
        };
        let files = py.detach(|| {
            let mut workload = DiskMix::new(Script::load(&options), seed, client);
            dyno_workload::played(&mut workload, client, ledger.level(), operations)
        });
        let contents = PyDict::new(py);
        for (path, bytes) in files {
            contents.set_item(path, PyBytes::new(py, &bytes))?;
        }
        Ok(Some(contents))
    }
}

/// A parsed dbench load file.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct LoadFile {
    pub(crate) inner: Arc<dyno_workload::LoadFile>,
}

fn parsed(content: &[u8]) -> PyResult<LoadFile> {
    let inner =
        dyno_workload::LoadFile::parse(content).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(LoadFile {
        inner: Arc::new(inner),
    })
}

#[pymethods]
impl LoadFile {
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| parsed(&std::fs::read(path)?))
    }

    #[staticmethod]
    fn parse(py: Python<'_>, content: &[u8]) -> PyResult<Self> {
        py.detach(|| parsed(content))
    }

    #[getter]
    fn operations(&self) -> u64 {
        self.inner.operations()
    }

    #[getter]
    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.inner.counts().clone()
    }
}
