//! What is written: a policy file, or one entry put over the API, as typed settings with
//! their places. Knows names, ranges and duplicates; not what two fields mean together.
//!
//! Goes on after a mistake, so that one look at the findings is enough; an entry that had
//! one is marked and not judged further.

use std::collections::HashMap;

use super::envoy::Rule;
use super::fields::{self, FIELDS, SECTIONS};
use super::finding::Finding;
use super::name::{self, Selector};
use super::tree::{self, Key, Node, Place, Tree};
use super::value::{self, Form, Value};

/// A policy file.
#[derive(Debug, Default)]
pub struct Document {
    pub max_dependencies_total: Option<Given<u32>>,
    pub max_namespaces: Option<Given<u32>>,
    pub namespaces: Vec<Namespace>,
}

/// A value and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Given<T> {
    pub value: T,
    pub place: Place,
}

/// A namespace of a policy file.
#[derive(Debug)]
pub struct Namespace {
    pub name: String,
    pub auto_create: Option<Given<bool>>,
    pub max_dependencies: Option<Given<u32>>,
    /// Whether holdoff is taken out.
    pub bypass: Option<Given<bool>>,
    pub defaults: Option<Entry>,
    /// By name or pattern, valid and distinct.
    pub dependencies: Vec<(String, Entry)>,
    /// How Envoy's descriptors are named, where that is written.
    pub envoy: Option<Vec<Given<NamedDescriptor>>>,
}

/// A rule for Envoy's descriptors, and its name as it is written.
#[derive(Clone, Debug)]
pub struct NamedDescriptor {
    pub rule: Rule,
    pub name: String,
}

/// The fields that one entry sets, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    pub place: Place,
    pub settings: Box<[Setting]>,
    /// Something in it could not be read.
    pub faulty: bool,
}

/// One field that is set.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// In [`FIELDS`].
    pub field: usize,
    pub value: Value,
    pub place: Place,
}

impl Entry {
    pub fn find(&self, field: usize) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.field == field)
    }
}

/// Reads a policy file. What could not be read is in the findings and not in the document.
pub fn read_file(file: &str, text: &str) -> (Document, Vec<Finding>) {
    let mut reader = Reader {
        file,
        findings: Vec::new(),
    };
    let document = match tree::parse(file, text) {
        Ok(Some(root)) => reader.document(&root),
        Ok(None) => {
            reader.findings.push(Finding::of_file(
                file,
                "empty; it begins with version: 1".into(),
            ));
            Document::default()
        }
        Err(finding) => {
            reader.findings.push(*finding);
            Document::default()
        }
    };
    (document, reader.findings)
}

/// Reads what stands under one dependency; `path` is where that would be in a file.
pub fn read_entry(file: &str, path: &str, text: &str) -> (Entry, Vec<Finding>) {
    let mut reader = Reader {
        file,
        findings: Vec::new(),
    };
    let entry = match tree::parse(file, text) {
        Ok(Some(root)) => reader.entry(&root, path),
        Ok(None) => {
            reader.refuse(
                Place::default(),
                path,
                "empty; {} is a policy that sets nothing".into(),
            );
            Entry::default()
        }
        Err(finding) => {
            reader.findings.push(Finding {
                field: path.to_owned(),
                ..*finding
            });
            Entry::default()
        }
    };
    (entry, reader.findings)
}

struct Reader<'a> {
    file: &'a str,
    findings: Vec<Finding>,
}

const TOP: &[&str] = &[
    "version",
    "max_dependencies_total",
    "max_namespaces",
    "namespaces",
];
const NAMESPACE: &[&str] = &[
    "auto_create",
    "max_dependencies",
    "mode",
    "defaults",
    "envoy",
    "dependencies",
];

/// The range of both limits.
pub const MAX_DEPENDENCIES: Form = Form::Count(1, 100_000_000);
pub const MAX_NAMESPACES: Form = Form::Count(1, 1_000_000);

impl Reader<'_> {
    fn refuse(&mut self, place: Place, path: &str, message: String) {
        self.findings
            .push(Finding::at(self.file, place, path.to_owned(), message));
    }

    fn document(&mut self, root: &Node) -> Document {
        let mut document = Document::default();
        let mut version = false;
        for (key, node) in self.known(root, "", TOP) {
            let path = key.text.as_str();
            match path {
                "version" => {
                    version = true;
                    self.version(node);
                }
                "max_dependencies_total" => {
                    document.max_dependencies_total = self.count(node, path, MAX_DEPENDENCIES);
                }
                "max_namespaces" => {
                    document.max_namespaces = self.count(node, path, MAX_NAMESPACES);
                }
                _ => document.namespaces = self.namespaces(node, path),
            }
        }
        if !version && matches!(root.value, Tree::Map(_)) {
            self.refuse(
                root.place,
                "version",
                "missing; 1 is the only version".into(),
            );
        }
        document
    }

    fn version(&mut self, node: &Node) {
        if !matches!(node.value, Tree::Number(1.0)) {
            let message = format!(
                "{} is not allowed; 1 is the only version",
                node.value.shown()
            );
            self.refuse(node.place, "version", message);
        }
    }

    fn namespaces(&mut self, node: &Node, path: &str) -> Vec<Namespace> {
        let mut namespaces = Vec::new();
        for (key, node) in self.map(node, path) {
            let path = format!("{path}.{}", name::step(&key.text));
            if key.text == "*" || name::is_name(&key.text) {
                namespaces.push(self.namespace(key, node, &path));
            } else {
                let message = format!("not a namespace; {}, or *", name::ALLOWED);
                self.refuse(key.place, &path, message);
            }
        }
        namespaces
    }

    fn namespace(&mut self, key: &Key, node: &Node, path: &str) -> Namespace {
        let mut namespace = Namespace {
            name: key.text.clone(),
            auto_create: None,
            max_dependencies: None,
            bypass: None,
            defaults: None,
            dependencies: Vec::new(),
            envoy: None,
        };
        for (key, node) in self.known(node, path, NAMESPACE) {
            let path = format!("{path}.{}", key.text);
            match key.text.as_str() {
                "auto_create" => namespace.auto_create = self.flag(node, &path),
                "max_dependencies" => {
                    namespace.max_dependencies = self.count(node, &path, MAX_DEPENDENCIES);
                }
                "mode" => namespace.bypass = self.mode(node, &path),
                "defaults" => namespace.defaults = Some(self.entry(node, &path)),
                "envoy" => namespace.envoy = Some(self.envoy(node, &path)),
                _ => namespace.dependencies = self.dependencies(node, &path),
            }
        }
        namespace
    }

    fn dependencies(&mut self, node: &Node, path: &str) -> Vec<(String, Entry)> {
        let mut dependencies = Vec::new();
        for (key, node) in self.map(node, path) {
            let path = format!("{path}.{}", name::step(&key.text));
            if Selector::parse(&key.text).is_some() {
                let mut entry = self.entry(node, &path);
                entry.place = key.place;
                dependencies.push((key.text.clone(), entry));
            } else {
                let message = format!(
                    "not a name; {}, or the beginning of one and a * at its end",
                    name::ALLOWED
                );
                self.refuse(key.place, &path, message);
            }
        }
        dependencies
    }

    fn entry(&mut self, node: &Node, path: &str) -> Entry {
        let before = self.findings.len();
        let mut settings = Vec::new();
        for (key, node) in self.known(node, path, &SECTIONS) {
            self.section(
                &key.text,
                node,
                &format!("{path}.{}", key.text),
                &mut settings,
            );
        }
        self.window_under_adaptive(&settings, path);
        Entry {
            place: node.place,
            settings: settings.into_boxed_slice(),
            faulty: self.findings.len() > before,
        }
    }

    fn section(&mut self, section: &str, node: &Node, path: &str, settings: &mut Vec<Setting>) {
        if let Some(field) = fields::position(section, "") {
            if matches!(node.value, Tree::Null) {
                return;
            }
            let off = value::read(FIELDS[field].forms, &node.value);
            let value = off.unwrap_or(Value::Word("on"));
            settings.push(Setting {
                field,
                value,
                place: node.place,
            });
            if off.is_some() {
                return;
            }
        }
        let names = FIELDS
            .iter()
            .filter(|field| field.section == section && !field.name.is_empty());
        let names: Vec<&str> = names.map(|field| field.name).collect();
        for (key, node) in self.known(node, path, &names) {
            let Some(field) = fields::position(section, &key.text) else {
                continue;
            };
            let path = format!("{path}.{}", key.text);
            if let Some(value) = self.value(node, &path, FIELDS[field].forms) {
                settings.push(Setting {
                    field,
                    value,
                    place: node.place,
                });
            }
        }
    }

    fn window_under_adaptive(&mut self, settings: &[Setting], path: &str) {
        let adaptive = settings.iter().any(|setting| {
            FIELDS[setting.field].name == "detect" && setting.value == Value::Word("adaptive")
        });
        for setting in settings
            .iter()
            .filter(|setting| adaptive && FIELDS[setting.field].of_window())
        {
            let field = &FIELDS[setting.field];
            let message = format!(
                "{} is not allowed under detect: adaptive; it belongs to detect: window",
                setting.value
            );
            self.refuse(setting.place, &format!("{path}.{}", field.path()), message);
        }
    }

    fn value(&mut self, node: &Node, path: &str, forms: &[Form]) -> Option<Value> {
        let value = value::read(forms, &node.value);
        if value.is_none() {
            let message = format!(
                "{} is not allowed; {}",
                node.value.shown(),
                value::allowed(forms)
            );
            self.refuse(node.place, path, message);
        }
        value
    }

    fn count(&mut self, node: &Node, path: &str, form: Form) -> Option<Given<u32>> {
        match self.value(node, path, &[form])? {
            Value::Count(value) => Some(Given {
                value,
                place: node.place,
            }),
            _ => None,
        }
    }

    fn flag(&mut self, node: &Node, path: &str) -> Option<Given<bool>> {
        match self.value(node, path, &[Form::Flag])? {
            Value::Flag(value) => Some(Given {
                value,
                place: node.place,
            }),
            _ => None,
        }
    }

    fn mode(&mut self, node: &Node, path: &str) -> Option<Given<bool>> {
        let mode = self.value(node, path, &[Form::Words(&["enforce", "off"])])?;
        Some(Given {
            value: mode == Value::Word("off"),
            place: node.place,
        })
    }

    /// The entries of a map whose keys are `known`; the others are refused.
    fn known<'n>(&mut self, node: &'n Node, path: &str, known: &[&str]) -> Vec<&'n (Key, Node)> {
        let mut entries = self.map(node, path);
        entries.retain(|(key, _)| {
            let fine = known.contains(&key.text.as_str());
            if !fine {
                let path = match path {
                    "" => name::step(&key.text),
                    path => format!("{path}.{}", name::step(&key.text)),
                };
                self.refuse(
                    key.place,
                    &path,
                    format!("unknown field; known here: {}", known.join(", ")),
                );
            }
            fine
        });
        entries
    }

    /// The entries of a map, each key once. Nothing written is an empty map.
    fn map<'n>(&mut self, node: &'n Node, path: &str) -> Vec<&'n (Key, Node)> {
        let entries = match &node.value {
            Tree::Map(entries) => entries.as_slice(),
            Tree::Null => &[],
            other => {
                let message = format!("{} is not allowed; a map of fields", other.shown());
                self.refuse(node.place, path, message);
                &[]
            }
        };
        let mut first: HashMap<&str, Place> = HashMap::with_capacity(entries.len());
        let mut once = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = &entry.0;
            match first.get(key.text.as_str()) {
                Some(place) => {
                    let path = if path.is_empty() {
                        String::new()
                    } else {
                        format!("{path}.")
                    };
                    let message = format!("given twice; first in line {}", place.line);
                    self.refuse(
                        key.place,
                        &format!("{path}{}", name::step(&key.text)),
                        message,
                    );
                }
                None => {
                    first.insert(&key.text, key.place);
                    once.push(entry);
                }
            }
        }
        once
    }
}

mod envoy;
#[cfg(test)]
mod tests;
