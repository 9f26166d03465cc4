//! Laws of whole policy sets: layers, origins, names, and that what is accepted is safe.

mod documented;
mod envoy;
mod fuzzed;
mod overlays;
mod refusing;
mod resolving;
mod telling;

use std::sync::Arc;

use holdoff_decision::policy::{Check, Detect, MaxAttempts, Rate, Retry, Window, WindowSize};
use holdoff_decision::{Nanos, Policy, Share};
use proptest::prelude::*;

use super::fields::FIELDS;
use super::value::{Form, Value};
use super::*;

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.into(),
        text: text.into(),
    }
}

fn overlay(namespace: &str, name: &str, text: &str) -> Overlay {
    Overlay {
        namespace: namespace.into(),
        name: name.into(),
        text: text.into(),
    }
}

fn load(text: &str) -> PolicySet {
    PolicySet::load(&[source("p.yaml", text)], &[]).unwrap()
}

fn refused(text: &str) -> Vec<String> {
    let findings = PolicySet::load(&[source("p.yaml", text)], &[]).unwrap_err();
    findings.iter().map(Finding::to_string).collect()
}

/// A file with this body under the defaults of `default`.
fn defaults(body: &str) -> String {
    format!("version: 1\nnamespaces:\n  default:\n    defaults: {body}\n")
}

/// The policy that this body makes of the built-in one.
fn policy(body: &str) -> Policy {
    (*load(&defaults(body)).resolve("default", "any").unwrap().0).clone()
}

fn refused_defaults(body: &str) -> String {
    let findings = refused(&defaults(body));
    assert_eq!(findings.len(), 1, "{body}: {findings:?}");
    findings[0].clone()
}

/// The example of the documentation, in both detectors' fields.
const EXAMPLE: &str = r#"version: 1
namespaces:
  default:
    auto_create: true
    max_dependencies: 10000
    defaults: { }
    dependencies:
      payments:
        retry:    {max_attempts: 3, strategy: exponential, initial_delay: 100ms, multiplier: 2, max_delay: 10s, jitter: full, min_attempt_time: 0ms}
        pushback: {scope: caller, max: 60s, spread: 1s}
        breaker:  {mode: enforce, applies_to: all, detect: window, window: 10s, min_calls: 20, failure_ratio: 0.5, consecutive_failures: 0, slow_after: 0s, slow_ratio: 1.0,
                   open_for: 10s, open_multiplier: 2, open_max: 60s, healthy_reset: 60s, spread: 2s,
                   probes: 1, probe_lease: 5s, probe_successes: 2, permit_ttl: 60s,
                   min_reporters: 2, max_reporter_share: 0.5, count_rejected: false, slow_counts_as_failure: false}
        ramp:     {start: 0.5, step: 250ms, max_duration: 60s, horizon: 300ms}
        budget:   {ratio: 0.2, floor_per_second: 1, ttl: 10s, max_caller_share: 0.5}
        calendar: {retry_rate: auto, slot: 10ms, horizon: 30s}
        rate:     {per_second: 500, burst: 50, max_wait: 0s, per_caller: false}
        check:    {period: 30s, offset: 3s, phase: hash, first_within: 30s, timeout: 2s, unhealthy_after: 3, max_concurrent: 10, detection_budget: 2m, observers: 0}
      "openai:*": {pushback: {scope: dependency}}
"#;
