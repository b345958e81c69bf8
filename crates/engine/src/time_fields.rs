//! Times of a tally: whole nanoseconds here and seconds in the document, so that a sum does not depend on its
//! order.

use dyno_measure::NS_PER_S;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) mod seconds {
    //! Nanoseconds as seconds; exact below 104 days.
    use super::{Deserialize, Deserializer, Serializer, NS_PER_S};

    pub fn serialize<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(*ns as f64 / NS_PER_S as f64)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        Ok((f64::deserialize(deserializer)? * NS_PER_S as f64).round() as u64)
    }
}

pub(crate) mod seconds_or_none {
    use super::{Deserialize, Deserializer, Serialize, Serializer, NS_PER_S};

    pub fn serialize<S: Serializer>(ns: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        ns.map(|ns| ns as f64 / NS_PER_S as f64).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        let seconds = Option::<f64>::deserialize(deserializer)?;
        Ok(seconds.map(|seconds| (seconds * NS_PER_S as f64).round() as u64))
    }
}
