//! Writes what clients are answered.

use holdoff_decision::{
    Denial, Grant, Nanos, Reported, State,
    check::{Plan, Verdict},
};

use crate::{
    comparison::denial_reason,
    coordinator::{Decision, Planned},
    proto,
};

/// The answer to one question.
pub fn acquired(decision: Decision) -> proto::AcquireResponse {
    use proto::acquire_response::Verdict;
    let answer = decision.answer;
    let verdict = match &answer.verdict {
        Ok(granted) => Verdict::Grant(grant(granted, decision.permit.unwrap_or_default())),
        Err(denied) => Verdict::Denial(denial(denied)),
    };
    proto::AcquireResponse {
        verdict: Some(verdict),
        state: state(answer.state).into(),
        epoch: answer.epoch,
        degraded: decision.degraded,
        previous_result: answer
            .previous
            .map_or(0, |previous| reason(previous).into()),
    }
}

fn grant(grant: &Grant, permit: bytes::Bytes) -> proto::Grant {
    proto::Grant {
        delay: Some(span(grant.delay)),
        permit,
        permit_ttl: Some(span(grant.permit_ttl)),
        probe: grant.probe,
        confirm: grant.confirm,
        attempt_timeout: grant.attempt_timeout.map(span),
    }
}

fn denial(denial: &Denial) -> proto::Denial {
    proto::Denial {
        reason: denial_reason(denial.reason).into(),
        retry_after: denial.retry_after.map(span),
        detail: denial.to_string(),
    }
}

/// The answer to one report.
pub fn reported(results: &[Reported]) -> proto::ReportResponse {
    let result = |reported: &Reported| proto::ReportResult {
        applied: *reported == Reported::Ok,
        reason: reason(*reported).into(),
    };
    proto::ReportResponse {
        results: results.iter().map(result).collect(),
    }
}

fn reason(reported: Reported) -> proto::ReportReason {
    match reported {
        Reported::Ok => proto::ReportReason::Ok,
        Reported::Duplicate => proto::ReportReason::Duplicate,
        Reported::StaleEpoch => proto::ReportReason::StaleEpoch,
        Reported::Expired => proto::ReportReason::Expired,
        Reported::Unknown => proto::ReportReason::UnknownPermit,
    }
}

pub fn state(state: State) -> proto::BreakerState {
    match state {
        State::Closed => proto::BreakerState::Closed,
        State::Open => proto::BreakerState::Open,
        State::HalfOpen => proto::BreakerState::HalfOpen,
        State::Recovering => proto::BreakerState::Recovering,
        State::ForcedOpen => proto::BreakerState::ForcedOpen,
        State::ForcedClosed => proto::BreakerState::ForcedClosed,
    }
}

/// A span that fits into protobuf's: at most 315,576,000,000 s.
pub fn span(span: Nanos) -> prost_types::Duration {
    prost_types::Duration {
        seconds: (span.0 / 1_000_000_000) as i64,
        nanos: (span.0 % 1_000_000_000) as i32,
    }
}

/// The answer to one checker.
pub fn planned(planned: Planned) -> proto::PlanCheckResponse {
    use proto::plan_check_response::Plan as Wire;
    let plan = match planned.plan {
        Plan::Run { delay, timeout, .. } => Wire::Run(proto::CheckRun {
            delay: Some(span(delay)),
            permit: planned.permit.unwrap_or_default(),
            timeout: Some(span(timeout)),
        }),
        Plan::Shared {
            verdict,
            age,
            ask_again,
        } => Wire::Shared(proto::CheckShared {
            verdict: verdict_of_checks(verdict).into(),
            age: age.map(span),
            ask_again: Some(span(ask_again)),
        }),
    };
    proto::PlanCheckResponse {
        verdict: verdict_of_checks(planned.verdict).into(),
        plan: Some(plan),
        period: Some(span(planned.period)),
    }
}

pub fn verdict_of_checks(verdict: Verdict) -> proto::CheckVerdict {
    match verdict {
        Verdict::Unknown => proto::CheckVerdict::Unknown,
        Verdict::Healthy => proto::CheckVerdict::Healthy,
        Verdict::Unhealthy => proto::CheckVerdict::Unhealthy,
    }
}
