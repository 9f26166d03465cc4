//! What is wrong with a policy, and where.

use std::fmt;

use super::tree::Place;

/// One thing that is wrong, or that a reader should know.
///
/// Shown as `policies.yaml:12:9: namespaces.default.defaults.retry.max_attempts: 0 is not
/// allowed; 1 to 1000, or unlimited`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Finding {
    /// A path, or `API` for a document put over the API.
    pub file: String,
    pub place: Place,
    /// From the root of the file; empty where it concerns the file as a whole.
    pub field: String,
    /// The value and what is allowed instead.
    pub message: String,
}

impl Finding {
    pub fn at(file: &str, place: Place, field: String, message: String) -> Self {
        Self {
            file: file.to_owned(),
            place,
            field,
            message,
        }
    }

    pub fn of_file(file: &str, message: String) -> Self {
        Self::at(file, Place::default(), String::new(), message)
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
    findings.sort();
    findings.dedup();
    findings
}
