//! The adapter to the policy module: what the commands need of it, in their own words.

use std::{path::Path, time::Duration};

use holdoff_client::proto::{GetPolicyResponse, ListPoliciesResponse, PolicySource};
use holdoff_decision::Nanos;
use serde::Serialize;

use super::PolicyValue;
use crate::policy::{self, Change, Finding, ItemOrigin, Overlay, PolicySet, Source};

/// Policies of files, of a service, or none at all.
#[derive(Debug, Default)]
pub struct Policies(PolicySet);

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    pub errors: Vec<Found>,
    pub warnings: Vec<Found>,
}

/// One thing that is wrong, or that a reader should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    pub file: String,
    /// Both from 1; 0 where unknown.
    pub line: u32,
    pub column: u32,
    pub field: String,
    pub message: String,
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
        Self {
            file: finding.file,
            line: finding.place.line,
            column: finding.place.column,
            field: finding.field,
            message: finding.message,
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

/// Loads the files and looks for what cannot work.
pub fn check(path: &Path, deadline: Option<Duration>) -> Checked {
    let policies = match load(path) {
        Ok(policies) => policies,
        Err(errors) => {
            return Checked {
                errors,
                ..Checked::default()
            };
        }
    };
    let mut warnings = policy::check(&policies.0);
    if let Some(deadline) = deadline {
        let nanos = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        warnings.extend(policy::check_deadline(&policies.0, Nanos(nanos)));
    }
    Checked {
        errors: Vec::new(),
        warnings: warnings.into_iter().map(Found::from).collect(),
    }
}

/// The JSON Schema of a policy file.
pub fn schema() -> serde_json::Value {
    policy::schema()
}

impl Policies {
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
