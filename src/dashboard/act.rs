//! What an operator does from the page: first the plan, which changes nothing and says what
//! would happen to whom, then the deed, by the same calls of the coordinator that gRPC makes.
//!
//! A deed names the epoch that its plan has seen: whoever reads "closed" and means to open must
//! not open what somebody else has just closed by hand. That is a courtesy to people and no
//! rule; the rules look for themselves.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use holdoff_decision::{Nanos, State as Breaker, breaker::Phase, record::OverrideKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Dashboard,
    asked::{self, bad},
    row::{self, Row},
    words,
};
use crate::{
    access::{Principal, Role},
    coordinator::{Actor, Coordinator, Key, Refusal, Shown},
    durable::DurableError,
    store::Store,
};

const OWNER_MAX: usize = 200;
const REASON_MAX: usize = 1_000;
/// As short as any override may be, so that one that is nearly over comes back as it was.
const FOR_MIN: Duration = Duration::from_millis(1);
/// Longer must be typed, as what lasts until it is released.
const FOR_UNTYPED_MAX: Duration = Duration::from_secs(24 * 3_600);
/// What the command line may order, so that it can be brought back too.
const FOR_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
const FOR_ALLOWED: &str = "1 to 31536000000";

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Open,
    Close,
    Release,
    Reset,
    ClearHold,
}

/// How long an override lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasts {
    ForMs(u64),
    UntilReleased,
}

/// What a page sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    action: Action,
    #[serde(default)]
    namespace: String,
    dependency: String,
    /// Of an override.
    lasts: Option<Lasts>,
    #[serde(default)]
    owner: String,
    #[serde(default)]
    reason: String,
    /// The dependency's name, typed by hand, where that is asked for.
    #[serde(default)]
    confirm: String,
    /// The epoch of the plan; a deed without one is refused.
    epoch: Option<u64>,
}

/// Why nothing was done, as it is answered.
#[derive(Clone, Debug)]
pub struct Refused {
    status: StatusCode,
    problem: String,
}

impl Refused {
    pub fn new(status: StatusCode, problem: String) -> Self {
        Self { status, problem }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let about = [(header::CONTENT_TYPE, "application/json")];
        let body = json!({"problem": self.problem}).to_string();
        (self.status, about, body).into_response()
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let status = match &refusal {
            Refusal::Invalid { .. } | Refusal::BadPolicy(_) => StatusCode::BAD_REQUEST,
            Refusal::UnknownNamespace(_)
            | Refusal::UnknownDependency { .. }
            | Refusal::UnknownPolicy { .. }
            | Refusal::UnknownCandidate { .. } => StatusCode::NOT_FOUND,
            Refusal::TooManyCandidates(_)
            | Refusal::NoCheck(_)
            | Refusal::Rival { .. }
            | Refusal::NothingToClear { .. } => StatusCode::CONFLICT,
            Refusal::Store(_)
            | Refusal::Durable(_)
            | Refusal::TooSlow(_)
            | Refusal::CheckTooSlow(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, refusal.to_string())
    }
}

/// Says what an order would do. Changes nothing.
///
/// # Errors
/// What the order lacks, or why it cannot be carried out.
pub async fn plan<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    Extension(principal): Extension<Principal>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let order = read(&body)?;
    dashboard.authorize(&principal, Role::Operator, &order.namespace)?;
    let shown = dashboard.inner.coordinator.get(order.key()).await?;
    order.applies_to(&shown)?;
    let view = &shown.view;
    let calls = row::three_digits(shown.usual_calls_per_second());
    Ok(Json(json!({
        "row": Row::of(&shown),
        "epoch": view.epoch,
        "calls_per_second": calls,
        "instances": view.active.max(shown.followers),
        "permits_out": view.permits_out,
        "planned": view.planned,
        "after": order.after(&shown).map(words::state),
        "until": order.lasts_for()?.map(|span| row::millis(shown.now + span)),
        "effect": order.effect(&shown, calls),
        "undo": order.undo(&shown).is_some(),
        "confirm": order.must_be_typed().then_some(&order.dependency),
        // `null`: whoever acts must say who it is.
        "owner": principal.name(),
    })))
}

/// Carries an order out.
///
/// # Errors
/// Nothing was done, and why.
pub async fn act<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    Extension(principal): Extension<Principal>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let mut order = read(&body)?;
    dashboard.authorize(&principal, Role::Operator, &order.namespace)?;
    // Who has a name here is written down under it, whatever else it calls itself.
    order.owner = match principal.name() {
        Some(_) => principal.signature(order.owner.trim()),
        None => asked::text("owner", &order.owner, OWNER_MAX)?.to_owned(),
    };
    order.reason = asked::text("reason", &order.reason, REASON_MAX)?.to_owned();
    let coordinator = Arc::clone(&dashboard.inner.coordinator);
    let before = coordinator.get(order.key()).await?;
    order.applies_to(&before)?;
    if order.must_be_typed() && order.confirm != order.dependency {
        let typed = asked::quoted(&order.confirm);
        let wanted = format!("type the name of the dependency, {:?}", order.dependency);
        return Err(bad("confirm", &typed, &wanted));
    }
    match order.epoch {
        Some(epoch) if epoch == before.view.epoch => {}
        Some(_) => {
            let problem = format!(
                "{} has changed since you looked: it is {} now, {}; look again",
                order.dependency,
                words::state(before.view.state),
                before.view.cause
            );
            return Err(Refused::new(StatusCode::CONFLICT, problem));
        }
        None => return Err(bad("epoch", "nothing", "the epoch of the plan")),
    }
    let undo = order.undo(&before);
    // What is on record must be in force, also where the page goes away half-way.
    let carried = tokio::spawn(async move { order.carry_out(&coordinator).await }).await;
    let after = carried.unwrap_or(Err(Refusal::Durable(DurableError::Closed)))?;
    Ok(Json(json!({
        "row": Row::of(&after),
        "epoch": after.view.epoch,
        "undo": undo,
    })))
}

fn read(body: &[u8]) -> Result<Order, Refused> {
    let order: Order = serde_json::from_slice(body)
        .map_err(|error| Refused::new(StatusCode::BAD_REQUEST, format!("the order: {error}")))?;
    let namespace = asked::namespace(&order.namespace)?.to_owned();
    asked::dependency(&order.dependency)?;
    let order = Order { namespace, ..order };
    order.lasts_for()?;
    Ok(order)
}

impl Order {
    fn key(&self) -> Key<'_> {
        Key {
            namespace: &self.namespace,
            dependency: &self.dependency,
        }
    }

    /// Of an override; `None`: until it is released, or it is none.
    fn lasts_for(&self) -> Result<Option<Nanos>, Refused> {
        match (self.action, self.lasts) {
            (Action::Open | Action::Close, Some(Lasts::UntilReleased)) => Ok(None),
            (Action::Open | Action::Close, Some(Lasts::ForMs(millis))) => {
                let span = Duration::from_millis(millis);
                match (FOR_MIN..=FOR_MAX).contains(&span) {
                    true => Ok(Some(span.into())),
                    false => Err(bad("lasts.for_ms", &millis.to_string(), FOR_ALLOWED)),
                }
            }
            (Action::Open | Action::Close, None) => {
                let allowed = format!("{{\"for_ms\": {FOR_ALLOWED}}} or \"until_released\"");
                Err(bad("lasts", "nothing", &allowed))
            }
            (Action::Release | Action::Reset | Action::ClearHold, None) => Ok(None),
            (Action::Release | Action::Reset | Action::ClearHold, Some(_)) => {
                Err(bad("lasts", "a time", "only open and close last"))
            }
        }
    }

    fn must_be_typed(&self) -> bool {
        match self.lasts {
            Some(Lasts::UntilReleased) => true,
            Some(Lasts::ForMs(millis)) => Duration::from_millis(millis) > FOR_UNTYPED_MAX,
            None => false,
        }
    }

    fn applies_to(&self, shown: &Shown) -> Result<(), Refused> {
        let lacks = match self.action {
            Action::Release if shown.order.is_none() => "override to release",
            Action::ClearHold if shown.view.held_for.is_none() => "hold to clear",
            Action::Open | Action::Close | Action::Release | Action::Reset | Action::ClearHold => {
                return Ok(());
            }
        };
        let problem = format!("{} has no {lacks}", shown.name);
        Err(Refused::new(StatusCode::CONFLICT, problem))
    }

    /// The state that it will be in.
    fn after(&self, shown: &Shown) -> Option<Breaker> {
        match self.action {
            Action::Open => Some(Breaker::ForcedOpen),
            Action::Close => Some(Breaker::ForcedClosed),
            Action::Release => Some(Breaker::Closed),
            Action::Reset if shown.order.is_none() => Some(Breaker::Closed),
            Action::Reset | Action::ClearHold => Some(shown.view.state),
        }
    }

    fn effect(&self, shown: &Shown, calls: f64) -> String {
        let name = &shown.name;
        let instances = shown.view.active.max(shown.followers);
        let about = match shown.breaker {
            Phase::Closed => "About",
            Phase::Open | Phase::HalfOpen => "Usually about",
        };
        let whose = match instances {
            0 => "No caller has been heard of lately.".to_owned(),
            1 => format!("{about} {calls} calls a second, of 1 instance."),
            many => format!("{about} {calls} calls a second, of {many} instances."),
        };
        match self.action {
            Action::Open => format!("Every call to {name} will be refused. {whose}"),
            Action::Close => format!(
                "Calls to {name} will pass whatever fails; retry budget, holds and rate limit still bind. {whose}"
            ),
            Action::Release => format!(
                "The override of {name} ends; its breaker is closed, with no evidence, and decides by itself again. {whose}"
            ),
            Action::Reset => format!(
                "The evidence against {name} and its open period are forgotten; its breaker is closed. Budget, calendar, hold and override stay. {whose}"
            ),
            Action::ClearHold => format!(
                "Callers of {name} need not wait any longer for what the dependency asked. {whose}"
            ),
        }
    }

    /// The order that brings back what was; `None`: what is lost cannot be had back.
    fn undo(&self, before: &Shown) -> Option<Value> {
        let former = before.order.as_ref().map(|order| {
            let action = match order.kind {
                OverrideKind::ForceOpen => Action::Open,
                OverrideKind::ForceClosed => Action::Close,
            };
            let left = order.expires.map(|end| before.now.until(end).0 / 1_000_000);
            let lasts = match left {
                Some(millis) => Lasts::ForMs(millis.clamp(1, FOR_MAX.as_millis() as u64)),
                None => Lasts::UntilReleased,
            };
            json!({"action": action, "lasts": lasts})
        });
        match (self.action, former) {
            (Action::Open | Action::Close | Action::Release, Some(former)) => Some(former),
            (Action::Open | Action::Close, None) => Some(json!({"action": Action::Release})),
            (Action::Release, None) | (Action::Reset | Action::ClearHold, _) => None,
        }
    }

    async fn carry_out<S: Store>(&self, coordinator: &Coordinator<S>) -> Result<Shown, Refusal> {
        let actor = Actor {
            owner: &self.owner,
            reason: &self.reason,
        };
        let lasts = match self.lasts {
            Some(Lasts::ForMs(millis)) => Some(Nanos::from_millis(millis)),
            Some(Lasts::UntilReleased) | None => None,
        };
        let key = self.key();
        match self.action {
            Action::Open => {
                let kind = OverrideKind::ForceOpen;
                coordinator.set_override(key, kind, actor, lasts).await
            }
            Action::Close => {
                let kind = OverrideKind::ForceClosed;
                coordinator.set_override(key, kind, actor, lasts).await
            }
            Action::Release => coordinator.clear_override(key, actor).await,
            Action::Reset => coordinator.reset(key, actor).await,
            Action::ClearHold => coordinator.clear_hold(key, actor).await,
        }
    }
}
