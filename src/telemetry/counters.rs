//! What is counted, the place of each counter, and the series that it is shown as.

use holdoff_decision::{DenialReason, Reported, State, breaker::Cause, window::Reached};

use super::{Family, Metric, Telemetry, table};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    Granted(Granted),
    Denied(DenialReason),
    Reported(Reported),
    Refused(Refused),
    Transition {
        from: State,
        to: State,
    },
    Trip(TripCause),
    Exported(Signal, Export),
    Promised,
    Tally,
    ShadowTrip,
    CandidateTrip,
    Held,
    CallerFault,
    Evicted,
    ConnectionOpened,
    /// Shown as what is open.
    ConnectionClosed,
    SessionOpened,
    /// Shown as what is open.
    SessionClosed,
    Pushed,
    Reload,
    ReloadRefused,
    EventsLost,
    RecordingLost,
    CheckPlanned,
    CheckShared,
    CheckPassed,
    CheckFailed,
    CheckUnhealthy,
    CheckHealthy,
    CredentialMissing,
    CredentialRefused,
    CredentialsTooMany,
    Forbidden,
    AccessReload,
    AccessReloadRefused,
    CertificateReload,
    CertificateReloadRefused,
    HandshakeFailed,
    /// A connection was refused: its address has too many.
    AddressCrowded,
    /// A session was refused: its principal has too many.
    PrincipalCrowded,
    Degraded,
    /// A watch or a page was refused: its principal, or address, has too many.
    WatchesCrowded,
}

/// What was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    First,
    Retry,
    Hedge,
    /// A grant was asked for again, and holds.
    Confirmed,
    Probe,
}

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    UnknownNamespace,
    UnknownDependency,
    NamespaceFull,
    NamespacesFull,
    /// All dependencies that there may be are there.
    Full,
    /// Too many changes wait for the disk.
    DiskBusy,
    DiskUnavailable,
    DiskSlow,
    /// The store that replicas share does not answer.
    StoreUnavailable,
}

/// What opened a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripCause {
    Suspicion,
    ConsecutiveFailures,
    FailureRatio,
    SlowRatio,
}

impl TripCause {
    /// `None`: nothing that opens a closed breaker.
    pub fn of(cause: &Cause) -> Option<Self> {
        match cause {
            Cause::Suspicion(_) => Some(Self::Suspicion),
            Cause::Window(Reached::ConsecutiveFailures(_)) => Some(Self::ConsecutiveFailures),
            Cause::Window(Reached::FailureRatio(_)) => Some(Self::FailureRatio),
            Cause::Window(Reached::SlowRatio(_)) => Some(Self::SlowRatio),
            Cause::New
            | Cause::ProbeFailed(_)
            | Cause::ProbeSlow(_)
            | Cause::FirstProbe
            | Cause::ProbesSucceeded(_)
            | Cause::Recovered
            | Cause::Override
            | Cause::OverrideCleared
            | Cause::OverrideExpired
            | Cause::Reset
            | Cause::Restored => None,
        }
    }
}

/// What is sent to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Metrics,
    Traces,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    Sent,
    Failed,
}

const DENIALS: [(DenialReason, &str); 19] = [
    (DenialReason::ForcedOpen, "forced_open"),
    (DenialReason::Pushback, "pushback"),
    (DenialReason::PushbackTooLong, "pushback_too_long"),
    (DenialReason::NotRetryable, "not_retryable"),
    (DenialReason::RetriedBelow, "retried_below"),
    (DenialReason::AttemptsExhausted, "attempts_exhausted"),
    (DenialReason::RetryUnsafe, "retry_unsafe"),
    (DenialReason::HedgeRefused, "hedge_refused"),
    (DenialReason::Held, "held"),
    (DenialReason::CallerFault, "caller_fault"),
    (DenialReason::BreakerOpen, "breaker_open"),
    (DenialReason::ProbeInProgress, "probe_in_progress"),
    (DenialReason::Recovering, "recovering"),
    (DenialReason::CalendarFull, "calendar_full"),
    (DenialReason::RateLimited, "rate_limited"),
    (DenialReason::Deadline, "deadline"),
    (DenialReason::BudgetExhausted, "budget_exhausted"),
    (DenialReason::Duplicate, "duplicate"),
    (DenialReason::PermitVoid, "permit_void"),
];

const GRANTS: [(Granted, &str); 5] = [
    (Granted::First, "first"),
    (Granted::Retry, "retry"),
    (Granted::Hedge, "hedge"),
    (Granted::Confirmed, "confirmed"),
    (Granted::Probe, "probe"),
];

const REPORTS: [(Reported, &str); 5] = [
    (Reported::Ok, "ok"),
    (Reported::Duplicate, "duplicate"),
    (Reported::StaleEpoch, "stale_epoch"),
    (Reported::Expired, "expired"),
    (Reported::Unknown, "unknown_permit"),
];

const REFUSALS: [(Refused, &str); 9] = [
    (Refused::UnknownNamespace, "unknown_namespace"),
    (Refused::UnknownDependency, "unknown_dependency"),
    (Refused::NamespaceFull, "namespace_full"),
    (Refused::NamespacesFull, "namespaces_full"),
    (Refused::Full, "full"),
    (Refused::DiskBusy, "disk_busy"),
    (Refused::DiskUnavailable, "disk_unavailable"),
    (Refused::DiskSlow, "disk_slow"),
    (Refused::StoreUnavailable, "store_unavailable"),
];

const STATES: [State; 6] = [
    State::Closed,
    State::Open,
    State::HalfOpen,
    State::Recovering,
    State::ForcedOpen,
    State::ForcedClosed,
];

const TRIPS: [(TripCause, &str); 4] = [
    (TripCause::Suspicion, "suspicion"),
    (TripCause::ConsecutiveFailures, "consecutive_failures"),
    (TripCause::FailureRatio, "failure_ratio"),
    (TripCause::SlowRatio, "slow_ratio"),
];

const SIGNALS: [(Signal, &str); 2] = [(Signal::Metrics, "metrics"), (Signal::Traces, "traces")];
const EXPORTS: [(Export, &str); 2] = [(Export::Sent, "sent"), (Export::Failed, "failed")];

/// Counters without labels.
const ALONE: [(Counter, &Metric); 14] = [
    (Counter::Promised, &table::CALENDAR_PROMISES),
    (Counter::Tally, &table::TALLIES),
    (Counter::ShadowTrip, &table::SHADOW_TRIPS),
    (Counter::CandidateTrip, &table::CANDIDATE_TRIPS),
    (Counter::Held, &table::HOLDS),
    (Counter::CallerFault, &table::CALLER_FAULTS),
    (Counter::Evicted, &table::EVICTED),
    (Counter::ConnectionOpened, &table::CONNECTIONS_OPENED),
    (Counter::SessionOpened, &table::SESSIONS_OPENED),
    (Counter::Pushed, &table::PUSHES),
    (Counter::EventsLost, &table::EVENTS_LOST),
    (Counter::RecordingLost, &table::RECORDING_LOST),
    (Counter::HandshakeFailed, &table::HANDSHAKES_FAILED),
    (Counter::Degraded, &table::DECISIONS_DEGRADED),
];

/// Counters with one label; those of one metric stand together.
const LABELLED: [(Counter, &Metric, &str); 19] = [
    (Counter::Reload, &table::POLICY_RELOADS, "taken"),
    (Counter::ReloadRefused, &table::POLICY_RELOADS, "refused"),
    (Counter::CheckPlanned, &table::CHECK_PLANS, "run"),
    (Counter::CheckShared, &table::CHECK_PLANS, "shared"),
    (Counter::CheckPassed, &table::CHECK_RESULTS, "healthy"),
    (Counter::CheckFailed, &table::CHECK_RESULTS, "unhealthy"),
    (Counter::CheckUnhealthy, &table::CHECK_VERDICTS, "unhealthy"),
    (Counter::CheckHealthy, &table::CHECK_VERDICTS, "healthy"),
    (
        Counter::CredentialMissing,
        &table::ACCESS_REFUSED,
        "missing",
    ),
    (
        Counter::CredentialRefused,
        &table::ACCESS_REFUSED,
        "credential",
    ),
    (
        Counter::CredentialsTooMany,
        &table::ACCESS_REFUSED,
        "too_many",
    ),
    (Counter::Forbidden, &table::ACCESS_REFUSED, "role"),
    (Counter::AccessReload, &table::ACCESS_RELOADS, "taken"),
    (
        Counter::AccessReloadRefused,
        &table::ACCESS_RELOADS,
        "refused",
    ),
    (
        Counter::CertificateReload,
        &table::CERTIFICATE_RELOADS,
        "taken",
    ),
    (
        Counter::CertificateReloadRefused,
        &table::CERTIFICATE_RELOADS,
        "refused",
    ),
    (
        Counter::AddressCrowded,
        &table::LIMITS_MET,
        "connections_per_address",
    ),
    (
        Counter::PrincipalCrowded,
        &table::LIMITS_MET,
        "sessions_per_principal",
    ),
    (
        Counter::WatchesCrowded,
        &table::LIMITS_MET,
        "watches_per_principal",
    ),
];

const GRANTED: usize = 0;
const DENIED: usize = GRANTED + GRANTS.len();
const REPORTED: usize = DENIED + DENIALS.len();
const REFUSED: usize = REPORTED + REPORTS.len();
const TRANSITION: usize = REFUSED + REFUSALS.len();
const TRIPPED: usize = TRANSITION + STATES.len() * STATES.len();
const EXPORTED: usize = TRIPPED + TRIPS.len();
const SINGLE: usize = EXPORTED + SIGNALS.len() * EXPORTS.len();
/// How many counters there are.
pub(super) const COUNT: usize = SINGLE + 35;

/// A place below [`COUNT`]; the match is exhaustive so that none is forgotten.
pub(super) const fn place(counter: Counter) -> usize {
    match counter {
        Counter::Granted(granted) => GRANTED + granted as usize,
        Counter::Denied(reason) => DENIED + reason as usize,
        Counter::Reported(reported) => REPORTED + reported as usize,
        Counter::Refused(refused) => REFUSED + refused as usize,
        Counter::Transition { from, to } => TRANSITION + from as usize * STATES.len() + to as usize,
        Counter::Trip(cause) => TRIPPED + cause as usize,
        Counter::Exported(signal, export) => {
            EXPORTED + signal as usize * EXPORTS.len() + export as usize
        }
        Counter::Promised => SINGLE,
        Counter::Tally => SINGLE + 1,
        Counter::ShadowTrip => SINGLE + 2,
        Counter::CandidateTrip => SINGLE + 3,
        Counter::Held => SINGLE + 4,
        Counter::CallerFault => SINGLE + 5,
        Counter::Evicted => SINGLE + 6,
        Counter::ConnectionOpened => SINGLE + 7,
        Counter::ConnectionClosed => SINGLE + 8,
        Counter::SessionOpened => SINGLE + 9,
        Counter::SessionClosed => SINGLE + 10,
        Counter::Pushed => SINGLE + 11,
        Counter::Reload => SINGLE + 12,
        Counter::ReloadRefused => SINGLE + 13,
        Counter::EventsLost => SINGLE + 14,
        Counter::RecordingLost => SINGLE + 15,
        Counter::CheckPlanned => SINGLE + 16,
        Counter::CheckShared => SINGLE + 17,
        Counter::CheckPassed => SINGLE + 18,
        Counter::CheckFailed => SINGLE + 19,
        Counter::CheckUnhealthy => SINGLE + 20,
        Counter::CheckHealthy => SINGLE + 21,
        Counter::CredentialMissing => SINGLE + 22,
        Counter::CredentialRefused => SINGLE + 23,
        Counter::CredentialsTooMany => SINGLE + 24,
        Counter::Forbidden => SINGLE + 25,
        Counter::AccessReload => SINGLE + 26,
        Counter::AccessReloadRefused => SINGLE + 27,
        Counter::CertificateReload => SINGLE + 28,
        Counter::CertificateReloadRefused => SINGLE + 29,
        Counter::HandshakeFailed => SINGLE + 30,
        Counter::AddressCrowded => SINGLE + 31,
        Counter::PrincipalCrowded => SINGLE + 32,
        Counter::Degraded => SINGLE + 33,
        Counter::WatchesCrowded => SINGLE + 34,
    }
}

/// The word of a state in labels.
pub(super) const fn word(state: State) -> &'static str {
    match state {
        State::Closed => "closed",
        State::Open => "open",
        State::HalfOpen => "half_open",
        State::Recovering => "recovering",
        State::ForcedOpen => "forced_open",
        State::ForcedClosed => "forced_closed",
    }
}

/// All counters, with zeros.
pub(super) fn families(telemetry: &Telemetry) -> Vec<Family> {
    let get = |counter| telemetry.get(counter);
    let grants = GRANTS.map(|(it, word)| (["granted", word], get(Counter::Granted(it))));
    let denials = DENIALS.map(|(it, word)| (["denied", word], get(Counter::Denied(it))));
    let transitions = STATES.iter().flat_map(|&from| {
        STATES.map(|to| {
            let count = get(Counter::Transition { from, to });
            ([word(from), word(to)], count)
        })
    });
    let exports = SIGNALS.iter().flat_map(|(signal, name)| {
        EXPORTS.map(|(export, word)| ([*name, word], get(Counter::Exported(*signal, export))))
    });
    let mut families = vec![
        Family::of(&table::DECISIONS, grants.into_iter().chain(denials)),
        Family::of(
            &table::REPORTS,
            REPORTS.map(|(it, word)| ([word], get(Counter::Reported(it)))),
        ),
        Family::of(
            &table::REFUSALS,
            REFUSALS.map(|(it, word)| ([word], get(Counter::Refused(it)))),
        ),
        Family::of(&table::TRANSITIONS, transitions),
        Family::of(
            &table::TRIPS,
            TRIPS.map(|(it, word)| ([word], get(Counter::Trip(it)))),
        ),
        Family::of(&table::EXPORTS, exports),
    ];
    for of_one in LABELLED.chunk_by(|one, other| std::ptr::eq(one.1, other.1)) {
        let series = of_one.iter().map(|(it, _, word)| ([*word], get(*it)));
        families.push(Family::of(of_one[0].1, series));
    }
    families.extend(ALONE.map(|(counter, metric)| Family::alone(metric, get(counter))));
    families
}
