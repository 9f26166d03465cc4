//! Vectors of the calendar and of the ramp.

use holdoff_decision::{
    Nanos, Priority, Share, Time,
    calendar::{Calendar, Full, Grid, Pace, Wish},
    policy,
    ramp::{Progress, Ramp, Usual},
};
use serde_json::{Value, json};

use super::{nanos, number, run, small, time};

fn micros(per_second: &Value) -> u64 {
    (per_second.as_f64().unwrap() * 1e6).round() as u64
}

fn priority(name: &str) -> Priority {
    match name {
        "low" => Priority::Low,
        "normal" => Priority::Normal,
        "high" => Priority::High,
        other => panic!("{other}"),
    }
}

fn capacities(vector: &Value) {
    let grid = Grid::new(
        nanos(&vector["slot_ns"]),
        micros(&vector["rate_per_second"]),
    );
    for slot in vector["capacities"].as_array().unwrap() {
        let number = super::number(&slot["slot"]);
        for (name, expected) in slot["expected"].as_object().unwrap() {
            let capacity = grid.capacity(number, priority(name));
            assert_eq!(capacity, expected.as_u64().unwrap(), "{name}: {slot}");
        }
    }
}

fn reserve(calendar: &mut Calendar, step: &Value, horizon: Nanos) -> Value {
    let wish = Wish {
        at: time(&step["at_ns"]),
        horizon,
        priority: priority(step["priority"].as_str().unwrap()),
        caller: step["caller"].as_u64().unwrap(),
        unit: step["sample"].as_f64().unwrap(),
    };
    match calendar.find(&wish) {
        Ok(place) => {
            calendar.take(place);
            json!({"place_ns": place.at.0.to_string()})
        }
        Err(Full::Horizon { planned, wait, .. }) => {
            let wait = wait.0.to_string();
            json!({"full": "horizon", "planned": planned, "wait_ns": wait})
        }
        Err(Full::Caller { held, part, .. }) => {
            json!({"full": "caller", "held": held, "part": part})
        }
    }
}

#[test]
fn calendar_vectors() {
    run("calendar", 40, |vector| {
        if vector["capacities"].is_array() {
            return capacities(vector);
        }
        let policy = &vector["policy"];
        let (slot, horizon) = (nanos(&policy["slot_ns"]), nanos(&policy["horizon_ns"]));
        let pace = |json: &Value| Pace::Fixed(micros(&json["rate_per_second"]));
        let mut calendar = Calendar::new(slot, pace(policy), time(&vector["begins_ns"]));
        for step in vector["steps"].as_array().unwrap() {
            let now = time(&step["now_ns"]);
            calendar.advance(now);
            let mut answer = match step["do"].as_str().unwrap() {
                "reserve" => reserve(&mut calendar, step, horizon),
                "release" => {
                    calendar.release(time(&step["at_ns"]));
                    json!({})
                }
                "rate" => {
                    calendar.adapt(slot, pace(step), now);
                    json!({})
                }
                "look" => json!({}),
                other => panic!("{other}"),
            };
            answer["planned"] = calendar.planned().into();
            assert_eq!(answer, step["expected"], "{step}");
        }
    });
}

fn ask(ramp: &mut Ramp, policy: &policy::Ramp, step: &Value, now: Time) -> Value {
    let (call, unit) = (number(&step["call"]), step["sample"].as_f64().unwrap());
    match ramp.room(policy, call, unit, now) {
        Ok(wait) => {
            ramp.take(policy, now);
            json!({"wait_ns": wait.0.to_string()})
        }
        Err(_) => {
            let told = ramp.line_up(policy, call, unit, now);
            json!({"retry_after_ns": told.0.to_string()})
        }
    }
}

fn note(ramp: &mut Ramp, step: &Value) -> Value {
    ramp.note(small(&step["successes"]), small(&step["failures"]));
    for latency in step["latencies_ns"].as_array().unwrap() {
        ramp.note_latency(nanos(latency));
    }
    json!({})
}

#[test]
fn ramp_vectors() {
    run("ramp", 36, |vector| {
        let (json, usual) = (&vector["policy"], &vector["usual"]);
        let policy = policy::Ramp {
            start: Share::from_ratio(json["start"].as_f64().unwrap()).unwrap(),
            step: nanos(&json["step_ns"]),
            max_duration: nanos(&json["max_duration_ns"]),
            horizon: nanos(&json["horizon_ns"]),
        };
        let latency = &usual["latency_ns"];
        let usual = Usual {
            per_second: usual["per_second"].as_f64().unwrap(),
            latency: (!latency.is_null()).then(|| nanos(latency)),
            failing: usual["failing"].as_f64().unwrap() as f32,
        };
        let begins = time(&vector["begins_ns"]);
        let mut ramp = Ramp::begin(&policy, Some(usual), begins).unwrap();
        for step in vector["steps"].as_array().unwrap() {
            let now = time(&step["now_ns"]);
            let done = ramp.advance(&policy, now) == Progress::Done;
            let mut answer = match step["do"].as_str().unwrap() {
                "ask" => ask(&mut ramp, &policy, step, now),
                "note" => note(&mut ramp, step),
                "look" => json!({}),
                other => panic!("{other}"),
            };
            let mut expected = step["expected"].clone();
            answer["done"] = done.into();
            if !done {
                let curve = ramp.curve(now);
                let rate = expected["per_second"].take().as_f64().unwrap();
                assert!((curve.per_second - rate).abs() < 1e-5, "{curve:?}: {step}");
                answer["per_second"] = Value::Null;
                answer["waiting"] = curve.waiting.into();
            }
            assert_eq!(answer, expected, "{step}");
        }
    });
}
