//! A client that asks call by call over a generated stub: each attempt is a question, which tells
//! the end of the attempt before, and the last end is reported by itself.

use std::time::Duration;

use bytes::Bytes;
use holdoff_client::{
    OutcomeKind, Safety,
    proto::{
        self, AcquireRequest, Caller, Grant, PermitResult, Previous, ReportEntry, ReportRequest,
        acquire_response::Verdict, coordinator_service_client::CoordinatorServiceClient,
        previous::MadeUnder, report_entry::Entry,
    },
};
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};

use super::{
    super::{exit::Failure, span},
    dependency::End,
    fleet::{DEPENDENCY, Service, World, time_to_ask_again},
};

/// The longest that an answer is waited for.
const ANSWER: Duration = Duration::from_secs(1);

/// One instance.
#[derive(Debug)]
pub struct Unary {
    stub: CoordinatorServiceClient<Channel>,
    service: Service,
    caller: Caller,
}

/// What was answered.
enum Answer {
    Granted(Grant),
    /// With the time to ask again, where asking again makes sense.
    Denied(Option<Duration>),
    /// Nothing was decided.
    Nothing,
}

impl Unary {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// [`Failure::Usage`] for what is no address.
    pub fn new(url: &str, service: Service, instance: String) -> Result<Self, Failure> {
        let endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(|error| Failure::Usage(format!("{url}: {error}")))?;
        let channel = endpoint.timeout(ANSWER).connect_lazy();
        Ok(Self {
            stub: CoordinatorServiceClient::new(channel),
            service,
            caller: Caller {
                service: service.name.to_owned(),
                instance,
            },
        })
    }

    /// One call with all its attempts; whether it succeeded.
    pub async fn call(&mut self, world: &World) -> bool {
        let begun = Instant::now();
        let mut request = self.first();
        loop {
            let grant = match self.usable(world, &mut request, begun).await {
                Answer::Granted(grant) => grant,
                Answer::Denied(retry_after) => {
                    match time_to_ask_again(self.service, begun, retry_after) {
                        Some(wait) => {
                            sleep(wait).await;
                            request = self.first();
                            continue;
                        }
                        None => return false,
                    }
                }
                Answer::Nothing => return false,
            };
            let end = world.dependency.call().await;
            let outcome = on_wire(end);
            if end.kind == OutcomeKind::Success {
                self.report(grant.permit, outcome).await;
                return true;
            }
            request.attempt += 1;
            request.previous = Some(Previous {
                made_under: Some(MadeUnder::Permit(grant.permit)),
                outcome: Some(outcome),
            });
        }
    }

    fn first(&self) -> AcquireRequest {
        let safety = match self.service.safety {
            Safety::Unsafe => proto::Safety::Unsafe,
            Safety::Idempotent => proto::Safety::Idempotent,
            Safety::Keyed => proto::Safety::Keyed,
        };
        AcquireRequest {
            dependency: DEPENDENCY.to_owned(),
            caller: Some(self.caller.clone()),
            attempt: 1,
            safety: safety.into(),
            ..AcquireRequest::default()
        }
    }

    /// Asks, waits for the place, and confirms it where the grant says so.
    async fn usable(
        &mut self,
        world: &World,
        request: &mut AcquireRequest,
        begun: Instant,
    ) -> Answer {
        let mut answer = self.ask(world, request, begun).await;
        if let Answer::Granted(grant) = &answer {
            let delay = delay_of(grant);
            world.granted(request.attempt, delay, grant.probe);
        }
        loop {
            let grant = match answer {
                Answer::Granted(grant) => grant,
                Answer::Denied(_) | Answer::Nothing => return answer,
            };
            sleep(delay_of(&grant)).await;
            if !grant.confirm {
                return Answer::Granted(grant);
            }
            let confirming = AcquireRequest {
                confirm: grant.permit,
                previous: None,
                ..request.clone()
            };
            answer = self.ask(world, &confirming, begun).await;
        }
    }

    async fn ask(&mut self, world: &World, request: &AcquireRequest, begun: Instant) -> Answer {
        let left = self.service.deadline.saturating_sub(begun.elapsed());
        let request = AcquireRequest {
            time_left: Some(span::to_wire(left)),
            ..request.clone()
        };
        let Ok(response) = self.stub.acquire(request).await else {
            return Answer::Nothing;
        };
        match response.into_inner().verdict {
            Some(Verdict::Grant(grant)) => Answer::Granted(grant),
            Some(Verdict::Denial(denial)) => {
                world.denied(denial.reason().into());
                Answer::Denied(denial.retry_after.as_ref().map(span::from_wire))
            }
            None => Answer::Nothing,
        }
    }

    async fn report(&mut self, permit: Bytes, outcome: proto::Outcome) {
        let result = PermitResult {
            permit,
            outcome: Some(outcome),
        };
        let request = ReportRequest {
            caller: Some(self.caller.clone()),
            entries: vec![ReportEntry {
                entry: Some(Entry::Result(result)),
            }],
            ..ReportRequest::default()
        };
        // Lost, it counts as silence when the permit ends; the call has succeeded all the same.
        drop(self.stub.report(request).await);
    }
}

fn delay_of(grant: &Grant) -> Duration {
    grant.delay.as_ref().map_or(Duration::ZERO, span::from_wire)
}

fn on_wire(end: End) -> proto::Outcome {
    let kind = match end.kind {
        OutcomeKind::Success => proto::OutcomeKind::Success,
        OutcomeKind::Failure => proto::OutcomeKind::Failure,
        OutcomeKind::Timeout => proto::OutcomeKind::Timeout,
        OutcomeKind::NotSent => proto::OutcomeKind::NotSent,
        OutcomeKind::Throttled => proto::OutcomeKind::Throttled,
        OutcomeKind::Rejected => proto::OutcomeKind::Rejected,
        OutcomeKind::Ignored => proto::OutcomeKind::Ignored,
        OutcomeKind::Cancelled => proto::OutcomeKind::Cancelled,
    };
    proto::Outcome {
        kind: kind.into(),
        latency: Some(span::to_wire(end.latency)),
        pushback: end.retry_after.map(span::to_wire),
        status_code: end.status,
        ..proto::Outcome::default()
    }
}
