//! Exact shares. A ratio written as `0.2` in a policy is two tenths, not the nearest
//! binary fraction, so five times 0.2 is one and 0.6 of 10 is 6.

use std::fmt;

/// A non-negative ratio in parts per million: 0.2 is `Share(200_000)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(pub u32);

impl Share {
    pub const ZERO: Self = Self(0);
    pub const ONE: Self = Self(1_000_000);
    /// The largest share that can be written: 4,294.
    pub const MAX_RATIO: f64 = 4_294.0;

    /// The share nearest to `ratio`; `None` where it is negative, not a number or above
    /// [`Self::MAX_RATIO`].
    pub fn from_ratio(ratio: f64) -> Option<Self> {
        (0.0..=Self::MAX_RATIO)
            .contains(&ratio)
            .then(|| Self((ratio * 1e6).round() as u32))
    }

    pub fn as_ratio(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// This share of `whole`, in parts per million of one.
    pub const fn micros_of(self, whole: u64) -> u128 {
        self.0 as u128 * whole as u128
    }

    /// Whether `part` is at least this share of `whole`. No share of nothing is reached.
    pub const fn reached_by(self, part: u64, whole: u64) -> bool {
        whole > 0 && part as u128 * 1_000_000 >= self.micros_of(whole)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_ratio())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_tenths_of_ten_is_six_and_five_times_a_fifth_is_one() {
        assert_eq!(Share(600_000).micros_of(10) / 1_000_000, 6);
        assert_eq!(Share(200_000).micros_of(5), 1_000_000);
    }

    #[test]
    fn what_is_no_ratio_is_refused() {
        for bad in [-0.1, f64::NAN, f64::INFINITY, 5_000.0] {
            assert_eq!(Share::from_ratio(bad), None);
        }
    }
}
