//! The RPCs of operators.

mod asked;
mod audit;
mod candidates;
mod checked;
mod entered;
mod happenings;

use std::{future::Future, sync::Arc};

use tokio::sync::watch::Receiver;
use tonic::{Request, Response, Status};

use self::asked::{actor, after_policy, key, page_size, policy_token, selector};
use super::{
    admission::Guard,
    ending::{Ending, Leaving},
    read, shown, status, watch,
};
use crate::{
    access::{Access, Place, Watcher},
    coordinator::{Coordinator, Filter, Refusal, Shown},
    durable::DurableError,
    proto::{self, operator_service_server::OperatorService},
    store::Store,
};

/// A page is cut short where it would be larger, so that every client can read it.
const PAGE_BYTES: usize = super::ANSWER_MAX / 2;
const DOCUMENT_MAX: usize = 64 * 1024;
const FILE_MAX: usize = 200 * 1024;
/// Parts that the calendar ahead is told in.
const CALENDAR_PARTS: usize = 30;

/// See the module.
#[derive(Debug)]
pub struct OperatorHandler<S> {
    coordinator: Arc<Coordinator<S>>,
    access: Arc<Access>,
    stopped: Receiver<bool>,
}

impl<S> OperatorHandler<S> {
    pub fn new(
        coordinator: Arc<Coordinator<S>>,
        access: Arc<Access>,
        stopped: Receiver<bool>,
    ) -> Self {
        Self {
            coordinator,
            access,
            stopped,
        }
    }

    /// What a stream takes from its request, before that is read.
    fn lasting(&self, extensions: &http::Extensions) -> Result<Lasting, Status> {
        let guard = Guard::of(&self.access, extensions)?;
        Ok(Lasting {
            leaving: extensions.get::<Leaving>().cloned(),
            place: guard.watch(extensions)?,
        })
    }

    fn ending<Inner>(&self, inner: Inner, guard: &Guard<'_>, lasting: Lasting) -> Ending<Inner> {
        let Lasting { leaving, place } = lasting;
        Ending::new(inner, self.stopped.clone(), leaving, guard.lapse()).holding(place)
    }
}

/// A stream that somebody looks at.
struct Lasting {
    leaving: Option<Leaving>,
    place: Option<Place<Watcher>>,
}

type Answer<T> = Result<Response<T>, Status>;

fn answer<T>(result: Result<T, Refusal>) -> Answer<T> {
    result
        .map(Response::new)
        .map_err(|refusal| status::of(&refusal))
}

/// Carries a change through even when its caller goes away half-way: what is on record must
/// also be in force.
async fn carried_through<T: Send + 'static>(
    change: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    // It only ends early with the whole service.
    let carried = tokio::spawn(change).await;
    carried.unwrap_or(Err(Refusal::Durable(DurableError::Closed)))
}

fn shown_now(shown: &Shown) -> Option<proto::Dependency> {
    Some(shown::dependency(shown))
}

#[tonic::async_trait]
impl<S: Store> OperatorService for OperatorHandler<S> {
    type WatchDependenciesStream = Ending<watch::Changes>;
    type WatchEventsStream = Ending<watch::EventsSeen>;

    async fn list_dependencies(
        &self,
        request: Request<proto::ListDependenciesRequest>,
    ) -> Answer<proto::ListDependenciesResponse> {
        let (request, _) = self.enter(request)?;
        answer(self.list(&request).await)
    }

    async fn get_dependency(
        &self,
        request: Request<proto::GetDependencyRequest>,
    ) -> Answer<proto::GetDependencyResponse> {
        let (request, _) = self.enter(request)?;
        let shown = async {
            let key = key(&request.namespace, &request.dependency)?;
            let mut dependency = shown::dependency(&self.coordinator.get(key).await?);
            if request.follow {
                let followed = self.coordinator.follow(key, CALENDAR_PARTS).await;
                dependency.followed = Some(shown::followed(followed));
            }
            Ok(proto::GetDependencyResponse {
                dependency: Some(dependency),
            })
        };
        answer(shown.await)
    }

    async fn watch_dependencies(
        &self,
        request: Request<proto::WatchDependenciesRequest>,
    ) -> Answer<Self::WatchDependenciesStream> {
        let lasting = self.lasting(request.extensions())?;
        let (request, guard) = self.enter(request)?;
        let proto::WatchDependenciesRequest {
            namespace,
            name_prefix,
        } = request;
        let checked = self.existing(&namespace).map(str::to_owned);
        let coordinator = Arc::clone(&self.coordinator);
        answer(checked.map(|namespace| {
            let changes = watch::dependencies(coordinator, namespace, name_prefix);
            self.ending(changes, &guard, lasting)
        }))
    }

    async fn watch_events(
        &self,
        request: Request<proto::WatchEventsRequest>,
    ) -> Answer<Self::WatchEventsStream> {
        let lasting = self.lasting(request.extensions())?;
        let (request, guard) = self.enter(request)?;
        let checked = self.event_filter(
            &guard,
            &request.namespace,
            &request.dependency,
            request.since.as_ref(),
        );
        answer(checked.map(|(wanted, since)| {
            let replayed = wanted.clone();
            let events = watch::events(
                Arc::clone(&self.coordinator),
                // Without a span only what is to come is wanted.
                move |event| {
                    since.is_some_and(|since| event.time >= since) && replayed.wants(event)
                },
                move |event| wanted.wants(event),
            );
            self.ending(events, &guard, lasting)
        }))
    }

    async fn list_events(
        &self,
        request: Request<proto::ListEventsRequest>,
    ) -> Answer<proto::ListEventsResponse> {
        let (request, guard) = self.enter(request)?;
        // Whoever asks two replicas one after the other sees the same at both.
        Box::pin(self.coordinator.catch_up_with_events()).await;
        let listed = page_size(request.page_size).and_then(|size| {
            let (wanted, since) = self.event_filter(
                &guard,
                &request.namespace,
                &request.dependency,
                request.since.as_ref(),
            )?;
            let (past, _) = self.coordinator.events().listen(|event| {
                since.is_none_or(|since| event.time >= since) && wanted.wants(event)
            });
            let newest = past.iter().rev().take(size).map(shown::event);
            let (mut events, _) = fitting(newest);
            events.reverse();
            Ok(proto::ListEventsResponse { events })
        });
        answer(listed)
    }

    async fn set_override(
        &self,
        request: Request<proto::SetOverrideRequest>,
    ) -> Answer<proto::SetOverrideResponse> {
        let (request, coordinator) = self.enter_change(request)?;
        let forced = carried_through(force(coordinator, request)).await;
        answer(forced.map(|shown| proto::SetOverrideResponse {
            dependency: shown_now(&shown),
        }))
    }

    async fn clear_override(
        &self,
        request: Request<proto::ClearOverrideRequest>,
    ) -> Answer<proto::ClearOverrideResponse> {
        let (request, coordinator) = self.enter_change(request)?;
        let changed = carried_through(async move {
            let key = key(&request.namespace, &request.dependency)?;
            let actor = actor(&request.owner, &request.reason)?;
            coordinator.clear_override(key, actor).await
        });
        answer(changed.await.map(|shown| proto::ClearOverrideResponse {
            dependency: shown_now(&shown),
        }))
    }

    async fn reset_dependency(
        &self,
        request: Request<proto::ResetDependencyRequest>,
    ) -> Answer<proto::ResetDependencyResponse> {
        let (request, coordinator) = self.enter_change(request)?;
        let changed = carried_through(async move {
            let key = key(&request.namespace, &request.dependency)?;
            let actor = actor(&request.owner, &request.reason)?;
            coordinator.reset(key, actor).await
        });
        answer(changed.await.map(|shown| proto::ResetDependencyResponse {
            dependency: shown_now(&shown),
        }))
    }

    async fn clear_hold(
        &self,
        request: Request<proto::ClearHoldRequest>,
    ) -> Answer<proto::ClearHoldResponse> {
        let (request, coordinator) = self.enter_change(request)?;
        let changed = carried_through(async move {
            let key = key(&request.namespace, &request.dependency)?;
            let actor = actor(&request.owner, &request.reason)?;
            coordinator.clear_hold(key, actor).await
        });
        answer(changed.await.map(|shown| proto::ClearHoldResponse {
            dependency: shown_now(&shown),
        }))
    }

    async fn list_audit(
        &self,
        request: Request<proto::ListAuditRequest>,
    ) -> Answer<proto::ListAuditResponse> {
        let (request, _) = self.enter(request)?;
        answer(audit::listed(&self.coordinator, &request).await)
    }

    async fn list_policies(
        &self,
        request: Request<proto::ListPoliciesRequest>,
    ) -> Answer<proto::ListPoliciesResponse> {
        let (request, _) = self.enter(request)?;
        answer(self.policies(&request))
    }

    async fn get_policy(
        &self,
        request: Request<proto::GetPolicyRequest>,
    ) -> Answer<proto::GetPolicyResponse> {
        let (request, _) = self.enter(request)?;
        answer(
            key(&request.namespace, &request.dependency).and_then(|key| {
                let (document, values) = self.coordinator.explain_policy(key)?;
                let values = values.into_iter().map(|value| proto::PolicyValue {
                    field: value.field,
                    value: value.value,
                    origin: value.origin,
                });
                Ok(proto::GetPolicyResponse {
                    document,
                    values: values.collect(),
                })
            }),
        )
    }

    async fn put_policy(
        &self,
        request: Request<proto::PutPolicyRequest>,
    ) -> Answer<proto::PutPolicyResponse> {
        let (request, coordinator) = self.enter_change(request)?;
        answer(carried_through(put(coordinator, request)).await)
    }

    async fn delete_policy(
        &self,
        request: Request<proto::DeletePolicyRequest>,
    ) -> Answer<proto::DeletePolicyResponse> {
        let (request, coordinator) = self.enter_change(request)?;
        let deleted = carried_through(async move {
            let namespace = read::namespace(&request.namespace)?;
            let actor = actor(&request.owner, &request.reason)?;
            let name = selector(&request.name)?;
            coordinator.delete_policy(namespace, name, actor).await
        });
        answer(deleted.await.map(|()| proto::DeletePolicyResponse {}))
    }

    async fn check_policy(
        &self,
        request: Request<proto::CheckPolicyRequest>,
    ) -> Answer<proto::CheckPolicyResponse> {
        let (request, _) = self.enter(request)?;
        answer(checked::check(&self.coordinator, request).await)
    }

    async fn put_candidate(
        &self,
        request: Request<proto::PutCandidateRequest>,
    ) -> Answer<proto::PutCandidateResponse> {
        let (request, coordinator) = self.enter_change(request)?;
        answer(carried_through(candidates::put(coordinator, request)).await)
    }

    async fn list_candidates(
        &self,
        request: Request<proto::ListCandidatesRequest>,
    ) -> Answer<proto::ListCandidatesResponse> {
        let (request, _) = self.enter(request)?;
        answer(candidates::list(&self.coordinator, &request))
    }

    async fn get_candidate(
        &self,
        request: Request<proto::GetCandidateRequest>,
    ) -> Answer<proto::GetCandidateResponse> {
        let (request, _) = self.enter(request)?;
        answer(candidates::get(&self.coordinator, &request))
    }

    async fn promote_candidate(
        &self,
        request: Request<proto::PromoteCandidateRequest>,
    ) -> Answer<proto::PromoteCandidateResponse> {
        let (request, coordinator) = self.enter_change(request)?;
        answer(carried_through(candidates::promote(coordinator, request)).await)
    }

    async fn delete_candidate(
        &self,
        request: Request<proto::DeleteCandidateRequest>,
    ) -> Answer<proto::DeleteCandidateResponse> {
        let (request, coordinator) = self.enter_change(request)?;
        answer(carried_through(candidates::delete(coordinator, request)).await)
    }

    async fn list_replicas(
        &self,
        request: Request<proto::ListReplicasRequest>,
    ) -> Answer<proto::ListReplicasResponse> {
        let (request, _) = self.enter(request)?;
        if let Err(unknown) = self.existing(&request.namespace) {
            return answer(Err(unknown));
        }
        let replicas = Box::pin(self.coordinator.replicas()).await;
        answer(Ok(proto::ListReplicasResponse {
            replicas: replicas.into_iter().map(shown::replica).collect(),
        }))
    }
}

impl<S: Store> OperatorHandler<S> {
    async fn list(
        &self,
        request: &proto::ListDependenciesRequest,
    ) -> Result<proto::ListDependenciesResponse, Refusal> {
        let states: Result<Vec<_>, _> = request
            .states
            .iter()
            .map(|state| read::state(*state))
            .collect();
        let filter = Filter {
            namespace: read::namespace(&request.namespace)?,
            name_prefix: &request.name_prefix,
            after: &request.page_token,
            states: &states?,
            limit: page_size(request.page_size)?,
        };
        let page = self.coordinator.list(filter).await?;
        let (dependencies, all) = fitting(page.shown.iter().map(shown::dependency));
        let last = dependencies.last().filter(|_| page.more || !all);
        Ok(proto::ListDependenciesResponse {
            next_page_token: last.map_or_else(String::new, |last| last.name.clone()),
            dependencies,
        })
    }

    fn policies(
        &self,
        request: &proto::ListPoliciesRequest,
    ) -> Result<proto::ListPoliciesResponse, Refusal> {
        let namespace = read::namespace(&request.namespace)?;
        let size = page_size(request.page_size)?;
        let after = after_policy(&request.page_token)?;
        let mut entries = self.coordinator.entries(namespace)?;
        entries.retain(|entry| after.is_none_or(|after| *entry.name > *after));
        let more = entries.len() > size;
        let page = entries.into_iter().take(size);
        let (policies, all) = fitting(page.map(|entry| shown::policy(namespace, entry)));
        let last = policies.last().filter(|_| more || !all);
        Ok(proto::ListPoliciesResponse {
            next_page_token: last.map_or_else(String::new, |last| policy_token(&last.name)),
            policies,
        })
    }

    fn existing<'a>(&self, namespace: &'a str) -> Result<&'a str, Refusal> {
        let namespace = read::namespace(namespace)?;
        match self.coordinator.has_namespace(namespace) {
            true => Ok(namespace),
            false => Err(Refusal::UnknownNamespace(namespace.to_owned())),
        }
    }
}

async fn force<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    request: proto::SetOverrideRequest,
) -> Result<Shown, Refusal> {
    let asked::Order {
        key,
        kind,
        actor,
        expires_in,
    } = asked::order(&request)?;
    coordinator.set_override(key, kind, actor, expires_in).await
}

async fn put<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    request: proto::PutPolicyRequest,
) -> Result<proto::PutPolicyResponse, Refusal> {
    let namespace = read::namespace(&request.namespace)?;
    let name = selector(&request.name)?;
    read::limited("document", &request.document, DOCUMENT_MAX)?;
    let actor = actor(&request.owner, &request.reason)?;
    let entry = coordinator
        .put_policy(namespace, name, &request.document, actor)
        .await?;
    Ok(proto::PutPolicyResponse {
        policy: Some(shown::policy(namespace, entry)),
    })
}

/// What of a page fits into an answer, the first in any case, and whether that is all of it.
fn fitting<M: prost::Message>(messages: impl Iterator<Item = M>) -> (Vec<M>, bool) {
    let (mut fitting, mut bytes) = (Vec::new(), 0);
    for message in messages {
        bytes += message.encoded_len();
        if bytes > PAGE_BYTES && !fitting.is_empty() {
            return (fitting, false);
        }
        fitting.push(message);
    }
    (fitting, true)
}
