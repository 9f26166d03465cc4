//! Every metric: its names, unit, labels and help, once.
//!
//! `/metrics`, OTLP and `docs/telemetry.md` are all written from here. A name never changes its
//! meaning. No label is a client's or a call's text; `namespace` and `dependency` are on the
//! metrics of the section [`PER_DEPENDENCY`] alone, and how many of those there are is bounded.

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// As Prometheus has it, with unit and `_total`.
    pub name: &'static str,
    /// As OpenTelemetry has it, without.
    pub otel: &'static str,
    /// In UCUM, as OpenTelemetry has it; empty: none.
    pub unit: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

type Names = (&'static str, &'static str, &'static str);
type Labels = &'static [&'static str];

const fn metric(kind: Kind, names: Names, labels: Labels, help: &'static str) -> Metric {
    let (name, otel, unit) = names;
    Metric {
        name,
        otel,
        unit,
        kind,
        labels,
        help,
    }
}

macro_rules! metrics {
    ($($list:ident: $list_doc:literal { $($id:ident: $kind:ident, ($name:literal, $otel:literal, $unit:literal), [$($label:literal),*], $help:literal;)* })*) => {
        $($(
            #[doc = $help]
            pub static $id: Metric = metric(Kind::$kind, ($name, $otel, $unit), &[$($label),*], $help);
        )*
        #[doc = $list_doc]
        pub static $list: &[&Metric] = &[$(&$id),*];)*
    };
}

metrics! {
    OF_DECISIONS: "What clients ask and report." {
        DECISIONS: Counter, ("holdoff_decisions_total", "holdoff.decisions", "{decision}"), ["verdict", "reason"],
            "Answers to questions: granted, by what was asked for, or denied, by why.";
        DECISIONS_DEGRADED: Counter, ("holdoff_decisions_degraded_total", "holdoff.decisions.degraded", "{decision}"), [],
            "Answers to questions that were decided without the shared store.";
        CALENDAR_PROMISES: Counter, ("holdoff_calendar_promises_total", "holdoff.calendar.promises", "{promise}"), [],
            "Grants that hold a place in the calendar.";
        GRANT_DELAY: Histogram, ("holdoff_grant_delay_seconds", "holdoff.grant.delay", "s"), [],
            "How long callers were told to wait, of the grants with a delay.";
        REPORTS: Counter, ("holdoff_reports_total", "holdoff.reports", "{report}"), ["result"],
            "Reports of permits and tallies, and outcomes told with a question.";
        TALLIES: Counter, ("holdoff_tallies_total", "holdoff.tallies", "{tally}"), [],
            "Tallies among the reports.";
        REFUSALS: Counter, ("holdoff_refusals_total", "holdoff.refusals", "{request}"), ["reason"],
            "Requests that got an error instead of an answer, since something is full, unknown or failing.";
        CHECK_PLANS: Counter, ("holdoff_check_plans_total", "holdoff.check.plans", "{plan}"), ["kind"],
            "Answers to checkers: to run a check, or what others found.";
        CHECK_RESULTS: Counter, ("holdoff_check_results_total", "holdoff.check.results", "{check}"), ["result"],
            "Results of health checks.";
        CHECK_VERDICTS: Counter, ("holdoff_check_verdicts_total", "holdoff.check.verdicts", "{verdict}"), ["to"],
            "Dependencies that health checks found to have changed.";
    }
    OF_BREAKERS: "What happens to breakers." {
        TRANSITIONS: Counter, ("holdoff_transitions_total", "holdoff.transitions", "{transition}"), ["from", "to"],
            "Transitions of breakers, as callers see them.";
        TRIPS: Counter, ("holdoff_trips_total", "holdoff.trips", "{trip}"), ["cause"],
            "Breakers that opened from closed, by what was reached.";
        SHADOW_TRIPS: Counter, ("holdoff_shadow_trips_total", "holdoff.shadow.trips", "{trip}"), [],
            "Times that breakers in shadow mode would have opened.";
        CANDIDATE_TRIPS: Counter, ("holdoff_candidate_trips_total", "holdoff.candidate.trips", "{trip}"), [],
            "Times that candidate policies would have opened a breaker.";
        HOLDS: Counter, ("holdoff_holds_total", "holdoff.holds", "{hold}"), [],
            "Holds that dependencies asked their fleet for.";
        CALLER_FAULTS: Counter, ("holdoff_caller_faults_total", "holdoff.caller.faults", "{instance}"), [],
            "Caller instances that were refused alone, since they failed while others did not.";
        DEPENDENCIES: Gauge, ("holdoff_dependencies", "holdoff.dependencies", "{dependency}"), ["state"],
            "Dependencies in memory, by the state of their breaker as callers see it.";
        DEPENDENCIES_LIMIT: Gauge, ("holdoff_dependencies_limit", "holdoff.dependencies.limit", "{dependency}"), [],
            "Dependencies that there may be (max_dependencies_total).";
        DEPENDENCIES_OVERRIDDEN: Gauge, ("holdoff_dependencies_overridden", "holdoff.dependencies.overridden", "{dependency}"), [],
            "Dependencies under an operator's override.";
        DEPENDENCIES_HELD: Gauge, ("holdoff_dependencies_held", "holdoff.dependencies.held", "{dependency}"), [],
            "Dependencies under a hold.";
        DEPENDENCIES_SHADOW: Gauge, ("holdoff_dependencies_shadow", "holdoff.dependencies.shadow", "{dependency}"), [],
            "Dependencies whose breaker is in shadow mode.";
        PROBES_OUT: Gauge, ("holdoff_probes_out", "holdoff.probes.out", "{probe}"), [],
            "Probes that are leased.";
        PERMITS_OUT: Gauge, ("holdoff_permits_out", "holdoff.permits.out", "{permit}"), [],
            "Permits that are neither reported nor over.";
        CALENDAR_PLANNED: Gauge, ("holdoff_calendar_planned", "holdoff.calendar.planned", "{attempt}"), [],
            "Attempts that hold a place in a calendar.";
        EVICTED: Counter, ("holdoff_evicted_total", "holdoff.evicted", "{dependency}"), [],
            "Idle dependencies dropped.";
    }
    OF_THE_SERVICE: "The service itself." {
        RPC_DURATION: Histogram, ("rpc_server_call_duration_seconds", "rpc.server.call.duration", "s"), ["rpc_method"],
            "How long RPCs took; streams, how long they lasted. Over OTLP also by rpc.response.status_code.";
        RPC_CALLS: Counter, ("holdoff_rpc_calls_total", "holdoff.rpc.calls", "{call}"), ["rpc_method", "rpc_response_status_code"],
            "RPCs that ended, by their gRPC status.";
        CONNECTIONS: Gauge, ("holdoff_connections", "holdoff.connections", "{connection}"), [],
            "Connections to the gRPC port.";
        CONNECTIONS_LIMIT: Gauge, ("holdoff_connections_limit", "holdoff.connections.limit", "{connection}"), [],
            "Connections that there is room for.";
        CONNECTIONS_OPENED: Counter, ("holdoff_connections_opened_total", "holdoff.connections.opened", "{connection}"), [],
            "Connections to the gRPC port that were taken.";
        SESSIONS: Gauge, ("holdoff_sessions", "holdoff.sessions", "{session}"), [],
            "Sessions of clients.";
        SESSIONS_OPENED: Counter, ("holdoff_sessions_opened_total", "holdoff.sessions.opened", "{session}"), [],
            "Sessions that began.";
        LIMITS_MET: Counter, ("holdoff_limits_met_total", "holdoff.limits.met", "{refusal}"), ["limit"],
            "Connections, sessions and watches refused, since one address or principal has as many as it may have.";
        SUBSCRIPTIONS: Gauge, ("holdoff_subscriptions", "holdoff.subscriptions", "{subscription}"), [],
            "Dependencies that sessions follow, each session counted.";
        PUSHES: Counter, ("holdoff_pushes_total", "holdoff.pushes", "{update}"), [],
            "States pushed to sessions.";
        POLICY_RELOADS: Counter, ("holdoff_policy_reloads_total", "holdoff.policy.reloads", "{reload}"), ["result"],
            "Readings of changed policy files.";
        POLICY_LOADED: Gauge, ("holdoff_policy_loaded_timestamp_seconds", "holdoff.policy.loaded", "s"), [],
            "When the policies in force were taken, in seconds since 1970.";
        POLICY_REFUSED: Gauge, ("holdoff_policy_reload_refused", "holdoff.policy.reload_refused", ""), [],
            "1 while the newest reading of the policy files is refused and older policies are in force.";
        DURABLE_COMMIT: Histogram, ("holdoff_durable_commit_duration_seconds", "holdoff.durable.commit.duration", "s"), [],
            "How long changes waited until they were on disk: operators' changes, and events.";
        DURABILITY_DEGRADED: Gauge, ("holdoff_durability_degraded", "holdoff.durability.degraded", ""), [],
            "1 while the data directory cannot be written.";
        STORE_DEGRADED: Gauge, ("holdoff_store_degraded", "holdoff.store.degraded", ""), [],
            "1 while the shared store is away and this replica decides alone.";
        EVENTS_LOST: Counter, ("holdoff_events_lost_total", "holdoff.events.lost", "{event}"), [],
            "Events dropped since too many came at once.";
        RECORDING_LOST: Counter, ("holdoff_recording_lost_total", "holdoff.recording.lost", "{happening}"), [],
            "Happenings left out of the recording: the disk was slow, full, or failed.";
        ACCESS_REFUSED: Counter, ("holdoff_access_refused_total", "holdoff.access.refused", "{request}"), ["reason"],
            "Requests refused for who sent them.";
        ACCESS_RELOADS: Counter, ("holdoff_access_reloads_total", "holdoff.access.reloads", "{reload}"), ["result"],
            "Readings of a changed access file.";
        ACCESS_REFUSED_NOW: Gauge, ("holdoff_access_reload_refused", "holdoff.access.reload_refused", ""), [],
            "1 while the newest reading of the access file is refused and an older one is in force.";
        CERTIFICATE_RELOADS: Counter, ("holdoff_certificate_reloads_total", "holdoff.certificate.reloads", "{reload}"), ["result"],
            "Readings of changed certificates.";
        CERTIFICATE_REFUSED_NOW: Gauge, ("holdoff_certificate_reload_refused", "holdoff.certificate.reload_refused", ""), [],
            "1 while the newest reading of the certificates is refused and older ones are in force.";
        HANDSHAKES_FAILED: Counter, ("holdoff_tls_handshakes_failed_total", "holdoff.tls.handshakes.failed", "{connection}"), [],
            "Connections that ended before TLS was agreed on.";
        EXPORTS: Counter, ("holdoff_telemetry_exports_total", "holdoff.telemetry.exports", "{export}"), ["signal", "result"],
            "Batches handed to the OTLP collector.";
        BUILD_INFO: Gauge, ("holdoff_build_info", "holdoff.build.info", ""), ["version"],
            "1, with the version of this service.";
        START_TIME: Gauge, ("process_start_time_seconds", "process.start_time", "s"), [],
            "When the service started, in seconds since 1970.";
        PROCESS_CPU: Counter, ("process_cpu_seconds_total", "process.cpu.time", "s"), [],
            "CPU time of the process, user and system.";
        PROCESS_MEMORY: Gauge, ("process_resident_memory_bytes", "process.memory.usage", "By"), [],
            "Resident memory of the process.";
        PROCESS_FDS: Gauge, ("process_open_fds", "process.open_file_descriptor.count", "{file_descriptor}"), [],
            "File descriptors that are open.";
        PROCESS_FDS_LIMIT: Gauge, ("process_max_fds", "process.open_file_descriptor.limit", "{file_descriptor}"), [],
            "File descriptors that may be open.";
    }
    OF_THE_STORE: "The store that replicas share; all 0 where none is shared." {
        STORE_COMMANDS: Counter, ("holdoff_store_commands_total", "holdoff.store.commands", "{command}"), ["command"],
            "Commands sent to the shared store: the script that swaps a record in, looks at one or drops one; messages; keys that are renewed or looked for.";
        STORE_SWAPS_LOST: Counter, ("holdoff_store_swaps_lost_total", "holdoff.store.swaps.lost", "{swap}"), [],
            "Swaps that changed nothing, since another replica was faster; they are made again.";
        STORE_DECISIONS: Counter, ("holdoff_store_decisions_total", "holdoff.store.decisions", "{decision}"), ["how"],
            "Questions and reports by how they were decided: in this replica's memory alone, or by a swap.";
        STORE_MESSAGES: Counter, ("holdoff_store_messages_total", "holdoff.store.messages", "{message}"), ["what"],
            "Messages with evidence: told to the other replicas, heard of them, and theirs that never came.";
        STORE_COPIES: Gauge, ("holdoff_store_copies", "holdoff.store.copies", "{record}"), [],
            "Records of the shared store that this replica has in memory.";
        STORE_AWAY: Gauge, ("holdoff_store_away", "holdoff.store.away", ""), [],
            "1 while the shared store, or a part of it, does not answer.";
    }
    PER_DEPENDENCY: "One series a dependency; see `--metrics-dependencies`." {
        DEPENDENCY_STATE: Gauge, ("holdoff_dependency_state", "holdoff.dependency.state", ""), ["namespace", "dependency"],
            "The breaker as callers see it: 0 closed, 1 recovering, 2 half-open, 3 open, 4 forced open, 5 forced closed.";
        DEPENDENCY_DENIALS: Counter, ("holdoff_dependency_denials_total", "holdoff.dependency.denials", "{decision}"), ["namespace", "dependency"],
            "Questions denied, since the dependency was last made.";
        DEPENDENCY_TRIPS: Counter, ("holdoff_dependency_trips_total", "holdoff.dependency.trips", "{trip}"), ["namespace", "dependency"],
            "Times that the breaker has opened from closed, in shadow mode too.";
        DEPENDENCY_BUDGET: Gauge, ("holdoff_dependency_budget_tokens", "holdoff.dependency.budget", "{retry}"), ["namespace", "dependency"],
            "Retries that the budget would grant now.";
        DEPENDENCY_FAILING: Gauge, ("holdoff_dependency_failing_ratio", "holdoff.dependency.failing", "1"), ["namespace", "dependency"],
            "Share of the calls that failed: of the window or the last sixteen or so, and while the breaker is not closed of those that opened it.";
        DEPENDENCY_SUCCESSES: Gauge, ("holdoff_dependency_successes_per_second", "holdoff.dependency.successes", "{call}/s"), ["namespace", "dependency"],
            "Successes a second, as an average; 0 where none is known.";
        DEPENDENCY_HELD: Gauge, ("holdoff_dependency_hold_seconds", "holdoff.dependency.hold", "s"), ["namespace", "dependency"],
            "What is left of its hold; 0: none.";
    }
    OF_THE_SELECTION: "What was left out." {
        DEPENDENCIES_LEFT_OUT: Gauge, ("holdoff_dependencies_left_out", "holdoff.dependencies.left_out", "{dependency}"), [],
            "Dependencies that have no series of their own in this answer.";
    }
}

/// All of it, with the heading of each part for people.
pub static ALL: &[(&str, &[&Metric])] = &[
    ("Questions, reports and checks", OF_DECISIONS),
    ("Breakers", OF_BREAKERS),
    ("The service", OF_THE_SERVICE),
    ("The shared store", OF_THE_STORE),
    ("Of each dependency", PER_DEPENDENCY),
    ("Left out", OF_THE_SELECTION),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> impl Iterator<Item = &'static Metric> {
        ALL.iter().flat_map(|(_, part)| part.iter().copied())
    }

    #[test]
    fn every_metric_has_names_of_its_own_and_keeps_the_habits_of_prometheus() {
        let (mut names, mut otels) = (BTreeSet::new(), BTreeSet::new());
        for metric in all() {
            let Metric { name, otel, .. } = metric;
            assert!(names.insert(name) && otels.insert(otel), "{name}");
            let counts = metric.kind == Kind::Counter;
            assert_eq!(counts, name.ends_with("_total"), "{name}");
            if metric.unit == "s" {
                let stem = name.trim_end_matches("_total");
                assert!(stem.ends_with("_seconds"), "{name}");
            }
            assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
        }
    }

    #[test]
    fn only_the_metrics_of_a_dependency_bear_its_name() {
        for metric in all() {
            let named = metric.labels.contains(&"dependency");
            let per_dependency = PER_DEPENDENCY.iter().any(|one| one.name == metric.name);
            assert_eq!(named, per_dependency, "{}", metric.name);
        }
    }
}
