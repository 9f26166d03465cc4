//! Envoy's descriptors as names of dependencies: which descriptor is which dependency.
//!
//! A rule names the keys of a descriptor, in their order and all of them, and may ask for a
//! value of a key or for how it begins; its name may have values put into it. The rule that
//! says most wins, as with patterns, so the order in the file means nothing. This reads one
//! rule and finds the one that wins; where they stand in a file is `raw`'s and `load`'s.

use std::{cmp::Reverse, collections::HashMap};

use super::name;

/// Entries that one rule may name.
const ENTRIES_MAX: usize = 16;

/// The rules of one namespace. Without a section there are none, and every descriptor has a
/// name of its own: [`Naming::joined`].
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// By the keys of a descriptor; those that say most first.
    rules: HashMap<Vec<String>, Vec<Rule>>,
}

/// Which descriptors, and what they are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    entries: Vec<(String, Wanted)>,
    name: Vec<Part>,
}

/// What a value must be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Exactly(String),
    /// Empty: anything.
    Beginning(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The value of the entry at this place.
    Value(usize),
}

impl Rule {
    /// Reads `destination_cluster=api-*, remote_address` and `clients/{remote_address}`.
    ///
    /// # Errors
    /// Which half is wrong, and why.
    pub fn parse(descriptor: &str, name: &str) -> Result<Self, Fault> {
        let entries = entries(descriptor).map_err(Fault::Descriptor)?;
        let name = parts(name, &entries).map_err(Fault::Name)?;
        Ok(Self { entries, name })
    }

    /// The same text for what means the same.
    pub fn canonical(&self) -> String {
        let shown = self.entries.iter().map(|(key, wanted)| match wanted {
            Wanted::Exactly(value) => format!("{key}={value}"),
            Wanted::Beginning(start) if start.is_empty() => key.clone(),
            Wanted::Beginning(start) => format!("{key}={start}*"),
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    fn keys(&self) -> Vec<String> {
        self.entries.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Greater where the rule says more: an exact value, then a longer beginning, and earlier
    /// entries first.
    fn weight(&self) -> Vec<(bool, usize)> {
        let weight = |(_, wanted): &(String, Wanted)| match wanted {
            Wanted::Exactly(value) => (true, value.len()),
            Wanted::Beginning(start) => (false, start.len()),
        };
        self.entries.iter().map(weight).collect()
    }

    fn matches(&self, entries: &[(&str, &str)]) -> bool {
        let wanted = self.entries.iter().zip(entries);
        wanted
            .into_iter()
            .all(|((_, wanted), (_, value))| match wanted {
                Wanted::Exactly(exactly) => exactly == value,
                Wanted::Beginning(start) => value.starts_with(start.as_str()),
            })
    }

    fn name_of(&self, entries: &[(&str, &str)]) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Value(at) => entries.get(*at).map_or("", |(_, value)| value).to_owned(),
        };
        self.name.iter().map(part).collect()
    }
}

/// Which half of a rule is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Descriptor(String),
    Name(String),
}

impl Naming {
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut naming = Self::default();
        for rule in rules {
            naming.rules.entry(rule.keys()).or_default().push(rule);
        }
        for rules in naming.rules.values_mut() {
            rules.sort_by_key(|rule| Reverse(rule.weight()));
        }
        naming
    }

    /// The name of a descriptor's dependency; it may hold what no name may. `None`: no rule.
    pub fn name_of(&self, entries: &[(&str, &str)]) -> Option<String> {
        let keys: Vec<String> = entries.iter().map(|(key, _)| (*key).to_owned()).collect();
        let rules = self.rules.get(&keys)?;
        let rule = rules.iter().find(|rule| rule.matches(entries))?;
        Some(rule.name_of(entries))
    }

    /// The name where nothing is written: `key:value`, joined by `/`.
    pub fn joined(entries: &[(&str, &str)]) -> String {
        let parts = entries.iter().map(|(key, value)| format!("{key}:{value}"));
        parts.collect::<Vec<_>>().join("/")
    }
}

fn entries(descriptor: &str) -> Result<Vec<(String, Wanted)>, String> {
    let mut read: Vec<(String, Wanted)> = Vec::new();
    for entry in descriptor.split(',').map(str::trim) {
        let (key, wanted) = match entry.split_once('=') {
            None => (entry, Wanted::Beginning(String::new())),
            Some((key, value)) => match value.trim().strip_suffix('*') {
                Some(start) => (key.trim(), Wanted::Beginning(start.to_owned())),
                None => (key.trim(), Wanted::Exactly(value.trim().to_owned())),
            },
        };
        if key.is_empty() {
            return Err(
                "not a descriptor; keys as key, key=value or key=beginning*, with commas between them"
                    .to_owned(),
            );
        }
        if read.iter().any(|(known, _)| known == key) {
            return Err(format!("the key {key} stands twice in it"));
        }
        read.push((key.to_owned(), wanted));
    }
    match read.len() {
        count if count > ENTRIES_MAX => Err(format!("{count} keys; at most {ENTRIES_MAX}")),
        _ => Ok(read),
    }
}

fn parts(name: &str, entries: &[(String, Wanted)]) -> Result<Vec<Part>, String> {
    let text = |text: &str| match text.is_empty() || name::is_name(text) {
        true => Ok(Part::Text(text.to_owned())),
        false => Err(format!(
            "{} is not allowed; a name ({}), with {{key}} where a value goes",
            super::tree::shortened(name),
            name::ALLOWED
        )),
    };
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('{') {
        let unclosed = || format!("{} has a {{ without a }}", super::tree::shortened(name));
        let (key, after) = after.split_once('}').ok_or_else(unclosed)?;
        let at = entries.iter().position(|(known, _)| known == key);
        let at = at.ok_or_else(|| {
            let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
            format!(
                "{{{}}} is no key of the descriptor; its keys: {}",
                super::tree::shortened(key),
                keys.join(", ")
            )
        })?;
        parts.extend([text(before)?, Part::Value(at)]);
        rest = after;
    }
    parts.push(text(rest)?);
    parts.retain(|part| *part != Part::Text(String::new()));
    match parts.is_empty() {
        true => Err(format!("\"\" is not allowed; a name ({})", name::ALLOWED)),
        false => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming(rules: &[(&str, &str)]) -> Naming {
        let parsed = rules.iter().map(|(d, n)| Rule::parse(d, n).unwrap());
        Naming::new(parsed.collect())
    }

    #[test]
    fn the_rule_that_says_most_wins_whatever_the_order() {
        let mut rules = [
            ("cluster", "rest"),
            ("cluster=api-*", "apis"),
            ("cluster=api-eu-*", "eu"),
            ("cluster=api-eu-1", "one"),
            ("cluster=api-eu-*, path", "eu{path}"),
        ];
        for _ in 0..rules.len() {
            rules.rotate_left(1);
            let naming = naming(&rules);
            let name = |value| naming.name_of(&[("cluster", value)]).unwrap();
            assert_eq!(name("api-eu-1"), "one");
            assert_eq!(name("api-eu-2"), "eu");
            assert_eq!(name("api-us"), "apis");
            assert_eq!(name("web"), "rest");
            let two = [("cluster", "api-eu-1"), ("path", "/x")];
            assert_eq!(naming.name_of(&two).unwrap(), "eu/x");
        }
    }

    #[test]
    fn all_keys_in_their_order_or_no_rule() {
        let naming = naming(&[("a, b=1", "{a}-{b}")]);
        assert_eq!(naming.name_of(&[("a", "x"), ("b", "1")]).unwrap(), "x-1");
        for other in [
            &[("a", "x")][..],
            &[("b", "1"), ("a", "x")],
            &[("a", "x"), ("b", "2")],
            &[("a", "x"), ("b", "1"), ("c", "")],
            &[],
        ] {
            assert_eq!(naming.name_of(other), None, "{other:?}");
        }
    }

    #[test]
    fn bad_rules_are_refused_with_what_would_be_right() {
        for (descriptor, named) in [
            ("", "key=value"),
            ("a,,b", "key=value"),
            ("=x", "key=value"),
            ("a, a=1", "twice"),
        ] {
            let Err(Fault::Descriptor(text)) = Rule::parse(descriptor, "n") else {
                panic!("{descriptor}")
            };
            assert!(text.contains(named), "{descriptor}: {text}");
        }
        for (name, named) in [
            ("", "\"\""),
            ("a b", "letters"),
            ("{b}", "its keys: a"),
            ("x{a", "without a }"),
        ] {
            let Err(Fault::Name(text)) = Rule::parse("a", name) else {
                panic!("{name}")
            };
            assert!(text.contains(named), "{name}: {text}");
        }
    }

    #[test]
    fn the_same_rule_has_the_same_text_however_it_is_spaced() {
        let text = |descriptor| Rule::parse(descriptor, "n").unwrap().canonical();
        assert_eq!(text(" a = 1 ,b,c=x*"), "a=1, b, c=x*");
        assert_eq!(text("a=1,b=*,c=x*"), "a=1, b, c=x*");
    }

    #[test]
    fn without_rules_a_name_is_its_entries() {
        let entries = [("destination_cluster", "payments"), ("path", "/v1")];
        assert_eq!(
            Naming::joined(&entries),
            "destination_cluster:payments/path:/v1"
        );
    }
}
