//! The reference SMB server on threads of this process.

use dyno_reference::smb::{faults, Dialect, Encryption, Options, Server, Signing, UnknownFault};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// A running reference SMB server; it stops when it is dropped.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct ReferenceSmbServer {
    inner: Mutex<Server>,
}

impl ReferenceSmbServer {
    fn server(&self) -> PyResult<MutexGuard<'_, Server>> {
        self.inner
            .lock()
            .map_err(|_| PyRuntimeError::new_err("an earlier call on this server panicked"))
    }
}

#[pymethods]
impl ReferenceSmbServer {
    #[staticmethod]
    #[pyo3(signature = (*, port=0, bind="127.0.0.1", threads=1, cpus=None, shares=None, user=None, password="",
        min_dialect="2.0.2", max_dialect="3.1.1", signing="auto", encryption="auto", oplocks=true, leases=true,
        directory_leases=true, durable_handles=true, continuously_available=false, capacity_bytes=1 << 30, break_timeout_s=35.0, files=None, fault=None))]
    #[allow(clippy::too_many_arguments)]
    fn start(
        port: u16,
        bind: &str,
        threads: usize,
        cpus: Option<Vec<usize>>,
        shares: Option<Vec<String>>,
        user: Option<String>,
        password: &str,
        min_dialect: &str,
        max_dialect: &str,
        signing: &str,
        encryption: &str,
        oplocks: bool,
        leases: bool,
        directory_leases: bool,
        durable_handles: bool,
        continuously_available: bool,
        capacity_bytes: u64,
        break_timeout_s: f64,
        files: Option<HashMap<String, Vec<u8>>>,
        fault: Option<&str>,
    ) -> PyResult<Self> {
        let bind: IpAddr = bind
            .parse()
            .map_err(|_| PyValueError::new_err(format!("{bind:?} is not an IP address")))?;
        let fault = fault
            .map(str::parse)
            .transpose()
            .map_err(|error: UnknownFault| PyValueError::new_err(error.to_string()))?;
        if !(0.0..=3600.0).contains(&break_timeout_s) {
            return Err(PyValueError::new_err("break_timeout_s is from 0 to 3600"));
        }
        let options = Options {
            bind: SocketAddr::new(bind, port),
            threads,
            cpus: cpus.unwrap_or_default(),
            shares: shares.unwrap_or_else(|| vec!["volume1".to_owned()]),
            user,
            password: password.to_owned(),
            min_dialect: dialect(min_dialect)?,
            max_dialect: dialect(max_dialect)?,
            signing: parse_signing(signing)?,
            encryption: parse_encryption(encryption)?,
            oplocks,
            leases,
            directory_leases,
            durable_handles,
            continuously_available,
            capacity_bytes,
            // Within the bounds that were checked just now, the product is a small whole number.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            break_timeout_ns: (break_timeout_s * 1e9) as u64,
            files: files.unwrap_or_default().into_iter().collect(),
            fault,
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

    #[pyo3(signature = (*, outage_s=0.0))]
    fn restart(&self, py: Python<'_>, outage_s: f64) -> PyResult<()> {
        let outage = Duration::try_from_secs_f64(outage_s)
            .ok()
            .filter(|outage| *outage <= Duration::from_secs(3600))
            .ok_or_else(|| PyValueError::new_err("outage_s is from 0 to 3600"))?;
        py.detach(|| Ok(self.server()?.restart(outage)?))
    }

    fn cut_connections(&self) -> PyResult<()> {
        self.server()?.cut_connections();
        Ok(())
    }

    #[getter]
    fn port(&self) -> PyResult<u16> {
        Ok(self.server()?.port())
    }

    #[getter]
    fn open_files(&self) -> PyResult<usize> {
        Ok(self.server()?.open_files())
    }

    fn requests(&self) -> PyResult<HashMap<&'static str, u64>> {
        Ok(self.server()?.requests().into_iter().collect())
    }
}

fn dialect(name: &str) -> PyResult<Dialect> {
    Dialect::of_name(name).ok_or_else(|| PyValueError::new_err(format!("there is no dialect {name:?}")))
}

fn parse_signing(name: &str) -> PyResult<Signing> {
    match name {
        "auto" => Ok(Signing::Auto),
        "required" => Ok(Signing::Required),
        _ => Err(PyValueError::new_err(format!(
            "signing is auto or required, not {name:?}"
        ))),
    }
}

fn parse_encryption(name: &str) -> PyResult<Encryption> {
    match name {
        "off" => Ok(Encryption::Off),
        "auto" => Ok(Encryption::Auto),
        "required" => Ok(Encryption::Required),
        _ => Err(PyValueError::new_err(format!(
            "encryption is off, auto or required, not {name:?}"
        ))),
    }
}

/// Names and meanings of the faults that the reference SMB server can commit.
#[pyfunction]
pub fn reference_smb_faults() -> Vec<(&'static str, &'static str)> {
    faults().to_vec()
}
