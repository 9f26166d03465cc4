//! Writes what operators are shown.

use std::time::SystemTime;

use holdoff_decision::record::OverrideKind;

use super::answer;
use crate::{
    clock, comparison,
    coordinator::{Detail, Event, EventKind, Replica, Shown, ShownCheck},
    durable::{AuditLink, AuditVerdict},
    policy::{EntryView, ItemOrigin},
    proto,
    store::Denied,
};

pub fn dependency(shown: &Shown) -> proto::Dependency {
    let view = &shown.view;
    proto::Dependency {
        namespace: shown.namespace.clone(),
        name: shown.name.clone(),
        state: answer::state(view.state).into(),
        epoch: view.epoch,
        in_state_for: Some(answer::span(view.in_state_for)),
        open_for: view.open_for.map(answer::span),
        detail: shown.why(),
        r#override: shown.order.as_ref().map(|order| proto::Override {
            kind: override_kind(order.kind).into(),
            owner: order.owner.clone(),
            reason: order.reason.clone(),
            set_time: Some(clock::to_wall(order.set_at).into()),
            expires_in: order.expires.map(|end| answer::span(shown.now.until(end))),
        }),
        held_for: view.held_for.map(answer::span),
        probes_out: view.probes_out,
        permits_out: view.permits_out,
        budget_left: view.budget.left(),
        first_attempts: view.budget.first_attempts,
        retries: view.budget.retries,
        failure_ratio: shown.failing().unwrap_or_default(),
        slow_ratio: shown.slow().unwrap_or_default(),
        suspicion: f64::from(view.suspicion),
        trips: view.trips,
        shadow_state: view.shadow.map_or(0, |state| answer::state(state).into()),
        live: shown.live,
        check: shown.check.as_ref().map(check),
        active_instances: view.active.max(shown.followers),
        calls_per_second: shown.calls_per_second(),
        usual_latency: view.latency.map(answer::span),
        planned_retries: view.planned,
        next_planned_in: view.next_planned.map(answer::span),
        budget_allowed: view.budget.allowed,
        denials: shown.denied.as_deref().map_or_else(Vec::new, denials),
        refused_instances: view.caller_faults,
        followed: None,
    }
}

fn denials(denied: &Denied) -> Vec<proto::DenialCount> {
    let counts = denied.counts().into_iter();
    let counts = counts.map(|(reason, count)| proto::DenialCount {
        reason: comparison::denial_reason(reason).into(),
        count: count.into(),
    });
    counts.collect()
}

pub fn followed(detail: Detail) -> proto::Followed {
    let Detail {
        now,
        since,
        reporters,
        ahead,
    } = detail;
    let (part, calendar) = ahead.map_or((None, Vec::new()), |ahead| {
        (Some(answer::span(ahead.step)), ahead.planned)
    });
    let reporters = reporters.into_iter().map(|it| proto::Reporter {
        service: it.service,
        instance: it.instance,
        heard_ago: Some(answer::span(now.since(it.heard))),
        granted: it.granted,
        denied: it.denied,
        succeeded: it.succeeded,
        failed: it.failed,
    });
    proto::Followed {
        followed_for: Some(answer::span(now.since(since))),
        calendar_part: part,
        calendar,
        reporters: reporters.collect(),
    }
}

fn check(shown: &ShownCheck) -> proto::CheckSummary {
    let summary = &shown.summary;
    proto::CheckSummary {
        period: Some(answer::span(shown.period)),
        checkers: summary.checkers,
        running: summary.running,
        verdict: answer::verdict_of_checks(summary.verdict).into(),
        age: summary.age.map(answer::span),
        failures_in_a_row: summary.failures,
        next_in: summary.next_in.map(answer::span),
    }
}

fn override_kind(kind: OverrideKind) -> proto::OverrideKind {
    match kind {
        OverrideKind::ForceOpen => proto::OverrideKind::ForceOpen,
        OverrideKind::ForceClosed => proto::OverrideKind::ForceClosed,
    }
}

pub fn event(event: &Event) -> proto::Event {
    let state = |state| i32::from(answer::state(state));
    proto::Event {
        sequence: event.sequence,
        time: Some(event.time.into()),
        kind: event_kind(event.kind).into(),
        namespace: event.namespace.clone(),
        dependency: event.dependency.clone(),
        from: event.states.map_or(0, |(from, _)| state(from)),
        to: event.states.map_or(0, |(_, to)| state(to)),
        epoch: event.epoch,
        detail: event.detail.clone(),
        owner: event.owner.clone(),
        replica: event.teller.replica.into(),
        pending: event.is_pending(),
    }
}

pub fn replica(replica: Replica) -> proto::Replica {
    proto::Replica {
        number: replica.number.into(),
        name: replica.about.name,
        address: replica.about.address,
        http_address: replica.about.http,
        version: replica.about.version,
        since: Some(replica.since.into()),
        seen_ago: Some(answer::span(replica.seen_ago)),
        troubles: replica.troubles,
        decisions: replica.about.decisions,
        policies_revision: replica.policies,
        here: replica.is_here,
    }
}

fn event_kind(kind: EventKind) -> proto::EventKind {
    match kind {
        EventKind::Tripped => proto::EventKind::Tripped,
        EventKind::Probing => proto::EventKind::Probing,
        EventKind::Reopened => proto::EventKind::Reopened,
        EventKind::Recovered => proto::EventKind::Recovered,
        EventKind::OverrideSet => proto::EventKind::OverrideSet,
        EventKind::OverrideCleared => proto::EventKind::OverrideCleared,
        EventKind::OverrideExpired => proto::EventKind::OverrideExpired,
        EventKind::Reset => proto::EventKind::Reset,
        EventKind::Held => proto::EventKind::Held,
        EventKind::HoldCleared => proto::EventKind::HoldCleared,
        EventKind::PolicyPut => proto::EventKind::PolicyPut,
        EventKind::PolicyDeleted => proto::EventKind::PolicyDeleted,
        EventKind::PoliciesReloaded => proto::EventKind::PoliciesReloaded,
        EventKind::PoliciesRefused => proto::EventKind::PoliciesRefused,
        EventKind::ShadowTripped => proto::EventKind::ShadowTripped,
        EventKind::Started => proto::EventKind::Started,
        EventKind::CallerRefused => proto::EventKind::CallerRefused,
        EventKind::CallerRecovered => proto::EventKind::CallerRecovered,
        EventKind::RampEnded => proto::EventKind::RampEnded,
        EventKind::CheckUnhealthy => proto::EventKind::CheckUnhealthy,
        EventKind::CheckHealthy => proto::EventKind::CheckHealthy,
        EventKind::CandidatePut => proto::EventKind::CandidatePut,
        EventKind::CandidateDropped => proto::EventKind::CandidateDropped,
        EventKind::CandidatePromoted => proto::EventKind::CandidatePromoted,
        EventKind::CandidateTripped => proto::EventKind::CandidateTripped,
        EventKind::StoreAway => proto::EventKind::StoreAway,
        EventKind::StoreBack => proto::EventKind::StoreBack,
    }
}

pub fn audit(link: AuditLink) -> proto::AuditRecord {
    let record = link.record;
    let time: SystemTime = record.time();
    proto::AuditRecord {
        sequence: record.sequence,
        time: Some(time.into()),
        hash: record.hash.to_string(),
        hash_before: link
            .before
            .map_or_else(String::new, |hash| hash.to_string()),
        owner: record.owner,
        action: record.action,
        namespace: record.namespace,
        dependency: record.dependency,
        detail: record.detail,
    }
}

pub fn audit_chain(chain: &AuditVerdict) -> proto::AuditChain {
    proto::AuditChain {
        intact: chain.intact,
        intact_of_namespace: chain.intact_of_namespace,
        head_sequence: chain.head.sequence,
        head_hash: chain.head.hash.to_string(),
        broken: chain.broken.map_or_else(String::new, |it| it.to_string()),
    }
}

pub fn policy(namespace: &str, entry: EntryView) -> proto::Policy {
    let source = match entry.origin {
        ItemOrigin::BuiltIn => proto::PolicySource::BuiltIn,
        ItemOrigin::File(_) => proto::PolicySource::File,
        ItemOrigin::Api(_) => proto::PolicySource::Api,
    };
    proto::Policy {
        namespace: namespace.to_owned(),
        name: entry.name,
        document: entry.document,
        source: source.into(),
    }
}
