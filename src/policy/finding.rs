//! What is wrong with a policy, where, and what would be right.

use std::collections::BTreeMap;
use std::fmt;

use super::tree::Place;

/// One thing that is wrong, or that a reader should know.
///
/// Shown as `policies.yaml:12:9: namespaces.default.defaults.retry.max_attempts: 0 is not
/// allowed; 1 to 1000, or unlimited`.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub severity: Severity,
    /// Stable, for programs: `refused`, or a rule of `docs/policy-check.md`.
    pub code: &'static str,
    /// A path, or `API` for a document put over the API.
    pub file: String,
    pub place: Place,
    /// From the root of the file; empty where it concerns the file as a whole.
    pub field: String,
    /// The value and what is allowed instead.
    pub message: String,
    /// The dependency or pattern that it was judged for; empty: the defaults, or the file.
    pub dependency: String,
    /// What was computed, the unit last in each name.
    pub numbers: BTreeMap<&'static str, f64>,
    /// Fields that, changed together, end the finding; empty where no value is known to.
    pub proposal: Vec<Proposed>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The policy is refused.
    Error,
    /// It is taken and does not do what it says.
    Warning,
    /// It works, but less well than it looks.
    Hint,
}

/// A field and the value that it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// From the root of the file, as in [`Finding::field`].
    pub field: String,
    /// As it is written in a policy file.
    pub value: String,
}

/// The code of what a load refuses.
pub const REFUSED: &str = "refused";

impl Finding {
    /// What is refused.
    pub fn at(file: &str, place: Place, field: String, message: String) -> Self {
        Self {
            severity: Severity::Error,
            code: REFUSED,
            file: file.to_owned(),
            place,
            field,
            message,
            dependency: String::new(),
            numbers: BTreeMap::new(),
            proposal: Vec::new(),
        }
    }

    pub fn of_file(file: &str, message: String) -> Self {
        Self::at(file, Place::default(), String::new(), message)
    }
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Hint => "hint",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.place.line > 0 {
            write!(f, ":{}:{}", self.place.line, self.place.column)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Without duplicates, in the order of the files.
pub fn tidy(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| key(a).cmp(&key(b)));
    findings.dedup();
    findings
}

fn key(finding: &Finding) -> (&str, Place, &str, &str, &str) {
    (
        &finding.file,
        finding.place,
        &finding.field,
        &finding.dependency,
        &finding.message,
    )
}
