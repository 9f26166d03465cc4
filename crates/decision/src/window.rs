//! What the last calls were: the last N, or those of the last span of time.
//!
//! A window of time is a ring of ten buckets over `(now - span, now]`, exact to a bucket; a
//! step costs at most one ring, however long nothing happened. It slides: a window emptied
//! at fixed times would see 90 % failures where the last ten seconds hold 9 %, and miss a
//! burst that straddles its edge.

mod bytes;

use std::collections::VecDeque;

use crate::{
    Nanos, Time,
    bytes::{fields, variants},
    policy,
    policy::WindowSize,
};

const BUCKETS: u64 = 10;
/// The most calls that a window of calls holds.
const CALLS_MAX: u32 = 10_000;

/// The calls in the window.
#[derive(Clone, Debug)]
pub struct Window {
    calls: Calls,
    /// Failures since the last success.
    consecutive_failures: u32,
}

#[derive(Clone, Debug)]
enum Calls {
    Time {
        bucket: u64,
        newest: u64,
        ring: [Counts; BUCKETS as usize],
    },
    Last {
        limit: u32,
        calls: VecDeque<Call>,
        totals: Counts,
    },
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub failed: bool,
    pub slow: bool,
}

/// Calls counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub calls: u32,
    pub failures: u32,
    pub slow: u32,
}

/// Which threshold was reached, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    ConsecutiveFailures(u32),
    FailureRatio(Counts),
    SlowRatio(Counts),
}

fields!(Counts {
    calls,
    failures,
    slow
});
fields!(Window {
    calls,
    consecutive_failures
});
variants!(Reached { ConsecutiveFailures(row) = 0, FailureRatio(counts) = 1, SlowRatio(counts) = 2 });

impl Window {
    pub fn new(size: WindowSize, now: Time) -> Self {
        let calls = match size {
            WindowSize::Time(span) => {
                let bucket = bucket_length(span);
                Calls::Time {
                    bucket,
                    newest: now.0 / bucket,
                    ring: Default::default(),
                }
            }
            WindowSize::Calls(limit) => Calls::Last {
                limit: limit.clamp(1, CALLS_MAX),
                calls: VecDeque::new(),
                totals: Counts::default(),
            },
        };
        Self {
            calls,
            consecutive_failures: 0,
        }
    }

    /// Whether this window was made for `size`.
    pub fn fits(&self, size: WindowSize) -> bool {
        match (&self.calls, size) {
            (Calls::Time { bucket, .. }, WindowSize::Time(span)) => *bucket == bucket_length(span),
            (Calls::Last { limit, .. }, WindowSize::Calls(calls)) => {
                *limit == calls.clamp(1, CALLS_MAX)
            }
            (Calls::Time { .. }, WindowSize::Calls(_)) => false,
            (Calls::Last { .. }, WindowSize::Time(_)) => false,
        }
    }

    /// Adds `count` calls that ended alike at `now`.
    pub fn record(&mut self, call: Call, count: u32, now: Time) {
        if count == 0 {
            return;
        }
        self.consecutive_failures = match call.failed {
            true => self.consecutive_failures.saturating_add(count),
            false => 0,
        };
        self.add(call, count, now);
    }

    /// Adds `counts` calls whose order is not known: they are mixed evenly, and any
    /// success ends a row of failures.
    pub fn record_all(&mut self, counts: Counts, now: Time) {
        let good = counts.calls.saturating_sub(counts.failures);
        let slow_good = counts.slow.min(good);
        let slow_bad = (counts.slow - slow_good).min(counts.failures);
        let mut kinds = [
            (true, true, slow_bad),
            (true, false, counts.failures - slow_bad),
            (false, true, slow_good),
            (false, false, good - slow_good),
        ];
        self.consecutive_failures = match good {
            0 => self.consecutive_failures.saturating_add(counts.failures),
            _ => 0,
        };
        if let Calls::Last { limit, .. } = self.calls {
            shrink(&mut kinds, limit);
            for call in mixed(kinds) {
                self.add(call, 1, now);
            }
        } else {
            for (failed, slow, count) in kinds {
                self.add(Call { failed, slow }, count, now);
            }
        }
    }

    /// Adds `count` calls of which nobody told how they ended: slow ones, and no success
    /// that would end a row of failures.
    pub fn record_silent(&mut self, failed: bool, count: u32, now: Time) {
        if failed {
            self.consecutive_failures = self.consecutive_failures.saturating_add(count);
        }
        self.add(Call { failed, slow: true }, count, now);
    }

    fn add(&mut self, call: Call, count: u32, now: Time) {
        match &mut self.calls {
            Calls::Time {
                bucket,
                newest,
                ring,
            } => {
                let index = now.0 / *bucket;
                turn(ring, newest, index);
                // A call of the past belongs into its own bucket, if that is still there.
                if *newest - index.min(*newest) < BUCKETS {
                    ring[(index % BUCKETS) as usize].add(call, count);
                }
            }
            Calls::Last {
                limit,
                calls,
                totals,
            } => {
                for _ in 0..count.min(*limit) {
                    if calls.len() >= *limit as usize
                        && let Some(oldest) = calls.pop_front()
                    {
                        totals.remove(oldest);
                    }
                    calls.push_back(call);
                    totals.add(call, 1);
                }
            }
        }
    }

    /// The calls in the window at `now`. Changes nothing.
    pub fn counts(&self, now: Time) -> Counts {
        match &self.calls {
            Calls::Time {
                bucket,
                newest,
                ring,
            } => {
                let oldest = (now.0 / bucket).saturating_sub(BUCKETS - 1);
                let held = newest.saturating_sub(BUCKETS - 1)..=*newest;
                held.filter(|index| *index >= oldest)
                    .map(|index| ring[(index % BUCKETS) as usize])
                    .fold(Counts::default(), Counts::plus)
            }
            Calls::Last { totals, .. } => *totals,
        }
    }

    /// Failures since the last success.
    pub fn in_a_row(&self) -> u32 {
        self.consecutive_failures
    }

    /// The first threshold of `policy` that is reached at `now`.
    pub fn reached(&self, policy: &policy::Window, slow: bool, now: Time) -> Option<Reached> {
        if policy.consecutive_failures > 0
            && self.consecutive_failures >= policy.consecutive_failures
        {
            return Some(Reached::ConsecutiveFailures(self.consecutive_failures));
        }
        let counts = self.counts(now);
        let (calls, failures) = (u64::from(counts.calls), u64::from(counts.failures));
        if counts.calls < policy.min_calls {
            None
        } else if policy.failure_ratio.reached_by(failures, calls) {
            Some(Reached::FailureRatio(counts))
        } else if slow && policy.slow_ratio.reached_by(u64::from(counts.slow), calls) {
            Some(Reached::SlowRatio(counts))
        } else {
            None
        }
    }
}

impl Counts {
    fn add(&mut self, call: Call, count: u32) {
        self.calls = self.calls.saturating_add(count);
        self.failures = self
            .failures
            .saturating_add(if call.failed { count } else { 0 });
        self.slow = self.slow.saturating_add(if call.slow { count } else { 0 });
    }

    fn remove(&mut self, call: Call) {
        self.calls = self.calls.saturating_sub(1);
        self.failures = self.failures.saturating_sub(u32::from(call.failed));
        self.slow = self.slow.saturating_sub(u32::from(call.slow));
    }

    fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            failures: self.failures.saturating_add(other.failures),
            slow: self.slow.saturating_add(other.slow),
        }
    }
}

/// So many calls that failed or not, were slow or not.
type Kind = (bool, bool, u32);

/// Keeps the shares of `kinds` and no more than `limit` calls of them.
fn shrink(kinds: &mut [Kind; 4], limit: u32) {
    let total: u64 = kinds.iter().map(|kind| u64::from(kind.2)).sum();
    if total <= u64::from(limit) {
        return;
    }
    let (mut passed, mut given) = (0, 0);
    for kind in kinds {
        passed += u64::from(kind.2);
        let until_here = passed * u64::from(limit) / total;
        kind.2 = (until_here - given) as u32;
        given = until_here;
    }
}

/// One after the other, each time of the kind that is furthest behind its share.
fn mixed(kinds: [Kind; 4]) -> impl Iterator<Item = Call> {
    let total: i64 = kinds.iter().map(|kind| i64::from(kind.2)).sum();
    let mut given = [0_i64; 4];
    (1..=total).filter_map(move |step| {
        let behind = |at: usize| i64::from(kinds[at].2) * step - given[at] * total;
        let next = (0..4).max_by_key(|at| behind(*at))?;
        given[next] += 1;
        let (failed, slow, _) = kinds[next];
        Some(Call { failed, slow })
    })
}

fn bucket_length(span: Nanos) -> u64 {
    span.0.div_ceil(BUCKETS).max(1)
}

/// Empties the buckets between the newest one and `index`: one ring at most.
fn turn(ring: &mut [Counts; BUCKETS as usize], newest: &mut u64, index: u64) {
    let passed = index.saturating_sub(*newest).min(BUCKETS);
    for step in 0..passed {
        ring[((index - step) % BUCKETS) as usize] = Counts::default();
    }
    *newest = index.max(*newest);
}

#[cfg(test)]
mod tests;
