//! What is expected against what came, in words.

use std::time::Duration;

use serde_json::{Map, Value};

/// How much of an object must be stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Others may be there.
    Stated,
    /// No others.
    All,
}

/// Adds a line for each difference.
pub fn differences(
    path: &str,
    expected: &Value,
    got: &Value,
    fields: Fields,
    slack: Duration,
    found: &mut Vec<String>,
) {
    match (expected, got) {
        (Value::Object(range), _) if is_range(range) => {
            if !is_within(path, range, got, slack) {
                found.push(format!("{path}: expected {expected}, got {got}"));
            }
        }
        (Value::Object(wanted), Value::Object(came)) => {
            for (name, value) in wanted {
                let path = joined(path, name);
                let got = came.get(name).unwrap_or(&Value::Null);
                differences(&path, value, got, fields, slack, found);
            }
            for (name, value) in came {
                if fields == Fields::All && !wanted.contains_key(name) {
                    found.push(format!(
                        "{}: expected nothing, got {value}",
                        joined(path, name)
                    ));
                }
            }
        }
        (Value::Array(wanted), Value::Array(came)) => {
            for index in 0..wanted.len().max(came.len()) {
                let path = format!("{path}[{index}]");
                match (wanted.get(index), came.get(index)) {
                    (Some(wanted), Some(came)) => {
                        differences(&path, wanted, came, fields, slack, found);
                    }
                    (Some(wanted), None) => found.push(format!("{path}: missing: {wanted}")),
                    (None, Some(came)) => found.push(format!("{path}: not expected: {came}")),
                    (None, None) => {}
                }
            }
        }
        (expected, got) if expected == got => {}
        (expected, got) => found.push(format!("{path}: expected {expected}, got {got}")),
    }
}

fn joined(path: &str, name: &str) -> String {
    match path.is_empty() {
        true => name.to_owned(),
        false => format!("{path}.{name}"),
    }
}

fn is_range(range: &Map<String, Value>) -> bool {
    !range.is_empty() && range.keys().all(|key| key == "min" || key == "max")
}

/// An upper bound of a time has the slack of a busy machine; a count has none.
fn is_within(path: &str, range: &Map<String, Value>, got: &Value, slack: Duration) -> bool {
    let Some(number) = got.as_f64() else {
        return false;
    };
    let slack = match path.contains("_ms") {
        true => slack.as_secs_f64() * 1e3,
        false => 0.0,
    };
    let bound = |name: &str| range.get(name).and_then(Value::as_f64);
    bound("min").is_none_or(|least| number >= least)
        && bound("max").is_none_or(|most| number <= most + slack)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(expected: Value, got: Value, fields: Fields) -> Vec<String> {
        let mut found = Vec::new();
        let slack = Duration::from_millis(100);
        differences("", &expected, &got, fields, slack, &mut found);
        found
    }

    #[test]
    fn only_what_is_stated_is_compared_unless_all_is() {
        let (expected, got) = (json!({"a": 1}), json!({"a": 1, "b": 2}));
        assert!(found(expected.clone(), got.clone(), Fields::Stated).is_empty());
        assert_eq!(
            found(expected, got, Fields::All),
            ["b: expected nothing, got 2"]
        );
    }

    #[test]
    fn a_time_has_slack_above_and_a_count_has_none() {
        let range = json!({"max": 50});
        let within = |name: &str, got: i32| {
            found(
                json!({name: range.clone()}),
                json!({name: got}),
                Fields::All,
            )
            .is_empty()
        };
        assert!(within("total_ms", 150) && !within("total_ms", 151));
        assert!(within("runs", 50) && !within("runs", 51));
    }

    #[test]
    fn null_and_a_missing_number_are_in_no_range() {
        let expected = json!({"a": {"min": 0}});
        assert_eq!(
            found(expected.clone(), json!({"a": null}), Fields::All).len(),
            1
        );
        assert_eq!(found(expected, json!({}), Fields::All).len(), 1);
    }

    #[test]
    fn more_and_fewer_items_are_told() {
        let lines = found(json!([1, 2]), json!([1]), Fields::All);
        assert_eq!(lines, ["[1]: missing: 2"]);
        let lines = found(json!([]), json!([1]), Fields::All);
        assert_eq!(lines, ["[0]: not expected: 1"]);
    }
}
