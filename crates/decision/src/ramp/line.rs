//! Callers that were told when to ask again, counted by the quarter second they were told.
//!
//! The next one is told the first time at which fewer were told than there will be places.
//! Those whose time has come are forgotten: they ask again, or they have gone. So one that
//! finds no place again, since the curve is slower than it looked, goes where there is room
//! and not behind everybody, and no time stays empty.

use crate::{Nanos, Time};

const LENGTH: Nanos = Nanos::from_millis(250);
/// Sixteen seconds; who would come later is spread beyond.
const BUCKETS: usize = 64;

/// The line of one recovery.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// The bucket of now, counted from the origin of time.
    first: u64,
    told: [u32; BUCKETS],
    beyond: u32,
}

impl Line {
    pub fn new(now: Time) -> Self {
        Self {
            first: now.0 / LENGTH.0,
            told: [0; BUCKETS],
            beyond: 0,
        }
    }

    /// Forgets those whose time has come.
    pub fn advance(&mut self, now: Time) {
        let first = now.0 / LENGTH.0;
        let passed = first.saturating_sub(self.first);
        for ago in 0..passed.min(BUCKETS as u64) {
            *self.told_mut(self.first + ago) = 0;
        }
        if passed > 0 {
            self.first = first;
            self.beyond = 0;
        }
    }

    /// The time for one more that may not come before `start`, `places` being how many a
    /// second there are at an instant. `unit` places it between its neighbours.
    pub fn join(&mut self, start: Time, unit: f64, mut places: impl FnMut(Time) -> f64) -> Time {
        let end = self.first + BUCKETS as u64;
        for bucket in (start.0 / LENGTH.0).max(self.first)..end {
            let begin = Time(bucket.saturating_mul(LENGTH.0)).max(start);
            let left = begin.until(Time((bucket + 1).saturating_mul(LENGTH.0)));
            let room = places(begin) * left.as_secs_f64();
            let told = self.told_mut(bucket);
            if f64::from(*told) < room {
                let part = (f64::from(*told) + unit) / room;
                *told = told.saturating_add(1);
                return begin + left.scaled(part);
            }
        }
        let begin = Time(end.saturating_mul(LENGTH.0)).max(start);
        self.beyond = self.beyond.saturating_add(1);
        let seconds = f64::from(self.beyond) / places(begin);
        begin + Nanos((seconds * 1e9) as u64).scaled(unit)
    }

    /// Those whose time has not come at `now`.
    pub fn waiting(&self, now: Time) -> u64 {
        let from = (now.0 / LENGTH.0).max(self.first);
        let buckets = from..self.first + BUCKETS as u64;
        let told = buckets.map(|bucket| u64::from(self.told[(bucket % BUCKETS as u64) as usize]));
        told.sum::<u64>() + u64::from(self.beyond)
    }

    fn told_mut(&mut self, bucket: u64) -> &mut u32 {
        &mut self.told[(bucket % BUCKETS as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(10_000_000_000);

    #[test]
    fn each_second_is_told_to_as_many_as_it_has_places() {
        let mut line = Line::new(NOW);
        let mut seconds = [0; 6];
        for _ in 0..500 {
            let told = line.join(NOW, 0.5, |_| 100.0);
            seconds[(told.since(NOW).0 / 1_000_000_000) as usize] += 1;
        }
        assert_eq!(seconds, [100, 100, 100, 100, 100, 0]);
        assert_eq!(line.waiting(NOW), 500);
    }

    #[test]
    fn who_comes_in_vain_goes_where_there_is_room() {
        let mut line = Line::new(NOW);
        for _ in 0..100 {
            line.join(NOW, 0.5, |_| 100.0);
        }
        let later = NOW + Nanos::from_millis(500);
        line.advance(later);
        assert_eq!(line.waiting(later), 50);
        let told = line.join(later, 0.0, |_| 100.0);
        assert_eq!(told.since(NOW), Nanos::from_secs(1));
        let told = line.join(later, 0.0, |_| 200.0);
        assert!(told.since(NOW) < Nanos::from_millis(750));
    }

    #[test]
    fn more_than_can_be_counted_are_spread_beyond() {
        let mut line = Line::new(NOW);
        let latest = (0..5_000).map(|call| line.join(NOW, f64::from(call % 10) / 10.0, |_| 100.0));
        let seconds = latest.max().unwrap().since(NOW).as_secs_f64();
        assert!((30.0..55.0).contains(&seconds), "{seconds}");
        line.advance(NOW + Nanos::from_secs(1_000));
        assert_eq!(line.waiting(NOW), 0);
    }
}
