//! Does a grant still hold? Asked just before an attempt that was delayed for long: the
//! breaker may have opened since.
//!
//! Yes costs and changes nothing, unless the epoch has changed or the attempt must wait
//! longer or probe: then the caller gets a new permit for the same place and token. No makes
//! the permit void and gives its place and token back.

use super::{
    Ask, CONFIRM_ABOVE, Plan, give,
    looks::{
        final_denial, kind_of_probe, look_at_breaker, look_at_deadline, look_at_hold,
        look_at_override, look_at_pushback,
    },
    places::{find_place, look_at_ramp},
    take_places, within_lease,
};
use crate::{
    Nanos, Policy, Record,
    permit::{Denial, DenialReason, Facts, Grant, Permit, PermitKind},
    record::Context,
    replay::{About, Key, Remembered},
    tickets::Ticket,
};

pub(super) fn confirm(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    permit: &Permit,
    context: &Context,
) -> Result<Grant, Denial> {
    let now = context.now;
    let permit = newest(record, ask, *permit, context);
    if now >= permit.expires || record.ticket(permit.serial) != Ticket::Unreported {
        return Err(final_denial(DenialReason::PermitVoid, Facts::None));
    }
    match look_again(policy, record, ask, &permit, context) {
        Ok(plan) => Ok(keep(policy, record, ask, &permit, plan, context)),
        Err(denial) => {
            record.give_back(&permit, now);
            end(record, &permit, context);
            if permit.retry > 0 || permit.kind == PermitKind::Hedge {
                record.refund(&policy.budget, ask.caller, permit.issued, now);
            }
            Err(denial)
        }
    }
}

/// The permit that an earlier confirmation gave for this one, whose answer may be lost.
fn newest(record: &Record, ask: &Ask, mut permit: Permit, context: &Context) -> Permit {
    // Serials only rise, so this ends.
    while let Some(Remembered::Granted(grant)) = record.remembered(&key(ask, &permit), context.now)
        && grant.permit.serial > permit.serial
    {
        permit = grant.permit;
    }
    permit
}

fn key(ask: &Ask, permit: &Permit) -> Key {
    Key {
        caller: ask.caller,
        about: About::Confirmation(permit.serial),
        attempt: 0,
    }
}

/// Rules 3, 5, 6 and 8; what must go later than it was planned needs another place. `probes`
/// in the plan: it must take a lease that it does not hold.
fn look_again(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    permit: &Permit,
    context: &Context,
) -> Result<Plan, Denial> {
    let now = context.now;
    look_at_override(record, policy, context)?;
    let planned = now.until(permit.issued + permit.delay);
    // What was promised for after the hold keeps its place.
    let held = match now.until(record.held_until()) {
        left if planned >= left => Nanos::ZERO,
        _ => look_at_hold(policy, record, ask, context)?,
    };
    let holds_lease =
        permit.epoch == record.breaker.epoch && record.breaker.holds_lease(permit.serial, now);
    let probes = !holds_lease && look_at_breaker(policy, record, ask, held, context)?;
    let kind = match permit.kind {
        PermitKind::Probe if holds_lease => PermitKind::Probe,
        PermitKind::Probe | PermitKind::Call => kind_of_probe(policy, probes, PermitKind::Call),
        PermitKind::Planned => kind_of_probe(policy, probes, PermitKind::Planned),
        PermitKind::Hedge => kind_of_probe(policy, probes, PermitKind::Hedge),
    };
    let climb = look_at_ramp(policy, record, ask, kind, context)?;
    look_at_pushback(policy, ask, held, kind, context)?;
    let delay = match kind {
        PermitKind::Probe => Nanos::ZERO,
        PermitKind::Call | PermitKind::Planned | PermitKind::Hedge => {
            planned.max(held).max(climb.unwrap_or_default())
        }
    };
    let needs_place = match kind {
        PermitKind::Planned => delay > planned,
        PermitKind::Call => !held.is_zero(),
        PermitKind::Probe | PermitKind::Hedge => false,
    };
    let place = match needs_place {
        true => find_place(policy, record, ask, delay, context)?,
        false => None,
    };
    let delay = place.map_or(delay, |place| now.until(place.at));
    look_at_deadline(policy, ask, delay)?;
    Ok(Plan {
        delay,
        probes,
        place,
        climbs: climb.is_some(),
        retry: permit.retry,
        kind: match place {
            Some(_) => PermitKind::Planned,
            None if needs_place => PermitKind::Call,
            None => kind,
        },
    })
}

/// The same permit where nothing has changed for it, otherwise a new one.
fn keep(
    policy: &Policy,
    record: &mut Record,
    ask: &Ask,
    permit: &Permit,
    plan: Plan,
    context: &Context,
) -> Grant {
    let now = context.now;
    let planned = now.until(permit.issued + permit.delay);
    let probe = permit.kind == PermitKind::Probe;
    let same = permit.epoch == record.breaker.epoch && plan.kind == permit.kind;
    // A probe has no delay, even where the clock has gone back to before its issue.
    if same && !plan.probes && (probe || plan.delay == planned) {
        let permit_ttl = (now + plan.delay).until(permit.expires);
        return Grant {
            delay: plan.delay,
            permit: *permit,
            permit_ttl,
            probe,
            confirm: plan.delay > CONFIRM_ABOVE,
            attempt_timeout: probe.then(|| within_lease(permit_ttl)),
        };
    }
    let keeps_place = plan.kind == PermitKind::Planned && plan.place.is_none();
    if !keeps_place {
        record.give_back(permit, now);
    }
    end(record, permit, context);
    take_places(policy, record, &plan, now);
    let mut grant = give(policy, record, plan, now);
    // The token was taken when the attempt was first promised.
    let begins = match keeps_place {
        true => permit.issued + permit.delay,
        false => now + plan.delay,
    };
    grant.permit.issued = permit.issued.min(begins);
    grant.permit.delay = grant.permit.issued.until(begins);
    record.remember(key(ask, permit), Remembered::Granted(grant), now);
    grant
}

/// Nothing more can come of this permit.
fn end(record: &mut Record, permit: &Permit, context: &Context) {
    record.settle_ticket(permit);
    record.breaker.end_lease(permit.serial, context.now);
    record.forget_permit(permit.serial);
}
