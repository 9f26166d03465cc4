//! The policy that `holdoff` is simulated under, through the loader of all policies.

use std::path::Path;

use holdoff_decision::Policy;
use holdoff_simulate::Scenario;

use crate::{
    cli::exit::Failure,
    policy::{DEFAULT_NAMESPACE, Finding, PolicySet, Source, files},
};

/// What the policy of a scenario is for.
const DEPENDENCY: &str = "simulated";

/// As a service would resolve it.
///
/// # Errors
/// [`Failure::Usage`]: everything that is wrong with the files, or that there is no such
/// namespace in them.
pub fn of_files(path: &Path, namespace: &str, dependency: &str) -> Result<Policy, Failure> {
    let sources = files::read(path).map_err(refuse)?;
    let set = PolicySet::load(&sources, &[]).map_err(refuse)?;
    let (policy, _) = set.resolve(namespace, dependency).ok_or_else(|| {
        let path = path.display();
        Failure::Usage(format!("--namespace {namespace}: not in {path}"))
    })?;
    Ok(policy.as_ref().clone())
}

/// The policy that is written in a scenario; the defaults where none is.
///
/// # Errors
/// [`Failure::Usage`]: everything that is wrong with it.
pub fn of_scenario(scenario: &Scenario) -> Result<Policy, Failure> {
    let written = scenario.policy.clone().unwrap_or_default();
    let written = match written.is_null() {
        true => serde_json::json!({}),
        false => written,
    };
    let frame = serde_json::json!({
        "version": 1,
        "namespaces": {DEFAULT_NAMESPACE: {"dependencies": {DEPENDENCY: written}}},
    });
    // JSON is YAML.
    let source = Source {
        name: format!("{}: policy", scenario.name),
        text: frame.to_string(),
    };
    let set = PolicySet::load(&[source], &[]).map_err(refuse)?;
    let resolved = set.resolve(DEFAULT_NAMESPACE, DEPENDENCY);
    // The frame has the namespace.
    Ok(resolved
        .map(|(policy, _)| policy.as_ref().clone())
        .unwrap_or_default())
}

fn refuse(findings: Vec<Finding>) -> Failure {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Failure::Usage(lines.join("\n"))
}
