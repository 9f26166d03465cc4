//! Sessions: many questions on one stream, answered by id, and a stream that nothing ends.

use holdoff_client::proto::{
    AcquireBatch, AcquireRequest, BreakerState, FirstAttempts, Hello, OutcomeKind, ReportReason,
    ReportRequest, SessionRequest, SessionResponse, Subscribe, Update, acquire_item,
    acquire_response::Verdict, session_request::Message as Asked,
    session_response::Message as Answered,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Streaming};
use tonic_types::pb::Status;

use crate::harness::*;

use OutcomeKind::{Failure, Success};

/// One open session.
pub struct Session {
    pub asks: mpsc::UnboundedSender<SessionRequest>,
    pub answers: Streaming<SessionResponse>,
}

impl Session {
    pub async fn open(client: &mut Client) -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        let asked = UnboundedReceiverStream::new(asked);
        let answers = client.asks.session(asked).await.unwrap().into_inner();
        Self { asks, answers }
    }

    pub fn send(&self, id: u64, message: Asked) {
        let message = Some(message);
        self.asks.send(SessionRequest { id, message }).unwrap();
    }

    pub fn ask(&self, id: u64, requests: Vec<AcquireRequest>) {
        self.send(id, Asked::Acquire(AcquireBatch { requests }));
    }

    /// The next message, whatever it is.
    async fn message(&mut self) -> (u64, Answered) {
        let answer = self
            .answers
            .message()
            .await
            .unwrap()
            .expect("the stream goes on");
        (answer.id, answer.message.expect("an answer says something"))
    }

    /// The next answer; what is pushed comes between them.
    pub async fn next(&mut self) -> (u64, Answered) {
        loop {
            match self.message().await {
                (_, Answered::Update(_)) => {}
                answer => return answer,
            }
        }
    }

    /// The next update of a dependency.
    pub async fn update(&mut self, dependency: &str) -> Update {
        loop {
            match self.message().await {
                (0, Answered::Update(update)) if update.dependency == dependency => return update,
                (_, Answered::Update(_)) => {}
                other => panic!("not an update: {other:?}"),
            }
        }
    }

    pub async fn items(&mut self, id: u64) -> Vec<acquire_item::Result> {
        match self.next().await {
            (answered, Answered::Acquired(batch)) => {
                assert_eq!(answered, id);
                batch
                    .items
                    .into_iter()
                    .map(|item| item.result.unwrap())
                    .collect()
            }
            other => panic!("not answers: {other:?}"),
        }
    }

    async fn refused(&mut self, id: u64) -> Status {
        match self.next().await {
            (answered, Answered::Status(status)) => {
                assert_eq!(answered, id);
                status
            }
            other => panic!("not a status: {other:?}"),
        }
    }
}

pub fn permit(item: acquire_item::Result) -> bytes::Bytes {
    match item {
        acquire_item::Result::Response(response) => grant_of(response).permit,
        acquire_item::Result::Status(status) => panic!("{status:?}"),
    }
}

#[tokio::test]
async fn answers_carry_the_id_of_their_question_and_the_order_of_its_items() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    client
        .force(crate::overrides::forced(
            "shut",
            holdoff_client::proto::OverrideKind::ForceOpen,
        ))
        .await
        .unwrap();
    let mut session = Session::open(&mut client).await;
    // All are sent before any answer is read.
    for id in [7, 7_000_000_000, 0, 3] {
        session.ask(id, vec![first("a"), first("shut"), first("b")]);
    }
    let mut ids = Vec::new();
    for _ in 0..4 {
        let (id, Answered::Acquired(batch)) = session.next().await else {
            panic!("not answers");
        };
        ids.push(id);
        let granted: Vec<bool> = batch
            .items
            .into_iter()
            .map(|item| match item.result.unwrap() {
                acquire_item::Result::Response(response) => {
                    matches!(response.verdict, Some(Verdict::Grant(_)))
                }
                acquire_item::Result::Status(status) => panic!("{status:?}"),
            })
            .collect();
        assert_eq!(granted, [true, false, true]);
    }
    ids.sort_unstable();
    assert_eq!(ids, [0, 3, 7, 7_000_000_000]);
}

#[tokio::test]
async fn a_thousand_questions_fit_into_a_message_and_one_more_is_refused() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut session = Session::open(&mut client).await;
    session.ask(1, vec![first("d"); 1000]);
    assert_eq!(session.items(1).await.len(), 1000);
    for (id, count) in [(2, 1001), (3, 0)] {
        session.ask(id, vec![first("d"); count]);
        let status = session.refused(id).await;
        assert_eq!(status.code, Code::InvalidArgument as i32);
        assert!(
            status.message.contains("acquire.requests"),
            "{}",
            status.message
        );
    }
    assert_eq!(client.get("d").await.first_attempts, 1000);
    session.ask(4, vec![first("d")]);
    assert_eq!(session.items(4).await.len(), 1);
}

#[tokio::test]
async fn a_bad_item_gets_a_status_of_its_own_and_the_stream_goes_on() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut session = Session::open(&mut client).await;
    let bad = AcquireRequest {
        attempt: 0,
        ..first("d")
    };
    let nowhere = AcquireRequest {
        namespace: "nowhere".into(),
        ..first("d")
    };
    session.ask(1, vec![first("d"), bad, first("d"), nowhere, first("d")]);
    let items = session.items(1).await;
    assert_eq!(items.len(), 5);
    for (index, code) in [(1, Code::InvalidArgument), (3, Code::NotFound)] {
        let acquire_item::Result::Status(status) = &items[index] else {
            panic!("{index} is no status");
        };
        assert_eq!(status.code, code as i32);
        assert!(!status.details.is_empty(), "the details come with it");
    }
    for index in [0, 2, 4] {
        permit(items[index].clone());
    }
    assert_eq!(client.get("d").await.first_attempts, 3);
}

#[tokio::test]
async fn what_a_hello_says_holds_where_a_question_says_nothing() {
    let service = Service::start("version: 1\nnamespaces: {default: {}, other: {}}").await;
    let mut client = service.client().await;
    let mut session = Session::open(&mut client).await;
    session.send(
        1,
        Asked::Hello(Hello {
            caller: caller("me"),
            namespace: "other".into(),
            subscribe: Vec::new(),
        }),
    );
    let here = AcquireRequest {
        namespace: "default".into(),
        ..first("d")
    };
    // The same call of the same instance, once said and once from the hello: one grant.
    let mut mine = first_of("d", "me");
    mine.call_id = "call".into();
    let unsaid = AcquireRequest {
        caller: None,
        ..mine.clone()
    };
    let theirs = AcquireRequest {
        caller: caller("them"),
        ..mine.clone()
    };
    session.ask(2, vec![mine, unsaid, theirs, here]);
    let permits: Vec<_> = session.items(2).await.into_iter().map(permit).collect();
    assert_eq!(permits[0], permits[1]);
    assert_ne!(permits[0], permits[2]);
    let seen = client
        .operates
        .get_dependency(holdoff_client::proto::GetDependencyRequest {
            namespace: "other".into(),
            dependency: "d".into(),
            ..Default::default()
        })
        .await
        .unwrap()
        .into_inner()
        .dependency
        .unwrap();
    assert_eq!(seen.first_attempts, 2);
    assert_eq!(client.get("d").await.first_attempts, 1);
    // Reports go by the hello too.
    for (id, namespace, reason) in [
        (3, "", ReportReason::Ok),
        (4, "", ReportReason::Duplicate),
        (5, "default", ReportReason::UnknownPermit),
    ] {
        session.send(
            id,
            Asked::Report(ReportRequest {
                namespace: namespace.into(),
                entries: vec![result(&permits[0], outcome(Success))],
                ..ReportRequest::default()
            }),
        );
        let (answered, Answered::Reported(reported)) = session.next().await else {
            panic!("not reported");
        };
        assert_eq!((answered, reported.results[0].reason()), (id, reason));
    }
}

#[tokio::test]
async fn what_cannot_be_taken_is_answered_and_the_stream_goes_on() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut session = Session::open(&mut client).await;
    session
        .asks
        .send(SessionRequest {
            id: 1,
            message: None,
        })
        .unwrap();
    assert_eq!(session.refused(1).await.code, Code::InvalidArgument as i32);
    session.send(2, Asked::Report(ReportRequest::default()));
    assert!(session.refused(2).await.message.contains("entries"));
    session.send(
        3,
        Asked::Hello(Hello {
            namespace: "a b".into(),
            ..Hello::default()
        }),
    );
    assert!(session.refused(3).await.message.contains("namespace"));
    session.send(
        4,
        Asked::Hello(Hello {
            caller: caller("me"),
            ..Hello::default()
        }),
    );
    session.send(
        5,
        Asked::Hello(Hello {
            caller: caller("you"),
            ..Hello::default()
        }),
    );
    assert!(session.refused(5).await.message.contains("hello"));
    let nameless = Subscribe {
        add: vec!["a b".into()],
        remove: vec![],
    };
    session.send(6, Asked::Subscribe(nameless));
    assert!(session.refused(6).await.message.contains("dependency"));
    session.ask(7, vec![first("d")]);
    assert_eq!(session.items(7).await.len(), 1);
}

#[tokio::test]
async fn a_client_is_told_to_keep_no_breaker_where_the_policy_enforces_none() {
    for (mode, is_off) in [("enforce", false), ("shadow", true), ("off", true)] {
        let policy = policy_of_d(&format!("{{breaker: {{mode: {mode}}}}}"));
        let service = Service::start(&policy).await;
        let mut client = service.client().await;
        let mut session = Session::open(&mut client).await;
        session.send(
            1,
            Asked::Hello(Hello {
                subscribe: vec!["d".into()],
                ..Hello::default()
            }),
        );
        let policy = session.update("d").await.policy.unwrap();
        assert_eq!(policy.breaker_off, is_off, "{mode}");
    }
}

#[tokio::test]
async fn what_is_followed_is_pushed_when_it_opens_and_when_it_is_forced() {
    let service = Service::start(&policy_of_d(
        "{breaker: {window: 10, min_calls: 5, open_for: 10s, spread: 2s}}",
    ))
    .await;
    let mut client = service.client().await;
    let mut session = Session::open(&mut client).await;
    session.send(
        1,
        Asked::Hello(Hello {
            subscribe: vec!["d".into()],
            ..Hello::default()
        }),
    );
    let update = session.update("d").await;
    assert_eq!(
        (update.state(), update.first_attempts()),
        (BreakerState::Closed, FirstAttempts::Go)
    );
    client.trip("d", 5).await;
    let update = loop {
        let update = session.update("d").await;
        if update.state() == BreakerState::Open {
            break update;
        }
    };
    assert_eq!(
        (update.epoch, update.first_attempts()),
        (2, FirstAttempts::Refuse)
    );
    let valid = ms(update.valid_for);
    assert!((10_000.0..=12_000.0).contains(&valid), "{valid}");
    client
        .force(crate::overrides::forced(
            "d",
            holdoff_client::proto::OverrideKind::ForceClosed,
        ))
        .await
        .unwrap();
    let update = loop {
        let update = session.update("d").await;
        if update.state() == BreakerState::ForcedClosed {
            break update;
        }
    };
    assert_eq!(update.first_attempts(), FirstAttempts::Go);
}

#[tokio::test]
async fn a_half_closed_stream_is_answered_to_its_end() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let session = Session::open(&mut client).await;
    for id in 1..=100 {
        session.ask(id, vec![first("d"); 10]);
    }
    let Session { asks, mut answers } = session;
    drop(asks);
    let mut answered = 0;
    while let Some(answer) = answers.message().await.unwrap() {
        assert!(matches!(answer.message, Some(Answered::Acquired(_))));
        answered += 1;
    }
    assert_eq!(answered, 100);
    assert_eq!(client.get("d").await.first_attempts, 1000);
}

#[tokio::test]
async fn a_message_beyond_the_limit_ends_its_own_stream_alone() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut session = Session::open(&mut client).await;
    let mut other = Session::open(&mut client).await;
    session.ask(
        1,
        vec![AcquireRequest {
            call_id: "c".repeat(300_000),
            ..first("d")
        }],
    );
    let status = session.answers.message().await.unwrap_err();
    assert_names_the_limit(&status);
    other.ask(1, vec![first("d")]);
    assert_eq!(other.items(1).await.len(), 1);
}

#[tokio::test]
async fn a_hundred_sessions_at_once_each_get_their_own_answers() {
    let service = Service::start_with(Setup {
        workers: 2,
        ..Setup::default()
    })
    .await;
    let mut running = tokio::task::JoinSet::new();
    for n in 0..100_u64 {
        let url = service.urls[n as usize % 2].clone();
        running.spawn(async move {
            let mut client = Client::connect(&url).await;
            let mut session = Session::open(&mut client).await;
            let name = format!("d{}", n % 10);
            for round in 0..10 {
                session.ask(n * 100 + round, vec![first(&name); 5]);
            }
            for round in 0..10 {
                let entries: Vec<_> = session
                    .items(n * 100 + round)
                    .await
                    .into_iter()
                    .map(|item| result(&permit(item), outcome(Success)))
                    .collect();
                session.send(
                    round,
                    Asked::Report(ReportRequest {
                        entries,
                        ..Default::default()
                    }),
                );
            }
            for _ in 0..10 {
                let (_, Answered::Reported(reported)) = session.next().await else {
                    panic!("not reported");
                };
                assert!(reported.results.iter().all(|result| result.applied));
            }
        });
    }
    for ended in running.join_all().await {
        let () = ended;
    }
    let mut client = service.client().await;
    for n in 0..10 {
        let seen = client.get(&format!("d{n}")).await;
        assert_eq!((seen.first_attempts, seen.permits_out), (500, 0));
    }
}

#[tokio::test]
async fn a_session_that_retries_reports_and_asks_in_one() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut session = Session::open(&mut client).await;
    session.ask(1, vec![first("d")]);
    let one = permit(session.items(1).await.remove(0));
    session.ask(2, vec![retry("d", 2, &one, Failure)]);
    let acquire_item::Result::Response(two) = session.items(2).await.remove(0) else {
        panic!("a status");
    };
    assert_eq!(two.previous_result(), ReportReason::Ok);
    // Backoff of at most 100 ms, then a place among ten a second.
    assert!(ms(grant_of(two).delay) <= 200.0);
}
