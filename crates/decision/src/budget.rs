//! How many retries the whole fleet may make: a share of its first attempts plus a floor.
//!
//! At every grant at `t`, over the window `(t - ttl, t]`, this grant included:
//!
//! ```text
//! retries <= floor(ratio * first attempts + floor_per_second * ttl)
//! ```
//!
//! in exact integers (ratio 0.2: four first attempts allow none, five allow one). A retry is
//! charged when it is promised, not when it runs: a thousand retries that wait in backoff
//! have been granted already. Retries and hedges deposit nothing. The floor is that of the
//! dependency, not of each client.
//!
//! The window is a ring of ten buckets and the part of an eleventh. The eleventh lies
//! partly outside of the window, so its retries count and its first attempts do not:
//! rounding goes against the grant. `ttl` is taken up to a multiple of 10 ns.

use crate::{Nanos, Time, bytes::fields, policy};

const BUCKETS: u64 = 10;
const RING: usize = BUCKETS as usize + 1;
/// One instance counts as asking for so long after it asked for a retry.
const ASKING: Nanos = Nanos::from_secs(2);
/// Caller instances whose part is tracked at the same time; the longest silent one goes.
const CALLERS_MAX: usize = 64;

/// The first attempts and retries of the last `ttl`.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    /// Length of a bucket; 0 before the first use.
    pub(crate) bucket: u64,
    /// The newest bucket, counted from the origin of time.
    newest: u64,
    ring: [Bucket; RING],
    pub(crate) callers: Option<Box<Vec<CallerPart>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    first_attempts: u32,
    retries: u32,
}

/// What one caller instance took since `since`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerPart {
    caller: u64,
    since: Time,
    asked: Time,
    taken: u32,
}

fields!(Bucket {
    first_attempts,
    retries
});
fields!(CallerPart {
    caller,
    since,
    asked,
    taken
});
// The parts of instances are written beside it: the core of a record is small.
fields!(Budget { bucket, newest, ring } without { callers: None });

/// What the window holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub first_attempts: u64,
    pub retries: u64,
    /// Retries that the window allows in all.
    pub allowed: u64,
}

impl Level {
    /// Retries that would be granted now.
    pub fn left(&self) -> u64 {
        self.allowed.saturating_sub(self.retries)
    }
}

/// Why there is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// The fleet has none left; the oldest that it took returns after `next` at the latest.
    Fleet { level: Level, next: Nanos },
    /// This instance has had its part while others ask.
    Caller { taken: u32, part: u64 },
}

impl Budget {
    /// Counts first attempts.
    pub fn deposit(&mut self, policy: &policy::Budget, count: u32, now: Time) {
        self.turn_to(policy, now);
        let bucket = self.bucket_mut(self.newest);
        bucket.first_attempts = bucket.first_attempts.saturating_add(count);
    }

    /// As [`Self::deposit`], into the bucket in which they were made, where the window may have
    /// turned beyond it.
    pub(crate) fn deposit_made(&mut self, policy: &policy::Budget, count: u32, made: Time) {
        let index = self.turn_to(policy, made);
        if self.newest - index < RING as u64 {
            let bucket = self.bucket_mut(index);
            bucket.first_attempts = bucket.first_attempts.saturating_add(count);
        }
    }

    /// Whether one retry of `caller` may be granted now. Takes nothing. The floor counts
    /// as spent before `floor_from`.
    pub fn look(
        &mut self,
        policy: &policy::Budget,
        caller: u64,
        floor_from: Time,
        now: Time,
    ) -> Result<(), Empty> {
        self.turn_to(policy, now);
        let level = self.level(policy, floor_from, now);
        if level.left() == 0 {
            return Err(Empty::Fleet {
                level,
                next: self.next_return(now),
            });
        }
        self.look_at_caller(policy, caller, level, now)
    }

    /// Takes the token that [`Self::look`] saw.
    pub fn withdraw(&mut self, policy: &policy::Budget, caller: u64, now: Time) {
        self.turn_to(policy, now);
        let bucket = self.bucket_mut(self.newest);
        bucket.retries = bucket.retries.saturating_add(1);
        let part = self.part_of(policy, caller, now);
        part.taken = part.taken.saturating_add(1);
    }

    /// Gives back a token that `caller` took at `taken_at`; nothing where that has left
    /// the window.
    pub fn refund(&mut self, policy: &policy::Budget, caller: u64, taken_at: Time, now: Time) {
        self.turn_to(policy, now);
        let index = taken_at.0 / self.bucket;
        if index <= self.newest && self.newest - index < RING as u64 {
            let bucket = self.bucket_mut(index);
            bucket.retries = bucket.retries.saturating_sub(1);
        }
        let own = self
            .callers
            .iter_mut()
            .flat_map(|callers| callers.iter_mut())
            .find(|part| part.caller == caller && part.since <= taken_at);
        if let Some(part) = own {
            part.taken = part.taken.saturating_sub(1);
        }
    }

    /// Counts what another window holds, each in the bucket in which it was made.
    pub(crate) fn add_all(&mut self, policy: &policy::Budget, other: &Self, now: Time) {
        if other.bucket == 0 {
            return;
        }
        self.turn_to(
            policy,
            now.max(Time(other.newest.saturating_mul(other.bucket))),
        );
        for index in other.newest.saturating_sub(BUCKETS)..=other.newest {
            let made = other.ring[(index % RING as u64) as usize];
            // Of another length: first attempts as if they had come at the begin of their bucket,
            // retries as if at its end.
            let begin = index.saturating_mul(other.bucket) / self.bucket;
            let end = index.saturating_add(1).saturating_mul(other.bucket);
            let end = (end.saturating_sub(1) / self.bucket).min(self.newest);
            if begin <= self.newest && self.newest - begin < RING as u64 {
                let sum = &mut self.bucket_mut(begin).first_attempts;
                *sum = sum.saturating_add(made.first_attempts);
            }
            if self.newest - end < RING as u64 {
                let sum = &mut self.bucket_mut(end).retries;
                *sum = sum.saturating_add(made.retries);
            }
        }
    }

    /// Only the retries: what pays for them is left out.
    pub(crate) fn retries_alone(&self) -> Self {
        let mut alone = self.clone();
        for bucket in &mut alone.ring {
            bucket.first_attempts = 0;
        }
        alone.callers = None;
        alone
    }

    /// What the window holds at `now`. Changes nothing.
    pub fn level(&self, policy: &policy::Budget, floor_from: Time, now: Time) -> Level {
        let newest = now.0.checked_div(self.bucket).unwrap_or(0).max(self.newest);
        let (mut first_attempts, mut retries) = (0_u64, 0_u64);
        for index in newest.saturating_sub(BUCKETS)..=self.newest {
            let bucket = self.ring[(index % RING as u64) as usize];
            retries += u64::from(bucket.retries);
            if newest - index < BUCKETS {
                first_attempts += u64::from(bucket.first_attempts);
            }
        }
        let floor = match now < floor_from {
            true => 0,
            false => floor_micros(policy, policy.ttl),
        };
        let allowed = (policy.ratio.micros_of(first_attempts) + floor) / 1_000_000;
        Level {
            first_attempts,
            retries,
            allowed: u64::try_from(allowed).unwrap_or(u64::MAX),
        }
    }

    /// Whether no retry is in the window.
    pub fn is_idle(&self, now: Time) -> bool {
        let newest = now.0.checked_div(self.bucket).unwrap_or(0);
        let retries = (self.newest.saturating_sub(BUCKETS)..=self.newest)
            .filter(|index| newest.saturating_sub(*index) <= BUCKETS)
            .map(|index| self.ring[(index % RING as u64) as usize].retries);
        retries.into_iter().all(|retries| retries == 0)
    }

    /// Forgets the buckets that have left the window, and says in which one now is. Costs a
    /// ring at most, however long the time since the last use.
    fn turn_to(&mut self, policy: &policy::Budget, now: Time) -> u64 {
        let bucket = policy.ttl.0.div_ceil(BUCKETS).max(1);
        if bucket != self.bucket {
            self.change_length(policy, bucket, now);
        }
        let newest = now.0 / self.bucket;
        let passed = newest.saturating_sub(self.newest).min(RING as u64);
        for index in 0..passed {
            *self.bucket_mut(newest - index) = Bucket::default();
        }
        self.newest = newest.max(self.newest);
        newest
    }

    /// A new `ttl`. What is known goes into the new buckets, rounded against the grant:
    /// retries as if they had been granted at the end of their old bucket, first attempts
    /// as if they had come at its begin. What a longer window adds to the floor counts as
    /// spent at first, since the retries before the old window are not known any more.
    fn change_length(&mut self, policy: &policy::Budget, bucket: u64, now: Time) {
        let (old, length, last) = (self.ring, self.bucket, self.newest);
        self.bucket = bucket;
        self.newest = now.0 / bucket;
        self.ring = [Bucket::default(); RING];
        if length == 0 {
            return;
        }
        for index in last.saturating_sub(BUCKETS)..=last {
            let known = old[(index % RING as u64) as usize];
            let begin = index.saturating_mul(length).min(now.0) / bucket;
            let end = index
                .saturating_add(1)
                .saturating_mul(length)
                .saturating_sub(1)
                .min(now.0)
                / bucket;
            if self.newest - begin < RING as u64 {
                let into = self.bucket_mut(begin);
                into.first_attempts = into.first_attempts.saturating_add(known.first_attempts);
            }
            if self.newest - end < RING as u64 {
                let into = self.bucket_mut(end);
                into.retries = into.retries.saturating_add(known.retries);
            }
        }
        let longer = bucket.saturating_sub(length).saturating_mul(BUCKETS);
        let unknown = floor_micros(policy, Nanos(longer)).div_ceil(1_000_000);
        let newest = self.bucket_mut(self.newest);
        newest.retries = newest
            .retries
            .saturating_add(u32::try_from(unknown).unwrap_or(u32::MAX));
    }

    fn bucket_mut(&mut self, index: u64) -> &mut Bucket {
        &mut self.ring[(index % RING as u64) as usize]
    }

    /// The longest wait until the oldest retry leaves the window.
    fn next_return(&self, now: Time) -> Nanos {
        (self.newest.saturating_sub(BUCKETS)..=self.newest)
            .find(|index| self.ring[(index % RING as u64) as usize].retries > 0)
            .map_or(Nanos(self.bucket), |index| {
                let leaves = index
                    .saturating_add(RING as u64)
                    .saturating_mul(self.bucket);
                now.until(Time(leaves))
            })
    }

    fn look_at_caller(
        &mut self,
        policy: &policy::Budget,
        caller: u64,
        level: Level,
        now: Time,
    ) -> Result<(), Empty> {
        let own = *self.part_of(policy, caller, now);
        let others_ask = self
            .callers
            .iter()
            .flat_map(|callers| callers.iter())
            .any(|other| other.caller != caller && now.since(other.asked) <= ASKING);
        let part = policy.max_caller_share.micros_of(level.allowed);
        let part = u64::try_from(part.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        match others_ask && u64::from(own.taken) >= part.max(1) {
            true => Err(Empty::Caller {
                taken: own.taken,
                part: part.max(1),
            }),
            false => Ok(()),
        }
    }

    fn part_of(&mut self, policy: &policy::Budget, caller: u64, now: Time) -> &mut CallerPart {
        let callers = self.callers.get_or_insert_default();
        let at = match callers.iter().position(|part| part.caller == caller) {
            Some(at) => at,
            None => {
                if callers.len() >= CALLERS_MAX {
                    let longest_silent = (0..callers.len()).min_by_key(|at| callers[*at].asked);
                    callers.swap_remove(longest_silent.unwrap_or(0));
                }
                callers.push(CallerPart {
                    caller,
                    since: now,
                    asked: now,
                    taken: 0,
                });
                callers.len() - 1
            }
        };
        let part = &mut callers[at];
        if now.since(part.since) >= policy.ttl {
            (part.since, part.taken) = (now, 0);
        }
        part.asked = part.asked.max(now);
        part
    }
}

/// What the floor allows in `span`, in millionths of a retry.
pub(crate) fn floor_micros(policy: &policy::Budget, span: Nanos) -> u128 {
    u128::from(policy.floor_micros_per_second) * u128::from(span.0) / 1_000_000_000
}

#[cfg(test)]
pub(crate) mod tests;
