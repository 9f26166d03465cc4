//! The tower layer.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use holdoff_client::{HoldoffLayer, Question, Safety, classify, proto};
use http::{Method, Request, Response};
use tower::{Layer, ServiceExt, service_fn};

use crate::server::{Scripted, deny, grant};

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
