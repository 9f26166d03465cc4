//! Envoy's rate-limit protocol (`envoy.service.ratelimit.v3`): descriptors are calls of
//! dependencies, and a denial is OVER_LIMIT.
//!
//! OVER_LIMIT is only ever a rule's answer. What cannot be read, has no namespace, finds no room
//! or fails is a gRPC error, and Envoy does with the call what `failure_mode_deny` says.
//!
//! A descriptor that tells how a call ended is no question: its entries carry the permit that
//! the question's answer put into Envoy's dynamic metadata, and what became of the call.

mod answer;
mod outcome;
mod read;

use std::sync::Arc;

use tonic::{Request, Response, Status};

use self::read::{Descriptor, Meant};
use super::{admission::Guard, status};
use crate::{
    access::{Access, Method, Peer},
    clock,
    coordinator::{Allowance, Caller, Coordinator, Entry, Hits, Key, Passage, Passed, Refusal},
    proto::ratelimit::envoy::service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse, rate_limit_response::Code,
        rate_limit_service_server::RateLimitService,
    },
    store::Store,
    telemetry::{ENVOY, attribute},
};

/// Who asks where a descriptor does not say.
const SERVICE: &str = "envoy";

/// See the module.
#[derive(Debug)]
pub struct EnvoyHandler<S> {
    coordinator: Arc<Coordinator<S>>,
    access: Arc<Access>,
}

impl<S> EnvoyHandler<S> {
    pub fn new(coordinator: Arc<Coordinator<S>>, access: Arc<Access>) -> Self {
        Self {
            coordinator,
            access,
        }
    }
}

#[tonic::async_trait]
impl<S: Store> RateLimitService for EnvoyHandler<S> {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let peer = request.extensions().get::<Peer>().and_then(Peer::address);
        let peer = peer.map(|peer| peer.ip().to_string());
        let headers = request.metadata().as_ref();
        let mut span = self.coordinator.telemetry().span(ENVOY, Some(headers));
        let guard = Guard::of(&self.access, request.extensions());
        let answered = async {
            let (guard, domain) = (guard?, read::domain(&request.get_ref().domain));
            let namespace = domain.map_err(|refusal| status::of(&refusal))?;
            guard.admit(Method::ShouldRateLimit, namespace)?;
            self.answer(namespace, request.get_ref(), &peer.unwrap_or_default())
                .await
                .map_err(|refusal| status::of(&refusal))
        };
        let answered = answered.await;
        if span.is_wanted() {
            span.set(attribute::SYSTEM, attribute::GRPC);
            span.set(attribute::METHOD, ENVOY);
            if let Ok(answer) = &answered {
                let denied = answer.overall_code() == Code::OverLimit;
                span.set(attribute::NAMESPACE, request.get_ref().domain.clone());
                span.set(
                    attribute::VERDICT,
                    if denied { "denied" } else { "granted" },
                );
            }
            span.end(answered.as_ref().map(|_| ()));
        }
        answered.map(Response::new)
    }
}

/// What one descriptor came to.
#[derive(Clone, Debug)]
pub enum CameTo {
    /// No rule is for it, or it was no question.
    Nothing,
    /// It was counted without a question.
    Counted(Option<Allowance>),
    /// It was a question about this dependency: its place among those that were asked about.
    Asked(usize),
}

/// A dependency that was asked about, and the answer.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub dependency: &'a str,
    pub passed: &'a Passed,
}

impl<S: Store> EnvoyHandler<S> {
    async fn answer(
        &self,
        namespace: &str,
        request: &RateLimitRequest,
        peer: &str,
    ) -> Result<RateLimitResponse, Refusal> {
        let named = |entries: &[(&str, &str)]| self.coordinator.dependency_of(namespace, entries);
        let wall = clock::of_wall(self.coordinator.wall_now()).0 / 1_000_000_000;
        let descriptors = read::descriptors(request, named, wall)?;
        let (passages, places) = passages(namespace, &descriptors, peer);
        let mut came_to = Vec::with_capacity(descriptors.len());
        for (descriptor, place) in descriptors.iter().zip(places) {
            came_to.push(match place {
                Some(place) => CameTo::Asked(place),
                None => self.count(namespace, descriptor, peer).await?,
            });
        }
        // Last: nothing that comes after it can fail, so what is charged is also answered.
        let passed = self.coordinator.pass(&passages).await?;
        let asked: Vec<Asked<'_>> = passages
            .iter()
            .zip(&passed)
            .map(|(passage, passed)| Asked {
                dependency: passage.key.dependency,
                passed,
            })
            .collect();
        Ok(answer::response(&asked, &came_to))
    }

    /// Takes a descriptor that is no question.
    async fn count(
        &self,
        namespace: &str,
        descriptor: &Descriptor<'_>,
        peer: &str,
    ) -> Result<CameTo, Refusal> {
        let caller = caller(descriptor, peer);
        if let Meant::Report(permit, outcome) = &descriptor.meant {
            let entry = [Entry::Permit(permit, *outcome)];
            self.coordinator
                .report(namespace, caller, &entry, 0)
                .await?;
        }
        let hits = match (&descriptor.meant, descriptor.hits) {
            (Meant::Report(..), Hits::Taken(0)) => None,
            (Meant::Report(..) | Meant::Refund, hits) => Some(hits),
            (Meant::Question(..), _) => None,
        };
        let (Some(dependency), Some(hits)) = (&descriptor.dependency, hits) else {
            return Ok(CameTo::Nothing);
        };
        let key = Key {
            namespace,
            dependency,
        };
        let limit = descriptor.limit.as_ref();
        let allowance = self.coordinator.count_hits(key, caller, hits, limit);
        Ok(CameTo::Counted(allowance.await?))
    }
}

/// The questions of a request, each dependency once, and the place among them of each descriptor
/// that is one. Two descriptors of one dependency are one call: it takes what the greater says.
fn passages<'a>(
    namespace: &'a str,
    descriptors: &'a [Descriptor<'a>],
    peer: &'a str,
) -> (Vec<Passage<'a>>, Vec<Option<usize>>) {
    let mut passages: Vec<Passage<'a>> = Vec::new();
    let mut places = Vec::with_capacity(descriptors.len());
    for descriptor in descriptors {
        let question = match (&descriptor.meant, &descriptor.dependency, descriptor.hits) {
            (Meant::Question(attempt, reporting), Some(name), Hits::Taken(cost)) => {
                Some((*attempt, *reporting, name.as_str(), cost))
            }
            _ => None,
        };
        let Some((attempt, reporting, dependency, cost)) = question else {
            places.push(None);
            continue;
        };
        let known = passages
            .iter()
            .position(|passage| passage.key.dependency == dependency);
        places.push(Some(known.unwrap_or(passages.len())));
        match known.and_then(|place| passages.get_mut(place)) {
            Some(passage) => {
                passage.attempt = passage.attempt.max(attempt);
                passage.cost = passage.cost.max(cost);
                passage.reporting = passage.reporting.max(reporting);
                if passage.limit.is_none() {
                    passage.limit.clone_from(&descriptor.limit);
                }
            }
            None => passages.push(Passage {
                key: Key {
                    namespace,
                    dependency,
                },
                caller: caller(descriptor, peer),
                attempt,
                cost,
                limit: descriptor.limit.clone(),
                reporting,
            }),
        }
    }
    (passages, places)
}

fn caller<'a>(descriptor: &Descriptor<'a>, peer: &'a str) -> Caller<'a> {
    Caller {
        service: descriptor.caller.unwrap_or(SERVICE),
        instance: descriptor.instance.unwrap_or(peer),
    }
}
