//! One look for each rule that can deny, in the order in which they are taken. A look
//! changes nothing.

use super::{Ask, MadeUnder, Question};
use crate::{
    Nanos, Policy, Record, backoff,
    breaker::{Admission, Asker},
    permit::{Denial, DenialReason, Facts, OutcomeKind, PermitKind},
    policy::{MaxAttempts, Mode},
    pushback, rate,
    record::{Context, OverrideKind},
};

pub(super) fn look_at_override(
    record: &Record,
    policy: &Policy,
    context: &Context,
) -> Result<(), Denial> {
    match record.order_at(context.now) {
        Some(order) if order.kind == OverrideKind::ForceOpen => Err(match order.expires {
            None => final_denial(DenialReason::ForcedOpen, Facts::None),
            Some(end) => {
                let left = context.now.until(end);
                let spread = policy.breaker.spread;
                later(
                    DenialReason::ForcedOpen,
                    left,
                    spread,
                    context,
                    Facts::Left(left),
                )
            }
        }),
        Some(_) | None => Ok(()),
    }
}

pub(super) fn look_at_call(policy: &Policy, ask: &Ask) -> Result<(), Denial> {
    let (attempt, outcome) = match ask.question {
        Question::Retry { attempt, previous } => (attempt, previous.outcome),
        Question::Hedge { attempt } => {
            look_at_attempts(policy, attempt)?;
            return match ask.idempotent {
                true => Ok(()),
                false => Err(final_denial(DenialReason::HedgeRefused, Facts::None)),
            };
        }
        Question::First | Question::Confirm(_) => return Ok(()),
    };
    let of_kind = Facts::Outcome(outcome.kind);
    if outcome.do_not_retry {
        return Err(final_denial(DenialReason::Pushback, Facts::None));
    }
    match outcome.kind {
        OutcomeKind::Rejected
        | OutcomeKind::Ignored
        | OutcomeKind::Cancelled
        | OutcomeKind::Success => return Err(final_denial(DenialReason::NotRetryable, of_kind)),
        OutcomeKind::Failure
        | OutcomeKind::Timeout
        | OutcomeKind::NotSent
        | OutcomeKind::Throttled => {}
    }
    if outcome.retried_below {
        return Err(final_denial(DenialReason::RetriedBelow, Facts::None));
    }
    look_at_attempts(policy, attempt)?;
    if !ask.idempotent && outcome.kind != OutcomeKind::NotSent {
        return Err(final_denial(DenialReason::RetryUnsafe, of_kind));
    }
    Ok(())
}

fn look_at_attempts(policy: &Policy, attempt: u32) -> Result<(), Denial> {
    match policy.retry.max_attempts {
        MaxAttempts::Limited(max) if attempt > max => Err(final_denial(
            DenialReason::AttemptsExhausted,
            Facts::Attempts { attempt, max },
        )),
        MaxAttempts::Limited(_) | MaxAttempts::Unlimited => Ok(()),
    }
}

/// The time until the hold is over, spread, where the caller can wait so long.
pub(super) fn look_at_hold(
    policy: &Policy,
    record: &Record,
    ask: &Ask,
    context: &Context,
) -> Result<Nanos, Denial> {
    let left = context.now.until(record.held_until());
    if left.is_zero() {
        return Ok(Nanos::ZERO);
    }
    let wait = left.saturating_add(policy.pushback.spread.scaled(context.sample.spread));
    let needed = wait.saturating_add(policy.retry.min_attempt_time);
    match ask.time_left {
        Some(time_left) if needed >= time_left => {
            let spread = policy.pushback.spread;
            Err(later(
                DenialReason::Held,
                left,
                spread,
                context,
                Facts::Left(left),
            ))
        }
        Some(_) | None => Ok(wait),
    }
}

/// Whether the attempt must be a probe. A first attempt that the breaker spares takes a
/// free lease where it can run at once, and passes without one otherwise.
pub(super) fn look_at_breaker(
    policy: &Policy,
    record: &Record,
    ask: &Ask,
    held: Nanos,
    context: &Context,
) -> Result<bool, Denial> {
    if record.order_at(context.now).is_some() {
        return Ok(false);
    }
    let asker = asker(ask);
    look_at_fault(policy, record, ask, asker, context)?;
    let spread = policy.breaker.spread;
    let probes_from = context.probes_from(policy);
    let admission = record
        .breaker
        .admit(&policy.breaker, asker, probes_from, context.now);
    if let (Admission::Probe, Some(left)) = (admission, record.next_look()) {
        // Nobody knows how many are out.
        let is_free = policy.breaker.mode != Mode::Enforce
            || (asker == Asker::FirstAttempt && is_spared(policy, record));
        let facts = Facts::StoreAway(left);
        return match is_free {
            true => Ok(false),
            false => Err(later(
                DenialReason::ProbeInProgress,
                left,
                spread,
                context,
                facts,
            )),
        };
    }
    match admission {
        Admission::Pass => Ok(false),
        Admission::Probe => match ask.question {
            // In shadow mode it takes no lease, but it passes.
            Question::Hedge { .. } if policy.breaker.mode != Mode::Enforce => Ok(false),
            Question::First | Question::Confirm(_)
                if asker == Asker::FirstAttempt && is_spared(policy, record) =>
            {
                Ok(held.is_zero() && has_room_now(policy, record, ask, context))
            }
            Question::Hedge { .. } => Err(final_denial(
                DenialReason::HedgeRefused,
                Facts::Probes {
                    out: record.breaker.probes_out(context.now),
                    of: policy.breaker.probes,
                },
            )),
            Question::First | Question::Retry { .. } | Question::Confirm(_) => Ok(true),
        },
        Admission::Open(left) => Err(later(
            DenialReason::BreakerOpen,
            left,
            spread,
            context,
            Facts::Left(left),
        )),
        Admission::Quarantine(left) => Err(later(
            DenialReason::ProbeInProgress,
            left,
            spread,
            context,
            Facts::Quarantine(left),
        )),
        Admission::ProbesOut { out, first_end } => Err(Denial {
            reason: DenialReason::ProbeInProgress,
            // The verdict may come at any time before the lease ends, so callers are spread
            // over all of it: some of them take the next probes.
            retry_after: Some(
                first_end
                    .saturating_add(spread)
                    .scaled(context.sample.spread)
                    .max(Nanos(1_000_000)),
            ),
            facts: Facts::Probes {
                out,
                of: policy.breaker.probes,
            },
        }),
    }
}

/// The breaker that the caller's own instance may have.
fn look_at_fault(
    policy: &Policy,
    record: &Record,
    ask: &Ask,
    asker: Asker,
    context: &Context,
) -> Result<(), Denial> {
    let spared = asker == Asker::FirstAttempt && is_spared(policy, record);
    if policy.breaker.mode != Mode::Enforce || spared {
        return Ok(());
    }
    let (breaker, now) = (&record.breaker, context.now);
    let refused = match ask.question {
        // Its grant was the one try.
        Question::Confirm(_) => breaker.refused_still(ask.caller, now),
        Question::First | Question::Retry { .. } | Question::Hedge { .. } => {
            breaker.refused(ask.caller, now)
        }
    };
    refused.map_or(Ok(()), |left| {
        let (reason, spread) = (DenialReason::CallerFault, policy.breaker.spread);
        Err(later(reason, left, spread, context, Facts::Left(left)))
    })
}

pub(super) fn asker(ask: &Ask) -> Asker {
    match ask.question {
        Question::First => Asker::FirstAttempt,
        Question::Confirm(permit) if permit.retry == 0 && permit.kind != PermitKind::Hedge => {
            Asker::FirstAttempt
        }
        Question::Retry { .. } | Question::Hedge { .. } | Question::Confirm(_) => Asker::Retry,
    }
}

/// Whether an open breaker would let a first attempt pass.
pub(super) fn is_spared(policy: &Policy, record: &Record) -> bool {
    !record.breaker.binds_first_attempts(&policy.breaker)
}

fn has_room_now(policy: &Policy, record: &Record, ask: &Ask, context: &Context) -> bool {
    let charged_already = matches!(ask.question, Question::Confirm(_));
    policy.rate.as_ref().is_none_or(|limit| {
        let room = record.room(limit, ask.service, ask.cost, context.now);
        charged_already || room == rate::Room::After(Nanos::ZERO)
    })
}

/// A pushback that is too long ends the call; one that is pending denies a probe, which
/// would have to run at once.
pub(super) fn look_at_pushback(
    policy: &Policy,
    ask: &Ask,
    held: Nanos,
    kind: PermitKind,
    context: &Context,
) -> Result<(), Denial> {
    let asked = match ask.question {
        Question::Retry { previous, .. } => previous.outcome.pushback.unwrap_or_default(),
        Question::First | Question::Hedge { .. } | Question::Confirm(_) => Nanos::ZERO,
    };
    let (max, spread) = (policy.pushback.max, policy.pushback.spread);
    let facts = Facts::Pushback { asked, max };
    if asked > max {
        return Err(later(
            DenialReason::PushbackTooLong,
            asked,
            spread,
            context,
            facts,
        ));
    }
    if kind == PermitKind::Probe && !(held.max(asked)).is_zero() {
        let facts = if asked.is_zero() {
            Facts::Left(held)
        } else {
            facts
        };
        return Err(later(
            DenialReason::Held,
            held.max(asked),
            spread,
            context,
            facts,
        ));
    }
    Ok(())
}

/// On the ramp, what failed before the close has waited already: no backoff comes on top of
/// its place.
pub(super) fn backoff_delay(
    policy: &Policy,
    record: &Record,
    ask: &Ask,
    retry: u32,
    climb: Option<Nanos>,
    context: &Context,
) -> Nanos {
    let Question::Retry { previous, .. } = ask.question else {
        return Nanos::ZERO;
    };
    let made_in = match previous.made_under {
        MadeUnder::Permit(permit) => Some(permit.epoch),
        MadeUnder::Epoch(epoch) => Some(epoch),
        MadeUnder::EarlierRun(_) | MadeUnder::Unknown => None,
    };
    let waited = climb.is_some() && made_in.is_none_or(|epoch| epoch < record.breaker.epoch);
    let before = match previous.made_under {
        MadeUnder::Permit(permit) | MadeUnder::EarlierRun(permit) => permit.delay,
        MadeUnder::Epoch(_) | MadeUnder::Unknown => Nanos::ZERO,
    };
    let drawn = match waited {
        true => Nanos::ZERO,
        false => backoff::delay(&policy.retry, retry, before, context.sample.jitter),
    };
    pushback::floor(
        &policy.pushback,
        drawn,
        previous.outcome.pushback,
        context.sample.spread,
    )
}

/// The delay after which the rate limit has room.
pub(super) fn look_at_rate(
    policy: &Policy,
    record: &Record,
    ask: &Ask,
    delay: Nanos,
    context: &Context,
) -> Result<Nanos, Denial> {
    let Some(limit) = &policy.rate else {
        return Ok(delay);
    };
    match record.room(limit, ask.service, ask.cost, context.now) {
        rate::Room::After(wait) if wait <= delay || wait <= limit.max_wait => Ok(delay.max(wait)),
        rate::Room::After(wait) => {
            let facts = Facts::Rate {
                wait,
                max: limit.max_wait,
            };
            let spread = policy.pushback.spread;
            Err(later(
                DenialReason::RateLimited,
                wait,
                spread,
                context,
                facts,
            ))
        }
        rate::Room::Never => {
            let facts = Facts::Cost {
                cost: ask.cost,
                burst: limit.burst,
            };
            Err(final_denial(DenialReason::RateLimited, facts))
        }
    }
}

/// A hedge and a probe run at once or not at all.
pub(super) fn look_at_haste(
    policy: &Policy,
    delay: Nanos,
    kind: PermitKind,
    context: &Context,
) -> Result<(), Denial> {
    if delay.is_zero() {
        return Ok(());
    }
    match kind {
        PermitKind::Hedge => Err(final_denial(DenialReason::HedgeRefused, Facts::Left(delay))),
        PermitKind::Probe => {
            let facts = Facts::Rate {
                wait: delay,
                max: Nanos::ZERO,
            };
            let spread = policy.pushback.spread;
            Err(later(
                DenialReason::RateLimited,
                delay,
                spread,
                context,
                facts,
            ))
        }
        PermitKind::Call | PermitKind::Planned => Ok(()),
    }
}

/// What an attempt is that takes a lease. In shadow mode the would-be probes are ordinary
/// calls.
pub(super) fn kind_of_probe(policy: &Policy, probes: bool, otherwise: PermitKind) -> PermitKind {
    match policy.breaker.mode {
        Mode::Enforce if probes => PermitKind::Probe,
        Mode::Enforce | Mode::Shadow | Mode::Off => otherwise,
    }
}

/// A delay is never shortened to fit.
pub(super) fn look_at_deadline(policy: &Policy, ask: &Ask, delay: Nanos) -> Result<(), Denial> {
    let attempt = policy.retry.min_attempt_time;
    match ask.time_left {
        Some(left) if delay.saturating_add(attempt) >= left => Err(final_denial(
            DenialReason::Deadline,
            Facts::Deadline {
                delay,
                attempt,
                left,
            },
        )),
        Some(_) | None => Ok(()),
    }
}

pub(super) fn look_at_budget(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    context: &Context,
) -> Result<(), Denial> {
    match ask.question {
        Question::First | Question::Confirm(_) => Ok(()),
        Question::Retry { .. } | Question::Hedge { .. } => record
            .look_at_budget(
                &policy.budget,
                ask.caller,
                context.floor_from(policy),
                context.now,
            )
            .map_err(|empty| final_denial(DenialReason::BudgetExhausted, Facts::Budget(empty))),
    }
}

pub(super) fn final_denial(reason: DenialReason, facts: Facts) -> Denial {
    Denial {
        reason,
        retry_after: None,
        facts,
    }
}

/// A denial that says when to ask again: not before `wait`, and spread upwards from it.
pub(super) fn later(
    reason: DenialReason,
    wait: Nanos,
    spread: Nanos,
    context: &Context,
    facts: Facts,
) -> Denial {
    let retry_after = wait.saturating_add(spread.scaled(context.sample.spread));
    Denial {
        reason,
        retry_after: Some(retry_after),
        facts,
    }
}
