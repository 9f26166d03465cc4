//! The series of one run: tenths of a second, joined where there would be too many.

use super::{Measure, TICK};
use crate::results::Series;

/// A plot shows no more.
const POINTS_MAX: usize = 1_200;

impl Measure {
    pub fn series(&self) -> Series {
        let joined = self.arrived.len().div_ceil(POINTS_MAX).max(1);
        let bucket_s = joined as f64 * TICK as f64 / 1e9;
        let rate = |counts: &[u32]| -> Vec<f64> {
            let sums = counts
                .chunks(joined)
                .map(|it| it.iter().map(|n| u64::from(*n)).sum::<u64>());
            sums.map(|sum| sum as f64 / bucket_s).collect()
        };
        let mut late = 0;
        let late: Vec<f64> = self
            .late_change
            .iter()
            .map(|change| {
                late += change;
                late as f64
            })
            .collect();
        // The entry of a bucket is that of its begin; a series shows its end.
        let late = &late[1..];
        Series {
            bucket_s,
            calls_per_second: rate(&self.arrived),
            goodput_per_second: rate(&self.good),
            wasted_per_second: rate(&self.wasted),
            in_flight: self
                .in_flight_sum
                .chunks(joined)
                .map(|it| it.iter().sum::<f64>() / bucket_s)
                .collect(),
            late: last_of(late, joined),
            open_share: last_of(&self.open_share, joined),
            state: last_of(&self.states, joined),
        }
    }
}

fn last_of<T: Copy>(values: &[T], joined: usize) -> Vec<T> {
    values
        .chunks(joined)
        .filter_map(|it| it.last().copied())
        .collect()
}
