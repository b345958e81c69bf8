//! How Python waits for questions outside of load: on threads of their own, without the interpreter's lock, in slices. A
//! signal ends the wait at once, and what was asked ends by its own deadline. Not for the questions: see `look.rs`.

use dyno_measure::Failure;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

/// How long a signal waits at most until Python hears of it.
const SLICE: Duration = Duration::from_millis(50);

create_exception!(
    serverdyno._native,
    AnswerError,
    PyException,
    "A server gave no answer that can be read: the fault's name, its side, words, and what to try."
);

thread_local! {
    /// What this thread obeys while it waits.
    static INTERRUPT: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Ends the waits of threads that no signal reaches: Python runs the handlers of signals in its main thread alone.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Interrupt {
    set: Arc<AtomicBool>,
}

#[pymethods]
impl Interrupt {
    #[new]
    fn new() -> Self {
        Self {
            set: Arc::new(AtomicBool::new(false)),
        }
    }

    fn obey(&self) {
        INTERRUPT.set(Some(self.set.clone()));
    }

    fn set(&self) {
        self.set.store(true, Ordering::Relaxed);
    }
}

/// Does `work` on a thread of its own, and waits for it until a signal or the thread's interrupt says otherwise.
pub(crate) fn in_slices<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, mut waited) = sync_channel(1);
    std::thread::Builder::new().spawn(move || {
        // Nobody waits any more where a signal has come.
        let _ = done.send(work());
    })?;
    let interrupt = INTERRUPT.with_borrow(Clone::clone);
    loop {
        let outcome;
        (waited, outcome) = py.detach(move || {
            let outcome = waited.recv_timeout(SLICE);
            (waited, outcome)
        });
        match outcome {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the question panicked"))
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        py.check_signals()?;
        if interrupt.as_ref().is_some_and(|set| set.load(Ordering::Relaxed)) {
            return Err(PyKeyboardInterrupt::new_err(()));
        }
    }
}

/// Why there is no answer, as Python says it.
pub(crate) fn answer_error(failure: &Failure, advice: Option<&'static str>) -> PyErr {
    let fault = failure.fault;
    AnswerError::new_err((fault.name(), fault.side().name(), failure.to_string(), advice))
}
