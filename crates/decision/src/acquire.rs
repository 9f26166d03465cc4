//! May this attempt be made, and when? The composition that holds the order of the rules.
//!
//! 1. the outcome before is recorded, whatever the answer will be
//! 2. override, 3. may this call be retried at all, 4. hold, 5. breaker, 6. delay and rate,
//!    7. deadline, 8. budget
//!
//! The first rule that denies wins. Every rule is looked at before any is charged, so a
//! denial consumes nothing: no token, no room in the rate, no probe.

use crate::{
    Nanos, Policy, Record, Time, backoff,
    breaker::{Admission, Asker},
    permit::{
        Denial, DenialReason, Facts, Grant, Outcome, OutcomeKind, Permit, PermitKind, Reported,
    },
    policy::{MaxAttempts, Mode},
    pushback, rate,
    record::{Context, OverrideKind, State},
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
    /// The number of the retry for backoff.
    retry: u32,
    kind: PermitKind,
}

/// Answers one question.
pub fn acquire(policy: &Policy, record: &mut Record, ask: &Ask, context: &Context) -> Answer {
    record.advance(policy, context);
    let key = replay_key(ask);
    let (verdict, previous) = match repeated(record, key, context.now) {
        Some(grant) => {
            let retries = matches!(ask.question, Question::Retry { .. });
            (Ok(grant), retries.then_some(Reported::Duplicate))
        }
        None => {
            let previous = record_previous(policy, record, ask, key, context.now);
            (decide(policy, record, ask, key, context), previous)
        }
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
        Question::Confirm(permit) => (About::Confirmation(permit.serial), 0),
    };
    Some(Key {
        caller: ask.caller,
        about,
        attempt,
    })
}

/// The grant that this very question got before.
fn repeated(record: &Record, key: Option<Key>, now: Time) -> Option<Grant> {
    match record.replays.as_ref()?.find(&key?, now)? {
        Remembered::Granted(grant) => Some(grant.after(now.since(grant.permit.issued))),
        Remembered::Counted => None,
    }
}

fn record_previous(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    key: Option<Key>,
    now: Time,
) -> Option<Reported> {
    let Question::Retry { previous, .. } = ask.question else {
        return None;
    };
    Some(match previous.made_under {
        MadeUnder::Permit(permit) => take_report(policy, record, &permit, &previous.outcome, now),
        MadeUnder::EarlierRun(permit) if now >= permit.expires => Reported::Expired,
        MadeUnder::EarlierRun(_) => Reported::StaleEpoch,
        MadeUnder::Unknown => Reported::Unknown,
        MadeUnder::Epoch(epoch) => {
            let counted = key.and_then(|key| record.replays.as_ref()?.find(&key, now));
            if counted.is_some() {
                return Some(Reported::Duplicate);
            }
            if let Some(key) = key {
                record
                    .replays
                    .get_or_insert_default()
                    .remember(key, Remembered::Counted, now);
            }
            record.budget.deposit(&policy.budget, 1, now);
            if epoch != record.breaker.epoch {
                return Some(Reported::StaleEpoch);
            }
            record.take_outcome(policy, &previous.outcome, false, now);
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
        return confirm(policy, record, ask, &permit, key, context);
    }
    let plan = plan(policy, record, ask, context).map_err(|denial| as_hedge(ask, denial))?;
    look_at_budget(policy, record, ask, context)?;
    Ok(grant(policy, record, ask, plan, key, context))
}

/// Looks at every rule but the budget.
fn plan(policy: &Policy, record: &Record, ask: &Ask, context: &Context) -> Result<Plan, Denial> {
    let retry = retry_number(ask);
    if let Question::Retry { previous, .. } = &ask.question
        && let MadeUnder::Permit(permit) = previous.made_under
        && record.tickets.look(permit.serial) == Ticket::Followed
        && context.now < permit.expires
    {
        return Err(final_denial(DenialReason::Duplicate, Facts::None));
    }
    look_at_override(record, policy, context)?;
    look_at_call(policy, ask)?;
    let held = look_at_hold(policy, record, ask, context)?;
    let probes = look_at_breaker(policy, record, ask, context)?;
    look_at_pushback(policy, ask, held, probes, context)?;
    let delay = match kind_of_probe(policy, probes, PermitKind::Call) {
        PermitKind::Probe => Nanos::ZERO,
        PermitKind::Call | PermitKind::Hedge => {
            held.max(backoff_delay(policy, ask, retry, context))
        }
    };
    let delay = look_at_rate(policy, record, ask, delay, context)?;
    look_at_haste(policy, ask, delay, probes, context)?;
    look_at_deadline(policy, ask, delay)?;
    let kind = match ask.question {
        Question::Hedge { .. } => PermitKind::Hedge,
        Question::First | Question::Retry { .. } | Question::Confirm(_) => {
            kind_of_probe(policy, probes, PermitKind::Call)
        }
    };
    Ok(Plan {
        delay,
        probes,
        retry,
        kind,
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

fn look_at_override(record: &Record, policy: &Policy, context: &Context) -> Result<(), Denial> {
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

fn look_at_call(policy: &Policy, ask: &Ask) -> Result<(), Denial> {
    let (attempt, outcome) = match ask.question {
        Question::Retry { attempt, previous } => (attempt, previous.outcome),
        Question::Hedge { .. } if !ask.idempotent => {
            return Err(final_denial(DenialReason::HedgeRefused, Facts::None));
        }
        Question::First | Question::Hedge { .. } | Question::Confirm(_) => return Ok(()),
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
    if let MaxAttempts::Limited(max) = policy.retry.max_attempts
        && attempt > max
    {
        let facts = Facts::Attempts { attempt, max };
        return Err(final_denial(DenialReason::AttemptsExhausted, facts));
    }
    if !ask.idempotent && outcome.kind != OutcomeKind::NotSent {
        return Err(final_denial(DenialReason::RetryUnsafe, of_kind));
    }
    Ok(())
}

/// The time until the hold is over, spread, where the caller can wait so long.
fn look_at_hold(
    policy: &Policy,
    record: &Record,
    ask: &Ask,
    context: &Context,
) -> Result<Nanos, Denial> {
    let left = context.now.until(record.held_until);
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

/// Whether the attempt must be a probe.
fn look_at_breaker(
    policy: &Policy,
    record: &Record,
    ask: &Ask,
    context: &Context,
) -> Result<bool, Denial> {
    if record.order_at(context.now).is_some() {
        return Ok(false);
    }
    let asker = match ask.question {
        Question::First => Asker::FirstAttempt,
        Question::Confirm(permit) if permit.retry == 0 => Asker::FirstAttempt,
        Question::Retry { .. } | Question::Hedge { .. } | Question::Confirm(_) => Asker::Retry,
    };
    let spread = policy.breaker.spread;
    let probes_from = context.probes_from(policy);
    match record
        .breaker
        .admit(&policy.breaker, asker, probes_from, context.now)
    {
        Admission::Pass => Ok(false),
        Admission::Probe => match ask.question {
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

/// A pushback that is too long ends the call; one that is pending denies a probe, which
/// would have to run at once.
fn look_at_pushback(
    policy: &Policy,
    ask: &Ask,
    held: Nanos,
    probes: bool,
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
    let at_once = kind_of_probe(policy, probes, PermitKind::Call) == PermitKind::Probe;
    if at_once && !(held.max(asked)).is_zero() {
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

fn backoff_delay(policy: &Policy, ask: &Ask, retry: u32, context: &Context) -> Nanos {
    let Question::Retry { previous, .. } = ask.question else {
        return Nanos::ZERO;
    };
    let before = match previous.made_under {
        MadeUnder::Permit(permit) | MadeUnder::EarlierRun(permit) => permit.delay,
        MadeUnder::Epoch(_) | MadeUnder::Unknown => Nanos::ZERO,
    };
    let drawn = backoff::delay(&policy.retry, retry, before, context.sample.jitter);
    pushback::floor(
        &policy.pushback,
        drawn,
        previous.outcome.pushback,
        context.sample.spread,
    )
}

/// The delay after which the rate limit has room.
fn look_at_rate(
    policy: &Policy,
    record: &Record,
    ask: &Ask,
    delay: Nanos,
    context: &Context,
) -> Result<Nanos, Denial> {
    let Some(limit) = &policy.rate else {
        return Ok(delay);
    };
    match record.rate.room(limit, ask.service, ask.cost, context.now) {
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
fn look_at_haste(
    policy: &Policy,
    ask: &Ask,
    delay: Nanos,
    probes: bool,
    context: &Context,
) -> Result<(), Denial> {
    if delay.is_zero() {
        return Ok(());
    }
    if let Question::Hedge { .. } = ask.question {
        return Err(final_denial(DenialReason::HedgeRefused, Facts::Left(delay)));
    }
    match kind_of_probe(policy, probes, PermitKind::Call) {
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
        PermitKind::Call | PermitKind::Hedge => Ok(()),
    }
}

/// What an attempt is that takes a lease. In shadow mode the would-be probes are ordinary
/// calls.
fn kind_of_probe(policy: &Policy, probes: bool, otherwise: PermitKind) -> PermitKind {
    match policy.breaker.mode {
        Mode::Enforce if probes => PermitKind::Probe,
        Mode::Enforce | Mode::Shadow | Mode::Off => otherwise,
    }
}

/// A delay is never shortened to fit.
fn look_at_deadline(policy: &Policy, ask: &Ask, delay: Nanos) -> Result<(), Denial> {
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

fn look_at_budget(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    context: &Context,
) -> Result<(), Denial> {
    match ask.question {
        Question::First | Question::Confirm(_) => Ok(()),
        Question::Retry { .. } | Question::Hedge { .. } => record
            .budget
            .look(
                &policy.budget,
                ask.caller,
                context.floor_from(policy),
                context.now,
            )
            .map_err(|empty| final_denial(DenialReason::BudgetExhausted, Facts::Budget(empty))),
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
        Question::First => record.budget.deposit(&policy.budget, 1, now),
        Question::Retry { .. } | Question::Hedge { .. } => {
            record.budget.withdraw(&policy.budget, ask.caller, now);
        }
        Question::Confirm(_) => {}
    }
    if let Some(limit) = &policy.rate {
        record.rate.take(limit, ask.service, ask.cost, now);
    }
    if let Question::Retry { previous, .. } = ask.question
        && let MadeUnder::Permit(permit) = previous.made_under
    {
        record.tickets.settle(permit.serial);
    }
    let grant = give(policy, record, plan, now);
    if let Some(key) = key {
        record
            .replays
            .get_or_insert_default()
            .remember(key, Remembered::Granted(grant), now);
    }
    grant
}

/// Gives out the permit, and the lease where the attempt probes.
fn give(policy: &Policy, record: &mut Record, plan: Plan, now: Time) -> Grant {
    if plan.probes {
        let from = record.inner_state(now);
        if record.breaker.begin_probing(now) {
            record.note_transition(from, now);
        }
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

/// Does the grant still hold? Yes costs and changes nothing, unless the epoch has changed:
/// then the caller gets a permit of this one for the same place and token. No makes the
/// permit void and gives the token back.
fn confirm(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    permit: &Permit,
    key: Option<Key>,
    context: &Context,
) -> Result<Grant, Denial> {
    let now = context.now;
    if now >= permit.expires || record.tickets.look(permit.serial) != Ticket::Unreported {
        return Err(final_denial(DenialReason::PermitVoid, Facts::None));
    }
    let left = now.until(permit.issued + permit.delay);
    let looked = look_at_override(record, policy, context)
        .and_then(|()| look_at_hold(policy, record, ask, context))
        .and_then(|held| {
            let probes = look_at_breaker(policy, record, ask, context)?;
            look_at_pushback(policy, ask, held, probes, context)?;
            let delay = match kind_of_probe(policy, probes, permit.kind) {
                PermitKind::Probe => Nanos::ZERO,
                PermitKind::Call | PermitKind::Hedge => left.max(held),
            };
            look_at_deadline(policy, ask, delay)?;
            Ok((delay, probes))
        });
    let (delay, probes) = match looked {
        Ok(kept) => kept,
        Err(denial) => {
            record.tickets.settle(permit.serial);
            if permit.retry > 0 || permit.kind == PermitKind::Hedge {
                record.budget.refund(&policy.budget, permit.issued, now);
            }
            return Err(denial);
        }
    };
    if permit.epoch == record.breaker.epoch && !probes {
        return Ok(Grant {
            delay,
            permit: *permit,
            permit_ttl: policy.breaker.permit_ttl,
            probe: false,
            confirm: delay > CONFIRM_ABOVE,
            attempt_timeout: None,
        });
    }
    record.tickets.settle(permit.serial);
    let kind = kind_of_probe(policy, probes, permit.kind);
    let grant = give(
        policy,
        record,
        Plan {
            delay,
            probes,
            retry: permit.retry,
            kind,
        },
        now,
    );
    if let Some(key) = key {
        record
            .replays
            .get_or_insert_default()
            .remember(key, Remembered::Granted(grant), now);
    }
    Ok(grant)
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

fn final_denial(reason: DenialReason, facts: Facts) -> Denial {
    Denial {
        reason,
        retry_after: None,
        facts,
    }
}

/// A denial that says when to ask again: not before `wait`, and spread upwards from it.
fn later(
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
