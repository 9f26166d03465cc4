//! Who decides: the service where it answers in time, else the same rules on a small
//! scale, here. A service that is down or slow costs one short wait a question, never the
//! command.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use holdoff_client::proto::{
    AcquireRequest, AcquireResponse, Caller, Outcome, OutcomeKind, PermitResult, Previous,
    ReportEntry, ReportRequest, Safety, acquire_response::Verdict,
    coordinator_service_client::CoordinatorServiceClient, previous::MadeUnder, report_entry::Entry,
};
use holdoff_decision::policy::{MaxAttempts, Policy, Retry};
use tokio::time::timeout;
use tonic::transport::Channel;

use super::super::{
    connection::root_cause,
    escape::escape,
    exit::{Failure, code_name},
    span, words,
};

/// What is asked before an attempt.
#[derive(Clone, Debug)]
pub struct Question {
    pub attempt: u32,
    /// The attempt before, for an attempt of 2 or more.
    pub previous: Option<End>,
    pub time_left: Option<Duration>,
    /// A permit to be confirmed just before the call.
    pub confirm: Option<Bytes>,
}

/// How an attempt ended, and under what it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// `None`: it was decided without the service.
    pub permit: Option<Bytes>,
    pub outcome: Outcome,
}

/// May the attempt be made?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Go(Go),
    Stop(Stop),
}

/// Yes, after the delay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Go {
    pub delay: Duration,
    pub permit: Option<Bytes>,
    /// Ask once more with the permit, after the delay.
    pub confirm: bool,
}

/// No.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub reason: String,
    pub detail: String,
    /// When asking again makes sense; `None`: never.
    pub retry_after: Option<Duration>,
}

/// Answers before attempts, and takes what became of them.
pub trait Coordination {
    fn acquire(&mut self, question: Question) -> impl Future<Output = Answer>;
    fn report(&mut self, end: End) -> impl Future<Output = ()>;
}

/// Who asks, about what.
#[derive(Clone, Debug)]
pub struct Subject {
    pub namespace: String,
    pub dependency: String,
    pub caller: Caller,
    pub safety: Safety,
    pub call_id: String,
}

/// The service, with the local rules behind it.
#[derive(Debug)]
pub struct Service {
    pub client: CoordinatorServiceClient<Channel>,
    pub subject: Subject,
    /// How long an answer may take, a connection included.
    pub patience: Duration,
    /// Where the first missing decision is told.
    pub notice: fn(&str),
    told: bool,
}

impl Service {
    pub fn new(
        client: CoordinatorServiceClient<Channel>,
        subject: Subject,
        patience: Duration,
        notice: fn(&str),
    ) -> Self {
        Self {
            client,
            subject,
            patience,
            notice,
            told: false,
        }
    }

    async fn ask(&mut self, question: &Question) -> Result<Answer, String> {
        let request = request(&self.subject, question);
        let asked = timeout(self.patience, self.client.acquire(request)).await;
        let response = match asked {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => {
                let code = code_name(status.code());
                let cause = match std::error::Error::source(&status) {
                    Some(source) => root_cause(source),
                    None => status.message().to_owned(),
                };
                return Err(format!("{code}: {}", escape(&cause)));
            }
            Err(_) => return Err(format!("no answer within {}", span::human(self.patience))),
        };
        answer(response).ok_or_else(|| "an answer that decides nothing".to_owned())
    }

    fn tell(&mut self, cause: &str) {
        if !self.told {
            self.told = true;
            (self.notice)(&format!(
                "no decision from the service ({cause}); going on without it"
            ));
        }
    }
}

impl Coordination for Service {
    async fn acquire(&mut self, question: Question) -> Answer {
        match self.ask(&question).await {
            Ok(answer) => answer,
            Err(cause) => {
                self.tell(&cause);
                locally(&question, self.subject.safety, rand::random())
            }
        }
    }

    async fn report(&mut self, end: End) {
        let Some(permit) = end.permit else { return };
        let result = PermitResult {
            permit,
            outcome: Some(end.outcome),
        };
        let request = ReportRequest {
            namespace: self.subject.namespace.clone(),
            caller: Some(self.subject.caller.clone()),
            entries: vec![ReportEntry {
                entry: Some(Entry::Result(result)),
            }],
            sequence: 0,
        };
        // A report that is lost counts as silence; there is nothing better to do with it.
        let _ = timeout(self.patience, self.client.report(request)).await;
    }
}

fn request(subject: &Subject, question: &Question) -> AcquireRequest {
    let previous = question.previous.clone().map(|end| Previous {
        made_under: Some(end.permit.map_or(MadeUnder::Epoch(0), MadeUnder::Permit)),
        outcome: Some(end.outcome),
    });
    AcquireRequest {
        namespace: subject.namespace.clone(),
        dependency: subject.dependency.clone(),
        caller: Some(subject.caller.clone()),
        attempt: question.attempt,
        safety: subject.safety.into(),
        time_left: question.time_left.map(span::to_wire),
        previous: if question.confirm.is_some() {
            None
        } else {
            previous
        },
        confirm: question.confirm.clone().unwrap_or_default(),
        call_id: subject.call_id.clone(),
        ..AcquireRequest::default()
    }
}

fn answer(response: AcquireResponse) -> Option<Answer> {
    let wait = |wire: &prost_types::Duration| span::from_wire(wire);
    Some(match response.verdict? {
        Verdict::Grant(grant) => Answer::Go(Go {
            delay: grant.delay.as_ref().map(wait).unwrap_or_default(),
            permit: Some(grant.permit),
            confirm: grant.confirm,
        }),
        Verdict::Denial(denial) => Answer::Stop(Stop {
            reason: words::reason(denial.reason),
            detail: escape(&denial.detail).into_owned(),
            retry_after: denial.retry_after.as_ref().map(wait),
        }),
    })
}

/// The rules that one process can hold alone, by the built-in policy: what may be retried,
/// how often, and a jittered delay. Breaker and budget are the fleet's and need the service.
///
/// `sample` is uniform in [0, 1).
pub fn locally(question: &Question, safety: Safety, sample: f64) -> Answer {
    let policy = Policy::default();
    let Some(previous) = &question.previous else {
        return Answer::Go(Go::default());
    };
    if let Some(stop) = final_no(question.attempt, previous.outcome.kind(), safety, &policy) {
        return Answer::Stop(stop);
    }
    let retry = question.attempt.saturating_sub(1);
    let backoff = ceiling(retry, &policy.retry).mul_f64(sample);
    let pushback = previous.outcome.pushback.as_ref().map(span::from_wire);
    let longest = Duration::from_nanos(policy.pushback.max.0);
    if let Some(wait) = pushback.filter(|wait| *wait > longest) {
        let detail = format!(
            "it asked for {}; {} are allowed",
            span::human(wait),
            span::human(longest)
        );
        return Answer::Stop(Stop::finally("PUSHBACK_TOO_LONG", detail));
    }
    // A pushback is a floor, and those that were told the same time are spread after it.
    let spread = Duration::from_nanos(policy.pushback.spread.0).mul_f64(sample);
    let delay = pushback.map_or(backoff, |floor| floor.max(backoff) + spread);
    if question.time_left.is_some_and(|left| delay >= left) {
        let detail = format!("the next attempt would begin in {}", span::human(delay));
        return Answer::Stop(Stop::finally("DEADLINE", detail));
    }
    Answer::Go(Go {
        delay,
        ..Go::default()
    })
}

fn final_no(attempt: u32, kind: OutcomeKind, safety: Safety, policy: &Policy) -> Option<Stop> {
    match kind {
        OutcomeKind::Rejected | OutcomeKind::Ignored | OutcomeKind::Cancelled => {
            let detail = "the outcome before is none that a retry can mend";
            return Some(Stop::finally("NOT_RETRYABLE", detail.to_owned()));
        }
        OutcomeKind::Unspecified
        | OutcomeKind::Success
        | OutcomeKind::Failure
        | OutcomeKind::Timeout
        | OutcomeKind::NotSent
        | OutcomeKind::Throttled => {}
    }
    if let MaxAttempts::Limited(limit) = policy.retry.max_attempts
        && attempt > limit
    {
        let detail = format!("{limit} attempts are allowed");
        return Some(Stop::finally("ATTEMPTS_EXHAUSTED", detail));
    }
    let safe = matches!(safety, Safety::Idempotent | Safety::Keyed);
    if !safe && kind != OutcomeKind::NotSent {
        let detail = "it may have been executed, and it is not said to be --idempotent";
        return Some(Stop::finally("RETRY_UNSAFE", detail.to_owned()));
    }
    None
}

/// initial · 2^(retry − 1), at most the longest delay.
fn ceiling(retry: u32, policy: &Retry) -> Duration {
    let doublings = retry.saturating_sub(1).min(30);
    let nanos = policy.initial_delay.0.saturating_mul(1 << doublings);
    Duration::from_nanos(nanos.min(policy.max_delay.0))
}

impl Stop {
    fn finally(reason: &str, detail: String) -> Self {
        Self {
            reason: reason.to_owned(),
            detail,
            retry_after: None,
        }
    }
}

/// # Errors
/// [`Failure::Usage`] for what cannot be the name of a dependency.
pub fn check_name(name: &str) -> Result<(), Failure> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:@-".contains(&byte);
    if (1..=200).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "dependency {:?}: must be 1 to 200 bytes of ASCII letters, digits and . _ / : @ -",
        escape(name)
    )))
}
