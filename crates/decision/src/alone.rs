//! What one of several replicas may do while it does not know what the others do, since the store
//! that they share is away.
//!
//! No probe is leased: nobody knows how many are out. Of the retry budget a replica has what its own
//! first attempts pay for, and its part of the floor:
//!
//! ```text
//! retries alone <= floor(ratio * first attempts alone + max(0, floor_per_second * ttl - R) / replicas)
//! R: retries of the fleet from before, as last known, that are in the window still
//! ```
//!
//! at every grant, over the window `(t - ttl, t]`, and never beyond what the fleet's budget allows as
//! far as it is known here. So each replica is within the policy over its own calls, and the parts
//! of the floor come to the floor at most. All together, over every window:
//!
//! ```text
//! retries <= ratio * first attempts of this window and the one before + floor_per_second * ttl
//! ```
//!
//! since the first attempts that paid for a retry of one replica may have left the window when
//! another grants. Nothing tighter can be held by replicas that do not talk, but to give the floor
//! alone. Where others may have been granted what is not known here, there is no part of the floor
//! for one window.

use std::collections::VecDeque;

use crate::{
    Nanos, Outcome, Permit, Tally, Time,
    budget::{Budget, Level},
    policy,
    tickets::Tickets,
};

/// Reports that are kept to be told when the store is back; older ones are evidence no more.
const NOTED_MAX: usize = 256;

/// Since when a replica is alone, and among how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The store answered last at this time.
    pub since: Time,
    /// That share the store, as it was last known; at least 1.
    pub replicas: u32,
    /// No other replica has changed the record between what is known of it and `since`.
    pub knows_all: bool,
}

/// A replica that is alone with one record.
#[derive(Clone, Debug)]
pub(crate) struct Alone {
    pub terms: Terms,
    /// When the store is looked at again.
    pub next_look: Nanos,
    /// Of the fleet, as last known.
    pub before: Budget,
    /// Granted here since.
    pub made: Budget,
    /// What is to be told to the store, the oldest first.
    pub noted: VecDeque<Noted>,
    /// What was told and may have arrived.
    pub doubted: VecDeque<Noted>,
    /// Where the tickets of all replicas are shared: those from before.
    pub former: Option<Box<Tickets>>,
    /// The present call may be in the store already: it deposits nothing, and is not noted.
    pub doubts_call: bool,
}

/// A report that the store has not got.
#[derive(Clone, Debug)]
pub(crate) enum Noted {
    Permit(Permit, Outcome, u64, Time),
    /// An attempt on a pushed state of this epoch.
    Pushed(u64, Outcome, u64, Time),
    Tally(Tally, u64, Time),
}

impl Alone {
    pub fn new(terms: Terms, before: Budget) -> Self {
        Self {
            terms,
            next_look: Nanos::ZERO,
            before,
            made: Budget::default(),
            noted: VecDeque::new(),
            doubted: VecDeque::new(),
            former: None,
            doubts_call: false,
        }
    }

    /// Whether all reports are kept, and not only those that give a lease back.
    pub fn notes_all(&self) -> bool {
        self.former.is_some()
    }

    pub fn note(&mut self, noted: Noted) {
        if self.doubts_call {
            return;
        }
        if self.noted.len() >= NOTED_MAX {
            self.noted.pop_front();
        }
        self.noted.push_back(noted);
    }

    /// What it may grant by itself at `now`. The floor counts as spent before `floor_from`.
    pub fn level(&self, policy: &policy::Budget, floor_from: Time, now: Time) -> Level {
        level(
            policy,
            (&self.before, &self.made),
            &self.terms,
            floor_from,
            now,
        )
    }
}

fn level(
    policy: &policy::Budget,
    (before, made): (&Budget, &Budget),
    terms: &Terms,
    floor_from: Time,
    now: Time,
) -> Level {
    let known = before.level(policy, floor_from, now);
    let own = made.level(policy, Time::MAX, now);
    let floor = match now < floor_from {
        true => 0,
        false => crate::budget::floor_micros(policy, policy.ttl),
    };
    let spare = floor.saturating_sub(u128::from(known.retries) * 1_000_000);
    let is_sure = terms.knows_all || now >= terms.since + policy.ttl;
    let part = match is_sure {
        true => spare / u128::from(terms.replicas.max(1)),
        false => 0,
    };
    let allowed = policy.ratio.micros_of(own.first_attempts) + part;
    Level {
        first_attempts: own.first_attempts,
        retries: own.retries,
        allowed: u64::try_from(allowed / 1_000_000).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::tests::policy;

    fn at(ms: u64) -> Time {
        Time(1_000_000_000_000 + ms * 1_000_000)
    }

    fn alone(replicas: u32, knows_all: bool, before: &Budget) -> Alone {
        let terms = Terms {
            since: at(0),
            replicas,
            knows_all,
        };
        Alone::new(terms, before.clone())
    }

    fn grants(alone: &mut Alone, policy: &policy::Budget, asked: u32, now: Time) -> u32 {
        let granted = |alone: &mut Alone| {
            let left = alone.level(policy, Time::ORIGIN, now).left() > 0;
            if left {
                alone.made.withdraw(policy, 1, now);
            }
            left
        };
        (0..asked).filter(|_| granted(alone)).count() as u32
    }

    #[test]
    fn each_has_its_part_of_the_floor_less_what_was_granted_before() {
        let policy = policy(0.2, 1);
        let mut before = Budget::default();
        before.deposit(&policy, 100, at(0));
        for _ in 0..4 {
            before.withdraw(&policy, 1, at(0));
        }
        let mut one = alone(3, true, &before);
        assert_eq!(grants(&mut one, &policy, 100, at(10)), 2, "6 for three");
        assert_eq!(grants(&mut one, &policy, 100, at(5_000)), 0);
        let later = at(25_000);
        assert_eq!(grants(&mut one, &policy, 100, later), 3, "10 for three");
    }

    #[test]
    fn first_attempts_of_its_own_are_paid_for_at_once() {
        let policy = policy(0.2, 0);
        let mut one = alone(5, false, &Budget::default());
        assert_eq!(grants(&mut one, &policy, 10, at(0)), 0);
        one.made.deposit(&policy, 20, at(1));
        assert_eq!(grants(&mut one, &policy, 10, at(1)), 4);
    }

    #[test]
    fn what_others_may_have_taken_unseen_is_not_shared_for_one_window() {
        let policy = policy(0.2, 2);
        let mut one = alone(2, false, &Budget::default());
        assert_eq!(grants(&mut one, &policy, 50, at(9_999)), 0);
        assert_eq!(grants(&mut one, &policy, 50, at(10_000)), 10);
    }

    /// What can be held of invariant 5 by replicas that know nothing of each other.
    #[test]
    fn all_together_stay_within_the_budget_of_two_windows_and_one_floor() {
        let mut draw = 12_345_u64;
        let mut random = move |below: u64| {
            draw = draw
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (draw >> 33) % below
        };
        for story in 0..200_u64 {
            let policy = policy([0.0, 0.1, 0.2, 1.0][random(4) as usize], random(4));
            let replicas = 1 + random(5) as u32;
            let (mut firsts, mut retries) = (Vec::new(), Vec::<Time>::new());
            let mut before = Budget::default();
            let mut begin = Vec::new();
            for _ in 0..random(300) {
                begin.push(random(20_000));
            }
            begin.sort_unstable();
            let past = |ms: u64| Time(at(0).0 - 20_000_000_000 + ms * 1_000_000);
            for ms in begin {
                before.deposit(&policy, 1, past(ms));
                firsts.push(past(ms));
                while random(3) > 0 && before.look(&policy, 1, Time::ORIGIN, past(ms)).is_ok() {
                    before.withdraw(&policy, 1, past(ms));
                    retries.push(past(ms));
                }
            }
            let mut all: Vec<Alone> = (0..replicas)
                .map(|_| alone(replicas, true, &before))
                .collect();
            let mut ms = 0;
            for _ in 0..600 {
                ms += random(80);
                let one = &mut all[random(u64::from(replicas)) as usize];
                if random(2) == 0 {
                    one.made.deposit(&policy, 1, at(ms));
                    firsts.push(at(ms));
                } else if grants(one, &policy, 1, at(ms)) == 1 {
                    retries.push(at(ms));
                    let within = |times: &[Time], windows: u64| {
                        let span = Nanos(policy.ttl.0 * windows);
                        let inside = |it: &&Time| at(ms).since(**it) < span;
                        times.iter().filter(inside).count() as u64
                    };
                    let allowed = policy.ratio.micros_of(within(&firsts, 2))
                        + crate::budget::floor_micros(&policy, policy.ttl);
                    let granted = within(&retries, 1);
                    assert!(
                        u128::from(granted) * 1_000_000 <= allowed,
                        "story {story}: {granted} of {allowed}"
                    );
                }
            }
        }
    }
}
