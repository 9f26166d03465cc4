//! What needs nobody's answer: it follows from what the caller said about the call and from
//! how the attempt before ended. The order is the service's.

use std::time::Duration;

use crate::{
    denied::{DenialReason, Denied},
    outcome::{Outcome, OutcomeKind},
    question::{NAMES, Question, Safety},
};

/// `None`: there is no deadline.
pub(crate) fn time(left: Option<Duration>) -> Result<(), Denied> {
    match left.is_some_and(|left| left.is_zero()) {
        true => refuse(DenialReason::Deadline, "the caller's deadline has passed"),
        false => Ok(()),
    }
}

/// A name that no dependency has is a mistake of the caller's, and is found at its first call.
pub(crate) fn name(question: &Question) -> Result<(), Denied> {
    match question.is_well_named() {
        true => Ok(()),
        false => Err(bad_name(&question.dependency)),
    }
}

pub(crate) fn bad_name(name: &str) -> Denied {
    let name: String = name.chars().take(80).collect();
    let detail = format!("dependency {name:?}: it must be {NAMES}");
    Denied::caller(DenialReason::BadName, detail)
}

/// May there be an attempt after one that ended so?
pub(crate) fn retry(question: &Question, attempt: u32, outcome: &Outcome) -> Result<(), Denied> {
    if outcome.do_not_retry {
        return refuse(DenialReason::Pushback, "");
    }
    match outcome.kind {
        OutcomeKind::Success
        | OutcomeKind::Rejected
        | OutcomeKind::Ignored
        | OutcomeKind::Cancelled => return refuse(DenialReason::NotRetryable, ""),
        OutcomeKind::Failure
        | OutcomeKind::Timeout
        | OutcomeKind::NotSent
        | OutcomeKind::Throttled => {}
    }
    if outcome.retried_below {
        return refuse(DenialReason::RetriedBelow, "");
    }
    let limit = question.max_attempts;
    if attempt > limit {
        let detail = format!("the caller allows {limit}");
        return refuse(DenialReason::AttemptsExhausted, &detail);
    }
    if question.safety == Safety::Unsafe && outcome.kind != OutcomeKind::NotSent {
        let detail = "it may have been executed, and is neither idempotent nor keyed";
        return refuse(DenialReason::RetryUnsafe, detail);
    }
    Ok(())
}

fn refuse(reason: DenialReason, detail: &str) -> Result<(), Denied> {
    Err(Denied::caller(reason, detail))
}
