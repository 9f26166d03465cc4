//! The workers: each sends, waits, counts and sends again until the run is over.
//!
//! With a rate the loop is open: question n is due at n / rate whatever happened to those
//! before, and its latency counts from then. Without one it is closed: the next question
//! goes when an answer came.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use holdoff_client::proto::{
    AcquireRequest, Caller, Outcome, OutcomeKind, PermitResult, ReportEntry, ReportRequest, Safety,
    report_entry::Entry,
};
use http::uri::PathAndQuery;
use prost::Message;
use tokio::{
    sync::{Mutex, mpsc},
    time::{Instant, sleep, sleep_until},
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Status, Streaming, client::Grpc};

use super::{
    super::connection::Route,
    codec::{Field, Fields, Questions, Raw, Verdict, put_bytes, put_number, verdict},
    measure::Measure,
};

const ACQUIRE: PathAndQuery = PathAndQuery::from_static("/holdoff.v1.CoordinatorService/Acquire");
const REPORT: PathAndQuery = PathAndQuery::from_static("/holdoff.v1.CoordinatorService/Report");
const SESSION: PathAndQuery = PathAndQuery::from_static("/holdoff.v1.CoordinatorService/Session");
const HEALTH: PathAndQuery = PathAndQuery::from_static("/grpc.health.v1.Health/Check");

/// A worker whose connection is gone does not ask in a tight loop.
const AFTER_ERROR: Duration = Duration::from_millis(10);

/// What is sent, and how.
#[derive(Clone, Debug)]
pub struct Load {
    pub namespace: String,
    pub mode: Mode,
    pub reports: Reports,
    /// At once on a connection: calls, or batches of a session.
    pub in_flight: u32,
    /// Questions in a message of a session.
    pub batch: u32,
    pub dependencies: u32,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// One Acquire a call.
    Unary,
    /// Batches of Acquire on one stream a connection.
    Session,
    /// grpc.health.v1 Check: the least that the server can do.
    Health,
}

/// Whether each grant is reported as a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    None,
    EachGrant,
}

/// Says when each question is due.
#[derive(Debug)]
pub struct Pacer {
    next: Mutex<Instant>,
    interval: Duration,
}

impl Pacer {
    pub fn new(per_second: f64, start: Instant) -> Self {
        let interval = Duration::from_secs_f64(1.0 / per_second.max(1e-3));
        Self {
            next: Mutex::new(start),
            interval,
        }
    }

    /// Waits for the next one to be due, and says when that was. To drop the future takes
    /// nothing away.
    async fn due(&self) -> Instant {
        let mut next = self.next.lock().await;
        let due = *next;
        // The timer has steps of a millisecond; the rest is waited for by looking again.
        let coarse = due - Duration::from_millis(2).min(due.duration_since(Instant::now()));
        if coarse > Instant::now() {
            sleep_until(coarse).await;
        }
        while Instant::now() < due {
            tokio::task::yield_now().await;
        }
        *next = due + self.interval;
        due
    }
}

/// When the next question goes.
async fn turn(pacer: Option<&Pacer>) -> Instant {
    match pacer {
        Some(pacer) => pacer.due().await,
        None => Instant::now(),
    }
}

/// One connection's workers, until the run is over.
pub async fn connection(
    load: Arc<Load>,
    channel: Route,
    number: u32,
    pacer: Option<Arc<Pacer>>,
    measure: Arc<Measure>,
) {
    if load.mode == Mode::Session {
        while !measure.is_over() {
            if let Err(status) =
                session(&load, channel.clone(), number, pacer.as_deref(), &measure).await
            {
                measure.failed(status.code());
                sleep(AFTER_ERROR).await;
            }
        }
        return;
    }
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..load.in_flight {
        let seed = number * load.in_flight + worker + 1;
        let questions = questions(&load, number, seed);
        let (load, pacer) = (Arc::clone(&load), pacer.clone());
        let (channel, measure) = (channel.clone(), Arc::clone(&measure));
        workers.spawn(async move {
            calls(&load, channel, questions, pacer.as_deref(), &measure).await;
        });
    }
    while workers.join_next().await.is_some() {}
}

fn caller(number: u32) -> Caller {
    Caller {
        service: "bench".to_owned(),
        instance: format!("bench-{number}"),
    }
}

fn questions(load: &Load, number: u32, seed: u32) -> Questions {
    let fixed = AcquireRequest {
        namespace: load.namespace.clone(),
        caller: Some(caller(number)),
        attempt: 1,
        safety: Safety::Idempotent.into(),
        ..AcquireRequest::default()
    };
    Questions::new(&fixed, load.dependencies, seed)
}

async fn calls(
    load: &Load,
    channel: Route,
    mut questions: Questions,
    pacer: Option<&Pacer>,
    measure: &Measure,
) {
    let mut grpc = Grpc::new(channel);
    while !measure.is_over() {
        let due = turn(pacer).await;
        let (path, message) = match load.mode {
            Mode::Health => (HEALTH, Bytes::new()),
            Mode::Unary | Mode::Session => {
                let mut message = BytesMut::with_capacity(questions.size());
                questions.put(&mut message);
                (ACQUIRE, message.freeze())
            }
        };
        match call(&mut grpc, path, message).await {
            Err(status) => {
                measure.failed(status.code());
                sleep(AFTER_ERROR).await;
            }
            Ok(_) if load.mode == Mode::Health => {
                measure.answered(due, std::iter::once(Verdict::Nothing));
            }
            Ok(answer) => {
                let verdict = verdict(&answer);
                measure.answered(due, std::iter::once(verdict));
                if let (Reports::EachGrant, Verdict::Granted(permit)) = (load.reports, verdict) {
                    report(&mut grpc, load, permit, measure).await;
                }
            }
        }
    }
}

async fn call(grpc: &mut Grpc<Route>, path: PathAndQuery, message: Bytes) -> Result<Bytes, Status> {
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let response = grpc.unary(Request::new(message), path, Raw).await?;
    Ok(response.into_inner())
}

async fn report(grpc: &mut Grpc<Route>, load: &Load, permit: &[u8], measure: &Measure) {
    let request = successes(load, std::iter::once(permit));
    match call(grpc, REPORT, request.encode_to_vec().into()).await {
        Ok(_) => measure.reported(1),
        Err(status) => measure.failed(status.code()),
    }
}

fn successes<'a>(load: &Load, permits: impl Iterator<Item = &'a [u8]>) -> ReportRequest {
    let outcome = Outcome {
        kind: OutcomeKind::Success.into(),
        ..Outcome::default()
    };
    let entry = |permit: &[u8]| ReportEntry {
        entry: Some(Entry::Result(PermitResult {
            permit: Bytes::copy_from_slice(permit),
            outcome: Some(outcome),
        })),
    };
    ReportRequest {
        namespace: load.namespace.clone(),
        caller: None,
        entries: permits.map(entry).collect(),
        sequence: 0,
    }
}

/// The ids of reports have this bit; those of batches are their slot.
const REPORT_BIT: u64 = 1 << 40;

async fn session(
    load: &Load,
    channel: Route,
    number: u32,
    pacer: Option<&Pacer>,
    measure: &Measure,
) -> Result<(), Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let (sender, receiver) = mpsc::unbounded_channel();
    let outgoing = Request::new(UnboundedReceiverStream::new(receiver));
    let mut slots = Slots {
        questions: questions(load, number, number + 1),
        batch: load.batch,
        sender,
        sent: vec![None; load.in_flight as usize],
        free: (0..load.in_flight).rev().collect(),
    };
    // Some servers answer the call only once something was asked.
    if pacer.is_none() {
        while slots.send(Instant::now()) {}
    } else {
        slots.send(turn(pacer).await);
    }
    let mut answers: Streaming<Bytes> = grpc.streaming(outgoing, SESSION, Raw).await?.into_inner();
    loop {
        tokio::select! {
            answer = answers.message() => {
                let answer = answer?.ok_or_else(|| Status::unavailable("the stream ended"))?;
                slots.take(load, &answer, measure);
                if measure.is_over() {
                    return Ok(());
                }
                if pacer.is_none() {
                    while slots.send(Instant::now()) {}
                }
            }
            due = turn(pacer), if pacer.is_some() && !slots.free.is_empty() => {
                slots.send(due);
            }
            () = sleep_until(measure.until) => return Ok(()),
        }
    }
}

/// The batches of one session that are on their way.
struct Slots {
    questions: Questions,
    batch: u32,
    sender: mpsc::UnboundedSender<Bytes>,
    /// When the batch of a slot was due.
    sent: Vec<Option<Instant>>,
    free: Vec<u32>,
}

impl Slots {
    /// Sends a batch where a slot is free.
    fn send(&mut self, due: Instant) -> bool {
        let Some(slot) = self.free.pop() else {
            return false;
        };
        let mut batch = BytesMut::with_capacity((self.questions.size() + 4) * self.batch as usize);
        let mut question = BytesMut::with_capacity(self.questions.size());
        for _ in 0..self.batch {
            question.clear();
            self.questions.put(&mut question);
            put_bytes(&mut batch, 1, &question);
        }
        if let Some(sent) = self.sent.get_mut(slot as usize) {
            *sent = Some(due);
        }
        self.put(u64::from(slot) + 1, ACQUIRE_FIELD, &batch)
    }

    fn put(&self, id: u64, tag: u32, message: &[u8]) -> bool {
        let mut bytes = BytesMut::with_capacity(message.len() + 24);
        put_number(&mut bytes, 1, id);
        put_bytes(&mut bytes, tag, message);
        self.sender.send(bytes.freeze()).is_ok()
    }

    /// Counts one answer, frees its slot, and reports what was granted.
    fn take(&mut self, load: &Load, answer: &[u8], measure: &Measure) {
        let answer = Answer::read(answer);
        if let Some(results) = answer.reported {
            measure.reported(Fields(results).count() as u64);
        }
        if let Some(status) = answer.refused {
            measure.failed(code(status));
        }
        if answer.id == 0 || answer.id & REPORT_BIT != 0 {
            return;
        }
        let due = self.release(answer.id);
        let (Some(items), Some(due)) = (answer.acquired, due) else {
            return;
        };
        let mut permits = Vec::new();
        let verdicts = Fields(items).filter_map(|field| item(field, measure));
        let kept = verdicts.inspect(|verdict| {
            if let (Reports::EachGrant, Verdict::Granted(permit)) = (load.reports, verdict) {
                permits.push(*permit);
            }
        });
        measure.answered(due, kept);
        if !permits.is_empty() {
            let request = successes(load, permits.into_iter());
            self.put(
                answer.id | REPORT_BIT,
                REPORT_FIELD,
                &request.encode_to_vec(),
            );
        }
    }

    fn release(&mut self, id: u64) -> Option<Instant> {
        let slot = u32::try_from(id - 1).ok()?;
        let due = self.sent.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(due)
    }
}

/// One `SessionResponse`, its parts still encoded.
#[derive(Clone, Copy, Debug, Default)]
struct Answer<'a> {
    id: u64,
    acquired: Option<&'a [u8]>,
    reported: Option<&'a [u8]>,
    refused: Option<&'a [u8]>,
}

impl<'a> Answer<'a> {
    fn read(message: &'a [u8]) -> Self {
        let mut answer = Self::default();
        for field in Fields(message) {
            match field {
                Field::Number(1, number) => answer.id = number,
                Field::Bytes(2, items) => answer.acquired = Some(items),
                Field::Bytes(3, results) => answer.reported = Some(results),
                Field::Bytes(5, status) => answer.refused = Some(status),
                Field::Number(..) | Field::Bytes(..) => {}
            }
        }
        answer
    }
}

/// `SessionRequest.acquire` and `SessionRequest.report`.
const ACQUIRE_FIELD: u32 = 4;
const REPORT_FIELD: u32 = 5;

fn item<'a>(field: Field<'a>, measure: &Measure) -> Option<Verdict<'a>> {
    let Field::Bytes(1, item) = field else {
        return None;
    };
    match Fields(item).next() {
        Some(Field::Bytes(1, response)) => Some(verdict(response)),
        Some(Field::Bytes(2, status)) => {
            measure.failed(code(status));
            None
        }
        Some(Field::Bytes(..) | Field::Number(..)) | None => None,
    }
}

/// The code of an encoded `google.rpc.Status`.
fn code(status: &[u8]) -> tonic::Code {
    let number = Fields(status).find_map(|field| match field {
        Field::Number(1, number) => i32::try_from(number).ok(),
        Field::Number(..) | Field::Bytes(..) => None,
    });
    tonic::Code::from_i32(number.unwrap_or(2))
}
