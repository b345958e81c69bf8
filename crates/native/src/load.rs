//! A mix under way, and what it counted.

use crate::mix::MixSpec;
use dyno_engine::{LoadError, Mix, MixTally, Work};
use dyno_files::{CacheOptions, CallKind, Policy, Redirector};
use dyno_measure::NS_PER_S;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::sync::Mutex;
use std::time::Duration;

/// A mix under way.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Load {
    inner: Mutex<dyno_engine::Load>,
}

pub(crate) fn poisoned<T>(_: T) -> PyErr {
    PyRuntimeError::new_err("an earlier call on this mix panicked")
}

fn load_error(error: &LoadError) -> PyErr {
    match error {
        LoadError::Running | LoadError::Lost => PyRuntimeError::new_err(error.to_string()),
        LoadError::Files { .. } | LoadError::System(_) => PyOSError::new_err(error.to_string()),
    }
}

/// Starts a mix; it runs on threads of its own.
#[pyfunction]
pub fn start(py: Python<'_>, spec: &MixSpec) -> PyResult<Load> {
    let mix = spec.mix.clone();
    let load = py
        .detach(|| dyno_engine::Load::start(mix))
        .map_err(|error| load_error(&error))?;
    Ok(Load {
        inner: Mutex::new(load),
    })
}

#[pymethods]
impl Load {
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let now = self.inner.lock().map_err(poisoned)?.snapshot();
        let snapshot = PyDict::new(py);
        snapshot.set_item("elapsed_s", now.elapsed_s)?;
        snapshot.set_item("operations", now.operations)?;
        snapshot.set_item("clients_prepared", now.clients_prepared)?;
        snapshot.set_item("bytes_in", now.bytes_in)?;
        snapshot.set_item("bytes_moved", now.bytes_moved)?;
        snapshot.set_item("errors", now.errors)?;
        snapshot.set_item("clients_active", now.clients_active)?;
        Ok(snapshot)
    }

    fn stop(&self) -> PyResult<()> {
        self.inner.lock().map_err(poisoned)?.stop();
        Ok(())
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        py.detach(|| Ok(self.inner.lock().map_err(poisoned)?.wait(timeout)))
    }

    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let load = self.inner.lock().map_err(poisoned)?;
        let tally = load.result().map_err(|error| load_error(&error))?;
        result(py, &load, tally)
    }
}

fn result<'py>(py: Python<'py>, load: &dyno_engine::Load, tally: &MixTally) -> PyResult<Bound<'py, PyDict>> {
    let mix = load.mix();
    let bytes = |histogram: &dyno_measure::Histogram| PyBytes::new(py, &histogram.to_bytes());
    let left = tally
        .by_client
        .iter()
        .filter(|client| client.left_at_ns.is_some())
        .count();
    let result = PyDict::new(py);
    result.set_item("stopped", load.was_stopped())?;
    result.set_item("started_unix_s", load.started_unix_s().unwrap_or_default())?;
    result.set_item("window_s", seconds(mix.window.measured_ns()))?;
    result.set_item("clients_planned", mix.clients)?;
    result.set_item("clients_participating", mix.clients - left)?;
    result.set_item(
        "operations",
        tally.by_class.iter().map(|class| class.count).sum::<u64>(),
    )?;
    result.set_item("operations_total", tally.operations_total)?;
    result.set_item(
        "bytes_read",
        tally.by_class.iter().map(|class| class.bytes_read).sum::<u64>(),
    )?;
    result.set_item(
        "bytes_written",
        tally
            .by_class
            .iter()
            .map(|class| class.bytes_written)
            .sum::<u64>(),
    )?;
    result.set_item("bytes_in", tally.bytes_in)?;
    result.set_item("bytes_out", tally.bytes_out)?;
    result.set_item("response_time_hdr", bytes(&tally.response_time()))?;
    result.set_item("connect_time_hdr", bytes(&tally.connect_time))?;
    result.set_item("under_way_at_close", tally.under_way_at_close)?;
    result.set_item("under_way_longest_s", seconds(tally.under_way_longest_ns))?;
    result.set_item("by_operation", by_operation(py, load.classes(), tally)?)?;
    result.set_item("by_client", by_client(py, tally)?)?;
    result.set_item("by_second", by_second(py, tally)?)?;
    result.set_item("errors", errors(py, mix, tally)?)?;
    let files = tally.files.as_ref();
    result.set_item("passes", files.map(|files| files.passes))?;
    result.set_item("bytes_checked", files.map(|files| files.bytes_checked))?;
    result.set_item("protocol_requests", files.map(|files| files.protocol_requests))?;
    result.set_item("calls", calls(py, tally)?)?;
    result.set_item("requests", requests(py, tally)?)?;
    result.set_item("sessions", sessions(py, tally)?)?;
    result.set_item("client_cache", client_cache(py, mix)?)?;
    let generator = PyDict::new(py);
    generator.set_item("cpu_user_s", tally.generator.cpu.user_s)?;
    generator.set_item("cpu_system_s", tally.generator.cpu.system_s)?;
    generator.set_item("busiest_cpu_s", tally.generator.busiest_cpu_s)?;
    generator.set_item("threads", mix.engine_threads.clamp(1, mix.clients))?;
    generator.set_item("loop_lag_hdr", bytes(&tally.generator.loop_lag))?;
    generator.set_item("connections", tally.generator.connections)?;
    generator.set_item("reconnects", tally.generator.reconnects)?;
    generator.set_item("source_addresses", tally.generator.source_addresses)?;
    result.set_item("generator", generator)?;
    Ok(result)
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / NS_PER_S as f64
}

fn by_operation<'py>(py: Python<'py>, classes: &[String], tally: &MixTally) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for (name, class) in classes.iter().zip(&tally.by_class) {
        let row = PyDict::new(py);
        row.set_item("operation", name)?;
        row.set_item("count", class.count)?;
        row.set_item("bytes_read", class.bytes_read)?;
        row.set_item("bytes_written", class.bytes_written)?;
        row.set_item("errors", class.errors)?;
        row.set_item(
            "response_time_hdr",
            PyBytes::new(py, &class.response_time.to_bytes()),
        )?;
        rows.append(row)?;
    }
    Ok(rows)
}

fn by_client<'py>(py: Python<'py>, tally: &MixTally) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for (number, client) in tally.by_client.iter().enumerate() {
        let row = PyDict::new(py);
        row.set_item("client", number)?;
        row.set_item("operations", client.operations)?;
        row.set_item("bytes_in", client.bytes_in)?;
        row.set_item("bytes_read", client.bytes_read)?;
        row.set_item("bytes_written", client.bytes_written)?;
        row.set_item("errors", client.errors)?;
        row.set_item("left_at_s", client.left_at_ns.map(seconds))?;
        rows.append(row)?;
    }
    Ok(rows)
}

fn by_second<'py>(py: Python<'py>, tally: &MixTally) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for (number, second) in tally.by_second.iter().enumerate() {
        let row = PyDict::new(py);
        row.set_item("second", number)?;
        row.set_item("operations", second.operations)?;
        row.set_item("bytes_in", second.bytes_in)?;
        row.set_item("errors", second.errors)?;
        rows.append(row)?;
    }
    Ok(rows)
}

fn calls<'py>(py: Python<'py>, tally: &MixTally) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    let counts = tally.files.iter().flat_map(|files| &files.calls);
    for (kind, count) in CallKind::ALL.iter().zip(counts) {
        let row = PyDict::new(py);
        row.set_item("call", kind.name())?;
        row.set_item("done", count.done)?;
        row.set_item("not_there", count.not_there)?;
        row.set_item("failed", count.failed)?;
        row.set_item("bytes", count.bytes)?;
        rows.append(row)?;
    }
    Ok(rows)
}

fn requests<'py>(py: Python<'py>, tally: &MixTally) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for (name, count) in tally.files.iter().flat_map(|files| &files.requests) {
        let row = PyDict::new(py);
        row.set_item("request", name)?;
        row.set_item("count", count)?;
        rows.append(row)?;
    }
    Ok(rows)
}

fn sessions<'py>(py: Python<'py>, tally: &MixTally) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for (kind, clients) in tally.files.iter().flat_map(|files| &files.sessions) {
        let row = PyDict::new(py);
        row.set_item("dialect", kind.dialect)?;
        row.set_item("signing", kind.signing)?;
        row.set_item("encryption", kind.encryption)?;
        row.set_item("guest", kind.guest)?;
        row.set_item("max_read_bytes", kind.max_read_bytes)?;
        row.set_item("max_write_bytes", kind.max_write_bytes)?;
        row.set_item("leases", kind.leases)?;
        row.set_item("clients", clients)?;
        rows.append(row)?;
    }
    Ok(rows)
}

/// As the clients really had it; None where every operation went through.
fn client_cache<'py>(py: Python<'py>, mix: &Mix) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Work::Files(work) = &mix.work else {
        return Ok(None);
    };
    let Some(options) = &work.cache else {
        return Ok(None);
    };
    let cache = PyDict::new(py);
    let asks_for = match options.policy {
        Policy::Nothing | Policy::CloseToOpen(_) => None,
        Policy::Oplock(_) => Some("oplocks"),
        Policy::Lease(_) => Some("leases"),
    };
    let redirector = match options.redirector {
        Redirector::Xp => "xp",
        Redirector::Plain => "plain",
    };
    cache.set_item("asks_for", asks_for)?;
    cache.set_item("redirector", redirector)?;
    cache.set_item("most_bytes", options.most_bytes.max(CacheOptions::LEAST_BYTES))?;
    cache.set_item("page_bytes", CacheOptions::PAGE_BYTES)?;
    cache.set_item("read_run_bytes", options.read_run_bytes)?;
    cache.set_item("write_run_bytes", options.write_run_bytes)?;
    cache.set_item("read_ahead_bytes", options.read_ahead_bytes)?;
    cache.set_item("most_deferred", options.most_deferred)?;
    cache.set_item("deferred_age_s", seconds(options.deferred_age_ns))?;
    Ok(Some(cache))
}

fn errors<'py>(py: Python<'py>, mix: &Mix, tally: &MixTally) -> PyResult<Bound<'py, PyList>> {
    let advice = match &mix.work {
        Work::Web(_) => dyno_http::advice,
        Work::Files(_) => dyno_smb::advice,
    };
    let rows = PyList::empty(py);
    for fault in &tally.faults {
        let row = PyDict::new(py);
        row.set_item("side", fault.fault.side().name())?;
        row.set_item("fault", fault.fault.name())?;
        row.set_item("count", fault.count)?;
        row.set_item("in_window", fault.in_window)?;
        row.set_item("example", fault.example.to_string())?;
        row.set_item("advice", advice(&fault.example))?;
        rows.append(row)?;
    }
    Ok(rows)
}
