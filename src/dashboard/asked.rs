//! Reads what pages send: valid, or refused with the field, the value and what is allowed.

use axum::{
    extract::{FromRequestParts, Query},
    http::{StatusCode, request::Parts},
};
use serde::{Deserialize, de::DeserializeOwned};

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

/// What stands in a query. One that cannot be read is refused as all else is.
#[derive(Clone, Copy, Debug)]
pub struct Asks<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asks<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(unread) => {
                let why = unread.body_text();
                // The library's own beginning, which names no field.
                let why = why.split_once(": ").map_or(&*why, |(_, why)| why);
                let problem = format!("query: {why}");
                Err(Refused::new(StatusCode::BAD_REQUEST, problem))
            }
        }
    }
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
