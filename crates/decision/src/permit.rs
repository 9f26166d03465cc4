//! The words of questions and answers: outcomes, permits, grants and denials.

use std::fmt;

use crate::{
    Nanos, Time, budget,
    bytes::{fields, variants},
    calendar::Full,
    ramp::Curve,
    tickets::Tickets,
};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeKind {
    Success,
    Failure,
    Timeout,
    /// The dependency certainly never began it.
    NotSent,
    Throttled,
    /// The request itself was wrong.
    Rejected,
    Ignored,
    Cancelled,
}

/// What is known of an attempt that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub kind: OutcomeKind,
    /// `None`: unknown, and never slow.
    pub latency: Option<Nanos>,
    /// The wait that the dependency itself asked for.
    pub pushback: Option<Nanos>,
    pub do_not_retry: bool,
    pub retried_below: bool,
    /// The pushback restarts the backoff at its first delay (gRFC A6).
    pub restarts_backoff: bool,
}

impl Outcome {
    pub const fn of(kind: OutcomeKind) -> Self {
        Self {
            kind,
            latency: None,
            pushback: None,
            do_not_retry: false,
            retried_below: false,
            restarts_backoff: false,
        }
    }
}

/// The ticket of one granted attempt. It counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The epoch it was given in.
    pub epoch: u64,
    /// Its number among the permits of its dependency.
    pub serial: u64,
    /// When the attempt was promised, and its token taken.
    pub issued: Time,
    /// From then to the begin of the attempt.
    pub delay: Nanos,
    /// When it ends: its lifetime runs from the end of the delay.
    pub expires: Time,
    /// The number of the retry for backoff; 0 for a first attempt.
    pub retry: u32,
    pub kind: PermitKind,
}

/// What an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitKind {
    Call,
    /// A call that holds a place in the calendar, at the end of its delay.
    Planned,
    /// Holds one of the leases of a half-open breaker.
    Probe,
    Hedge,
}

/// Yes, after `delay`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grant {
    pub delay: Nanos,
    pub permit: Permit,
    /// From the end of the delay.
    pub permit_ttl: Nanos,
    pub probe: bool,
    /// Ask again just before the call.
    pub confirm: bool,
    pub attempt_timeout: Option<Nanos>,
}

variants!(OutcomeKind {
    Success = 0,
    Failure = 1,
    Timeout = 2,
    NotSent = 3,
    Throttled = 4,
    Rejected = 5,
    Ignored = 6,
    Cancelled = 7,
});
variants!(PermitKind { Call = 0, Planned = 1, Probe = 2, Hedge = 3 });
fields!(Permit {
    epoch,
    serial,
    issued,
    delay,
    expires,
    retry,
    kind
});
fields!(Grant {
    delay,
    permit,
    permit_ttl,
    probe,
    confirm,
    attempt_timeout
});

impl Grant {
    /// The same grant, given again at `now`: what is left of its delay, of the life of its
    /// permit and, for a probe, of the time that the attempt may take.
    pub fn at(self, now: Time) -> Self {
        let delay = now.until(self.permit.issued + self.permit.delay);
        let left = (now + delay).until(self.permit.expires);
        let passed = self.permit_ttl.saturating_sub(left);
        Self {
            delay,
            permit_ttl: self.permit_ttl.min(left),
            attempt_timeout: self.attempt_timeout.map(|all| all.saturating_sub(passed)),
            ..self
        }
    }
}

/// No.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Denial {
    pub reason: DenialReason,
    /// When asking again makes sense; `None`: the answer is final.
    pub retry_after: Option<Nanos>,
    pub facts: Facts,
}

/// Why an attempt was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DenialReason {
    ForcedOpen,
    Pushback,
    PushbackTooLong,
    NotRetryable,
    RetriedBelow,
    AttemptsExhausted,
    RetryUnsafe,
    HedgeRefused,
    Held,
    CallerFault,
    BreakerOpen,
    ProbeInProgress,
    Recovering,
    CalendarFull,
    RateLimited,
    Deadline,
    BudgetExhausted,
    Duplicate,
    PermitVoid,
}

/// The numbers behind a denial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Facts {
    None,
    Outcome(OutcomeKind),
    /// The attempt that was asked for, and how many there may be.
    Attempts {
        attempt: u32,
        max: u32,
    },
    /// What the dependency asked for, and the longest that is obeyed.
    Pushback {
        asked: Nanos,
        max: Nanos,
    },
    /// How long something still lasts.
    Left(Nanos),
    /// Probes that are out, of so many.
    Probes {
        out: u32,
        of: u32,
    },
    /// No probe is leased for a time after a restart.
    Quarantine(Nanos),
    /// No probe is leased before the store that replicas share is looked at again.
    StoreAway(Nanos),
    Deadline {
        delay: Nanos,
        attempt: Nanos,
        left: Nanos,
    },
    Budget(budget::Empty),
    Calendar(Full),
    /// Where the climb after a recovery stands.
    Curve(Curve),
    /// The wait for room, and the longest that is allowed.
    Rate {
        wait: Nanos,
        max: Nanos,
    },
    Cost {
        cost: u32,
        burst: u32,
    },
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    Ok,
    Duplicate,
    StaleEpoch,
    Expired,
    Unknown,
}

impl Permit {
    /// What is told of a permit of this service. One that a replica gave out while it was alone is
    /// known to that one only: to others it is of another epoch.
    pub fn told(&self, reported: Reported) -> Reported {
        match reported {
            Reported::Unknown if Tickets::is_of_one(self.serial) => Reported::StaleEpoch,
            _ => reported,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DenialReason as R;
        match (self.reason, self.facts) {
            (R::ForcedOpen, Facts::Left(left)) => {
                write!(f, "an operator holds the breaker open for {left} more")
            }
            (R::ForcedOpen, _) => write!(f, "an operator holds the breaker open"),
            (R::Pushback, _) => write!(f, "the dependency said: do not retry"),
            (R::PushbackTooLong, Facts::Pushback { asked, max }) => {
                write!(
                    f,
                    "the dependency asked for a wait of {asked}; at most {max} is allowed"
                )
            }
            (R::NotRetryable, Facts::Outcome(kind)) => {
                write!(f, "an attempt that ended as {kind} is not retried")
            }
            (R::RetriedBelow, _) => write!(f, "a layer below has retried already"),
            (R::AttemptsExhausted, Facts::Attempts { attempt, max }) => {
                write!(f, "attempt {attempt} of at most {max}")
            }
            (R::RetryUnsafe, Facts::Outcome(kind)) => {
                write!(
                    f,
                    "the call is not idempotent and may have been executed ({kind})"
                )
            }
            (R::HedgeRefused, Facts::None) => write!(f, "the call is not idempotent"),
            (R::HedgeRefused, _) => write!(f, "a hedge runs at once or not at all: {}", self.facts),
            (R::Held, Facts::Pushback { asked, .. }) => {
                write!(
                    f,
                    "the dependency asked this caller to wait {asked}; a probe is not sent"
                )
            }
            (R::Held, Facts::Left(left)) => {
                write!(
                    f,
                    "the dependency asked its callers to wait for {left} more"
                )
            }
            (R::CallerFault, Facts::Left(left)) => write!(
                f,
                "calls of this instance fail while those of others succeed; the next may go in {left}"
            ),
            (R::BreakerOpen, Facts::Left(left)) => {
                write!(f, "breaker open; first probe in {left}")
            }
            (R::ProbeInProgress, Facts::Quarantine(left)) => {
                write!(f, "breaker half-open; no probe for {left} after a restart")
            }
            (R::ProbeInProgress, Facts::StoreAway(left)) => {
                write!(
                    f,
                    "breaker half-open; no probe while the fleet's store does not answer; next look in {left}"
                )
            }
            (R::ProbeInProgress, Facts::Probes { out, of }) => {
                write!(f, "breaker half-open; {out} of {of} probes out")
            }
            (R::Recovering, Facts::Curve(curve)) => write!(f, "recovering; {curve}"),
            (R::Duplicate, _) => write!(f, "the permit was used for a retry already"),
            (R::PermitVoid, _) => write!(f, "the permit is not one that can be confirmed"),
            (_, facts) => write!(f, "{facts}"),
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => write!(f, "no more is known"),
            Self::Outcome(kind) => write!(f, "the attempt ended as {kind}"),
            Self::Attempts { attempt, max } => write!(f, "attempt {attempt} of at most {max}"),
            Self::Pushback { asked, max } => {
                write!(f, "a wait of {asked} was asked, {max} at most")
            }
            Self::Left(left) => write!(f, "{left} left"),
            Self::Probes { out, of } => write!(f, "{out} of {of} probes out"),
            Self::Quarantine(left) => write!(f, "no probe for {left} after a restart"),
            Self::StoreAway(left) => {
                write!(
                    f,
                    "no probe while the fleet's store does not answer; next look in {left}"
                )
            }
            Self::Deadline {
                delay,
                attempt,
                left,
            } => {
                write!(
                    f,
                    "a delay of {delay} and an attempt of {attempt} do not fit into {left}"
                )
            }
            Self::Budget(budget::Empty::Fleet { level, next }) => {
                let allowed = level.allowed;
                write!(f, "retry budget: 0 of {allowed} tokens; next within {next}")
            }
            Self::Budget(budget::Empty::Caller { taken, part }) => write!(
                f,
                "retry budget: this instance took {taken} of the {part} that are its part while others ask"
            ),
            Self::Calendar(full) => write!(f, "calendar: {full}"),
            Self::Curve(curve) => write!(f, "{curve}"),
            Self::Rate { wait, max } => {
                write!(f, "rate limit: room in {wait}; at most {max} is waited")
            }
            Self::Cost { cost, burst } => {
                write!(
                    f,
                    "rate limit: a cost of {cost} is above the burst of {burst}"
                )
            }
        }
    }
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Timeout => "timeout",
            Self::NotSent => "not_sent",
            Self::Throttled => "throttled",
            Self::Rejected => "rejected",
            Self::Ignored => "ignored",
            Self::Cancelled => "cancelled",
        })
    }
}
