//! The data plane as the Python module `serverdyno._native`, typed in `python/serverdyno/_native.pyi`.
//!
//! Levels run on separate threads. Python polls them and waits without the interpreter lock. Decisions,
//! statistics and result files are in Python.

use pyo3::prelude::*;

mod data;
mod files;
mod histogram;
mod job;
mod journal;
mod level;
mod load;
mod look;
mod page;
mod question;
mod reference;
mod target;
mod tls;
mod workload;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::files::{LoadFile, Workspaces};
    #[pymodule_export]
    use crate::histogram::Histogram;
    #[pymodule_export]
    use crate::job::{merge_levels, Job};
    #[pymodule_export]
    use crate::journal::{begin_journal, read_journal, Journal};
    #[pymodule_export]
    use crate::level::{counted_schema, merge, prepare, PreparedLevel, Removal};
    #[pymodule_export]
    use crate::load::Load;
    #[pymodule_export]
    use crate::look::{http_connect, http_get, names_loopback, smb_probe};
    #[pymodule_export]
    use crate::page::{page_bytes, page_check, page_path, page_shown};
    #[pymodule_export]
    use crate::question::{look_while_waiting, AnswerError};
    #[pymodule_export]
    use crate::reference::ReferenceNfsServer;
    #[pymodule_export]
    use crate::reference::ReferenceS3;
    #[pymodule_export]
    use crate::reference::ReferenceSmbServer;
    #[pymodule_export]
    use crate::reference::{reference_faults, ReferenceServer};
    #[pymodule_export]
    use crate::target::{consent_document, SessionError, Target};
    #[pymodule_export]
    use crate::tls::{identity_problem, tls_problem, Authority};
    #[pymodule_export]
    use crate::workload::{
        diskmix_acceptance, header_problems, session_problems, tree_check, tree_facts, tree_write,
        workload_paths,
    };

    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    #[pyfunction]
    fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let info = PyDict::new(py);
        info.set_item("version", env!("CARGO_PKG_VERSION"))?;
        info.set_item(
            "profile",
            if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
        )?;
        info.set_item("target", std::env::consts::ARCH)?;
        Ok(info)
    }
}
