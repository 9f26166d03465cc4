//! Values that a scenario may not have, each with its field, its value and what is allowed.

use std::fmt;

use super::{Scenario, Span, Traffic, What};

/// One thing that is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// `events[1].what.fail.share`.
    pub field: String,
    pub value: String,
    /// What is allowed instead.
    pub allowed: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.field, self.value, self.allowed)
    }
}

impl std::error::Error for Invalid {}

const DAY: Span = Span::from_secs(24 * 3600);

impl Scenario {
    /// # Errors
    /// Everything that is out of range, in the order of the fields.
    pub fn check(&self) -> Result<(), Vec<Invalid>> {
        let mut found = Found::default();
        self.check_fleet(&mut found);
        self.check_dependency(&mut found);
        self.check_ways(&mut found);
        self.check_baselines(&mut found);
        self.check_events(&mut found);
        self.check_expectations(&mut found);
        match found.0.is_empty() {
            true => Ok(()),
            false => Err(found.0),
        }
    }

    fn check_fleet(&self, found: &mut Found) {
        found.refuse(
            self.name.is_empty(),
            "name",
            "\"\"",
            "at least one character",
        );
        found.whole("clients", self.clients, 1, 1_000_000);
        found.span("duration", self.duration, Span::from_secs(1), DAY);
        match &self.traffic {
            Traffic::Closed { think } => {
                found.span("traffic.closed.think", *think, Span::from_millis(1), DAY);
            }
            Traffic::Open { per_second } => {
                found.above_zero("traffic.open.per_second", *per_second, 1e7);
            }
        }
        let operation = &self.operation;
        found.whole("operation.max_attempts", operation.max_attempts, 1, 1_000);
        let least = Span::from_millis(1);
        found.span(
            "operation.attempt_timeout",
            operation.attempt_timeout,
            least,
            DAY,
        );
        found.span("operation.deadline", operation.deadline, Span::ZERO, DAY);
        found.whole("operation.layers", operation.layers, 1, 5);
        let both = operation.layers > 1 && operation.persistent;
        found.refuse(
            both,
            "operation.persistent",
            "true",
            "false where there are layers",
        );
    }

    fn check_dependency(&self, found: &mut Found) {
        let it = &self.dependency;
        match (it.capacity_per_second, it.capacity_per_client) {
            (Some(rate), None) => found.above_zero("dependency.capacity_per_second", rate, 1e7),
            (None, Some(rate)) => found.above_zero("dependency.capacity_per_client", rate, 1e6),
            (None, None) | (Some(_), Some(_)) => found.add(
                "dependency",
                "capacity",
                "exactly one of capacity_per_second and capacity_per_client",
            ),
        }
        found.share("dependency.rejection_cost", it.rejection_cost);
        found.span(
            "dependency.rejects_above",
            it.rejects_above,
            Span::ZERO,
            DAY,
        );
        found.span("dependency.silent_above", it.silent_above, Span::ZERO, DAY);
        found.span("dependency.latency", it.latency, Span::ZERO, DAY);
        found.part("dependency.cold_share", it.cold_share);
        found.span("dependency.cold_for", it.cold_for, Span::ZERO, DAY);
        if let Some(quota) = &it.quota {
            found.above_zero("dependency.quota.per_second", quota.per_second, 1e7);
            found.whole("dependency.quota.burst", quota.burst, 1, 1_000_000);
            found.span(
                "dependency.quota.retry_after",
                quota.retry_after,
                Span::ZERO,
                DAY,
            );
        }
    }

    fn check_ways(&self, found: &mut Found) {
        let (network, coordinator) = (&self.network, &self.coordinator);
        found.span("network.least", network.least, Span::ZERO, network.most);
        found.span("network.most", network.most, Span::ZERO, DAY);
        found.share("network.loss", network.loss);
        found.span(
            "coordinator.least",
            coordinator.least,
            Span::ZERO,
            coordinator.most,
        );
        found.span("coordinator.most", coordinator.most, Span::ZERO, DAY);
        found.share("coordinator.loss", coordinator.loss);
        found.span(
            "coordinator.service",
            coordinator.service,
            Span::ZERO,
            Span::from_secs(1),
        );
        let least = Span::from_millis(1);
        found.span("coordinator.patience", coordinator.patience, least, DAY);
    }

    fn check_baselines(&self, found: &mut Found) {
        let it = &self.baselines;
        found.span("baselines.base", it.base, Span::ZERO, it.cap);
        found.span("baselines.cap", it.cap, Span::ZERO, DAY);
        found.part("baselines.breaker.failure_ratio", it.breaker.failure_ratio);
        found.whole(
            "baselines.breaker.min_calls",
            it.breaker.min_calls,
            1,
            10_000,
        );
        let least = Span::from_millis(10);
        found.span("baselines.breaker.window", it.breaker.window, least, DAY);
        found.span(
            "baselines.breaker.open_for",
            it.breaker.open_for,
            least,
            DAY,
        );
        found.above_zero("baselines.bucket.tokens", it.bucket.tokens, 1e6);
        found.above_zero("baselines.bucket.per_retry", it.bucket.per_retry, 1e6);
        found.not_negative("baselines.bucket.per_success", it.bucket.per_success);
        found.not_negative("baselines.bucket.per_second", it.bucket.per_second);
    }

    fn check_events(&self, found: &mut Found) {
        for (index, event) in self.events.iter().enumerate() {
            let field = |name: &str| format!("events[{index}].{name}");
            found.span(&field("at"), event.at, Span::ZERO, self.duration);
            found.span(&field("for"), event.lasts, Span::ZERO, DAY);
            found.span(&field("varies"), event.varies, Span::ZERO, DAY);
            if let Some(repeat) = &event.repeat {
                let length = Span(event.lasts.0.saturating_add(event.varies.0));
                let least = length.max(Span::from_millis(1));
                found.span(&field("repeat.every"), repeat.every, least, DAY);
                found.whole(&field("repeat.times"), repeat.times, 1, 10_000);
            }
            let instant = matches!(
                event.what,
                What::RestartClients { .. } | What::BreakSessions { .. }
            );
            if !instant {
                let least = Span::from_millis(1);
                found.span(&field("for"), event.lasts, least, DAY);
            } else if !event.lasts.is_zero() {
                found.add(&field("for"), event.lasts, "nothing: this does not last");
            }
            check_what(&field("what"), &event.what, found);
        }
    }

    fn check_expectations(&self, found: &mut Found) {
        for (strategy, wanted) in &self.assertions {
            let counts = [
                ("peak_rps", wanted.peak_rps),
                ("peak_of_capacity", wanted.peak_of_capacity),
                ("wasted_calls", wanted.wasted_calls),
                ("calls_while_down", wanted.calls_while_down),
                ("amplification", wanted.amplification),
            ];
            let name = strategy.name();
            for (field, value) in counts {
                if let Some(value) = value {
                    found.not_negative(&format!("assertions.{name}.{field}"), value);
                }
            }
            for (field, value) in [
                ("goodput", wanted.goodput),
                ("failed_after", wanted.failed_after),
            ] {
                if let Some(value) = value {
                    found.share(&format!("assertions.{name}.{field}"), value);
                }
            }
        }
    }
}

fn check_what(field: &str, what: &What, found: &mut Found) {
    let within = |name: &str| format!("{field}.{name}.within");
    let share = |name: &str| format!("{field}.{name}.share");
    match what {
        What::Refuse | What::Blackhole | What::Stall | What::LoseCoordinator { .. } => {}
        What::Fail { share: part } => found.share(&share("fail"), *part),
        What::Slow { by } => found.span(&format!("{field}.slow.by"), *by, Span::ZERO, DAY),
        What::Weaken { to } => found.part(&format!("{field}.weaken.to"), *to),
        What::RestartClients {
            share: part,
            within: span,
        } => {
            found.part(&share("restart_clients"), *part);
            found.span(&within("restart_clients"), *span, Span::ZERO, DAY);
        }
        What::BreakSessions {
            share: part,
            within: span,
        } => {
            found.part(&share("break_sessions"), *part);
            found.span(&within("break_sessions"), *span, Span::ZERO, DAY);
        }
        What::Partition { share: part, from } => {
            found.part(&share("partition"), *part);
            let field = format!("{field}.partition.from");
            found.refuse(
                from.is_empty(),
                &field,
                "[]",
                "dependency, coordinator, or both",
            );
        }
    }
}

/// What is wrong so far.
#[derive(Default)]
struct Found(Vec<Invalid>);

impl Found {
    fn add(&mut self, field: &str, value: impl fmt::Display, allowed: impl fmt::Display) {
        self.0.push(Invalid {
            field: field.to_owned(),
            value: value.to_string(),
            allowed: allowed.to_string(),
        });
    }

    fn refuse(&mut self, wrong: bool, field: &str, value: &str, allowed: &str) {
        if wrong {
            self.add(field, value, allowed);
        }
    }

    fn whole(&mut self, field: &str, value: u32, least: u32, most: u32) {
        if !(least..=most).contains(&value) {
            self.add(field, value, format_args!("{least} to {most}"));
        }
    }

    fn span(&mut self, field: &str, value: Span, least: Span, most: Span) {
        if value < least || value > most {
            self.add(field, value, format_args!("{least} to {most}"));
        }
    }

    fn share(&mut self, field: &str, value: f64) {
        if !(0.0..=1.0).contains(&value) {
            self.add(field, value, "0 to 1");
        }
    }

    fn part(&mut self, field: &str, value: f64) {
        if !(value > 0.0 && value <= 1.0) {
            self.add(field, value, "above 0, at most 1");
        }
    }

    fn above_zero(&mut self, field: &str, value: f64, most: f64) {
        if !(value > 0.0 && value <= most) {
            self.add(field, value, format_args!("above 0, at most {most}"));
        }
    }

    fn not_negative(&mut self, field: &str, value: f64) {
        if !(value >= 0.0 && value.is_finite()) {
            self.add(field, value, "0 or more");
        }
    }
}
