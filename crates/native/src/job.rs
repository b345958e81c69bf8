//! Python interface of jobs: levels on files that end when their work is done, on separate threads.

use crate::data::{counted, to_python};
use crate::load::{poisoned, seconds};
use crate::question::AnswerError;
use crate::target::Target;
use dyno_engine::{FileJob, JobControl, JobFailure, JobLevels, LevelTally, OpenTarget};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A running job.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Job {
    control: Arc<JobControl>,
    target: Arc<OpenTarget>,
    outcome: Arc<Mutex<Option<Result<JobLevels, JobFailure>>>>,
}

#[pymethods]
impl Job {
    /// Starts a job, given as JSON text, on a target.
    #[staticmethod]
    fn start(target: &Target, job: &str) -> PyResult<Self> {
        let job: FileJob =
            serde_json::from_str(job).map_err(|error| PyValueError::new_err(error.to_string()))?;
        if let Some(problem) = job.problem() {
            return Err(PyValueError::new_err(problem));
        }
        let started = Self {
            control: Arc::new(if job.is_led {
                JobControl::led()
            } else {
                JobControl::default()
            }),
            target: target.inner.clone(),
            outcome: Arc::default(),
        };
        let (control, target, outcome) = (
            started.control.clone(),
            started.target.clone(),
            started.outcome.clone(),
        );
        std::thread::Builder::new().spawn(move || {
            let found = target.carry_out(&job, &control);
            if let Ok(mut slot) = outcome.lock() {
                *slot = found;
            }
            control.end();
        })?;
        Ok(started)
    }

    fn wait<'py>(&self, py: Python<'py>, timeout_s: f64) -> PyResult<Bound<'py, PyAny>> {
        let timeout = seconds(timeout_s)?;
        let stage = py.detach(|| self.control.wait(timeout));
        to_python(py, &stage)
    }

    fn wait_for_end(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = seconds(timeout_s)?;
        Ok(py.detach(|| self.control.wait_for_end(timeout)))
    }

    fn open_gate(&self, gate: u64, begins_monotonic_ns: u64) {
        self.control.open(gate, begins_monotonic_ns);
    }

    #[pyo3(signature = (*, at_once=false))]
    fn stop(&self, at_once: bool) {
        match at_once {
            true => self.control.abandon(),
            false => self.control.stop(),
        }
    }

    fn tallies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let outcome = self.outcome.lock().map_err(poisoned)?;
        match &*outcome {
            Some(Ok(levels)) => {
                let parts: Vec<_> = levels
                    .iter()
                    .map(|level| level.as_ref().map(LevelTally::to_bytes))
                    .collect();
                let mut bytes = Vec::new();
                ciborium::into_writer(&parts, &mut bytes)
                    .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
                Ok(PyBytes::new(py, &bytes))
            }
            Some(Err(JobFailure { step, failure })) => {
                let fault = failure.fault;
                let advice = self.target.advice_on(failure, self.control.has_begun());
                let words = (
                    fault.name(),
                    fault.side().name(),
                    failure.to_string(),
                    advice,
                    *step,
                );
                Err(AnswerError::new_err(words))
            }
            None if self.control.wait_for_end(Duration::ZERO) => Err(PyValueError::new_err(
                "the target has no files, or is on another machine and has no bound on the rate",
            )),
            None => Err(PyRuntimeError::new_err("the job has not ended")),
        }
    }
}

/// Merges the tallies of a job's nodes per level. Returns None for a level without tallies.
#[pyfunction]
pub fn merge_levels(py: Python<'_>, tallies: Vec<PyBackedBytes>) -> PyResult<Vec<Option<Bound<'_, PyAny>>>> {
    let mut by_level: Vec<Vec<Vec<u8>>> = Vec::new();
    for told in &tallies {
        let levels: Vec<Option<Vec<u8>>> =
            ciborium::from_reader(&told[..]).map_err(|error| PyOSError::new_err(error.to_string()))?;
        by_level.resize(by_level.len().max(levels.len()), Vec::new());
        for (all, one) in by_level.iter_mut().zip(levels) {
            all.extend(one);
        }
    }
    let merged = |parts: &Vec<Vec<u8>>| {
        if parts.is_empty() {
            return Ok(None);
        }
        let tally = LevelTally::from_parts(parts.iter().map(Vec::as_slice)).map_err(PyValueError::new_err)?;
        counted(py, &tally).map(Some)
    };
    by_level.iter().map(merged).collect()
}
