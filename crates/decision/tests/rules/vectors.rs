//! The vectors that all languages share: `tests/vectors/*.json`, described in
//! `docs/vectors.md`. Here they meet the Rust rules.

mod instances;
mod plans;
mod simple;
mod stories;

use holdoff_decision::{Nanos, Time};
use serde_json::Value;

/// The vectors of one file.
fn read(name: &str) -> Vec<Value> {
    let path = format!(
        "{}/../../tests/vectors/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let file: Value = serde_json::from_str(&text).unwrap();
    file["vectors"].as_array().unwrap().clone()
}

/// Runs every vector of a file, of which there must be at least so many.
fn run(name: &str, at_least: usize, check: fn(&Value)) {
    let vectors = read(name);
    assert!(
        vectors.len() >= at_least,
        "{name}: {} vectors",
        vectors.len()
    );
    for vector in &vectors {
        let title = vector["name"].as_str().unwrap();
        let ran = std::panic::catch_unwind(|| check(vector));
        assert!(ran.is_ok(), "{name}: {title}");
    }
}

/// Spans and instants are decimal strings: not every language has whole numbers of 64 bits.
fn number(value: &Value) -> u64 {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no decimal string: {value}"))
        .parse()
        .unwrap()
}

fn nanos(value: &Value) -> Nanos {
    Nanos(number(value))
}

fn time(value: &Value) -> Time {
    Time(number(value))
}

fn small(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}
