//! Callers that were told when to ask again, counted by the quarter second they were told.
//!
//! The next one is told the first quarter in which fewer were told than there will be places,
//! at its own moment of it. Those whose time has come are forgotten: they ask again, or they
//! have gone. So one that finds no place again, since the curve is slower than it looked, goes
//! where there is room and not behind everybody, and no time stays empty.

use crate::{Nanos, Time, bytes::fields, evidence::mixed};

const LENGTH: Nanos = Nanos::from_millis(250);
/// Sixteen seconds; who would come later is spread beyond.
const BUCKETS: usize = 64;
/// So much of a quarter is a call's moment: its way back to the service has to fit in.
const MOMENT_PARTS: u64 = 10;
/// From this part of its places on, a quarter is full of those who were told it.
const FULL: f64 = 0.8;

/// The line of one recovery.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// The bucket of now, counted from the origin of time.
    first: u64,
    told: [u32; BUCKETS],
    beyond: u32,
}

fields!(Line { first, told, beyond } if |line| line.first <= u64::MAX / LENGTH.0);

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
    /// second there are at an instant. `unit` places it among those beyond the line.
    pub fn join(
        &mut self,
        start: Time,
        call: u64,
        unit: f64,
        mut places: impl FnMut(Time) -> f64,
    ) -> Time {
        let (moment, end) = (moment_of(call), self.first + BUCKETS as u64);
        for bucket in (start.0 / LENGTH.0).max(self.first)..end {
            let at = begin_of(bucket) + moment;
            if at < start {
                continue;
            }
            let begin = begin_of(bucket).max(start);
            let left = begin.until(begin_of(bucket + 1));
            let room = places(begin) * left.as_secs_f64();
            let told = self.told_mut(bucket);
            if f64::from(*told) < room {
                *told = told.saturating_add(1);
                return at;
            }
        }
        let begin = begin_of(end).max(start);
        self.beyond = self.beyond.saturating_add(1);
        let seconds = f64::from(self.beyond) / places(begin);
        let later = begin + Nanos((seconds * 1e9) as u64).scaled(unit);
        begin_of(later.0 / LENGTH.0) + moment
    }

    /// Whether the places of now are for those who were told to come now, and a call that
    /// asks is none of them.
    pub fn is_kept_for_others(&self, per_second: f64, call: u64, now: Time) -> bool {
        let bucket = now.0 / LENGTH.0;
        let in_line = bucket >= self.first && bucket < self.first + BUCKETS as u64;
        let told = f64::from(self.told[(bucket % BUCKETS as u64) as usize]);
        let is_full = in_line && told >= FULL * per_second * LENGTH.as_secs_f64();
        // The moment before may have been in the quarter before.
        let since_moment = (now.0 % LENGTH.0 + LENGTH.0 - moment_of(call).0) % LENGTH.0;
        is_full && since_moment >= LENGTH.0 / MOMENT_PARTS
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

/// When in a quarter a call comes back.
fn moment_of(call: u64) -> Nanos {
    Nanos(mixed(call) % LENGTH.0)
}

fn begin_of(bucket: u64) -> Time {
    Time(bucket.saturating_mul(LENGTH.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(10_000_000_000);

    #[test]
    fn each_second_is_told_to_as_many_as_it_has_places() {
        let mut line = Line::new(NOW);
        let mut seconds = [0; 6];
        for call in 0..500 {
            let told = line.join(NOW, call, 0.5, |_| 100.0);
            seconds[(told.since(NOW).0 / 1_000_000_000) as usize] += 1;
        }
        assert_eq!(seconds, [100, 100, 100, 100, 100, 0]);
        assert_eq!(line.waiting(NOW), 500);
    }

    #[test]
    fn a_call_is_told_the_same_moment_of_each_quarter_second() {
        let mut line = Line::new(NOW);
        let moments = |line: &mut Line, call| {
            let told = line.join(NOW, call, 0.5, |_| 40.0);
            told.0 % LENGTH.0
        };
        let first: Vec<u64> = (0..100).map(|call| moments(&mut line, call)).collect();
        let again: Vec<u64> = (0..100).map(|call| moments(&mut line, call)).collect();
        assert_eq!(first, again);
        let early = first.iter().filter(|at| **at < LENGTH.0 / 2).count();
        assert!((35..65).contains(&early), "{early} in the first half");
    }

    #[test]
    fn who_comes_in_vain_goes_where_there_is_room() {
        let mut line = Line::new(NOW);
        for call in 0..100 {
            line.join(NOW, call, 0.5, |_| 100.0);
        }
        let later = NOW + Nanos::from_millis(500);
        line.advance(later);
        assert_eq!(line.waiting(later), 50);
        let told = line.join(later, 1, 0.0, |_| 100.0);
        assert!(told.since(NOW) >= Nanos::from_secs(1));
        let told = line.join(later, 1, 0.0, |_| 200.0);
        assert!(told.since(NOW) < Nanos::from_millis(750));
    }

    #[test]
    fn places_are_kept_where_a_quarter_is_full_and_not_at_a_calls_own_moment() {
        let mut line = Line::new(NOW);
        let now = NOW + Nanos::from_millis(100);
        let kept = |line: &Line| {
            (0..600)
                .filter(|call| line.is_kept_for_others(100.0, *call, now))
                .count()
        };
        assert_eq!(kept(&line), 0);
        for call in 0..19 {
            line.join(NOW, call, 0.5, |_| 100.0);
        }
        assert_eq!(kept(&line), 0, "19 of 25 were told");
        line.join(NOW, 19, 0.5, |_| 100.0);
        assert!((515..565).contains(&kept(&line)), "{} of 600", kept(&line));
        assert!(!line.is_kept_for_others(100.0, 1, Time(3)));
    }

    #[test]
    fn more_than_can_be_counted_are_spread_beyond() {
        let mut line = Line::new(NOW);
        let told =
            (0..5_000).map(|call| line.join(NOW, call, (call % 10) as f64 / 10.0, |_| 100.0));
        let seconds = told.max().unwrap().since(NOW).as_secs_f64();
        assert!((30.0..55.0).contains(&seconds), "{seconds}");
        line.advance(NOW + Nanos::from_secs(1_000));
        assert_eq!(line.waiting(NOW), 0);
    }
}
