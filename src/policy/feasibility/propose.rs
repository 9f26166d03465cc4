//! Which of the values that a rule has in mind is proposed: the first that may be written,
//! goes with all other fields, and silences the rule.

use holdoff_decision::Policy;

use super::super::fields::{self, FIELDS};
use super::super::layers::{Origin, Resolved};
use super::super::traffic::Facts;
use super::super::tree::{Place, Tree};
use super::super::validate;
use super::super::value::{self, Value};
use super::Rule;
use super::doubt::{Change, Doubt};

/// Empty where none does. `before`: the codes of all that the rule doubts.
pub fn first_that_works(
    rule: Rule,
    doubt: &Doubt,
    before: &[&str],
    policy: &Policy,
    facts: &Facts,
) -> Vec<Change> {
    let candidates = doubt.candidates.iter();
    let mut allowed = candidates.filter_map(|changes| {
        let changes: Option<Vec<Change>> = changes.iter().map(as_written).collect();
        changes
    });
    let works = |changes: &Vec<Change>| {
        let changed = applied(policy, changes);
        // Nor may it exchange one fault for another of the same rule.
        let silent = || {
            let mut left = rule(&changed, facts).into_iter();
            left.all(|other| other.code != doubt.code && before.contains(&other.code))
        };
        is_consistent(&changed) && silent()
    };
    allowed.find(works).unwrap_or_default()
}

/// The policy with other values.
pub fn applied(policy: &Policy, changes: &[Change]) -> Policy {
    let mut changed = policy.clone();
    for (path, value) in changes {
        if let Some(field) = field(path) {
            (FIELDS[field].set)(&mut changed, *value);
        }
    }
    changed
}

/// The field of a path such as `breaker.min_calls`.
pub fn field(path: &str) -> Option<usize> {
    let (section, name) = path.split_once('.')?;
    fields::position(section, name)
}

/// The change as a file would hold it; `None` where it may not.
fn as_written(change: &Change) -> Option<Change> {
    let (path, value) = *change;
    let forms = FIELDS[field(path)?].forms;
    let tree = match value {
        Value::Count(count) => Tree::Number(f64::from(count)),
        Value::Number(number) => Tree::Number(number),
        Value::Flag(flag) => Tree::Flag(flag),
        Value::Span(_) | Value::Word(_) | Value::Proportional(_) => Tree::Text(value.to_string()),
    };
    Some((path, value::read(forms, &tree)?))
}

fn is_consistent(policy: &Policy) -> bool {
    let told = Origin::Layer {
        depth: 0,
        place: Place::default(),
    };
    let resolved = Resolved {
        policy: policy.clone(),
        origins: vec![told; FIELDS.len()],
    };
    validate::faults(&resolved).is_empty()
}
