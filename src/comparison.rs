//! The numbers of a candidate as the contract writes them: for the operators' RPCs, and for what
//! a replay prints, so that both read the same.

use std::time::SystemTime;

use holdoff_decision::{DenialReason, Nanos, Time};

use crate::{
    candidate::{
        Numbers, Opening,
        numbers::{Differing, Shift, Side},
    },
    clock, proto,
};

pub fn comparison(numbers: &Numbers) -> proto::Comparison {
    let differing = |(reason, differing)| differing_attempts(reason, differing);
    proto::Comparison {
        since: time(numbers.since),
        until: time(numbers.until),
        live: Some(side(&numbers.live)),
        candidate: Some(side(&numbers.candidate)),
        refused: numbers.refused().map(differing).collect(),
        let_through: numbers.let_through().map(differing).collect(),
        later: numbers.later.attempts,
        later_by: Some(average(numbers.later)),
        sooner: numbers.sooner.attempts,
        sooner_by: Some(average(numbers.sooner)),
        other_reason: numbers.other_reason,
        unknown_ends: numbers.forgotten,
    }
}

fn side(side: &Side) -> proto::ComparedSide {
    proto::ComparedSide {
        first_attempts: side.first_attempts,
        first_attempts_refused: side.first_attempts_refused,
        retries: side.retries,
        retries_refused: side.retries_refused,
        succeeded: side.succeeded,
        failed: side.failed,
        opened: side.openings.opened,
        reopened: side.openings.reopened,
        openings: side.openings.newest.iter().map(opening).collect(),
    }
}

fn opening(opening: &Opening) -> proto::Opening {
    proto::Opening {
        time: time(opening.at),
        detail: opening.cause.to_string(),
        again: opening.again,
    }
}

fn differing_attempts(reason: DenialReason, differing: Differing) -> proto::DifferingAttempts {
    proto::DifferingAttempts {
        reason: denial_reason(reason).into(),
        first_attempts: differing.first_attempts,
        retries: differing.retries,
        succeeded: differing.succeeded,
        failed: differing.failed,
    }
}

fn average(shift: Shift) -> prost_types::Duration {
    let average = shift.together.0.checked_div(shift.attempts);
    span(Nanos(average.unwrap_or_default()))
}

fn span(span: Nanos) -> prost_types::Duration {
    prost_types::Duration {
        seconds: (span.0 / 1_000_000_000) as i64,
        nanos: (span.0 % 1_000_000_000) as i32,
    }
}

fn time(time: Time) -> Option<prost_types::Timestamp> {
    let wall: SystemTime = clock::to_wall(time);
    (time != Time::ORIGIN).then(|| wall.into())
}

pub fn denial_reason(reason: DenialReason) -> proto::DenialReason {
    match reason {
        DenialReason::ForcedOpen => proto::DenialReason::ForcedOpen,
        DenialReason::Pushback => proto::DenialReason::Pushback,
        DenialReason::PushbackTooLong => proto::DenialReason::PushbackTooLong,
        DenialReason::NotRetryable => proto::DenialReason::NotRetryable,
        DenialReason::RetriedBelow => proto::DenialReason::RetriedBelow,
        DenialReason::AttemptsExhausted => proto::DenialReason::AttemptsExhausted,
        DenialReason::RetryUnsafe => proto::DenialReason::RetryUnsafe,
        DenialReason::HedgeRefused => proto::DenialReason::HedgeRefused,
        DenialReason::Held => proto::DenialReason::Held,
        DenialReason::BreakerOpen => proto::DenialReason::BreakerOpen,
        DenialReason::ProbeInProgress => proto::DenialReason::ProbeInProgress,
        DenialReason::RateLimited => proto::DenialReason::RateLimited,
        DenialReason::Deadline => proto::DenialReason::Deadline,
        DenialReason::BudgetExhausted => proto::DenialReason::BudgetExhausted,
        DenialReason::Duplicate => proto::DenialReason::Duplicate,
        DenialReason::PermitVoid => proto::DenialReason::PermitVoid,
        DenialReason::CallerFault => proto::DenialReason::CallerFault,
        DenialReason::Recovering => proto::DenialReason::Recovering,
        DenialReason::CalendarFull => proto::DenialReason::CalendarFull,
    }
}
