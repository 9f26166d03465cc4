//! How many bad calls one instance made within the fleet's window: ten buckets, of time or of
//! the fleet's calls, exact to a bucket.

use crate::{Time, bytes::fields, policy::WindowSize};

const BUCKETS: u64 = 10;

/// Bad calls by bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trail {
    newest: u64,
    failures: [u16; BUCKETS as usize],
    slow: [u16; BUCKETS as usize],
}

fields!(Trail {
    newest,
    failures,
    slow
});

/// Where in a window something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    bucket: u64,
    /// Buckets that the window reaches back, this one included.
    reach: u64,
}

impl Place {
    /// `calls`: those that were counted before.
    pub fn new(size: WindowSize, calls: u64, at: Time) -> Self {
        match size {
            WindowSize::Time(span) => Self {
                bucket: at.0 / span.0.div_ceil(BUCKETS).max(1),
                reach: BUCKETS,
            },
            WindowSize::Calls(limit) => {
                let limit = u64::from(limit.max(1));
                let length = limit.div_ceil(BUCKETS);
                Self {
                    bucket: calls / length,
                    reach: limit.div_ceil(length),
                }
            }
        }
    }
}

impl Trail {
    pub fn add(&mut self, failures: u32, slow: u32, place: Place) {
        for step in 0..place.bucket.saturating_sub(self.newest).min(BUCKETS) {
            let at = ((place.bucket - step) % BUCKETS) as usize;
            (self.failures[at], self.slow[at]) = (0, 0);
        }
        self.newest = self.newest.max(place.bucket);
        if self.newest - place.bucket >= BUCKETS {
            return;
        }
        let at = (place.bucket % BUCKETS) as usize;
        let plus =
            |held: u16, more: u32| held.saturating_add(u16::try_from(more).unwrap_or(u16::MAX));
        self.failures[at] = plus(self.failures[at], failures);
        self.slow[at] = plus(self.slow[at], slow);
    }

    /// Failures and slow calls in the window that ends at `place`. Changes nothing.
    pub fn counts(&self, place: Place) -> (u32, u32) {
        let oldest = place.bucket.saturating_sub(place.reach.saturating_sub(1));
        let held = self.newest.saturating_sub(BUCKETS - 1)..=self.newest;
        held.filter(|bucket| *bucket >= oldest)
            .map(|bucket| (bucket % BUCKETS) as usize)
            .fold((0, 0), |(failures, slow), at| {
                (
                    failures + u32::from(self.failures[at]),
                    slow + u32::from(self.slow[at]),
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nanos;

    #[test]
    fn it_holds_what_the_window_holds_exact_to_a_bucket() {
        let size = WindowSize::Time(Nanos::from_secs(10));
        let at = |seconds: u64| Place::new(size, 0, Time(seconds * 1_000_000_000));
        let mut trail = Trail::default();
        trail.add(3, 1, at(5));
        trail.add(2, 0, at(14));
        assert_eq!(trail.counts(at(14)), (5, 1));
        assert_eq!(trail.counts(at(15)), (2, 0));
        assert_eq!(trail.counts(at(24)), (0, 0));
        trail.add(1, 0, at(1000));
        assert_eq!(trail.counts(at(1000)), (1, 0));
    }

    #[test]
    fn a_window_of_calls_ends_by_calls() {
        let size = WindowSize::Calls(5);
        let mut trail = Trail::default();
        trail.add(1, 0, Place::new(size, 0, Time(1)));
        assert_eq!(trail.counts(Place::new(size, 4, Time(1))), (1, 0));
        assert_eq!(trail.counts(Place::new(size, 5, Time(1))), (0, 0));
    }
}
