//! The way to the service: one stream, opened when first wanted, and a bounded queue in
//! front of it.
//!
//! A caller waits for an answer at most as long as it says, and not at all while the
//! service is known to be away. One task owns the connection; it begins with the first
//! question, in the runtime of whoever asks, and a new one begins where that runtime is
//! gone. It ends with the last clone of the client.
//!
//! | part | |
//! |---|---|
//! | [`course`] | which endpoint is tried next, and when |
//! | [`session`] | one stream: batches out, answers in |
//! | [`following`] | what the service pushes on it |
//! | [`outstanding`] | questions without an answer yet |
//! | [`patience`] | who waits for a service that was not heard of yet |
//! | [`planning`] | when to check next, beside the stream |
//! | [`standing`] | what the log says about it being away |
//! | [`unary`] | the same without a stream, for a service that has none |

mod course;
mod following;
mod outstanding;
mod patience;
mod planning;
mod session;
mod standing;
mod unary;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};
use tonic::Code;

pub use course::Dial;
pub(crate) use course::Dialer;

use crate::{
    counters::{Counting, Seldom, add},
    credentials::Route,
    entropy,
    gate::{Gate, Pass},
    outcome::Outcome,
    proto,
    pushed::Pushed,
    reports::Reports,
};

/// Questions that wait to be sent or answered.
const ASKS_MAX: usize = 10_000;

/// Who wakes so long after its time was not on a processor, and nor was who reads.
const STOOD_STILL: Duration = Duration::from_millis(10);
/// Of the runtime, in which what has come is read.
const TURNS: u32 = 64;

#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    task: Mutex<Option<mpsc::Sender<Wanted>>>,
}

/// What the handles and the task both use.
#[derive(Debug)]
pub(crate) struct Shared {
    dialer: Dialer,
    /// Opens each stream; its caller and namespace go with each unary request.
    hello: proto::Hello,
    pub(crate) reports: Reports,
    pub(crate) pushed: Pushed,
    /// Of the connection that stands.
    channel: Mutex<Option<Route>>,
    /// There is one.
    is_connected: AtomicBool,
    counting: Arc<Counting>,
    gate: Gate,
    patience: patience::Patience,
    /// A connection is wanted that nobody waits for.
    sought: Notify,
    /// The service has stopped to answer on this stream: leave it.
    silent: Notify,
    /// The endpoint that was connected to last.
    endpoint: AtomicUsize,
    standing: standing::Standing,
    warned_configuration: Seldom,
}

/// What a caller wants of the task.
#[derive(Debug)]
enum Wanted {
    Answer(Box<Ask>),
    /// Told whether there is a connection now.
    Connection(oneshot::Sender<bool>),
}

#[derive(Debug)]
struct Ask {
    request: proto::AcquireRequest,
    reply: oneshot::Sender<Reply>,
    /// The service may have it.
    is_sent: Arc<AtomicBool>,
}

type Reply = Result<proto::AcquireResponse, NoAnswer>;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoAnswer {
    #[error("not connected")]
    Away,
    #[error("too many questions wait")]
    Busy,
    #[error("the connection broke")]
    Lost,
    #[error("no answer in time")]
    Late,
    #[error("{0:?}: {1}")]
    Failed(Code, String),
}

/// How the time with one connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The last handle is gone.
    Unwanted,
    Broken {
        answered: bool,
    },
    Silent,
    /// There is no such stream here.
    Unimplemented,
    /// It is time to try a stream again.
    Again,
}

impl Link {
    pub(crate) fn new(
        dialer: Dialer,
        hello: proto::Hello,
        pushed: Pushed,
        counting: Arc<Counting>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                dialer,
                hello,
                reports: Reports::new(Arc::clone(&counting)),
                pushed,
                channel: Mutex::default(),
                is_connected: AtomicBool::new(false),
                counting,
                gate: Gate::new(),
                patience: patience::Patience::default(),
                sought: Notify::new(),
                silent: Notify::new(),
                endpoint: AtomicUsize::new(0),
                standing: standing::Standing::new(),
                warned_configuration: Seldom::default(),
            }),
            task: Mutex::new(None),
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Asks, and waits for so long at most.
    pub(crate) async fn ask(&self, request: proto::AcquireRequest, timeout: Duration) -> Reply {
        let shared = &self.shared;
        let pass = shared.gate.enter(Instant::now()).ok_or(NoAnswer::Away)?;
        let task = self.task()?;
        let Some(waiter) = shared.patience.enter() else {
            shared.sought.notify_one();
            return Err(NoAnswer::Away);
        };
        let (reply, answer) = oneshot::channel();
        let is_sent = Arc::new(AtomicBool::new(false));
        let wanted = Wanted::Answer(Box::new(Ask {
            request,
            reply,
            is_sent: Arc::clone(&is_sent),
        }));
        task.try_send(wanted).map_err(|_| NoAnswer::Busy)?;
        add(&shared.counting.asked, 1);
        let asked_at = Instant::now();
        let mut waiting = Waiting { answer, shared };
        let reply = match tokio::time::timeout(timeout, &mut waiting.answer).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(NoAnswer::Lost),
            Err(_) => {
                waiting
                    .late(asked_at.elapsed().saturating_sub(timeout))
                    .await
            }
        };
        match &reply {
            Ok(_) => shared.came_back(pass),
            Err(NoAnswer::Failed(code, text)) if is_configuration(*code) => {
                shared.came_back(pass);
                shared.warn_configuration(*code, text);
            }
            // What was not sent says nothing of the service, unless it is the trial.
            Err(NoAnswer::Late) if !is_sent.load(Relaxed) && !pass.is_trial() => waiter.in_vain(),
            Err(failed @ (NoAnswer::Late | NoAnswer::Failed(..))) => {
                if *failed == NoAnswer::Late {
                    waiter.in_vain();
                }
                let has_shut = pass.unanswered(Instant::now(), entropy::unit());
                shared.went_away(has_shut, failed);
            }
            // No time was lost, and the task waits by itself before it connects again.
            Err(NoAnswer::Away | NoAnswer::Busy | NoAnswer::Lost) => {}
        }
        reply
    }

    /// Connects now. False: it could not.
    pub(crate) async fn connect(&self) -> bool {
        let (reply, connected) = oneshot::channel();
        match self.task() {
            Ok(task) => {
                task.send(Wanted::Connection(reply)).await.is_ok()
                    && connected.await.unwrap_or(false)
            }
            Err(_) => false,
        }
    }

    /// A connection is wanted, and nobody waits for it.
    pub(crate) fn seek(&self) {
        // Without a runtime nothing can be connected.
        if self.task().is_ok() {
            self.shared.sought.notify_one();
        }
    }

    /// Returns when all outcomes have been taken or lost.
    pub(crate) async fn flush(&self) {
        // Outcomes exist only where there was an answer, so the task has been begun.
        if self.task().is_err() {
            return;
        }
        while !self.shared.reports.is_empty() {
            self.shared.reports.hurry();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn task(&self) -> Result<mpsc::Sender<Wanted>, NoAnswer> {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = task.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let runtime = Handle::try_current().map_err(|_| NoAnswer::Away)?;
        let (sender, wanted) = mpsc::channel(ASKS_MAX);
        runtime.spawn(run(Arc::clone(&self.shared), wanted));
        *task = Some(sender.clone());
        Ok(sender)
    }
}

/// A question that the caller waits for. An answer that comes too late may carry a permit,
/// even the lease of a probe: it is given back.
struct Waiting<'a> {
    answer: oneshot::Receiver<Reply>,
    shared: &'a Shared,
}

impl Waiting<'_> {
    /// The time is over. Where this process stood still meanwhile, what has come by then is read
    /// first.
    async fn late(&mut self, by: Duration) -> Reply {
        if by < STOOD_STILL {
            return Err(NoAnswer::Late);
        }
        for _ in 0..TURNS {
            match self.answer.try_recv() {
                Ok(reply) => return reply,
                Err(oneshot::error::TryRecvError::Closed) => return Err(NoAnswer::Lost),
                Err(oneshot::error::TryRecvError::Empty) => tokio::task::yield_now().await,
            }
        }
        Err(NoAnswer::Late)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(response)) = self.answer.try_recv() {
            self.shared.give_back(response);
        }
    }
}

impl Shared {
    /// Nobody waits for this answer any longer.
    pub(crate) fn give_back(&self, response: proto::AcquireResponse) {
        if let Some(proto::acquire_response::Verdict::Grant(grant)) = response.verdict {
            let permit = Bytes::copy_from_slice(&grant.permit);
            self.reports.push(permit, &Outcome::cancelled());
        }
    }

    fn reply(&self, ask: oneshot::Sender<Reply>, reply: Reply) {
        if let Err(Ok(response)) = ask.send(reply) {
            self.give_back(response);
        }
    }

    /// Who asks.
    pub(crate) fn caller(&self) -> Option<&proto::Caller> {
        self.hello.caller.as_ref()
    }

    /// A connection stands, and the service has not been silent on it. No lock is taken: each
    /// first attempt on pushed state looks.
    pub(crate) fn is_at_hand(&self) -> bool {
        self.is_connected.load(Relaxed) && !self.gate.is_shut()
    }

    fn stands(&self, channel: Option<Route>) {
        self.is_connected.store(channel.is_some(), Relaxed);
        *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = channel;
    }

    /// The endpoint that was connected to last.
    fn address(&self) -> String {
        self.dialer.address(Some(self.endpoint.load(Relaxed)))
    }

    /// The service is there.
    fn heard(&self) {
        self.gate.heard(Instant::now());
        self.patience.heard();
        self.standing.connected(|| self.address());
    }

    fn came_back(&self, pass: Pass<'_>) {
        pass.answered();
        self.standing.answered(|| self.address());
    }

    fn went_away(&self, has_shut: bool, why: &NoAnswer) {
        if !has_shut {
            return;
        }
        if *why == NoAnswer::Late {
            self.silent.notify_waiters();
        }
        self.standing.silent(&self.address(), why);
    }

    /// What is not followed is asked about each time.
    fn warn_following(&self, text: &str) {
        if self.warned_configuration.now() {
            let text: String = text.chars().take(200).collect();
            tracing::warn!(text, "holdoff refuses to push the state of a dependency");
        }
    }

    fn warn_configuration(&self, code: Code, text: &str) {
        if self.warned_configuration.now() {
            let text: String = text.chars().take(200).collect();
            tracing::warn!(
                ?code,
                text,
                "holdoff refuses the question; deciding locally"
            );
        }
    }
}

/// Errors that say that the question is wrong, not that the service is ill.
fn is_configuration(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument | Code::NotFound | Code::PermissionDenied | Code::Unauthenticated
    )
}

/// Owns the connection for as long as anybody wants one.
async fn run(shared: Arc<Shared>, mut wanted: mpsc::Receiver<Wanted>) {
    let mut course = course::Course::new();
    while let Some(first) = until_wanted(&shared, &mut wanted, course.not_before()).await {
        let (index, channel) = match shared.dialer.dial(course.start()).await {
            Ok(dialled) => dialled,
            Err(why) => {
                shared
                    .standing
                    .unreachable(&shared.dialer.address(None), why);
                course.nothing_reachable(entropy::unit());
                refuse(first, &mut wanted);
                continue;
            }
        };
        shared.endpoint.store(index, Relaxed);
        add(&shared.counting.connections, 1);
        shared.stands(Some(channel.clone()));
        shared.reports.stream_begins();
        let mut first = first;
        let mut end = match course.is_unary(index) {
            true => End::Unimplemented,
            false => {
                let (end, unsent) =
                    session::run(&shared, (index, channel.clone()), first, &mut wanted).await;
                first = unsent;
                end
            }
        };
        if end == End::Unimplemented {
            course.note_unary(index);
            shared.heard();
            end = unary::run(&shared, channel, first, &mut wanted).await;
        }
        shared.stands(None);
        shared.patience.lost();
        shared.reports.broken();
        match end {
            End::Unwanted => return,
            end => {
                if matches!(end, End::Broken { .. }) {
                    let address = shared.dialer.address(Some(index));
                    shared
                        .standing
                        .unreachable(&address, "the connection broke");
                }
                course.ended(index, end, entropy::unit());
            }
        }
    }
}

/// What is wanted first. Before its time everything is refused at once. While the gate is
/// shut the service is looked for without a question, so that no caller pays for it; and so it
/// is when its time comes where somebody sought it before.
async fn until_wanted(
    shared: &Shared,
    wanted: &mut mpsc::Receiver<Wanted>,
    not_before: Instant,
) -> Option<Vec<Wanted>> {
    let mut is_sought = false;
    loop {
        let report = async {
            tokio::time::sleep_until(not_before).await;
            shared.reports.due().await;
        };
        let search = async {
            match shared.gate.shut_until(Instant::now()) {
                Some(until) if not_before < until => tokio::time::sleep_until(not_before).await,
                Some(_) | None if is_sought => tokio::time::sleep_until(not_before).await,
                Some(_) | None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            next = wanted.recv() => match next? {
                next if Instant::now() < not_before => next.refuse(),
                next => return Some(vec![next]),
            },
            () = shared.sought.notified(), if !is_sought => is_sought = true,
            () = report => return Some(Vec::new()),
            () = search => return Some(Vec::new()),
        }
    }
}

fn refuse(first: Vec<Wanted>, wanted: &mut mpsc::Receiver<Wanted>) {
    first.into_iter().for_each(Wanted::refuse);
    while let Ok(next) = wanted.try_recv() {
        next.refuse();
    }
}

impl Wanted {
    fn refuse(self) {
        match self {
            Self::Answer(ask) => tell(ask.reply, Err(NoAnswer::Away)),
            Self::Connection(reply) => tell(reply, false),
        }
    }
}

/// The other side may have gone; then nobody needs to know.
fn tell<T>(reply: oneshot::Sender<T>, what: T) {
    let _ = reply.send(what);
}
