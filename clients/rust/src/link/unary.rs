//! The same without a stream: one request a question, for a service or a proxy that has no
//! `Session`. After a while a stream is tried again.

use std::{error::Error as _, sync::atomic::Ordering::Relaxed, time::Duration};

use tokio::{sync::mpsc, task::JoinSet};
use tonic::{Code, Status};

use super::{Ask, End, NoAnswer, Shared, Wanted, tell};
use crate::{
    credentials::Route,
    proto::{self, coordinator_service_client::CoordinatorServiceClient},
    reports::Batch,
};

/// Requests under way.
const CALLS_MAX: usize = 256;
const TRY_A_STREAM_AFTER: Duration = Duration::from_secs(600);
/// A report that is not answered by then counts as lost with its connection.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

type Client = CoordinatorServiceClient<Route>;

/// What a request showed.
enum Done {
    Asked {
        reply: AskReply,
        answer: super::Reply,
        is_broken: bool,
    },
    Reported {
        sequence: u64,
        was_taken: Option<bool>,
    },
    GivenUp,
}

type AskReply = tokio::sync::oneshot::Sender<super::Reply>;

pub(super) async fn run(
    shared: &Shared,
    channel: Route,
    first: Vec<Wanted>,
    wanted: &mut mpsc::Receiver<Wanted>,
) -> End {
    let client = Client::new(channel);
    let mut calls = JoinSet::new();
    let (mut answered, mut is_reporting) = (false, false);
    for wanted in first {
        begin(shared, &client, &mut calls, wanted);
    }
    let mut silent = std::pin::pin!(shared.silent.notified());
    silent.as_mut().enable();
    let mut again = std::pin::pin!(tokio::time::sleep(TRY_A_STREAM_AFTER));
    loop {
        tokio::select! {
            next = wanted.recv(), if calls.len() < CALLS_MAX => match next {
                Some(next) => begin(shared, &client, &mut calls, next),
                None => return farewell(shared, client, calls).await,
            },
            // One at a time: sequence numbers must arrive in their order.
            () = shared.reports.due(), if !is_reporting => {
                if let Some(batch) = shared.reports.take() {
                    is_reporting = true;
                    calls.spawn(report(client.clone(), shared.hello.clone(), batch));
                }
            },
            Some(Ok(done)) = calls.join_next(), if !calls.is_empty() => {
                is_reporting &= !matches!(done, Done::Reported { .. });
                match note(shared, done) {
                    true => answered = true,
                    false => return End::Broken { answered },
                }
            },
            () = &mut silent => return End::Silent,
            () = &mut again => return End::Again,
        }
    }
}

fn begin(shared: &Shared, client: &Client, calls: &mut JoinSet<Done>, wanted: Wanted) {
    match wanted {
        Wanted::Answer(mut ask) => {
            ask.request.namespace.clone_from(&shared.hello.namespace);
            ask.request.caller.clone_from(&shared.hello.caller);
            calls.spawn(acquire(client.clone(), *ask));
        }
        Wanted::Connection(reply) => tell(reply, true),
    }
}

async fn acquire(mut client: Client, ask: Ask) -> Done {
    let Ask {
        request,
        mut reply,
        is_sent,
    } = ask;
    is_sent.store(true, Relaxed);
    tokio::select! {
        answer = client.acquire(request) => {
            let is_broken = answer.as_ref().is_err_and(is_of_the_connection);
            let answer = match answer {
                Ok(response) => Ok(response.into_inner()),
                Err(_) if is_broken => Err(NoAnswer::Lost),
                Err(status) => Err(NoAnswer::Failed(status.code(), status.message().to_owned())),
            };
            Done::Asked { reply, answer, is_broken }
        }
        () = reply.closed() => Done::GivenUp,
    }
}

async fn report(mut client: Client, hello: proto::Hello, batch: Batch) -> Done {
    let sequence = batch.sequence;
    let request = proto::ReportRequest {
        namespace: hello.namespace,
        caller: hello.caller,
        entries: batch.entries,
        sequence,
    };
    let was_taken = match tokio::time::timeout(REPORT_TIMEOUT, client.report(request)).await {
        Ok(Ok(_)) => Some(true),
        Ok(Err(status)) if !is_of_the_connection(&status) => Some(false),
        Ok(Err(_)) | Err(_) => None,
    };
    Done::Reported {
        sequence,
        was_taken,
    }
}

/// False: the connection is over.
fn note(shared: &Shared, done: Done) -> bool {
    match done {
        Done::Asked {
            reply,
            answer,
            is_broken,
        } => {
            shared.reply(reply, answer);
            !is_broken
        }
        Done::Reported {
            sequence,
            was_taken,
        } => {
            if let Some(was_taken) = was_taken {
                shared.reports.answered(sequence, was_taken);
            }
            was_taken.is_some()
        }
        Done::GivenUp => true,
    }
}

async fn farewell(shared: &Shared, client: Client, mut calls: JoinSet<Done>) -> End {
    while let Some(Ok(done)) = calls.join_next().await {
        note(shared, done);
    }
    while let Some(batch) = shared.reports.take() {
        note(
            shared,
            report(client.clone(), shared.hello.clone(), batch).await,
        );
    }
    End::Unwanted
}

/// Whether no answer of a service stands behind it.
fn is_of_the_connection(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.source().is_some()
}
