//! The documentation has every field, and its examples load.

use super::*;

/// What is written of a field: its default, what is allowed.
fn written(field: &super::super::fields::Field) -> (String, String) {
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
    (default, allowed)
}

/// The row of a field in docs/policies.md.
fn row(field: &super::super::fields::Field) -> String {
    let (default, allowed) = written(field);
    format!(
        "| `{}` | {default} | {allowed} | {} |",
        field.name, field.meaning
    )
}

/// What a form is called in docs/policy-reference.md.
fn kind(form: &Form) -> &'static str {
    match form {
        Form::Words(_) => "word",
        Form::Span(..) => "duration",
        Form::Count(..) | Form::Calls(..) => "whole number",
        Form::Number(..) | Form::Share(..) => "number",
        Form::Flag => "true or false",
        Form::Proportional => "proportional(share)",
    }
}

/// docs/policy-reference.md, from the one table of all fields.
fn reference() -> String {
    let mut page = "\
# Policy reference

Written by a test from the table in `src/policy/fields.rs` that the reader of policy files, `policy show` and the \
JSON Schema use, too. [policies.md](policies.md) explains the sections and how entries lie over each other; \
`holdoff policy schema` prints the same for an editor, and `holdoff policy show NAME` what holds for a dependency. \
To write this page anew: `BLESS=1 cargo test -p holdoff --lib documented`.

Durations are written `150ms`, `2s`, `1m30s`. The ends of a range are allowed unless it says \"above\".
"
    .to_owned();
    let mut section = "";
    for field in FIELDS {
        if field.section != section {
            section = field.section;
            page.push_str(&format!("\n## {section}\n\n"));
            if field.name.is_empty() {
                page.push_str(&format!("{}\n\n", field.meaning));
            }
            page.push_str(
                "| field | type | default | allowed | meaning |\n|---|---|---|---|---|\n",
            );
        }
        if field.name.is_empty() {
            continue;
        }
        let (default, allowed) = written(field);
        let mut kinds: Vec<_> = field.forms.iter().map(kind).collect();
        kinds.dedup();
        let kinds = kinds.join(" or ");
        let path = field.path();
        let meaning = field.meaning;
        page.push_str(&format!(
            "| `{path}` | {kinds} | {default} | {allowed} | {meaning} |\n"
        ));
    }
    page
}

#[test]
fn the_reference_is_written_from_the_table_of_fields() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/policy-reference.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, reference()).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == reference(),
        "docs/policy-reference.md is not as the table; if that is meant, run with BLESS=1"
    );
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
    let pages = [
        include_str!("../../../docs/policies.md"),
        include_str!("../../../docs/quick-start.md"),
        include_str!("../../../docs/migrating-from-resilience4j.md"),
    ];
    let mut examples: Vec<&str> = Vec::new();
    for page in pages {
        let blocks = page.split("```yaml\n").skip(1);
        let before = examples.len();
        examples.extend(blocks.filter_map(|rest| rest.split("```").next()));
        assert!(examples.len() > before, "{page}");
    }
    for example in examples {
        assert_eq!(check(&load(example), &Traffic::default()), [], "{example}");
    }
}
