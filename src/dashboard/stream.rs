//! The stream of one page: what it lacks, a beat each second, and the dependency that it shows.
//!
//! One message waits at most; while the page does not read it, nothing is made for it.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::Deserialize;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{MissedTickBehavior, interval},
};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    Dashboard,
    act::Refused,
    asked::{self, Asked, Asks},
    detail::Detail,
    feed::Reading,
    login::Connected,
    row,
};
use crate::{
    access::{Place, Principal, Role, Watcher},
    coordinator::{Coordinator, Key},
    store::Store,
};

/// A page that has not heard anything for some of these is stale, and says so.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// A page that lost its stream comes back after this, and a part that is its own.
const BACK_AFTER_MS: u64 = 500;
const BACK_SPREAD_MS: u64 = 1_000;

type Room = mpsc::Sender<Result<Bytes, Infallible>>;

/// What a page shows.
#[derive(Debug, Deserialize)]
pub struct Shows {
    #[serde(default)]
    namespace: String,
    /// Empty: the list.
    #[serde(default)]
    dependency: String,
    /// As `Last-Event-ID`, for a page that gave up its stream by itself.
    #[serde(default)]
    after: String,
}

/// # Errors
/// Bad names, an unknown namespace, or too many open pages, of all or of one who looks on.
pub async fn stream<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    Extension(principal): Extension<Principal>,
    connected: Connected,
    Asks(shows): Asks<Shows>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let coordinator = &dashboard.inner.coordinator;
    let namespace = asked::namespace(&shows.namespace)?.to_owned();
    dashboard.authorize(&principal, Role::Viewer, &namespace)?;
    if !coordinator.has_namespace(&namespace) {
        let problem = format!("there is no namespace `{namespace}`");
        return Err(Refused::new(StatusCode::NOT_FOUND, problem));
    }
    if !shows.dependency.is_empty() {
        asked::dependency(&shows.dependency)?;
    }
    let place = Arc::clone(&dashboard.inner.places).try_acquire_owned();
    let place = place.map_err(|_| {
        let problem = "as many pages are open as this service has room for";
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, problem.to_owned())
    })?;
    let watched = dashboard.inner.access.watch(&principal, connected.peer());
    let watched = watched
        .map_err(|crowded| Refused::new(StatusCode::TOO_MANY_REQUESTS, crowded.to_string()))?;
    let after = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = after.unwrap_or(&shows.after).to_owned();
    let (room, messages) = mpsc::channel(1);
    let asked = Asked {
        namespace,
        dependency: shows.dependency,
    };
    let places = (place, watched);
    tokio::spawn(tell(dashboard, principal, asked, after, room, places));
    let about = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // Proxies that would collect it first are asked not to.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((about, Body::from_stream(ReceiverStream::new(messages))).into_response())
}

async fn tell<S: Store>(
    dashboard: Dashboard<S>,
    principal: Principal,
    asked: Asked,
    after: String,
    room: Room,
    _places: (OwnedSemaphorePermit, Option<Place<Watcher>>),
) {
    let mut stopped = dashboard.inner.stopped.clone();
    let told = tell_until_gone(&dashboard, &asked, &after, &room);
    tokio::select! {
        () = room.closed() => {}
        // The page comes back, and is asked who it is.
        _ = dashboard.inner.access.lapsed(&principal) => {}
        // The sender is only dropped at the end of the process.
        _ = stopped.wait_for(|stopped| *stopped) => {}
        _ = told => {}
    }
}

/// `None`: the page has gone.
async fn tell_until_gone<S: Store>(
    dashboard: &Dashboard<S>,
    asked: &Asked,
    after: &str,
    room: &Room,
) -> Option<()> {
    let back_after = BACK_AFTER_MS + dashboard.inner.guard.nonce() % BACK_SPREAD_MS;
    send(room, format!("retry: {back_after}\n\n").into()).await?;
    let Reading { feed, news } = &mut dashboard.feed(&asked.namespace).read();
    send(room, beat(dashboard)).await?;
    feed.filled().await;
    let mut detail = Detail::of(dashboard, asked);
    let mut known = feed.version_of(after);
    let mut seconds = interval(BEAT_EVERY);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        news.mark_unchanged();
        let mut looks_again = false;
        if let Some(frame) = feed.since(known) {
            known = Some(frame.to);
            send(room, frame.bytes).await?;
            let changed = feed.changed_in(&asked.dependency);
            looks_again = changed.is_some_and(|version| version > frame.from);
        }
        if looks_again && let Some(message) = detail.message().await {
            send(room, message).await?;
        }
        tokio::select! {
            changed = news.changed() => changed.ok()?,
            _ = seconds.tick() => {
                send(room, beat(dashboard)).await?;
                if let Some(message) = detail.message().await {
                    send(room, message).await?;
                }
            }
        }
    }
}

/// Says that the service lives, what time it is there, and what concerns all of it.
fn beat<S: Store>(dashboard: &Dashboard<S>) -> Bytes {
    let coordinator = &dashboard.inner.coordinator;
    let beat = serde_json::json!({
        "now": row::millis(coordinator.now()),
        "policies": coordinator.policies_changed(),
        "durable": !coordinator.durability_degraded(),
        "alone": coordinator.store_standing().is_some_and(|it| it.is_away),
        "replicas": replicas(coordinator),
    });
    format!("event: beat\ndata: {beat}\n\n").into()
}

/// How many there are, and what is wrong with those that are not well.
fn replicas<S: Store>(coordinator: &Coordinator<S>) -> serde_json::Value {
    let all = coordinator.replicas_seen();
    let degraded = all.iter().filter(|it| !it.troubles.is_empty());
    let degraded = degraded.map(|it| format!("{}: {}", it.about.name, it.troubles.join("; ")));
    serde_json::json!({"all": all.len(), "degraded": degraded.collect::<Vec<_>>()})
}

async fn send(room: &Room, message: Bytes) -> Option<()> {
    room.send(Ok(message)).await.ok()
}

impl Asked {
    pub fn key(&self) -> Key<'_> {
        Key {
            namespace: &self.namespace,
            dependency: &self.dependency,
        }
    }
}
