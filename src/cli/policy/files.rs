//! The adapter to the policy module: what the commands need of it, in their own words.

use std::{collections::BTreeMap, path::Path};

use holdoff_client::proto::{GetPolicyResponse, ListPoliciesResponse, PolicySource};
use serde::Serialize;

use super::PolicyValue;
pub use crate::policy::Traffic as Known;
use crate::policy::{self, Change, Finding, ItemOrigin, Overlay, PolicySet, Severity, Source};

/// Policies of files, of a service, or none at all.
#[derive(Debug, Default)]
pub struct Policies(PolicySet);

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Checked {
    pub findings: Vec<Found>,
    pub errors: usize,
    pub warnings: usize,
    pub hints: usize,
}

/// One thing that is wrong, or that a reader should know.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    pub severity: &'static str,
    pub code: &'static str,
    pub file: String,
    /// Both from 1; 0 where unknown.
    pub line: u32,
    pub column: u32,
    pub field: String,
    pub dependency: String,
    pub message: String,
    pub numbers: BTreeMap<&'static str, f64>,
    /// Changes that, made together, end it.
    pub proposal: Vec<Proposal>,
}

/// A field and the value that it should have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proposal {
    pub field: String,
    pub value: String,
}

/// One policy that is to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub namespace: String,
    pub name: String,
    pub document: String,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub namespace: String,
    pub name: String,
    /// Empty: the entry or the namespace as a whole.
    pub field: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

impl From<Finding> for Found {
    fn from(finding: Finding) -> Self {
        let proposal = finding.proposal.into_iter().map(|proposed| Proposal {
            field: proposed.field,
            value: proposed.value,
        });
        Self {
            severity: finding.severity.as_str(),
            code: finding.code,
            file: finding.file,
            line: finding.place.line,
            column: finding.place.column,
            field: finding.field,
            dependency: finding.dependency,
            message: finding.message,
            numbers: finding.numbers,
            proposal: proposal.collect(),
        }
    }
}

impl Checked {
    pub fn of(findings: Vec<Found>) -> Self {
        let count = |severity: Severity| {
            let of_it = findings.iter();
            of_it
                .filter(|found| found.severity == severity.as_str())
                .count()
        };
        Self {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            hints: count(Severity::Hint),
            findings,
        }
    }
}

impl From<Change> for Difference {
    fn from(change: Change) -> Self {
        Self {
            namespace: change.namespace,
            name: change.name,
            field: change.field,
            before: change.before,
            after: change.after,
        }
    }
}

/// # Errors
/// Everything that is wrong with the files.
pub fn load(path: &Path) -> Result<Policies, Vec<Found>> {
    let found = |findings: Vec<Finding>| findings.into_iter().map(Found::from).collect();
    let sources = policy::files::read(path).map_err(found)?;
    PolicySet::load(&sources, &[]).map(Policies).map_err(found)
}

/// Reads a traffic file.
///
/// # Errors
/// Everything that is wrong with it.
pub fn traffic(path: &Path) -> Result<Known, Vec<Found>> {
    let found = |findings: Vec<Finding>| findings.into_iter().map(Found::from).collect();
    let sources = policy::files::read(path).map_err(found)?;
    match sources.as_slice() {
        [source] => Known::read(source).map_err(found),
        many => {
            let message = format!("{} files; traffic is one file", many.len());
            let finding = Finding::of_file(&path.display().to_string(), message);
            Err(vec![finding.into()])
        }
    }
}

/// Loads the files and looks for what cannot work.
pub fn check(path: &Path, traffic: &Known) -> Checked {
    match load(path) {
        Ok(policies) => policies.check(traffic),
        Err(errors) => Checked::of(errors),
    }
}

/// The JSON Schema of a policy file.
pub fn schema() -> serde_json::Value {
    policy::schema()
}

impl Policies {
    /// What cannot work under what is known of the calls.
    pub fn check(&self, traffic: &Known) -> Checked {
        let findings = policy::check(&self.0, traffic).into_iter();
        Checked::of(findings.map(Found::from).collect())
    }

    /// What a service says that it has for one namespace.
    ///
    /// # Errors
    /// The first thing in it that this version does not understand.
    pub fn of_service(namespace: &str, written: &ListPoliciesResponse) -> Result<Self, String> {
        let frame = serde_json::json!({"version": 1, "namespaces": {namespace: {}}});
        let frame = Source {
            name: "service".to_owned(),
            text: frame.to_string(),
        };
        let written = written.policies.iter();
        let overlays: Vec<_> = written
            .filter(|policy| policy.source() != PolicySource::BuiltIn)
            .map(|policy| Overlay {
                namespace: namespace.to_owned(),
                name: policy.name.clone(),
                text: policy.document.clone(),
            })
            .collect();
        PolicySet::load(&[frame], &overlays)
            .map(Self)
            .map_err(|findings| {
                let first = findings.first();
                first.map_or_else(String::new, ToString::to_string)
            })
    }

    /// The policy of a dependency, as a service would answer.
    pub fn explain(&self, namespace: &str, dependency: &str) -> Option<GetPolicyResponse> {
        let values = self.0.explain(namespace, dependency)?;
        let (resolved, _) = self.0.resolve(namespace, dependency)?;
        let values = values.into_iter().map(|value| PolicyValue {
            field: value.field,
            value: value.value,
            origin: value.origin,
        });
        Some(GetPolicyResponse {
            document: policy::to_yaml(&resolved),
            values: values.collect(),
        })
    }

    /// All that is written down, namespace by namespace.
    pub fn entries(&self) -> Vec<Entry> {
        let mut all = Vec::new();
        for namespace in self.0.namespace_names() {
            for entry in self.0.entries(namespace).unwrap_or_default() {
                if !matches!(entry.origin, ItemOrigin::BuiltIn) {
                    all.push(Entry {
                        namespace: namespace.to_owned(),
                        name: entry.name,
                        document: entry.document,
                    });
                }
            }
        }
        all
    }

    pub fn changes_to(&self, new: &Self) -> Vec<Difference> {
        policy::diff(&self.0, &new.0)
            .into_iter()
            .map(Difference::from)
            .collect()
    }

    /// The changes of one namespace's entries; its own fields (may names appear, how many)
    /// stand in files alone, so a service's cannot be compared.
    pub fn entry_changes_to(&self, new: &Self, namespace: &str) -> Vec<Difference> {
        let namespace = if namespace.is_empty() {
            policy::DEFAULT_NAMESPACE
        } else {
            namespace
        };
        let own = ["auto_create", "max_dependencies", "mode"];
        let mut changes = self.changes_to(new);
        changes.retain(|change| {
            change.namespace == namespace
                && !(change.name.is_empty() && own.contains(&change.field.as_str()))
        });
        changes
    }
}
