//! What is known of the calls that a policy is for: stated by flags, by a file, or seen by a
//! live service. Everything is optional; a rule that lacks a fact is silent.
//!
//! For one dependency, field by field: what is stated for everything (flags), else what the
//! file says under its name or the longest pattern, else the file's defaults of its
//! namespace, else what was seen.

mod facts;
mod file;

use std::collections::{BTreeMap, BTreeSet};

pub use self::facts::{FACTS, Facts};
use super::finding::Finding;
use super::name::Selector;
use super::set::Source;

/// Facts of every dependency. See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    everywhere: Facts,
    namespaces: BTreeMap<String, Stated>,
    seen: BTreeMap<(String, String), Facts>,
}

/// What a file says of one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stated {
    defaults: Facts,
    /// By name or pattern.
    dependencies: BTreeMap<String, Facts>,
}

impl Traffic {
    /// The same facts for everything.
    pub fn everywhere(facts: Facts) -> Self {
        Self {
            everywhere: facts,
            ..Self::default()
        }
    }

    /// Reads a traffic file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(source: &Source) -> Result<Self, Vec<Finding>> {
        file::read(source)
    }

    /// Puts facts above all others.
    pub fn state_everywhere(&mut self, facts: &Facts) {
        self.everywhere = facts.over(&self.everywhere);
    }

    /// States facts of a name, a pattern, or with an empty name of a namespace.
    pub fn state(&mut self, namespace: &str, name: &str, facts: &Facts) {
        let stated = self.namespaces.entry(namespace.to_owned()).or_default();
        let known = match name {
            "" => &mut stated.defaults,
            name => stated.dependencies.entry(name.to_owned()).or_default(),
        };
        *known = facts.over(known);
    }

    /// Notes what a service saw of a dependency.
    pub fn see(&mut self, namespace: &str, dependency: &str, facts: Facts) {
        let key = (namespace.to_owned(), dependency.to_owned());
        self.seen.insert(key, facts);
    }

    /// What is known of a dependency, of all that a pattern names, or with an empty name of
    /// what only the defaults apply to.
    pub fn of(&self, namespace: &str, name: &str) -> Facts {
        let stated = self.namespaces.get(namespace);
        let stated = stated.or_else(|| self.namespaces.get("*"));
        let seen = self.seen.get(&(namespace.to_owned(), name.to_owned()));
        let mut known = seen.cloned().unwrap_or_default();
        if let Some(stated) = stated {
            known = stated.defaults.over(&known);
            if let Some(own) = stated.own(name) {
                known = own.over(&known);
            }
        }
        self.everywhere.over(&known)
    }

    /// The dependencies of a namespace of which something of their own is known.
    pub fn names(&self, namespace: &str) -> BTreeSet<&str> {
        let stated = self.namespaces.get(namespace).into_iter();
        let stated = stated.flat_map(|stated| stated.dependencies.keys());
        let exact = stated.filter(|name| !name.ends_with('*'));
        let seen = self.seen.keys().filter(|(of, _)| of == namespace);
        exact
            .map(String::as_str)
            .chain(seen.map(|(_, name)| name.as_str()))
            .collect()
    }

    /// The namespaces that something is known of.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        let stated = self.namespaces.keys().map(String::as_str);
        let seen = self.seen.keys().map(|(namespace, _)| namespace.as_str());
        stated.chain(seen).filter(|name| *name != "*").collect()
    }
}

impl Stated {
    /// The entry under a name, else that of the longest pattern that takes all of it.
    fn own(&self, name: &str) -> Option<&Facts> {
        if name.is_empty() {
            return None;
        }
        let exact = self.dependencies.get(name);
        let stem = name.trim_end_matches('*');
        let patterns =
            self.dependencies.iter().filter_map(|(written, facts)| {
                match Selector::parse(written) {
                    Some(Selector::Prefix(prefix)) if stem.starts_with(prefix) => {
                        Some((prefix.len(), facts))
                    }
                    Some(Selector::Prefix(_) | Selector::Exact(_)) | None => None,
                }
            });
        let longest = patterns.max_by_key(|(length, _)| *length);
        exact.or_else(|| longest.map(|(_, facts)| facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(clients: u32) -> Facts {
        Facts {
            clients: Some(clients),
            ..Facts::default()
        }
    }

    #[test]
    fn the_nearest_statement_wins_and_what_was_seen_is_below_all() {
        let mut traffic = Traffic::default();
        traffic.see("default", "a", clients(1));
        assert_eq!(traffic.of("default", "a").clients, Some(1));
        traffic.state("default", "", &clients(2));
        assert_eq!(traffic.of("default", "a").clients, Some(2));
        traffic.state("default", "a*", &clients(3));
        traffic.state("default", "ab*", &clients(4));
        assert_eq!(traffic.of("default", "a").clients, Some(3));
        assert_eq!(traffic.of("default", "abc").clients, Some(4));
        assert_eq!(traffic.of("default", "ab*").clients, Some(4));
        assert_eq!(traffic.of("default", "").clients, Some(2));
        traffic.state("default", "abc", &clients(5));
        assert_eq!(traffic.of("default", "abc").clients, Some(5));
        traffic.state_everywhere(&clients(6));
        assert_eq!(traffic.of("default", "abc").clients, Some(6));
        assert_eq!(traffic.of("other", "x").clients, Some(6));
        assert_eq!(Vec::from_iter(traffic.names("default")), ["a", "abc"]);
    }
}
