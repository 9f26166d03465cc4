//! How a result is read, and what is done within the client's own limits.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tonic::Status;

use super::{
    duration, each, kind, kind_name, number, reason, reason_name, small, some_duration, text,
};
use crate::{
    Outcome, Question, Safety,
    asking::{held_back, settled},
    call,
    classify::{grpc, http_at},
    denied::{Denied, DeniedBy},
    gate, permit,
};

#[test]
fn classify_http_vectors() {
    each("classify_http", 140, |vector| {
        let mut headers = HeaderMap::new();
        for header in vector["headers"].as_array().unwrap() {
            let name: HeaderName = header[0].as_str().unwrap().parse().unwrap();
            headers.append(name, header[1].as_str().unwrap().parse().unwrap());
        }
        let status = StatusCode::from_u16(small(&vector["status"]) as u16).unwrap();
        let wall = vector["wall_unix_seconds"].as_u64().unwrap();
        let outcome = http_at(status, &headers, wall);
        assert!(!outcome.do_not_retry && !outcome.pushback_restarts_backoff);
        let read = json!({
            "kind": kind_name(outcome.kind),
            "status_code": outcome.status_code,
            "pushback_ns": pushback(&outcome),
        });
        assert_eq!(read, vector["expected"]);
    });
}

#[test]
fn classify_grpc_vectors() {
    each("classify_grpc", 70, |vector| {
        let code = small(&vector["code"]) as i32;
        let mut status = Status::new(code.into(), "");
        for value in vector["pushback"].as_array().unwrap() {
            let value: HeaderValue = value.as_str().unwrap().parse().unwrap();
            let mut headers = std::mem::take(status.metadata_mut()).into_headers();
            headers.append("grpc-retry-pushback-ms", value);
            *status.metadata_mut() = tonic::metadata::MetadataMap::from_headers(headers);
        }
        let outcome = grpc(&status);
        let read = json!({
            "kind": kind_name(outcome.kind),
            "status_code": outcome.status_code,
            "pushback_ns": pushback(&outcome),
            "restarts_backoff": outcome.pushback_restarts_backoff,
            "do_not_retry": outcome.do_not_retry,
        });
        assert_eq!(read, vector["expected"]);
    });
}

#[test]
fn own_words_vectors() {
    each("own_words", 60, |vector| {
        let question = Question {
            max_attempts: small(&vector["max_attempts"]),
            ..Question::new("payments")
        };
        let question = question.safety(match vector["safety"].as_str().unwrap() {
            "unsafe" => Safety::Unsafe,
            "idempotent" => Safety::Idempotent,
            "keyed" => Safety::Keyed,
            other => panic!("{other}"),
        });
        let left = some_duration(&vector["time_left_ns"]);
        let attempt = small(&vector["attempt"]);
        let answer = settled::time(left).and_then(|()| match &vector["previous"] {
            Value::Null => Ok(()),
            ended => settled::retry(&question, attempt, &outcome(ended)),
        });
        let refused = answer.err().map(|denied| reason_name(denied.reason));
        assert_eq!(json!(refused), vector["expected"]["refused"]);
    });
}

fn outcome(ended: &Value) -> Outcome {
    let mut outcome = Outcome::new(kind(&ended["kind"]));
    for (name, value) in ended.as_object().unwrap() {
        outcome = match name.as_str() {
            "kind" => outcome,
            "do_not_retry" => outcome.do_not_retry(),
            "retried_below" => outcome.retried_below(),
            "pushback_ns" => outcome.pushback(duration(value)),
            other => panic!("{other}"),
        };
    }
    outcome
}

fn pushback(outcome: &Outcome) -> Option<String> {
    outcome.pushback.map(text)
}

#[test]
fn clamp_vectors() {
    each("clamp", 90, |vector| {
        let (title, read) = clamped(vector);
        assert_eq!(read, vector["expected"], "{title}");
    });
}

fn clamped(vector: &Value) -> (&str, Value) {
    let fields = vector.as_object().unwrap().iter();
    let mut cases = fields.filter(|(name, _)| !matches!(name.as_str(), "name" | "expected"));
    let (case, given) = cases.next().unwrap();
    let read = match case.as_str() {
        "wait" => {
            let delay = duration(&given["delay_ns"]);
            match permit::fits(delay, some_duration(&given["time_left_ns"])) {
                Ok(()) => json!({"wait_ns": text(delay.min(permit::DELAY_MAX))}),
                Err(denied) => json!({"denied": reason_name(denied.reason)}),
            }
        }
        "lease" => json!({"use_ns": text(permit::use_of(duration(&given["lease_ns"])))}),
        "ask_again" => {
            let denied = Denied::new(DeniedBy::Fleet, reason(&given["reason"]), "");
            let denied = denied.after(some_duration(&given["retry_after_ns"]));
            let wait = call::wait_to_ask_again(&denied, some_duration(&given["time_left_ns"]));
            json!({"wait_ns": wait.map(text)})
        }
        "shut" => {
            let failed = small(&given["failed_trials"]);
            let shut = gate::shut_for(failed, given["sample"].as_f64().unwrap());
            json!({"shut_ns": text(shut)})
        }
        "held_back" => {
            let left = some_duration(&given["time_left_ns"]);
            let unit = given["sample"].as_f64().unwrap();
            let held = held_back::held_back(small(&given["known_clients"]), left, unit);
            json!({"held_ns": text(held)})
        }
        other => panic!("{other}"),
    };
    (case, read)
}

#[test]
fn a_span_is_written_in_whole_nanoseconds() {
    let span = Duration::new(3, 5);
    assert_eq!(number(&json!(text(span))), 3_000_000_005);
}
