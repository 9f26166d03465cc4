//! Reads what operators send: valid, or refused with the field, the value and what is allowed.

use holdoff_decision::{Nanos, record::OverrideKind};

use super::super::read;
use crate::{
    coordinator::{Actor, Key, Refusal},
    policy::is_name,
    proto,
};

const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1_000;
const REASON_MAX: usize = 1_000;
/// As audit records and events say it.
const ANONYMOUS: &str = "anonymous";
const OVERRIDE_MIN: Nanos = Nanos::from_millis(1);
const OVERRIDE_MAX: Nanos = Nanos::from_secs(365 * 24 * 3600);

/// An override that makes sense.
#[derive(Debug)]
pub struct Order<'a> {
    pub key: Key<'a>,
    pub kind: OverrideKind,
    pub actor: Actor<'a>,
    pub expires_in: Option<Nanos>,
}

/// # Errors
/// The first field that makes no sense.
pub fn order(request: &proto::SetOverrideRequest) -> Result<Order<'_>, Refusal> {
    let key = key(&request.namespace, &request.dependency)?;
    let kind = override_kind(request.kind)?;
    let given = |field: &str, text: &str, problem: &str| match text.trim() {
        "" => Err(Refusal::invalid(field, problem)),
        _ => Ok(()),
    };
    let owner = "missing; say who, in 1 to 200 bytes";
    given("owner", &request.owner, owner)?;
    let actor = actor(&request.owner, &request.reason)?;
    let reason = "missing; say why, in 1 to 1000 bytes";
    given("reason", &request.reason, reason)?;
    let expires_in = request.expires_in.as_ref().map(lifetime).transpose()?;
    Ok(Order {
        key,
        kind,
        actor,
        expires_in,
    })
}

fn override_kind(kind: i32) -> Result<OverrideKind, Refusal> {
    match proto::OverrideKind::try_from(kind) {
        Ok(proto::OverrideKind::ForceOpen) => Ok(OverrideKind::ForceOpen),
        Ok(proto::OverrideKind::ForceClosed) => Ok(OverrideKind::ForceClosed),
        Ok(proto::OverrideKind::Unspecified) | Err(_) => Err(Refusal::invalid(
            "kind",
            format!("{kind} is not allowed; 1 (force open) or 2 (force closed)"),
        )),
    }
}

fn lifetime(span: &prost_types::Duration) -> Result<Nanos, Refusal> {
    let span = read::span("expires_in", span)?;
    match span >= OVERRIDE_MIN && span <= OVERRIDE_MAX {
        true => Ok(span),
        false => Err(Refusal::invalid(
            "expires_in",
            format!("{span} is not allowed; 1 ms to 365 days"),
        )),
    }
}

pub fn key<'a>(namespace: &'a str, dependency: &'a str) -> Result<Key<'a>, Refusal> {
    Ok(Key {
        namespace: read::namespace(namespace)?,
        dependency: read::dependency(dependency)?,
    })
}

/// Whom the service does not know, and who does not say it, is nobody in particular. How long an
/// owner may be was looked at before it was signed.
pub fn actor<'a>(owner: &'a str, reason: &'a str) -> Result<Actor<'a>, Refusal> {
    read::limited("reason", reason, REASON_MAX)?;
    let owner = match owner.trim() {
        "" => ANONYMOUS,
        owner => owner,
    };
    let reason = reason.trim();
    Ok(Actor { owner, reason })
}

/// A name, a pattern, or empty for the defaults.
pub fn selector(name: &str) -> Result<&str, Refusal> {
    let stem = name.strip_suffix('*').unwrap_or(name);
    match stem.is_empty() || is_name(stem) {
        true => Ok(name),
        false => Err(Refusal::invalid(
            "name",
            format!(
                "{} is not allowed; a dependency's name, a pattern ending in *, or empty",
                read::quoted(name)
            ),
        )),
    }
}

/// Marks a token: the name of a namespace's defaults is empty, and so is no token at all.
const POLICY_TOKEN: &str = "after:";

/// Where the page after the one that ended with this policy begins.
pub fn policy_token(last: &str) -> String {
    format!("{POLICY_TOKEN}{last}")
}

/// The name that a page of policies begins after; `None`: it is the first page.
pub fn after_policy(token: &str) -> Result<Option<&str>, Refusal> {
    match (token, token.strip_prefix(POLICY_TOKEN)) {
        ("", _) => Ok(None),
        (_, Some(name)) => selector(name)
            .map(Some)
            .map_err(|_| Refusal::invalid("page_token", "not one that a page gave")),
        (_, None) => Err(Refusal::invalid("page_token", "not one that a page gave")),
    }
}

pub fn page_size(size: u32) -> Result<usize, Refusal> {
    match size {
        0 => Ok(PAGE_DEFAULT as usize),
        1..=PAGE_MAX => Ok(size as usize),
        _ => Err(Refusal::invalid(
            "page_size",
            format!("{size} is not allowed; 0 to {PAGE_MAX}"),
        )),
    }
}
