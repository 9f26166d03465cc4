//! The documentation has every field, and its examples load.

use super::*;

/// The row of a field in docs/policies.md.
fn row(field: &super::super::fields::Field) -> String {
    let unset = Rate {
        per_second: 0.0,
        burst: 0,
        max_wait: Nanos::ZERO,
        per_caller: false,
    };
    let mut all = Policy {
        rate: Some(unset),
        check: Some(Check::default()),
        ..Policy::default()
    };
    all.breaker.detect = Detect::Window(Window::default());
    let default = match field.path().as_str() {
        "rate.per_second" => "none: required".to_owned(),
        "rate.burst" => "follows".to_owned(),
        "breaker.detect" => "`adaptive`".to_owned(),
        _ => format!(
            "`{}`",
            (field.get)(&all)
                .map(|value| value.to_string())
                .unwrap_or_default()
        ),
    };
    let allowed =
        super::super::value::allowed(field.forms).replace(", such as 150ms, 2s or 1m30s", "");
    format!(
        "| `{}` | {default} | {allowed} | {} |",
        field.name, field.meaning
    )
}

#[test]
fn the_documentation_has_every_field_with_its_default_range_and_meaning() {
    let text = include_str!("../../../docs/policies.md");
    let missing: Vec<String> = FIELDS
        .iter()
        .filter(|field| !field.name.is_empty())
        .map(row)
        .filter(|row| !text.contains(row))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/policies.md lacks:\n{}",
        missing.join("\n")
    );
}

#[test]
fn the_examples_of_the_documentation_load_without_a_finding() {
    let text = include_str!("../../../docs/policies.md");
    let examples = text
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let examples: Vec<&str> = examples.collect();
    assert!(!examples.is_empty());
    for example in examples {
        assert_eq!(check(&load(example), &Traffic::default()), [], "{example}");
    }
}
