//! The dynamic page, to check a server before load.

use pyo3::prelude::*;

#[pyfunction]
pub fn page_path() -> &'static str {
    dyno_page::PATH
}

#[pyfunction]
pub fn page_bytes() -> usize {
    dyno_page::BYTES
}

#[pyfunction]
pub fn page_check(page: &[u8], script: &str, query: &str) -> bool {
    dyno_page::check(page, script, query)
}

#[pyfunction]
pub fn page_shown(page: &[u8], name: &str) -> Option<String> {
    dyno_page::shown(page, name).map(str::to_owned)
}
