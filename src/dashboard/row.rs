//! A dependency as a line of the list. What says nothing is left out, so that ten thousand
//! quiet ones are half a megabyte.

use std::time::UNIX_EPOCH;

use holdoff_decision::{Nanos, State, Time, breaker::Cause, check::Verdict};
use serde::Serialize;

use super::words;
use crate::{
    clock,
    coordinator::{Event, Shown},
};

/// Times are milliseconds since 1970 by the service's clock.
#[derive(Debug, Serialize)]
pub struct Row<'a> {
    pub name: &'a str,
    pub state: &'static str,
    pub since: u64,
    pub epoch: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub failing: f64,
    #[serde(skip_serializing_if = "is_zero")]
    pub slow: f64,
    #[serde(skip_serializing_if = "is_zero")]
    pub calls: f64,
    pub left: u64,
    pub allowed: u64,
    #[serde(skip_serializing_if = "is_none_of")]
    pub planned: u64,
    /// When the first of them is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_until: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_until: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order<'a>>,
    #[serde(skip_serializing_if = "is_none")]
    pub instances: u32,
    /// Caller instances that are refused alone.
    #[serde(skip_serializing_if = "is_none")]
    pub faults: u32,
    /// Health checks find it unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<&'static str>,
    /// Only a policy names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unused: Option<bool>,
}

/// An override.
#[derive(Debug, Serialize)]
pub struct Order<'a> {
    pub kind: &'static str,
    pub owner: &'a str,
    pub reason: &'a str,
    pub set: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// Something that happened.
#[derive(Debug, Serialize)]
pub struct Happened<'a> {
    pub sequence: u64,
    pub time: u64,
    pub kind: &'static str,
    pub dependency: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<&'static str>,
    pub detail: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub owner: &'a str,
    /// The store is away: only this replica knows of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<bool>,
}

impl<'a> Row<'a> {
    pub fn of(shown: &'a Shown) -> Self {
        let view = &shown.view;
        let now = shown.now;
        let later = |span: Nanos| millis(now + span);
        let why = match view.cause {
            Cause::New => String::new(),
            _ => shown.why(),
        };
        Self {
            name: &shown.name,
            state: words::state(view.state),
            since: millis(Time(now.0.saturating_sub(view.in_state_for.0))),
            epoch: view.epoch,
            why,
            failing: thousandths(shown.failing().unwrap_or_default()),
            slow: thousandths(shown.slow().unwrap_or_default()),
            calls: three_digits(shown.calls_per_second()),
            left: view.budget.left(),
            allowed: view.budget.allowed,
            planned: view.planned,
            next: view.next_planned.map(later),
            open_until: view.open_for.map(later),
            held_until: view.held_for.map(later),
            order: shown.order.as_ref().map(|order| Order {
                kind: words::override_kind(order.kind),
                owner: &order.owner,
                reason: &order.reason,
                set: millis(order.set_at),
                until: order.expires.map(millis),
            }),
            instances: view.active.max(shown.followers),
            faults: view.caller_faults,
            check: (shown.check.as_ref())
                .filter(|check| check.summary.verdict == Verdict::Unhealthy)
                .map(|check| words::verdict(check.summary.verdict)),
            shadow: view
                .shadow
                .filter(|state| *state != State::Closed)
                .map(words::state),
            unused: (!shown.live).then_some(true),
        }
    }

    pub fn json(&self) -> String {
        json(self)
    }
}

impl<'a> Happened<'a> {
    pub fn of(event: &'a Event) -> Self {
        let time = event.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            sequence: event.sequence,
            time: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            kind: words::event(event.kind),
            dependency: &event.dependency,
            from: event.states.map(|(from, _)| words::state(from)),
            to: event.states.map(|(_, to)| words::state(to)),
            detail: &event.detail,
            owner: &event.owner,
            pending: event.is_pending().then_some(true),
        }
    }
}

/// Since 1970, as people's clocks are compared with.
pub fn millis(time: Time) -> u64 {
    let since = clock::to_wall(time).duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Plain values become JSON whatever they are; an empty object is what would be left.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned())
}

pub fn thousandths(share: f64) -> f64 {
    (share * 1e3).round() / 1e3
}

/// Numbers that nobody can see move are not sent again.
pub fn three_digits(number: f64) -> f64 {
    if number.abs() < 0.005 {
        return 0.0;
    }
    let unit = 10_f64.powf(number.abs().log10().floor() - 2.0);
    let rounded = (number / unit).round() * unit;
    (rounded * 1e3).round() / 1e3
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

fn is_none_of(number: &u64) -> bool {
    *number == 0
}

fn is_none(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_shown_with_three_digits() {
        let shown = [
            (0.0, 0.0),
            (0.001, 0.0),
            (1.2345, 1.23),
            (98.76, 98.8),
            (1234.5, 1230.0),
        ];
        for (number, rounded) in shown {
            assert_eq!(three_digits(number), rounded, "{number}");
        }
    }
}
