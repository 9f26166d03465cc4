//! Vectors that are stories: steps in order on one record.

use std::collections::HashMap;

use holdoff_decision::{
    Ask, Denial, DenialReason as R, Grant, MadeUnder, Outcome, OutcomeKind, Permit, Policy,
    Previous, Question, Reported, Restart, Sample, Share, State, Tally,
    operate::{checkpoint, clear_hold, clear_override, reset, restore, set_override},
    policy::{
        AppliesTo, Detect, Jitter, MaxAttempts, Mode, PushbackScope, Rate, RetryRate, Window,
        WindowSize,
    },
    record::{Override, OverrideKind},
};
use serde_json::Value;

use super::{nanos, run, small, time};
use crate::fleet::{Fleet, an_ask};

#[test]
fn breaker_vectors() {
    run("breaker", 40, tell);
}

#[test]
fn decision_vectors() {
    run("decision", 65, tell);
}

#[test]
fn the_files_hold_three_hundred_vectors() {
    let names = [
        "backoff",
        "pushback_http",
        "pushback_grpc",
        "rate",
        "budget",
        "window",
        "detector",
        "calendar",
        "ramp",
        "breaker",
        "decision",
    ];
    let all: usize = names.iter().map(|name| super::read(name).len()).sum();
    assert!(all >= 300, "{all}");
}

struct Teller {
    fleet: Fleet,
    permits: HashMap<String, Permit>,
}

fn tell(vector: &Value) {
    let mut teller = Teller {
        fleet: Fleet::new(policy(&vector["policy"])),
        permits: HashMap::new(),
    };
    for step in vector["steps"].as_array().unwrap() {
        teller.step(step);
    }
}

fn fields(json: &Value) -> impl Iterator<Item = (&str, &Value)> {
    json.as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.as_str(), value))
}

fn share(value: &Value) -> Share {
    Share::from_ratio(value.as_f64().unwrap()).unwrap()
}

/// The defaults without calendar and ramp, but for what the vector says. A field that is not known is a mistake.
fn policy(json: &Value) -> Policy {
    let mut policy = Policy::default();
    policy.calendar.retry_rate = RetryRate::Off;
    policy.ramp.start = Share::ONE;
    for (section, json) in fields(json) {
        for (name, value) in fields(json) {
            match section {
                "retry" => retry_field(&mut policy, name, value),
                "pushback" => match name {
                    "scope" if value == "dependency" => {
                        policy.pushback.scope = PushbackScope::Dependency;
                    }
                    other => panic!("pushback.{other}"),
                },
                "breaker" => breaker_field(&mut policy, name, value),
                "budget" => match name {
                    "ratio" => policy.budget.ratio = share(value),
                    "floor_per_second" => {
                        let micros = (value.as_f64().unwrap() * 1e6).round();
                        policy.budget.floor_micros_per_second = micros as u64;
                    }
                    "max_caller_share" => policy.budget.max_caller_share = share(value),
                    other => panic!("budget.{other}"),
                },
                "rate" => {
                    let rate = policy.rate.get_or_insert(Rate {
                        per_second: 0.0,
                        burst: 1,
                        max_wait: holdoff_decision::Nanos::ZERO,
                        per_caller: false,
                    });
                    match name {
                        "per_second" => rate.per_second = value.as_f64().unwrap(),
                        "burst" => rate.burst = small(value),
                        "max_wait_ns" => rate.max_wait = nanos(value),
                        other => panic!("rate.{other}"),
                    }
                }
                other => panic!("{other}"),
            }
        }
    }
    policy
}

fn retry_field(policy: &mut Policy, name: &str, value: &Value) {
    let retry = &mut policy.retry;
    match name {
        "initial_delay_ns" => retry.initial_delay = nanos(value),
        "min_attempt_time_ns" => retry.min_attempt_time = nanos(value),
        "max_attempts" if value == "unlimited" => retry.max_attempts = MaxAttempts::Unlimited,
        "max_attempts" => retry.max_attempts = MaxAttempts::Limited(small(value)),
        "jitter" => {
            retry.jitter = match value.as_str().unwrap() {
                "none" => Jitter::None,
                "full" => Jitter::Full,
                "decorrelated" => Jitter::Decorrelated,
                other => panic!("retry.jitter {other}"),
            }
        }
        other => panic!("retry.{other}"),
    }
}

fn window(policy: &mut Policy) -> &mut Window {
    let detect = &mut policy.breaker.detect;
    if *detect == Detect::Adaptive {
        *detect = Detect::Window(Window::default());
    }
    match detect {
        Detect::Window(window) => window,
        Detect::Adaptive => unreachable!(),
    }
}

fn breaker_field(policy: &mut Policy, name: &str, value: &Value) {
    match name {
        "window" => window(policy).size = WindowSize::Calls(small(&value["calls"])),
        "min_calls" => window(policy).min_calls = small(value),
        "failure_ratio" => window(policy).failure_ratio = share(value),
        "slow_ratio" => window(policy).slow_ratio = share(value),
        "consecutive_failures" => window(policy).consecutive_failures = small(value),
        "slow_after_ns" => policy.breaker.slow_after = nanos(value),
        "open_for_ns" => policy.breaker.open_for = nanos(value),
        "open_max_ns" => policy.breaker.open_max = nanos(value),
        "open_multiplier" => policy.breaker.open_multiplier = value.as_f64().unwrap(),
        "probes" => policy.breaker.probes = small(value),
        "probe_successes" => policy.breaker.probe_successes = small(value),
        "permit_ttl_ns" => policy.breaker.permit_ttl = nanos(value),
        "count_rejected" => policy.breaker.count_rejected = value == true,
        "count_throttled" => policy.breaker.count_throttled = value == true,
        "mode" => {
            policy.breaker.mode = match value.as_str().unwrap() {
                "enforce" => Mode::Enforce,
                "shadow" => Mode::Shadow,
                "off" => Mode::Off,
                other => panic!("breaker.mode {other}"),
            }
        }
        "applies_to" if value == "retries" => policy.breaker.applies_to = AppliesTo::Retries,
        other => panic!("breaker.{other}"),
    }
}

fn outcome(json: &Value) -> Outcome {
    let mut outcome = Outcome::of(OutcomeKind::Ignored);
    for (name, value) in fields(json) {
        match name {
            "kind" => {
                outcome.kind = match value.as_str().unwrap() {
                    "success" => OutcomeKind::Success,
                    "failure" => OutcomeKind::Failure,
                    "timeout" => OutcomeKind::Timeout,
                    "not_sent" => OutcomeKind::NotSent,
                    "throttled" => OutcomeKind::Throttled,
                    "rejected" => OutcomeKind::Rejected,
                    "ignored" => OutcomeKind::Ignored,
                    "cancelled" => OutcomeKind::Cancelled,
                    other => panic!("outcome {other}"),
                }
            }
            "latency_ns" => outcome.latency = Some(nanos(value)),
            "pushback_ns" => outcome.pushback = Some(nanos(value)),
            "do_not_retry" => outcome.do_not_retry = value == true,
            "retried_below" => outcome.retried_below = value == true,
            "restarts_backoff" => outcome.restarts_backoff = value == true,
            other => panic!("outcome.{other}"),
        }
    }
    outcome
}

impl Teller {
    fn step(&mut self, step: &Value) {
        self.fleet.now = time(&step["now_ns"]);
        self.fleet.sample = Sample {
            jitter: step["jitter"].as_f64().unwrap_or(0.0),
            spread: step["spread"].as_f64().unwrap_or(0.0),
        };
        let now = self.fleet.now;
        match step["do"].as_str().unwrap() {
            "first" => self.ask(step, Question::First),
            "retry" => {
                let question = Question::Retry {
                    attempt: small(&step["attempt"]),
                    previous: Previous {
                        made_under: self.made_under(step),
                        outcome: outcome(&step["outcome"]),
                    },
                };
                self.ask(step, question);
            }
            "hedge" => self.ask(
                step,
                Question::Hedge {
                    attempt: small(&step["attempt"]),
                },
            ),
            "confirm" => {
                let permit = self.permit(&step["permit"]);
                self.ask(step, Question::Confirm(permit));
            }
            "report" => {
                let permit = match self.made_under(step) {
                    MadeUnder::Permit(permit) => permit,
                    _ => Permit {
                        serial: 1 << 40,
                        ..*self.permits.values().next().unwrap()
                    },
                };
                let reported = self.fleet.report(permit, outcome(&step["outcome"]));
                assert_eq!(
                    reported_name(reported),
                    step["expected"]["reported"],
                    "{step}"
                );
            }
            "tally" => {
                let count = |name: &str| step["counts"][name].as_u64().unwrap_or(0) as u32;
                let tally = Tally {
                    epoch: step["epoch_of"].as_u64().unwrap(),
                    first_attempts: count("first_attempts"),
                    successes: count("successes"),
                    failures: count("failures"),
                    ..Tally::default()
                };
                let reported = self.fleet.tally(tally);
                assert_eq!(
                    reported_name(reported),
                    step["expected"]["reported"],
                    "{step}"
                );
            }
            "override" => {
                let order = Override {
                    kind: match step["kind"].as_str().unwrap() {
                        "force_open" => OverrideKind::ForceOpen,
                        "force_closed" => OverrideKind::ForceClosed,
                        other => panic!("{other}"),
                    },
                    owner: "ops".into(),
                    reason: String::new(),
                    set_at: now,
                    expires: match &step["expires_ns"] {
                        Value::Null => None,
                        end => Some(time(end)),
                    },
                };
                set_override(&mut self.fleet.record, order, now);
            }
            "clear_override" => assert!(clear_override(&mut self.fleet.record, now)),
            "clear_hold" => assert!(clear_hold(&mut self.fleet.record, now)),
            "reset" => reset(&mut self.fleet.record, now),
            "restart" => {
                self.fleet.record = restore(&checkpoint(&self.fleet.record, now), now);
                self.fleet.restarted = Some(Restart::after_another(now));
            }
            "look" => {}
            other => panic!("{other}"),
        }
        self.compare(step);
    }

    fn permit(&self, name: &Value) -> Permit {
        self.permits[name.as_str().unwrap()]
    }

    fn made_under(&self, step: &Value) -> MadeUnder {
        match (
            &step["permit"],
            &step["previous_epoch"],
            &step["unknown_permit"],
        ) {
            (Value::Null, Value::Null, Value::Bool(true)) => MadeUnder::Unknown,
            (Value::Null, epoch, _) => MadeUnder::Epoch(epoch.as_u64().unwrap()),
            (name, _, _) => MadeUnder::Permit(self.permit(name)),
        }
    }

    fn ask(&mut self, step: &Value, question: Question) {
        let ask = Ask {
            caller: step["caller"].as_u64().unwrap_or(1),
            call: step["call"].as_u64(),
            idempotent: step["idempotent"].as_bool().unwrap_or(true),
            time_left: match &step["time_left_ns"] {
                Value::Null => None,
                left => Some(nanos(left)),
            },
            cost: step["cost"].as_u64().unwrap_or(1) as u32,
            ..an_ask(question)
        };
        let answer = self.fleet.ask(ask);
        let expected = &step["expected"];
        match answer.verdict {
            Ok(grant) => self.granted(step, &grant, &expected["granted"]),
            Err(denial) => denied(step, &denial, &expected["denied"]),
        }
        if let Some(previous) = expected["previous"].as_str() {
            assert_eq!(answer.previous.map(reported_name), Some(previous), "{step}");
        }
    }

    fn granted(&mut self, step: &Value, grant: &Grant, expected: &Value) {
        assert!(expected.is_object(), "{grant:?}: {step}");
        for (name, value) in fields(expected) {
            match name {
                "delay_ns" => assert_eq!(grant.delay, nanos(value), "{step}"),
                "probe" => assert_eq!(grant.probe, *value, "{step}"),
                "confirm" => assert_eq!(grant.confirm, *value, "{step}"),
                "permit_ttl_ns" => assert_eq!(grant.permit_ttl, nanos(value), "{step}"),
                "attempt_timeout_ns" => {
                    assert_eq!(grant.attempt_timeout, Some(nanos(value)), "{step}");
                }
                "same_permit" => assert_eq!(grant.permit, self.permit(value), "{step}"),
                other => panic!("granted.{other}"),
            }
        }
        if let Some(name) = step["as"].as_str() {
            self.permits.insert(name.to_owned(), grant.permit);
        }
    }

    fn compare(&self, step: &Value) {
        let view = self.fleet.view();
        for (name, value) in fields(&step["expected"]) {
            match name {
                "granted" | "denied" | "previous" | "reported" => {}
                "state" => assert_eq!(state_name(view.state), *value, "{step}"),
                "epoch" => assert_eq!(view.epoch, *value, "{step}"),
                "probes_out" => assert_eq!(view.probes_out, *value, "{step}"),
                "retries" => assert_eq!(view.budget.retries, *value, "{step}"),
                "first_attempts" => assert_eq!(view.budget.first_attempts, *value, "{step}"),
                "calls" => assert_eq!(view.counts.calls, *value, "{step}"),
                "failures" => assert_eq!(view.counts.failures, *value, "{step}"),
                "trips" => assert_eq!(view.trips, *value, "{step}"),
                "in_state_ns" => assert_eq!(view.in_state_for, nanos(value), "{step}"),
                "held_ns" => {
                    let held = (!value.is_null()).then(|| nanos(value));
                    assert_eq!(view.held_for, held, "{step}");
                }
                other => panic!("expected.{other}"),
            }
        }
    }
}

fn denied(step: &Value, denial: &Denial, expected: &Value) {
    assert!(expected.is_object(), "{denial:?}: {step}");
    assert_eq!(reason_name(denial.reason), expected["reason"], "{step}");
    let after = &expected["retry_after_ns"];
    assert_eq!(
        denial.retry_after,
        (!after.is_null()).then(|| nanos(after)),
        "{step}"
    );
}

fn reported_name(reported: Reported) -> &'static str {
    match reported {
        Reported::Ok => "OK",
        Reported::Duplicate => "DUPLICATE",
        Reported::StaleEpoch => "STALE_EPOCH",
        Reported::Expired => "EXPIRED",
        Reported::Unknown => "UNKNOWN_PERMIT",
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Closed => "CLOSED",
        State::Open => "OPEN",
        State::HalfOpen => "HALF_OPEN",
        State::Recovering => "RECOVERING",
        State::ForcedOpen => "FORCED_OPEN",
        State::ForcedClosed => "FORCED_CLOSED",
    }
}

fn reason_name(reason: R) -> &'static str {
    match reason {
        R::ForcedOpen => "FORCED_OPEN",
        R::Pushback => "PUSHBACK",
        R::PushbackTooLong => "PUSHBACK_TOO_LONG",
        R::NotRetryable => "NOT_RETRYABLE",
        R::RetriedBelow => "RETRIED_BELOW",
        R::AttemptsExhausted => "ATTEMPTS_EXHAUSTED",
        R::RetryUnsafe => "RETRY_UNSAFE",
        R::HedgeRefused => "HEDGE_REFUSED",
        R::Held => "HELD",
        R::CallerFault => "CALLER_FAULT",
        R::BreakerOpen => "BREAKER_OPEN",
        R::ProbeInProgress => "PROBE_IN_PROGRESS",
        R::Recovering => "RECOVERING",
        R::CalendarFull => "CALENDAR_FULL",
        R::RateLimited => "RATE_LIMITED",
        R::Deadline => "DEADLINE",
        R::BudgetExhausted => "BUDGET_EXHAUSTED",
        R::Duplicate => "DUPLICATE",
        R::PermitVoid => "PERMIT_VOID",
    }
}
