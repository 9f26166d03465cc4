//! Reads what pages send: valid, or refused with the field, the value and what is allowed.

use axum::http::StatusCode;
use serde::Deserialize;

use super::act::Refused;
use crate::policy::{DEFAULT_NAMESPACE, NAMES_ALLOWED, is_name};

/// Which dependency; in a query.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Asked {
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub dependency: String,
}

impl Asked {
    /// # Errors
    /// What is no name.
    pub fn checked(self) -> Result<Self, Refused> {
        Ok(Self {
            namespace: namespace(&self.namespace)?.to_owned(),
            dependency: dependency(&self.dependency)?.to_owned(),
        })
    }
}

/// # Errors
/// What is no name.
pub fn namespace(given: &str) -> Result<&str, Refused> {
    match given {
        "" => Ok(DEFAULT_NAMESPACE),
        given => valid("namespace", given),
    }
}

/// # Errors
/// What is no name.
pub fn dependency(given: &str) -> Result<&str, Refused> {
    valid("dependency", given)
}

fn valid<'a>(field: &str, given: &'a str) -> Result<&'a str, Refused> {
    match is_name(given) {
        true => Ok(given),
        false => Err(bad(field, &quoted(given), NAMES_ALLOWED)),
    }
}

/// # Errors
/// A text that is shorter or longer, in bytes.
pub fn text<'a>(field: &str, given: &'a str, most: usize) -> Result<&'a str, Refused> {
    match given.trim() {
        "" => Err(bad(field, "nothing", &format!("1 to {most} bytes"))),
        given if given.len() > most => {
            let length = format!("{} bytes", given.len());
            Err(bad(field, &length, &format!("1 to {most} bytes")))
        }
        given => Ok(given),
    }
}

/// The field, what it was, and what it may be.
pub fn bad(field: &str, value: &str, allowed: &str) -> Refused {
    let problem = format!("{field}: {value} is not allowed; {allowed}");
    Refused::new(StatusCode::BAD_REQUEST, problem)
}

/// A text that somebody else chose, short and printable.
pub fn quoted(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{more}")
}
