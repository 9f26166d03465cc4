//! The looks at what is promised in places: the ramp's curve and the calendar.
//!
//! A look takes nothing. Where it finds no place it counts the caller as one that waits,
//! since that is what the time it is told depends on.

use super::{
    Ask, Question,
    looks::{asker, is_spared},
};
use crate::{
    Nanos, Policy, Record,
    breaker::Asker,
    calendar::{Place, Wish},
    permit::{Denial, DenialReason, Facts, PermitKind},
    policy::{Mode, RetryRate},
    record::Context,
};

/// The wait for a place on the curve; `None`: the ramp does not bind this attempt.
pub(super) fn look_at_ramp(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    kind: PermitKind,
    context: &Context,
) -> Result<Option<Nanos>, Denial> {
    let now = context.now;
    let spared = asker(ask) == Asker::FirstAttempt && is_spared(policy, record);
    let promised = match ask.question {
        Question::Confirm(permit) => permit.epoch == record.breaker.epoch,
        Question::First | Question::Retry { .. } | Question::Hedge { .. } => false,
    };
    let overridden = record.order_at(now).is_some() || policy.breaker.mode != Mode::Enforce;
    if spared || promised || overridden || kind == PermitKind::Probe {
        return Ok(None);
    }
    let Some(ramp) = record.ramp_mut().filter(|ramp| ramp.lasts(now)) else {
        return Ok(None);
    };
    let call = ask.caller ^ ask.call.unwrap_or_default().rotate_left(32);
    match ramp.room(&policy.ramp, call, context.sample.spread, now) {
        Ok(wait) => Ok(Some(wait)),
        Err(curve) => Err(Denial {
            reason: DenialReason::Recovering,
            retry_after: match kind {
                // It does not come back.
                PermitKind::Hedge => None,
                PermitKind::Call | PermitKind::Planned | PermitKind::Probe => {
                    Some(ramp.line_up(&policy.ramp, call, context.sample.spread, now))
                }
            },
            facts: Facts::Curve(curve),
        }),
    }
}

/// An attempt that has no place yet.
pub(super) struct Unplaced {
    pub kind: PermitKind,
    /// How long a hold delays it.
    pub held: Nanos,
    /// Its wait for a place on the curve, if the ramp binds it.
    pub climb: Option<Nanos>,
    /// The earliest that all rules so far allow.
    pub delay: Nanos,
}

/// The place in the calendar that an attempt gets; `None`: it needs none. A retry needs one,
/// and a first attempt that a hold delays. Who goes when the curve has a place has that,
/// unless an operator has set how many retries there may be.
pub(super) fn look_at_calendar(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    unplaced: &Unplaced,
    context: &Context,
) -> Result<Option<Place>, Denial> {
    let on_curve =
        unplaced.climb == Some(unplaced.delay) && policy.calendar.retry_rate == RetryRate::Auto;
    let needs = match ask.question {
        Question::Retry { .. } => unplaced.kind != PermitKind::Probe && !on_curve,
        Question::First => unplaced.kind != PermitKind::Probe && !unplaced.held.is_zero(),
        Question::Hedge { .. } | Question::Confirm(_) => false,
    };
    match needs {
        true => find_place(policy, record, ask, unplaced.delay, context),
        false => Ok(None),
    }
}

/// The earliest place after `delay`; `None`: there is no calendar.
pub(super) fn find_place(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    delay: Nanos,
    context: &Context,
) -> Result<Option<Place>, Denial> {
    let (now, unit) = (context.now, context.sample.spread);
    let horizon = policy.calendar.horizon;
    let wish = Wish {
        // Also where the clock has gone back: what it has passed is not promised again.
        at: (now + delay).max(record.touched),
        horizon,
        priority: ask.priority,
        caller: ask.caller,
        unit,
    };
    let Some(calendar) = record.calendar_now(policy, now) else {
        return Ok(None);
    };
    calendar.find(&wish).map(Some).map_err(|full| Denial {
        reason: DenialReason::CalendarFull,
        retry_after: Some(calendar.line_up(full.wait(), horizon, unit, now)),
        facts: Facts::Calendar(full),
    })
}
