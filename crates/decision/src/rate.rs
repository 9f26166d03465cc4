//! A limit on calls per second, by the generic cell rate algorithm (ITU-T I.371): one
//! instant, the theoretical arrival time, says how far ahead of its rate the traffic is.
//!
//! Over every interval (s, t]: admitted <= burst + per_second * (t - s). A call that may
//! wait is charged when it is promised.

use std::collections::BTreeMap;

use crate::{Nanos, Time, bytes::fields, policy};

/// Callers that have a limit of their own at the same time; those beyond share one.
pub const CALLERS_MAX: usize = 4_096;

/// How far ahead of its rate a dependency's traffic is.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    arrival: Time,
    /// Only where the policy has a limit for each caller service.
    callers: Option<Box<BTreeMap<u64, Time>>>,
}

fields!(Rate { arrival, callers } if |rate| {
    rate.callers.as_ref().is_none_or(|callers| callers.len() <= CALLERS_MAX)
});

/// Whether there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// At once where the wait is zero.
    After(Nanos),
    /// The cost is above the burst: there never is.
    Never,
}

/// What a limit has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Calls that would pass at once.
    pub calls: u32,
    /// Until all of the burst is free again, if nobody calls.
    pub full_in: Nanos,
}

impl Rate {
    /// What is left for `caller`. Takes nothing.
    pub fn left(&self, policy: &policy::Rate, caller: u64, now: Time) -> Left {
        let full_in = now.until(self.charged(policy, caller, 0, now));
        let taken = full_in.0.div_ceil(interval(policy).max(1));
        let calls = u64::from(policy.burst).saturating_sub(taken);
        Left {
            calls: u32::try_from(calls).unwrap_or(u32::MAX),
            full_in,
        }
    }

    /// Undoes what `cost` calls of `caller` took; there is never more room than all of the burst.
    pub fn give_back(&mut self, policy: &policy::Rate, caller: u64, cost: u32) {
        let undone = |arrival: Time| {
            let taken = interval(policy).saturating_mul(u64::from(cost));
            Time(arrival.0.saturating_sub(taken))
        };
        match self.callers.as_mut().and_then(|all| all.get_mut(&caller)) {
            Some(arrival) if policy.per_caller => *arrival = undone(*arrival),
            Some(_) | None => self.arrival = undone(self.arrival),
        }
    }

    /// When there is room for `cost` calls of `caller`. Takes nothing.
    pub fn room(&self, policy: &policy::Rate, caller: u64, cost: u32, now: Time) -> Room {
        if cost > policy.burst {
            return Room::Never;
        }
        let after = self.charged(policy, caller, cost, now);
        let tolerance = interval(policy).saturating_mul(u64::from(policy.burst));
        Room::After(now.until(Time(after.0.saturating_sub(tolerance))))
    }

    /// Takes what [`Self::room`] looked at.
    pub fn take(&mut self, policy: &policy::Rate, caller: u64, cost: u32, now: Time) {
        let after = self.charged(policy, caller, cost, now);
        if !policy.per_caller {
            self.arrival = after;
            return;
        }
        let callers = self.callers.get_or_insert_default();
        if callers.len() >= CALLERS_MAX && !callers.contains_key(&caller) {
            callers.retain(|_, arrival| *arrival > now);
        }
        if callers.len() < CALLERS_MAX || callers.contains_key(&caller) {
            callers.insert(caller, after);
        } else {
            self.arrival = after;
        }
    }

    /// Whether all of the burst is free.
    pub fn is_idle(&self, now: Time) -> bool {
        let callers = self.callers.iter().flat_map(|callers| callers.values());
        callers
            .chain([&self.arrival])
            .all(|arrival| *arrival <= now)
    }

    /// Whether it holds nothing that a new one would not.
    pub fn is_unused(&self) -> bool {
        self.arrival == Time::ORIGIN && self.callers.is_none()
    }

    fn charged(&self, policy: &policy::Rate, caller: u64, cost: u32, now: Time) -> Time {
        let arrival = match &self.callers {
            Some(callers) if policy.per_caller => match callers.get(&caller) {
                Some(arrival) => *arrival,
                None if callers.len() < CALLERS_MAX => Time::ORIGIN,
                None => self.arrival,
            },
            Some(_) => self.arrival,
            None if policy.per_caller => Time::ORIGIN,
            None => self.arrival,
        };
        arrival.max(now) + Nanos(interval(policy).saturating_mul(u64::from(cost)))
    }
}

/// Nanoseconds between two calls, rounded up so that the rate is never exceeded.
fn interval(policy: &policy::Rate) -> u64 {
    (1e9 / policy.per_second).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(per_second: f64, burst: u32) -> policy::Rate {
        policy::Rate {
            per_second,
            burst,
            max_wait: Nanos::ZERO,
            per_caller: false,
        }
    }

    #[test]
    fn a_burst_passes_and_then_one_call_per_interval() {
        let policy = policy(10.0, 3);
        let mut rate = Rate::default();
        let now = Time(5_000_000_000);
        for _ in 0..3 {
            assert_eq!(rate.room(&policy, 0, 1, now), Room::After(Nanos::ZERO));
            rate.take(&policy, 0, 1, now);
        }
        assert_eq!(
            rate.room(&policy, 0, 1, now),
            Room::After(Nanos::from_millis(100))
        );
        let later = now + Nanos::from_millis(100);
        assert_eq!(rate.room(&policy, 0, 1, later), Room::After(Nanos::ZERO));
    }

    #[test]
    fn what_is_left_is_what_would_pass_and_what_is_given_back_is_left_again() {
        let policy = policy(10.0, 3);
        let mut rate = Rate::default();
        let now = Time(5_000_000_000);
        let left = |rate: &Rate| {
            let left = rate.left(&policy, 0, now);
            (left.calls, left.full_in)
        };
        assert_eq!(left(&rate), (3, Nanos::ZERO));
        for taken in 1..=3_u32 {
            rate.take(&policy, 0, 1, now);
            let full_in = Nanos::from_millis(u64::from(taken) * 100);
            assert_eq!(left(&rate), (3 - taken, full_in));
        }
        rate.take(&policy, 0, 5, now);
        assert_eq!(left(&rate), (0, Nanos::from_millis(800)));
        rate.give_back(&policy, 0, 6);
        assert_eq!(left(&rate), (1, Nanos::from_millis(200)));
        rate.give_back(&policy, 0, 600);
        assert_eq!(left(&rate), (3, Nanos::ZERO));
    }

    #[test]
    fn a_cost_of_nothing_passes_until_more_than_the_burst_is_taken() {
        let policy = policy(10.0, 3);
        let mut rate = Rate::default();
        let now = Time(5_000_000_000);
        rate.take(&policy, 0, 3, now);
        assert_eq!(rate.room(&policy, 0, 0, now), Room::After(Nanos::ZERO));
        rate.take(&policy, 0, 2, now);
        let wait = Room::After(Nanos::from_millis(200));
        assert_eq!(rate.room(&policy, 0, 0, now), wait);
    }

    #[test]
    fn a_cost_above_the_burst_never_has_room() {
        assert_eq!(
            Rate::default().room(&policy(10.0, 3), 0, 4, Time(0)),
            Room::Never
        );
    }

    #[test]
    fn each_caller_has_a_limit_of_its_own_where_the_policy_says_so() {
        let policy = policy::Rate {
            per_caller: true,
            ..policy(1.0, 1)
        };
        let mut rate = Rate::default();
        rate.take(&policy, 1, 1, Time(0));
        assert_eq!(
            rate.room(&policy, 1, 1, Time(0)),
            Room::After(Nanos::from_secs(1))
        );
        assert_eq!(rate.room(&policy, 2, 1, Time(0)), Room::After(Nanos::ZERO));
    }

    #[test]
    fn the_table_of_callers_is_bounded_and_those_beyond_share_one_limit() {
        let policy = policy::Rate {
            per_caller: true,
            ..policy(0.001, 1)
        };
        let mut rate = Rate::default();
        for caller in 0..CALLERS_MAX as u64 + 10 {
            rate.take(&policy, caller, 1, Time(1));
        }
        assert_eq!(rate.callers.as_ref().unwrap().len(), CALLERS_MAX);
        assert_ne!(
            rate.room(&policy, u64::MAX, 1, Time(1)),
            Room::After(Nanos::ZERO)
        );
    }
}
