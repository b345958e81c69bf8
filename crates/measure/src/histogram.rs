//! HDR histograms of all samples, with three significant digits. The range grows as needed, so no sample is
//! clipped or dropped.
//!
//! Source: Gil Tene, HdrHistogram, in the `hdrhistogram` crate. Recording takes about 2 ns per sample.

use hdrhistogram::serialization::V2Serializer;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

const SIGNIFICANT_DIGITS: u8 = 3;

/// Maximum size of a serialised histogram. 64-bit values with three digits need less.
const MAX_SERIALISED_BYTES: usize = 4 * 1024 * 1024;
const HEADER_BYTES: usize = 40;

/// Histogram of times in nanoseconds, serialised as a byte string. Two are equal if their samples are.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    inner: hdrhistogram::Histogram<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    pub fn new() -> Self {
        let Ok(inner) = hdrhistogram::Histogram::new(SIGNIFICANT_DIGITS) else {
            unreachable!("three significant digits are within the library's bounds");
        };
        Self { inner }
    }

    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        let recorded = self.inner.record(value_ns);
        debug_assert!(recorded.is_ok(), "an auto-resizing histogram accepts every u64");
    }

    pub fn add(&mut self, other: &Self) {
        let added = self.inner.add(&other.inner);
        debug_assert!(added.is_ok(), "an auto-resizing histogram can add any other");
    }

    /// Returns the samples recorded after `before`, an earlier copy of this histogram.
    pub fn since(&self, before: &Self) -> Self {
        let mut left = self.clone();
        let taken = left.inner.subtract(&before.inner);
        debug_assert!(taken.is_ok(), "a histogram only grows");
        left
    }

    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    /// Returns the mean and the population standard deviation in nanoseconds; 0 without samples.
    ///
    /// Reports need both of thousands of histograms; the library visits all buckets three times for them.
    pub fn mean_and_deviation(&self) -> (f64, f64) {
        let samples = self.count() as f64;
        if samples == 0.0 {
            return (0.0, 0.0);
        }
        let recorded: Vec<(f64, f64)> = self
            .inner
            .iter_recorded()
            .map(|bucket| {
                let middle = self.inner.median_equivalent(bucket.value_iterated_to());
                (middle as f64, bucket.count_at_value() as f64)
            })
            .collect();
        let mean = recorded
            .iter()
            .fold(0.0, |sum, (value, count)| sum + value * count / samples);
        let squares = recorded.iter().fold(0.0, |sum, (value, count)| {
            sum + (value - mean) * (value - mean) * count
        });
        (mean, (squares / samples).sqrt())
    }

    /// Returns the smallest sample in nanoseconds; 0 without samples.
    pub fn min(&self) -> u64 {
        self.inner.min()
    }

    pub fn max(&self) -> u64 {
        self.inner.max()
    }

    /// Returns the value at `quantile` (0 to 1) in nanoseconds, within 0.1 %; 0 without samples.
    pub fn value_at(&self, quantile: f64) -> u64 {
        self.inner.value_at_quantile(quantile)
    }

    /// Serialises in HdrHistogram's interchange format V2, uncompressed.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = hdrhistogram::serialization::Serializer::serialize(
            &mut V2Serializer::new(),
            &self.inner,
            &mut bytes,
        );
        debug_assert!(written.is_ok(), "writing to a vector can't fail");
        bytes
    }

    /// Reads the format of `to_bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_SERIALISED_BYTES {
            return Err(format!("{} bytes are too many for a histogram", bytes.len()));
        }
        check_header(bytes)?;
        let mut inner: hdrhistogram::Histogram<u64> = hdrhistogram::serialization::Deserializer::new()
            .deserialize(&mut &bytes[..])
            .map_err(|error| format!("not an HDR histogram: {error}"))?;
        inner.auto(true);
        Ok(Self { inner })
    }
}

/// Checks the header against the data, because the library allocates as much as the header states.
///
/// Header, big-endian (HdrHistogram, `AbstractHistogram.java`): four bytes each for cookie, payload length,
/// normalising offset and significant digits; eight bytes each for lowest value, highest value and ratio.
fn check_header(bytes: &[u8]) -> Result<(), String> {
    let (header, payload) = bytes
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or("not an HDR histogram: shorter than its header")?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if word(4) as usize != payload.len() {
        let claimed = word(4);
        return Err(format!(
            "incomplete HDR histogram: its header announces {claimed} bytes, but {} follow",
            payload.len()
        ));
    }
    if word(12) != u32::from(SIGNIFICANT_DIGITS) {
        return Err(format!(
            "the histogram has {} significant digits, not {SIGNIFICANT_DIGITS}",
            word(12)
        ));
    }
    Ok(())
}

impl JsonSchema for Histogram {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Histogram".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "hdr"})
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl de::Visitor<'_> for Bytes {
            type Value = Histogram;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the bytes of an HDR histogram")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Histogram, E> {
                Histogram::from_bytes(bytes).map_err(E::custom)
            }
        }
        // Request owned bytes, because some formats cannot lend more than a few KiB.
        deserializer.deserialize_byte_buf(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_extremely_long_times_are_not_clipped() {
        let mut histogram = Histogram::new();
        for value in [0, 1, 1_000, crate::NS_PER_S * 3600 * 24 * 365] {
            histogram.record(value);
        }
        assert_eq!(histogram.count(), 4);
        let year = (crate::NS_PER_S * 3600 * 24 * 365) as f64;
        assert!((histogram.max() as f64 / year - 1.0).abs() < 0.001);
    }

    #[test]
    fn a_histogram_survives_serialisation() {
        let mut histogram = Histogram::new();
        (1..10_000).for_each(|value| histogram.record(value * 17));
        let back = Histogram::from_bytes(&histogram.to_bytes());
        assert_eq!(
            back.map(|h| (h.count(), h.value_at(0.99))),
            Ok((9_999, histogram.value_at(0.99)))
        );
    }

    #[test]
    fn the_deviation_is_computed_from_the_samples() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.mean_and_deviation(), (0.0, 0.0));
        [2, 4, 4, 4, 5, 5, 7, 9]
            .into_iter()
            .for_each(|value| histogram.record(value));
        assert_eq!(histogram.mean_and_deviation(), (5.0, 2.0));
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_library() {
        let mut histogram = Histogram::new();
        (0..10_000).for_each(|value: u64| histogram.record(value * value * 17));
        let (inner, (mean, deviation)) = (&histogram.inner, histogram.mean_and_deviation());
        assert_eq!((mean, deviation), (inner.mean(), inner.stdev()));
    }

    #[test]
    fn garbage_is_refused_with_a_message() {
        assert!(Histogram::from_bytes(b"not one").is_err());
    }

    #[test]
    fn a_header_that_claims_too_many_values_allocates_nothing() {
        let honest = Histogram::new().to_bytes();
        let claiming = |at: usize, value: u32| {
            let mut bytes = honest.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
            Histogram::from_bytes(&bytes)
        };
        assert!(Histogram::from_bytes(&honest).is_ok());
        for (at, value, why) in [
            (4, u32::MAX, "header announces"),
            (4, 0, "header announces"),
            (12, 5, "digits"),
        ] {
            let refused = claiming(at, value).expect_err("it isn't what it says");
            assert!(refused.contains(why), "{refused}");
        }
        assert!(Histogram::from_bytes(&honest[..39]).is_err());
    }

    #[test]
    fn a_merged_histogram_has_the_samples_of_both() {
        let (mut left, mut right) = (Histogram::new(), Histogram::new());
        left.record(10);
        right.record(1_000_000_000);
        left.add(&right);
        assert_eq!((left.count(), left.min()), (2, 10));
        assert!(left.max() >= 1_000_000_000);
    }
}
