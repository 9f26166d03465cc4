//! Between the client's words and the wire's. Reading is strict: an answer that says
//! something unknown, or leaves out what it must say, is no decision. It is never mended by
//! a default, since protobuf's default of a delay is "now".

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::{
    denied::{DenialReason, Denied, DeniedBy},
    outcome::{Outcome, OutcomeKind},
    proto,
    question::{Priority, Safety},
};

/// A `google.protobuf.Duration` is at most so long.
const LONGEST_SECS: i64 = 315_576_000_000;

/// A permit takes about 48 bytes; callers keep them, so that what is no permit is not kept.
pub(crate) const PERMIT_BYTES_MAX: usize = 1024;

/// What the service decided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Grant(Granted),
    Denial(Denied),
}

/// Yes, after `delay`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Granted {
    pub(crate) delay: Duration,
    pub(crate) permit: Bytes,
    /// From the end of `delay`. `None`: not said.
    pub(crate) permit_ttl: Option<Duration>,
    pub(crate) probe: bool,
    pub(crate) confirm: bool,
    pub(crate) attempt_timeout: Option<Duration>,
    /// In which it was granted.
    pub(crate) epoch: u64,
}

/// Why an answer decided nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unreadable {
    #[error("the answer has no verdict")]
    NoVerdict,
    #[error("the grant does not say when")]
    NoDelay,
    #[error("a duration is negative or out of range")]
    BadDuration,
    #[error("the permit is longer than any permit")]
    BadPermit,
    #[error("the reason of the denial is unknown to this client")]
    UnknownReason,
    #[error("the state of the breaker is unknown to this client")]
    UnknownState,
}

pub(crate) fn read_answer(response: proto::AcquireResponse) -> Result<Answer, Unreadable> {
    proto::BreakerState::try_from(response.state).map_err(|_| Unreadable::UnknownState)?;
    match response.verdict {
        None => Err(Unreadable::NoVerdict),
        Some(proto::acquire_response::Verdict::Grant(grant)) => read_grant(grant, response.epoch),
        Some(proto::acquire_response::Verdict::Denial(denial)) => read_denial(denial),
    }
}

fn read_grant(grant: proto::Grant, epoch: u64) -> Result<Answer, Unreadable> {
    let delay = read_duration(grant.delay)?.ok_or(Unreadable::NoDelay)?;
    if grant.permit.len() > PERMIT_BYTES_MAX {
        return Err(Unreadable::BadPermit);
    }
    Ok(Answer::Grant(Granted {
        delay,
        // A copy: the original is a part of the whole message and would keep it alive.
        permit: Bytes::copy_from_slice(&grant.permit),
        // A life of nothing cannot be meant: it would end before the attempt begins.
        permit_ttl: read_duration(grant.permit_ttl)?.filter(|ttl| !ttl.is_zero()),
        probe: grant.probe,
        confirm: grant.confirm,
        attempt_timeout: read_duration(grant.attempt_timeout)?.filter(|limit| !limit.is_zero()),
        epoch,
    }))
}

fn read_denial(denial: proto::Denial) -> Result<Answer, Unreadable> {
    let reason = read_reason(denial.reason)?;
    let wait = read_duration(denial.retry_after)?;
    let denied = Denied::new(DeniedBy::Fleet, reason, denial.detail);
    Ok(Answer::Denial(denied.after(wait)))
}

fn read_reason(reason: i32) -> Result<DenialReason, Unreadable> {
    use proto::DenialReason as Wire;
    let reason = Wire::try_from(reason).map_err(|_| Unreadable::UnknownReason)?;
    Ok(match reason {
        Wire::Unspecified => return Err(Unreadable::UnknownReason),
        Wire::ForcedOpen => DenialReason::ForcedOpen,
        Wire::Pushback => DenialReason::Pushback,
        Wire::PushbackTooLong => DenialReason::PushbackTooLong,
        Wire::NotRetryable => DenialReason::NotRetryable,
        Wire::RetriedBelow => DenialReason::RetriedBelow,
        Wire::AttemptsExhausted => DenialReason::AttemptsExhausted,
        Wire::RetryUnsafe => DenialReason::RetryUnsafe,
        Wire::HedgeRefused => DenialReason::HedgeRefused,
        Wire::Held => DenialReason::Held,
        Wire::BreakerOpen => DenialReason::BreakerOpen,
        Wire::ProbeInProgress => DenialReason::ProbeInProgress,
        Wire::Recovering => DenialReason::Recovering,
        Wire::CallerFault => DenialReason::CallerFault,
        Wire::CalendarFull => DenialReason::CalendarFull,
        Wire::RateLimited => DenialReason::RateLimited,
        Wire::Deadline => DenialReason::Deadline,
        Wire::BudgetExhausted => DenialReason::BudgetExhausted,
        Wire::Duplicate => DenialReason::Duplicate,
        Wire::PermitVoid => DenialReason::PermitVoid,
    })
}

/// `Ok(None)`: absent.
pub(crate) fn read_duration(
    duration: Option<prost_types::Duration>,
) -> Result<Option<Duration>, Unreadable> {
    let Some(duration) = duration else {
        return Ok(None);
    };
    let in_range = (0..=LONGEST_SECS).contains(&duration.seconds)
        && (0..1_000_000_000).contains(&duration.nanos);
    match in_range {
        true => Ok(Some(Duration::new(
            duration.seconds.unsigned_abs(),
            duration.nanos.unsigned_abs(),
        ))),
        false => Err(Unreadable::BadDuration),
    }
}

pub(crate) fn write_duration(duration: Duration) -> prost_types::Duration {
    match i64::try_from(duration.as_secs()) {
        Ok(seconds) if seconds < LONGEST_SECS => prost_types::Duration {
            seconds,
            // Below 10^9, so it fits.
            nanos: duration.subsec_nanos() as i32,
        },
        Ok(_) | Err(_) => prost_types::Duration {
            seconds: LONGEST_SECS,
            nanos: 0,
        },
    }
}

pub(crate) fn write_outcome(outcome: &Outcome) -> proto::Outcome {
    // Longer latencies are refused; so long an attempt is merely as long as can be said.
    const LONGEST_LATENCY: Duration = Duration::from_secs(24 * 3600);
    proto::Outcome {
        kind: match outcome.kind {
            OutcomeKind::Success => proto::OutcomeKind::Success,
            OutcomeKind::Failure => proto::OutcomeKind::Failure,
            OutcomeKind::Timeout => proto::OutcomeKind::Timeout,
            OutcomeKind::NotSent => proto::OutcomeKind::NotSent,
            OutcomeKind::Throttled => proto::OutcomeKind::Throttled,
            OutcomeKind::Rejected => proto::OutcomeKind::Rejected,
            OutcomeKind::Ignored => proto::OutcomeKind::Ignored,
            OutcomeKind::Cancelled => proto::OutcomeKind::Cancelled,
        }
        .into(),
        latency: outcome
            .latency
            .map(|latency| write_duration(latency.min(LONGEST_LATENCY))),
        pushback: outcome.pushback.map(write_duration),
        do_not_retry: outcome.do_not_retry,
        retried_below: outcome.retried_below,
        status_code: outcome.status_code,
        pushback_restarts_backoff: outcome.pushback_restarts_backoff,
    }
}

pub(crate) fn write_safety(safety: Safety) -> i32 {
    match safety {
        Safety::Unsafe => proto::Safety::Unsafe,
        Safety::Idempotent => proto::Safety::Idempotent,
        Safety::Keyed => proto::Safety::Keyed,
    }
    .into()
}

pub(crate) fn write_priority(priority: Priority) -> i32 {
    match priority {
        Priority::Low => proto::Priority::Low,
        Priority::Normal => proto::Priority::Normal,
        Priority::High => proto::Priority::High,
    }
    .into()
}

pub(crate) fn report_entry(permit: Bytes, outcome: &Outcome) -> proto::ReportEntry {
    proto::ReportEntry {
        entry: Some(proto::report_entry::Entry::Result(proto::PermitResult {
            permit,
            outcome: Some(write_outcome(outcome)),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(delay: Option<prost_types::Duration>) -> proto::AcquireResponse {
        proto::AcquireResponse {
            verdict: Some(proto::acquire_response::Verdict::Grant(proto::Grant {
                delay,
                ..Default::default()
            })),
            ..Default::default()
        }
    }

    fn denial(reason: i32) -> proto::AcquireResponse {
        proto::AcquireResponse {
            verdict: Some(proto::acquire_response::Verdict::Denial(proto::Denial {
                reason,
                ..Default::default()
            })),
            ..Default::default()
        }
    }

    #[test]
    fn b04d_a_grant_without_a_delay_is_no_decision_and_never_now() {
        assert_eq!(read_answer(grant(None)), Err(Unreadable::NoDelay));
    }

    #[test]
    fn cl4_a_permit_of_a_mebibyte_is_no_decision_and_is_not_kept() {
        let mut response = grant(Some(prost_types::Duration::default()));
        if let Some(proto::acquire_response::Verdict::Grant(grant)) = &mut response.verdict {
            grant.permit = vec![0; 1 << 20].into();
        }
        assert_eq!(read_answer(response), Err(Unreadable::BadPermit));
    }

    #[test]
    fn cl4_negative_and_overflowing_durations_are_no_decision() {
        for (seconds, nanos) in [
            (-1, 0),
            (0, -1),
            (i64::MAX, 0),
            (0, 1_000_000_000),
            (0, i32::MIN),
        ] {
            let answer = read_answer(grant(Some(prost_types::Duration { seconds, nanos })));
            assert_eq!(
                answer,
                Err(Unreadable::BadDuration),
                "{seconds} s {nanos} ns"
            );
        }
    }

    #[test]
    fn cl4_unknown_enum_values_and_a_missing_verdict_are_no_decision() {
        assert_eq!(read_answer(denial(0)), Err(Unreadable::UnknownReason));
        assert_eq!(read_answer(denial(99)), Err(Unreadable::UnknownReason));
        let mut odd = grant(Some(prost_types::Duration::default()));
        odd.state = 99;
        assert_eq!(read_answer(odd), Err(Unreadable::UnknownState));
        let empty = proto::AcquireResponse::default();
        assert_eq!(read_answer(empty), Err(Unreadable::NoVerdict));
    }

    #[test]
    fn each_reason_of_the_wire_is_known() {
        for reason in 1..=19 {
            assert!(read_reason(reason).is_ok(), "{reason}");
        }
        assert!(read_reason(20).is_err(), "a new reason needs a word here");
    }

    #[test]
    fn a_duration_too_long_for_the_wire_becomes_the_longest() {
        assert_eq!(write_duration(Duration::MAX).seconds, LONGEST_SECS);
        let odd = Duration::new(3, 5);
        assert_eq!(read_duration(Some(write_duration(odd))), Ok(Some(odd)));
    }
}
