//! The middleware for reqwest, against a real HTTP server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use holdoff_client::{CallError, DenialReason, HoldoffMiddleware, proto};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::server::{Scripted, deny, grant};

/// Answers 503 to all requests but each third; counts them.
async fn flaky() -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/charge", listener.local_addr().unwrap());
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let turn = counted.fetch_add(1, SeqCst) + 1;
            let status = if turn.is_multiple_of(3) {
                "200 OK"
            } else {
                "503 Down"
            };
            drop(socket.read(&mut [0; 4096]).await);
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            drop(socket.write_all(answer.as_bytes()).await);
        }
    });
    (url, count)
}

fn guarded(service: &Scripted) -> ClientWithMiddleware {
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    ClientBuilder::new(plain)
        .with(HoldoffMiddleware::by_host(service.client()))
        .build()
}

#[tokio::test]
async fn requests_are_retried_by_status_and_method_and_bodies_that_stream_are_not() {
    let service = Scripted::granting();
    let client = guarded(&service);
    let (url, count) = flaky().await;
    let response = client.get(&url).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), count.swap(0, SeqCst)),
        (200, 3)
    );
    let response = client.post(&url).body("once").send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), count.swap(0, SeqCst)),
        (503, 1)
    );
    let streamed = reqwest::Body::wrap(String::from("once"));
    let response = client.put(&url).body(streamed).send().await.unwrap();
    assert_eq!((response.status().as_u16(), count.load(SeqCst)), (503, 1));
    let asked = service.questions();
    let host = url
        .trim_start_matches("http://")
        .trim_end_matches("/charge");
    assert!(asked.iter().all(|question| question.dependency == host));
}

#[tokio::test]
async fn a_refused_request_is_not_sent_and_the_error_says_why() {
    let service = Scripted::new(|_| {
        deny(
            proto::DenialReason::BreakerOpen,
            Some(Duration::from_secs(7)),
        )
    });
    let (url, count) = flaky().await;
    let error = guarded(&service).get(&url).send().await.unwrap_err();
    let Error::Middleware(error) = error else {
        panic!("{error}")
    };
    let stopped = error.downcast_ref::<CallError<Error>>().unwrap();
    assert_eq!(stopped.why.reason, DenialReason::BreakerOpen);
    assert_eq!(count.load(SeqCst), 0);
}

/// What the last question says of the attempt before.
fn told_last(service: &Scripted) -> proto::Outcome {
    let questions = service.questions();
    let previous = questions.last().unwrap().previous.clone();
    previous.unwrap().outcome.unwrap()
}

fn two_attempts() -> Scripted {
    Scripted::new(|question| match question.attempt {
        1 | 2 => grant(Duration::ZERO),
        _ => deny(proto::DenialReason::AttemptsExhausted, None),
    })
}

/// Where nobody listens.
async fn closed_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}

#[tokio::test]
async fn the_error_of_a_request_that_was_tried_is_reqwests_own() {
    let service = two_attempts();
    let one_hop = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none());
    let client = ClientBuilder::new(one_hop.build().unwrap())
        .with(HoldoffMiddleware::by_host(service.client()).without_redirects())
        .build();
    let error = client.post(closed_url().await).send().await.unwrap_err();
    let Error::Reqwest(error) = error else {
        panic!("{error}")
    };
    assert!(error.is_connect());
    assert_eq!(told_last(&service).kind(), proto::OutcomeKind::NotSent);
}

#[tokio::test]
async fn b15_a_connection_that_a_redirect_could_not_make_does_not_repeat_the_charge() {
    let service = two_attempts();
    let dead = closed_url().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/charge", listener.local_addr().unwrap());
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            counted.fetch_add(1, SeqCst);
            drop(socket.read(&mut [0; 4096]).await);
            let answer =
                format!("HTTP/1.1 303 See Other\r\nlocation: {dead}\r\ncontent-length: 0\r\n\r\n");
            drop(socket.write_all(answer.as_bytes()).await);
        }
    });
    let error = guarded(&service).post(&url).send().await.unwrap_err();
    assert!(error.is_connect());
    assert_eq!(count.load(SeqCst), 1);
}
