//! What is judged, and who answers for it.
//!
//! Judged is each entry of a file, and each dependency of which something of its own is
//! known. An entry answers for what its own fields bring about, and for what its own calls
//! bring about; all else is its namespace's defaults' to answer for, and told there, once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::super::blame::entry_path;
use super::super::fields::FIELDS;
use super::super::finding::{Finding, Proposed};
use super::super::layers::{Origin, Resolved};
use super::super::set::{Item, Named, NamespacePolicy, PolicySet};
use super::super::traffic::{Facts, Traffic};
use super::super::tree::Place;
use super::doubt::{Change, Doubt};
use super::propose::field;

/// Something that is judged.
pub struct Subject<'a> {
    namespace: &'a NamespacePolicy,
    /// The entry's name; empty: the defaults.
    name: String,
    /// The dependency or pattern that the facts are of.
    about: String,
    item: &'a Item,
    /// The layer that is this entry's own.
    own: usize,
    pub resolved: Resolved,
    pub facts: Facts,
    /// Its calls are not those that another judgement of this entry, or of the defaults, is of.
    has_own_facts: bool,
}

/// Shows each that is to be judged to `look`, until that has seen enough: the entries, then
/// the dependencies that no entry is written for. A namespace that lets every call pass has
/// nothing to be wrong.
pub fn each(
    set: &PolicySet,
    traffic: &Traffic,
    mut look: impl FnMut(&Subject<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut namespaces = set.written_namespaces();
    namespaces.retain(|(_, namespace)| !namespace.bypass());
    for (name, namespace) in &namespaces {
        let usual = traffic.of(name, "");
        for (entry, item) in namespace.items() {
            look(&of_entry(name, namespace, entry, item, traffic, &usual))?;
        }
    }
    // What is known of namespaces that only `*` lets in.
    let written = set.written_namespaces();
    let others = traffic.namespaces().into_iter();
    let others = others
        .filter(|name| written.iter().all(|(known, _)| known != name))
        .filter_map(|name| Some((name, set.namespace(name)?)))
        .filter(|(_, namespace)| !namespace.bypass());
    for (name, namespace) in namespaces.iter().copied().chain(others) {
        for dependency in traffic.names(name) {
            if let Some(subject) = of_known(name, namespace, dependency, traffic) {
                look(&subject)?;
            }
        }
    }
    ControlFlow::Continue(())
}

fn of_entry<'a>(
    name: &str,
    namespace: &'a NamespacePolicy,
    entry: String,
    item: &'a Item,
    traffic: &Traffic,
    usual: &Facts,
) -> Subject<'a> {
    let facts = traffic.of(name, &entry);
    Subject {
        namespace,
        about: entry.clone(),
        item,
        own: usize::from(!entry.is_empty()),
        resolved: namespace.layered(item),
        has_own_facts: entry.is_empty() || facts != *usual,
        facts,
        name: entry,
    }
}

/// A dependency that no entry is written for, but of which something is known.
fn of_known<'a>(
    name: &str,
    namespace: &'a NamespacePolicy,
    dependency: &str,
    traffic: &Traffic,
) -> Option<Subject<'a>> {
    let (item, named) = namespace.winner(dependency);
    let entry = match named {
        Named::Exact => return None,
        Named::Pattern => namespace.pattern_of(dependency),
        Named::Defaults => String::new(),
    };
    let facts = traffic.of(name, dependency);
    let other = facts != traffic.of(name, &entry);
    other.then(|| Subject {
        namespace,
        own: usize::from(!entry.is_empty()),
        about: dependency.to_owned(),
        name: entry,
        item,
        resolved: namespace.layered(item),
        facts,
        has_own_facts: true,
    })
}

/// The codes that were told of entries, for their own calls.
#[derive(Debug, Default)]
pub struct Told(BTreeSet<(String, String, &'static str)>);

impl Subject<'_> {
    /// Whether a doubt is this entry's, and was not told where it comes from.
    pub fn answers_for(&self, doubt: &Doubt, told: &Told) -> bool {
        let told_of = |entry: &str| {
            let key = (
                self.namespace.written_as.clone(),
                entry.to_owned(),
                doubt.code,
            );
            told.0.contains(&key)
        };
        let gives = doubt
            .fields
            .iter()
            .any(|path| self.place_of(path).is_some());
        let of_entry = self.about != self.name && told_of(&self.name);
        let of_defaults = !gives && !self.name.is_empty() && told_of("");
        (gives || self.has_own_facts) && !of_entry && !of_defaults
    }

    /// Notes what was doubted, so that it is told once.
    pub fn note(&self, codes: &[&'static str], told: &mut Told) {
        if self.about == self.name {
            let key = |code: &&'static str| {
                let namespace = self.namespace.written_as.clone();
                (namespace, self.name.clone(), *code)
            };
            told.0.extend(codes.iter().map(key));
        }
    }

    /// Where this entry itself gives the field.
    fn place_of(&self, path: &str) -> Option<Place> {
        match self.resolved.origins[field(path)?] {
            Origin::Layer { depth, place } if depth == self.own => Some(place),
            Origin::Layer { .. } | Origin::BuiltIn | Origin::Follows(_) => None,
        }
    }

    /// At the first of the fields that this entry gives, else at the entry.
    pub fn finding(&self, doubt: Doubt, proposal: &[Change]) -> Finding {
        let given = doubt.fields.iter();
        let at = given
            .filter_map(|path| Some((*path, self.place_of(path)?)))
            .next();
        let entry = entry_path(&self.namespace.written_as, &self.name);
        let (path, place) = match at {
            Some((path, place)) => (path, place),
            None => {
                let first = doubt.fields.first().copied().unwrap_or_default();
                (first, self.item.entry.place)
            }
        };
        let message = match self.about == self.name {
            true => doubt.message,
            false => format!("for {}: {}", self.about, doubt.message),
        };
        let proposed = proposal.iter().filter_map(|(path, value)| {
            let field = FIELDS[field(path)?].path();
            Some(Proposed {
                field: format!("{entry}.{field}"),
                value: value.to_string(),
            })
        });
        Finding {
            severity: doubt.severity,
            code: doubt.code,
            dependency: self.about.clone(),
            numbers: BTreeMap::from_iter(doubt.numbers),
            proposal: proposed.collect(),
            ..Finding::at(
                self.item.origin.file(),
                place,
                format!("{entry}.{path}"),
                message,
            )
        }
    }
}
