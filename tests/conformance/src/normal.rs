//! Messages in normal form: what is masked is left out, and so is what has its default.

use std::collections::{BTreeMap, HashSet};

use holdoff_client::proto;
use serde_json::{Map, Value, json};

use crate::said::shouted;

/// One thing that came over the wire.
#[derive(Clone, Debug)]
pub enum Event {
    Hello(Box<proto::Hello>),
    Asked(Box<proto::AcquireRequest>),
    Report(Box<proto::ReportRequest>),
}

/// All questions as they came.
pub fn asked(events: &[Event]) -> Vec<Value> {
    let mut calls: Vec<&str> = Vec::new();
    let questions = events.iter().filter_map(|event| match event {
        Event::Asked(request) => Some(&**request),
        Event::Hello(_) | Event::Report(_) => None,
    });
    questions
        .map(|request| {
            let known = calls.iter().position(|known| *known == request.call_id);
            let index = known.unwrap_or_else(|| {
                calls.push(&request.call_id);
                calls.len() - 1
            });
            let mut shown = question(request);
            if !request.call_id.is_empty() {
                shown.insert("call".into(), json!(format!("c{}", index + 1)));
            }
            Value::Object(shown)
        })
        .collect()
}

/// The same without the calls, sorted.
pub fn asked_sorted(mut asked: Vec<Value>) -> Vec<Value> {
    for question in &mut asked {
        if let Some(fields) = question.as_object_mut() {
            fields.remove("call");
        }
    }
    asked.sort_by_key(Value::to_string);
    asked
}

fn question(request: &proto::AcquireRequest) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| shown.insert(name.into(), value);
    put("dependency", json!(request.dependency));
    put("attempt", json!(request.attempt));
    let safety = request.safety().as_str_name().replace("SAFETY_", "");
    put("safety", json!(safety));
    if request.time_left.is_some() {
        put("time_left", json!(true));
    }
    if !matches!(
        request.priority(),
        proto::Priority::Normal | proto::Priority::Unspecified
    ) {
        let priority = request.priority().as_str_name().replace("PRIORITY_", "");
        put("priority", json!(priority));
    }
    if request.hedge {
        put("hedge", json!(true));
    }
    if request.cost > 1 {
        put("cost", json!(request.cost));
    }
    if !request.confirm.is_empty() {
        put("confirm", json!(permit_name(&request.confirm)));
    }
    if let Some(previous) = &request.previous {
        put("previous", previous_of(previous));
    }
    shown
}

fn previous_of(previous: &proto::Previous) -> Value {
    let mut shown = Map::new();
    match &previous.made_under {
        Some(proto::previous::MadeUnder::Permit(permit)) => {
            shown.insert("permit".into(), json!(permit_name(permit)));
        }
        Some(proto::previous::MadeUnder::Epoch(epoch)) => {
            shown.insert("epoch".into(), json!(epoch));
        }
        None => {}
    }
    let ended = previous.outcome.as_ref().map_or(Value::Null, outcome);
    shown.insert("outcome".into(), ended);
    Value::Object(shown)
}

fn outcome(outcome: &proto::Outcome) -> Value {
    let kind = outcome.kind().as_str_name().replace("OUTCOME_KIND_", "");
    let mut shown = Map::from_iter([("kind".to_owned(), json!(kind))]);
    if outcome.status_code != 0 {
        shown.insert("status_code".into(), json!(outcome.status_code));
    }
    if let Some(wait) = &outcome.pushback {
        let ms = wait.seconds * 1_000 + i64::from(wait.nanos / 1_000_000);
        shown.insert("pushback_ms".into(), json!(ms));
    }
    for (name, is_set) in [
        ("do_not_retry", outcome.do_not_retry),
        ("retried_below", outcome.retried_below),
        (
            "pushback_restarts_backoff",
            outcome.pushback_restarts_backoff,
        ),
    ] {
        if is_set {
            shown.insert(name.into(), json!(true));
        }
    }
    Value::Object(shown)
}

/// Reports, those that were repeated under their sequence once.
fn entries(events: &[Event]) -> impl Iterator<Item = &proto::report_entry::Entry> {
    let mut seen = HashSet::new();
    let reports = events.iter().filter_map(|event| match event {
        Event::Report(report) => Some(&**report),
        Event::Hello(_) | Event::Asked(_) => None,
    });
    reports
        .filter(move |report| report.sequence == 0 || seen.insert(report.sequence))
        .flat_map(|report| &report.entries)
        .filter_map(|entry| entry.entry.as_ref())
}

/// Outcomes reported with permits, sorted by permit.
pub fn results(events: &[Event]) -> Vec<Value> {
    let mut results: Vec<(Vec<u8>, Value)> = Vec::new();
    for entry in entries(events) {
        if let proto::report_entry::Entry::Result(result) = entry {
            let ended = result.outcome.as_ref().map_or(Value::Null, outcome);
            let permit = permit_name(&result.permit);
            results.push((
                result.permit.to_vec(),
                json!({"permit": permit, "outcome": ended}),
            ));
        }
    }
    results.sort_by_key(|(permit, _)| (permit.len(), permit.clone()));
    results.into_iter().map(|(_, shown)| shown).collect()
}

/// Tallies, summed up by dependency and epoch.
pub fn tallies(events: &[Event]) -> Vec<Value> {
    let mut sums: BTreeMap<(&str, u64), BTreeMap<&str, u32>> = BTreeMap::new();
    for entry in entries(events) {
        if let proto::report_entry::Entry::Tally(tally) = entry {
            let sum = sums.entry((&tally.dependency, tally.epoch)).or_default();
            for (name, count) in [
                ("first_attempts", tally.first_attempts),
                ("successes", tally.successes),
                ("failures", tally.failures),
                ("timeouts", tally.timeouts),
                ("throttled", tally.throttled),
                ("rejected", tally.rejected),
                ("slow", tally.slow),
                ("ignored", tally.ignored),
            ] {
                if count > 0 {
                    *sum.entry(name).or_default() += count;
                }
            }
        }
    }
    let shown = sums.into_iter().map(|((dependency, epoch), counts)| {
        let mut shown = json!(counts);
        shown["dependency"] = json!(dependency);
        shown["epoch"] = json!(epoch);
        shown
    });
    shown.collect()
}

/// Kinds of messages as they came, each row of the same kind once.
pub fn order(events: &[Event]) -> Vec<Value> {
    let mut order: Vec<Value> = Vec::new();
    for event in events {
        let kind = match event {
            Event::Hello(_) => continue,
            Event::Asked(_) => json!("asked"),
            Event::Report(_) => json!("report"),
        };
        if order.last() != Some(&kind) {
            order.push(kind);
        }
    }
    order
}

/// The first hello.
pub fn hello(events: &[Event]) -> Value {
    let mut hellos = events.iter().filter_map(|event| match event {
        Event::Hello(hello) => Some(hello),
        Event::Asked(_) | Event::Report(_) => None,
    });
    hellos.next().map_or(Value::Null, |hello| {
        let caller = hello.caller.clone().unwrap_or_default();
        let mut subscribe = hello.subscribe.clone();
        subscribe.sort();
        json!({
            "service": caller.service,
            "instance": caller.instance,
            "namespace": hello.namespace,
            "subscribe": subscribe,
        })
    })
}

/// `TIMEOUT` and the like, of names of the Rust client.
pub fn word(name: &impl std::fmt::Debug) -> String {
    shouted(&format!("{name:?}"))
}

fn permit_name(permit: &[u8]) -> String {
    String::from_utf8_lossy(permit).into_owned()
}
