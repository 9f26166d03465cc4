//! What a client takes as an endpoint, as a name, and for the dependency of a request.

use serde_json::{Value, json};

use super::each;
use crate::{endpoint::Address, question};

#[test]
fn settings_vectors() {
    each("settings", 100, |vector| {
        let read = match (&vector["endpoint"], &vector["text"], &vector["request"]) {
            (Value::String(text), Value::Null, Value::Null) => {
                let address = Address::read(text).map(|address| {
                    json!({
                        "host": address.host,
                        "port": address.port,
                        "encrypted": address.is_encrypted,
                    })
                });
                json!({ "address": address })
            }
            (Value::Null, Value::String(text), Value::Null) => {
                json!({ "taken": question::is_name(text) })
            }
            (Value::Null, Value::Null, request @ Value::Object(_)) => match derived(request) {
                Some(derived) => derived,
                None => return,
            },
            other => panic!("{other:?}"),
        };
        assert_eq!(read, vector["expected"]);
    });
}

#[cfg(feature = "reqwest")]
fn derived(request: &Value) -> Option<Value> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let mut built = reqwest::Request::new(
        word(&request["method"]).parse().unwrap(),
        word(&request["url"]).parse().unwrap(),
    );
    for header in request["headers"].as_array().unwrap() {
        let name: http::HeaderName = word(&header[0]).parse().unwrap();
        built
            .headers_mut()
            .append(name, word(&header[1]).parse().unwrap());
    }
    let question = crate::layer::question_of(&built);
    let safety = format!("{:?}", question.safety).to_lowercase();
    Some(json!({"dependency": &*question.dependency, "safety": safety}))
}

/// Without the feature there is no adapter that chooses.
#[cfg(not(feature = "reqwest"))]
fn derived(_: &Value) -> Option<Value> {
    None
}
