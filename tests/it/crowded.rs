//! How much of the service one address and one principal may hold, over real sockets. What is
//! waited for is an answer; no time is measured.

use std::{net::TcpListener, num::NonZeroU32, sync::Arc, time::Instant};

use holdoff::{
    access::{Limits, Token},
    server::{Gate, Metrics, http},
    settings::MetricsDependencies,
};
use holdoff_client::proto::{
    ListDependenciesRequest, SessionRequest, WatchDependenciesRequest, WatchEventsRequest,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{mpsc, watch},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::harness::*;

fn limits(connections: u32, sessions: u32) -> Limits {
    Limits {
        connections_per_address: NonZeroU32::new(connections).unwrap(),
        sessions_per_principal: NonZeroU32::new(sessions).unwrap(),
        ..Limits::default()
    }
}

fn watches(most: u32) -> Limits {
    Limits {
        watches_per_principal: NonZeroU32::new(most).unwrap(),
        ..Limits::default()
    }
}

#[track_caller]
fn assert_crowded(status: &Status, reason: &str, told: &str) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let info = status.get_details_error_info().expect("ErrorInfo");
    assert_eq!(info.reason, reason);
    assert!(status.message().contains(told), "{}", status.message());
}

#[tokio::test]
async fn a_connection_over_the_limit_of_its_address_is_told_so_and_room_comes_back() {
    let service = Service::start_with(Setup {
        limits: limits(2, 1),
        ..Setup::default()
    })
    .await;
    let (mut one, mut two) = (service.client().await, service.client().await);
    one.granted(first("d")).await;
    two.granted(first("d")).await;
    let mut three = service.client().await;
    let told = "this address has 2 connections already";
    assert_crowded(&three.refused(first("d")).await, "CONNECTION_LIMIT", told);
    let list = ListDependenciesRequest::default();
    let refused = three.operates.list_dependencies(list).await.unwrap_err();
    assert_crowded(
        &refused,
        "CONNECTION_LIMIT",
        "--max-connections-per-address",
    );
    two.granted(first("d")).await;
    drop((two, three));
    let began = Instant::now();
    loop {
        let mut next = service.client().await;
        match next.asks.acquire(first("d")).await {
            Ok(_) => break,
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}"),
        }
        assert!(began.elapsed() < PATIENCE, "no room comes back");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_session_over_the_limit_of_its_principal_is_refused_and_others_are_not() {
    let (shop, mail) = (Token::new([1; 32]), Token::new([2; 32]));
    let entry = |name: &str, token: &Token| {
        let hash = token.hash();
        format!("  {name}: {{grants: {{default: client}}, secrets: [{{sha256: {hash}}}]}}\n")
    };
    let (one, other) = (entry("shop", &shop), entry("mail", &mail));
    let service = Service::start_with(Setup {
        access: Some(&format!("version: 1\ntokens:\n{one}{other}")),
        limits: limits(100, 2),
        ..Setup::default()
    })
    .await;
    let client = service.client().await;
    let session = async |token: &Token| {
        let (asks, asked) = mpsc::channel::<SessionRequest>(1);
        let mut request = Request::new(ReceiverStream::new(asked));
        let bearer = format!("Bearer {}", token.reveal()).parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        let answers = client.clone().asks.session(request).await;
        answers.map(|answers| (asks, answers.into_inner()))
    };
    let first = session(&shop).await.unwrap();
    let _second = session(&shop).await.unwrap();
    let refused = session(&shop).await.unwrap_err();
    let told = "this principal has 2 sessions already";
    assert_crowded(&refused, "SESSION_LIMIT", told);
    let _another = session(&mail).await.unwrap();
    drop(first);
    let began = Instant::now();
    while let Err(status) = session(&shop).await {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        assert!(began.elapsed() < PATIENCE, "no room comes back");
        tokio::task::yield_now().await;
    }
}

/// Streams of dependencies and of events, and pages of the dashboard, are counted together.
#[tokio::test]
async fn a_watch_over_the_limit_of_its_principal_is_refused_and_others_are_not() {
    let (ada, bob) = (Token::new([1; 32]), Token::new([2; 32]));
    let entry = |name: &str, token: &Token| {
        let hash = token.hash();
        format!("  {name}: {{grants: {{default: viewer}}, secrets: [{{sha256: {hash}}}]}}\n")
    };
    let (one, other) = (entry("ada", &ada), entry("bob", &bob));
    let service = Service::start_with(Setup {
        access: Some(&format!("version: 1\ntokens:\n{one}{other}")),
        limits: watches(3),
        ..Setup::default()
    })
    .await;
    let at = pages(&service).await;
    let client = service.client().await;
    let with = |token: &Token| format!("Bearer {}", token.reveal());
    let events = async |token: &Token| {
        let mut request = Request::new(WatchEventsRequest::default());
        let bearer = with(token).parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        let events = client.clone().operates.watch_events(request).await;
        events.map(tonic::Response::into_inner)
    };
    let mut request = Request::new(WatchDependenciesRequest::default());
    let bearer = with(&ada).parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    let changes = client.clone().operates.watch_dependencies(request).await;
    let _changes = changes.unwrap();
    let first = events(&ada).await.unwrap();
    let page = |token: &Token| {
        format!(
            "/dashboard/stream HTTP/1.1\r\nAuthorization: {}",
            with(token)
        )
    };
    let (_page, answer) = got(at, &page(&ada)).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let refused = events(&ada).await.unwrap_err();
    let told = "3 watches and pages of this principal";
    assert_crowded(&refused, "WATCH_LIMIT", told);
    let (_, answer) = got(at, &page(&ada)).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    let _bob = events(&bob).await.unwrap();
    drop(first);
    let began = Instant::now();
    while let Err(status) = events(&ada).await {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        assert!(began.elapsed() < PATIENCE, "no room comes back");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn where_nobody_has_a_name_watches_are_those_of_an_address() {
    let service = Service::start_with(Setup {
        limits: watches(2),
        ..Setup::default()
    })
    .await;
    let mut held = Vec::new();
    for n in 0..3 {
        let mut client = service.client().await;
        let events = client.operates.watch_events(WatchEventsRequest::default());
        match events.await {
            Ok(events) => held.push((client, events.into_inner())),
            Err(status) => {
                assert_crowded(&status, "WATCH_LIMIT", "--max-watches-per-principal");
                assert_eq!(n, 2);
                // All else goes on.
                client.granted(first("d")).await;
            }
        }
    }
    assert_eq!(held.len(), 2);
}

/// The answer to one request on a connection of its own, which is handed out too.
async fn asked(at: std::net::SocketAddr) -> (TcpStream, String) {
    got(at, "/healthz HTTP/1.1").await
}

async fn got(at: std::net::SocketAddr, what: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request = format!("GET {what}\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let mut some = [0; 4_096];
    while !answer.contains("\r\n\r\n") {
        let read = stream.read(&mut some).await.unwrap();
        assert_ne!(read, 0, "it ended: {answer}");
        answer += &String::from_utf8_lossy(&some[..read]);
    }
    (stream, answer)
}

/// Where the HTTP side of a service is served from now on.
async fn pages(service: &Service) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    let gate = Gate {
        access: Arc::clone(&service.access),
        ..Gate::open()
    };
    let metrics = Metrics::new(
        Arc::clone(&service.coordinator),
        MetricsDependencies::default(),
        16,
    );
    let (stop, stopped) = watch::channel(false);
    let metrics = Arc::new(metrics);
    let served = http::serve_behind(gate, Some(listener), 16, Vec::new(), metrics, stopped);
    tokio::spawn(async move {
        let _lasts = stop;
        served.await
    });
    at
}

#[tokio::test]
async fn over_http_the_same_limit_is_429_and_room_comes_back() {
    let service = Service::start_with(Setup {
        limits: limits(2, 1),
        ..Setup::default()
    })
    .await;
    let at = pages(&service).await;
    let (one, answer) = asked(at).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_two, answer) = asked(at).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_three, answer) = asked(at).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains("retry-after: 1"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    drop(one);
    let began = Instant::now();
    while !asked(at).await.1.starts_with("HTTP/1.1 200") {
        assert!(began.elapsed() < PATIENCE, "no room comes back");
        tokio::task::yield_now().await;
    }
}
