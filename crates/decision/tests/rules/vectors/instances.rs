//! Vectors of what tells instances apart: evidence by reporter, and the schedule of checkers.

use holdoff_decision::{
    Nanos, Policy, Sample, Share,
    check::{Checks, Finished, Plan, Verdict, checker_name, plan},
    detector::Detector,
    evidence::{Heard, Judged, RECENT, Reporters, Sketch},
    policy::{Check, Phase, Window, WindowSize},
    window::{Counts, Reached, Window as Calls},
};
use serde_json::{Value, json};

use super::{nanos, number, run, small, time};

fn share(json: &Value) -> Share {
    Share::from_ratio(json.as_f64().unwrap()).unwrap()
}

fn breaker(json: &Value) -> holdoff_decision::policy::Breaker {
    let mut policy = Policy::default().breaker;
    policy.min_reporters = small(&json["min_reporters"]);
    policy.max_reporter_share = share(&json["max_reporter_share"]);
    policy.open_for = nanos(&json["open_for_ns"]);
    policy.probe_lease = nanos(&json["probe_lease_ns"]);
    policy.slow_after = nanos(&json["slow_after_ns"]);
    policy
}

fn thresholds(json: &Value) -> Option<Window> {
    let json = json.as_object()?;
    Some(Window {
        size: match json["window"].get("calls") {
            Some(calls) => WindowSize::Calls(small(calls)),
            None => WindowSize::Time(nanos(&json["window"]["time_ns"])),
        },
        min_calls: small(&json["min_calls"]),
        failure_ratio: share(&json["failure_ratio"]),
        consecutive_failures: small(&json["consecutive_failures"]),
        slow_ratio: share(&json["slow_ratio"]),
    })
}

/// The reporters of one breaker.
struct World {
    policy: holdoff_decision::policy::Breaker,
    thresholds: Option<Window>,
    reporters: Reporters,
    recent: Sketch<2>,
    window: Option<Calls>,
}

impl World {
    fn new(vector: &Value) -> Self {
        let thresholds = thresholds(&vector["policy"]["detect"]);
        let begin = time(&vector["steps"][0]["now_ns"]);
        Self {
            policy: breaker(&vector["policy"]),
            window: thresholds.as_ref().map(|of| Calls::new(of.size, begin)),
            thresholds,
            reporters: Reporters::new(0.0, begin),
            recent: Sketch::default(),
        }
    }

    fn step(&mut self, step: &Value) -> Value {
        let at = time(&step["now_ns"]);
        let reporter = (!step["reporter"].is_null()).then(|| number(&step["reporter"]));
        if step["granted"] == true {
            let ends = at + self.policy.probe_lease;
            self.reporters.try_once(reporter.unwrap(), ends);
        } else {
            return self.hears(step, reporter, at);
        }
        self.told(reporter, at, json!({}))
    }

    fn hears(&mut self, step: &Value, reporter: Option<u64>, at: holdoff_decision::Time) -> Value {
        if let Some(name) = reporter {
            self.recent.note(name, RECENT, at);
            self.reporters.note(name, at);
        }
        let (good, failures) = (small(&step["successes"]), small(&step["failures"]));
        let counts = Counts {
            calls: good + failures,
            failures,
            slow: step.get("slow").map_or(0, small),
        };
        let heard = Heard {
            reporter,
            counts,
            at,
        };
        let said = match (&self.thresholds, &mut self.window) {
            (Some(thresholds), Some(window)) => {
                match reporter {
                    Some(_) => window.record_all(counts, at),
                    None => window.record_silent(failures > 0, counts.calls, at),
                }
                let (policy, recent) = (&self.policy, &self.recent);
                let judged = self
                    .reporters
                    .judge(policy, thresholds, window, &heard, recent, at);
                match judged {
                    Judged::Alone => json!({"alone": true}),
                    Judged::Fleet(reached) => json!({"alone": false, "reached": reached.map(word)}),
                }
            }
            _ => {
                let weights = Detector::default().weights();
                match (self.reporters).weigh(&self.policy, weights, &heard, &self.recent) {
                    Judged::Alone => json!({"alone": true}),
                    Judged::Fleet(sum) => {
                        json!({"alone": false, "sum": sum.sum, "trips": sum.trips})
                    }
                }
            }
        };
        self.told(reporter, at, said)
    }

    fn told(&self, reporter: Option<u64>, at: holdoff_decision::Time, mut said: Value) -> Value {
        let refused = reporter.and_then(|name| self.reporters.refused(name, at));
        said["refused_ns"] = json!(refused.map(|left| left.0.to_string()));
        said["active"] = json!(self.reporters.active(&self.recent, at));
        said
    }
}

fn word(reached: Reached) -> &'static str {
    match reached {
        Reached::ConsecutiveFailures(_) => "consecutive_failures",
        Reached::FailureRatio(_) => "failure_ratio",
        Reached::SlowRatio(_) => "slow_ratio",
    }
}

/// Sums to 0.01, times to a microsecond, all else exactly.
fn same(told: &Value, expected: &Value) {
    let expected = expected.as_object().unwrap();
    for (field, wanted) in expected {
        let told = &told[field];
        let close = match (field.as_str(), told, wanted) {
            ("sum", ..) => (told.as_f64().unwrap() - wanted.as_f64().unwrap()).abs() < 0.01,
            (_, Value::String(_), Value::String(_)) if field.ends_with("_ns") => {
                number(told).abs_diff(number(wanted)) <= 1_000
            }
            _ => told == wanted,
        };
        assert!(close, "{field}: {told}, expected {wanted}");
    }
}

#[test]
fn evidence_vectors() {
    run("evidence", 30, |vector| {
        let mut world = World::new(vector);
        for step in vector["steps"].as_array().unwrap() {
            same(&world.step(step), &step["expected"]);
        }
    });
}

fn check_policy(json: &Value) -> Check {
    Check {
        period: nanos(&json["period_ns"]),
        offset: nanos(&json["offset_ns"]),
        phase: match json["phase"].as_str().unwrap() {
            "hash" => Phase::Hash,
            "spread" => Phase::Spread,
            other => panic!("{other}"),
        },
        first_within: nanos(&json["first_within_ns"]),
        timeout: nanos(&json["timeout_ns"]),
        unhealthy_after: small(&json["unhealthy_after"]),
        max_concurrent: small(&json["max_concurrent"]),
        detection_budget: Nanos::MAX,
        observers: small(&json["observers"]),
    }
}

fn check_step(policy: &Check, checks: &mut Checks, step: &Value) -> Value {
    let now = time(&step["now_ns"]);
    let name = number(&step["checker"]);
    let last = step["last"].as_object().map(|last| Finished {
        serial: last["serial"].as_u64().unwrap(),
        healthy: last["healthy"].as_bool().unwrap(),
    });
    let sample = Sample {
        jitter: step["sample"].as_f64().unwrap(),
        spread: 0.0,
    };
    let mut told = match plan(policy, checks, name, last, now, sample) {
        Plan::Run { delay, serial, .. } => {
            json!({"run": true, "delay_ns": delay.0.to_string(), "serial": serial})
        }
        Plan::Shared { age, ask_again, .. } => json!({
            "run": false,
            "ask_again_ns": ask_again.0.to_string(),
            "age_ns": age.map(|age| age.0.to_string()),
        }),
    };
    told["verdict"] = json!(match checks.verdict() {
        Verdict::Unknown => "UNKNOWN",
        Verdict::Healthy => "HEALTHY",
        Verdict::Unhealthy => "UNHEALTHY",
    });
    told
}

#[test]
fn check_vectors() {
    run("check", 30, |vector| {
        if let Some(of) = vector["name_of"].as_array() {
            let [dependency, service, instance] = [0, 1, 2].map(|at| of[at].as_str().unwrap());
            let name = checker_name(dependency, service, instance);
            assert_eq!(name, number(&vector["expected"]));
            return;
        }
        let (policy, mut checks) = (check_policy(&vector["policy"]), Checks::default());
        for step in vector["steps"].as_array().unwrap() {
            same(&check_step(&policy, &mut checks, step), &step["expected"]);
        }
    });
}
