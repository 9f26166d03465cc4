//! Reads a scenario, with values put over it.

use std::{io::Read, path::Path};

use holdoff_simulate::{Scenario, scenario::Invalid};
use serde_json::Value;

use super::{shipped, unknown};
use crate::cli::{
    escape::{escape, escape_lines},
    exit::Failure,
};

/// A file is read to here; a scenario is a page.
const BYTES_MAX: u64 = 1 << 20;

/// Reads a shipped scenario or a file. `sets` are `FIELD=VALUE`, the field with dots.
///
/// # Errors
/// [`Failure::Usage`]: what is wrong with it, and where.
pub fn read(named: &str, clients: Option<u32>, sets: &[String]) -> Result<Scenario, Failure> {
    let text = match shipped::text(named) {
        Some(text) => text.to_owned(),
        None => read_file(named)?,
    };
    let mut scenario: Scenario = serde_saphyr::from_str_with_options(&text, as_policies())
        .map_err(|error| Failure::Usage(escape_lines(&format!("{named}: {error}"))))?;
    if let Some(clients) = clients {
        scenario.clients = clients;
    }
    for set in sets {
        scenario = put_over(&scenario, set)?;
    }
    scenario
        .check()
        .map_err(|invalid| refuse(named, &invalid))?;
    Ok(scenario)
}

/// Everything that is wrong with a scenario.
pub fn refuse(named: &str, invalid: &[Invalid]) -> Failure {
    let lines: Vec<String> = invalid
        .iter()
        .map(|it| {
            format!(
                "{}: {}: {} is not allowed; {}",
                escape(named),
                escape(&it.field),
                escape(&it.value),
                it.allowed
            )
        })
        .collect();
    Failure::Usage(lines.join("\n"))
}

fn read_file(named: &str) -> Result<String, Failure> {
    let path = Path::new(named);
    let usage = |error: std::io::Error| match error.kind() {
        // Most likely a name.
        std::io::ErrorKind::NotFound if path.components().count() == 1 => unknown(named),
        _ => Failure::Usage(format!("{}: {error}", escape(named))),
    };
    let refused = |what: &str| Failure::Usage(format!("{}: {what}", escape(named)));
    // Looked at before it is opened: opening a pipe may wait for ever.
    if !std::fs::metadata(path).map_err(usage)?.is_file() {
        return Err(refused("not a regular file"));
    }
    let file = std::fs::File::open(path).map_err(usage)?;
    let mut text = String::new();
    // It may grow, or be longer than it says.
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    if read.map_err(usage)? as u64 > BYTES_MAX {
        let what = format!("a scenario has at most {BYTES_MAX} bytes");
        return Err(refused(&what));
    }
    Ok(text)
}

fn put_over(scenario: &Scenario, set: &str) -> Result<Scenario, Failure> {
    let wrong = |what: &dyn std::fmt::Display| {
        Failure::Usage(escape_lines(&format!("--set {set}: {what}")))
    };
    let (field, value) = set
        .split_once('=')
        .ok_or_else(|| wrong(&"not FIELD=VALUE, as in operation.max_attempts=5"))?;
    let mut value: Value =
        serde_saphyr::from_str_with_options(value, as_policies()).map_err(|error| wrong(&error))?;
    make_whole(&mut value);
    let mut tree = serde_json::to_value(scenario).map_err(|error| wrong(&error))?;
    let mut place = &mut tree;
    for part in field.split('.') {
        if place.is_null() {
            *place = Value::Object(serde_json::Map::new());
        }
        place = match place {
            Value::Array(items) => {
                let item = part.parse().ok().and_then(|it: usize| items.get_mut(it));
                item.ok_or_else(|| wrong(&format_args!("no item {part} in that list")))?
            }
            Value::Object(fields) => fields.entry(part).or_insert(Value::Null),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(wrong(&format_args!("nothing has a field {part} there")));
            }
        };
    }
    *place = value;
    serde_json::from_value(tree).map_err(|error| match error.to_string() {
        text if text.ends_with("expected u32") => {
            let range = format_args!("{text}; a whole number from 0 to {}", u32::MAX);
            wrong(&range)
        }
        text => wrong(&text),
    })
}

/// `off` is a word, as in a policy file, and not false.
fn as_policies() -> serde_saphyr::Options {
    serde_saphyr::options! { strict_booleans: true }
}

/// `1e6` means a million also where a whole number is wanted.
fn make_whole(value: &mut Value) {
    let number = value.as_f64().filter(|_| value.is_f64());
    // Exact up to here.
    let whole = number.filter(|n| n.fract() == 0.0 && (0.0..=9e15).contains(n));
    if let Some(whole) = whole {
        *value = (whole as u64).into();
    }
}
