//! Load targets, and consent errors as Python exceptions.

use crate::data::to_python;
use crate::question::{answer_error, checked_timeout, in_slices, nanoseconds, os_error};
use dyno_engine::{OpenError, OpenTarget, Secrets};
use dyno_net::tls::Identity;
use dyno_net::{BeforeLoad, TargetError};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyPermissionError, PyValueError};
use pyo3::prelude::*;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

create_exception!(
    serverdyno._native,
    SessionError,
    PyException,
    "A file server opened no session. The arguments are the reason and a hint."
);

/// Converts a target error to a Python exception.
pub(crate) fn target_error(error: TargetError) -> PyErr {
    match error {
        TargetError::Answer(failure, advice) => answer_error(&failure, advice),
        TargetError::Url(why) => PyValueError::new_err(why),
        TargetError::Io(error) => os_error(error),
        TargetError::Session { why, advice } => SessionError::new_err((why, advice)),
        TargetError::Consent(how) => PyPermissionError::new_err(how),
    }
}

/// A destination for load.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Target {
    pub(crate) inner: Arc<OpenTarget>,
    url: String,
    timeout: Duration,
    max_rate_per_s: Option<f64>,
}

#[pymethods]
impl Target {
    #[staticmethod]
    #[allow(clippy::too_many_arguments)] // Each secret has its name in Python.
    #[pyo3(signature = (protocol, section, *, consent_token=None, password=None, ticket=None, identity=None, access_key=None, timeout_s=10.0, max_rate_per_s=None, processes=1, turn=0))]
    fn open(
        py: Python<'_>,
        protocol: &str,
        section: &str,
        consent_token: Option<String>,
        password: Option<String>,
        ticket: Option<String>,
        identity: Option<(String, String)>,
        access_key: Option<(String, String, Option<String>)>,
        timeout_s: f64,
        max_rate_per_s: Option<f64>,
        processes: usize,
        turn: usize,
    ) -> PyResult<Self> {
        let timeout = checked_timeout(timeout_s)?;
        if !max_rate_per_s.is_none_or(|rate| rate > 0.0) {
            return Err(PyValueError::new_err("max_rate_per_s must be above 0"));
        }
        let section: Value =
            serde_json::from_str(section).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let url = section["url"].as_str().unwrap_or_default().to_owned();
        let secrets = Secrets {
            before_load: BeforeLoad {
                token: consent_token,
                timeout_ns: nanoseconds(timeout),
                max_rate_per_s,
                processes: processes.max(1),
                turn,
            },
            password,
            ticket,
            access_key,
            identity: identity.map(|(certificate, key)| Identity { certificate, key }),
        };
        let protocol = protocol.to_owned();
        let opened = in_slices(py, move || OpenTarget::open(&protocol, section, &secrets))?;
        let inner = opened.map_err(|error| match error {
            OpenError::Section(problems) => PyValueError::new_err(problems.to_string()),
            OpenError::Target(error) => target_error(error),
        })?;
        Ok(Self {
            inner: Arc::new(inner),
            url,
            timeout,
            max_rate_per_s,
        })
    }

    #[getter]
    fn protocol(&self) -> &str {
        self.inner.protocol()
    }

    #[getter]
    fn section<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.inner.section())
    }

    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    #[getter]
    fn timeout_s(&self) -> f64 {
        self.timeout.as_secs_f64()
    }

    #[getter]
    fn max_rate_per_s(&self) -> Option<f64> {
        self.max_rate_per_s
    }

    #[getter]
    fn address(&self) -> String {
        self.inner.address()
    }

    #[getter]
    fn loopback(&self) -> bool {
        self.inner.is_loopback()
    }

    #[getter]
    fn answers_in_grace(&self) -> u64 {
        self.inner.answers_in_grace()
    }

    #[getter]
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.inner.facts())
    }

    #[pyo3(signature = (nonce, *, sessions=0))]
    fn look<'py>(&self, py: Python<'py>, nonce: u64, sessions: u32) -> PyResult<Bound<'py, PyAny>> {
        let (target, timeout_ns) = (self.inner.clone(), nanoseconds(self.timeout));
        let looks = in_slices(py, move || target.look(nonce, sessions, timeout_ns))?;
        to_python(py, &looks)
    }
}

/// Returns the required content of the token file on `authority`.
#[pyfunction]
pub fn consent_document(authority: &str, token: &str) -> String {
    dyno_net::consent_document(authority, token)
}
