//! May this attempt be made, and when? The composition that holds the order of the rules.
//!
//! 1. the outcome before is recorded, whatever the answer will be
//! 2. override, 3. may this call be retried at all, 4. hold, 5. breaker and ramp, 6. delay,
//!    calendar and rate, 7. deadline, 8. budget
//!
//! The first rule that denies wins. Every rule is looked at before any is charged, so a
//! denial consumes nothing: no token, no room in the rate, no place, no probe. What is kept
//! of one that found no place is that somebody waits, so that the next is told a later time.

mod confirm;
mod looks;
mod places;
mod reach;

pub use self::reach::{Reach, reach_of_ask, reach_of_report, reach_of_tally};
use self::{
    confirm::confirm,
    looks::{
        backoff_delay, final_denial, kind_of_probe, look_at_breaker, look_at_budget, look_at_call,
        look_at_deadline, look_at_haste, look_at_hold, look_at_override, look_at_pushback,
        look_at_rate,
    },
    places::{Unplaced, look_at_calendar, look_at_ramp},
};
use crate::{
    Nanos, Policy, Record, Time,
    calendar::{Place, Priority},
    permit::{Denial, DenialReason, Facts, Grant, Outcome, Permit, PermitKind, Reported},
    record::{Context, State},
    replay::{About, Key, Remembered},
    report::take_report,
    tickets::Ticket,
};

/// A grant whose delay is longer is asked for again just before the call.
const CONFIRM_ABOVE: Nanos = Nanos::from_secs(1);

/// One question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    pub question: Question,
    /// Hash of the caller's instance.
    pub caller: u64,
    /// Hash of the caller's service, for rates per caller.
    pub service: u64,
    /// Hash of the call's id, where it has one.
    pub call: Option<u64>,
    /// It may be executed twice.
    pub idempotent: bool,
    /// `None`: the caller has no deadline.
    pub time_left: Option<Nanos>,
    pub priority: Priority,
    /// What it takes from the rate limit; at least 1.
    pub cost: u32,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Question {
    First,
    /// An attempt of 2 or more.
    Retry {
        attempt: u32,
        previous: Previous,
    },
    /// A copy of an attempt that is still running.
    Hedge {
        attempt: u32,
    },
    /// Does the grant of this permit still hold?
    Confirm(Permit),
}

/// The attempt before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Previous {
    pub made_under: MadeUnder,
    pub outcome: Outcome,
}

/// What allowed the attempt before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MadeUnder {
    Permit(Permit),
    /// A permit of an earlier run of this service.
    EarlierRun(Permit),
    /// A pushed state of this epoch; the attempt was the first one.
    Epoch(u64),
    /// Something that is no permit of this service.
    Unknown,
}

/// The answer to one question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    pub verdict: Result<Grant, Denial>,
    pub state: State,
    pub epoch: u64,
    /// What became of the outcome before; `None` where there was none.
    pub previous: Option<Reported>,
}

/// What a grant would take.
#[derive(Clone, Copy, Debug)]
struct Plan {
    delay: Nanos,
    probes: bool,
    /// A place to be taken in the calendar.
    place: Option<Place>,
    /// It takes a place on the ramp.
    climbs: bool,
    /// The number of the retry for backoff.
    retry: u32,
    kind: PermitKind,
}

/// Answers one question.
pub fn acquire(policy: &Policy, record: &mut Record, ask: &Ask, context: &Context) -> Answer {
    record.advance(policy, context);
    let key = replay_key(ask);
    let repeated = repeated(record, key, context.now);
    let previous = record_previous(policy, record, ask, key, context.now);
    let verdict = match repeated {
        Some(grant) => give_again(policy, record, ask, grant),
        None => decide(policy, record, ask, key, context),
    };
    Answer {
        verdict,
        state: record.state(policy, context.now),
        epoch: record.breaker.epoch,
        previous,
    }
}

/// What makes a repeated question recognisable; `None` where nothing does.
fn replay_key(ask: &Ask) -> Option<Key> {
    let (about, attempt) = match ask.question {
        Question::First => (About::Call(ask.call?), 1),
        Question::Retry { attempt, previous } => match (ask.call, previous.made_under) {
            (Some(call), _) => (About::Call(call), attempt),
            (None, MadeUnder::Permit(permit)) => (About::After(permit.serial), attempt),
            (None, MadeUnder::EarlierRun(_) | MadeUnder::Epoch(_) | MadeUnder::Unknown) => {
                return None;
            }
        },
        Question::Hedge { attempt } => (About::Hedge(ask.call?), attempt),
        // The rules are looked at again each time.
        Question::Confirm(_) => return None,
    };
    Some(Key {
        caller: ask.caller,
        about,
        attempt,
    })
}

/// The grant that this very question got before. A probe whose lease has ended, by a
/// report or by time, is not given again: it would be one more than may be out.
fn repeated(record: &Record, key: Option<Key>, now: Time) -> Option<Grant> {
    match record.remembered(&key?, now)? {
        Remembered::Granted(grant) => {
            let holds = !grant.probe || record.breaker.holds_lease(grant.permit.serial, now);
            (holds && now < grant.permit.expires).then(|| grant.at(now))
        }
        Remembered::Counted => None,
    }
}

/// The answer was lost, or two attempts of one call failed and both ask: they get one
/// retry. What is left of its delay must still fit.
fn give_again(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    grant: Grant,
) -> Result<Grant, Denial> {
    look_at_deadline(policy, ask, grant.delay)?;
    if let Question::Retry { previous, .. } = ask.question
        && let MadeUnder::Permit(permit) = previous.made_under
    {
        record.settle_ticket(&permit);
    }
    Ok(grant)
}

fn record_previous(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    key: Option<Key>,
    now: Time,
) -> Option<Reported> {
    let Question::Retry { previous, attempt } = ask.question else {
        return None;
    };
    Some(match previous.made_under {
        MadeUnder::Permit(permit) => {
            take_report(policy, record, &permit, &previous.outcome, ask.caller, now)
        }
        MadeUnder::EarlierRun(permit) if now >= permit.expires => Reported::Expired,
        MadeUnder::EarlierRun(_) => Reported::StaleEpoch,
        MadeUnder::Unknown => Reported::Unknown,
        MadeUnder::Epoch(epoch) => {
            let counted = key.and_then(|key| record.remembered(&key, now));
            if counted.is_some() {
                return Some(Reported::Duplicate);
            }
            if let Some(key) = key {
                record.remember(key, Remembered::Counted, now);
            }
            // Only what was a first attempt deposits.
            if attempt == 2 {
                record.deposit(&policy.budget, 1, now);
            }
            if epoch != record.breaker.epoch {
                return Some(Reported::StaleEpoch);
            }
            record.note_pushed(epoch, &previous.outcome, ask.caller, now);
            record.take_outcome(policy, &previous.outcome, ask.caller, false, now);
            Reported::Ok
        }
    })
}

fn decide(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    key: Option<Key>,
    context: &Context,
) -> Result<Grant, Denial> {
    if let Question::Confirm(permit) = ask.question {
        return confirm(policy, record, ask, &permit, context);
    }
    let plan = plan(policy, record, ask, context).map_err(|denial| as_hedge(ask, denial))?;
    look_at_budget(policy, record, ask, context)?;
    Ok(grant(policy, record, ask, plan, key, context))
}

/// Looks at every rule but the budget.
fn plan(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    context: &Context,
) -> Result<Plan, Denial> {
    let retry = retry_number(ask);
    if let Question::Retry { previous, .. } = &ask.question
        && let MadeUnder::Permit(permit) = previous.made_under
        && record.ticket(permit.serial) == Ticket::Followed
        && context.now < permit.expires
    {
        return Err(final_denial(DenialReason::Duplicate, Facts::None));
    }
    look_at_override(record, policy, context)?;
    look_at_call(policy, ask)?;
    let held = look_at_hold(policy, record, ask, context)?;
    let probes = look_at_breaker(policy, record, ask, held, context)?;
    let kind = match ask.question {
        Question::Hedge { .. } => PermitKind::Hedge,
        Question::First | Question::Retry { .. } | Question::Confirm(_) => {
            kind_of_probe(policy, probes, PermitKind::Call)
        }
    };
    let climb = look_at_ramp(policy, record, ask, kind, context)?;
    look_at_pushback(policy, ask, held, kind, context)?;
    let wanted = match kind {
        PermitKind::Probe => Nanos::ZERO,
        PermitKind::Call | PermitKind::Planned | PermitKind::Hedge => {
            let backoff = backoff_delay(policy, record, ask, retry, climb, context);
            held.max(backoff).max(climb.unwrap_or_default())
        }
    };
    let mut unplaced = Unplaced {
        kind,
        held,
        climb,
        delay: wanted,
    };
    let mut place = look_at_calendar(policy, record, ask, &unplaced, context)?;
    let planned = place.map_or(wanted, |place| context.now.until(place.at));
    let mut delay = look_at_rate(policy, record, ask, planned, context)?;
    if delay > planned && place.is_some() {
        unplaced.delay = delay;
        place = look_at_calendar(policy, record, ask, &unplaced, context)?;
        delay = place.map_or(delay, |place| context.now.until(place.at));
    }
    look_at_haste(policy, delay, kind, context)?;
    look_at_deadline(policy, ask, delay)?;
    Ok(Plan {
        delay,
        probes,
        place,
        climbs: climb.is_some(),
        retry,
        kind: match place {
            Some(_) => PermitKind::Planned,
            None => kind,
        },
    })
}

/// 0 for a first attempt. A gRPC pushback restarts the count, and the permit carries it.
fn retry_number(ask: &Ask) -> u32 {
    match ask.question {
        Question::First => 0,
        Question::Hedge { attempt } => attempt.saturating_sub(1),
        Question::Confirm(permit) => permit.retry,
        Question::Retry { attempt, previous } => match previous.made_under {
            _ if previous.outcome.restarts_backoff && previous.outcome.pushback.is_some() => 1,
            MadeUnder::Permit(permit) | MadeUnder::EarlierRun(permit) => {
                permit.retry.saturating_add(1)
            }
            MadeUnder::Epoch(_) | MadeUnder::Unknown => attempt.saturating_sub(1),
        },
    }
}

/// Takes what the plan needs, and remembers the grant.
fn grant(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    plan: Plan,
    key: Option<Key>,
    context: &Context,
) -> Grant {
    let now = context.now;
    match ask.question {
        Question::First => record.deposit(&policy.budget, 1, now),
        Question::Retry { .. } | Question::Hedge { .. } => {
            record.withdraw(&policy.budget, ask.caller, now);
        }
        Question::Confirm(_) => {}
    }
    if let Some(limit) = &policy.rate {
        record.take_room(limit, ask.service, ask.cost, now);
    }
    if let Question::Retry { previous, .. } = ask.question
        && let MadeUnder::Permit(permit) = previous.made_under
    {
        record.settle_ticket(&permit);
    }
    let ends = now + plan.delay + policy.breaker.probe_lease;
    record.breaker.note_try(ask.caller, ends);
    take_places(policy, record, &plan, now);
    let grant = give(policy, record, plan, now);
    if let Some(key) = key {
        record.remember(key, Remembered::Granted(grant), now);
    }
    grant
}

/// Takes what the plan has in the calendar and on the ramp.
fn take_places(policy: &Policy, record: &mut Record, plan: &Plan, now: Time) {
    if let Some(place) = plan.place {
        record.take_place(policy, place, now);
    }
    if plan.climbs
        && let Some(ramp) = record.ramp_mut()
    {
        ramp.take(&policy.ramp, now);
    }
}

/// Gives out the permit, and the lease where the attempt probes.
fn give(policy: &Policy, record: &mut Record, plan: Plan, now: Time) -> Grant {
    if plan.probes && record.breaker.begin_probing(now) {
        record.note_transition(State::Open, now);
    }
    let probe = plan.kind == PermitKind::Probe;
    let permit_ttl = if probe {
        policy.breaker.probe_lease
    } else {
        policy.breaker.permit_ttl
    };
    let expires = now + plan.delay + permit_ttl;
    let serial = record.tickets.issue(expires, now, permit_ttl);
    if plan.probes {
        record
            .breaker
            .lease(serial, now + policy.breaker.probe_lease, now);
    }
    Grant {
        delay: plan.delay,
        permit: Permit {
            epoch: record.breaker.epoch,
            serial,
            issued: now,
            delay: plan.delay,
            expires,
            retry: plan.retry,
            kind: plan.kind,
        },
        permit_ttl,
        probe,
        confirm: plan.delay > CONFIRM_ABOVE,
        attempt_timeout: probe.then(|| within_lease(permit_ttl)),
    }
}

/// A probe is given up a margin before its lease ends: a tenth of it, at least 250 ms,
/// where the lease has so much.
fn within_lease(lease: Nanos) -> Nanos {
    let margin = Nanos(lease.0 / 10)
        .max(Nanos::from_millis(250))
        .min(Nanos(lease.0 / 2));
    lease.saturating_sub(margin)
}

/// A hedge runs at once or is refused, whatever the rule that stands in its way.
fn as_hedge(ask: &Ask, denial: Denial) -> Denial {
    let hedge = matches!(ask.question, Question::Hedge { .. });
    match denial.reason {
        DenialReason::ForcedOpen | DenialReason::HedgeRefused => denial,
        _ if hedge => final_denial(DenialReason::HedgeRefused, denial.facts),
        _ => denial,
    }
}
