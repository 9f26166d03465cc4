//! A coordinator for tests, over a real socket: it answers by its script, then grants,
//! except for names that begin with `no`, and remembers what it was told.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex},
};

use futures_core::Stream;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming, transport::Server};

use crate::proto::{
    AcquireBatchResponse, AcquireItem, AcquireRequest, AcquireResponse, Denial, DenialReason,
    Grant, PlanCheckRequest, PlanCheckResponse, ReportRequest, ReportResponse, ReportResult,
    SessionRequest, SessionResponse, acquire_item,
    acquire_response::Verdict,
    coordinator_service_server::{CoordinatorService, CoordinatorServiceServer},
    session_request, session_response,
};

#[derive(Clone, Debug, Default)]
pub struct Fake {
    pub script: Arc<Mutex<VecDeque<Verdict>>>,
    pub asked: Arc<Mutex<Vec<AcquireRequest>>>,
    pub reported: Arc<Mutex<Vec<ReportRequest>>>,
    /// Of checks; past its end none is planned.
    pub plans: Arc<Mutex<VecDeque<PlanCheckResponse>>>,
    pub checked: Arc<Mutex<Vec<PlanCheckRequest>>>,
}

impl Fake {
    /// Serves until the test ends; returns where.
    pub async fn serve(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_, health) = tonic_health::server::health_reporter();
        let serving = Server::builder()
            .add_service(CoordinatorServiceServer::new(self.clone()))
            .add_service(health)
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        format!("http://{address}")
    }

    fn decide(&self, request: AcquireRequest) -> Result<AcquireResponse, Status> {
        if request.dependency.is_empty() {
            return Err(Status::invalid_argument("dependency: must not be empty"));
        }
        let denied = request.dependency.starts_with("no");
        self.asked.lock().unwrap().push(request);
        let scripted = self.script.lock().unwrap().pop_front();
        let verdict = match scripted {
            Some(verdict) => verdict,
            None if denied => denial(DenialReason::BreakerOpen, None),
            None => grant(3),
        };
        Ok(AcquireResponse {
            verdict: Some(verdict),
            state: 1,
            epoch: 1,
            ..Default::default()
        })
    }

    fn count(&self, request: ReportRequest) -> ReportResponse {
        let results = request.entries.iter().map(|_| ReportResult {
            applied: true,
            reason: 1,
        });
        let results = results.collect();
        self.reported.lock().unwrap().push(request);
        ReportResponse { results }
    }

    fn answer(&self, request: SessionRequest) -> Option<SessionResponse> {
        use session_request::Message as Asked;
        use session_response::Message as Told;
        let message = match request.message? {
            Asked::Acquire(batch) => {
                let item = |request| match self.decide(request) {
                    Ok(response) => acquire_item::Result::Response(response),
                    Err(status) => acquire_item::Result::Status(tonic_types::Status {
                        code: status.code().into(),
                        message: status.message().to_owned(),
                        details: Vec::new(),
                    }),
                };
                let items = batch.requests.into_iter().map(item);
                let items = items
                    .map(|result| AcquireItem {
                        result: Some(result),
                    })
                    .collect();
                Told::Acquired(AcquireBatchResponse { items })
            }
            Asked::Report(report) => Told::Reported(self.count(report)),
            Asked::Hello(_) | Asked::Subscribe(_) => return None,
        };
        Some(SessionResponse {
            id: request.id,
            message: Some(message),
        })
    }
}

/// Now, with a permit that ends in `permit`.
pub fn grant(permit: u8) -> Verdict {
    Verdict::Grant(Grant {
        delay: Some(prost_types::Duration::default()),
        permit: vec![1, 2, permit].into(),
        permit_ttl: Some(prost_types::Duration {
            seconds: 60,
            nanos: 0,
        }),
        ..Grant::default()
    })
}

pub fn denial(reason: DenialReason, retry_after: Option<prost_types::Duration>) -> Verdict {
    let detail = "open for 7.2 s more".to_owned();
    Verdict::Denial(Denial {
        reason: reason.into(),
        retry_after,
        detail,
    })
}

#[tonic::async_trait]
impl CoordinatorService for Fake {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        self.decide(request.into_inner()).map(Response::new)
    }

    async fn report(
        &self,
        request: Request<ReportRequest>,
    ) -> Result<Response<ReportResponse>, Status> {
        Ok(Response::new(self.count(request.into_inner())))
    }

    async fn plan_check(
        &self,
        request: Request<PlanCheckRequest>,
    ) -> Result<Response<PlanCheckResponse>, Status> {
        self.checked.lock().unwrap().push(request.into_inner());
        let planned = self.plans.lock().unwrap().pop_front();
        let planned = planned.ok_or_else(|| Status::failed_precondition("plans no checks"));
        planned.map(Response::new)
    }

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let mut asked = request.into_inner();
        let (sender, receiver) = mpsc::unbounded_channel();
        let fake = self.clone();
        tokio::spawn(async move {
            while let Ok(Some(message)) = asked.message().await {
                if let Some(answer) = fake.answer(message) {
                    let _ = sender.send(Ok(answer));
                }
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(
            receiver,
        ))))
    }
}
