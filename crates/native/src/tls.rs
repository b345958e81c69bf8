//! Certificate authority of a run.

use dyno_net::tls::{Identity, KeyKind, Validity, Version, Versions};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// Issues certificates for the servers of a run. The authority's own key never leaves this object.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Authority {
    inner: dyno_net::tls::Authority,
}

#[pymethods]
impl Authority {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let made = py.detach(dyno_net::tls::Authority::new);
        Ok(Self {
            inner: made.map_err(|error| PyOSError::new_err(error.to_string()))?,
        })
    }

    #[getter]
    fn pem(&self) -> &str {
        self.inner.pem()
    }

    /// Issues a certificate. Returns it and its key in PEM.
    #[pyo3(signature = (key, names, *, expired=false))]
    fn certify(
        &self,
        py: Python<'_>,
        key: &str,
        names: Vec<String>,
        expired: bool,
    ) -> PyResult<(String, String)> {
        let key = match key {
            "ecdsa-p256" => KeyKind::EcdsaP256,
            "rsa-2048" => KeyKind::Rsa2048,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "{key:?} is neither ecdsa-p256 nor rsa-2048"
                )))
            }
        };
        let validity = if expired { Validity::Past } else { Validity::Now };
        py.detach(|| self.inner.certify(key, &names, validity))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// Returns why a client cannot use this certificate with this key (both PEM), or None.
#[pyfunction]
pub fn identity_problem(certificate: String, key: String) -> Option<String> {
    Identity { certificate, key }.certified().err()
}

/// Returns why clients cannot offer these cipher suites with versions from `least` to `most`, or None.
#[pyfunction]
pub fn tls_problem(least: &str, most: &str, ciphers: Vec<String>) -> Option<String> {
    let version = |name: &str| {
        if name == "1.2" {
            Version::Tls12
        } else {
            Version::Tls13
        }
    };
    let versions = Versions {
        least: version(least),
        most: version(most),
    };
    dyno_net::tls::offer_problem(versions, &ciphers)
}
