//! One dependency as its page shows it.

use std::sync::Arc;

use axum::{Extension, Json, extract::State};
use bytes::Bytes;
use holdoff_decision::Time;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Dashboard,
    act::Refused,
    asked::{Asked, Asks},
    row::{self, Happened, Row},
    words,
};
use crate::{
    access::{Principal, Role},
    coordinator::{Coordinator, Event, POINT_EVERY, Point, Reporter, Shown, Traffic},
    store::{Denied, Store},
};

/// Newest events of a dependency that are shown.
const EVENTS_MAX: usize = 50;
/// Parts that the calendar ahead is shown in.
pub const PARTS: usize = 30;

/// The messages about the dependency that a page shows.
#[derive(Debug)]
pub struct Detail<'a, S> {
    dashboard: &'a Dashboard<S>,
    asked: &'a Asked,
    /// The newest event when the list of them was last made.
    events_at: u64,
    events: Arc<[Event]>,
}

impl<'a, S: Store> Detail<'a, S> {
    pub fn of(dashboard: &'a Dashboard<S>, asked: &'a Asked) -> Self {
        Self {
            dashboard,
            asked,
            events_at: 0,
            events: Arc::default(),
        }
    }

    /// `None`: the page shows the list.
    pub async fn message(&mut self) -> Option<Bytes> {
        if self.asked.dependency.is_empty() {
            return None;
        }
        let inner = &self.dashboard.inner;
        let key = self.asked.key();
        let Ok(shown) = inner.coordinator.get(key).await else {
            let gone = json!({"name": key.dependency, "gone": true});
            return Some(message(&gone));
        };
        let histories = inner.coordinator.histories();
        histories.want(&inner.coordinator, key);
        self.look_for_events(&inner.coordinator);
        let points = histories.points(key);
        let (counted, reporters) =
            (histories.counted(key)).map_or_else(Default::default, |it| (it.traffic, it.reporters));
        let ahead = inner.coordinator.planned(key, PARTS).await;
        let events: Vec<Happened<'_>> = self.events.iter().map(Happened::of).collect();
        let whole = json!({
            "row": Row::of(&shown),
            "more": more(&shown),
            "traffic": traffic(&points, &counted, shown.now),
            "reporters": reporters.iter().map(reporter).collect::<Vec<_>>(),
            "ahead": ahead.map(|ahead| json!({
                "step_ms": ahead.step.0 / 1_000_000,
                "planned": ahead.planned,
            })),
            "events": events,
            // The charts change with each point.
            "charted": points.last().map_or(0, |point| row::millis(point.at)),
            "policies": inner.coordinator.policies_changed(),
        });
        Some(message(&whole))
    }

    /// Looking through ten thousand events is for when there are new ones.
    fn look_for_events(&mut self, coordinator: &Coordinator<S>) {
        let newest = coordinator.events().version();
        if newest == self.events_at {
            return;
        }
        self.events_at = newest;
        let (past, _) = coordinator.events().listen(|event| {
            event.dependency == self.asked.dependency && event.namespace == self.asked.namespace
        });
        self.events = past.into_iter().rev().take(EVENTS_MAX).collect();
    }
}

fn message(value: &Value) -> Bytes {
    format!("event: dependency\ndata: {value}\n\n").into()
}

/// What the list has no room for.
fn more(shown: &Shown) -> Value {
    let view = &shown.view;
    json!({
        "suspicion": row::thousandths(f64::from(view.suspicion)),
        "trips": view.trips,
        "denied": shown.denied.as_deref().map_or_else(Vec::new, denied),
        "probes_out": view.probes_out,
        "permits_out": view.permits_out,
        "first_attempts": view.budget.first_attempts,
        "retries": view.budget.retries,
        "budget_ttl_ms": shown.budget_ttl.0 / 1_000_000,
        "latency_ms": view.latency.map(|latency| row::three_digits(latency.as_secs_f64() * 1e3)),
        "window": shown.judged().filter(|counts| counts.calls > 0).map(|counts| json!({
            "calls": counts.calls,
            "failures": counts.failures,
            "slow": counts.slow,
        })),
        "ramp": view.curve.map(|curve| json!({
            "per_second": row::three_digits(curve.per_second),
            "target": row::three_digits(curve.target),
            "waiting": curve.waiting,
        })),
        "check": shown.check.as_ref().map(|check| json!({
            "period_ms": check.period.0 / 1_000_000,
            "checkers": check.summary.checkers,
            "running": check.summary.running,
            "verdict": words::verdict(check.summary.verdict),
            "age_ms": check.summary.age.map(|age| age.0 / 1_000_000),
            "failures": check.summary.failures,
            "next_ms": check.summary.next_in.map(|next| next.0 / 1_000_000),
        })),
    })
}

/// Since the service started, whether it was followed or not.
fn denied(denied: &Denied) -> Vec<(&'static str, u32)> {
    let word = |reason| {
        let found = words::DENIALS.iter().find(|(it, _)| *it == reason);
        found.map_or("", |(_, word)| *word)
    };
    let counts = denied.counts().into_iter();
    counts
        .map(|(reason, count)| (word(reason), count))
        .collect()
}

#[derive(Serialize)]
struct Reason {
    reason: &'static str,
    minute: [u64; 2],
    ten: [u64; 2],
    all: [u64; 2],
}

/// What was granted and refused: in the last minute, in ten, and since it is followed.
fn traffic(points: &[Point], all: &Traffic, now: Time) -> Value {
    let nothing = Traffic::default();
    let before = |seconds: u64| {
        let from = now.0.saturating_sub(seconds * 1_000_000_000);
        let earlier = points.iter().rev().find(|point| point.at.0 <= from);
        // Followed for less: all of it is newer.
        earlier.map_or(&nothing, |point| &point.traffic)
    };
    let (minute, ten) = (before(60), before(600));
    let counts = |of: fn(&Traffic) -> u64| {
        json!({
            "minute": of(all).saturating_sub(of(minute)),
            "ten": of(all).saturating_sub(of(ten)),
            "all": of(all),
        })
    };
    let reasons = words::DENIALS.iter().enumerate().map(|(at, (_, reason))| {
        let of = |traffic: &Traffic| {
            [
                traffic.first_attempts_denied[at],
                traffic.retries_denied[at],
            ]
        };
        let since = |earlier: &Traffic| {
            let (all, earlier) = (of(all), of(earlier));
            [
                all[0].saturating_sub(earlier[0]),
                all[1].saturating_sub(earlier[1]),
            ]
        };
        Reason {
            reason,
            minute: since(minute),
            ten: since(ten),
            all: of(all),
        }
    });
    let seen = reasons.filter(|reason| reason.all != [0, 0]);
    json!({
        "since": points.first().map(|point| row::millis(point.at)),
        "first_attempts": counts(|traffic| traffic.first_attempts),
        "retries": counts(|traffic| traffic.retries_granted),
        "probes": counts(|traffic| traffic.probes_granted),
        "succeeded": counts(|traffic| traffic.succeeded),
        "failed": counts(|traffic| traffic.failed),
        "other": counts(|traffic| traffic.other),
        "denied": seen.collect::<Vec<_>>(),
    })
}

fn reporter(reporter: &Reporter) -> Value {
    json!({
        "service": reporter.service,
        "instance": reporter.instance,
        "heard": row::millis(reporter.heard),
        "granted": reporter.granted,
        "denied": reporter.denied,
        "succeeded": reporter.succeeded,
        "failed": reporter.failed,
    })
}

/// The points behind the charts, for whoever cannot see them.
///
/// # Errors
/// Bad names.
pub async fn history<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    Extension(principal): Extension<Principal>,
    Asks(asked): Asks<Asked>,
) -> Result<Json<Value>, Refused> {
    let asked = asked.checked()?;
    dashboard.authorize(&principal, Role::Viewer, &asked.namespace)?;
    let points = dashboard.inner.coordinator.histories().points(asked.key());
    let rows = points.windows(2).map(|pair| {
        let rates = Rates::between(&pair[0], &pair[1]);
        json!({
            "time": row::millis(pair[1].at),
            "state": words::state(pair[1].state),
            "first_attempts": row::three_digits(rates.first_attempts),
            "retries": row::three_digits(rates.retries),
            "refused": row::three_digits(rates.refused),
            "failing": row::thousandths(f64::from(pair[1].failing)),
            "slow": row::thousandths(f64::from(pair[1].slow)),
            "left": pair[1].left,
            "planned": pair[1].planned,
        })
    });
    Ok(Json(rows.collect()))
}

/// A second, on average between two points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    pub first_attempts: f64,
    pub retries: f64,
    pub refused: f64,
}

impl Rates {
    pub fn between(earlier: &Point, later: &Point) -> Self {
        let seconds = later.at.since(earlier.at).as_secs_f64();
        let seconds = seconds.max(POINT_EVERY.as_secs_f64() / 100.0);
        let refused = |traffic: &Traffic| -> u64 {
            let denied = traffic.first_attempts_denied.iter();
            denied.chain(&traffic.retries_denied).sum()
        };
        let rate = |of: &dyn Fn(&Traffic) -> u64| {
            of(&later.traffic).saturating_sub(of(&earlier.traffic)) as f64 / seconds
        };
        Self {
            first_attempts: rate(&|traffic| traffic.first_attempts),
            retries: rate(&|traffic| traffic.retries_granted + traffic.probes_granted),
            refused: rate(&refused),
        }
    }
}

/// The policy that a dependency has, value by value.
///
/// # Errors
/// Bad names, or no such namespace.
pub async fn policy<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    Extension(principal): Extension<Principal>,
    Asks(asked): Asks<Asked>,
) -> Result<Json<Value>, Refused> {
    let asked = asked.checked()?;
    dashboard.authorize(&principal, Role::Viewer, &asked.namespace)?;
    let (document, values) = dashboard.inner.coordinator.explain_policy(asked.key())?;
    let values = values
        .iter()
        .map(|value| json!({"field": value.field, "value": value.value, "origin": value.origin}));
    Ok(Json(json!({
        "document": document,
        "values": values.collect::<Vec<_>>(),
    })))
}

/// The namespaces that somebody may look at.
pub async fn namespaces<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    Extension(principal): Extension<Principal>,
) -> Json<Value> {
    let mut names = dashboard.inner.coordinator.namespaces();
    names.retain(|name| dashboard.authorize(&principal, Role::Viewer, name).is_ok());
    Json(json!(names))
}
