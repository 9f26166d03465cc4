//! How what the service says is read.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use holdoff_decision::{
    Nanos, Policy,
    policy::{Jitter, MaxAttempts, Mode, Strategy},
};
use serde_json::{Value, json};

use super::{duration, each, kind, number, reason_name, small, some_duration, text};
use crate::{
    Outcome,
    clock::Clock,
    denied::Denied,
    local, proto,
    pushed::{OnState, Pushed, Sought, Word, policy},
    tally::Tallies,
    wire::{Answer, Unreadable, read_answer},
};

/// A denial with a known reason, as it is read.
pub(super) fn read(denial: proto::Denial) -> Denied {
    let response = proto::AcquireResponse {
        verdict: Some(proto::acquire_response::Verdict::Denial(denial)),
        ..Default::default()
    };
    match read_answer(response) {
        Ok(Answer::Denial(denied)) => denied,
        other => panic!("{other:?}"),
    }
}

fn wire_duration(value: &Value) -> Option<prost_types::Duration> {
    let fields = value.as_object()?;
    assert_eq!(fields.len(), 2, "{value}");
    Some(prost_types::Duration {
        seconds: value["seconds"].as_str().unwrap().parse().unwrap(),
        nanos: value["nanos"].as_i64().unwrap() as i32,
    })
}

/// Numbers that JSON has no sign for are their names.
fn double(value: &Value) -> f64 {
    match value.as_str() {
        Some(name) => name.parse().unwrap(),
        None => value.as_f64().unwrap(),
    }
}

fn enum_of(value: &Value) -> i32 {
    value.as_i64().unwrap() as i32
}

#[test]
fn answer_vectors() {
    each("answer", 90, |vector| {
        let is_retry = small(&vector["attempt"]) > 1;
        let read = match read_answer(response(&vector["response"])) {
            Ok(Answer::Grant(granted)) => json!({"granted": {
                "delay_ns": text(granted.delay),
                "permit_ttl_ns": granted.permit_ttl.map(text),
                "probe": granted.probe,
                "confirm": granted.confirm,
                "attempt_timeout_ns": granted.attempt_timeout.map(text),
            }}),
            Ok(Answer::Denial(denied)) => json!({"denied": {
                "reason": reason_name(denied.reason),
                "retry_after_ns": denied.retry_after.map(text),
            }}),
            Err(Unreadable::NoDelay) if is_retry => json!({"stops": "UNREADABLE"}),
            Err(_) => json!({"no_decision": true}),
        };
        assert_eq!(capped(&read), vector["expected"]);
    });
}

/// The longest of the wire is above 2^64 ns, which is where the vectors end.
fn capped(read: &Value) -> Value {
    let most = u64::MAX.to_string();
    let text = read.to_string();
    let longest = Duration::new(315_576_000_000, 999_999_999).as_nanos();
    serde_json::from_str(&text.replace(&longest.to_string(), &most)).unwrap()
}

fn response(json: &Value) -> proto::AcquireResponse {
    let mut response = proto::AcquireResponse::default();
    for (name, value) in json.as_object().unwrap() {
        match name.as_str() {
            "state" => response.state = enum_of(value),
            "grant" => {
                let grant = grant(value);
                response.verdict = Some(proto::acquire_response::Verdict::Grant(grant));
            }
            "denial" => {
                let denial = proto::Denial {
                    reason: enum_of(&value["reason"]),
                    retry_after: wire_duration(&value["retry_after"]),
                    detail: String::new(),
                };
                response.verdict = Some(proto::acquire_response::Verdict::Denial(denial));
            }
            other => panic!("{other}"),
        }
    }
    response
}

fn grant(json: &Value) -> proto::Grant {
    let mut grant = proto::Grant {
        permit: Bytes::from(vec![7; 48]),
        ..Default::default()
    };
    for (name, value) in json.as_object().unwrap() {
        match name.as_str() {
            "delay" => grant.delay = wire_duration(value),
            "permit_ttl" => grant.permit_ttl = wire_duration(value),
            "attempt_timeout" => grant.attempt_timeout = wire_duration(value),
            "probe" => grant.probe = *value == true,
            "confirm" => grant.confirm = *value == true,
            "permit_bytes" => grant.permit = vec![7; small(value) as usize].into(),
            other => panic!("{other}"),
        }
    }
    grant
}

#[test]
fn client_policy_vectors() {
    each("client_policy", 160, |vector| {
        let said = (!vector["said"].is_null()).then(|| client_policy(&vector["said"]));
        let allowance = &vector["allowance"];
        let allowance = (!allowance.is_null()).then(|| proto::OfflineAllowance {
            retries_per_second: double(&allowance["retries_per_second"]),
            known_clients: 3,
        });
        let read = policy::read(said.as_ref(), allowance.as_ref(), &local::policy());
        assert_eq!(shown(&read), vector["expected"]);
    });
}

fn client_policy(json: &Value) -> proto::ClientPolicy {
    let mut policy = proto::ClientPolicy::default();
    for (name, value) in json.as_object().unwrap() {
        match name.as_str() {
            "max_attempts" => policy.max_attempts = small(value),
            "strategy" => policy.strategy = enum_of(value),
            "jitter" => policy.jitter = enum_of(value),
            "multiplier" => policy.multiplier = double(value),
            "jitter_proportion" => policy.jitter_proportion = double(value),
            "budget_ratio" => policy.budget_ratio = double(value),
            "open_multiplier" => policy.open_multiplier = double(value),
            "initial_delay" => policy.initial_delay = wire_duration(value),
            "max_delay" => policy.max_delay = wire_duration(value),
            "min_delay" => policy.min_delay = wire_duration(value),
            "min_attempt_time" => policy.min_attempt_time = wire_duration(value),
            "pushback_max" => policy.pushback_max = wire_duration(value),
            "pushback_spread" => policy.pushback_spread = wire_duration(value),
            "budget_ttl" => policy.budget_ttl = wire_duration(value),
            "open_for" => policy.open_for = wire_duration(value),
            "open_max" => policy.open_max = wire_duration(value),
            "slow_after" => policy.slow_after = wire_duration(value),
            "breaker_off" => policy.breaker_off = *value == true,
            other => panic!("{other}"),
        }
    }
    policy
}

fn shown(policy: &Policy) -> Value {
    let span = |span: Nanos| span.0.to_string();
    let (retry, breaker) = (&policy.retry, &policy.breaker);
    let (jitter, proportion) = match retry.jitter {
        Jitter::None => ("none", None),
        Jitter::Full => ("full", None),
        Jitter::Equal => ("equal", None),
        Jitter::Proportional(share) => ("proportional", Some(share)),
        Jitter::Decorrelated => ("decorrelated", None),
    };
    json!({
        "max_attempts": match retry.max_attempts {
            MaxAttempts::Limited(max) => Some(max),
            MaxAttempts::Unlimited => None,
        },
        "strategy": match retry.strategy {
            Strategy::Fixed => "fixed",
            Strategy::Linear => "linear",
            Strategy::Exponential => "exponential",
        },
        "initial_delay_ns": span(retry.initial_delay),
        "multiplier": retry.multiplier,
        "max_delay_ns": span(retry.max_delay),
        "min_delay_ns": span(retry.min_delay),
        "jitter": jitter,
        "jitter_proportion": proportion,
        "min_attempt_time_ns": span(retry.min_attempt_time),
        "pushback_max_ns": span(policy.pushback.max),
        "pushback_spread_ns": span(policy.pushback.spread),
        "budget_ratio_ppm": policy.budget.ratio.0,
        "budget_ttl_ns": span(policy.budget.ttl),
        "open_for_ns": span(breaker.open_for),
        "open_multiplier": breaker.open_multiplier,
        "open_max_ns": span(breaker.open_max),
        "slow_after_ns": span(breaker.slow_after),
        "breaker_off": breaker.mode == Mode::Off,
        "floor_micros_per_second": policy.budget.floor_micros_per_second.to_string(),
    })
}

#[test]
fn pushed_vectors() {
    each("pushed", 100, |vector| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(check_pushed(vector));
    });
}

async fn check_pushed(vector: &Value) {
    let clock = Clock::suspended_by(|| Duration::ZERO);
    let pushed = Pushed::new(clock, local::policy(), Vec::new());
    pushed.store(update(&vector["update"]));
    tokio::time::advance(duration(&vector["after_ns"])).await;
    let (waiting, alone) = (&vector["waiting"], &vector["alone"]);
    let read = if !alone.is_null() {
        let sought = match alone["sought"].as_str().unwrap() {
            "first" => Sought::First,
            "extra" => Sought::Extra,
            other => panic!("{other}"),
        };
        let refused = pushed.refused_alone("payments", sought, alone["since"].as_u64());
        json!({"refused": refused.map(|denied| json!({
            "reason": reason_name(denied.reason),
            "retry_after_ns": denied.retry_after.map(text),
        }))})
    } else if waiting.is_null() {
        match pushed.word("payments") {
            Word::Go(on) => json!({"word": "go", "epoch": on.epoch}),
            Word::Ask => json!({"word": "ask"}),
            Word::Refuse(denied) => json!({
                "word": "refuse",
                "reason": reason_name(denied.reason),
                "retry_after_ns": denied.retry_after.map(text),
            }),
        }
    } else {
        let (epoch, attempt) = (
            waiting["granted_in"].as_u64().unwrap(),
            small(&waiting["attempt"]),
        );
        let dropped = pushed.tripped_since("payments", epoch, attempt);
        json!({
            "dropped": dropped.map(|denied| reason_name(denied.reason)),
            "confirmed": pushed.stands_by("payments", epoch),
        })
    };
    assert_eq!(read, vector["expected"]);
}

fn update(json: &Value) -> proto::Update {
    let mut update = proto::Update {
        dependency: "payments".into(),
        ..Default::default()
    };
    for (name, value) in json.as_object().unwrap() {
        match name.as_str() {
            "state" => update.state = enum_of(value),
            "first_attempts" => update.first_attempts = enum_of(value),
            "epoch" => update.epoch = value.as_u64().unwrap(),
            "valid_for" => update.valid_for = wire_duration(value),
            other => panic!("{other}"),
        }
    }
    update
}

#[test]
fn tally_vectors() {
    each("tally", 22, |vector| {
        let mut tallies = Tallies::default();
        for ended in vector["ended"].as_array().unwrap() {
            if ended["stream_begins"] == true {
                tallies.forget_starts();
                continue;
            }
            let mut outcome = Outcome::new(kind(&ended["kind"]));
            outcome.latency = some_duration(&ended["latency_ns"]);
            let on = OnState {
                epoch: ended["epoch"].as_u64().unwrap(),
                slow_after: Nanos(number(&ended["slow_after_ns"])),
            };
            let dependency = Arc::from(ended["dependency"].as_str().unwrap());
            assert!(tallies.note(&dependency, on, &outcome));
        }
        let mut read: Vec<_> = tallies.take(100).map(shown_tally).collect();
        read.sort_by_key(|tally| (tally["dependency"].to_string(), tally["epoch"].as_u64()));
        assert_eq!(Value::Array(read), vector["expected"]);
    });
}

fn shown_tally(entry: proto::ReportEntry) -> Value {
    let Some(proto::report_entry::Entry::Tally(tally)) = entry.entry else {
        panic!("{entry:?}");
    };
    let latency = Duration::try_from(tally.latency_sum.unwrap()).unwrap();
    json!({
        "dependency": tally.dependency,
        "epoch": tally.epoch,
        "first_attempts": tally.first_attempts,
        "successes": tally.successes,
        "failures": tally.failures,
        "timeouts": tally.timeouts,
        "throttled": tally.throttled,
        "rejected": tally.rejected,
        "slow": tally.slow,
        "ignored": tally.ignored,
        "latency_sum_ns": text(latency),
    })
}
