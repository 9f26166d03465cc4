//! Who has to agree to an answer, where several replicas have the record: this one alone, or
//! the fleet. Told before the rules run, so that what is decided here is decided in place.
//!
//! ```text
//! here    what changes nothing that is shared: first attempts of a closed breaker, refusals of
//!         an open or forced-open one, reports, tallies; a retry that may not be or finds the
//!         budget spent
//! fleet   what may: retries and hedges, all of half-open and recovering, rates, holds that are
//!         waited for, reports that give a lease or a place back, orders that end
//! ```
//!
//! A report may trip the breaker here: it is refused here at once, and the trip is swapped in.
//! What is said here may be a little behind: a budget that was refilled elsewhere is seen when the
//! other replica's change has come.

use super::{Ask, MadeUnder, Question, looks::look_at_call};
use crate::{
    Permit, PermitKind, Policy, Record, Time,
    policy::Mode,
    record::{OverrideKind, State},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Here,
    Fleet,
    /// It is about a state that may not have been told here: that is asked for first.
    Behind,
    /// What is not done without the store: what operators do.
    Store,
}

/// For a question. `floor_from`: as in [`Context::floor_from`](crate::Context::floor_from).
pub fn reach_of_ask(
    policy: &Policy,
    record: &Record,
    ask: &Ask,
    floor_from: Time,
    now: Time,
) -> Reach {
    if let Question::Retry { previous, .. } = &ask.question
        && let MadeUnder::Permit(permit) = &previous.made_under
        && let reach @ (Reach::Fleet | Reach::Behind) = reach_of_report(record, permit, now)
    {
        return reach;
    }
    match record.order() {
        Some(_) if record.order_at(now).is_none() => return Reach::Fleet,
        Some(order) if order.kind == OverrideKind::ForceOpen => return Reach::Here,
        Some(_) => {}
        None => match record.inner_state(now) {
            State::HalfOpen | State::Recovering => return Reach::Fleet,
            State::Open if refuses(policy, record, ask) => return Reach::Here,
            State::Open | State::Closed | State::ForcedOpen | State::ForcedClosed => {}
        },
    }
    if policy.rate.is_some() || now < record.held_until() {
        return Reach::Fleet;
    }
    match ask.question {
        Question::First => Reach::Here,
        Question::Confirm(_) => Reach::Fleet,
        Question::Retry { .. } | Question::Hedge { .. } => {
            let level = record.budget.level(&policy.budget, floor_from, now);
            match level.left() == 0 || look_at_call(policy, ask).is_err() {
                true => Reach::Here,
                false => Reach::Fleet,
            }
        }
    }
}

/// Whether an open breaker refuses this question.
fn refuses(policy: &Policy, record: &Record, ask: &Ask) -> bool {
    let binds = match ask.question {
        Question::First => record.breaker.binds_first_attempts(&policy.breaker),
        Question::Retry { .. } | Question::Hedge { .. } => true,
        Question::Confirm(_) => false,
    };
    binds && policy.breaker.mode == Mode::Enforce
}

/// For the report of a permit.
pub fn reach_of_report(record: &Record, permit: &Permit, now: Time) -> Reach {
    let is_lease = permit.kind == PermitKind::Probe && now < permit.expires;
    let holds_lease = record.breaker.holds_lease(permit.serial, now);
    if permit.epoch > record.breaker.epoch
        || (is_lease && !holds_lease && permit.epoch == record.breaker.epoch)
    {
        return Reach::Behind;
    }
    let early = permit.kind == PermitKind::Planned && now < permit.issued + permit.delay;
    match early || holds_lease {
        true => Reach::Fleet,
        false => reach_of_tally(record, now),
    }
}

/// For a tally, and for all that only tells how attempts ended.
pub fn reach_of_tally(record: &Record, now: Time) -> Reach {
    let order_ended = record.order().is_some() && record.order_at(now).is_none();
    match order_ended || record.inner_state(now) == State::Recovering {
        true => Reach::Fleet,
        false => Reach::Here,
    }
}
