//! All policies of a service at one instant: immutable, checked in every combination, and
//! swapped whole.
//!
//! Resolving is done at load, not at a call: a call finds a shared policy by its name and
//! allocates nothing. A million names that only the defaults apply to share one policy.

use std::collections::HashMap;
use std::sync::Arc;

use holdoff_decision::Policy;

use super::blame;
use super::envoy::Naming;
use super::layers::{self, Resolved};
use super::name::Selector;
use super::raw::Entry;
use super::tree::Place;

/// A file's name and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub name: String,
    pub text: String,
}

/// An entry put over the API. It replaces what files say under the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    pub namespace: String,
    /// A name, a pattern ending in `*`, or empty for the namespace's defaults.
    pub name: String,
    pub text: String,
}

/// All policies. See the module.
#[derive(Debug)]
pub struct PolicySet {
    pub(super) namespaces: HashMap<String, NamespacePolicy>,
    /// Of the namespace `*`.
    pub(super) rest: Option<NamespacePolicy>,
    pub(super) max_dependencies_total: u32,
    pub(super) max_namespaces: u32,
}

/// The policies of one namespace.
#[derive(Clone, Debug)]
pub struct NamespacePolicy {
    /// The name it is written under: `*` where that stands for others.
    pub(super) written_as: String,
    pub(super) auto_create: bool,
    pub(super) max_dependencies: u32,
    /// Where that is written, if it is.
    pub(super) limit_at: Option<(Arc<str>, Place)>,
    pub(super) bypass: bool,
    /// `None`: nothing is written.
    pub(super) envoy: Option<EnvoySection>,
    pub(super) defaults: Item,
    pub(super) exact: HashMap<Arc<str>, Item>,
    /// The keys of `exact`, sorted.
    pub(super) names: Vec<Arc<str>>,
    /// By what stands before the `*`.
    pub(super) patterns: HashMap<String, Item>,
    /// The distinct lengths of those, longest first.
    pub(super) lengths: Vec<usize>,
}

/// How Envoy's descriptors are named.
#[derive(Clone, Debug)]
pub(super) struct EnvoySection {
    /// In the order of their texts.
    pub(super) written: Vec<WrittenRule>,
    pub(super) naming: Naming,
}

/// A rule as it is shown.
#[derive(Clone, Debug)]
pub(super) struct WrittenRule {
    pub(super) descriptor: String,
    pub(super) name: String,
    pub(super) at: (Arc<str>, Place),
}

/// An entry, and what comes of it on top of the defaults.
#[derive(Clone, Debug)]
pub struct Item {
    pub(super) origin: ItemOrigin,
    pub(super) entry: Entry,
    pub(super) policy: Arc<Policy>,
}

/// Where an entry is written.
#[derive(Clone, Debug)]
pub enum ItemOrigin {
    /// Nowhere.
    BuiltIn,
    File(Arc<str>),
    /// With its text.
    Api(Arc<str>),
}

/// What applied to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// The name itself is configured.
    Exact,
    Pattern,
    /// Only the namespace's defaults. Unknown to the files, that is.
    Defaults,
}

/// The namespace that an empty name means.
pub const DEFAULT_NAMESPACE: &str = "default";

impl PolicySet {
    /// `None`: there is no such namespace.
    pub fn namespace(&self, name: &str) -> Option<&NamespacePolicy> {
        let name = if name.is_empty() {
            DEFAULT_NAMESPACE
        } else {
            name
        };
        self.namespaces.get(name).or(self.rest.as_ref())
    }

    /// The policy of a dependency. `None`: there is no such namespace. Whether a name that
    /// only the defaults apply to may appear is [`NamespacePolicy::auto_create`]'s to say.
    pub fn resolve(&self, namespace: &str, dependency: &str) -> Option<(Arc<Policy>, Named)> {
        let (policy, named) = self.namespace(namespace)?.resolve(dependency);
        Some((Arc::clone(policy), named))
    }

    /// The namespaces that are written down, sorted; not those that only `*` lets in.
    pub fn namespace_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.namespaces.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The namespaces that are written down, by name, `*` among them.
    pub(super) fn written_namespaces(&self) -> Vec<(&str, &NamespacePolicy)> {
        let named = self
            .namespaces
            .iter()
            .map(|(name, namespace)| (name.as_str(), namespace));
        let mut all: Vec<_> = named
            .chain(self.rest.as_ref().map(|rest| ("*", rest)))
            .collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }

    /// Whether a namespace `*` lets in any name.
    pub fn admits_any_namespace(&self) -> bool {
        self.rest.is_some()
    }

    /// Dependencies of all namespaces together; at least 1.
    pub fn max_dependencies_total(&self) -> u32 {
        self.max_dependencies_total
    }

    /// At least 1.
    pub fn max_namespaces(&self) -> u32 {
        self.max_namespaces
    }
}

impl NamespacePolicy {
    /// Whether dependencies may appear that neither a name nor a pattern is written for.
    pub fn auto_create(&self) -> bool {
        self.auto_create
    }

    /// At least 1.
    pub fn max_dependencies(&self) -> u32 {
        self.max_dependencies
    }

    /// Whether every call passes: holdoff is taken out.
    pub fn bypass(&self) -> bool {
        self.bypass
    }

    /// The dependency that a descriptor of Envoy stands for; the name may hold what no name
    /// may. `None`: there are rules, and none of them is for it.
    pub fn dependency_of(&self, entries: &[(&str, &str)]) -> Option<String> {
        match &self.envoy {
            None => Some(Naming::joined(entries)),
            Some(section) => section.naming.name_of(entries),
        }
    }

    /// The policy of a dependency, shared.
    pub fn resolve(&self, dependency: &str) -> (&Arc<Policy>, Named) {
        let (item, named) = self.winner(dependency);
        (&item.policy, named)
    }

    /// The name or pattern of the entry that a dependency gets; empty: the defaults.
    pub fn entry_of(&self, dependency: &str) -> String {
        match self.winner(dependency).1 {
            Named::Exact => dependency.to_owned(),
            Named::Pattern => self.pattern_of(dependency),
            Named::Defaults => String::new(),
        }
    }

    /// The path of an entry from the root of its file; empty: of the defaults.
    pub fn entry_path(&self, entry: &str) -> String {
        blame::entry_path(&self.written_as, entry)
    }

    /// The names that are written down, sorted.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    pub(super) fn winner(&self, dependency: &str) -> (&Item, Named) {
        if let Some(item) = self.exact.get(dependency) {
            return (item, Named::Exact);
        }
        let pattern = self.lengths.iter().find_map(|&length| {
            let prefix = dependency.get(..length)?;
            self.patterns.get(prefix)
        });
        match pattern {
            Some(item) => (item, Named::Pattern),
            None => (&self.defaults, Named::Defaults),
        }
    }

    /// The entry that is written under exactly this name or pattern; empty: the defaults.
    pub(super) fn written(&self, name: &str) -> Option<&Item> {
        match Selector::parse(name) {
            Some(Selector::Exact(name)) => self.exact.get(name),
            Some(Selector::Prefix(prefix)) => self.patterns.get(prefix),
            None => Some(&self.defaults),
        }
    }

    /// The layers of `item`, resolved again with their origins.
    pub(super) fn layered(&self, item: &Item) -> Resolved {
        match std::ptr::eq(item, &self.defaults) {
            true => layers::resolve(&[&item.entry]),
            false => layers::resolve(&[&self.defaults.entry, &item.entry]),
        }
    }

    /// Every entry: the defaults first, then by name.
    pub(super) fn items(&self) -> Vec<(String, &Item)> {
        let mut patterns: Vec<(String, &Item)> = self
            .patterns
            .iter()
            .map(|(prefix, item)| (format!("{prefix}*"), item))
            .collect();
        let exact = self
            .exact
            .iter()
            .map(|(name, item)| (name.to_string(), item));
        patterns.extend(exact);
        patterns.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut all = vec![(String::new(), &self.defaults)];
        all.append(&mut patterns);
        all
    }
}
