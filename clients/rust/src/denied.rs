//! The answer no, and the error of a call that ended with it.

use std::{fmt, time::Duration};

use holdoff_decision as decision;
use thiserror::Error;

use crate::outcome::{Outcome, OutcomeKind};

/// Texts of the service are cut to so many bytes.
const DETAIL_BYTES: usize = 1024;

/// Why an attempt may not be made. The first nineteen are the service's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DenialReason {
    /// An operator holds the breaker open.
    ForcedOpen,
    /// The dependency said: do not retry.
    Pushback,
    /// The dependency asked for a longer wait than the policy allows.
    PushbackTooLong,
    /// The outcome before is none that a retry can mend.
    NotRetryable,
    /// A layer below retried already.
    RetriedBelow,
    /// No further attempt is allowed.
    AttemptsExhausted,
    /// It may have been executed, and executing it twice may do harm.
    RetryUnsafe,
    /// A hedge that may not run, or not at once.
    HedgeRefused,
    /// The dependency asked the whole fleet to wait.
    Held,
    /// The breaker is open.
    BreakerOpen,
    /// The breaker is half-open and all probes are out.
    ProbeInProgress,
    /// The breaker closed a moment ago and its admitted share is taken.
    Recovering,
    /// This caller instance fails while the others do not.
    CallerFault,
    /// No place in the calendar of retries.
    CalendarFull,
    /// The rate limit has no room.
    RateLimited,
    /// The attempt cannot be made in the time that is left.
    Deadline,
    /// No more retries may be made now.
    BudgetExhausted,
    /// The permit before was used for a retry already.
    Duplicate,
    /// The permit is void.
    PermitVoid,
    /// No dependency has such a name; nothing was asked.
    BadName,
    /// The service decided nothing, and the client was told to deny then.
    NoDecision,
    /// The service granted a retry without saying when. That is never taken as "now".
    Unreadable,
}

/// Who said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeniedBy {
    /// The service, for the whole fleet.
    Fleet,
    /// This process, by the same rules over what it knows itself.
    Local,
    /// The caller's own limits or what it said about the call.
    Caller,
}

/// No.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}{}", detail_suffix(detail))]
#[non_exhaustive]
pub struct Denied {
    /// Why.
    pub reason: DenialReason,
    /// When asking again makes sense. `None`: the answer is final.
    pub retry_after: Option<Duration>,
    /// One sentence with the numbers, for people.
    pub detail: String,
    /// Who said it.
    pub by: DeniedBy,
}

impl Denied {
    pub(crate) fn new(by: DeniedBy, reason: DenialReason, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        detail.truncate(detail.floor_char_boundary(DETAIL_BYTES));
        Self {
            reason,
            retry_after: None,
            detail,
            by,
        }
    }

    pub(crate) fn caller(reason: DenialReason, detail: impl Into<String>) -> Self {
        Self::new(DeniedBy::Caller, reason, detail)
    }

    /// A denial of this process's own rules.
    pub(crate) fn local(denial: &decision::Denial) -> Self {
        use decision::DenialReason as Rule;
        let reason = match denial.reason {
            Rule::ForcedOpen => DenialReason::ForcedOpen,
            Rule::Pushback => DenialReason::Pushback,
            Rule::PushbackTooLong => DenialReason::PushbackTooLong,
            Rule::NotRetryable => DenialReason::NotRetryable,
            Rule::RetriedBelow => DenialReason::RetriedBelow,
            Rule::AttemptsExhausted => DenialReason::AttemptsExhausted,
            Rule::RetryUnsafe => DenialReason::RetryUnsafe,
            Rule::HedgeRefused => DenialReason::HedgeRefused,
            Rule::Held => DenialReason::Held,
            Rule::CallerFault => DenialReason::CallerFault,
            Rule::Recovering => DenialReason::Recovering,
            Rule::CalendarFull => DenialReason::CalendarFull,
            Rule::BreakerOpen => DenialReason::BreakerOpen,
            Rule::ProbeInProgress => DenialReason::ProbeInProgress,
            Rule::RateLimited => DenialReason::RateLimited,
            Rule::Deadline => DenialReason::Deadline,
            Rule::BudgetExhausted => DenialReason::BudgetExhausted,
            Rule::Duplicate => DenialReason::Duplicate,
            Rule::PermitVoid => DenialReason::PermitVoid,
        };
        let denied = Self::new(DeniedBy::Local, reason, denial.to_string());
        denied.after(denial.retry_after.map(Into::into))
    }

    pub(crate) fn after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }
}

fn detail_suffix(detail: &str) -> String {
    match detail.is_empty() {
        true => String::new(),
        false => format!(": {detail}"),
    }
}

/// In words, as `breaker open`.
impl fmt::Display for DenialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ForcedOpen => "forced open by an operator",
            Self::Pushback => "the dependency said: do not retry",
            Self::PushbackTooLong => "the dependency asked for too long a wait",
            Self::NotRetryable => "a retry cannot mend it",
            Self::RetriedBelow => "a layer below retried already",
            Self::AttemptsExhausted => "no attempt left",
            Self::RetryUnsafe => "a retry may do harm",
            Self::HedgeRefused => "hedge refused",
            Self::Held => "the dependency asked the fleet to wait",
            Self::BreakerOpen => "breaker open",
            Self::ProbeInProgress => "breaker half-open, all probes are out",
            Self::Recovering => "recovering, the admitted share is taken",
            Self::CallerFault => "this instance fails while others do not",
            Self::CalendarFull => "calendar full",
            Self::RateLimited => "rate limited",
            Self::Deadline => "no time left",
            Self::BudgetExhausted => "retry budget exhausted",
            Self::Duplicate => "the permit was used already",
            Self::PermitVoid => "the permit is void",
            Self::BadName => "no name of a dependency",
            Self::NoDecision => "nothing was decided",
            Self::Unreadable => "unreadable answer",
        })
    }
}

/// A call that was given up: the last real error, and why there was no further attempt.
#[derive(Debug, Error)]
#[non_exhaustive]
pub struct CallError<E> {
    /// The error of the last attempt that returned one. `None`: no attempt was made, or
    /// all were cut off by a time limit.
    #[source]
    pub last: Option<E>,
    /// Why there was no further attempt.
    pub why: Denied,
    /// Attempts that were made.
    pub attempts: u32,
}

impl<E> CallError<E> {
    /// Attempts were made, and all of them were cut off by a time limit: by the deadline, the
    /// limit of an attempt, or the lease of a probe. There is no real error.
    pub fn is_timeout(&self) -> bool {
        self.last.is_none() && self.attempts > 0
    }

    /// What a call around this one is told, so that calls in calls do not multiply: what
    /// `of_last` reads in the last real error, a timeout where all attempts were cut off, and
    /// in both cases that it was retried below where there was more than one. A call that was
    /// denied says nothing of the dependency around it: ignored.
    pub fn outcome(&self, of_last: impl FnOnce(&E) -> Outcome) -> Outcome {
        let outcome = match &self.last {
            Some(last) => of_last(last),
            None if self.is_timeout() => Outcome::timeout(),
            None => Outcome::new(OutcomeKind::Ignored),
        };
        match self.attempts {
            0 | 1 => outcome,
            2.. => outcome.retried_below(),
        }
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.last {
            Some(last) => write!(
                f,
                "{last} (gave up after attempt {}: {})",
                self.attempts, self.why
            ),
            None if self.attempts == 0 => write!(f, "not called: {}", self.why),
            None => write!(
                f,
                "timed out (gave up after attempt {}: {})",
                self.attempts, self.why
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cl4_a_text_of_a_mebibyte_is_cut_at_a_character() {
        let denied = Denied::caller(DenialReason::Held, "é".repeat(1 << 19));
        assert!(denied.detail.len() <= DETAIL_BYTES);
        assert!(denied.detail.chars().all(|c| c == 'é'));
    }

    #[test]
    fn the_last_real_error_and_the_reason_are_both_told() {
        let error = CallError {
            last: Some("503"),
            why: Denied::caller(DenialReason::AttemptsExhausted, "3 of 3"),
            attempts: 3,
        };
        assert_eq!(
            error.to_string(),
            "503 (gave up after attempt 3: no attempt left: 3 of 3)"
        );
    }
}
