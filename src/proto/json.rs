//! Protobuf's JSON mapping of the contract's messages (protobuf.dev, "ProtoJSON Format").
//!
//! Written: every field, so that a reader need not know the defaults. Read: field names in both
//! spellings, and nothing that the contract does not have.

mod names;

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions,
};
use prost_types::FileDescriptorSet;
use serde_json::{Value, error::Category};

/// The package of the contract's own messages.
const PACKAGE: &str = "holdoff.v1";
/// Where google.rpc.ErrorInfo and its like are.
const ERROR_DETAILS: &str = "error_details.proto";

/// The contract, and the details of errors.
static POOL: LazyLock<Option<DescriptorPool>> = LazyLock::new(|| {
    let mut pool = DescriptorPool::decode(super::DESCRIPTORS).ok()?;
    let mut errors = FileDescriptorSet::decode(tonic_types::pb::FILE_DESCRIPTOR_SET).ok()?;
    // The contract has google.rpc.Status already, under another file name.
    errors.file.retain(|file| file.name() == ERROR_DETAILS);
    pool.add_file_descriptor_set(errors).ok()?;
    Some(pool)
});

/// Why a text is no message.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is no JSON, or not the shape of the message.
    #[error("{0}")]
    Text(String),
    /// One field, by its path in the contract's own spelling: there is none of this name, it stands
    /// twice, or it cannot hold its value.
    #[error("{field}: {problem}")]
    Field { field: String, problem: String },
}

/// A message of the contract by its name; every field is there.
pub fn value<M: Message>(name: &str, message: &M) -> Value {
    let options = SerializeOptions::new().skip_default_fields(false);
    mapped(&format!("{PACKAGE}.{name}"), message, &options)
}

/// google.rpc.Status with its details, as Google's APIs write it.
pub fn status(status: &tonic_types::pb::Status) -> Value {
    mapped("google.rpc.Status", status, &SerializeOptions::new())
}

/// Reads a message of the contract by its name.
///
/// # Errors
/// The text is no JSON, has a field that the message has not, or twice, or a value that the field
/// cannot hold; in words, with line and column.
pub fn read<M: Message + Default>(name: &str, text: &[u8]) -> Result<M, Unreadable> {
    let unknown = || Unreadable::Text(format!("{PACKAGE}.{name} is no message of the contract"));
    let unreadable = |error: &dyn std::error::Error| Unreadable::Text(error.to_string());
    let shape = shape(&format!("{PACKAGE}.{name}")).ok_or_else(unknown)?;
    names::check(&shape, text)?;
    let mut json = serde_json::Deserializer::from_slice(text);
    let mut at = serde_path_to_error::Track::new();
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let traced = serde_path_to_error::Deserializer::new(&mut json, &mut at);
    let message = DynamicMessage::deserialize_with_options(shape, traced, &options)
        .map_err(|error| misread(&at.path(), &error))?;
    json.end().map_err(|error| unreadable(&error))?;
    (message.transcode_to()).map_err(|error| unreadable(&error))
}

fn misread(at: &serde_path_to_error::Path, error: &serde_json::Error) -> Unreadable {
    let problem = error.to_string();
    match (error.classify(), at.iter().next()) {
        (Category::Data, Some(_)) => Unreadable::Field {
            field: in_snake_case(&at.to_string()),
            problem,
        },
        (Category::Data, None) | (Category::Io | Category::Syntax | Category::Eof, _) => {
            Unreadable::Text(problem)
        }
    }
}

/// As the contract writes a field that JSON writes `timeLeft`.
fn in_snake_case(path: &str) -> String {
    let mut snake = String::with_capacity(path.len() + 4);
    for letter in path.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn shape(full_name: &str) -> Option<MessageDescriptor> {
    POOL.as_ref()?.get_message_by_name(full_name)
}

fn mapped<M: Message>(full_name: &str, message: &M, options: &SerializeOptions) -> Value {
    shape(full_name)
        .and_then(|shape| DynamicMessage::decode(shape, message.encode_to_vec().as_slice()).ok())
        .and_then(|message| {
            message
                .serialize_with_options(serde_json::value::Serializer, options)
                .ok()
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};

    #[test]
    fn a_message_is_written_with_every_field() {
        let answer = AcquireResponse {
            verdict: Some(acquire_response::Verdict::Denial(Denial {
                reason: DenialReason::BreakerOpen.into(),
                retry_after: Some(prost_types::Duration {
                    seconds: 1,
                    nanos: 500_000_000,
                }),
                detail: "open".into(),
            })),
            state: 2,
            epoch: 7,
            ..Default::default()
        };
        assert_eq!(
            value("AcquireResponse", &answer),
            serde_json::json!({
                "denial": {
                    "reason": "DENIAL_REASON_BREAKER_OPEN", "retryAfter": "1.500s", "detail": "open"
                },
                "state": "BREAKER_STATE_OPEN", "epoch": "7", "degraded": false,
                "previousResult": "REPORT_REASON_UNSPECIFIED",
            })
        );
    }

    #[test]
    fn a_value_that_its_field_cannot_hold_is_told_with_the_field() {
        for (text, named) in [
            (r#"{"attempt": -1}"#, "attempt"),
            (r#"{"attempt": 4294967296}"#, "attempt"),
            (r#"{"attempt": 1.5}"#, "attempt"),
            (r#"{"attempt": true}"#, "attempt"),
            (r#"{"timeLeft": "NaN"}"#, "time_left"),
            (r#"{"time_left": 5}"#, "time_left"),
            (r#"{"safety": "IDEMPOTENT"}"#, "safety"),
            (r#"{"dependency": 7}"#, "dependency"),
            (r#"{"confirm": "%%%"}"#, "confirm"),
            (r#"{"caller": {"service": []}}"#, "caller.service"),
            (
                r#"{"previous": {"outcome": {"statusCode": "x"}}}"#,
                "previous.outcome.status_code",
            ),
            (r#"{"previous": {"permit": "%%%"}}"#, "previous.permit"),
            (r#"{"attempt": 1e400}"#, "attempt"),
            (r#"{"attempt": 1, "timeLeft": -1e400}"#, "time_left"),
            (
                r#"{"caller": {"service": [1, 1e400]}}"#,
                "caller.service[1]",
            ),
        ] {
            match read::<AcquireRequest>("AcquireRequest", text.as_bytes()) {
                Err(Unreadable::Field { field, problem }) => {
                    assert_eq!(field, named, "{text}: {problem}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let text = r#"{"entries": [{"tally": {"dependency": "d"}}, {"result": {"permit": 1}}]}"#;
        match read::<ReportRequest>("ReportRequest", text.as_bytes()) {
            Err(Unreadable::Field { field, .. }) => assert_eq!(field, "entries[1].result.permit"),
            other => panic!("{other:?}"),
        }
        for text in ["{", "[]", "{} {}", r#"{"attempt": x}"#, r#"{"attempt": 1"#] {
            let refused = read::<AcquireRequest>("AcquireRequest", text.as_bytes());
            assert!(matches!(refused, Err(Unreadable::Text(_))), "{text}");
        }
    }

    #[test]
    fn both_spellings_of_a_field_are_read_and_no_other_field() {
        for text in [
            r#"{"dependency": "d", "attempt": 1, "timeLeft": "0.250s", "callId": "x"}"#,
            r#"{"dependency": "d", "attempt": "1", "time_left": "0.25s", "call_id": "x"}"#,
        ] {
            let read: AcquireRequest = read("AcquireRequest", text.as_bytes()).unwrap();
            assert_eq!((&*read.dependency, read.attempt), ("d", 1));
            assert_eq!(read.time_left.unwrap().nanos, 250_000_000);
            assert_eq!(read.call_id, "x");
        }
        for (text, named) in [
            (r#"{"attempt": -1}"#, "out of range"),
            (r#"{"time_left": "soon"}"#, "duration"),
            (r#"{"safety": "SAFETY_SURE"}"#, "SAFETY_SURE"),
            (r#"{"attempt": 1} {}"#, "trailing"),
            ("[]", "map"),
            ("", "EOF"),
        ] {
            let refused = read::<AcquireRequest>("AcquireRequest", text.as_bytes());
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(named), "{text}: {refused}");
        }
    }

    #[test]
    fn a_name_that_there_is_not_or_that_stands_twice_is_told_with_its_place() {
        let (unknown, twice) = ("has no such field", "stands twice");
        for (text, named, why) in [
            (r#"{"dependencies": "d"}"#, "dependencies", unknown),
            (r#"{"Dependency": "d"}"#, "Dependency", unknown),
            (r#"{"caller": {"foo": 1}}"#, "caller.foo", unknown),
            (
                r#"{"previous": {"outcome": {"": 1}}}"#,
                "previous.outcome.",
                unknown,
            ),
            (r#"{"a\nb": 1}"#, "a\\nb", unknown),
            (r#"{"attempt": 1, "attempt": 2}"#, "attempt", twice),
            (
                r#"{"timeLeft": "1s", "time_left": "2s"}"#,
                "time_left",
                twice,
            ),
            (
                r#"{"caller": {"service": "a", "service": "b"}}"#,
                "caller.service",
                twice,
            ),
        ] {
            match read::<AcquireRequest>("AcquireRequest", text.as_bytes()) {
                Err(Unreadable::Field { field, problem }) => {
                    assert_eq!(field, named, "{text}: {problem}");
                    assert!(problem.contains(why), "{text}: {problem}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let text = r#"{"entries": [{"tally": {}}, {"result": {"outcome": {}, "x": 1}}]}"#;
        match read::<ReportRequest>("ReportRequest", text.as_bytes()) {
            Err(Unreadable::Field { field, .. }) => assert_eq!(field, "entries[1].result.x"),
            other => panic!("{other:?}"),
        }
        let long = format!(r#"{{"{}": 1}}"#, "x".repeat(100_000));
        match read::<AcquireRequest>("AcquireRequest", long.as_bytes()) {
            Err(Unreadable::Field { field, .. }) => assert_eq!(field, "x".repeat(64)),
            other => panic!("{other:?}"),
        }
    }
}
