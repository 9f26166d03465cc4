//! Puts files and what was put over the API together into a [`PolicySet`], or says all
//! that is wrong with them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::blame::{API, Titles, blame, entry_path};
use super::envoy::Naming;
use super::finding::{Finding, tidy};
use super::layers;
use super::name::{self, Selector};
use super::raw::{self, Entry, Given};
use super::set::*;
use super::tree::Place;
use super::validate;

const MAX_DEPENDENCIES: u32 = 10_000;
const MAX_DEPENDENCIES_TOTAL: u32 = 1_000_000;
const MAX_NAMESPACES: u32 = 1_000;

/// Entries of all files together.
const MAX_ENTRIES: usize = 1_000_000;
/// More are not told at once.
const MAX_FINDINGS: usize = 1_000;

impl PolicySet {
    /// Reads all sources and overlays. Without sources there is the namespace `default`.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the files; then nothing is loaded.
    pub fn load(sources: &[Source], overlays: &[Overlay]) -> Result<Self, Vec<Finding>> {
        let mut draft = Draft::default();
        for source in sources {
            draft.source(source);
        }
        if draft.namespaces.is_empty() {
            draft
                .namespaces
                .insert(DEFAULT_NAMESPACE.into(), DraftNamespace::default());
        }
        // What is put on `*` first: the other namespaces may begin as it.
        let (rest, named): (Vec<_>, Vec<_>) = overlays
            .iter()
            .partition(|overlay| overlay.namespace == "*");
        for overlay in rest.into_iter().chain(named) {
            draft.overlay(overlay);
        }
        draft.finish()
    }
}

impl Default for PolicySet {
    /// What holds without any policy file.
    fn default() -> Self {
        match Self::load(&[], &[]) {
            Ok(set) => set,
            Err(_) => unreachable!("nothing was written, so nothing was wrong"),
        }
    }
}

#[derive(Default)]
struct Draft {
    namespaces: BTreeMap<String, DraftNamespace>,
    max_dependencies_total: Option<Stated<u32>>,
    max_namespaces: Option<Stated<u32>>,
    entries: usize,
    findings: Vec<Finding>,
}

#[derive(Clone, Default)]
struct DraftNamespace {
    /// Other than its name where that was made from `*`.
    written_as: Option<String>,
    auto_create: Option<Stated<bool>>,
    max_dependencies: Option<Stated<u32>>,
    bypass: Option<Stated<bool>>,
    defaults: Option<DraftItem>,
    dependencies: HashMap<String, DraftItem>,
    /// By the rule's canonical text.
    envoy: Option<BTreeMap<String, Stated<raw::NamedDescriptor>>>,
}

#[derive(Clone)]
struct DraftItem {
    origin: ItemOrigin,
    entry: Entry,
}

/// A value, and its place in a file.
#[derive(Clone)]
struct Stated<T> {
    given: Given<T>,
    file: Arc<str>,
}

impl Draft {
    fn source(&mut self, source: &Source) {
        let file: Arc<str> = source.name.as_str().into();
        let (document, findings) = raw::read_file(&file, &source.text);
        self.findings.extend(findings);
        let Self { findings, .. } = self;
        state(
            &mut self.max_dependencies_total,
            document.max_dependencies_total,
            &file,
            "max_dependencies_total",
            findings,
        );
        state(
            &mut self.max_namespaces,
            document.max_namespaces,
            &file,
            "max_namespaces",
            findings,
        );
        for namespace in document.namespaces {
            self.merge(namespace, &file);
        }
    }

    fn merge(&mut self, from: raw::Namespace, file: &Arc<str>) {
        let path = format!("namespaces.{}", name::step(&from.name));
        let Self { findings, .. } = self;
        let into = self.namespaces.entry(from.name).or_default();
        let field = |name: &str| format!("{path}.{name}");
        state(
            &mut into.auto_create,
            from.auto_create,
            file,
            &field("auto_create"),
            findings,
        );
        state(
            &mut into.max_dependencies,
            from.max_dependencies,
            file,
            &field("max_dependencies"),
            findings,
        );
        state(
            &mut into.bypass,
            from.bypass,
            file,
            &field("mode"),
            findings,
        );
        let item = |entry| DraftItem {
            origin: ItemOrigin::File(Arc::clone(file)),
            entry,
        };
        if let Some(entry) = from.defaults {
            match &into.defaults {
                Some(first) => findings.push(again(first, file, entry.place, field("defaults"))),
                None => into.defaults = Some(item(entry)),
            }
        }
        if let Some(rules) = from.envoy {
            let into = into.envoy.get_or_insert_default();
            merge_envoy(into, rules, file, &field("envoy"), findings);
        }
        self.entries += from.dependencies.len();
        for (name, entry) in from.dependencies {
            match into.dependencies.get(&name) {
                Some(first) => {
                    let field = format!("{path}.dependencies.{}", name::step(&name));
                    findings.push(again(first, file, entry.place, field));
                }
                None => drop(into.dependencies.insert(name, item(entry))),
            }
        }
    }

    fn overlay(&mut self, overlay: &Overlay) {
        let Overlay {
            namespace,
            name,
            text,
        } = overlay;
        let namespace = if namespace.is_empty() {
            DEFAULT_NAMESPACE
        } else {
            namespace
        };
        let path = entry_path(namespace, name);
        let fine = name::is_name(namespace) || namespace == "*";
        if !fine || (!name.is_empty() && Selector::parse(name).is_none()) {
            let message = format!(
                "not a name; {}, or the beginning of one and a * at its end",
                name::ALLOWED
            );
            self.findings
                .push(Finding::at(API, Place::default(), path, message));
            return;
        }
        let (entry, findings) = raw::read_entry(API, &path, text);
        self.findings.extend(findings);
        self.entries += 1;
        let item = DraftItem {
            origin: ItemOrigin::Api(text.as_str().into()),
            entry,
        };
        let into = self.written(namespace);
        match name.is_empty() {
            true => into.defaults = Some(item),
            false => drop(into.dependencies.insert(name.clone(), item)),
        }
    }

    /// A namespace to put an entry in. One that no file names begins as the policies of
    /// `*`. Without those it holds only what is put there: it was dropped from the files,
    /// and nothing that was not asked for should live on in it.
    fn written(&mut self, namespace: &str) -> &mut DraftNamespace {
        let rest = self.namespaces.get("*").cloned();
        self.namespaces
            .entry(namespace.to_owned())
            .or_insert_with(|| match rest {
                Some(rest) => DraftNamespace {
                    written_as: Some("*".into()),
                    ..rest
                },
                None => DraftNamespace {
                    auto_create: Some(Stated {
                        given: Given {
                            value: false,
                            place: Place::default(),
                        },
                        file: API.into(),
                    }),
                    ..DraftNamespace::default()
                },
            })
    }

    fn finish(mut self) -> Result<PolicySet, Vec<Finding>> {
        let max_namespaces = value_or(&self.max_namespaces, MAX_NAMESPACES);
        self.bounds(max_namespaces);
        let mut namespaces = HashMap::with_capacity(self.namespaces.len());
        for (name, draft) in std::mem::take(&mut self.namespaces) {
            let namespace = self.namespace(&name, draft);
            namespaces.insert(name, namespace);
        }
        let mut findings = tidy(self.findings);
        if !findings.is_empty() {
            let left_out = findings.len().saturating_sub(MAX_FINDINGS);
            findings.truncate(MAX_FINDINGS);
            if left_out > 0 {
                findings.push(Finding::of_file("…", format!("{left_out} more findings")));
            }
            return Err(findings);
        }
        Ok(PolicySet {
            rest: namespaces.remove("*"),
            namespaces,
            max_dependencies_total: value_or(&self.max_dependencies_total, MAX_DEPENDENCIES_TOTAL),
            max_namespaces,
        })
    }

    fn bounds(&mut self, max_namespaces: u32) {
        if self.entries > MAX_ENTRIES {
            let message = format!(
                "{} dependencies are written down; at most {MAX_ENTRIES}",
                self.entries
            );
            self.findings.push(Finding::of_file("policies", message));
        }
        if self.namespaces.len() > max_namespaces as usize {
            let (file, place) = match &self.max_namespaces {
                Some(stated) => (stated.file.to_string(), stated.given.place),
                None => ("policies".into(), Place::default()),
            };
            let message = format!(
                "{max_namespaces} is below the {} namespaces that are written down",
                self.namespaces.len()
            );
            self.findings
                .push(Finding::at(&file, place, "max_namespaces".into(), message));
        }
    }

    fn namespace(&mut self, name: &str, draft: DraftNamespace) -> NamespacePolicy {
        let written_as = draft.written_as.unwrap_or_else(|| name.to_owned());
        let defaults = draft.defaults.unwrap_or_else(|| DraftItem {
            origin: ItemOrigin::BuiltIn,
            entry: Entry::default(),
        });
        let defaults = self.item(&written_as, "", None, defaults);
        let mut namespace = NamespacePolicy {
            auto_create: value_or(&draft.auto_create, true),
            max_dependencies: value_or(&draft.max_dependencies, MAX_DEPENDENCIES),
            limit_at: draft
                .max_dependencies
                .map(|stated| (stated.file, stated.given.place)),
            bypass: value_or(&draft.bypass, false),
            exact: HashMap::new(),
            names: Vec::new(),
            patterns: HashMap::new(),
            lengths: Vec::new(),
            envoy: draft.envoy.map(EnvoySection::of),
            written_as,
            defaults,
        };
        for (name, item) in draft.dependencies {
            let item = self.item(
                &namespace.written_as,
                &name,
                Some(&namespace.defaults),
                item,
            );
            match name.strip_suffix('*') {
                Some(prefix) => drop(namespace.patterns.insert(prefix.to_owned(), item)),
                None => drop(namespace.exact.insert(name.into(), item)),
            }
        }
        namespace.names = namespace.exact.keys().cloned().collect();
        namespace.names.sort_unstable();
        namespace.lengths = namespace.patterns.keys().map(String::len).collect();
        namespace.lengths.sort_unstable_by(|a, b| b.cmp(a));
        namespace.lengths.dedup();
        namespace
    }

    /// Resolves an entry and looks at what comes of it, unless it is known to be faulty.
    fn item(&mut self, namespace: &str, name: &str, below: Option<&Item>, item: DraftItem) -> Item {
        let DraftItem { origin, entry } = item;
        if let Some(below) = below
            && entry.settings.is_empty()
        {
            return Item {
                origin,
                entry,
                policy: Arc::clone(&below.policy),
            };
        }
        let layers: Vec<&Entry> = below
            .map(|below| &below.entry)
            .into_iter()
            .chain([&entry])
            .collect();
        let resolved = layers::resolve(&layers);
        if !layers.iter().any(|layer| layer.faulty) {
            for fault in validate::faults(&resolved) {
                let titles = Titles {
                    namespace,
                    name,
                    below: below.map(|below| &below.origin),
                    own: &origin,
                };
                let finding = blame(&fault, &resolved.origins, &titles);
                self.findings.push(finding);
            }
        }
        Item {
            policy: Arc::new(resolved.policy),
            origin,
            entry,
        }
    }
}

fn value_or<T: Copy>(stated: &Option<Stated<T>>, or: T) -> T {
    stated.as_ref().map_or(or, |stated| stated.given.value)
}

/// Takes what a file gives, unless another file gave it before.
fn state<T: Copy>(
    slot: &mut Option<Stated<T>>,
    given: Option<Given<T>>,
    file: &Arc<str>,
    path: &str,
    findings: &mut Vec<Finding>,
) {
    let Some(given) = given else { return };
    match slot {
        Some(first) => {
            let message = format!(
                "given twice; first in {}:{}",
                first.file, first.given.place.line
            );
            findings.push(Finding::at(file, given.place, path.to_owned(), message));
        }
        None => {
            *slot = Some(Stated {
                given,
                file: Arc::clone(file),
            })
        }
    }
}

fn merge_envoy(
    into: &mut BTreeMap<String, Stated<raw::NamedDescriptor>>,
    rules: Vec<Given<raw::NamedDescriptor>>,
    file: &Arc<str>,
    path: &str,
    findings: &mut Vec<Finding>,
) {
    for given in rules {
        let descriptor = given.value.rule.canonical();
        match into.get(&descriptor) {
            Some(first) => {
                let (file_of_first, line) = (&first.file, first.given.place.line);
                let message = format!("given twice; first in {file_of_first}:{line}");
                let field = format!("{path}.{}", name::step(&descriptor));
                findings.push(Finding::at(file, given.place, field, message));
            }
            None => {
                let file = Arc::clone(file);
                into.insert(descriptor, Stated { given, file });
            }
        }
    }
}

impl EnvoySection {
    fn of(rules: BTreeMap<String, Stated<raw::NamedDescriptor>>) -> Self {
        let written = rules.iter().map(|(descriptor, stated)| WrittenRule {
            descriptor: descriptor.clone(),
            name: stated.given.value.name.clone(),
            at: (Arc::clone(&stated.file), stated.given.place),
        });
        Self {
            written: written.collect(),
            naming: Naming::new(
                rules
                    .into_values()
                    .map(|stated| stated.given.value.rule)
                    .collect(),
            ),
        }
    }
}

fn again(first: &DraftItem, file: &str, place: Place, path: String) -> Finding {
    let message = format!(
        "given twice; first in {}:{}",
        first.origin.file(),
        first.entry.place.line
    );
    Finding::at(file, place, path, message)
}
