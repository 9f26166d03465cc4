//! Every counter of the service, by name.
//!
//! Plain atomics in a few copies, so that two cores that count do not share a cache line;
//! they are added up when somebody reads. No label is ever a client's, a call's or a
//! dependency's text.

use std::{
    cell::Cell,
    fmt::Write,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use holdoff_decision::{DenialReason, Reported};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    GrantedFirst,
    GrantedRetry,
    GrantedProbe,
    Denied(DenialReason),
    Reported(Reported),
    Tally,
    Refused,
    Trip,
    Reopen,
    Recovery,
    ShadowTrip,
    Reload,
    ReloadRefused,
    Evicted,
    EventsLost,
    CheckPlanned,
    CheckShared,
    CheckPassed,
    CheckFailed,
    CheckUnhealthy,
    CheckHealthy,
    CandidateTrip,
    RecordingLost,
    CredentialMissing,
    CredentialRefused,
    CredentialsTooMany,
    Forbidden,
    AccessReload,
    AccessReloadRefused,
    CertificateReload,
    CertificateReloadRefused,
    HandshakeFailed,
}

const SHARDS: usize = 16;
const COUNTERS: usize = 64;

#[repr(align(128))]
#[derive(Debug)]
struct Shard([AtomicU64; COUNTERS]);

/// The counters.
#[derive(Debug)]
pub struct Telemetry {
    shards: Box<[Shard; SHARDS]>,
}

impl Default for Telemetry {
    fn default() -> Self {
        let shard = |_| Shard(std::array::from_fn(|_| AtomicU64::new(0)));
        Self {
            shards: Box::new(std::array::from_fn(shard)),
        }
    }
}

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// This thread's shard: threads take them in turn.
fn shard() -> usize {
    SHARD.with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        shard.get()
    })
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
    (DenialReason::BreakerOpen, "breaker_open"),
    (DenialReason::ProbeInProgress, "probe_in_progress"),
    (DenialReason::RateLimited, "rate_limited"),
    (DenialReason::Deadline, "deadline"),
    (DenialReason::BudgetExhausted, "budget_exhausted"),
    (DenialReason::Duplicate, "duplicate"),
    (DenialReason::PermitVoid, "permit_void"),
    (DenialReason::CallerFault, "caller_fault"),
    (DenialReason::Recovering, "recovering"),
    (DenialReason::CalendarFull, "calendar_full"),
];

const REPORTS: [(Reported, &str); 5] = [
    (Reported::Ok, "ok"),
    (Reported::Duplicate, "duplicate"),
    (Reported::StaleEpoch, "stale_epoch"),
    (Reported::Expired, "expired"),
    (Reported::Unknown, "unknown_permit"),
];

/// Counters that stand alone, with their metric and help text.
const PLAIN: [(Counter, &str, &str); 30] = [
    (
        Counter::GrantedFirst,
        "holdoff_grants_total{kind=\"first\"}",
        "Attempts granted.",
    ),
    (
        Counter::GrantedRetry,
        "holdoff_grants_total{kind=\"retry\"}",
        "Attempts granted.",
    ),
    (
        Counter::GrantedProbe,
        "holdoff_grants_total{kind=\"probe\"}",
        "Attempts granted.",
    ),
    (
        Counter::Trip,
        "holdoff_transitions_total{to=\"open\",from=\"closed\"}",
        "Breaker transitions.",
    ),
    (
        Counter::Reopen,
        "holdoff_transitions_total{to=\"open\",from=\"half_open\"}",
        "Breaker transitions.",
    ),
    (
        Counter::Recovery,
        "holdoff_transitions_total{to=\"closed\",from=\"half_open\"}",
        "Breaker transitions.",
    ),
    (
        Counter::ShadowTrip,
        "holdoff_shadow_trips_total",
        "Trips of breakers in shadow mode.",
    ),
    (Counter::Tally, "holdoff_tallies_total", "Tallies taken."),
    (
        Counter::Refused,
        "holdoff_refused_total",
        "Requests that got an error instead of a decision.",
    ),
    (
        Counter::Reload,
        "holdoff_policy_reloads_total{result=\"taken\"}",
        "Readings of changed policy files.",
    ),
    (
        Counter::ReloadRefused,
        "holdoff_policy_reloads_total{result=\"refused\"}",
        "Readings of changed policy files.",
    ),
    (
        Counter::Evicted,
        "holdoff_evicted_total",
        "Idle dependencies dropped.",
    ),
    (
        Counter::EventsLost,
        "holdoff_events_lost_total",
        "Events dropped since too many came at once.",
    ),
    (
        Counter::CheckPlanned,
        "holdoff_check_plans_total{kind=\"run\"}",
        "Answers to checkers: to check, or what others found.",
    ),
    (
        Counter::CheckShared,
        "holdoff_check_plans_total{kind=\"shared\"}",
        "Answers to checkers: to check, or what others found.",
    ),
    (
        Counter::CheckPassed,
        "holdoff_check_results_total{result=\"healthy\"}",
        "Results of health checks.",
    ),
    (
        Counter::CheckFailed,
        "holdoff_check_results_total{result=\"unhealthy\"}",
        "Results of health checks.",
    ),
    (
        Counter::CheckUnhealthy,
        "holdoff_check_verdicts_total{to=\"unhealthy\"}",
        "Dependencies that health checks found to have changed.",
    ),
    (
        Counter::CheckHealthy,
        "holdoff_check_verdicts_total{to=\"healthy\"}",
        "Dependencies that health checks found to have changed.",
    ),
    (
        Counter::CandidateTrip,
        "holdoff_candidate_trips_total",
        "Trips that a candidate policy would have made.",
    ),
    (
        Counter::RecordingLost,
        "holdoff_recording_lost_total",
        "Happenings left out of the recording: the disk was slow, full, or failed.",
    ),
    (
        Counter::CredentialMissing,
        "holdoff_access_refused_total{reason=\"missing\"}",
        "Requests refused for who sent them.",
    ),
    (
        Counter::CredentialRefused,
        "holdoff_access_refused_total{reason=\"credential\"}",
        "Requests refused for who sent them.",
    ),
    (
        Counter::CredentialsTooMany,
        "holdoff_access_refused_total{reason=\"too_many\"}",
        "Requests refused for who sent them.",
    ),
    (
        Counter::Forbidden,
        "holdoff_access_refused_total{reason=\"role\"}",
        "Requests refused for who sent them.",
    ),
    (
        Counter::AccessReload,
        "holdoff_access_reloads_total{result=\"taken\"}",
        "Readings of a changed access file.",
    ),
    (
        Counter::AccessReloadRefused,
        "holdoff_access_reloads_total{result=\"refused\"}",
        "Readings of a changed access file.",
    ),
    (
        Counter::CertificateReload,
        "holdoff_certificate_reloads_total{result=\"taken\"}",
        "Readings of changed certificates.",
    ),
    (
        Counter::CertificateReloadRefused,
        "holdoff_certificate_reloads_total{result=\"refused\"}",
        "Readings of changed certificates.",
    ),
    (
        Counter::HandshakeFailed,
        "holdoff_tls_handshakes_failed_total",
        "Connections that ended before TLS was agreed on.",
    ),
];

impl Telemetry {
    pub fn add(&self, counter: Counter) {
        self.add_many(counter, 1);
    }

    pub fn add_many(&self, counter: Counter, count: u64) {
        self.shards[shard()].0[index(counter)].fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self, counter: Counter) -> u64 {
        let at = index(counter);
        self.shards
            .iter()
            .map(|shard| shard.0[at].load(Ordering::Relaxed))
            .sum()
    }

    /// The text format of Prometheus. `gauges`: name, help and value of what is not counted.
    pub fn exposition(&self, gauges: &[(&str, &str, u64)]) -> String {
        let mut text = String::new();
        let mut last = "";
        for (counter, metric, help) in PLAIN {
            let name = metric.split('{').next().unwrap_or(metric);
            if name != last {
                head(&mut text, name, help, "counter");
                last = name;
            }
            line(&mut text, metric, self.get(counter));
        }
        head(
            &mut text,
            "holdoff_denials_total",
            "Attempts denied.",
            "counter",
        );
        for (reason, label) in DENIALS {
            let metric = format!("holdoff_denials_total{{reason=\"{label}\"}}");
            line(&mut text, &metric, self.get(Counter::Denied(reason)));
        }
        head(
            &mut text,
            "holdoff_reports_total",
            "Reports of permits.",
            "counter",
        );
        for (reported, label) in REPORTS {
            let metric = format!("holdoff_reports_total{{result=\"{label}\"}}");
            line(&mut text, &metric, self.get(Counter::Reported(reported)));
        }
        for (name, help, value) in gauges {
            head(&mut text, name, help, "gauge");
            line(&mut text, name, *value);
        }
        text
    }
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, metric: &str, value: u64) {
    let _ = writeln!(text, "{metric} {value}");
}

/// A place below `COUNTERS`; the match is exhaustive so that none is forgotten.
fn index(counter: Counter) -> usize {
    match counter {
        Counter::GrantedFirst => 0,
        Counter::GrantedRetry => 1,
        Counter::GrantedProbe => 2,
        Counter::Trip => 3,
        Counter::Reopen => 4,
        Counter::Recovery => 5,
        Counter::ShadowTrip => 6,
        Counter::Tally => 7,
        Counter::Refused => 8,
        Counter::Reload => 9,
        Counter::ReloadRefused => 10,
        Counter::Evicted => 11,
        Counter::EventsLost => 12,
        Counter::CheckPlanned => 13,
        Counter::CheckShared => 14,
        Counter::CheckPassed => 15,
        Counter::CheckFailed => 21,
        Counter::CheckUnhealthy => 22,
        Counter::CheckHealthy => 23,
        Counter::CandidateTrip => 24,
        Counter::RecordingLost => 25,
        Counter::Reported(reported) => 16 + reported as usize,
        Counter::Denied(reason) => 26 + reason as usize,
        Counter::CredentialMissing => 48,
        Counter::CredentialRefused => 49,
        Counter::CredentialsTooMany => 50,
        Counter::Forbidden => 51,
        Counter::AccessReload => 52,
        Counter::AccessReloadRefused => 53,
        Counter::CertificateReload => 54,
        Counter::CertificateReloadRefused => 55,
        Counter::HandshakeFailed => 56,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_place_of_its_own_and_is_shown_once() {
        let telemetry = Telemetry::default();
        let all = PLAIN
            .iter()
            .map(|(counter, ..)| *counter)
            .chain(DENIALS.map(|(reason, _)| Counter::Denied(reason)))
            .chain(REPORTS.map(|(reported, _)| Counter::Reported(reported)));
        let mut expected = 0;
        for counter in all {
            assert_eq!(telemetry.get(counter), 0);
            telemetry.add(counter);
            expected += 1;
        }
        let text = telemetry.exposition(&[]);
        let shown = text.lines().filter(|line| line.ends_with(" 1")).count();
        assert_eq!(shown, expected);
    }

    #[test]
    fn b37b_every_series_is_there_from_the_first_scrape() {
        let text = Telemetry::default().exposition(&[("holdoff_dependencies", "Live.", 3)]);
        assert!(text.contains("holdoff_denials_total{reason=\"breaker_open\"} 0"));
        assert!(text.contains("holdoff_dependencies 3"));
    }
}
