//! The streams of operators. Each is written by one task that waits until the reader has room,
//! so a slow reader holds nothing but its own place.

use std::sync::Arc;

use tokio::sync::{broadcast::error::RecvError, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{shown, status};
use crate::{
    coordinator::{Coordinator, Event, Filter, Key, Refusal},
    proto::{WatchDependenciesResponse, WatchEventsResponse, watch_dependencies_response::Change},
    store::Store,
};

/// Messages that may wait in front of the transport's own window.
const AHEAD: usize = 16;
const PAGE: usize = 500;

pub type Changes = ReceiverStream<Result<WatchDependenciesResponse, Status>>;
pub type EventsSeen = ReceiverStream<Result<WatchEventsResponse, Status>>;

/// All dependencies as they are, then each change.
pub fn dependencies<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    namespace: String,
    name_prefix: String,
) -> Changes {
    let (room, changes) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let watched = follow(&coordinator, &namespace, &name_prefix, &room);
        tokio::select! {
            () = room.closed() => {}
            refused = watched => {
                if let Err(refusal) = refused {
                    // The reader has gone: nobody is left to be told.
                    let _ = room.send(Err(status::of(&refusal))).await;
                }
            }
        }
    });
    ReceiverStream::new(changes)
}

type Room<T> = mpsc::Sender<Result<T, Status>>;

async fn follow<S: Store>(
    coordinator: &Coordinator<S>,
    namespace: &str,
    name_prefix: &str,
    room: &Room<WatchDependenciesResponse>,
) -> Result<(), Refusal> {
    let watcher = coordinator.watch(namespace, name_prefix);
    let mut after = String::new();
    loop {
        let filter = Filter {
            namespace,
            name_prefix,
            after: &after,
            states: &[],
            limit: PAGE,
        };
        let page = coordinator.list(filter).await?;
        for shown in &page.shown {
            send(room, Change::Dependency(shown::dependency(shown))).await;
        }
        match page.shown.last() {
            Some(last) if page.more => after.clone_from(&last.name),
            Some(_) | None => break,
        }
    }
    send(room, Change::Synced(true)).await;
    while let Some(changed) = watcher.changed().await {
        for (_, name) in changed {
            let key = Key {
                namespace,
                dependency: &name,
            };
            // What is pushed is durable, as what is listed; and what a policy names stays.
            let change = match coordinator.get(key).await {
                Ok(shown) => Change::Dependency(shown::dependency(&shown)),
                Err(_) => Change::Removed(name.into()),
            };
            send(room, change).await;
        }
    }
    Ok(())
}

/// A reader that has gone is noticed by `Sender::closed`, which ends the whole task.
async fn send(room: &Room<WatchDependenciesResponse>, change: Change) {
    let _ = room
        .send(Ok(WatchDependenciesResponse {
            change: Some(change),
        }))
        .await;
}

/// Past events that `wanted` names, then those to come.
pub fn events<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    replayed: impl Fn(&Event) -> bool,
    wanted: impl Fn(&Event) -> bool + Send + 'static,
) -> EventsSeen {
    let (room, events) = mpsc::channel(AHEAD);
    let (past, mut coming) = coordinator.events().listen(replayed);
    tokio::spawn(async move {
        let mut missed = 0;
        for event in past {
            if !send_event(&room, &event, 0).await {
                return;
            }
        }
        loop {
            let received = tokio::select! {
                () = room.closed() => return,
                received = coming.recv() => received,
            };
            match received {
                Ok(event) if wanted(&event) => {
                    if !send_event(&room, &event, std::mem::take(&mut missed)).await {
                        return;
                    }
                }
                Ok(_) => {}
                Err(RecvError::Lagged(count)) => missed += count,
                Err(RecvError::Closed) => return,
            }
        }
    });
    ReceiverStream::new(events)
}

/// False: the reader has gone.
async fn send_event(room: &Room<WatchEventsResponse>, event: &Event, missed: u64) -> bool {
    let event = Some(shown::event(event));
    room.send(Ok(WatchEventsResponse { event, missed }))
        .await
        .is_ok()
}
