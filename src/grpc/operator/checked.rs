//! A policy that is checked: what is known of its calls, and what was found.

use std::collections::HashMap;

use prost_types::Duration;

use super::{Coordinator, FILE_MAX, Refusal, Store, asked::selector, read};
use crate::{
    policy::{Facts, Finding, Severity, Traffic},
    proto,
};

/// What can be said of dependencies in one request.
const TRAFFIC_MAX: usize = 1_000;

/// # Errors
/// The first field that makes no sense, or names what the document has no policy for; or it
/// took too long. What the policy says is in the findings.
pub async fn check<S: Store>(
    coordinator: &Coordinator<S>,
    request: proto::CheckPolicyRequest,
) -> Result<proto::CheckPolicyResponse, Refusal> {
    read::limited("document", &request.document, FILE_MAX)?;
    let traffic = traffic(&request)?;
    let findings = coordinator.check_policy(request.document, traffic).await?;
    Ok(proto::CheckPolicyResponse {
        findings: findings.into_iter().map(written).collect(),
    })
}

fn traffic(request: &proto::CheckPolicyRequest) -> Result<Traffic, Refusal> {
    if request.traffic.len() > TRAFFIC_MAX {
        let problem = format!(
            "{} are not allowed; at most {TRAFFIC_MAX}",
            request.traffic.len()
        );
        return Err(Refusal::invalid("traffic", problem));
    }
    let mut traffic = Traffic::default();
    if let Some(stated) = &request.everywhere {
        for (field, name) in [
            ("namespace", &stated.namespace),
            ("dependency", &stated.dependency),
        ] {
            if !name.is_empty() {
                let problem = format!("{} is not allowed; it is empty here", read::quoted(name));
                return Err(Refusal::invalid(format!("everywhere.{field}"), problem));
            }
        }
        traffic = Traffic::everywhere(facts("everywhere", stated)?);
    }
    for (index, stated) in request.traffic.iter().enumerate() {
        let path = format!("traffic[{index}]");
        let at = |refusal| match refusal {
            Refusal::Invalid { field, problem } => {
                let field = match field.as_str() {
                    "name" => "dependency",
                    other => other,
                };
                Refusal::invalid(format!("{path}.{field}"), problem)
            }
            other => other,
        };
        let namespace = match stated.namespace.as_str() {
            "*" => "*",
            other => read::namespace(other).map_err(at)?,
        };
        let name = selector(&stated.dependency).map_err(at)?;
        traffic.mention(format!("{path}.namespace"), namespace, "");
        if !name.is_empty() {
            traffic.mention(format!("{path}.dependency"), namespace, name);
        }
        traffic.state(namespace, name, &facts(&path, stated)?);
    }
    Ok(traffic)
}

/// As a traffic file would hold them, so that the same ranges hold.
fn facts(path: &str, stated: &proto::TrafficFacts) -> Result<Facts, Refusal> {
    let mut facts = Facts::default();
    let mut give = |name: &str, text: Option<String>| match text {
        None => Ok(()),
        Some(text) => facts
            .give(name, &text)
            .map_err(|problem| Refusal::invalid(format!("{path}.{name}"), problem)),
    };
    let span = |name: &str, span: &Option<Duration>| -> Result<Option<String>, Refusal> {
        let span = span
            .as_ref()
            .map(|span| read::span(&format!("{path}.{name}"), span));
        Ok(span.transpose()?.map(crate::policy::as_written))
    };
    let number = |number: Option<f64>| number.map(|number| number.to_string());
    let count = |count: Option<u32>| count.map(|count| count.to_string());
    give("calls_per_second", number(stated.calls_per_second))?;
    give("clients", count(stated.clients))?;
    give("capacity", number(stated.capacity))?;
    for (name, given) in [
        ("deadline", &stated.deadline),
        ("attempt_time", &stated.attempt_time),
        ("attempt_timeout", &stated.attempt_timeout),
        ("recovery_goal", &stated.recovery_goal),
    ] {
        give(name, span(name, given)?)?;
    }
    give("failure_ratio", number(stated.failure_ratio))?;
    give("checkers", count(stated.checkers))?;
    give("layers", count(stated.layers))?;
    Ok(facts)
}

fn written(finding: Finding) -> proto::Finding {
    let severity = match finding.severity {
        Severity::Error => proto::FindingSeverity::Error,
        Severity::Warning => proto::FindingSeverity::Warning,
        Severity::Hint => proto::FindingSeverity::Hint,
    };
    let numbers = finding.numbers.into_iter();
    let numbers: HashMap<String, f64> = numbers.map(|(name, it)| (name.to_owned(), it)).collect();
    let proposal = finding
        .proposal
        .into_iter()
        .map(|proposed| proto::PolicyChange {
            field: proposed.field,
            value: proposed.value,
        });
    proto::Finding {
        severity: severity.into(),
        field: finding.field,
        message: finding.message,
        line: finding.place.line,
        column: finding.place.column,
        code: finding.code.to_owned(),
        numbers,
        proposal: proposal.collect(),
        dependency: finding.dependency,
        file: finding.file,
    }
}
