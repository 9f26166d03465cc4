//! The JSON Schema of a policy file, from the table of fields: for editors, and for checks
//! in places that do not have holdoff.
//!
//! Not derived from types, since the fields are a table here and not structs. It accepts
//! what loading accepts of single fields; what two fields must not say together only
//! loading knows.

use holdoff_decision::Policy;
use serde_json::{Map, Value as Json, json};

use super::fields::{FIELDS, Field, SECTIONS};
use super::raw::{MAX_DEPENDENCIES, MAX_NAMESPACES};
use super::value::{Form, Value};

const NAME: &str = "^[A-Za-z0-9._/:@-]{1,200}$";
const NAME_OR_ALL: &str = r"^([A-Za-z0-9._/:@-]{1,200}|\*)$";
const NAME_OR_PATTERN: &str = r"^([A-Za-z0-9._/:@-]{1,200}|[A-Za-z0-9._/:@-]{0,200}\*)$";
const DESCRIPTOR: &str = r"^\s*[^=,\s][^=,]*(=[^,]*)?(,\s*[^=,\s][^=,]*(=[^,]*)?)*$";
const NAME_WITH_VALUES: &str = r"^([A-Za-z0-9._/:@-]|\{[^{}]+\})+$";
/// Shape only; the range is in the description.
const DURATION: &str = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h|d) ?)+)$";

/// The schema of a policy file, draft 2020-12.
pub fn schema() -> Json {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "holdoff policy file",
        "type": "object",
        "required": ["version"],
        "additionalProperties": false,
        "properties": {
            "version": {"const": 1, "description": "The only version."},
            "max_dependencies_total": count(MAX_DEPENDENCIES, "Dependencies of all namespaces together.", 1_000_000),
            "max_namespaces": count(MAX_NAMESPACES, "Namespaces.", 1_000),
            "namespaces": {
                "type": ["object", "null"],
                "description": "By name; \"*\" gives all that are not named their policy.",
                "propertyNames": {"pattern": NAME_OR_ALL},
                "additionalProperties": {"$ref": "#/$defs/namespace"},
            },
        },
        "$defs": {
            "name": {"type": "string", "pattern": NAME},
            "duration": {"anyOf": [{"type": "string", "pattern": DURATION}, {"const": 0}]},
            "namespace": namespace(),
            "policy": policy(),
        },
    })
}

fn count(form: Form, meaning: &str, default: u32) -> Json {
    let mut schema = one(form);
    schema["description"] = meaning.into();
    schema["default"] = default.into();
    schema
}

fn namespace() -> Json {
    json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "auto_create": {"type": "boolean", "default": true, "description": "Whether dependencies may appear that nothing is written for."},
            "max_dependencies": count(MAX_DEPENDENCIES, "Dependencies of this namespace.", 10_000),
            "mode": {"enum": ["enforce", "off"], "default": "enforce", "description": "off: every call passes."},
            "defaults": {"$ref": "#/$defs/policy"},
            "envoy": {
                "type": ["object", "null"],
                "description": "Which of Envoy's descriptors is which dependency: keys as key, key=value or key=beginning*, with commas between them; a name with {key} where a value goes. What no rule is for passes.",
                "propertyNames": {"pattern": DESCRIPTOR},
                "additionalProperties": {"type": "string", "pattern": NAME_WITH_VALUES},
            },
            "dependencies": {
                "type": ["object", "null"],
                "description": "By name, or by the beginning of names and a * at its end.",
                "propertyNames": {"pattern": NAME_OR_PATTERN},
                "additionalProperties": {"$ref": "#/$defs/policy"},
            },
        },
    })
}

fn policy() -> Json {
    let sections: Map<String, Json> = SECTIONS
        .iter()
        .map(|section| ((*section).to_owned(), section_schema(section)))
        .collect();
    json!({"type": ["object", "null"], "additionalProperties": false, "properties": sections})
}

fn section_schema(section: &str) -> Json {
    let (switch, fields): (Vec<&Field>, Vec<&Field>) = FIELDS
        .iter()
        .filter(|field| field.section == section)
        .partition(|field| field.name.is_empty());
    let properties: Map<String, Json> = fields
        .into_iter()
        .map(|field| (field.name.to_owned(), field_schema(field)))
        .collect();
    let map = json!({"type": ["object", "null"], "additionalProperties": false, "properties": properties});
    match switch.first() {
        Some(switch) => json!({"description": switch.meaning, "anyOf": [map, {"const": "off"}]}),
        None => map,
    }
}

fn field_schema(field: &Field) -> Json {
    let mut forms: Vec<Json> = field.forms.iter().map(|form| one(*form)).collect();
    let mut schema = match forms.len() {
        1 => forms.remove(0),
        _ => json!({ "anyOf": forms }),
    };
    let ranges = super::value::allowed(field.forms);
    schema["description"] = format!("{} Allowed: {ranges}.", field.meaning).into();
    if let Some(default) = (field.get)(&Policy::default()) {
        schema["default"] = json_of(default);
    }
    schema
}

fn json_of(value: Value) -> Json {
    match value {
        Value::Count(count) => count.into(),
        Value::Number(number) => number.into(),
        Value::Flag(flag) => flag.into(),
        Value::Span(_) | Value::Word(_) | Value::Proportional(_) => value.to_string().into(),
    }
}

fn one(form: Form) -> Json {
    match form {
        Form::Words(words) => json!({ "enum": words }),
        Form::Span(..) => json!({"$ref": "#/$defs/duration"}),
        Form::Count(least, most) | Form::Calls(least, most) => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        Form::Number(least, most) => json!({"type": "number", "minimum": least, "maximum": most}),
        Form::Share(0, most) => json!({"anyOf": [
            {"type": "number", "const": 0},
            {"type": "number", "minimum": 1e-6, "maximum": f64::from(most) / 1e6},
        ]}),
        Form::Share(least, most) => {
            json!({"type": "number", "minimum": f64::from(least) / 1e6, "maximum": f64::from(most) / 1e6})
        }
        Form::Flag => json!({"type": "boolean"}),
        Form::Proportional => json!({"anyOf": [
            {"type": "string", "pattern": r"^proportional\([0-9.]+\)$"},
            {
                "type": "object",
                "required": ["proportional"],
                "additionalProperties": false,
                "properties": {"proportional": {"type": "number", "minimum": 0, "maximum": 1}},
            },
        ]}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_in_the_schema_with_its_meaning() {
        let schema = schema();
        for field in FIELDS.iter().filter(|field| !field.name.is_empty()) {
            let section = &schema["$defs"]["policy"]["properties"][field.section];
            let section = section.get("anyOf").map_or(section, |forms| &forms[0]);
            let described = section["properties"][field.name]["description"].as_str();
            assert!(
                described.is_some_and(|text| text.starts_with(field.meaning)),
                "{}",
                field.path()
            );
        }
        assert_eq!(
            schema["$defs"]["policy"]["properties"]["retry"]["properties"]["max_attempts"]["default"],
            3
        );
    }
}
