//! Spans of time in fixed buckets: two additions a value, read without stopping anybody.

use super::{Metric, counters, table};

/// Upper ends of the buckets in nanoseconds, each included; one more bucket has no end. From what
/// a decision takes to what a caller may be told to wait.
pub(super) const BOUNDS: [u64; 14] = [
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    50_000_000,
    250_000_000,
    1_000_000_000,
    10_000_000_000,
    60_000_000_000,
];
/// The buckets, and after them the sum of all values in nanoseconds.
pub(super) const SUM: usize = BOUNDS.len() + 1;
pub(super) const CELLS: usize = SUM + 1;

pub(super) fn bucket(nanos: u64) -> usize {
    BOUNDS.partition_point(|bound| *bound < nanos)
}

/// In seconds, as they are shown.
pub(super) fn bounds() -> [f64; BOUNDS.len()] {
    BOUNDS.map(|nanos| nanos as f64 / 1e9)
}

/// What is timed besides RPCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The delay of a grant.
    Delay,
    /// From handing over a change to its being on disk.
    Commit,
}

impl Timed {
    pub(super) const ALL: [Self; 2] = [Self::Delay, Self::Commit];
    pub(super) const ALONE: usize = Self::ALL.len();

    pub(super) const fn cells(self) -> usize {
        counters::COUNT + CELLS * self as usize
    }

    pub(super) const fn metric(self) -> &'static Metric {
        match self {
            Self::Delay => &table::GRANT_DELAY,
            Self::Commit => &table::DURABLE_COMMIT,
        }
    }
}

/// A histogram as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Of each bucket alone; the last has no upper end.
    pub counts: [u64; BOUNDS.len() + 1],
    pub sum_seconds: f64,
}

impl Times {
    pub(super) fn read(cell: impl Fn(usize) -> u64) -> Self {
        Self {
            counts: std::array::from_fn(&cell),
            sum_seconds: cell(SUM) as f64 / 1e9,
        }
    }
}
