//! Instants and spans in whole nanoseconds. Arithmetic saturates: the far future stays the
//! far future, and a clock that goes backwards has simply not moved.
//!
//! `std::time::Duration` takes 16 bytes and 128-bit arithmetic; a record has a dozen of
//! these and a decision compares them all, so both are one `u64` here (584 years).

use std::{fmt, ops::Add, time::Duration};

/// A span of time: 0 to 584 years, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// An instant: nanoseconds since an origin that the owner of the clock chose. Only
/// differences have a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Nanos {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(u64::MAX);

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The part `unit` of this span, rounded down; `unit` is taken as within 0 to 1.
    pub fn scaled(self, unit: f64) -> Self {
        Self((self.0 as f64 * unit.clamp(0.0, 1.0)) as u64)
    }
}

impl Time {
    pub const ORIGIN: Self = Self(0);
    pub const MAX: Self = Self(u64::MAX);

    /// The span from `earlier` to this instant; zero where the clock went backwards.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The span from this instant to `later`; zero where that has passed.
    pub const fn until(self, later: Self) -> Nanos {
        later.since(self)
    }
}

impl Add<Nanos> for Time {
    type Output = Self;

    fn add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

/// Three digits at most, in the unit that fits: `1.8 s`, `250 ms`, `2m 5s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "0 s"),
            n if n < 1_000 => write!(f, "{n} ns"),
            n if n < 1_000_000 => write!(f, "{} us", n / 1_000),
            n if n < 1_000_000_000 => write!(f, "{} ms", n / 1_000_000),
            n if n < 60_000_000_000 => write!(f, "{:.1} s", self.as_secs_f64()),
            n => {
                let secs = n / 1_000_000_000;
                match (secs / 3600, secs / 60 % 60, secs % 60) {
                    (0, m, s) => write!(f, "{m}m {s}s"),
                    (h, m, _) => write!(f, "{h}h {m}m"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b01c_an_instant_saturates_and_never_wraps_into_the_past() {
        let late = Time(u64::MAX - 10);
        assert_eq!(late + Nanos::from_secs(1), Time::MAX);
    }

    #[test]
    fn b26e_negative_elapsed_time_is_zero() {
        assert_eq!(Time(5).since(Time(9)), Nanos::ZERO);
    }

    #[test]
    fn spans_are_shown_in_the_unit_that_fits() {
        let shown: Vec<String> = [0, 12, 1_500, 250_000_000, 1_800_000_000, 125_000_000_000]
            .map(|n| Nanos(n).to_string())
            .into();
        assert_eq!(shown, ["0 s", "12 ns", "1 us", "250 ms", "1.8 s", "2m 5s"]);
    }
}
