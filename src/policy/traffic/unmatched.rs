//! What a traffic file names and no policy is written for. Facts of such a name would be
//! used by nobody: a typo in it would silence the check that the file was written for.
//!
//! A name is known where an entry is written for it, where a pattern takes it, or where a
//! service has seen it. Where a namespace has no entry but its defaults they are meant for
//! every name, and any is fine.

use super::super::finding::Finding;
use super::super::name::{self, Selector};
use super::super::set::{Named, NamespacePolicy, PolicySet};
use super::super::tree::Place;
use super::Traffic;

/// Known names that a message lists.
const LISTED: usize = 10;

/// A namespace or an entry that a traffic file names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mention {
    pub file: String,
    pub place: Place,
    /// From the root of the file.
    pub path: String,
    pub namespace: String,
    /// A name or pattern; empty: the namespace itself.
    pub name: String,
}

impl Traffic {
    /// Notes a name that is stated in another way than in a file, to be held against the
    /// policies; `path` is the field that names it.
    pub fn mention(&mut self, path: String, namespace: &str, name: &str) {
        self.mentions.push(Mention {
            file: String::new(),
            place: Place::default(),
            path,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
    }

    /// What the traffic file names and no policy of `set` is for.
    pub fn unmatched(&self, set: &PolicySet) -> Vec<Finding> {
        let mentions = self.mentions.iter();
        mentions
            .filter_map(|mention| {
                let message = self.problem(mention, set)?;
                let (place, path) = (mention.place, mention.path.clone());
                Some(Finding::at(&mention.file, place, path, message))
            })
            .collect()
    }

    /// Forgets what the file names of other namespaces, where it names this one: the policies
    /// that it is held against are of this one alone.
    pub fn name_only(&mut self, namespace: &str) {
        let named = |mention: &Mention| mention.namespace == namespace;
        if self.mentions.iter().any(named) {
            self.mentions.retain(named);
        }
    }

    fn problem(&self, mention: &Mention, set: &PolicySet) -> Option<String> {
        // `*` stands for whatever namespaces there are.
        if mention.namespace == "*" {
            return None;
        }
        let Some(namespace) = set.namespace(&mention.namespace) else {
            // Told once, at the namespace.
            return mention.name.is_empty().then(|| {
                let known = listed(set.namespace_names().into_iter());
                format!("no policy is written for this namespace; known are {known}")
            });
        };
        let is_known = mention.name.is_empty()
            || namespace.takes(&mention.name)
            || self.was_seen(&mention.namespace, &mention.name);
        (!is_known).then(|| {
            let entries = namespace.entry_names();
            let known = listed(entries.iter().map(String::as_str));
            format!("no policy entry has this name or a pattern for it; known are {known}")
        })
    }

    /// By a service.
    fn was_seen(&self, namespace: &str, name: &str) -> bool {
        let of_it = self.seen.keys().filter(|(of, _)| of == namespace);
        let mut names = of_it.map(|(_, seen)| seen.as_str());
        match Selector::parse(name) {
            Some(Selector::Exact(name)) => names.any(|seen| seen == name),
            Some(Selector::Prefix(prefix)) => names.any(|seen| seen.starts_with(prefix)),
            None => false,
        }
    }
}

impl NamespacePolicy {
    /// Whether an entry is for a name, or for some of what a pattern names; so for every
    /// name where there is no entry but the defaults.
    fn takes(&self, name: &str) -> bool {
        if !self.has_entries() {
            return true;
        }
        match Selector::parse(name) {
            Some(Selector::Exact(name)) => self.winner(name).1 != Named::Defaults,
            Some(Selector::Prefix(prefix)) => {
                // An entry below the pattern, or a pattern that takes all of it.
                let mut entries = self.items().into_iter().skip(1);
                entries.any(|(entry, _)| match Selector::parse(&entry) {
                    Some(Selector::Exact(entry)) => entry.starts_with(prefix),
                    Some(Selector::Prefix(entry)) => {
                        entry.starts_with(prefix) || prefix.starts_with(entry)
                    }
                    None => false,
                })
            }
            None => false,
        }
    }

    /// The names and patterns that are written down, quoted where a file has to.
    pub fn entry_names(&self) -> Vec<String> {
        let entries = self.items().into_iter().skip(1);
        entries.map(|(entry, _)| name::step(&entry)).collect()
    }

    /// Whether anything but the defaults is written down.
    pub fn has_entries(&self) -> bool {
        !(self.exact.is_empty() && self.patterns.is_empty())
    }
}

/// The first of them, in words.
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown = names.iter().take(LISTED).copied();
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if names.len() > LISTED {
        text += &format!(" and {} more", names.len() - LISTED);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::super::set::Source;
    use super::super::Facts;
    use super::*;

    fn source(name: &str, text: &str) -> Source {
        Source {
            name: name.into(),
            text: text.into(),
        }
    }

    fn set(entries: &str) -> PolicySet {
        let text = format!("version: 1\nnamespaces:\n  default: {entries}\n");
        PolicySet::load(&[source("p.yaml", &text)], &[]).unwrap()
    }

    fn facts(text: &str) -> Traffic {
        let text = format!("version: 1\nnamespaces:\n{text}\n");
        Traffic::read(&source("facts.yaml", &text)).unwrap()
    }

    fn told(traffic: &Traffic, set: &PolicySet) -> Vec<String> {
        traffic
            .unmatched(set)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    const ENTRIES: &str = "{dependencies: {payments: {}, 'openai:*': {}}}";

    #[test]
    fn a_name_that_no_entry_has_is_told_with_its_place_and_the_known_names() {
        let typo = facts("  default:\n    dependencies:\n      paymnets: {clients: 3}");
        assert_eq!(
            told(&typo, &set(ENTRIES)),
            [
                "facts.yaml:5:7: namespaces.default.dependencies.paymnets: no policy entry has this name or a pattern for it; known are \"openai:*\", payments"
            ]
        );
        let elsewhere = facts("  prod:\n    dependencies: {payments: {clients: 3}}");
        assert_eq!(
            told(&elsewhere, &set(ENTRIES)),
            [
                "facts.yaml:3:3: namespaces.prod: no policy is written for this namespace; known are default"
            ]
        );
    }

    #[test]
    fn a_name_that_a_pattern_takes_is_known_and_so_is_one_that_a_service_saw() {
        let fine = "  default:\n    defaults: {clients: 3}\n    dependencies: {payments: {}, 'openai:gpt': {}, 'pay*': {}, '*': {}, 'openai:gpt*': {}}\n  '*': {defaults: {clients: 2}}";
        assert_eq!(told(&facts(fine), &set(ENTRIES)), Vec::<String>::new());
        let mut wide = facts("  default: {dependencies: {'search*': {}, ledger: {}}}");
        assert_eq!(told(&wide, &set(ENTRIES)).len(), 2);
        wide.see("default", "ledger", Facts::default());
        wide.see("default", "search-2", Facts::default());
        assert_eq!(told(&wide, &set(ENTRIES)), Vec::<String>::new());
    }

    #[test]
    fn defaults_alone_are_for_every_name() {
        let any = facts("  default: {dependencies: {ledger: {clients: 3}}}");
        assert_eq!(told(&any, &set("{defaults: {}}")), Vec::<String>::new());
    }

    #[test]
    fn a_long_list_of_names_is_cut() {
        let names: Vec<String> = (0..12).map(|n| format!("n{n}")).collect();
        let text = listed(names.iter().map(String::as_str));
        assert!(text.ends_with("n9 and 2 more"), "{text}");
    }
}
