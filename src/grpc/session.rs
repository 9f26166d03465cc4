//! A session: many questions and reports on one stream, each answered by its id, and the state
//! of subscribed dependencies pushed when it changes.
//!
//! Messages are handled where they arrive, one after the other: a decision takes less time
//! than handing it to another task would. What has arrived together is answered together,
//! since the transport writes all that is ready at once. A bad message is answered with a
//! status of its own and never ends the stream.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use futures_core::Stream;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{Status, Streaming};

use super::{admission::Guard, client, oversize, pushed, read, span::Origin, status};
use crate::{
    access::{Method, Place},
    coordinator::{Caller, Coordinator, Key, Refusal, SUBSCRIPTIONS_MAX, Watcher},
    proto::{
        AcquireBatch, AcquireBatchResponse, AcquireItem, Hello, ReportRequest, SessionRequest,
        SessionResponse, Subscribe, acquire_item, session_request::Message as Asked,
        session_response::Message as Answered,
    },
    store::Store,
    telemetry::Counter,
};

/// Updates that may wait in front of the transport's own window.
const AHEAD: usize = 16;
/// What is valid for a while is said again well before it ends.
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// The answers of one session.
pub type Answers = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

/// One session.
struct Session<S: Store> {
    coordinator: Arc<Coordinator<S>>,
    guard: Guard<'static>,
    /// One of those that its caller may have.
    _place: Option<Place<String>>,
    /// What it has said of itself. Said once at most.
    greeting: OnceLock<read::Defaults>,
    /// Why its greeting was refused, until one is taken. What leaves its namespace to the greeting
    /// is refused for the same, and is not answered as if it had named `default`.
    turned_away: Mutex<Option<Status>>,
    watcher: Arc<Watcher>,
    /// Dependencies that were asked about, which subscribes them.
    asked_about: Mutex<HashSet<String>>,
}

/// Serves one session until its stream ends.
pub fn serve<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    guard: Guard<'static>,
    place: Option<Place<String>>,
    asked: Streaming<SessionRequest>,
) -> Answers {
    let watcher = coordinator.subscriber();
    let updates = push(Arc::clone(&coordinator), Arc::clone(&watcher));
    coordinator.telemetry().add(Counter::SessionOpened);
    let session = Arc::new(Session {
        coordinator,
        guard,
        _place: place,
        greeting: OnceLock::new(),
        turned_away: Mutex::default(),
        watcher,
        asked_about: Mutex::default(),
    });
    let answers = asked
        .map(Some)
        .chain(tokio_stream::once(None))
        .then(move |message| {
            let session = Arc::clone(&session);
            async move {
                match message {
                    Some(Ok(message)) => session.handle(message).await.map(Ok),
                    Some(Err(broken)) => Some(Err(oversize::named(broken))),
                    None => {
                        session.coordinator.close(&session.watcher);
                        None
                    }
                }
            }
        });
    Box::pin(answers.filter_map(|answer| answer).merge(updates))
}

/// Writes updates for as long as somebody reads them. A reader that is slow gets the newest
/// state of each dependency.
fn push<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    watcher: Arc<Watcher>,
) -> ReceiverStream<Result<SessionResponse, Status>> {
    let (room, updates) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let mut renewal = tokio::time::interval(RENEW_EVERY);
        renewal.reset();
        loop {
            let changed = tokio::select! {
                () = room.closed() => break,
                _ = renewal.tick() => {
                    watcher.tell_all();
                    continue;
                }
                changed = watcher.changed() => changed,
            };
            let Some(changed) = changed else { break };
            for (id, _) in changed {
                let Some(seen) = coordinator.pushed(id, &watcher).await else {
                    continue;
                };
                coordinator.settled().await;
                let message = Some(Answered::Update(pushed::update(seen)));
                coordinator.telemetry().add(Counter::Pushed);
                // A reader that has gone is noticed above.
                let _ = room.send(Ok(SessionResponse { id: 0, message })).await;
            }
        }
        coordinator.close(&watcher);
    });
    ReceiverStream::new(updates)
}

impl<S: Store> Drop for Session<S> {
    fn drop(&mut self) {
        self.coordinator.telemetry().add(Counter::SessionClosed);
    }
}

impl<S: Store> Session<S> {
    /// `None`: the message needs no answer.
    async fn handle(&self, request: SessionRequest) -> Option<SessionResponse> {
        let answered = match request.message {
            Some(Asked::Acquire(batch)) => self.acquire(&batch).await.map(Some),
            Some(Asked::Report(report)) => self.report(&report).await.map(Some),
            Some(Asked::Hello(hello)) => self.greet(hello).await.map(|()| None),
            Some(Asked::Subscribe(subscribe)) => self.subscribe(&subscribe).await.map(|()| None),
            None => Err(status::of(&Refusal::invalid(
                "message",
                "none of hello, subscribe, acquire, report",
            ))),
        };
        let message = match answered {
            Ok(None) => return None,
            Ok(Some(answer)) => answer,
            Err(status) => Answered::Status(status::as_message(&status)),
        };
        Some(SessionResponse {
            id: request.id,
            message: Some(message),
        })
    }

    fn defaults(&self) -> read::Defaults {
        self.greeting.get().cloned().unwrap_or_default()
    }

    /// What names no namespace is of the greeting's.
    fn is_greeted(&self, namespace: &str) -> Result<(), Status> {
        let turned_away = self
            .turned_away
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &*turned_away {
            Some(status) if namespace.is_empty() => Err(status.clone()),
            Some(_) | None => Ok(()),
        }
    }

    async fn report(&self, report: &ReportRequest) -> Result<Answered, Status> {
        self.is_greeted(&report.namespace)?;
        let (guard, defaults) = (&self.guard, self.defaults());
        client::report(&self.coordinator, guard, report, &defaults, Origin::Session)
            .await
            .map(Answered::Reported)
    }

    async fn acquire(&self, batch: &AcquireBatch) -> Result<Answered, Status> {
        let count = batch.requests.len();
        if count == 0 || count > read::BATCH_MAX {
            let problem = format!("{count} questions; 1 to {}", read::BATCH_MAX);
            return Err(status::of(&Refusal::invalid("acquire.requests", problem)));
        }
        let unsaid = read::Defaults::default();
        let greeting = self.greeting.get();
        let defaults = greeting.unwrap_or(&unsaid);
        let mut items = Vec::with_capacity(count);
        for request in &batch.requests {
            let (guard, origin) = (&self.guard, Origin::Session);
            let acquired = async {
                self.is_greeted(&request.namespace)?;
                client::acquire(&self.coordinator, guard, request, defaults, origin).await
            };
            let result = match acquired.await {
                Ok(response) => {
                    if let Some(greeting) = greeting
                        && (request.namespace.is_empty() || request.namespace == greeting.namespace)
                    {
                        self.follow(&greeting.namespace, &request.dependency).await;
                    }
                    acquire_item::Result::Response(response)
                }
                Err(status) => acquire_item::Result::Status(status::as_message(&status)),
            };
            items.push(AcquireItem {
                result: Some(result),
            });
        }
        Ok(Answered::Acquired(AcquireBatchResponse { items }))
    }

    /// A client that introduced itself follows what it asks about. Only dependencies of its
    /// own namespace can be told apart in an update.
    async fn follow(&self, namespace: &str, dependency: &str) {
        let new = {
            let mut asked = self
                .asked_about
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            // Past the limit nothing is followed, and so nothing need be remembered.
            asked.len() < SUBSCRIPTIONS_MAX
                && !asked.contains(dependency)
                && asked.insert(dependency.to_owned())
        };
        if new && let Ok(namespace) = read::namespace(namespace) {
            // Too many are followed already: this one is asked for each time.
            let key = Key {
                namespace,
                dependency,
            };
            let _ = self.coordinator.subscribe(&self.watcher, key).await;
        }
    }

    async fn greet(&self, hello: Hello) -> Result<(), Status> {
        let refuse = |refusal: Refusal| status::of(&refusal);
        let is_first = self.greeting.get().is_none();
        let taken = self.admit(&hello);
        if is_first {
            let refused = taken.as_ref().err().cloned();
            *self
                .turned_away
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = refused;
        }
        taken?;
        let caller = hello.caller.unwrap_or_default();
        let said = read::Defaults {
            namespace: hello.namespace,
            service: caller.service,
            instance: caller.instance,
        };
        if self.greeting.set(said).is_err() {
            return Err(refuse(Refusal::invalid(
                "hello",
                "said twice on one session",
            )));
        }
        let said = self.greeting.get().cloned().unwrap_or_default();
        let caller = Caller {
            service: &said.service,
            instance: &said.instance,
        };
        self.coordinator.introduce(&self.watcher, caller);
        self.subscribe(&Subscribe {
            add: hello.subscribe,
            remove: Vec::new(),
        })
        .await
    }

    fn admit(&self, hello: &Hello) -> Result<(), Status> {
        let refuse = |refusal: Refusal| status::of(&refusal);
        read::namespace(&hello.namespace).map_err(refuse)?;
        self.guard.admit(Method::Session, &hello.namespace)?;
        read::caller(hello.caller.as_ref(), &read::Defaults::default()).map_err(refuse)?;
        Ok(())
    }

    async fn subscribe(&self, subscribe: &Subscribe) -> Result<(), Status> {
        self.is_greeted("")?;
        let defaults = self.defaults();
        self.guard.admit(Method::Session, &defaults.namespace)?;
        let change = async {
            let namespace = read::namespace(&defaults.namespace)?;
            for name in subscribe.add.iter().chain(&subscribe.remove) {
                read::dependency(name)?;
            }
            for dependency in &subscribe.remove {
                self.coordinator.unsubscribe(
                    &self.watcher,
                    Key {
                        namespace,
                        dependency,
                    },
                );
            }
            for dependency in &subscribe.add {
                let key = Key {
                    namespace,
                    dependency,
                };
                self.coordinator.subscribe(&self.watcher, key).await?;
            }
            Ok(())
        };
        change
            .await
            .map_err(|refusal: Refusal| status::of(&refusal))
    }
}
