//! YAML (and so JSON) as a tree of places and values, before any of it has a meaning.
//!
//! Not `#[derive(Deserialize)]` on structs of fields: those stop at the first thing they
//! do not like, and lose duplicate keys. A file with three mistakes should say so once,
//! with three lines. So the parser only has to be happy with the syntax, and everything
//! else is found while walking this tree.
//!
//! What a file may cost is bounded here: its size, nesting, nodes, and what aliases expand to.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, Options, SnippetMode, Spanned};

use super::finding::Finding;

/// A longer document is refused.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Names of a document: 4 MiB of shortest entries stay below.
const MAX_NODES: usize = 2_000_000;
/// A policy file is six deep.
const MAX_DEPTH: usize = 16;
const MAX_ALIASED_EVENTS: usize = 200_000;

/// Where a value stands; both count from 1, and 0 means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    pub place: Place,
    pub value: Tree,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Tree {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    List,
    /// In the order of the file, with duplicates.
    Map(Vec<(Key, Node)>),
}

/// The key of a map.
#[derive(Clone, Debug)]
pub struct Key {
    pub place: Place,
    pub text: String,
}

/// Reads the one document of `text`. `None`: there is none.
///
/// # Errors
/// What is not YAML, or costs too much.
pub fn parse(file: &str, text: &str) -> Result<Option<Node>, Box<Finding>> {
    if text.len() > MAX_BYTES {
        let message = format!("{} bytes; a document has at most {MAX_BYTES}", text.len());
        return Err(Box::new(Finding::of_file(file, message)));
    }
    let parsed = serde_saphyr::from_str_with_options::<Spanned<Tree>>(text, options());
    match parsed.map(Node::from) {
        Ok(node) if matches!(node.value, Tree::Null) => Ok(None),
        Ok(node) => Ok(Some(node)),
        Err(error) => Err(Box::new(refusal(file, &error))),
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 2 * MAX_NODES,
            max_total_scalar_bytes: 2 * MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_ALIASED_EVENTS },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        strict_booleans: true,
        null_as_string: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    }
}

fn refusal(file: &str, error: &serde_saphyr::Error) -> Finding {
    let plain = serde_saphyr::render_options! { snippets: SnippetMode::Off };
    if let serde_saphyr::Error::Budget { breach, location } = error.without_snippet() {
        let message = match breach {
            BudgetBreach::Documents { .. } => {
                "more than one document; a policy file is one".to_owned()
            }
            // Names the limit and the number.
            other => format!("more than a policy file may cost: {other:?}"),
        };
        return Finding::at(file, Place::from(*location), String::new(), message);
    }
    let text = error.render_with_options(plain);
    // The place is said once, in front.
    let message = match text.rfind(" at line ") {
        Some(at) => text[..at].trim_end_matches([' ', ':', ',']).to_owned(),
        None => text,
    };
    let place = error.location().map(Place::from).unwrap_or_default();
    Finding::at(file, place, String::new(), message)
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            line: narrow(location.line()),
            column: narrow(location.column()),
        }
    }
}

impl From<Spanned<Tree>> for Node {
    /// Takes where a value is written, not where an alias stands for it.
    fn from(spanned: Spanned<Tree>) -> Self {
        Self {
            place: spanned.defined.into(),
            value: spanned.value,
        }
    }
}

impl Tree {
    /// The value as a person would recognise it in the file; long ones are cut.
    pub fn shown(&self) -> String {
        match self {
            Self::Null => "no value".into(),
            Self::Flag(flag) => flag.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) if text.is_empty() || text.parse::<f64>().is_ok() => {
                format!("{text:?}")
            }
            Self::Text(text) => shortened(text),
            Self::List => "a list".into(),
            Self::Map(_) => "a map".into(),
        }
    }
}

/// Without control characters, and cut to what fits on a line.
pub fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Tree, E> {
        Ok(Tree::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Number(number as f64))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Tree, E> {
        Ok(Tree::Number(number as f64))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Tree, E> {
        Ok(Tree::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Tree, E> {
        Ok(Tree::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        while list.next_element::<Tree>()?.is_some() {}
        Ok(Tree::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value::<Spanned<Tree>>()?;
            let key = Key {
                place: key.defined.into(),
                text: key.value,
            };
            entries.push((key, value.into()));
        }
        Ok(Tree::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Node {
        parse("f", text).unwrap().unwrap()
    }

    fn refused(text: &str) -> String {
        parse("f", text).unwrap_err().to_string()
    }

    #[test]
    fn a_value_keeps_its_line_and_column_and_a_key_too() {
        let Tree::Map(entries) = read("a: 1\nb:\n  c: off\n").value else {
            panic!()
        };
        assert_eq!((entries[1].0.place.line, entries[1].0.place.column), (2, 1));
        let Tree::Map(inner) = &entries[1].1.value else {
            panic!()
        };
        assert_eq!((inner[0].1.place.line, inner[0].1.place.column), (3, 6));
        assert!(matches!(&inner[0].1.value, Tree::Text(off) if off == "off"));
    }

    #[test]
    fn duplicates_are_kept_to_be_found_later() {
        let Tree::Map(entries) = read("a: 1\na: 2\n1: x\n").value else {
            panic!()
        };
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[2].0.text, "1");
    }

    #[test]
    fn numbers_that_are_none_reach_validation() {
        let Tree::Map(entries) = read("a: .nan\nb: .inf\nc: 1e999\n").value else {
            panic!()
        };
        assert!(
            entries
                .iter()
                .all(|(_, node)| matches!(node.value, Tree::Number(n) if !n.is_finite()))
        );
    }

    #[test]
    fn an_aliased_value_stands_where_it_is_written() {
        let Tree::Map(entries) = read("a: &x\n  b: 1\nc: *x\n").value else {
            panic!()
        };
        let Tree::Map(inner) = &entries[1].1.value else {
            panic!()
        };
        assert_eq!(inner[0].1.place.line, 2);
    }

    #[test]
    fn an_empty_file_is_no_document() {
        assert!(parse("f", "").unwrap().is_none());
        assert!(parse("f", "# nothing\n").unwrap().is_none());
        assert!(parse("f", "---\n").unwrap().is_none());
    }

    #[test]
    fn bad_syntax_names_its_line_once() {
        let text = refused("a: 1\nb: [1\n");
        assert!(text.starts_with("f:"), "{text}");
        assert!(!text.contains(" at line "), "{text}");
    }

    #[test]
    fn bombs_are_refused_and_cost_little() {
        let mut bomb = String::from("a0: &a0 {x: 1, y: 2}\n");
        for n in 1..12 {
            let last = n - 1;
            bomb +=
                &format!("a{n}: &a{n} {{a: *a{last}, b: *a{last}, c: *a{last}, d: *a{last}}}\n");
        }
        assert!(refused(&bomb).contains("alias"));
        refused(&"[".repeat(100_000));
        refused(&"a: ".repeat(10_000));
        refused(&" ".repeat(MAX_BYTES + 1));
        assert_eq!(
            refused("a: 1\n---\nb: 2\n"),
            "f:2:1: more than one document; a policy file is one"
        );
    }
}
