//! Fills a feed while somebody reads it: one task a namespace, however many pages look at it.
//!
//! A transition is told by the coordinator's watchers and goes out at once, or with the next
//! frame where one has just gone. Numbers move without being told, so once a second one walk
//! over the store looks at what was touched lately, and what is not closed: an open breaker
//! becomes half-open by time alone.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use holdoff_decision::{Nanos, State, Time};
use tokio::{
    sync::broadcast::error::RecvError,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{
    Dashboard,
    feed::{Changes, Feed, Line},
    row::{Happened, Row, json},
    words,
};
use crate::{
    coordinator::{Coordinator, Event, Glance, Key, Refusal, Shown},
    store::Store,
};

/// Frames go out at most this often: a change is seen within it, and what it takes to draw.
pub const FRAME_EVERY: Duration = Duration::from_millis(150);
const NUMBERS_EVERY: Duration = Duration::from_secs(1);
/// Averages and windows of a dependency that is not touched have run out by then.
const RESTLESS_FOR: Nanos = Nanos::from_secs(300);
/// A feed that nobody reads ends after this: a page that is loaded anew finds it filled.
const UNREAD_FOR: u32 = 10;
const EVENTS_AT_FIRST: usize = 50;

/// Fills `feed` until nobody reads it any more.
pub async fn produce<S: Store>(dashboard: Dashboard<S>, feed: Arc<Feed>) {
    let coordinator = Arc::clone(&dashboard.inner.coordinator);
    let namespace = feed.namespace().to_owned();
    let watcher = coordinator.watch(&namespace, "");
    let wanted = |event: &Event| event.namespace == namespace || event.namespace.is_empty();
    let (past, mut coming) = coordinator.events().listen(wanted);
    let mut policies = coordinator.policies_changed();
    let mut begun = everything(&coordinator, &feed).await;
    let newest = past.iter().rev().take(EVENTS_AT_FIRST).rev();
    begun.events = newest.map(|event| json(&Happened::of(event))).collect();
    feed.take(begun);
    feed.fill();
    let mut second = interval(NUMBERS_EVERY);
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut touched, mut events) = (BTreeSet::new(), Vec::new());
    let mut unread = 0;
    // Until the next frame may go.
    let mut pause = Box::pin(sleep(Duration::ZERO));
    loop {
        let waits = !touched.is_empty() || !events.is_empty();
        tokio::select! {
            changed = watcher.changed() => match changed {
                Some(changed) => touched.extend(changed.into_iter().map(|(_, name)| name)),
                None => return,
            },
            event = coming.recv() => match event {
                Ok(event) if wanted(&event) => events.push(json(&Happened::of(&event))),
                // What was lost is only missing in the list of what happened.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            () = &mut pause, if waits => {
                let names = std::mem::take(&mut touched);
                let mut changes = looked_at(&coordinator, &namespace, names).await;
                changes.events = std::mem::take(&mut events);
                feed.take(changes);
                pause.set(sleep(FRAME_EVERY));
            }
            _ = second.tick() => {
                unread = if feed.is_read() { 0 } else { unread + 1 };
                if unread > UNREAD_FOR && dashboard.end_feed(&feed) {
                    return;
                }
                let now = coordinator.policies_changed();
                let changes = match now == policies {
                    true => numbers(&coordinator, &feed).await,
                    false => everything(&coordinator, &feed).await,
                };
                policies = now;
                feed.take(changes);
            }
        }
    }
}

async fn looked_at<S: Store>(
    coordinator: &Coordinator<S>,
    namespace: &str,
    names: BTreeSet<Box<str>>,
) -> Changes {
    let mut changes = Changes::default();
    for name in names {
        let key = Key {
            namespace,
            dependency: &name,
        };
        match coordinator.glimpse(key).await {
            Ok(shown) => changes.lines.push(line(&shown)),
            Err(Refusal::UnknownDependency { .. } | Refusal::UnknownNamespace(_)) => {
                changes.gone.push(name);
            }
            // It is looked at again with the numbers.
            Err(_) => {}
        }
    }
    coordinator.durable_so_far().await;
    changes
}

/// All there is: live, or named by a policy.
async fn everything<S: Store>(coordinator: &Coordinator<S>, feed: &Feed) -> Changes {
    let namespace = feed.namespace();
    let shown = coordinator.overview(namespace, &mut |_| true);
    let mut present: BTreeSet<Box<str>> = shown.iter().map(|it| it.name.as_str().into()).collect();
    let mut lines: Vec<Line> = shown.iter().map(line).collect();
    for name in coordinator.named(namespace) {
        let key = Key {
            namespace,
            dependency: &name,
        };
        if !present.contains(&*name)
            && let Ok(shown) = coordinator.glimpse(key).await
        {
            lines.push(line(&shown));
            present.insert((&*name).into());
        }
    }
    lines.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let mut gone = feed.names();
    gone.retain(|name| !present.contains(name));
    coordinator.durable_so_far().await;
    Changes {
        lines,
        gone,
        events: Vec::new(),
        total: Some(present.len()),
    }
}

/// What may have moved by itself, or without anybody being told.
async fn numbers<S: Store>(coordinator: &Coordinator<S>, feed: &Feed) -> Changes {
    let now = coordinator.now();
    let still = Time(now.0.saturating_sub(RESTLESS_FOR.0));
    let mut live = 0;
    let shown = coordinator.overview(feed.namespace(), &mut |glance: Glance<'_>| {
        live += 1;
        glance.touched >= still || glance.held || glance.state != State::Closed
    });
    coordinator.durable_so_far().await;
    Changes {
        lines: shown.iter().map(line).collect(),
        total: Some(live),
        ..Changes::default()
    }
}

fn line(shown: &Shown) -> Line {
    Line {
        name: shown.name.as_str().into(),
        state: words::state(shown.view.state),
        json: Row::of(shown).json(),
    }
}
