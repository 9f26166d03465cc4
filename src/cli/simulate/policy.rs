//! The policy that `holdoff` is simulated under, through the loader of all policies.

use std::path::Path;

use holdoff_decision::Policy;
use holdoff_simulate::Scenario;

use crate::{
    cli::exit::Failure,
    policy::{DEFAULT_NAMESPACE, Finding, Named, PolicySet, Source, files, listed},
};

/// What the policy of a scenario is for.
const DEPENDENCY: &str = "simulated";

/// A policy and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    pub policy: Policy,
    /// `namespaces.default.dependencies."openai:*" of policies.yaml`.
    pub from: String,
}

/// As a service would resolve it. Without a dependency, the namespace's defaults.
///
/// # Errors
/// [`Failure::Usage`]: everything that is wrong with the files, or that there is no such
/// namespace in them, or entries and none for that name: it would be a typo.
pub fn of_files(path: &Path, namespace: &str, dependency: Option<&str>) -> Result<Chosen, Failure> {
    let sources = files::read(path).map_err(refuse)?;
    let set = PolicySet::load(&sources, &[]).map_err(refuse)?;
    let shown = path.display();
    let found = set.namespace(namespace).ok_or_else(|| {
        let known = listed(set.namespace_names().into_iter());
        let message = format!("--namespace {namespace}: not in {shown}; known are {known}");
        Failure::Usage(message)
    })?;
    let name = dependency.unwrap_or_default();
    let (policy, named) = found.resolve(name);
    let only_defaults = dependency.is_some() && named == Named::Defaults;
    if only_defaults && found.has_entries() {
        let entries = found.entry_names();
        let known = listed(entries.iter().map(String::as_str));
        return Err(Failure::Usage(format!(
            "--dependency {name}: no entry of {shown} has this name or a pattern for it; known are {known}. Without --dependency the defaults are simulated"
        )));
    }
    Ok(Chosen {
        policy: policy.as_ref().clone(),
        from: format!("{} of {shown}", found.entry_path(&found.entry_of(name))),
    })
}

/// The policy that is written in a scenario; the defaults where none is.
///
/// # Errors
/// [`Failure::Usage`]: everything that is wrong with it.
pub fn of_scenario(scenario: &Scenario) -> Result<Chosen, Failure> {
    let written = scenario.policy.clone().unwrap_or_default();
    let from = match written.is_null() {
        true => "the built-in defaults".to_owned(),
        false => format!("policy of the scenario {}", scenario.name),
    };
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
    let policy = resolved.map(|(policy, _)| policy.as_ref().clone());
    Ok(Chosen {
        policy: policy.unwrap_or_default(),
        from,
    })
}

fn refuse(findings: Vec<Finding>) -> Failure {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Failure::Usage(lines.join("\n"))
}
