//! A mix: down as a typed specification, up as counters and histograms.

use crate::target::Target;
use dyno_engine::{LoadError, Mix, MixTally, WorkloadKind};
use dyno_http::{Connecting, Version};
use dyno_measure::{Window, NS_PER_S};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::sync::Mutex;
use std::time::Duration;

const MAX_STREAMS: usize = 1_000_000;
const MAX_LENGTH_S: f64 = 86_400.0;
const MAX_ENGINE_THREADS: usize = 256;
const MAX_CPUS: usize = 1024;

/// One mix, checked.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct MixSpec {
    mix: Mix,
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * NS_PER_S as f64).round() as u64
}

/// Problems of a specification, gathered so that all are told at once.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn unless(&mut self, holds: bool, problem: &str) {
        if !holds {
            self.0.push(problem.to_owned());
        }
    }

    fn choose<T>(&mut self, name: &str, given: &str, choices: &[(&str, T)]) -> Option<T>
    where
        T: Copy,
    {
        let found = choices
            .iter()
            .find(|(choice, _)| *choice == given)
            .map(|(_, value)| *value);
        if found.is_none() {
            let known: Vec<&str> = choices.iter().map(|(choice, _)| *choice).collect();
            self.0
                .push(format!("{name}: {given:?} is none of {}", known.join(", ")));
        }
        found
    }
}

#[pymethods]
impl MixSpec {
    #[new]
    #[pyo3(signature = (*, target, workload, clients, threads, length_s, ramp_up_s=0.0, ramp_down_s=0.0, delay_s=0.0,
        think_time_s=0.0, seed=0, http_version="1.1", keep_alive=true, close="ordinary", receive_buffer_bytes=65536,
        timeout_s=30.0, leave_after_errors=None, fresh_sockets=false, verify_share=1.0, max_rate_per_s=None, engine_threads=1, cpus=None))]
    #[allow(clippy::too_many_arguments, clippy::too_many_lines)]
    fn new(
        target: &Target,
        workload: &str,
        clients: usize,
        threads: usize,
        length_s: f64,
        ramp_up_s: f64,
        ramp_down_s: f64,
        delay_s: f64,
        think_time_s: f64,
        seed: u64,
        http_version: &str,
        keep_alive: bool,
        close: &str,
        receive_buffer_bytes: usize,
        timeout_s: f64,
        leave_after_errors: Option<u32>,
        fresh_sockets: bool,
        verify_share: f64,
        max_rate_per_s: Option<f64>,
        engine_threads: usize,
        cpus: Option<Vec<usize>>,
    ) -> PyResult<Self> {
        let mut problems = Problems::default();
        let kinds = [
            ("webbench-static", WorkloadKind::WebbenchStatic),
            ("url", WorkloadKind::Url),
        ];
        let workload = problems.choose("workload", workload, &kinds);
        let versions = [("1.0", Version::Http10), ("1.1", Version::Http11)];
        let version = problems.choose("http_version", http_version, &versions);
        let reset = problems.choose("close", close, &[("ordinary", false), ("reset", true)]);
        let cpus = cpus.unwrap_or_default();
        let times = [length_s, ramp_up_s, ramp_down_s, delay_s, think_time_s, timeout_s];
        problems.unless(
            times.iter().all(|time| (0.0..=MAX_LENGTH_S).contains(time)),
            "every time lies between 0 and 86,400 seconds",
        );
        problems.unless(
            length_s > ramp_up_s + ramp_down_s,
            "the ramps leave nothing of the length",
        );
        problems.unless(timeout_s > 0.0, "timeout_s must be more than 0");
        problems.unless(
            (1..=MAX_STREAMS).contains(&clients.saturating_mul(threads)),
            "clients x threads must lie between 1 and 1,000,000",
        );
        problems.unless(
            (0.0..=1.0).contains(&verify_share),
            "verify_share lies between 0 and 1",
        );
        problems.unless(
            (256..=16 * 1024 * 1024).contains(&receive_buffer_bytes),
            "receive_buffer_bytes lies between 256 and 16 MiB",
        );
        problems.unless(
            (1..=MAX_ENGINE_THREADS).contains(&engine_threads),
            "engine_threads lies between 1 and 256",
        );
        problems.unless(
            cpus.iter().all(|cpu| *cpu < MAX_CPUS),
            "a CPU's number is less than 1024",
        );
        problems.unless(
            leave_after_errors != Some(0),
            "leave_after_errors must be at least 1",
        );
        problems.unless(
            max_rate_per_s.is_none_or(|rate| rate.is_finite() && rate > 0.0),
            "max_rate_per_s must be more than 0",
        );
        problems.unless(
            target.inner.is_loopback() || max_rate_per_s.is_some(),
            "a target that is not loopback needs max_rate_per_s",
        );
        let (Some(workload), Some(version), Some(reset), true) =
            (workload, version, reset, problems.0.is_empty())
        else {
            return Err(PyValueError::new_err(problems.0.join("\n")));
        };
        Ok(Self {
            mix: Mix {
                target: target.inner.clone(),
                workload,
                clients,
                threads,
                window: Window {
                    length_ns: nanoseconds(length_s),
                    ramp_up_ns: nanoseconds(ramp_up_s),
                    ramp_down_ns: nanoseconds(ramp_down_s),
                },
                delay_ns: nanoseconds(delay_s),
                think_ns: nanoseconds(think_time_s),
                seed,
                version,
                connecting: Connecting {
                    keep_alive,
                    reset,
                    timeout_ns: nanoseconds(timeout_s),
                },
                receive_buffer_bytes,
                leave_after_errors,
                fresh_sockets,
                verify_share,
                max_rate_per_s,
                engine_threads,
                cpus,
            },
        })
    }
}

/// A mix under way.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Load {
    inner: Mutex<dyno_engine::Load>,
}

fn poisoned<T>(_: T) -> PyErr {
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
        snapshot.set_item("bytes_in", now.bytes_in)?;
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
    result.set_item("started_unix_s", load.started_unix_s())?;
    result.set_item("window_s", seconds(mix.window.measured_ns()))?;
    result.set_item("clients_planned", mix.clients)?;
    result.set_item("clients_participating", mix.clients - left)?;
    result.set_item(
        "operations",
        tally.by_class.iter().map(|class| class.count).sum::<u64>(),
    )?;
    result.set_item("operations_total", tally.operations_total)?;
    result.set_item(
        "bytes_body",
        tally.by_class.iter().map(|class| class.bytes_body).sum::<u64>(),
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
    result.set_item("errors", errors(py, tally)?)?;
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
        row.set_item("operation", format!("GET {name}"))?;
        row.set_item("count", class.count)?;
        row.set_item("bytes_body", class.bytes_body)?;
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

fn errors<'py>(py: Python<'py>, tally: &MixTally) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for fault in &tally.faults {
        let row = PyDict::new(py);
        row.set_item("side", fault.fault.side().name())?;
        row.set_item("fault", fault.fault.name())?;
        row.set_item("count", fault.count)?;
        row.set_item("in_window", fault.in_window)?;
        row.set_item("example", fault.example.to_string())?;
        rows.append(row)?;
    }
    Ok(rows)
}
