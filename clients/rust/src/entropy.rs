//! The one place where the client draws random numbers: from a generator that the operating
//! system seeds per process and thread.

use rand::RngExt;

/// Uniform in [0, 1).
pub(crate) fn unit() -> f64 {
    rand::rng().random_range(0.0..1.0)
}

pub(crate) fn number() -> u64 {
    rand::rng().random_range(0..u64::MAX)
}

/// Sixteen hexadecimal digits.
pub(crate) fn name() -> String {
    format!("{:016x}", number())
}
