//! The words that pages are sent. A page shows them as they are, or looks them up.

use holdoff_decision::{DenialReason, State, check::Verdict, record::OverrideKind};

use crate::coordinator::{EventKind, REASONS};

pub fn state(state: State) -> &'static str {
    match state {
        State::Closed => "closed",
        State::Open => "open",
        State::HalfOpen => "half-open",
        State::Recovering => "recovering",
        State::ForcedOpen => "forced open",
        State::ForcedClosed => "forced closed",
    }
}

pub fn override_kind(kind: OverrideKind) -> &'static str {
    match kind {
        OverrideKind::ForceOpen => "forced open",
        OverrideKind::ForceClosed => "forced closed",
    }
}

pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unknown => "unknown",
        Verdict::Healthy => "healthy",
        Verdict::Unhealthy => "unhealthy",
    }
}

pub fn event(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Tripped => "tripped",
        EventKind::Probing => "probing",
        EventKind::Reopened => "reopened",
        EventKind::Recovered => "recovered",
        EventKind::OverrideSet => "override set",
        EventKind::OverrideCleared => "override cleared",
        EventKind::OverrideExpired => "override expired",
        EventKind::Reset => "reset",
        EventKind::Held => "held",
        EventKind::HoldCleared => "hold cleared",
        EventKind::PolicyPut => "policy put",
        EventKind::PolicyDeleted => "policy deleted",
        EventKind::PoliciesReloaded => "policies reloaded",
        EventKind::PoliciesRefused => "policies refused",
        EventKind::ShadowTripped => "shadow tripped",
        EventKind::Started => "started",
        EventKind::CallerRefused => "caller refused",
        EventKind::CallerRecovered => "caller recovered",
        EventKind::RampEnded => "ramp ended",
        EventKind::CheckUnhealthy => "check unhealthy",
        EventKind::CheckHealthy => "check healthy",
        EventKind::CandidatePut => "candidate put",
        EventKind::CandidateDropped => "candidate dropped",
        EventKind::CandidatePromoted => "candidate promoted",
        EventKind::CandidateTripped => "candidate tripped",
        EventKind::StoreAway => "store away",
        EventKind::StoreBack => "store back",
    }
}

/// Every reason of a denial, with its word.
pub const DENIALS: [(DenialReason, &str); REASONS] = [
    (DenialReason::ForcedOpen, "forced open"),
    (DenialReason::Pushback, "pushback"),
    (DenialReason::PushbackTooLong, "pushback too long"),
    (DenialReason::NotRetryable, "not retryable"),
    (DenialReason::RetriedBelow, "retried below"),
    (DenialReason::AttemptsExhausted, "attempts exhausted"),
    (DenialReason::RetryUnsafe, "retry unsafe"),
    (DenialReason::HedgeRefused, "hedge refused"),
    (DenialReason::Held, "held"),
    (DenialReason::CallerFault, "caller fault"),
    (DenialReason::BreakerOpen, "breaker open"),
    (DenialReason::ProbeInProgress, "probe in progress"),
    (DenialReason::Recovering, "recovering"),
    (DenialReason::CalendarFull, "calendar full"),
    (DenialReason::RateLimited, "rate limited"),
    (DenialReason::Deadline, "deadline"),
    (DenialReason::BudgetExhausted, "budget exhausted"),
    (DenialReason::Duplicate, "duplicate"),
    (DenialReason::PermitVoid, "permit void"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_in_its_own_place() {
        for (at, (reason, _)) in DENIALS.iter().enumerate() {
            assert_eq!(*reason as usize, at);
        }
    }
}
