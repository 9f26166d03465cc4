//! What needs nobody's answer: it follows from what the caller said about the call and from
//! how the attempt before ended. The order is the service's.

use std::time::Duration;

use crate::{
    denied::{DenialReason, Denied},
    outcome::{Outcome, OutcomeKind},
    question::{Question, Safety},
};

/// `None`: there is no deadline.
pub(super) fn time(left: Option<Duration>) -> Result<(), Denied> {
    match left.is_some_and(|left| left.is_zero()) {
        true => refuse(DenialReason::Deadline, "the caller's deadline has passed"),
        false => Ok(()),
    }
}

/// May there be an attempt after one that ended so?
pub(super) fn retry(question: &Question, attempt: u32, outcome: &Outcome) -> Result<(), Denied> {
    if outcome.do_not_retry {
        return refuse(DenialReason::Pushback, "");
    }
    match outcome.kind {
        OutcomeKind::Success
        | OutcomeKind::Rejected
        | OutcomeKind::Ignored
        | OutcomeKind::Cancelled => return refuse(DenialReason::NotRetryable, ""),
        OutcomeKind::Failure
        | OutcomeKind::Timeout
        | OutcomeKind::NotSent
        | OutcomeKind::Throttled => {}
    }
    if outcome.retried_below {
        return refuse(DenialReason::RetriedBelow, "");
    }
    let limit = question.max_attempts;
    if attempt > limit {
        let detail = format!("the caller allows {limit}");
        return refuse(DenialReason::AttemptsExhausted, &detail);
    }
    if question.safety == Safety::Unsafe && outcome.kind != OutcomeKind::NotSent {
        let detail = "it may have been executed, and is neither idempotent nor keyed";
        return refuse(DenialReason::RetryUnsafe, detail);
    }
    Ok(())
}

fn refuse(reason: DenialReason, detail: &str) -> Result<(), Denied> {
    Err(Denied::caller(reason, detail))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::vectors::{duration, each, kind, reason_name, small};

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
            let left = Some(&vector["time_left_ns"]).filter(|left| !left.is_null());
            let answer = time(left.map(duration)).and_then(|()| match &vector["previous"] {
                Value::Null => Ok(()),
                ended => retry(&question, small(&vector["attempt"]), &outcome(ended)),
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
}
