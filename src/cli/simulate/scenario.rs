//! Reads a scenario, with values put over it.

use std::path::Path;

use holdoff_simulate::{Scenario, scenario::Invalid};
use serde_json::Value;

use super::{shipped, unknown};
use crate::cli::exit::Failure;

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
    let mut scenario: Scenario = serde_saphyr::from_str(&text)
        .map_err(|error| Failure::Usage(format!("{named}: {error}")))?;
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
                "{named}: {}: {} is not allowed; {}",
                it.field, it.value, it.allowed
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
        _ => Failure::Usage(format!("{named}: {error}")),
    };
    let size = std::fs::metadata(path).map_err(usage)?.len();
    if size > BYTES_MAX {
        let message = format!("{named}: {size} bytes; a scenario has at most {BYTES_MAX}");
        return Err(Failure::Usage(message));
    }
    std::fs::read_to_string(path).map_err(usage)
}

fn put_over(scenario: &Scenario, set: &str) -> Result<Scenario, Failure> {
    let wrong = |what: &dyn std::fmt::Display| Failure::Usage(format!("--set {set}: {what}"));
    let (field, value) = set
        .split_once('=')
        .ok_or_else(|| wrong(&"not FIELD=VALUE, as in operation.max_attempts=5"))?;
    let value: Value = serde_saphyr::from_str(value).map_err(|error| wrong(&error))?;
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
    serde_json::from_value(tree).map_err(|error| wrong(&error))
}
