//! The scripted service: answers by its rules, pushes what it is told to, and remembers all
//! that comes.

use std::{
    collections::{BTreeMap, HashSet},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdoff_client::proto::{
    self, session_request::Message as Asked, session_response::Message as Said,
};
use tokio::sync::{Notify, mpsc, watch};
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use crate::{
    normal::Event,
    said::{Reply, reply},
    scenario::{Answer, Behaviour, Counts, Grant, Rule},
    stubs::coordinator_service_server::CoordinatorService,
};

type Sender = mpsc::Sender<Result<proto::SessionResponse, Status>>;

/// What all endpoints share.
#[derive(Debug)]
pub struct Script {
    state: Mutex<State>,
    changed: Notify,
    /// Actions that answers begin.
    then: mpsc::UnboundedSender<String>,
}

#[derive(Debug)]
struct State {
    rules: Vec<Rule>,
    /// Of each rule.
    used: Vec<u32>,
    /// By dependency.
    updates: BTreeMap<String, proto::Update>,
    sessions: Vec<Session>,
    events: Vec<Event>,
    granted: u32,
    /// What the script itself got wrong.
    mistakes: Vec<String>,
}

#[derive(Debug)]
struct Session {
    out: Sender,
    follows: HashSet<String>,
}

impl Script {
    /// Actions that answers begin are sent to `then`.
    pub fn new(
        rules: Vec<Rule>,
        updates: Vec<proto::Update>,
        then: mpsc::UnboundedSender<String>,
    ) -> Arc<Self> {
        let used = vec![0; rules.len()];
        let updates = updates.into_iter();
        Arc::new(Self {
            state: Mutex::new(State {
                rules,
                used,
                updates: updates.map(|one| (one.dependency.clone(), one)).collect(),
                sessions: Vec::new(),
                events: Vec::new(),
                granted: 0,
                mistakes: Vec::new(),
            }),
            changed: Notify::new(),
            then,
        })
    }

    pub fn set_rules(&self, rules: Vec<Rule>) {
        let mut state = self.lock();
        state.used = vec![0; rules.len()];
        state.rules = rules;
    }

    /// On all sessions that follow it, and on later ones.
    pub fn push(&self, update: proto::Update) {
        let mut state = self.lock();
        for session in &state.sessions {
            if session.follows.contains(&update.dependency) {
                // A session that is gone needs no update.
                let _ = session.out.try_send(Ok(pushed(update.clone())));
            }
        }
        state.updates.insert(update.dependency.clone(), update);
    }

    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    pub fn mistakes(&self) -> Vec<String> {
        self.lock().mistakes.clone()
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for event in &self.lock().events {
            match event {
                Event::Hello(_) => counts.sessions += 1,
                Event::Asked(_) => counts.asked += 1,
                Event::Report(report) => counts.reported += report.entries.len(),
            }
        }
        counts
    }

    /// Returns when something has come, or soon in any case.
    pub async fn changed(&self) {
        let _ = tokio::time::timeout(Duration::from_millis(20), self.changed.notified()).await;
    }

    fn note(&self, event: Event) {
        self.lock().events.push(event);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The answer, and what it begins.
    fn answer(
        &mut self,
        endpoint: usize,
        request: &proto::AcquireRequest,
    ) -> (Answer, Option<String>) {
        for (rule, used) in self.rules.iter().zip(&mut self.used) {
            let is_left = rule.times.is_none_or(|times| *used < times);
            if is_left && fits(rule, endpoint, request) {
                *used += 1;
                return (rule.answer.clone(), rule.then.clone());
            }
        }
        let at_once = Answer {
            grant: Some(Grant::default()),
            ..Answer::default()
        };
        (at_once, None)
    }
}

fn fits(rule: &Rule, endpoint: usize, request: &proto::AcquireRequest) -> bool {
    let on = &rule.on;
    let kind = request.previous.as_ref().and_then(|previous| {
        let outcome = previous.outcome.as_ref()?;
        Some(outcome.kind().as_str_name().replace("OUTCOME_KIND_", ""))
    });
    on.endpoint.is_none_or(|wanted| wanted == endpoint)
        && on.attempt.is_none_or(|wanted| wanted == request.attempt)
        && on.hedge.is_none_or(|wanted| wanted == request.hedge)
        && on.confirm != request.confirm.is_empty()
        && (on.dependency.as_ref()).is_none_or(|wanted| *wanted == request.dependency)
        && (on.previous_kind.is_none() || on.previous_kind == kind)
}

/// One endpoint of the service.
#[derive(Clone, Debug)]
pub struct Service {
    pub script: Arc<Script>,
    pub endpoint: usize,
    /// How the endpoint behaves now.
    pub behaviour: watch::Receiver<Behaviour>,
}

impl Service {
    /// `None`: silence.
    async fn decide(
        &self,
        request: proto::AcquireRequest,
    ) -> Option<Result<proto::AcquireResponse, tonic::Code>> {
        let (answer, then, said) = {
            let mut state = self.script.lock();
            let (answer, then) = state.answer(self.endpoint, &request);
            if answer.grant.is_some() {
                state.granted += 1;
            }
            let said = reply(&answer, &format!("p{}", state.granted));
            if let Err(why) = &said {
                state.mistakes.push(format!("{why:#}"));
            }
            (answer, then, said)
        };
        self.script.note(Event::Asked(Box::new(request)));
        if let Some(then) = then {
            // At the end of the scenario nobody acts any more.
            let _ = self.script.then.send(then);
        }
        tokio::time::sleep(Duration::from_millis(answer.after_ms)).await;
        match said {
            Ok(Reply::Answer(response)) => Some(Ok(*response)),
            Ok(Reply::Fail(code)) => Some(Err(code)),
            Ok(Reply::Silence) | Err(_) => None,
        }
    }

    fn take(&self, report: proto::ReportRequest) -> proto::ReportResponse {
        let result = proto::ReportResult {
            applied: true,
            reason: proto::ReportReason::Ok.into(),
        };
        let results = vec![result; report.entries.len()];
        self.script.note(Event::Report(Box::new(report)));
        proto::ReportResponse { results }
    }

    async fn decide_all(&self, batch: proto::AcquireBatch) -> Option<proto::AcquireBatchResponse> {
        use proto::acquire_item::Result as Item;
        let mut items = Vec::new();
        for request in batch.requests {
            let result = match self.decide(request).await? {
                Ok(response) => Item::Response(response),
                Err(code) => Item::Status(tonic_types::Status {
                    code: code.into(),
                    message: "as the script says".into(),
                    details: Vec::new(),
                }),
            };
            items.push(proto::AcquireItem {
                result: Some(result),
            });
        }
        Some(proto::AcquireBatchResponse { items })
    }

    fn follow(&self, out: &Sender, add: &[String], remove: &[String]) {
        let mut state = self.script.lock();
        let State {
            sessions, updates, ..
        } = &mut *state;
        let Some(session) = sessions
            .iter_mut()
            .find(|session| session.out.same_channel(out))
        else {
            return;
        };
        for name in remove {
            session.follows.remove(name);
        }
        for name in add {
            if session.follows.insert(name.clone())
                && let Some(update) = updates.get(name)
            {
                let _ = out.try_send(Ok(pushed(update.clone())));
            }
        }
    }

    /// Takes one message of a session. What needs time goes on beside the stream, so that
    /// answers may come in any order.
    fn take_message(&self, request: proto::SessionRequest, out: &Sender) {
        let id = request.id;
        match request.message {
            Some(Asked::Hello(hello)) => {
                self.script.note(Event::Hello(Box::new(hello.clone())));
                self.follow(out, &hello.subscribe, &[]);
            }
            Some(Asked::Subscribe(change)) => self.follow(out, &change.add, &change.remove),
            Some(Asked::Report(report)) => {
                let response = Said::Reported(self.take(report));
                let _ = out.try_send(Ok(response_to(id, response)));
            }
            Some(Asked::Acquire(batch)) => {
                let (service, out) = (self.clone(), out.clone());
                tokio::spawn(async move {
                    let names: Vec<String> = batch
                        .requests
                        .iter()
                        .map(|one| one.dependency.clone())
                        .collect();
                    if let Some(answers) = service.decide_all(batch).await {
                        let _ = out.send(Ok(response_to(id, Said::Acquired(answers)))).await;
                    }
                    service.follow(&out, &names, &[]);
                });
            }
            None => {}
        }
    }
}

fn response_to(id: u64, message: Said) -> proto::SessionResponse {
    proto::SessionResponse {
        id,
        message: Some(message),
    }
}

fn pushed(update: proto::Update) -> proto::SessionResponse {
    response_to(0, Said::Update(update))
}

#[tonic::async_trait]
impl CoordinatorService for Service {
    async fn acquire(
        &self,
        request: Request<proto::AcquireRequest>,
    ) -> Result<Response<proto::AcquireResponse>, Status> {
        match self.decide(request.into_inner()).await {
            Some(Ok(response)) => Ok(Response::new(response)),
            Some(Err(code)) => Err(Status::new(code, "as the script says")),
            None => std::future::pending().await,
        }
    }

    async fn report(
        &self,
        request: Request<proto::ReportRequest>,
    ) -> Result<Response<proto::ReportResponse>, Status> {
        Ok(Response::new(self.take(request.into_inner())))
    }

    async fn plan_check(
        &self,
        _: Request<proto::PlanCheckRequest>,
    ) -> Result<Response<proto::PlanCheckResponse>, Status> {
        Err(Status::failed_precondition("no checks are scripted"))
    }

    type SessionStream = Pin<Box<dyn Stream<Item = Result<proto::SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<proto::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        if *self.behaviour.borrow() == Behaviour::Unary {
            return Err(Status::unimplemented("no sessions here"));
        }
        let (out, responses) = mpsc::channel(1_024);
        self.script.lock().sessions.push(Session {
            out: out.clone(),
            follows: HashSet::new(),
        });
        let (service, mut requests) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                service.take_message(request, &out);
            }
            let sessions = &mut service.script.lock().sessions;
            sessions.retain(|session| !session.out.same_channel(&out));
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }
}
