//! The reference server on threads of this process.

use dyno_reference::http::{Documents, Options, Server};
use dyno_tls::{ServerOptions, TlsServer, Version, Versions};
use dyno_workload::Tree;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard};

/// The largest document that one path may have.
const MAX_BODY_BYTES: usize = 1 << 30;

/// A running reference server; it stops when it is dropped.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct ReferenceServer {
    inner: Mutex<Server>,
}

impl ReferenceServer {
    fn server(&self) -> PyResult<MutexGuard<'_, Server>> {
        self.inner
            .lock()
            .map_err(|_| PyRuntimeError::new_err("an earlier call on this server panicked"))
    }
}

/// How the server speaks TLS: a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TlsArguments {
    certificate: String,
    key: String,
    min_version: String,
    max_version: String,
    resumption: bool,
}

impl TlsArguments {
    fn server(self, http2: bool) -> PyResult<TlsServer> {
        let protocols: &[&[u8]] = if http2 {
            &[b"h2", b"http/1.1"]
        } else {
            &[b"http/1.1"]
        };
        let options = ServerOptions {
            certificates_pem: self.certificate,
            key_pem: self.key,
            versions: Versions {
                least: version(&self.min_version)?,
                most: version(&self.max_version)?,
            },
            resumption: self.resumption,
            application_protocols: protocols.iter().map(|name| name.to_vec()).collect(),
        };
        TlsServer::new(&options).map_err(PyValueError::new_err)
    }
}

fn version(name: &str) -> PyResult<Version> {
    match name {
        "1.2" => Ok(Version::Tls12),
        "1.3" => Ok(Version::Tls13),
        _ => Err(PyValueError::new_err(format!("{name:?} is none of 1.2, 1.3"))),
    }
}

#[pymethods]
impl ReferenceServer {
    #[staticmethod]
    #[pyo3(signature = (*, port=0, bind="127.0.0.1", threads=1, cpus=None, body_bytes=None, fault=None, documents=None, tls=None, secure_port=None, http2=false, behind=None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn start(
        port: u16,
        bind: &str,
        threads: usize,
        cpus: Option<Vec<usize>>,
        body_bytes: Option<usize>,
        fault: Option<&str>,
        documents: Option<HashMap<String, Vec<u8>>>,
        tls: Option<TlsArguments>,
        secure_port: Option<u16>,
        http2: bool,
        behind: Option<Vec<u16>>,
    ) -> PyResult<Self> {
        let bind: IpAddr = bind
            .parse()
            .map_err(|_| PyValueError::new_err(format!("{bind:?} is not an IP address")))?;
        if body_bytes.is_some_and(|bytes| bytes > MAX_BODY_BYTES) {
            return Err(PyValueError::new_err("a body has 1 GiB at most"));
        }
        let fault = fault
            .map(str::parse)
            .transpose()
            .map_err(|error: dyno_reference::http::UnknownFault| PyValueError::new_err(error.to_string()))?;
        let options = Options {
            bind: SocketAddr::new(bind, port),
            threads,
            cpus: cpus.unwrap_or_default(),
            documents: body_bytes.map_or_else(|| Documents::Tree(Tree::load()), Documents::Fixed),
            extra_documents: documents.unwrap_or_default().into_iter().collect(),
            fault,
            secure_bind: secure_port.map(|port| SocketAddr::new(bind, port)),
            tls: tls.map(|tls| tls.server(http2)).transpose()?,
            http2,
            behind: behind
                .unwrap_or_default()
                .into_iter()
                .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
                .collect(),
        };
        Ok(Self {
            inner: Mutex::new(Server::start(&options)?),
        })
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.server()?.stop();
            Ok(())
        })
    }

    #[getter]
    fn port(&self) -> PyResult<u16> {
        Ok(self.server()?.port())
    }

    #[getter]
    fn secure_port(&self) -> PyResult<Option<u16>> {
        Ok(self.server()?.secure_port())
    }

    #[getter]
    fn requests(&self) -> PyResult<u64> {
        Ok(self.server()?.requests())
    }
}

/// Names and meanings of the faults that the reference server can commit.
#[pyfunction]
pub fn reference_faults() -> Vec<(&'static str, &'static str)> {
    dyno_reference::http::faults().to_vec()
}
