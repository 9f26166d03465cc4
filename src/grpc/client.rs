//! The RPCs of clients.

use std::sync::Arc;

use tokio::sync::watch::Receiver;
use tonic::{Request, Response, Status, Streaming};

use super::{
    admission::Guard,
    answer,
    ending::{Ending, Leaving},
    read, session,
    span::{self, Origin},
    status,
};
use crate::{
    access::{Access, Method},
    coordinator::Coordinator,
    proto::{
        AcquireRequest, AcquireResponse, PlanCheckRequest, PlanCheckResponse, ReportRequest,
        ReportResponse, SessionRequest, coordinator_service_server::CoordinatorService,
    },
    store::Store,
};

/// See the module.
#[derive(Debug)]
pub struct ClientHandler<S> {
    coordinator: Arc<Coordinator<S>>,
    access: Arc<Access>,
    stopped: Receiver<bool>,
}

impl<S> ClientHandler<S> {
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
}

/// On the answer to a checker that was decided without the shared store; an `AcquireResponse` has
/// a field for it.
const DEGRADED: &str = "holdoff-degraded";

#[tonic::async_trait]
impl<S: Store> CoordinatorService for ClientHandler<S> {
    type SessionStream = Ending<session::Answers>;

    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        let unsaid = read::Defaults::default();
        let guard = Guard::of(&self.access, request.extensions())?;
        let origin = Origin::Rpc(request.metadata());
        let answered = acquire(
            &self.coordinator,
            &guard,
            request.get_ref(),
            &unsaid,
            origin,
        )
        .await?;
        Ok(Response::new(answered))
    }

    async fn report(
        &self,
        request: Request<ReportRequest>,
    ) -> Result<Response<ReportResponse>, Status> {
        let unsaid = read::Defaults::default();
        let guard = Guard::of(&self.access, request.extensions())?;
        let origin = Origin::Rpc(request.metadata());
        let answered = report(
            &self.coordinator,
            &guard,
            request.get_ref(),
            &unsaid,
            origin,
        )
        .await?;
        Ok(Response::new(answered))
    }

    async fn plan_check(
        &self,
        request: Request<PlanCheckRequest>,
    ) -> Result<Response<PlanCheckResponse>, Status> {
        let guard = Guard::of(&self.access, request.extensions())?;
        guard.admit(Method::PlanCheck, &request.get_ref().namespace)?;
        let planned = async {
            let ask = read::check_ask(request.get_ref())?;
            self.coordinator.plan_check(ask).await
        };
        let planned = planned.await.map_err(|refusal| status::of(&refusal))?;
        let degraded = planned.degraded;
        let mut answered = Response::new(answer::planned(planned));
        if degraded {
            let metadata = answered.metadata_mut();
            metadata.insert(
                DEGRADED,
                tonic::metadata::MetadataValue::from_static("true"),
            );
        }
        Ok(answered)
    }

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let coordinator = Arc::clone(&self.coordinator);
        let guard = Guard::of(&self.access, request.extensions())?;
        let place = guard.session()?;
        let (lapse, guard) = (guard.lapse(), guard.into_owned());
        let leaving = request.extensions().get::<Leaving>().cloned();
        let answers = session::serve(coordinator, guard, place, request.into_inner());
        let answers = Ending::new(answers, self.stopped.clone(), leaving, lapse);
        Ok(Response::new(answers))
    }
}

/// Answers a question, under a span where somebody wants one.
pub(super) async fn acquire<S: Store>(
    coordinator: &Coordinator<S>,
    guard: &Guard<'_>,
    request: &AcquireRequest,
    defaults: &read::Defaults,
    origin: Origin<'_>,
) -> Result<AcquireResponse, Status> {
    let span = span::begin(coordinator.telemetry(), &span::ACQUIRE, origin);
    let answered = decide(coordinator, guard, request, defaults).await;
    if span.is_wanted() {
        span::end_acquire(span, request, defaults, answered.as_ref());
    }
    answered
}

/// As [`acquire`].
pub(super) async fn report<S: Store>(
    coordinator: &Coordinator<S>,
    guard: &Guard<'_>,
    request: &ReportRequest,
    defaults: &read::Defaults,
    origin: Origin<'_>,
) -> Result<ReportResponse, Status> {
    let span = span::begin(coordinator.telemetry(), &span::REPORT, origin);
    let answered = take(coordinator, guard, request, defaults).await;
    if span.is_wanted() {
        span::end_report(span, request, defaults, answered.as_ref());
    }
    answered
}

async fn decide<S: Store>(
    coordinator: &Coordinator<S>,
    guard: &Guard<'_>,
    request: &AcquireRequest,
    defaults: &read::Defaults,
) -> Result<AcquireResponse, Status> {
    let namespace = defaults.namespace(&request.namespace);
    guard.admit(Method::Acquire, namespace)?;
    let inquiry = read::inquiry(request, defaults).map_err(|refusal| status::of(&refusal))?;
    let decision = coordinator
        .acquire(&inquiry)
        .await
        .map_err(|refusal| status::of(&refusal))?;
    Ok(answer::acquired(decision))
}

async fn take<S: Store>(
    coordinator: &Coordinator<S>,
    guard: &Guard<'_>,
    request: &ReportRequest,
    defaults: &read::Defaults,
) -> Result<ReportResponse, Status> {
    let namespace = defaults.namespace(&request.namespace);
    guard.admit(Method::Report, namespace)?;
    let read = || {
        let namespace = read::namespace(namespace)?;
        let caller = read::caller(request.caller.as_ref(), defaults)?;
        Ok((namespace, caller, read::entries(request)?))
    };
    let (namespace, caller, entries) = read().map_err(|refusal| status::of(&refusal))?;
    let reported = coordinator
        .report(namespace, caller, &entries, request.sequence)
        .await;
    Ok(answer::reported(
        &reported.map_err(|refusal| status::of(&refusal))?,
    ))
}
