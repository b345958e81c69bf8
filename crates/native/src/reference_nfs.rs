//! The reference NFS server on threads of this process.

use dyno_reference::nfs::{faults, Flush, Options, Server, UnknownFault};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
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
    #[pyo3(signature = (*, port=0, bind="127.0.0.1", portmapper_port=None, udp=false, threads=1, cpus=None, exports=None,
        flush="honour", max_transfer_bytes=1 << 20, capacity_bytes=1 << 30, files=None, delegations=true, fault=None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn start(
        port: u16,
        bind: &str,
        portmapper_port: Option<u16>,
        udp: bool,
        threads: usize,
        cpus: Option<Vec<usize>>,
        exports: Option<Vec<String>>,
        flush: &str,
        max_transfer_bytes: u32,
        capacity_bytes: u64,
        files: Option<HashMap<String, Vec<u8>>>,
        delegations: bool,
        fault: Option<&str>,
    ) -> PyResult<Self> {
        let bind: IpAddr = bind
            .parse()
            .map_err(|_| PyValueError::new_err(format!("{bind:?} is not an IP address")))?;
        let fault = fault
            .map(str::parse)
            .transpose()
            .map_err(|error: UnknownFault| PyValueError::new_err(error.to_string()))?;
        let options = Options {
            bind: SocketAddr::new(bind, port),
            portmapper: portmapper_port.map(|port| SocketAddr::new(bind, port)),
            udp,
            threads,
            cpus: cpus.unwrap_or_default(),
            exports: exports.unwrap_or_else(|| vec!["/volume1".to_owned()]),
            flush: parse_flush(flush)?,
            max_transfer_bytes,
            capacity_bytes,
            files: files.unwrap_or_default().into_iter().collect(),
            delegations: delegations.then_some(Options::RECALL_NS),
            fault,
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

fn parse_flush(name: &str) -> PyResult<Flush> {
    match name {
        "honour" => Ok(Flush::Honour),
        "ignore" => Ok(Flush::Ignore),
        _ => Err(PyValueError::new_err(format!(
            "flush is honour or ignore, not {name:?}"
        ))),
    }
}

/// Names and meanings of the faults that the reference NFS server can commit.
#[pyfunction]
pub fn reference_nfs_faults() -> Vec<(&'static str, &'static str)> {
    faults().to_vec()
}
