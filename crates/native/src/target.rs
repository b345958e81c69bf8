//! Destinations: the consent that `dyno-http` demands, as Python errors.

use crate::question::{answer_error, in_slices};
use dyno_target::TargetError;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyPermissionError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    serverdyno._native,
    SessionError,
    PyException,
    "A file server gave no session: why, and what to try."
);

/// Why there is no target, as Python says such things.
pub(crate) fn target_error(error: TargetError) -> PyErr {
    match error {
        TargetError::Url(why) => PyValueError::new_err(why),
        TargetError::Io(error) => PyErr::from(error),
        TargetError::Answer(failure) => answer_error(&failure, dyno_http::advice(&failure)),
        TargetError::Session { why, advice } => SessionError::new_err((why, advice)),
        TargetError::Consent(how) => PyPermissionError::new_err(how),
    }
}

/// A destination that load may go to.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Target {
    pub(crate) inner: dyno_http::Target,
    url: String,
}

#[pymethods]
impl Target {
    #[staticmethod]
    #[pyo3(signature = (url, consent_token=None))]
    fn open(py: Python<'_>, url: String, consent_token: Option<String>) -> PyResult<Self> {
        let asked = url.clone();
        let opened = in_slices(py, move || {
            dyno_http::Target::open(&asked, consent_token.as_deref())
        })?;
        let inner = opened.map_err(target_error)?;
        Ok(Self { inner, url })
    }

    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    #[getter]
    fn address(&self) -> String {
        self.inner.address().to_string()
    }

    #[getter]
    fn host(&self) -> &str {
        self.inner.host()
    }

    #[getter]
    fn path(&self) -> &str {
        self.inner.path()
    }

    #[getter]
    fn loopback(&self) -> bool {
        self.inner.is_loopback()
    }
}

/// What the token file on `authority` must contain.
#[pyfunction]
pub fn consent_document(authority: &str, token: &str) -> String {
    dyno_target::consent_document(authority, token)
}
