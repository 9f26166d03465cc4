//! What a client may do with first attempts without asking, and for how long it may rely on
//! that: the state that is pushed to it.
//!
//! A closed breaker lets first attempts go without a hop; what has to be counted call by call
//! (a rate, probes) has to be asked for; what is refused is refused where it is cheapest, in
//! the client. A refusal ends by itself: it is valid for the time that is left plus this
//! subscriber's own spread, and then the client asks.
//!
//! A breaker that spares first attempts lets them go while it is open, but somebody must ask
//! for its probes: where nothing fails there is no retry that would. So that allowance ends
//! with the open period, a free lease has to be asked for, and while all are out first attempts
//! go on until the first of them may have ended.

use crate::{
    Nanos, Policy, Record, State,
    breaker::{Admission, Asker},
    policy::Mode,
    record::Context,
};

/// An allowance to go on is renewed before it ends; a client that hears nothing for so long
/// asks.
pub const GO_VALID_FOR: Nanos = Nanos::from_secs(15);
/// A forced-open breaker without an end is refused for so long at a time.
pub const REFUSE_VALID_FOR: Nanos = Nanos::from_secs(60);

/// What to do with first attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstAttempts {
    Go,
    Ask,
    Refuse,
}

/// What is pushed of one dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub state: State,
    pub epoch: u64,
    pub first_attempts: FirstAttempts,
    pub valid_for: Nanos,
}

/// The standing of first attempts at `context.now`, for one subscriber: the spread is its own.
pub fn standing(policy: &Policy, record: &Record, context: &Context) -> Standing {
    let now = context.now;
    let state = record.state(policy, now);
    let held = now.until(record.held_until());
    let binds = record.breaker.binds_first_attempts(&policy.breaker);
    let open = now.until(record.breaker.past().open_until);
    let probes_out = probes_out(policy, record, state, context);
    // As a denial would be: spread over the time in which a verdict may come, so that a fleet
    // that hears of the first probe does not ask together.
    let verdict_within = |first_end: Nanos| {
        let until = first_end.saturating_add(policy.breaker.spread);
        until.scaled(context.sample.spread).max(Nanos(1_000_000))
    };
    let (first_attempts, valid_for) = if state == State::ForcedOpen {
        let end = record.order_at(now).and_then(|order| order.expires);
        let left = end.map_or(REFUSE_VALID_FOR, |end| now.until(end));
        (
            FirstAttempts::Refuse,
            spread(left, policy.breaker.spread, context),
        )
    } else if !held.is_zero() {
        (
            FirstAttempts::Refuse,
            spread(held, policy.pushback.spread, context),
        )
    } else if state == State::Open && binds {
        (
            FirstAttempts::Refuse,
            spread(open, policy.breaker.spread, context),
        )
    } else if let Some(first_end) = probes_out.filter(|_| binds) {
        (FirstAttempts::Refuse, verdict_within(first_end))
    } else if must_ask(policy, record, state, probes_out.is_some()) {
        (FirstAttempts::Ask, GO_VALID_FOR)
    } else {
        let ends = match (state, probes_out) {
            (State::Open, _) => spread(open, policy.breaker.spread, context),
            (_, Some(first_end)) => verdict_within(first_end),
            (_, None) => GO_VALID_FOR,
        };
        (FirstAttempts::Go, ends.min(GO_VALID_FOR))
    };
    Standing {
        state,
        epoch: record.breaker.epoch,
        first_attempts,
        valid_for,
    }
}

/// As [`standing`], for one instance, whose calls may be refused while those of others pass.
/// Its tries have to be asked for.
pub fn standing_of(policy: &Policy, record: &Record, caller: u64, context: &Context) -> Standing {
    let of_all = standing(policy, record, context);
    let breaker = &record.breaker;
    let binds = policy.breaker.mode == Mode::Enforce
        && record.order_at(context.now).is_none()
        && breaker.binds_first_attempts(&policy.breaker)
        && of_all.first_attempts != FirstAttempts::Refuse;
    let (first_attempts, valid_for) = match breaker.refused(caller, context.now) {
        Some(left) if binds => {
            let valid_for = spread(left, policy.breaker.spread, context);
            (FirstAttempts::Refuse, valid_for)
        }
        None if binds && breaker.has_fault(caller) => (FirstAttempts::Ask, GO_VALID_FOR),
        Some(_) | None => return of_all,
    };
    Standing {
        first_attempts,
        valid_for,
        ..of_all
    }
}

/// When the first of the probes ends that are out, or the time after a restart in which none
/// is leased; `None`: a lease is free, or none is needed.
fn probes_out(policy: &Policy, record: &Record, state: State, context: &Context) -> Option<Nanos> {
    if state != State::HalfOpen {
        return None;
    }
    let probes_from = context.probes_from(policy);
    // As one whom the breaker binds: the others are admitted all the same.
    let (breaker, asker) = (&record.breaker, Asker::Retry);
    match breaker.admit(&policy.breaker, asker, probes_from, context.now) {
        Admission::ProbesOut { first_end, .. } => Some(first_end),
        Admission::Quarantine(left) => Some(left),
        Admission::Pass | Admission::Probe | Admission::Open(_) => None,
    }
}

/// Whether each first attempt has to be decided on its own.
fn must_ask(policy: &Policy, record: &Record, state: State, probes_out: bool) -> bool {
    let one_by_one = match state {
        // Also where it would pass: somebody must take the lease that is free.
        State::HalfOpen => !probes_out,
        State::Recovering => record.breaker.binds_first_attempts(&policy.breaker),
        State::Closed | State::Open | State::ForcedOpen | State::ForcedClosed => false,
    };
    one_by_one || policy.rate.is_some()
}

fn spread(left: Nanos, spread: Nanos, context: &Context) -> Nanos {
    left.saturating_add(spread.scaled(context.sample.spread))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Sample, Time, operate,
        policy::{AppliesTo, Rate},
        record::{Override, OverrideKind},
    };

    fn context(now: u64) -> Context {
        let sample = Sample {
            jitter: 0.0,
            spread: 0.5,
        };
        Context {
            now: Time(now),
            sample,
            restarted: None,
        }
    }

    fn open_record() -> Record {
        let checkpoint = operate::Checkpoint {
            phase: crate::breaker::Phase::Open,
            epoch: 4,
            level: 1,
            trips: 1,
            left: Nanos::from_secs(10),
            usual: None,
        };
        operate::restore(&checkpoint, Time(0))
    }

    fn first_attempts(policy: &Policy, record: &Record, now: u64) -> FirstAttempts {
        standing(policy, record, &context(now)).first_attempts
    }

    #[test]
    fn a_closed_breaker_lets_first_attempts_go_and_a_rate_makes_them_ask() {
        let record = Record::new(1, Time(0));
        let mut policy = Policy::default();
        assert_eq!(first_attempts(&policy, &record, 1), FirstAttempts::Go);
        policy.rate = Some(Rate {
            per_second: 1.0,
            burst: 1,
            max_wait: Nanos::ZERO,
            per_caller: false,
        });
        assert_eq!(first_attempts(&policy, &record, 1), FirstAttempts::Ask);
    }

    #[test]
    fn an_open_breaker_refuses_until_its_end_plus_the_subscribers_spread() {
        let standing = standing(&Policy::default(), &open_record(), &context(0));
        assert_eq!(standing.first_attempts, FirstAttempts::Refuse);
        assert_eq!(standing.valid_for, Nanos::from_secs(11));
    }

    #[test]
    fn an_open_breaker_that_spares_first_attempts_lets_them_go() {
        let mut policy = Policy::default();
        policy.breaker.applies_to = AppliesTo::Retries;
        assert_eq!(
            first_attempts(&policy, &open_record(), 0),
            FirstAttempts::Go
        );
    }

    #[test]
    fn a_free_probe_is_asked_for_also_where_first_attempts_are_spared() {
        let mut policy = Policy::default();
        policy.breaker.applies_to = AppliesTo::Retries;
        let mut record = open_record();
        let seconds = |seconds: u64| Nanos::from_secs(seconds).0;
        let open = standing(&policy, &record, &context(seconds(4)));
        assert_eq!(open.first_attempts, FirstAttempts::Go);
        let ends = Nanos::from_secs(6 + 1);
        assert_eq!(open.valid_for, ends, "with the open period, spread");
        let now = Time(seconds(10));
        let first_attempts = |record: &Record| first_attempts(&policy, record, now.0);
        assert_eq!(first_attempts(&record), FirstAttempts::Ask);
        record.breaker.begin_probing(now);
        record.breaker.lease(1, now + Nanos::from_secs(5), now);
        assert_eq!(first_attempts(&record), FirstAttempts::Go);
        let out = standing(&policy, &record, &context(now.0));
        let verdict = Nanos::from_millis(3_500);
        assert_eq!(out.valid_for, verdict, "spread over the time of a verdict");
        record.breaker.end_lease(1, now);
        assert_eq!(first_attempts(&record), FirstAttempts::Ask);
    }

    #[test]
    fn half_open_with_all_probes_out_refuses_and_spreads_the_return() {
        let mut record = open_record();
        let now = Time(Nanos::from_secs(10).0);
        record.breaker.begin_probing(now);
        record.breaker.lease(1, now + Nanos::from_secs(5), now);
        let standing = standing(&Policy::default(), &record, &context(now.0));
        assert_eq!(standing.first_attempts, FirstAttempts::Refuse);
        assert_eq!(standing.valid_for, Nanos::from_millis(3_500));
    }

    #[test]
    fn half_open_is_asked_for() {
        let after = Nanos::from_secs(10).0;
        assert_eq!(
            first_attempts(&Policy::default(), &open_record(), after),
            FirstAttempts::Ask
        );
    }

    #[test]
    fn a_hold_and_an_order_refuse_whatever_the_breaker_says() {
        let mut record = Record::new(1, Time(0));
        record.hold_until(Time(Nanos::from_secs(20).0));
        assert_eq!(
            first_attempts(&Policy::default(), &record, 0),
            FirstAttempts::Refuse
        );
        let mut record = Record::new(1, Time(0));
        let order = Override {
            kind: OverrideKind::ForceOpen,
            owner: "o".into(),
            reason: "r".into(),
            set_at: Time(0),
            expires: None,
        };
        operate::set_override(&mut record, order, Time(0));
        assert_eq!(
            first_attempts(&Policy::default(), &record, 1),
            FirstAttempts::Refuse
        );
    }
}
