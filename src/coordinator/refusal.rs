//! Why there is no decision. A denial is not among these: it is an answer.

use super::{Coordinator, Key};
use crate::{
    durable::DurableError,
    policy::Finding,
    store::{Store, StoreError},
    telemetry::{Counter, Refused},
};

/// Why a request was not carried out. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// A field has a value that makes no sense.
    #[error("{field}: {problem}")]
    Invalid { field: String, problem: String },
    #[error("there is no namespace `{0}`")]
    UnknownNamespace(String),
    #[error(
        "namespace `{namespace}` has no dependency `{dependency}`: no policy names it, and it was never called or auto_create is off"
    )]
    UnknownDependency {
        namespace: String,
        dependency: String,
    },
    #[error("no policy is stored for `{name}` in namespace `{namespace}`")]
    UnknownPolicy { namespace: String, name: String },
    #[error("no candidate is put for `{name}` in namespace `{namespace}`")]
    UnknownCandidate { namespace: String, name: String },
    #[error("the service has its {0} candidates already; promote or drop one")]
    TooManyCandidates(usize),
    /// Its policy plans no health checks.
    #[error("the policy of `{0}` has no `check`; set check.period")]
    NoCheck(String),
    #[error("`{dependency}` has no {what}")]
    NothingToClear {
        dependency: String,
        what: &'static str,
    },
    #[error("the policy is refused: {}", joined(.0))]
    BadPolicy(Vec<Finding>),
    /// Somebody else has changed the same meanwhile.
    #[error("{what} {who}; look at it and ask again")]
    Rival { what: String, who: String },
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    Durable(#[from] DurableError),
    #[error(
        "not checked within {0:?}; state traffic of fewer dependencies, or check it with `holdoff policy check`"
    )]
    CheckTooSlow(std::time::Duration),
    #[error("not durable within {0:?}")]
    TooSlow(std::time::Duration),
}

fn joined(findings: &[Finding]) -> String {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    lines.join("; ")
}

impl Refusal {
    pub fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

impl<S: Store> Coordinator<S> {
    /// What a store says, in the words of who asked; and counts it.
    pub(super) fn explain(&self, error: StoreError, key: Key<'_>) -> Refusal {
        let (refused, refusal) = match error {
            StoreError::Unknown if self.policies.has_namespace(key.namespace) => (
                Refused::UnknownDependency,
                Refusal::UnknownDependency {
                    namespace: key.namespace.to_owned(),
                    dependency: key.dependency.to_owned(),
                },
            ),
            StoreError::Unknown => (
                Refused::UnknownNamespace,
                Refusal::UnknownNamespace(key.namespace.to_owned()),
            ),
            full @ StoreError::NamespaceFull { .. } => {
                (Refused::NamespaceFull, Refusal::Store(full))
            }
            full @ StoreError::NamespacesFull { .. } => {
                (Refused::NamespacesFull, Refusal::Store(full))
            }
            full @ StoreError::Full { .. } => (Refused::Full, Refusal::Store(full)),
            away @ StoreError::Unavailable(_) => (Refused::StoreUnavailable, Refusal::Store(away)),
        };
        self.telemetry.add(Counter::Refused(refused));
        refusal
    }
}
