//! Policies, findings and differences in words.

use holdoff_client::proto::{ListPoliciesResponse, PolicyValue};

use super::{
    super::{
        escape::{escape, escape_lines},
        output::{self, Ink, Tone},
        words,
    },
    files::{Checked, Difference, Found},
};

/// What a check found, each on a line as compilers write it, and the sum.
pub fn checked(ink: Ink, path: &str, checked: &Checked) -> String {
    let count = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        n => Some(format!("{n} {word}s")),
    };
    let path = escape(path);
    let softer = [
        count(checked.warnings, "warning"),
        count(checked.hints, "hint"),
    ];
    let softer: Vec<String> = softer.into_iter().flatten().collect();
    let sum = match (count(checked.errors, "error"), softer.join(", ")) {
        (Some(errors), _) => format!("{path}: would be refused; {errors}\n"),
        (None, softer) if softer.is_empty() => format!("{path}: good\n"),
        (None, softer) => format!("{path}: would be taken; {softer}\n"),
    };
    found(ink, &checked.findings) + &sum
}

/// Findings, each with its code and what is proposed.
pub fn found(ink: Ink, found: &[Found]) -> String {
    found.iter().map(|found| one(ink, found)).collect()
}

fn one(ink: Ink, found: &Found) -> String {
    let tone = match found.severity {
        "error" => Tone::Bad,
        "warning" => Tone::Watch,
        _ => Tone::Quiet,
    };
    let word = ink.paint(tone, found.severity);
    let code = match found.code {
        "refused" => String::new(),
        code => format!(" [{code}]"),
    };
    let mut text = format!("{word}: {}{code}\n", place(found));
    for proposal in &found.proposal {
        let (field, value) = (escape(&proposal.field), escape(&proposal.value));
        text += &format!("  try: {field}: {value}\n");
    }
    text
}

fn place(found: &Found) -> String {
    let mut text = escape(&found.file).into_owned();
    if found.line > 0 {
        text.push_str(&format!(":{}:{}", found.line, found.column));
    }
    if !found.field.is_empty() {
        text.push_str(&format!(": {}", escape(&found.field)));
    }
    match text.is_empty() {
        // It is about all files.
        true => escape(&found.message).into_owned(),
        false => format!("{text}: {}", escape(&found.message)),
    }
}

/// A resolved policy.
pub fn values(ink: Ink, values: &[PolicyValue]) -> String {
    let rows = values.iter().map(|value| {
        let tone = if value.origin == "built-in" {
            Tone::Quiet
        } else {
            Tone::Neutral
        };
        let cells = [&value.field, &value.value, &value.origin];
        (tone, cells.map(|cell| escape(cell).into_owned()).to_vec())
    });
    output::table(ink, &["FIELD", "VALUE", "FROM"], rows.collect())
}

/// Policies as they are written.
pub fn policies(answer: &ListPoliciesResponse) -> String {
    if answer.policies.is_empty() {
        return "No policies: the built-in defaults hold.\n".to_owned();
    }
    let each = answer.policies.iter().map(|policy| {
        let name = entry_name(&policy.namespace, &policy.name);
        let document = escape_lines(&policy.document).replace('\n', "\n  ");
        format!(
            "{name} ({})\n  {}\n",
            words::source(policy.source),
            document.trim_end()
        )
    });
    each.collect()
}

/// What differs, one field a line.
pub fn changes(ink: Ink, changes: &[Difference]) -> String {
    if changes.is_empty() {
        return "No difference.\n".to_owned();
    }
    changes.iter().map(|change| line(ink, change)).collect()
}

fn line(ink: Ink, change: &Difference) -> String {
    let name = entry_name(&change.namespace, &change.name);
    let field = escape(&change.field);
    let (sign, tone) = match (&change.before, &change.after) {
        (None, _) => ("+", Tone::Good),
        (Some(_), None) => ("-", Tone::Bad),
        (Some(_), Some(_)) => ("~", Tone::Watch),
    };
    let what = match (&change.before, &change.after) {
        (None | Some(_), None) | (None, Some(_)) if field.is_empty() => String::new(),
        (None, None) => format!(": {field}"),
        (Some(before), None) => format!(": {field}: {}", escape(before)),
        (None, Some(after)) => format!(": {field}: {}", escape(after)),
        (Some(before), Some(after)) => {
            format!(": {field}: {} → {}", escape(before), escape(after))
        }
    };
    ink.paint(tone, &format!("{sign} {name}{what}")) + "\n"
}

/// `payments`, `team-a payments`, `team-a defaults`: the usual namespace is not repeated.
pub fn entry_name(namespace: &str, name: &str) -> String {
    let name = if name.is_empty() {
        "defaults".into()
    } else {
        escape(name)
    };
    match namespace {
        "" | "default" => name.into_owned(),
        other => format!("{} {name}", escape(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::files, *};

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn one(name: &str, policy: &str) -> tempfile::NamedTempFile {
        file(&format!(
            "version: 1\nnamespaces: {{default: {{dependencies: {{{name}: {policy}}}}}}}\n"
        ))
    }

    fn shown(text: &str, file: &tempfile::NamedTempFile) -> String {
        text.replace(&file.path().display().to_string(), "p.yaml")
    }

    #[test]
    fn a_refused_value_is_shown_with_its_place() {
        let file = one("payments", "{retry: {max_attempts: 0}}");
        let found = files::check(file.path(), &files::Known::default());
        let text = checked(Ink::Plain, &file.path().display().to_string(), &found);
        let text = shown(&text, &file);
        assert!(text.starts_with("error: p.yaml:2:"), "{text}");
        assert!(
            text.contains("namespaces.default.dependencies.payments.retry.max_attempts: 0"),
            "{text}"
        );
        assert!(
            text.ends_with("p.yaml: would be refused; 1 error\n"),
            "{text}"
        );
    }

    #[test]
    fn a_good_file_is_good_and_a_file_that_is_not_there_is_an_error() {
        let file = one("payments", "{retry: {max_attempts: 5}}");
        let found = files::check(file.path(), &files::Known::default());
        assert_eq!(found, Checked::default());
        assert_eq!(checked(Ink::Plain, "p.yaml", &found), "p.yaml: good\n");
        assert_eq!(
            files::check("/no/such.yaml".as_ref(), &files::Known::default()).errors,
            1
        );
    }

    #[test]
    fn a_deadline_finds_attempts_that_never_run() {
        let file = one(
            "p",
            "{retry: {max_attempts: 4, strategy: fixed, jitter: none, initial_delay: 1s}}",
        );
        let mut known = files::Known::default();
        let mut facts = crate::policy::Facts::default();
        facts.give("deadline", "2s").unwrap();
        known.state_everywhere(&facts);
        let found = files::check(file.path(), &known);
        let text = shown(&checked(Ink::Plain, "p.yaml", &found), &file);
        assert!(text.starts_with("warning: p.yaml:2:"), "{text}");
        assert!(
            text.contains("attempts 3 to 4 can never run within 2s: the last needs 3s at least [attempts-beyond-deadline]"),
            "{text}"
        );
        assert!(
            text.contains("\n  try: namespaces.default.dependencies.p.retry.max_attempts: 2\n"),
            "{text}"
        );
        assert!(
            text.ends_with("p.yaml: would be taken; 2 warnings\n"),
            "{text}"
        );
    }

    #[test]
    fn each_value_is_shown_with_where_it_came_from() {
        let file = one("payments", "{retry: {max_attempts: 5}}");
        let answer = files::load(file.path())
            .unwrap()
            .explain("default", "payments")
            .unwrap();
        let text = shown(&values(Ink::Plain, &answer.values), &file);
        let line = text
            .lines()
            .find(|line| line.starts_with("retry.max_attempts"))
            .unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "retry.max_attempts",
                "5",
                "dependencies.payments",
                "(p.yaml:2)"
            ]
        );
        assert!(answer.document.contains("max_attempts: 5"));
    }

    #[test]
    fn a_difference_is_a_line_and_none_says_so() {
        let load = |policy| files::load(one("payments", policy).path()).unwrap();
        let (old, new) = (
            load("{retry: {max_attempts: 3}}"),
            load("{retry: {max_attempts: 5}}"),
        );
        assert_eq!(
            changes(Ink::Plain, &old.changes_to(&new)),
            "~ payments: retry.max_attempts: 3 → 5\n"
        );
        assert_eq!(
            changes(Ink::Plain, &old.changes_to(&old)),
            "No difference.\n"
        );
    }

    #[test]
    fn what_a_service_has_is_compared_with_files() {
        let policy = |name: &str, document: &str, source| holdoff_client::proto::Policy {
            namespace: "default".into(),
            name: name.into(),
            document: document.into(),
            source,
        };
        let written = ListPoliciesResponse {
            policies: vec![policy("payments", "retry: {max_attempts: 3}", 2)],
            next_page_token: String::new(),
        };
        let service = files::Policies::of_service("default", &written).unwrap();
        let file = files::load(one("payments", "{retry: {max_attempts: 5}}").path()).unwrap();
        let text = changes(Ink::Plain, &service.entry_changes_to(&file, "default"));
        assert_eq!(text, "~ payments: retry.max_attempts: 3 → 5\n");
        assert_eq!(
            policies(&written),
            "payments (file)\n  retry: {max_attempts: 3}\n"
        );
    }

    #[test]
    fn all_entries_of_a_file_are_applied_under_their_names() {
        let file = one("\"openai:*\"", "{retry: {max_attempts: 5}}");
        let entries = files::load(file.path()).unwrap().entries();
        assert_eq!(entries.len(), 1);
        assert_eq!(
            (entries[0].namespace.as_str(), entries[0].name.as_str()),
            ("default", "openai:*")
        );
        assert!(entries[0].document.contains("max_attempts: 5"));
    }

    #[test]
    fn the_schema_describes_a_policy_file() {
        assert!(files::schema().to_string().contains("max_attempts"));
    }
}
