//! Levels on files that end when their work is done, from Python: carried out on threads of their own, ended by a signal or
//! by the end of the server.

use crate::data::counted;
use crate::question::{answer_error, in_slices};
use crate::target::Target;
use dyno_engine::{FileJob, JobEnd};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use std::sync::mpsc::sync_channel;
use std::sync::Arc;
use std::time::Duration;

/// How long a job may take to end after a signal, the removal of its files included.
const ENDING: Duration = Duration::from_secs(10);

/// Carries a job out on a target; `job` is a JSON text. Returns what was counted of each of its levels.
#[pyfunction]
pub fn carry_out<'py>(
    py: Python<'py>,
    target: &Target,
    job: &str,
    nonce: u64,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let job: FileJob = serde_json::from_str(job).map_err(|error| PyValueError::new_err(error.to_string()))?;
    if let Some(problem) = job.problem() {
        return Err(PyValueError::new_err(problem));
    }
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
    let levels = asked?
        .ok_or_else(|| {
            PyValueError::new_err("the target has no files, or is elsewhere and nothing bounds the rate")
        })?
        .map_err(|failure| answer_error(&failure, target.inner.advice_on(&failure)))?;
    levels.iter().map(|level| counted(py, level)).collect()
}
