//! Vectors of one rule each.

use holdoff_decision::{
    Nanos, Share, Time,
    backoff::{ceiling, delay},
    budget::Budget,
    detector::{Detector, THRESHOLD},
    policy,
    pushback::{GrpcPushback, parse_grpc, parse_retry_after},
    rate::{Rate, Room},
    window::{Call, Counts, Reached, Window},
};
use serde_json::Value;

use super::{nanos, run, small, time};

fn backoff_policy(json: &Value) -> policy::Retry {
    policy::Retry {
        strategy: match json["strategy"].as_str().unwrap() {
            "fixed" => policy::Strategy::Fixed,
            "linear" => policy::Strategy::Linear,
            "exponential" => policy::Strategy::Exponential,
            other => panic!("{other}"),
        },
        initial_delay: nanos(&json["initial_delay_ns"]),
        multiplier: json["multiplier"].as_f64().unwrap(),
        max_delay: nanos(&json["max_delay_ns"]),
        min_delay: nanos(&json["min_delay_ns"]),
        jitter: match json["jitter"].as_str().unwrap() {
            "none" => policy::Jitter::None,
            "full" => policy::Jitter::Full,
            "equal" => policy::Jitter::Equal,
            "proportional" => policy::Jitter::Proportional(json["proportion"].as_f64().unwrap()),
            "decorrelated" => policy::Jitter::Decorrelated,
            other => panic!("{other}"),
        },
        ..policy::Retry::default()
    }
}

#[test]
fn backoff_vectors() {
    run("backoff", 110, |vector| {
        let policy = backoff_policy(&vector["policy"]);
        let (n, expected) = (small(&vector["retry"]), &vector["expected"]);
        let unit = vector["sample"].as_f64().unwrap();
        let drawn = delay(&policy, n, nanos(&vector["previous_delay_ns"]), unit);
        assert_eq!(ceiling(&policy, n), nanos(&expected["ceiling_ns"]));
        assert_eq!(drawn, nanos(&expected["delay_ns"]));
    });
}

#[test]
fn pushback_http_vectors() {
    run("pushback_http", 45, |vector| {
        let value = vector["value"].as_str().unwrap();
        let wall = vector["wall_unix_seconds"].as_u64().unwrap();
        let parsed = parse_retry_after(value, vector["date"].as_str(), wall);
        let expected = &vector["expected_ns"];
        assert_eq!(parsed, (!expected.is_null()).then(|| nanos(expected)));
    });
}

#[test]
fn pushback_grpc_vectors() {
    run("pushback_grpc", 20, |vector| {
        let expected = match &vector["expected"]["after_ns"] {
            Value::Null => GrpcPushback::DoNotRetry,
            wait => GrpcPushback::After(nanos(wait)),
        };
        assert_eq!(parse_grpc(vector["value"].as_str().unwrap()), expected);
    });
}

#[test]
fn rate_vectors() {
    run("rate", 12, |vector| {
        let json = &vector["policy"];
        let policy = policy::Rate {
            per_second: json["per_second"].as_f64().unwrap(),
            burst: small(&json["burst"]),
            max_wait: Nanos::ZERO,
            per_caller: json["per_caller"].as_bool().unwrap(),
        };
        let mut rate = Rate::default();
        for step in vector["steps"].as_array().unwrap() {
            let (now, cost) = (time(&step["now_ns"]), small(&step["cost"]));
            let caller = step["caller"].as_u64().unwrap();
            let room = rate.room(&policy, caller, cost, now);
            let expected = match &step["expected"]["wait_ns"] {
                Value::Null => Room::Never,
                wait => Room::After(nanos(wait)),
            };
            assert_eq!(room, expected, "{step}");
            if room == Room::After(Nanos::ZERO) {
                rate.take(&policy, caller, cost, now);
            }
        }
    });
}

#[test]
fn budget_vectors() {
    run("budget", 18, |vector| {
        let json = &vector["policy"];
        let policy = policy::Budget {
            ratio: Share::from_ratio(json["ratio"].as_f64().unwrap()).unwrap(),
            floor_micros_per_second: (json["floor_per_second"].as_f64().unwrap() * 1e6).round()
                as u64,
            ttl: nanos(&json["ttl_ns"]),
            max_caller_share: Share::ONE,
        };
        let mut budget = Budget::default();
        for step in vector["steps"].as_array().unwrap() {
            let (now, count) = (time(&step["now_ns"]), small(&step["count"]));
            if step["do"] == "deposit" {
                budget.deposit(&policy, count, now);
                continue;
            }
            let mut granted = 0_u64;
            for _ in 0..count {
                if budget.look(&policy, 1, Time::ORIGIN, now).is_ok() {
                    budget.withdraw(&policy, 1, now);
                    granted += 1;
                }
            }
            let (level, expected) = (budget.level(&policy, Time::ORIGIN, now), &step["expected"]);
            assert_eq!(granted, expected["granted"], "{step}");
            assert_eq!(level.first_attempts, expected["first_attempts"], "{step}");
            assert_eq!(level.retries, expected["retries"], "{step}");
            assert_eq!(level.allowed, expected["allowed"], "{step}");
        }
    });
}

#[test]
fn window_vectors() {
    run("window", 16, |vector| {
        let json = &vector["policy"];
        let size = match &json["window"]["calls"] {
            Value::Null => policy::WindowSize::Time(nanos(&json["window"]["time_ns"])),
            calls => policy::WindowSize::Calls(small(calls)),
        };
        let share = |name: &str| Share::from_ratio(json[name].as_f64().unwrap()).unwrap();
        let policy = policy::Window {
            size,
            min_calls: small(&json["min_calls"]),
            failure_ratio: share("failure_ratio"),
            consecutive_failures: small(&json["consecutive_failures"]),
            slow_ratio: share("slow_ratio"),
        };
        let watches_slow = json["watches_slow"].as_bool().unwrap();
        let mut window = Window::new(size, Time::ORIGIN);
        for step in vector["steps"].as_array().unwrap() {
            let now = time(&step["now_ns"]);
            let (failed, slow) = (step["failed"] == true, step["slow"] == true);
            window.record(Call { failed, slow }, small(&step["count"]), now);
            let expected = &step["expected"];
            let Counts {
                calls,
                failures,
                slow,
            } = window.counts(now);
            assert_eq!(calls, small(&expected["calls"]), "{step}");
            assert_eq!(failures, small(&expected["failures"]), "{step}");
            assert_eq!(slow, small(&expected["slow"]), "{step}");
            let reached = window
                .reached(&policy, watches_slow, now)
                .map(|reached| match reached {
                    Reached::ConsecutiveFailures(_) => "consecutive_failures",
                    Reached::FailureRatio(_) => "failure_ratio",
                    Reached::SlowRatio(_) => "slow_ratio",
                });
            assert_eq!(reached, expected["reached"].as_str(), "{step}");
        }
    });
}

#[test]
fn detector_vectors() {
    run("detector", 13, |vector| {
        let mut detector = Detector::default();
        for step in vector["steps"].as_array().unwrap() {
            let now = time(&step["now_ns"]);
            let (successes, failures) = (small(&step["successes"]), small(&step["failures"]));
            let trips = detector.record(successes, failures, now);
            let expected = &step["expected"];
            assert_eq!(trips, expected["trips"], "{step}");
            let sum = f64::from(detector.suspicion(now) * THRESHOLD);
            let wanted = expected["sum"].as_f64().unwrap();
            let near = (sum - wanted).abs() < 0.01 || wanted > 1000.0;
            assert!(near, "{sum}: {step}");
        }
    });
}
