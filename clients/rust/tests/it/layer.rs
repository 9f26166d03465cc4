//! The tower layer.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use holdoff_client::{
    GrpcLayer, HoldoffLayer, Question, Safety, classify,
    layer::GuardedChannel,
    proto::{self, coordinator_service_client::CoordinatorServiceClient},
};
use http::{Method, Request, Response, request::Parts};
use tonic::transport::{Channel, Endpoint};
use tower::{Layer, ServiceExt, service_fn};

use crate::server::{Reply, Scripted, deny, grant};

fn question_of(request: &Request<&'static str>) -> Question {
    let safety = match *request.method() {
        Method::GET | Method::PUT => Safety::Idempotent,
        _ => Safety::Unsafe,
    };
    Question::new(request.uri().host().unwrap_or("unknown")).safety(safety)
}

fn request(method: Method) -> Request<&'static str> {
    let request = Request::builder()
        .method(method)
        .uri("http://payments/charge");
    request.body("body").unwrap()
}

#[tokio::test(start_paused = true)]
async fn http_responses_are_retried_by_their_status_and_the_requests_method() {
    let service =
        Scripted::new(|question| grant(Duration::from_secs((question.attempt - 1).into())));
    let layer = HoldoffLayer::new(service.client(), question_of);
    for (method, calls) in [(Method::GET, 3), (Method::POST, 1)] {
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let guarded = layer.layer(service_fn(move |request: Request<&'static str>| {
            assert_eq!(*request.body(), "body");
            let status = if counted.fetch_add(1, SeqCst) < 2 {
                503
            } else {
                200
            };
            async move { Ok::<_, Infallible>(Response::builder().status(status).body(()).unwrap()) }
        }));
        let response = guarded.oneshot(request(method)).await.unwrap();
        assert_eq!(count.load(SeqCst), calls);
        assert_eq!(response.status(), if calls == 3 { 200 } else { 503 });
    }
    assert!(
        service
            .questions()
            .iter()
            .all(|q| q.dependency == "payments")
    );
}

#[tokio::test(start_paused = true)]
async fn messages_of_tonic_are_retried_by_their_codes() {
    let service = Scripted::new(|question| match question.attempt {
        1 | 2 => grant(Duration::ZERO),
        _ => deny(proto::DenialReason::AttemptsExhausted, None),
    });
    let layer = HoldoffLayer::new(service.client(), |_: &String| {
        Question::new("ledger").safety(Safety::Keyed)
    });
    let guarded = layer
        .classify(classify::Grpc)
        .layer(service_fn(|message: String| async move {
            Err::<String, _>(tonic::Status::unavailable(message))
        }));
    let error = guarded.oneshot("hello".to_owned()).await.unwrap_err();
    assert_eq!(error.attempts, 2);
    assert_eq!(error.last.unwrap().message(), "hello");
}

/// A generated client over a guarded channel, and the service that it calls.
async fn guarded_client(
    holdoff: &Scripted,
    called: &Scripted,
) -> CoordinatorServiceClient<GuardedChannel<Channel, fn(&Parts) -> Question>> {
    let question: fn(&Parts) -> Question = |request| {
        assert!(
            request
                .uri
                .path()
                .starts_with("/holdoff.v1.CoordinatorService/")
        );
        Question::new("called").safety(Safety::Idempotent)
    };
    let endpoint = Endpoint::from_static("http://called:1");
    let channel = called.clone().dialled(endpoint).await.unwrap();
    let layer = GrpcLayer::new(holdoff.client(), question);
    CoordinatorServiceClient::new(layer.layer(channel))
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_generated_client_are_repeated_whole() {
    let holdoff = Scripted::granting();
    let mut times = 0;
    let called = Scripted::new(move |_| {
        times += 1;
        match times {
            1 | 2 => Reply::Fail(tonic::Code::Unavailable),
            _ => grant(Duration::ZERO),
        }
    });
    let mut client = guarded_client(&holdoff, &called).await;
    let question = proto::AcquireRequest {
        dependency: "a whole message".into(),
        ..Default::default()
    };
    client.acquire(question).await.unwrap();
    let seen = called.questions();
    assert_eq!(seen.len(), 3);
    assert!(
        seen.iter()
            .all(|question| question.dependency == "a whole message")
    );
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_of_a_generated_client_ends_with_a_status() {
    let wait = Some(Duration::from_secs(3));
    let holdoff = Scripted::new(move |_| deny(proto::DenialReason::BreakerOpen, wait));
    let called = Scripted::granting();
    let mut client = guarded_client(&holdoff, &called).await;
    let status = client
        .acquire(proto::AcquireRequest::default())
        .await
        .unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert_eq!(status.message(), "breaker open: because");
    assert_eq!(called.questions().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_still_being_written_is_passed_on_and_never_repeated() {
    let (holdoff, called) = (Scripted::granting(), Scripted::granting());
    let mut client = guarded_client(&holdoff, &called).await;
    let (requests, stream) = tokio::sync::mpsc::channel(1);
    let mut answers = client
        .session(tokio_stream::wrappers::ReceiverStream::new(stream))
        .await
        .unwrap()
        .into_inner();
    let batch = proto::AcquireBatch {
        requests: vec![proto::AcquireRequest::default()],
    };
    let message = Some(proto::session_request::Message::Acquire(batch));
    requests
        .send(proto::SessionRequest { id: 7, message })
        .await
        .unwrap();
    assert_eq!(answers.message().await.unwrap().unwrap().id, 7);
    called.has_no_stream();
    let (_requests, stream) = tokio::sync::mpsc::channel(1);
    let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
    client.session(stream).await.unwrap_err();
    assert_eq!(holdoff.questions().len(), 2, "one a call");
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_request_is_that_of_the_whole_call() {
    let holdoff = Scripted::granting();
    let called = Scripted::new(|_| Reply::Fail(tonic::Code::Unavailable));
    let mut client = guarded_client(&holdoff, &called).await;
    let mut request = tonic::Request::new(proto::AcquireRequest::default());
    request.set_timeout(Duration::from_secs(3));
    client.acquire(request).await.unwrap_err();
    let asked = holdoff.questions();
    assert!(asked.len() > 1, "{asked:?}");
    for question in asked {
        let left = Duration::try_from(question.time_left.unwrap()).unwrap();
        assert!(left <= Duration::from_secs(3), "{left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn b14_calls_in_calls_do_not_multiply() {
    // Says what the rules say of a layer below that retried.
    let holdoff = Scripted::new(|question| {
        let previous = question.previous.as_ref();
        let outcome = previous.and_then(|previous| previous.outcome.as_ref());
        match outcome.is_some_and(|outcome| outcome.retried_below) {
            true => deny(proto::DenialReason::RetriedBelow, None),
            false if question.attempt > 3 => deny(proto::DenialReason::AttemptsExhausted, None),
            false => grant(Duration::ZERO),
        }
    });
    let client = holdoff.client();
    let calls = AtomicU32::new(0);
    let question = |name: &'static str| Question::new(name).safety(Safety::Idempotent);
    let outer = client.call(question("outer")).classify(classify::Guarded);
    let error = outer
        .run(async |_| {
            let inner = client.call(question("inner"));
            inner
                .run(async |_| {
                    calls.fetch_add(1, SeqCst);
                    Err::<(), _>("down")
                })
                .await
        })
        .await
        .unwrap_err();
    assert_eq!(calls.load(SeqCst), 3);
    assert_eq!((error.attempts, error.last.unwrap().attempts), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_denied_says_nothing_of_the_one_around_it() {
    let holdoff = Scripted::new(|question| match question.dependency.as_str() {
        "inner" => deny(proto::DenialReason::BreakerOpen, None),
        _ => grant(Duration::ZERO),
    });
    let client = holdoff.client();
    let outer = client
        .call(Question::new("outer").max_attempts(1))
        .classify(classify::Guarded);
    outer
        .run(async |_| {
            client
                .call("inner")
                .run(async |_| Ok::<_, String>(()))
                .await
        })
        .await
        .unwrap_err();
    assert!(client.flush(Duration::from_secs(1)).await);
    assert_eq!(holdoff.reported_kinds(), [proto::OutcomeKind::Ignored]);
}
