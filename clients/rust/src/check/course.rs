//! What a checker keeps from one run to the next: the result that is still to be handed over,
//! the schedule without the service, and what has been told already.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use tonic::Code;

use super::{
    APART_MIN, Checker, Finding, Verdict,
    alone::Schedule,
    plan::{self, Next, Planned},
};
use crate::{
    client::{Client, Mode},
    link::NoAnswer,
    proto,
};

/// An answer is waited for no longer than this, or a tenth of the period.
const PLAN_TIMEOUT_MAX: Duration = Duration::from_secs(1);
/// Without an answer, the service is looked for again after so long at most.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Of a client for tests.
const TESTING_RUNS: u64 = 3;

/// `Err(None)`: there is no service to ask.
type Plan = Result<Planned, Option<NoAnswer>>;

/// A run that is due.
pub(super) struct Run {
    pub(super) timeout: Duration,
    /// `None`: the service has not planned it.
    pub(super) permit: Option<Bytes>,
}

/// A run that has ended.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    pub(super) healthy: bool,
    pub(super) timed_out: bool,
    pub(super) took: Duration,
    pub(super) is_local: bool,
}

impl Ended {
    pub(super) fn finding(self, fleet: Option<Verdict>) -> Finding {
        Finding::Ran {
            healthy: self.healthy,
            timed_out: self.timed_out,
            took: self.took,
            is_local: self.is_local,
            fleet,
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    NotPlanned,
    Away,
}

/// What is kept from one run to the next.
pub(super) struct Course {
    schedule: Schedule,
    pub(super) runs: u64,
    waits: bool,
    /// To be handed over with the next question.
    result: Option<proto::CheckResult>,
    /// To be told with the next plan.
    pub(super) ended: Option<Ended>,
    /// It was told that there are no plans.
    without: Option<Without>,
    not_before: Instant,
}

impl Course {
    pub(super) fn new<F>(checker: &Checker<F>) -> Self {
        let waits = !matches!(checker.client.inner().mode, Mode::Testing);
        Self {
            schedule: Schedule::new(checker),
            runs: match waits {
                true => checker.runs,
                false => checker.runs.min(TESTING_RUNS),
            },
            waits,
            result: None,
            ended: None,
            without: None,
            not_before: Instant::now(),
        }
    }

    /// A result is handed over once: asked again without it, the service repeats its plan.
    pub(super) async fn ask(&mut self, client: &Client, dependency: &str) -> Plan {
        let inner = client.inner();
        let Mode::Fleet(link) = &inner.mode else {
            return Err(None);
        };
        let patience = (self.schedule.period() / 10).min(PLAN_TIMEOUT_MAX);
        let patience = patience.max(inner.timeout);
        let result = self.result.take();
        let asked = link.plan_check(dependency, result.clone(), patience);
        let response = asked.await.inspect_err(|why| {
            // It was not sent.
            self.result = result.filter(|_| *why == NoAnswer::Away);
        })?;
        plan::read(response).map_err(|odd| Some(NoAnswer::Failed(Code::Internal, odd.to_string())))
    }

    pub(super) fn note<F>(&mut self, checker: &mut Checker<F>, planned: &Plan) {
        match planned {
            Ok(planned) => {
                self.without = None;
                self.schedule.follow(planned, Instant::now());
                if let Some(shared) = planned.shared() {
                    checker.tell(&shared);
                }
            }
            // There is no service to miss.
            Err(None) => {}
            Err(Some(why)) => self.note_without(checker, why),
        }
    }

    fn note_without<F>(&mut self, checker: &mut Checker<F>, why: &NoAnswer) {
        let (without, finding) = match why {
            NoAnswer::Failed(code, text) if is_refusal(*code) => {
                self.schedule.forget(checker);
                let why = text.chars().take(200).collect();
                (Without::NotPlanned, Finding::NotPlanned { why })
            }
            why => {
                let why = why.to_string().chars().take(200).collect();
                (Without::Away, Finding::Away { why })
            }
        };
        if self.without.replace(without) != Some(without) {
            let dependency = &*checker.dependency;
            tracing::warn!(dependency, ?finding, "health checks go on by themselves");
            checker.tell(&finding);
        }
    }

    /// `None`: ask again.
    pub(super) async fn until_the_next_run(&mut self, planned: Plan) -> Option<Run> {
        let now = Instant::now();
        let (at, run) = match planned.map(|planned| planned.next) {
            Ok(Next::Run {
                delay,
                timeout,
                permit,
            }) => {
                let permit = Some(permit);
                (now + delay, Some(Run { timeout, permit }))
            }
            Ok(Next::Shared { ask_again, .. }) => (now + ask_again, None),
            Err(why) => {
                let (at, timeout) = (self.schedule.after(now), self.schedule.timeout());
                let run = Run {
                    timeout,
                    permit: None,
                };
                match at - now > LOOK_AGAIN && why.is_some() {
                    true => (now + LOOK_AGAIN, None),
                    false => (at, Some(run)),
                }
            }
        };
        if self.waits {
            sleep_until(at.max(self.not_before)).await;
            self.not_before = Instant::now() + APART_MIN;
        }
        run
    }

    pub(super) fn ran(&mut self, run: Run, ended: Ended) {
        let verdict = match ended.healthy {
            true => proto::CheckVerdict::Healthy,
            false => proto::CheckVerdict::Unhealthy,
        };
        self.result = run.permit.map(|permit| proto::CheckResult {
            permit,
            verdict: verdict.into(),
        });
        self.ended = Some(ended);
    }
}

/// Codes by which a service that is well says that it plans nothing here.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::FailedPrecondition
            | Code::Unimplemented
            | Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::Unauthenticated
    )
}
