//! Converts every document of the data plane to Python types. Adding a figure therefore requires only a
//! change of its struct.

use ciborium::Value;
use dyno_engine::LevelTally;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use serde::Serialize;

pub(crate) fn to_python<'py>(py: Python<'py>, data: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let value = Value::serialized(data).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    convert(py, value)
}

/// Returns the counts of a level, with one row per client.
pub(crate) fn counted<'py>(py: Python<'py>, tally: &LevelTally) -> PyResult<Bound<'py, PyAny>> {
    let told = to_python(py, tally)?;
    told.set_item("by_client", to_python(py, &tally.by_client)?)?;
    Ok(told)
}

fn convert(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Integer(value) => i128::from(value).into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Text(value) => value.into_pyobject(py)?.into_any(),
        Value::Bytes(value) => PyBytes::new(py, &value).into_any(),
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(convert(py, value)?)?;
            }
            list.into_any()
        }
        Value::Map(entries) => {
            let dictionary = PyDict::new(py);
            for (key, value) in entries {
                dictionary.set_item(convert(py, key)?, convert(py, value)?)?;
            }
            dictionary.into_any()
        }
        _ => return Err(PyRuntimeError::new_err("an unsupported kind of data")),
    })
}
