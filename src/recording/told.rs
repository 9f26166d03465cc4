//! Between what happened and its message, each way.
//!
//! What a judge does not read is not kept: the numbers behind a denial, how long a permit lives
//! (its end says that), who gave an order.

use holdoff_decision::{
    Ask, Context, Denial, DenialReason, Grant, MadeUnder, Nanos, Outcome, OutcomeKind, Permit,
    PermitKind, Previous, Priority, Question, Reported, Restart, Sample, Tally, Time,
    permit::Facts,
    record::{Override, OverrideKind},
};

use super::format;
use crate::candidate::{Before, Happening};

const UNITS: f64 = (1_u64 << 32) as f64;

pub fn draw_to(draw: f64) -> u32 {
    (draw * UNITS) as u32
}

fn draw_of(units: u32) -> f64 {
    f64::from(units) / UNITS
}

/// What a message says that only the file gives a meaning.
pub fn context_of(happened: &format::Happened, restarted: Option<Restart>) -> Context {
    Context {
        now: Time(happened.now),
        sample: Sample {
            jitter: draw_of(happened.jitter),
            spread: draw_of(happened.spread),
        },
        restarted,
    }
}

pub fn what_to(happening: &Happening) -> format::What {
    use format::What;
    match happening {
        Happening::Asked {
            ask,
            verdict,
            previous,
            before,
        } => What::Asked(asked_to(ask, verdict, *previous, before)),
        Happening::Reported {
            permit,
            outcome,
            reporter,
            result,
        } => What::Reported(format::Reported {
            permit: Some(permit_to(permit)),
            outcome: Some(outcome_to(outcome)),
            reporter: *reporter,
            result: place(&REPORTS, result),
        }),
        Happening::Tallied {
            tally,
            reporter,
            result,
            before,
        } => What::Tallied(format::Tallied {
            epoch: tally.epoch,
            first_attempts: tally.first_attempts,
            successes: tally.successes,
            failures: tally.failures,
            timeouts: tally.timeouts,
            throttled: tally.throttled,
            rejected: tally.rejected,
            slow: tally.slow,
            ignored: tally.ignored,
            latency_sum: tally.latency_sum.0,
            reporter: *reporter,
            result: place(&REPORTS, result),
            went: before.went,
            next_serial: before.next_serial,
        }),
        Happening::Forced(order) => What::Forced(format::Forced {
            open: order.kind == OverrideKind::ForceOpen,
            expires: order.expires.map(|end| end.0),
        }),
        Happening::Released => What::Other(1),
        Happening::Reset => What::Other(2),
        Happening::HoldCleared => What::Other(3),
        Happening::Advanced => What::Other(4),
    }
}

/// `None`: no version of ours has written this.
pub fn what_of(what: &format::What, now: Time) -> Option<Happening> {
    use format::What;
    Some(match what {
        What::Asked(asked) => asked_of(asked)?,
        What::Reported(reported) => Happening::Reported {
            permit: permit_of(reported.permit.as_ref()?)?,
            outcome: outcome_of(reported.outcome.as_ref()?)?,
            reporter: reported.reporter,
            result: at(&REPORTS, reported.result)?,
        },
        What::Tallied(tallied) => Happening::Tallied {
            tally: Tally {
                epoch: tallied.epoch,
                first_attempts: tallied.first_attempts,
                successes: tallied.successes,
                failures: tallied.failures,
                timeouts: tallied.timeouts,
                throttled: tallied.throttled,
                rejected: tallied.rejected,
                slow: tallied.slow,
                ignored: tallied.ignored,
                latency_sum: Nanos(tallied.latency_sum),
            },
            reporter: tallied.reporter,
            result: at(&REPORTS, tallied.result)?,
            before: Before {
                went: tallied.went,
                next_serial: tallied.next_serial,
            },
        },
        What::Forced(forced) => Happening::Forced(Override {
            kind: match forced.open {
                true => OverrideKind::ForceOpen,
                false => OverrideKind::ForceClosed,
            },
            owner: String::new(),
            reason: String::new(),
            set_at: now,
            expires: forced.expires.map(Time),
        }),
        What::Other(1) => Happening::Released,
        What::Other(2) => Happening::Reset,
        What::Other(3) => Happening::HoldCleared,
        What::Other(4) => Happening::Advanced,
        What::Other(_) => return None,
    })
}

fn asked_to(
    ask: &Ask,
    verdict: &Result<Grant, Denial>,
    previous: Option<Reported>,
    before: &Before,
) -> format::Asked {
    let mut asked = format::Asked {
        caller: ask.caller,
        service: ask.service,
        call: ask.call,
        idempotent: ask.idempotent,
        time_left_ns: ask.time_left.map(|left| left.0),
        priority: place(&PRIORITIES, &ask.priority),
        cost: ask.cost,
        previous: previous.map_or(0, |previous| place(&REPORTS, &previous)),
        went: before.went,
        next_serial: before.next_serial,
        ..format::Asked::default()
    };
    match verdict {
        Ok(grant) => {
            asked.granted = Some(format::Granted {
                delay_ns: grant.delay.0,
                permit: Some(permit_to(&grant.permit)),
            });
        }
        Err(denial) => asked.denied = place(&REASONS, &denial.reason),
    }
    match ask.question {
        Question::First => {}
        Question::Retry { attempt, previous } => {
            (asked.question, asked.attempt) = (1, attempt);
            asked.outcome = Some(outcome_to(&previous.outcome));
            match previous.made_under {
                MadeUnder::Unknown => {}
                MadeUnder::Permit(permit) => {
                    (asked.made_under, asked.permit) = (1, Some(permit_to(&permit)));
                }
                MadeUnder::EarlierRun(permit) => {
                    (asked.made_under, asked.permit) = (2, Some(permit_to(&permit)));
                }
                MadeUnder::Epoch(epoch) => (asked.made_under, asked.epoch) = (3, epoch),
            }
        }
        Question::Hedge { attempt } => (asked.question, asked.attempt) = (2, attempt),
        Question::Confirm(permit) => {
            (asked.question, asked.permit) = (3, Some(permit_to(&permit)));
        }
    }
    asked
}

fn asked_of(asked: &format::Asked) -> Option<Happening> {
    let permit = || permit_of(asked.permit.as_ref()?);
    let question = match asked.question {
        0 => Question::First,
        1 => Question::Retry {
            attempt: asked.attempt,
            previous: Previous {
                made_under: match asked.made_under {
                    0 => MadeUnder::Unknown,
                    1 => MadeUnder::Permit(permit()?),
                    2 => MadeUnder::EarlierRun(permit()?),
                    3 => MadeUnder::Epoch(asked.epoch),
                    _ => return None,
                },
                outcome: outcome_of(asked.outcome.as_ref()?)?,
            },
        },
        2 => Question::Hedge {
            attempt: asked.attempt,
        },
        3 => Question::Confirm(permit()?),
        _ => return None,
    };
    let verdict = match &asked.granted {
        Some(granted) => {
            let permit = permit_of(granted.permit.as_ref()?)?;
            Ok(Grant {
                delay: Nanos(granted.delay_ns),
                permit,
                permit_ttl: (permit.issued + permit.delay).until(permit.expires),
                probe: permit.kind == PermitKind::Probe,
                confirm: false,
                attempt_timeout: None,
            })
        }
        None => Err(Denial {
            reason: at(&REASONS, asked.denied)?,
            retry_after: None,
            facts: Facts::None,
        }),
    };
    Some(Happening::Asked {
        ask: Ask {
            question,
            caller: asked.caller,
            service: asked.service,
            call: asked.call,
            idempotent: asked.idempotent,
            time_left: asked.time_left_ns.map(Nanos),
            priority: at(&PRIORITIES, asked.priority)?,
            cost: asked.cost,
        },
        verdict,
        previous: match asked.previous {
            0 => None,
            previous => Some(at(&REPORTS, previous)?),
        },
        before: Before {
            went: asked.went,
            next_serial: asked.next_serial,
        },
    })
}

fn permit_to(permit: &Permit) -> format::Permit {
    format::Permit {
        epoch: permit.epoch,
        serial: permit.serial,
        issued: permit.issued.0,
        delay_ns: permit.delay.0,
        expires: permit.expires.0,
        retry: permit.retry,
        kind: place(&PERMITS, &permit.kind),
    }
}

fn permit_of(permit: &format::Permit) -> Option<Permit> {
    Some(Permit {
        epoch: permit.epoch,
        serial: permit.serial,
        issued: Time(permit.issued),
        delay: Nanos(permit.delay_ns),
        expires: Time(permit.expires),
        retry: permit.retry,
        kind: at(&PERMITS, permit.kind)?,
    })
}

fn outcome_to(outcome: &Outcome) -> format::Outcome {
    format::Outcome {
        kind: place(&OUTCOMES, &outcome.kind),
        latency_ns: outcome.latency.map(|span| span.0),
        pushback_ns: outcome.pushback.map(|span| span.0),
        do_not_retry: outcome.do_not_retry,
        retried_below: outcome.retried_below,
        restarts_backoff: outcome.restarts_backoff,
    }
}

fn outcome_of(outcome: &format::Outcome) -> Option<Outcome> {
    Some(Outcome {
        kind: at(&OUTCOMES, outcome.kind)?,
        latency: outcome.latency_ns.map(Nanos),
        pushback: outcome.pushback_ns.map(Nanos),
        do_not_retry: outcome.do_not_retry,
        retried_below: outcome.retried_below,
        restarts_backoff: outcome.restarts_backoff,
    })
}

/// The number of a value in a file: its place in its table, from 1. The tables may only grow at
/// their ends.
fn place<T: PartialEq>(table: &[T], value: &T) -> u32 {
    let place = table.iter().position(|one| one == value);
    place.map_or(0, |place| place as u32 + 1)
}

fn at<T: Copy>(table: &[T], place: u32) -> Option<T> {
    let index = usize::try_from(place.checked_sub(1)?).ok()?;
    table.get(index).copied()
}

const PRIORITIES: [Priority; 3] = [Priority::Low, Priority::Normal, Priority::High];

const PERMITS: [PermitKind; 4] = [
    PermitKind::Call,
    PermitKind::Planned,
    PermitKind::Probe,
    PermitKind::Hedge,
];

const REPORTS: [Reported; 5] = [
    Reported::Ok,
    Reported::Duplicate,
    Reported::StaleEpoch,
    Reported::Expired,
    Reported::Unknown,
];

const OUTCOMES: [OutcomeKind; 8] = [
    OutcomeKind::Success,
    OutcomeKind::Failure,
    OutcomeKind::Timeout,
    OutcomeKind::NotSent,
    OutcomeKind::Throttled,
    OutcomeKind::Rejected,
    OutcomeKind::Ignored,
    OutcomeKind::Cancelled,
];

const REASONS: [DenialReason; 19] = [
    DenialReason::ForcedOpen,
    DenialReason::Pushback,
    DenialReason::PushbackTooLong,
    DenialReason::NotRetryable,
    DenialReason::RetriedBelow,
    DenialReason::AttemptsExhausted,
    DenialReason::RetryUnsafe,
    DenialReason::HedgeRefused,
    DenialReason::Held,
    DenialReason::CallerFault,
    DenialReason::BreakerOpen,
    DenialReason::ProbeInProgress,
    DenialReason::Recovering,
    DenialReason::CalendarFull,
    DenialReason::RateLimited,
    DenialReason::Deadline,
    DenialReason::BudgetExhausted,
    DenialReason::Duplicate,
    DenialReason::PermitVoid,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_of_the_service_is_kept_to_its_last_bit() {
        for bits in [0, 1, 77, u32::MAX / 3, u32::MAX - 1, u32::MAX] {
            let draw = f64::from(bits) * (1.0 / UNITS);
            assert_eq!(draw_of(draw_to(draw)).to_bits(), draw.to_bits());
        }
    }
}
