//! Policies as text: every field with where it came from, the whole as YAML, and what
//! differs between two sets.

use std::collections::{BTreeMap, BTreeSet};

use holdoff_decision::Policy;

use super::fields::{FIELDS, Field, SECTIONS};
use super::layers::Origin;
use super::name;
use super::raw::Entry;
use super::set::*;
use super::value::Value;

/// One field of a resolved policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// `retry.max_attempts`.
    pub field: String,
    /// As it is written in a policy file.
    pub value: String,
    /// `built-in`; `API`; or an entry, its file and line:
    /// `dependencies."openai:*" (policies.yaml:14)`.
    pub origin: String,
}

/// An entry as it is written.
#[derive(Clone, Debug)]
pub struct EntryView {
    /// A name, a pattern, or empty for the defaults.
    pub name: String,
    /// YAML: as it was put; from a file without its comments.
    pub document: String,
    pub origin: ItemOrigin,
}

/// A field that differs between two sets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    pub namespace: String,
    /// A name, a pattern, or empty for the defaults and the namespace's own fields.
    pub name: String,
    /// Empty: the entry (or the namespace) as a whole appears or goes.
    pub field: String,
    /// `None`: there is no such field (entry, namespace).
    pub before: Option<String>,
    pub after: Option<String>,
}

impl PolicySet {
    /// Every field of a dependency's policy, in the order of the documentation; with the
    /// defaults (no name) also how Envoy's descriptors are named. `None`: there is no such
    /// namespace.
    pub fn explain(&self, namespace: &str, dependency: &str) -> Option<Vec<Explained>> {
        let namespace = self.namespace(namespace)?;
        let (item, named) = namespace.winner(dependency);
        let resolved = namespace.layered(item);
        let title = match named {
            Named::Exact => dependency.to_owned(),
            Named::Pattern => namespace.pattern_of(dependency),
            Named::Defaults => String::new(),
        };
        let layer = |depth: usize| match depth {
            0 => (&namespace.defaults.origin, ""),
            _ => (&item.origin, title.as_str()),
        };
        let rows = FIELDS
            .iter()
            .zip(&resolved.origins)
            .filter_map(|(field, &from)| {
                Some(Explained {
                    field: field.path(),
                    value: (field.get)(&resolved.policy)?.to_string(),
                    origin: origin(from, &namespace.written_as, layer),
                })
            });
        let mut rows: Vec<Explained> = rows.collect();
        if dependency.is_empty() {
            rows.extend(namespace.explained_envoy());
        }
        Some(rows)
    }

    /// What is written in a namespace: the defaults first, then by name. `None`: there is
    /// no such namespace.
    pub fn entries(&self, namespace: &str) -> Option<Vec<EntryView>> {
        let items = self.namespace(namespace)?.items().into_iter();
        let written = items.filter(|(_, item)| !matches!(item.origin, ItemOrigin::BuiltIn));
        Some(written.map(|(name, item)| view(name, item)).collect())
    }
}

impl NamespacePolicy {
    fn explained_envoy(&self) -> impl Iterator<Item = Explained> {
        let rules = self.envoy.iter().flat_map(|section| &section.written);
        rules.map(|rule| {
            let (file, place) = &rule.at;
            Explained {
                field: format!("envoy.{}", name::step(&rule.descriptor)),
                value: rule.name.clone(),
                origin: format!(
                    "namespaces.{}.envoy ({file}:{})",
                    name::step(&self.written_as),
                    place.line
                ),
            }
        })
    }

    /// The pattern that wins for `dependency`.
    pub(super) fn pattern_of(&self, dependency: &str) -> String {
        let prefixes = self
            .lengths
            .iter()
            .filter_map(|&length| dependency.get(..length));
        let mut known = prefixes.filter(|&prefix| self.patterns.contains_key(prefix));
        known
            .next()
            .map(|prefix| format!("{prefix}*"))
            .unwrap_or_default()
    }
}

/// An origin as text; `layer` gives a layer's item and its name.
pub fn origin<'a>(
    origin: Origin,
    namespace: &str,
    layer: impl Fn(usize) -> (&'a ItemOrigin, &'a str),
) -> String {
    let (depth, place) = match origin {
        Origin::BuiltIn => return "built-in".into(),
        Origin::Follows(field) => return format!("built-in (follows {field})"),
        Origin::Layer { depth, place } => (depth, place),
    };
    let (item, name) = layer(depth);
    let title = match name.is_empty() {
        true => format!("namespaces.{}.defaults", name::step(namespace)),
        false => format!("dependencies.{}", name::step(name)),
    };
    match item {
        ItemOrigin::BuiltIn => "built-in".into(),
        ItemOrigin::File(file) => format!("{title} ({file}:{})", place.line),
        ItemOrigin::Api(_) => "API".into(),
    }
}

fn view(name: String, item: &Item) -> EntryView {
    let document = match &item.origin {
        ItemOrigin::Api(text) => text.to_string(),
        ItemOrigin::File(_) | ItemOrigin::BuiltIn => entry_yaml(&item.entry),
    };
    EntryView {
        name,
        document,
        origin: item.origin.clone(),
    }
}

/// The whole policy as it would stand under a dependency. Read back it is the same policy.
pub fn to_yaml(policy: &Policy) -> String {
    yaml(|field, _| (field.get)(policy))
}

fn entry_yaml(entry: &Entry) -> String {
    match entry.settings.is_empty() {
        true => "{}\n".into(),
        false => yaml(|_, index| entry.find(index).map(|setting| setting.value)),
    }
}

fn yaml(value: impl Fn(&Field, usize) -> Option<Value>) -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let fields = FIELDS
            .iter()
            .enumerate()
            .filter(|(_, field)| field.section == section);
        let values = fields.filter_map(|(index, field)| Some((field.name, value(field, index)?)));
        let (switch, values): (Vec<_>, Vec<_>) = values.partition(|(name, _)| name.is_empty());
        let off = switch.iter().any(|(_, value)| *value == Value::Word("off"));
        match (off, values.is_empty(), switch.is_empty()) {
            (true, _, _) => text += &format!("{section}: off\n"),
            (false, true, true) => {}
            (false, true, false) => text += &format!("{section}: {{}}\n"),
            (false, false, _) => {
                text += &format!("{section}:\n");
                values
                    .iter()
                    .for_each(|(name, value)| text += &format!("  {name}: {value}\n"));
            }
        }
    }
    text
}

/// What changes from `old` to `new`, for every name that either writes down. An entry that
/// only one of them has is compared with what applies to its name in the other.
pub fn diff(old: &PolicySet, new: &PolicySet) -> Vec<Change> {
    let mut changes = Vec::new();
    let all = old
        .written_namespaces()
        .into_iter()
        .chain(new.written_namespaces());
    let mut names: Vec<String> = all.map(|(name, _)| name.to_owned()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let change = |field: &str, before, after| Change {
            namespace: name.clone(),
            name: String::new(),
            field: field.to_owned(),
            before,
            after,
        };
        match (find(old, &name), find(new, &name)) {
            (Some(before), Some(after)) => namespace_diff(&name, before, after, &mut changes),
            (Some(_), None) => changes.push(change("", Some("present".into()), None)),
            (None, Some(_)) => changes.push(change("", None, Some("present".into()))),
            (None, None) => {}
        }
    }
    changes
}

fn find<'a>(set: &'a PolicySet, name: &str) -> Option<&'a NamespacePolicy> {
    match name {
        "*" => set.rest.as_ref(),
        name => set.namespace(name),
    }
}

fn namespace_diff(
    namespace: &str,
    old: &NamespacePolicy,
    new: &NamespacePolicy,
    changes: &mut Vec<Change>,
) {
    let mut push = |name: &str, field: String, before: Option<String>, after: Option<String>| {
        if before != after {
            changes.push(Change {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                field,
                before,
                after,
            });
        }
    };
    let own = |namespace: &NamespacePolicy| {
        let mode = if namespace.bypass { "off" } else { "enforce" };
        [
            ("auto_create", namespace.auto_create.to_string()),
            ("max_dependencies", namespace.max_dependencies.to_string()),
            ("mode", mode.to_owned()),
        ]
    };
    for ((field, before), (_, after)) in own(old).into_iter().zip(own(new)) {
        push("", field.to_owned(), Some(before), Some(after));
    }
    let rules = |namespace: &NamespacePolicy| -> BTreeMap<String, String> {
        let rules = namespace.explained_envoy();
        rules.map(|row| (row.field, row.value)).collect()
    };
    let (before, after) = (rules(old), rules(new));
    let both: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for field in both {
        let value = |rules: &BTreeMap<String, String>| rules.get(field).cloned();
        push("", field.clone(), value(&before), value(&after));
    }
    let mut names: Vec<String> = old
        .items()
        .into_iter()
        .chain(new.items())
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names.dedup();
    for name in &names {
        let present =
            |namespace: &NamespacePolicy| namespace.written(name).map(|_| "present".to_owned());
        push(name, String::new(), present(old), present(new));
        let (before, after) = (old.policy_of(name), new.policy_of(name));
        if before != after {
            for field in FIELDS {
                let shown = |policy| (field.get)(policy).map(|value| value.to_string());
                push(name, field.path(), shown(before), shown(after));
            }
        }
    }
}

impl NamespacePolicy {
    /// What is written under a name or pattern, else what applies to it.
    fn policy_of(&self, name: &str) -> &Policy {
        match self.written(name) {
            Some(item) => &item.policy,
            None => self.resolve(name.trim_end_matches('*')).0,
        }
    }
}
