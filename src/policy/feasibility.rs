//! Policies that are legal but cannot do what they say. Loading takes them; an operator
//! should know. What depends on traffic is not judged here.

use holdoff_decision::Nanos;
use holdoff_decision::policy::{Detect, Jitter, MaxAttempts, Retry, Strategy};

use super::blame::entry_path;
use super::duration::written;
use super::fields::{self, FIELDS};
use super::finding::{Finding, tidy};
use super::layers::{Origin, Resolved};
use super::name;
use super::set::{Item, NamespacePolicy, PolicySet};
use super::tree::Place;

/// A client does not wait longer for an attempt.
const LONGEST_WAIT: Nanos = Nanos::from_secs(600);

/// Warnings about every entry of the set, in the order of the files.
pub fn check(set: &PolicySet) -> Vec<Finding> {
    let mut findings = Vec::new();
    each(set, |subject| {
        jitter(subject, &mut findings);
        waits(subject, &mut findings);
        slow(subject, &mut findings);
    });
    for (name, namespace) in set.written_namespaces() {
        findings.extend(too_many_names(name, namespace));
    }
    tidy(findings)
}

fn too_many_names(name: &str, namespace: &NamespacePolicy) -> Option<Finding> {
    let (named, limit) = (namespace.names().len(), namespace.max_dependencies());
    let (file, place) = match &namespace.limit_at {
        Some((file, place)) => (&**file, *place),
        None => (namespace.defaults.origin.file(), Place::default()),
    };
    let field = format!("namespaces.{}.max_dependencies", name::step(name));
    let message = format!("{limit} is below the {named} dependencies that are written down");
    (named > limit as usize).then(|| Finding::at(file, place, field, message))
}

/// Warnings about attempts that can never run, since the least waits before them already
/// reach `deadline`.
pub fn check_deadline(set: &PolicySet, deadline: Nanos) -> Vec<Finding> {
    let mut findings = Vec::new();
    each(set, |subject| {
        let retry = &subject.resolved.policy.retry;
        let fitting = attempts_that_fit(retry, deadline);
        if let MaxAttempts::Limited(attempts) = retry.max_attempts
            && fitting < attempts
        {
            let message = format!(
                "attempts {} to {attempts} can never run within {}",
                fitting + 1,
                written(deadline)
            );
            findings.push(subject.finding(
                &["max_attempts", "initial_delay", "jitter"],
                "retry",
                message,
            ));
        }
    });
    tidy(findings)
}

/// How many attempts can begin before `deadline`, with the shortest delays there can be;
/// no more than 1,000 are looked at.
pub fn attempts_that_fit(retry: &Retry, deadline: Nanos) -> u32 {
    let limit = match retry.max_attempts {
        MaxAttempts::Limited(attempts) => attempts.min(1_000),
        MaxAttempts::Unlimited => 1_000,
    };
    let mut begins = Nanos::ZERO;
    for attempts in 1..limit {
        begins = begins.saturating_add(least_delay(retry, attempts));
        if begins.saturating_add(retry.min_attempt_time) >= deadline {
            return attempts;
        }
    }
    limit
}

/// The lower end of the delay of a retry, counted from 1.
fn least_delay(retry: &Retry, number: u32) -> Nanos {
    let ceiling = ceiling(retry, number);
    let drawn = match retry.jitter {
        Jitter::None => ceiling,
        Jitter::Full => Nanos::ZERO,
        Jitter::Equal => ceiling.scaled(0.5),
        Jitter::Proportional(share) => ceiling.scaled(1.0 - share),
        Jitter::Decorrelated => retry.initial_delay,
    };
    drawn.max(retry.min_delay)
}

fn ceiling(retry: &Retry, number: u32) -> Nanos {
    let growth = match retry.strategy {
        Strategy::Fixed => 1.0,
        Strategy::Linear => f64::from(number),
        Strategy::Exponential => retry.multiplier.powf(f64::from(number) - 1.0),
    };
    let nanos = match retry.initial_delay.is_zero() {
        true => 0.0,
        false => retry.initial_delay.0 as f64 * growth,
    };
    // A float beyond the type's range becomes its end.
    Nanos(nanos as u64).min(retry.max_delay)
}

/// An entry that is looked at.
struct Subject<'a> {
    namespace: &'a NamespacePolicy,
    /// Empty: the defaults.
    name: &'a str,
    item: &'a Item,
    /// The layer that is this entry's own.
    own: usize,
    resolved: Resolved,
}

impl Subject<'_> {
    /// Whether this entry itself gives the field.
    fn gives(&self, field: usize) -> Option<Place> {
        match self.resolved.origins[field] {
            Origin::Layer { depth, place } if depth == self.own => Some(place),
            Origin::Layer { .. } | Origin::BuiltIn | Origin::Follows(_) => None,
        }
    }

    /// At the first of the fields that this entry gives, else at the entry.
    fn finding(&self, names: &[&str], section: &str, message: String) -> Finding {
        let given = names
            .iter()
            .filter_map(|name| fields::position(section, name));
        let at = given
            .filter_map(|field| Some((field, self.gives(field)?)))
            .next();
        let entry = entry_path(&self.namespace.written_as, self.name);
        let (path, place) = match at {
            Some((field, place)) => (format!("{entry}.{}", FIELDS[field].path()), place),
            None => (format!("{entry}.{section}"), self.item.entry.place),
        };
        Finding::at(self.item.origin.file(), place, path, message)
    }

    /// Whether this entry itself gives one of the fields, so that it is its to answer for.
    fn is_about(&self, section: &str, names: &[&str]) -> bool {
        let mut fields = names
            .iter()
            .filter_map(|name| fields::position(section, name));
        fields.any(|field| self.gives(field).is_some())
    }
}

fn each(set: &PolicySet, mut look: impl FnMut(&Subject<'_>)) {
    for (_, namespace) in set.written_namespaces() {
        for (name, item) in namespace.items() {
            look(&Subject {
                namespace,
                name: &name,
                item,
                own: usize::from(!name.is_empty()),
                resolved: namespace.layered(item),
            });
        }
    }
}

fn jitter(subject: &Subject<'_>, findings: &mut Vec<Finding>) {
    let retry = &subject.resolved.policy.retry;
    let names = ["jitter", "initial_delay", "max_delay", "min_delay"];
    if retry.max_attempts == MaxAttempts::Limited(1) || !subject.is_about("retry", &names) {
        return;
    }
    let cap = written(retry.max_delay);
    let message = match retry.jitter {
        _ if retry.min_delay == retry.max_delay || retry.initial_delay.is_zero() => {
            let always = written(retry.min_delay);
            format!("every delay is {always}: callers that fail together come back together")
        }
        Jitter::None | Jitter::Proportional(0.0) => {
            format!(
                "jitter {} draws nothing: callers that fail together come back together",
                shown(retry.jitter)
            )
        }
        Jitter::Decorrelated if retry.initial_delay == retry.max_delay => {
            format!("the jitter is lost at the cap: every delay is {cap}")
        }
        Jitter::Full | Jitter::Equal | Jitter::Proportional(_) | Jitter::Decorrelated => return,
    };
    findings.push(subject.finding(&names, "retry", message));
}

fn shown(jitter: Jitter) -> super::value::Value {
    super::written::Written::to_value(&jitter)
}

fn waits(subject: &Subject<'_>, findings: &mut Vec<Finding>) {
    let retry = &subject.resolved.policy.retry;
    let names = ["max_delay", "min_delay", "initial_delay", "jitter"];
    let longest = retry.max_delay > LONGEST_WAIT && retry.max_attempts != MaxAttempts::Limited(1);
    if longest && subject.is_about("retry", &names) {
        let message = format!(
            "delays up to {} are asked for, but clients wait {} at most",
            written(retry.max_delay),
            written(LONGEST_WAIT)
        );
        findings.push(subject.finding(&names, "retry", message));
    }
}

fn slow(subject: &Subject<'_>, findings: &mut Vec<Finding>) {
    let breaker = &subject.resolved.policy.breaker;
    if !breaker.slow_after.is_zero() {
        return;
    }
    if breaker.slow_counts_as_failure
        && subject.is_about("breaker", &["slow_counts_as_failure", "slow_after"])
    {
        let message = "no call is slow: slow_after is 0s".to_owned();
        findings.push(subject.finding(
            &["slow_counts_as_failure", "slow_after"],
            "breaker",
            message,
        ));
    }
    let windowed = matches!(breaker.detect, Detect::Window(_));
    if windowed && subject.is_about("breaker", &["slow_ratio"]) {
        let message = "slow_ratio is not looked at: slow_after is 0s".to_owned();
        findings.push(subject.finding(&["slow_ratio"], "breaker", message));
    }
}
