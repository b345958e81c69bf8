//! Requests outside of load: one GET, one connection, one NEGOTIATE, and a check for loopback names.

use crate::question::{answer_error, checked_timeout, in_slices, nanoseconds};
use crate::target::Target;
use dyno_measure::monotonic_ns;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Sends one GET to the target's address.
#[pyfunction]
#[pyo3(signature = (target, path, *, timeout_s, most_bytes))]
pub fn http_get<'py>(
    py: Python<'py>,
    target: &Target,
    path: String,
    timeout_s: f64,
    most_bytes: usize,
) -> PyResult<Bound<'py, PyDict>> {
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(PyValueError::new_err(
            "a path must begin with / and be ASCII without spaces",
        ));
    }
    let timeout = checked_timeout(timeout_s)?;
    let target = target.inner.clone();
    let asked = in_slices(py, move || {
        target.get(
            &path,
            monotonic_ns().saturating_add(nanoseconds(timeout)),
            most_bytes,
        )
    })?;
    let asked = asked.ok_or_else(|| PyValueError::new_err("the target has no documents"))?;
    let answer = asked.map_err(|failure| {
        answer_error(
            &failure,
            dyno_http::advice(&failure, &dyno_http::Circumstances::default()),
        )
    })?;
    let row = PyDict::new(py);
    row.set_item("status", answer.status)?;
    row.set_item("server", answer.server)?;
    row.set_item("body", PyBytes::new(py, &answer.body))?;
    row.set_item("whole", answer.whole)?;
    Ok(row)
}

#[pyfunction]
#[pyo3(signature = (target, *, timeout_s))]
pub fn http_connect(py: Python<'_>, target: &Target, timeout_s: f64) -> PyResult<()> {
    let timeout = checked_timeout(timeout_s)?;
    let (target, advising) = (target.inner.clone(), target.inner.clone());
    let connected = in_slices(py, move || {
        target.connect(monotonic_ns().saturating_add(nanoseconds(timeout)))
    })?;
    connected.map_err(|failure| answer_error(&failure, advising.advice_on(&failure, false)))
}

/// Returns the NEGOTIATE response of the SMB server at an address.
#[pyfunction]
#[pyo3(signature = (address, *, timeout_s, network_namespace=None))]
pub fn smb_probe<'py>(
    py: Python<'py>,
    address: &str,
    timeout_s: f64,
    network_namespace: Option<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    let address: SocketAddr = address
        .parse()
        .map_err(|_| PyValueError::new_err(format!("{address:?} is not an address with a port")))?;
    let timeout = checked_timeout(timeout_s)?;
    let asked = in_slices(py, move || {
        dyno_smb::probe(address, network_namespace.as_deref(), timeout)
    })?;
    let offer = asked.map_err(|failure| {
        answer_error(
            &failure,
            dyno_smb::advice(&failure, &dyno_smb::Options::default()),
        )
    })?;
    let row = PyDict::new(py);
    row.set_item("dialect", offer.dialect.name())?;
    row.set_item("signing_required", offer.signing_required)?;
    row.set_item("directory_leases", offer.directory_leases)?;
    row.set_item("server_guid", PyBytes::new(py, &offer.server_guid))?;
    row.set_item("max_read_bytes", offer.max_read_bytes)?;
    row.set_item("max_write_bytes", offer.max_write_bytes)?;
    Ok(row)
}

/// Returns whether a host, as text, names loopback. Looks nothing up.
#[pyfunction]
pub fn names_loopback(host: &str) -> bool {
    dyno_net::names_loopback(host)
}
