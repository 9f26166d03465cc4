//! The vectors that all clients share: `tests/vectors/*.json`, described in
//! `docs/vectors.md`. Here this client meets those of single rules; the stories of the local
//! mode are met beside it. The rules below them (backoff, pushback, budget, detector) are met
//! in the crate `holdoff-decision`.

mod said;
mod settings;
mod words;

use std::time::Duration;

use serde_json::Value;

use crate::{DenialReason, OutcomeKind};

/// Runs every vector of a file, of which there must be at least so many.
pub(crate) fn each(name: &str, at_least: usize, check: fn(&Value)) {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("{root}/../../tests/vectors/{name}.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let file: Value = serde_json::from_str(&text).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    assert!(vectors.len() >= at_least, "{name}: {}", vectors.len());
    for vector in vectors {
        let title = vector["name"].as_str().unwrap();
        let ran = std::panic::catch_unwind(|| check(vector));
        assert!(ran.is_ok(), "{name}: {title}");
    }
}

/// Spans and instants are decimal strings: not every language has whole numbers of 64 bits.
pub(crate) fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value}"));
    text.parse().unwrap()
}

pub(crate) fn duration(value: &Value) -> Duration {
    Duration::from_nanos(number(value))
}

/// `None`: null.
pub(crate) fn some_duration(value: &Value) -> Option<Duration> {
    (!value.is_null()).then(|| duration(value))
}

pub(crate) fn small(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

/// As the vectors write spans.
pub(crate) fn text(span: Duration) -> String {
    span.as_nanos().to_string()
}

pub(crate) fn kind(value: &Value) -> OutcomeKind {
    let name = value.as_str().unwrap();
    let found = KINDS.iter().find(|(word, _)| *word == name);
    found.unwrap_or_else(|| panic!("{name}")).1
}

pub(crate) fn kind_name(kind: OutcomeKind) -> &'static str {
    KINDS.iter().find(|(_, known)| *known == kind).unwrap().0
}

const KINDS: [(&str, OutcomeKind); 8] = [
    ("success", OutcomeKind::Success),
    ("failure", OutcomeKind::Failure),
    ("timeout", OutcomeKind::Timeout),
    ("not_sent", OutcomeKind::NotSent),
    ("throttled", OutcomeKind::Throttled),
    ("rejected", OutcomeKind::Rejected),
    ("ignored", OutcomeKind::Ignored),
    ("cancelled", OutcomeKind::Cancelled),
];

/// `BreakerOpen` is `BREAKER_OPEN`.
pub(crate) fn reason_name(reason: DenialReason) -> String {
    let mut name = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_uppercase());
    }
    name
}

pub(crate) fn reason(value: &Value) -> DenialReason {
    let name = value.as_str().unwrap();
    let all = (1..=19).map(|number| {
        let denial = crate::proto::Denial {
            reason: number,
            ..Default::default()
        };
        said::read(denial).reason
    });
    let mut found = all.filter(|reason| reason_name(*reason) == name);
    found.next().unwrap_or_else(|| panic!("{name}"))
}
