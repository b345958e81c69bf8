//! Sizes of objects: fixed, listed with weights, or lognormal.
//!
//! The lognormal sizes use only additions, multiplications, divisions and square roots, whose results are the
//! same on every machine. A library's `exp` and `ln` may differ between machines.

use crate::random::RandomStream;
use serde::Deserialize;

/// Distribution of the sizes of objects.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ObjectSize {
    /// All objects have this many bytes.
    Fixed(u64),
    /// Sizes in bytes, with weights.
    Listed(Vec<(u64, u32)>),
    /// The logarithm of the size is normally distributed.
    Lognormal {
        median_bytes: u64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// Upper bound, to which larger sizes are reduced.
        most_bytes: u64,
    },
}

impl ObjectSize {
    /// Returns the largest possible size.
    pub fn most_bytes(&self) -> u64 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Listed(sizes) => sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
            Self::Lognormal { most_bytes, .. } => *most_bytes,
        }
    }

    pub(crate) fn draw(&self, random: &mut RandomStream) -> u64 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Listed(sizes) => {
                let total = sizes.iter().map(|(_, weight)| *weight).sum();
                let mut drawn = random.below(total);
                for (bytes, weight) in sizes {
                    if drawn < *weight {
                        return *bytes;
                    }
                    drawn -= weight;
                }
                0
            }
            Self::Lognormal {
                median_bytes,
                sigma,
                most_bytes,
            } => {
                let drawn = (f64::from(random.below(u32::MAX)) + 1.0) / 4_294_967_296.0;
                let bytes = *median_bytes as f64 * exp(sigma * normal_quantile(drawn));
                // The conversion saturates.
                (bytes.round() as u64).clamp(1, *most_bytes)
            }
        }
    }
}

/// Returns the quantile of the standard normal distribution with a relative error below 1.2e-9 (P. J. Acklam, "An
/// algorithm for computing the inverse normal cumulative distribution function", 2003).
fn normal_quantile(probability: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    const LOW: f64 = 0.02425;
    let tail = |probability: f64| {
        let at = (-2.0 * ln(probability)).sqrt();
        polynomial(&C, at) / polynomial(&D, at)
    };
    if probability < LOW {
        tail(probability)
    } else if probability > 1.0 - LOW {
        -tail(1.0 - probability)
    } else {
        let centred = probability - 0.5;
        let square = centred * centred;
        polynomial(&A, square) * centred / polynomial(&B, square)
    }
}

/// Returns the value of a polynomial, highest coefficient first.
fn polynomial(coefficients: &[f64], at: f64) -> f64 {
    coefficients
        .iter()
        .fold(0.0, |sum, coefficient| sum * at + coefficient)
}

/// Returns the natural logarithm of a positive normal number: twice the series of artanh on the mantissa.
fn ln(number: f64) -> f64 {
    let bits = number.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | (1023 << 52));
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..24)
        .rev()
        .fold(0.0, |sum, place| sum * square + 1.0 / f64::from(2 * place + 1));
    2.0 * ratio * series + f64::from(exponent) * std::f64::consts::LN_2
}

/// Returns the exponential: a power of two times the Taylor series of the remainder, which is at most ln 2 /
/// 2.
fn exp(number: f64) -> f64 {
    let twos = (number / std::f64::consts::LN_2).round().clamp(-1000.0, 1000.0);
    let rest = number - twos * std::f64::consts::LN_2;
    let series = (1..=18)
        .rev()
        .fold(1.0, |sum, place| 1.0 + sum * rest / f64::from(place));
    series * f64::from_bits(((twos as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_exponential_agree_with_the_library() {
        for step in 1..2000 {
            let number = f64::from(step) * 0.00731;
            assert!((ln(number) - number.ln()).abs() < 1e-13, "{number}");
            let exponent = number - 7.0;
            assert!((exp(exponent) / exponent.exp() - 1.0).abs() < 1e-13, "{exponent}");
        }
    }

    /// Compares with quantiles from tables of the normal distribution.
    #[test]
    fn the_quantiles_are_those_of_the_normal_distribution() {
        for (probability, expected) in [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.025, -1.959_963_984_540_054),
            (0.841_344_746_068_543, 1.0),
            (0.001, -3.090_232_306_167_813),
            (0.999_999, 4.753_424_308_822_899),
        ] {
            assert!(
                (normal_quantile(probability) - expected).abs() < 1e-8,
                "{probability}"
            );
        }
    }

    #[test]
    fn lognormal_sizes_have_the_right_median_spread_and_bound() {
        let size = ObjectSize::Lognormal {
            median_bytes: 65_536,
            sigma: 1.0,
            most_bytes: 1 << 20,
        };
        let mut random = RandomStream::of_thread(1, 0, 0);
        let mut sizes: Vec<u64> = (0..20_001).map(|_| size.draw(&mut random)).collect();
        sizes.sort_unstable();
        let near = |place: usize, expected: f64| {
            let ratio = sizes[place] as f64 / expected;
            assert!((0.95..1.05).contains(&ratio), "{place}: {ratio}");
        };
        near(10_000, 65_536.0);
        near(16_827, 65_536.0 * 1f64.exp());
        assert_eq!(sizes.last(), Some(&(1 << 20)));
    }
}
