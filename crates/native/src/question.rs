//! Runs requests outside of load on separate threads, while Python waits in slices without the interpreter
//! lock. A signal, or an error from the function called between slices, ends the wait. The request itself
//! ends at its own deadline.

use dyno_measure::Failure;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::time::Duration;

/// Interval between checks for a signal or the end of the server.
const SLICE: Duration = Duration::from_millis(50);
const MOST_S: f64 = 86_400.0;

create_exception!(
    serverdyno._native,
    AnswerError,
    PyException,
    "A server gave no usable answer. The arguments are the fault's name, its side, a message and a hint."
);

/// Function that the waiting thread calls between slices.
static LOOK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Makes every wait call `look` a few times per second and at its end. If `look` raises, so does the wait.
#[pyfunction]
pub fn look_while_waiting(py: Python<'_>, look: Py<PyAny>) -> PyResult<()> {
    LOOK.set(py, look)
        .map_err(|_| PyRuntimeError::new_err("look_while_waiting was already called"))
}

fn look(py: Python<'_>) -> PyResult<()> {
    LOOK.get(py).map_or(Ok(()), |look| look.call0(py).map(|_| ()))
}

/// Runs `work` on a new thread and waits until it ends, or until a signal or `look` ends the wait.
pub(crate) fn in_slices<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, mut waited) = sync_channel(1);
    std::thread::Builder::new().spawn(move || {
        // If a signal ended the wait, there is no receiver.
        let _ = done.send(work());
    })?;
    loop {
        let outcome;
        (waited, outcome) = py.detach(move || {
            let outcome = waited.recv_timeout(SLICE);
            (waited, outcome)
        });
        match outcome {
            // If the server has ended, `look` raises an error about that instead, because it may explain a
            // failure.
            Ok(result) => return look(py).map(|()| result),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the question panicked"))
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        py.check_signals()?;
        look(py)?;
    }
}

pub(crate) fn os_error(error: std::io::Error) -> PyErr {
    let Some(number) = error.raw_os_error() else {
        return PyErr::from(error);
    };
    let text = error.to_string();
    let words = text.rsplit_once(" (os error ").map_or(&*text, |(words, _)| words);
    PyOSError::new_err((number, words.to_owned()))
}

/// Converts a failure to a Python exception.
pub(crate) fn answer_error(failure: &Failure, advice: Option<&'static str>) -> PyErr {
    let fault = failure.fault;
    AnswerError::new_err((fault.name(), fault.side().name(), failure.to_string(), advice))
}

pub(crate) fn checked_timeout(timeout_s: f64) -> PyResult<Duration> {
    Some(timeout_s)
        .filter(|timeout_s| (0.0..=MOST_S).contains(timeout_s))
        .and_then(|timeout_s| Duration::try_from_secs_f64(timeout_s).ok())
        .ok_or_else(|| PyValueError::new_err("timeout_s must be between 0 and 86,400"))
}

pub(crate) fn nanoseconds(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)
}
