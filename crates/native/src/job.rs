//! Bonnie's phases and the steps of scenarios, from Python: carried out on threads of their own, ended by a signal or by the
//! end of the server.

use crate::data::to_python;
use crate::question::{answer_error, in_slices};
use crate::target::Target;
use dyno_engine::{BonnieSpec, FileJob, JobEnd, StepSpec};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use std::sync::mpsc::sync_channel;
use std::sync::Arc;
use std::time::Duration;

/// How long a job may take to end after a signal, the removal of Bonnie's file included.
const ENDING: Duration = Duration::from_secs(10);
/// The most that a program reads or writes at once.
const MOST_BLOCK_BYTES: u32 = 1 << 20;
/// Threads of one machine, each with a session.
const MOST_SEEKERS: u64 = 1024;

/// Carries Bonnie's phases out on a target of this machine; `spec` is a JSON text.
#[pyfunction]
pub fn bonnie<'py>(py: Python<'py>, target: &Target, spec: &str, nonce: u64) -> PyResult<Bound<'py, PyAny>> {
    let spec: BonnieSpec = parsed(spec)?;
    let is_whole = spec.chunk_bytes > 0 && spec.bytes > 0 && spec.bytes % u64::from(spec.chunk_bytes) == 0;
    let is_some = spec.stdio_bytes > 0 && spec.seekers > 0 && spec.clients > 0;
    if !is_whole || !is_some || u64::from(spec.clients) * u64::from(spec.seekers) > MOST_SEEKERS {
        return Err(PyValueError::new_err(
            "the size is a multiple of the chunk, nothing but the seeks may be none, and all clients have up to 1,024 seekers",
        ));
    }
    carry_out(py, target, FileJob::Bonnie(spec), nonce)
}

/// Carries one step of a scenario out on a target of this machine; `spec` is a JSON text.
#[pyfunction]
pub fn scenario_step<'py>(
    py: Python<'py>,
    target: &Target,
    spec: &str,
    nonce: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let spec: StepSpec = parsed(spec)?;
    if !(1..=MOST_BLOCK_BYTES).contains(&spec.block_bytes) {
        return Err(PyValueError::new_err("a block has up to 1 MiB"));
    }
    carry_out(py, target, FileJob::Step(spec), nonce)
}

fn parsed<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn carry_out<'py>(py: Python<'py>, target: &Target, job: FileJob, nonce: u64) -> PyResult<Bound<'py, PyAny>> {
    let end = Arc::new(JobEnd::default());
    let (ended, waited) = sync_channel::<()>(1);
    let (inner, ended_by) = (target.inner.clone(), end.clone());
    let asked = in_slices(py, move || {
        let outcome = inner.carry_out(&job, nonce, &ended_by);
        let _ = ended.send(());
        outcome
    });
    if let Err(error) = &asked {
        match error.is_instance_of::<PyKeyboardInterrupt>(py) {
            true => end.stop(),
            false => end.abandon(),
        }
        // What it has made is removed before the tool ends.
        let _ = py.detach(move || waited.recv_timeout(ENDING));
    }
    let outcome = asked?
        .ok_or_else(|| PyValueError::new_err("the target has no files, or is not this machine"))?
        .map_err(|failure| answer_error(&failure, target.inner.advice_on(&failure)))?;
    to_python(py, &outcome)
}
