//! Python interface of histograms.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// HDR histogram of times in nanoseconds.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Histogram {
    inner: dyno_measure::Histogram,
}

fn read(data: &[u8]) -> PyResult<dyno_measure::Histogram> {
    dyno_measure::Histogram::from_bytes(data).map_err(PyValueError::new_err)
}

#[pymethods]
impl Histogram {
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(Self { inner: read(data)? })
    }

    #[staticmethod]
    fn merged(parts: Vec<PyBackedBytes>) -> PyResult<Self> {
        let mut read_parts = parts.iter().map(|part| read(part));
        let mut inner = read_parts.next().transpose()?.unwrap_or_default();
        for part in read_parts {
            inner.add(&part?);
        }
        Ok(Self { inner })
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.inner.to_bytes()
    }

    fn value_at(&self, quantile: f64) -> PyResult<u64> {
        if !(0.0..=1.0).contains(&quantile) {
            return Err(PyValueError::new_err(format!(
                "a quantile must be between 0 and 1, not {quantile}"
            )));
        }
        Ok(self.inner.value_at(quantile))
    }

    #[getter]
    fn count(&self) -> u64 {
        self.inner.count()
    }

    fn mean_and_deviation(&self) -> (f64, f64) {
        self.inner.mean_and_deviation()
    }

    #[getter]
    fn max(&self) -> u64 {
        self.inner.max()
    }

    #[getter]
    fn min(&self) -> u64 {
        self.inner.min()
    }
}
