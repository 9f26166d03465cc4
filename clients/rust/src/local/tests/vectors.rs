//! The stories of the local mode that all clients share (`tests/vectors/local.json`).

use std::collections::HashMap;

use holdoff_decision::{
    Permit, Share,
    policy::{Jitter, MaxAttempts, Strategy},
};
use serde_json::{Value, json};

use super::super::*;
use crate::tests::vectors::{each, kind, number, reason, reason_name, small, some_duration, text};

struct Story {
    local: Local,
    name: Arc<str>,
    strictness: Strictness,
    permits: HashMap<String, Permit>,
}

#[test]
fn local_vectors() {
    each("local", 150, |vector| {
        let mut story = Story {
            local: Local::new(policy_of(&vector["policy"])),
            name: Arc::from("payments"),
            strictness: match vector["mode"].as_str().unwrap() {
                "all" => Strictness::All,
                "retries_only" => Strictness::RetriesOnly,
                other => panic!("{other}"),
            },
            permits: HashMap::new(),
        };
        for step in vector["steps"].as_array().unwrap() {
            let expected = &step["expected"];
            let answer = story.step(step).unwrap_or_default();
            assert_eq!(answer, *expected, "{step}");
        }
    });
}

impl Story {
    /// `None`: nothing was asked.
    fn step(&mut self, step: &Value) -> Option<Value> {
        let now = Time(number(&step["now_ns"]));
        let question = match step["do"].as_str().unwrap() {
            "first" => Question::First,
            "retry" => Question::Retry {
                attempt: small(&step["attempt"]),
                previous: Previous {
                    made_under: self.made_under(step, now),
                    outcome: outcome(&step["outcome"]).as_decision(),
                },
            },
            "confirm" => Question::Confirm(self.permit(step)),
            "report" => {
                let (permit, outcome) = (self.permit(step), outcome(&step["outcome"]));
                self.local.report(&self.name, &permit, &outcome, now);
                return None;
            }
            "told" => {
                let denied = Denied::new(DeniedBy::Fleet, reason(&step["reason"]), "");
                let denied = denied.after(some_duration(&step["retry_after_ns"]));
                self.local.remember(&self.name, &denied, now);
                return None;
            }
            "let_go" => {
                self.local.let_go(&self.name, now);
                return None;
            }
            other => panic!("{other}"),
        };
        let asked = Asked {
            kept: None,
            question,
            idempotent: step["idempotent"] != false,
            time_left: some_duration(&step["time_left_ns"]).map(Into::into),
            cost: 0,
            priority: Priority::Normal,
            strictness: self.strictness,
        };
        let draw = |name: &str| step[name].as_f64().unwrap_or_default();
        let sample = Sample {
            jitter: draw("jitter"),
            spread: draw("spread"),
        };
        let answer = self.local.ask(&self.name, &asked, now, sample);
        Some(self.shown(step, answer))
    }

    fn shown(&mut self, step: &Value, answer: Result<Grant, Denied>) -> Value {
        match answer {
            Ok(grant) => {
                let is_confirmed = step["do"] == "confirm";
                let name = if is_confirmed { "permit" } else { "as" };
                if let Some(name) = step[name].as_str() {
                    self.permits.insert(name.to_owned(), grant.permit);
                }
                json!({"granted": {
                    "delay_ns": grant.delay.0.to_string(),
                    "probe": grant.probe,
                    "confirm": grant.confirm,
                }})
            }
            Err(denied) => json!({"denied": {
                "reason": reason_name(denied.reason),
                "retry_after_ns": denied.retry_after.map(text),
            }}),
        }
    }

    fn permit(&self, step: &Value) -> Permit {
        self.permits[step["permit"].as_str().unwrap()]
    }

    /// As the previous attempt of a call tells this process.
    fn made_under(&self, step: &Value, now: Time) -> MadeUnder {
        match step["made"].as_str() {
            None => MadeUnder::Permit(self.permit(step)),
            Some("fleet") if step["attempt"] == 2 => {
                MadeUnder::Epoch(self.local.epoch(&self.name, now))
            }
            Some("fleet") => MadeUnder::Unknown,
            Some(other) => panic!("{other}"),
        }
    }
}

fn outcome(json: &Value) -> Outcome {
    let mut outcome = Outcome::new(kind(&json["kind"]));
    for (name, value) in json.as_object().unwrap() {
        match name.as_str() {
            "kind" => {}
            "pushback_ns" => outcome.pushback = some_duration(value),
            "restarts_backoff" => outcome.pushback_restarts_backoff = *value == true,
            "do_not_retry" => outcome.do_not_retry = *value == true,
            "retried_below" => outcome.retried_below = *value == true,
            other => panic!("{other}"),
        }
    }
    outcome
}

/// The client's own policy, but for what the vector says.
fn policy_of(json: &Value) -> Policy {
    let mut policy = policy();
    if let Some(share) = json["jitter_proportion"].as_f64() {
        policy.retry.jitter = Jitter::Proportional(share);
    }
    for (name, value) in json.as_object().unwrap() {
        let span = || Nanos(number(value));
        match name.as_str() {
            "max_attempts" if value.is_null() => policy.retry.max_attempts = MaxAttempts::Unlimited,
            "max_attempts" => policy.retry.max_attempts = MaxAttempts::Limited(small(value)),
            "strategy" => {
                policy.retry.strategy = match value.as_str().unwrap() {
                    "fixed" => Strategy::Fixed,
                    "linear" => Strategy::Linear,
                    "exponential" => Strategy::Exponential,
                    other => panic!("{other}"),
                }
            }
            "jitter" => match value.as_str().unwrap() {
                "none" => policy.retry.jitter = Jitter::None,
                "full" => policy.retry.jitter = Jitter::Full,
                "equal" => policy.retry.jitter = Jitter::Equal,
                "decorrelated" => policy.retry.jitter = Jitter::Decorrelated,
                "proportional" => {}
                other => panic!("{other}"),
            },
            "jitter_proportion" => {}
            "initial_delay_ns" => policy.retry.initial_delay = span(),
            "min_delay_ns" => policy.retry.min_delay = span(),
            "min_attempt_time_ns" => policy.retry.min_attempt_time = span(),
            "budget_ratio_ppm" => policy.budget.ratio = Share(small(value)),
            "floor_micros_per_second" => policy.budget.floor_micros_per_second = number(value),
            "open_for_ns" => policy.breaker.open_for = span(),
            "open_multiplier" => policy.breaker.open_multiplier = value.as_f64().unwrap(),
            "open_max_ns" => policy.breaker.open_max = span(),
            "breaker_off" if *value == true => policy.breaker.mode = Mode::Off,
            other => panic!("{other}"),
        }
    }
    policy
}
