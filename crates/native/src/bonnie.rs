//! Bonnie's phases, from Python: carried out on threads of their own, ended by a signal.

use crate::data::to_python;
use crate::question::{answer_error, in_slices};
use crate::target::Target;
use dyno_engine::BonnieSpec;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::Arc;
use std::time::Duration;

/// How long the file's removal may take after a signal.
const REMOVAL: Duration = Duration::from_secs(10);

/// Carries the phases out on a target of this machine; `spec` is a JSON text.
#[pyfunction]
pub fn bonnie<'py>(py: Python<'py>, target: &Target, spec: &str, nonce: u64) -> PyResult<Bound<'py, PyAny>> {
    let spec: BonnieSpec =
        serde_json::from_str(spec).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let is_whole = spec.chunk_bytes > 0 && spec.bytes > 0 && spec.bytes % u64::from(spec.chunk_bytes) == 0;
    if !is_whole || spec.stdio_bytes == 0 || spec.seekers == 0 {
        return Err(PyValueError::new_err(
            "the size is a multiple of the chunk, and nothing but the seeks may be none",
        ));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (ended, waited) = sync_channel::<()>(1);
    let (inner, stopped) = (target.inner.clone(), stop.clone());
    let asked = in_slices(py, move || {
        let phases = inner.bonnie(&spec, nonce, &stopped);
        let _ = ended.send(());
        phases
    });
    if asked.is_err() {
        stop.store(true, Ordering::Relaxed);
        // The file is ours, and removed before the tool ends.
        let _ = py.detach(move || waited.recv_timeout(REMOVAL));
    }
    let phases = asked?
        .ok_or_else(|| PyValueError::new_err("the target has no files, or is not this machine"))?
        .map_err(|failure| answer_error(&failure, None))?;
    to_python(py, &phases)
}
