//! A session: many questions and reports on one stream, each answered by its id.
//!
//! Messages are handled where they arrive, one after the other: a decision takes less time
//! than handing it to another task would. What has arrived together is answered together,
//! since the transport writes all that is ready at once. A bad message is answered with a
//! status of its own and never ends the stream.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
};

use futures_core::Stream;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

use super::{client, read, status};
use crate::{
    coordinator::{Coordinator, Refusal},
    proto::{
        AcquireBatch, AcquireBatchResponse, AcquireItem, Hello, SessionRequest, SessionResponse,
        acquire_item, session_request::Message as Asked, session_response::Message as Answered,
    },
    store::Store,
};

/// The answers of one session.
pub type Answers = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

/// What one session has said of itself. Said once at most.
type Greeting = OnceLock<read::Defaults>;

pub fn serve<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    asked: Streaming<SessionRequest>,
) -> Answers {
    let greeting = Arc::new(Greeting::new());
    let answers = asked.then(move |message| {
        let (coordinator, greeting) = (Arc::clone(&coordinator), Arc::clone(&greeting));
        async move {
            match message {
                Ok(message) => handle(&coordinator, &greeting, message).await.map(Ok),
                Err(broken) => Some(Err(broken)),
            }
        }
    });
    Box::pin(answers.filter_map(|answer| answer))
}

/// `None`: the message needs no answer.
async fn handle<S: Store>(
    coordinator: &Coordinator<S>,
    greeting: &Greeting,
    request: SessionRequest,
) -> Option<SessionResponse> {
    let unsaid = read::Defaults::default();
    let defaults = greeting.get().unwrap_or(&unsaid);
    let answered = match request.message {
        Some(Asked::Acquire(batch)) => acquire(coordinator, &batch, defaults).await,
        Some(Asked::Report(report)) => client::report(coordinator, &report, defaults)
            .await
            .map(Answered::Reported),
        Some(Asked::Hello(hello)) => match greet(greeting, hello) {
            Ok(()) => return None,
            Err(refusal) => Err(status::of(&refusal)),
        },
        Some(Asked::Subscribe(_)) => Err(not_pushed()),
        None => Err(status::of(&Refusal::invalid(
            "message",
            "none of hello, subscribe, acquire, report",
        ))),
    };
    let message = answered.unwrap_or_else(|status| Answered::Status(status::as_message(&status)));
    Some(SessionResponse {
        id: request.id,
        message: Some(message),
    })
}

async fn acquire<S: Store>(
    coordinator: &Coordinator<S>,
    batch: &AcquireBatch,
    defaults: &read::Defaults,
) -> Result<Answered, Status> {
    let count = batch.requests.len();
    if count == 0 || count > read::BATCH_MAX {
        let problem = format!("{count} questions; 1 to {}", read::BATCH_MAX);
        return Err(status::of(&Refusal::invalid("acquire.requests", problem)));
    }
    let mut items = Vec::with_capacity(count);
    for request in &batch.requests {
        let result = match client::acquire(coordinator, request, defaults).await {
            Ok(response) => acquire_item::Result::Response(response),
            Err(status) => acquire_item::Result::Status(status::as_message(&status)),
        };
        items.push(AcquireItem {
            result: Some(result),
        });
    }
    Ok(Answered::Acquired(AcquireBatchResponse { items }))
}

fn greet(greeting: &Greeting, hello: Hello) -> Result<(), Refusal> {
    if !hello.namespace.is_empty() {
        read::namespace(&hello.namespace)?;
    }
    read::caller(hello.caller.as_ref(), &read::Defaults::default())?;
    let caller = hello.caller.unwrap_or_default();
    let said = read::Defaults {
        namespace: hello.namespace,
        service: caller.service,
        instance: caller.instance,
    };
    greeting
        .set(said)
        .map_err(|_| Refusal::invalid("hello", "said twice on one session"))
}

fn not_pushed() -> Status {
    Status::unimplemented("this version does not push state; ask before each attempt")
}
