//! The figures of one run, from what was counted.

use super::{Measure, SECOND, TICK};
use crate::{results::Figures, scenario::Traffic};

/// Late clients that count as none: one in a hundred.
const LATE_ALLOWED: f64 = 0.01;
/// For so many buckets.
const CALM: usize = 50;
/// A second of arrivals goes well where so many of them succeed.
const WELL: f64 = 0.99;
/// The last seconds of a run are not judged: their operations may not have ended.
const UNJUDGED: usize = 5;

impl Measure {
    pub fn figures(&self, traffic: &Traffic) -> Figures {
        let counts = &self.counts;
        let ended = counts.operations_succeeded + counts.operations_failed;
        Figures {
            amplification: ratio(counts.calls, counts.operations),
            peak_per_second: self.peak(10),
            peak_100ms_per_second: self.peak(1),
            recovers_within_s: match traffic {
                Traffic::Closed { .. } => self.calm_after(),
                Traffic::Open { .. } => self.well_after(),
            },
            opens_within_s: self.opens_after(),
            goodput: ratio(counts.operations_succeeded, ended),
            failed_after: match self.last_end {
                Some(_) => ratio(self.late_failed, self.late_failed + self.late_succeeded),
                None => None,
            },
            half_served_s: self.served_share(0.5),
            nearly_all_served_s: self.served_share(0.99),
        }
    }

    /// The most calls in so many buckets in a row, as a rate.
    fn peak(&self, buckets: usize) -> f64 {
        let from = self.last_end.unwrap_or(0).div_ceil(TICK) as usize;
        let after = self.arrived.get(from..).unwrap_or_default();
        let sums = after
            .windows(buckets)
            .map(|it| it.iter().map(|n| u64::from(*n)).sum::<u64>());
        let seconds = buckets as f64 * TICK as f64 / 1e9;
        sums.max().unwrap_or(0) as f64 / seconds
    }

    /// Of closed traffic: from when on hardly anybody is late.
    fn calm_after(&self) -> Option<f64> {
        let end = self.last_end?;
        let allowed = (LATE_ALLOWED * f64::from(self.clients)) as i64;
        let (mut late, mut calm) = (0, 0);
        for (tick, change) in self.late_change.iter().enumerate() {
            late += change;
            let time = tick as u64 * TICK;
            calm = match late <= allowed && time >= end {
                true => calm + 1,
                false => 0,
            };
            if calm == CALM {
                let began = (tick + 1 - CALM) as u64 * TICK;
                return Some((began - end) as f64 / 1e9);
            }
        }
        None
    }

    /// Of open traffic: the end of the last second whose arrivals did not go well.
    fn well_after(&self) -> Option<f64> {
        let end = self.last_end?;
        let first = (end / SECOND) as usize;
        let judged = self.begun.len().saturating_sub(UNJUDGED);
        let seconds = self.begun.get(first..judged)?;
        let bad = |it: &[u32; 3]| f64::from(it[1]) < WELL * f64::from(it[0]);
        match seconds.iter().rposition(bad) {
            None => Some(0.0),
            Some(last) if last + UNJUDGED >= seconds.len() => None,
            Some(last) => {
                let over = (first + last + 1) as u64 * SECOND;
                Some(over.saturating_sub(end) as f64 / 1e9)
            }
        }
    }

    fn opens_after(&self) -> Option<f64> {
        let begin = self.first_begin?;
        let half = self.clients.div_ceil(2) as usize;
        let opened = self.fleet_opened.or_else(|| {
            let mut opened = self.opened.clone();
            opened.sort_unstable();
            opened.get(half.saturating_sub(1)).copied()
        })?;
        Some(opened.saturating_sub(begin) as f64 / 1e9)
    }

    /// Seconds after recovery until this share of those that waited then were served.
    fn served_share(&self, share: f64) -> Option<f64> {
        let end = self.last_end?;
        let waited = self.served.len() as u64 + self.waited_in_vain + self.still_waiting;
        let place = (share * waited as f64).ceil() as usize;
        // Operations end in the order of time.
        let when = self.served.get(place.checked_sub(1)?)?;
        Some(when.saturating_sub(end) as f64 / 1e9)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
