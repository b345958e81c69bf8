//! The reference servers, on threads of this process.

use crate::question::os_error;
use dyno_testserver::{http, nfs, s3, smb};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// Parses a server's options. Errors omit the position in the text, because the text was generated.
fn stated<T: DeserializeOwned>(options: &str) -> PyResult<T> {
    let value: Result<Value, _> = serde_json::from_str(options);
    let read = value.and_then(serde_json::from_value);
    read.map_err(|error| PyValueError::new_err(error.to_string()))
}

fn outage(outage_s: f64) -> PyResult<Duration> {
    let outage = Duration::try_from_secs_f64(outage_s).ok();
    outage
        .filter(|outage| *outage <= Duration::from_secs(3600))
        .ok_or_else(|| PyValueError::new_err("outage_s must be between 0 and 3600"))
}

/// A running HTTP reference server. Dropping it stops it.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct ReferenceServer(http::Server);

#[pymethods]
impl ReferenceServer {
    #[staticmethod]
    fn start(options: &str, documents: HashMap<String, Vec<u8>>) -> PyResult<Self> {
        let options = http::Options {
            extra_documents: documents.into_iter().collect(),
            ..stated(options)?
        };
        http::Server::start(&options).map(Self).map_err(os_error)
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.port()
    }

    #[getter]
    fn secure_port(&self) -> Option<u16> {
        self.0.secure_port()
    }

    #[getter]
    fn requests(&self) -> u64 {
        self.0.requests()
    }
}

/// Declares the class of a reference server with the given contents and additional methods. Dropping a server
/// stops it.
macro_rules! server_of_contents {
    ($class:ident, $protocol:ident, $contents:ident, $($own:tt)*) => {
        #[pyclass(frozen, module = "serverdyno._native")]
        pub struct $class($protocol::Server);

        #[pymethods]
        impl $class {
            #[staticmethod]
            fn start(options: &str, $contents: HashMap<String, Vec<u8>>) -> PyResult<Self> {
                let options = $protocol::Options {
                    $contents: $contents.into_iter().collect(),
                    ..stated(options)?
                };
                $protocol::Server::start(&options).map(Self).map_err(os_error)
            }

            fn stop(&self, py: Python<'_>) {
                py.detach(|| self.0.stop());
            }

            #[pyo3(signature = (*, outage_s=0.0))]
            fn restart(&self, py: Python<'_>, outage_s: f64) -> PyResult<u64> {
                let outage = outage(outage_s)?;
                Ok(py.detach(|| self.0.restart(outage))?)
            }

            fn requests(&self) -> HashMap<&'static str, u64> {
                self.0.requests().into_iter().collect()
            }

            #[getter]
            fn port(&self) -> u16 {
                self.0.port()
            }

            $($own)*
        }
    };
}

server_of_contents! {
    ReferenceSmbServer, smb, files,

    fn cut_connections(&self, py: Python<'_>) {
        py.detach(|| self.0.cut_connections());
    }

    #[getter]
    fn open_files(&self) -> usize {
        self.0.open_files()
    }
}

server_of_contents! {
    ReferenceNfsServer, nfs, files,

    #[getter]
    fn restarts(&self) -> u64 {
        self.0.restarts()
    }

    #[getter]
    fn replies_given_again(&self) -> u64 {
        self.0.replies_given_again()
    }
}

server_of_contents! { ReferenceS3, s3, objects, }

/// Returns the names and descriptions of the faults that a protocol's reference server supports.
#[pyfunction]
pub fn reference_faults(protocol: &str) -> PyResult<Vec<(&'static str, &'static str)>> {
    match protocol {
        "http" => Ok(http::faults()),
        "smb" => Ok(smb::faults()),
        "nfs" => Ok(nfs::faults()),
        "s3" => Ok(s3::faults()),
        _ => Err(PyValueError::new_err(format!(
            "no reference server speaks {protocol}"
        ))),
    }
}
