//! Policies that are legal but cannot do what they say. Loading takes them; an operator
//! should know.
//!
//! Each rule is a pure function of a resolved policy and of what is known of the calls, in a
//! file of its own. It answers with doubts: a code, the numbers, and values that might end
//! them. Here they are put down to the entry of the file that answers for them, and of the
//! values the first is proposed that is allowed, contradicts no other field, and silences
//! the very rule, so that a proposal cannot be wrong. What happens over time (does the
//! breaker open, how does the ramp climb, does the budget grant) is found by letting the
//! rules of the service themselves run on a clock of their own, so that the check cannot
//! disagree with them.

mod amplification;
mod budget;
mod calendar;
mod checks;
mod deadline;
mod doubt;
mod drive;
mod jitter;
mod opening;
mod permits;
mod propose;
mod rates;
mod recovery;
mod shared;
mod slow;
mod spare;
mod subject;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use holdoff_decision::Policy;

pub use self::deadline::attempts_that_fit;
use self::doubt::Doubt;
use self::subject::{Subject, Told};
use super::finding::{Finding, Proposed, Severity, tidy};
use super::name;
use super::set::{NamespacePolicy, PolicySet};
use super::traffic::{Facts, Traffic};
use super::tree::Place;

/// More are not told at once.
pub const MAX_FINDINGS: usize = 1_000;

/// Entries that proposals for the defaults are tried with, in a whole check; then there are
/// no more such proposals.
const TRIES_MAX: usize = 500_000;

/// Everything that can be wrong with one policy, under what is known of its calls.
type Rule = fn(&Policy, &Facts) -> Vec<Doubt>;

const RULES: [Rule; 15] = [
    jitter::lost,
    jitter::beyond_clients,
    slow::unseen,
    deadline::beyond,
    permits::outlived,
    opening::never,
    opening::reporters,
    recovery::too_slow,
    spare::above,
    rates::mismatched,
    calendar::too_short,
    budget::never_grants,
    shared::alone,
    amplification::multiplies,
    checks::misses,
];

/// The codes that a check may answer with, those of a refused file aside.
pub const CODES: [&str; 25] = [
    "jitter-lost",
    "delay-beyond-clients",
    "slow-unseen",
    "attempts-beyond-deadline",
    "permit-outlived",
    "lease-outlived",
    "breaker-never-opens",
    "breaker-barely-opens",
    "reporters-above-clients",
    "recovery-above-goal",
    "escalation-above-goal",
    "retries-above-spare",
    "traffic-above-capacity",
    "retry-rate-above-capacity",
    "rate-below-traffic",
    "rate-above-capacity",
    "horizon-below-herd",
    "budget-never-grants",
    "budget-never-grants-alone",
    "retries-multiply",
    "check-cannot-run",
    "check-misses-budget",
    "too-few-dependencies",
    "more-findings",
    "refused",
];

/// What cannot work, in the order of the files; at most [`MAX_FINDINGS`].
pub fn check(set: &PolicySet, traffic: &Traffic) -> Vec<Finding> {
    check_while(set, traffic, || true).unwrap_or_default()
}

/// The same, asked before each entry whether it goes on. `None`: it does not.
pub fn check_while(
    set: &PolicySet,
    traffic: &Traffic,
    goes_on: impl Fn() -> bool,
) -> Option<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut is_ended = false;
    for (name, namespace) in set.written_namespaces() {
        findings.extend(too_many_names(name, namespace));
    }
    let (mut told, mut tries) = (Told::default(), TRIES_MAX);
    let looked = subject::each(set, traffic, |subject| {
        if !goes_on() {
            is_ended = true;
            return ControlFlow::Break(());
        }
        findings.extend(judged(subject, &mut told, &mut tries));
        match findings.len() > MAX_FINDINGS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    if is_ended {
        return None;
    }
    if looked.is_break() {
        findings.truncate(MAX_FINDINGS);
        findings.push(more());
    }
    Some(tidy(findings))
}

fn judged(subject: &Subject<'_>, told: &mut Told, tries: &mut usize) -> Vec<Finding> {
    let (policy, facts) = (&subject.resolved.policy, &subject.facts);
    let mut findings = Vec::new();
    for rule in RULES {
        let doubts = rule(policy, facts);
        let codes: Vec<&str> = doubts.iter().map(|doubt| doubt.code).collect();
        for doubt in doubts {
            if subject.answers_for(&doubt, told) {
                let proposal =
                    propose::first_that_works(rule, &doubt, &codes, policy, facts, |changes| {
                        subject.may_hold(changes, tries)
                    });
                findings.push(subject.finding(doubt, &proposal));
            }
        }
        subject.note(&codes, told);
    }
    findings
}

fn too_many_names(name: &str, namespace: &NamespacePolicy) -> Option<Finding> {
    let (named, limit) = (namespace.names().len(), namespace.max_dependencies());
    let (file, place) = match &namespace.limit_at {
        Some((file, place)) => (&**file, *place),
        None => (namespace.defaults.origin.file(), Place::default()),
    };
    let field = format!("namespaces.{}.max_dependencies", name::step(name));
    let message = format!("{limit} is below the {named} dependencies that are written down");
    let proposed = Proposed {
        field: field.clone(),
        value: named.to_string(),
    };
    (named > limit as usize).then(|| Finding {
        severity: Severity::Warning,
        code: "too-few-dependencies",
        numbers: [
            ("max_dependencies", f64::from(limit)),
            ("dependencies", named as f64),
        ]
        .into(),
        proposal: vec![proposed],
        ..Finding::at(file, place, field, message)
    })
}

fn more() -> Finding {
    let message = format!("more than {MAX_FINDINGS} findings; the rest was not looked at");
    Finding {
        severity: Severity::Warning,
        code: "more-findings",
        ..Finding::of_file("", message)
    }
}
