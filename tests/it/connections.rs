//! How many connections there may be, how long they last and what each may hold, over real sockets. Real time, since it is
//! sockets that are closed; what is waited for is their end.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use holdoff::{
    server::{Metrics, http},
    settings::{ConnectionSettings, MetricsDependencies},
    telemetry::Counter,
};
use holdoff_client::{Client as Caller, Safety, proto::WatchEventsRequest};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    time::timeout,
};
use tonic::Code;

use crate::{harness::*, sessions::Session};

const GOAWAY: u8 = 7;

async fn started(connections: ConnectionSettings) -> Service {
    Service::start_with(Setup {
        connections,
        ..Setup::default()
    })
    .await
}

/// A connection of HTTP/2 without a call, as a proxy keeps one: it answers pings.
struct Raw(TcpStream);

impl Raw {
    async fn open(service: &Service) -> Self {
        let address = service.urls[0].strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The preface, and settings that say nothing.
        let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        stream.write_all(hello).await.unwrap();
        Self(stream)
    }

    /// A frame's type and flags; `None`: the connection has ended.
    async fn frame(&mut self) -> Option<(u8, u8)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let mut body = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        self.0.read_exact(&mut body).await.ok()?;
        let (kind, flags) = (head[3], head[4]);
        if matches!(kind, 4 | 6) && flags & 1 == 0 {
            // Settings are taken, and a ping comes back.
            let body = if kind == 6 { &body[..] } else { &[] };
            let head = [0, 0, body.len() as u8, kind, 1, 0, 0, 0, 0];
            let told = [&head[..], body].concat();
            self.0.write_all(&told).await.ok()?;
        }
        Some((kind, flags))
    }

    /// The types of all frames until its end.
    async fn until_its_end(&mut self) -> Vec<u8> {
        let read = async {
            let mut kinds = Vec::new();
            while let Some((kind, _)) = self.frame().await {
                kinds.push(kind);
            }
            kinds
        };
        timeout(PATIENCE, read).await.expect("it ends")
    }
}

#[tokio::test]
async fn a_connection_without_a_call_is_told_to_go_and_one_with_a_stream_stays() {
    let idle = Duration::from_millis(400);
    let service = started(ConnectionSettings {
        idle: Some(idle),
        ..ConnectionSettings::default()
    })
    .await;
    let mut client = service.client().await;
    let mut session = Session::open(&mut client).await;
    for _ in 0..3 {
        let began = Instant::now();
        let told = Raw::open(&service).await.until_its_end().await;
        assert!(told.contains(&GOAWAY), "{told:?}");
        assert!(began.elapsed() >= idle, "{:?}", began.elapsed());
    }
    session.ask(7, vec![first("d")]);
    assert_eq!(session.items(7).await.len(), 1, "after three times as long");
}

#[tokio::test]
async fn a_connection_that_is_old_is_told_to_go_and_its_streams_are_ended_with_why() {
    let service = started(ConnectionSettings {
        age: Some(Duration::from_millis(300)),
        ..ConnectionSettings::default()
    })
    .await;
    let told = Raw::open(&service).await.until_its_end().await;
    assert!(told.contains(&GOAWAY), "{told:?}");

    let mut client = service.client().await;
    let mut session = Session::open(&mut client).await;
    let events = client.operates.watch_events(WatchEventsRequest::default());
    let mut events = events.await.unwrap().into_inner();
    let ended = timeout(PATIENCE, session.answers.message()).await.unwrap();
    let watched = timeout(PATIENCE, events.message()).await.unwrap();
    for status in [ended.unwrap_err(), watched.unwrap_err()] {
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(
            status
                .message()
                .contains("as old as it may get; connect again"),
            "{status:?}"
        );
    }
    // The next call is made on another connection, and nobody has to see to that.
    client.granted(first("d")).await;
}

/// Who neither answers nor goes holds its place no longer than the grace.
#[tokio::test]
async fn what_stays_on_an_old_connection_is_cut_off_after_the_grace() {
    let (age, grace) = (Duration::from_millis(200), Duration::from_millis(300));
    let service = started(ConnectionSettings {
        age: Some(age),
        grace,
        ..ConnectionSettings::default()
    })
    .await;
    let began = Instant::now();
    let Raw(mut stream) = Raw::open(&service).await;
    let mut rest = Vec::new();
    // No ping is answered.
    let read = stream.read_to_end(&mut rest);
    let _cut_or_closed = timeout(PATIENCE, read).await.expect("it ends");
    assert!(
        began.elapsed() >= age.mul_f64(0.9) + grace,
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn who_finds_no_room_waits_until_there_is_some_over_all_listeners() {
    let service = Service::start_with(Setup {
        workers: 2,
        connections: ConnectionSettings {
            most: NonZeroU32::new(2),
            ..ConnectionSettings::default()
        },
        ..Setup::default()
    })
    .await;
    let mut one = Client::connect(&service.urls[0]).await;
    let mut two = Client::connect(&service.urls[1]).await;
    one.granted(first("d")).await;
    two.granted(first("d")).await;
    let telemetry = service.coordinator.telemetry();
    let open = || telemetry.open(Counter::ConnectionOpened, Counter::ConnectionClosed);
    assert_eq!(open(), 2);
    // Its connection waits in the service; nothing is said on it.
    let third = tokio::spawn({
        let url = service.urls[0].clone();
        async move { Client::connect(&url).await.granted(first("d")).await }
    });
    two.granted(first("d")).await;
    assert!(!third.is_finished() && open() == 2);
    drop(two);
    timeout(PATIENCE, third)
        .await
        .expect("it finds room")
        .unwrap();
    one.granted(first("d")).await;
}

#[allow(clippy::disallowed_methods, reason = "real sockets are waited for")]
async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Calls until it is told to end; what failed. Every tenth first attempt fails, and its retry does not.
async fn call(client: Caller, ended: Arc<AtomicBool>, made: Arc<AtomicU64>) -> Vec<String> {
    let mut failed = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let number = made.fetch_add(1, Ordering::Relaxed);
        let called = client
            .call("d")
            .safety(Safety::Idempotent)
            .deadline(Duration::from_secs(5))
            .run(|attempt| async move {
                match number.is_multiple_of(10) && attempt.number == 1 {
                    true => Err(std::io::Error::other("503")),
                    false => Ok(()),
                }
            })
            .await;
        failed.extend(called.err().map(|error| error.to_string()));
        pause(5).await;
    }
    failed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_outlive_the_age_of_their_connections_and_no_call_fails() {
    const CLIENTS: usize = 4;
    let service = Service::start_with(Setup {
        policies: &policy_of_d(
            "{retry: {max_attempts: 5, initial_delay: 5ms, max_delay: 50ms}, breaker: {mode: off}, \
             budget: {ratio: 1.0, floor_per_second: 1000, max_caller_share: 1.0}}",
        ),
        connections: ConnectionSettings {
            age: Some(Duration::from_millis(700)),
            grace: Duration::from_millis(200),
            ..ConnectionSettings::default()
        },
        ..Setup::default()
    })
    .await;
    let (ended, made) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let mut clients = Vec::new();
    let mut calling = Vec::new();
    for at in 0..CLIENTS {
        let client = Caller::builder()
            .service("shop")
            .instance(format!("i{at}"))
            .endpoints([&service.urls[0]])
            .follow(["d"])
            .build()
            .unwrap();
        clients.push(client.clone());
        calling.push(tokio::spawn(call(
            client,
            Arc::clone(&ended),
            Arc::clone(&made),
        )));
    }
    let begun = Instant::now();
    // Each comes back within five seconds, so the last of a few is soon there.
    while clients
        .iter()
        .any(|client| client.counters().connections < 3)
    {
        assert!(begun.elapsed() < 2 * PATIENCE, "they do not come back");
        pause(20).await;
    }
    ended.store(true, Ordering::Relaxed);
    let mut failed = Vec::new();
    for calling in calling {
        failed.extend(calling.await.unwrap());
    }
    let made = made.load(Ordering::Relaxed);
    println!("{made} calls in {:.1?}", begun.elapsed());
    assert!(
        failed.is_empty(),
        "{} of {made}: {:?}",
        failed.len(),
        &failed[..1]
    );
    assert!(made > 100, "{made}");
}

/// The most that somebody without a name may have us keep of one request's headers.
const HEADERS_MAX: usize = 16 * 1024;

/// Where HTTP is served, until what is returned is dropped.
async fn http_of(service: &Service) -> (String, watch::Sender<bool>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stop, stopped) = watch::channel(false);
    let coordinator = Arc::clone(&service.coordinator);
    let metrics = Metrics::new(coordinator, MetricsDependencies::default(), 16);
    tokio::spawn(http::serve(Some(listener), 16, Arc::new(metrics), stopped));
    (address, stop)
}

#[tokio::test]
async fn headers_over_http_take_no_more_than_their_limit() {
    let service = Service::start("version: 1").await;
    let (address, _serving) = http_of(&service).await;
    let answered = |length: usize, ends: &'static str| {
        let address = address.clone();
        async move {
            let begin = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-long: ";
            let long = "x".repeat(length - begin.len() - ends.len());
            let mut stream = TcpStream::connect(address).await.unwrap();
            let text = format!("{begin}{long}{ends}");
            stream.write_all(text.as_bytes()).await.unwrap();
            let mut head = [0; 12];
            let read = timeout(PATIENCE, stream.read_exact(&mut head)).await;
            read.unwrap().unwrap();
            String::from_utf8(head.to_vec()).unwrap()
        }
    };
    assert_eq!(answered(HEADERS_MAX - 1, "\r\n\r\n").await, "HTTP/1.1 200");
    assert_eq!(answered(HEADERS_MAX + 64, "\r\n\r\n").await, "HTTP/1.1 431");
    // And where they never end, before the time to ask is over.
    assert_eq!(answered(HEADERS_MAX, "").await, "HTTP/1.1 431");
}

#[tokio::test]
async fn headers_over_grpc_take_no_more_than_their_limit() {
    let service = Service::start("version: 1").await;
    let Raw(mut stream) = Raw::open(&service).await;
    // Headers that go on and on in frames of 4 KiB: each a field without indexing, and none the last.
    let mut sent = 0;
    let mut kind = 1;
    loop {
        assert!(
            sent < 16 * HEADERS_MAX,
            "{sent} bytes, and it still takes more"
        );
        let name = format!("x{sent:07}");
        let value = [b'x'; 4_086];
        // A length of 4,086 as HPACK writes it, with a prefix of seven bits.
        let field = [&[0, 8], name.as_bytes(), &[0x7f, 0xf7, 0x1e], &value[..]].concat();
        let length = (field.len() as u32).to_be_bytes();
        let head = [&length[1..], &[kind, 0, 0, 0, 0, 1]].concat();
        let told = stream.write_all(&[head, field].concat()).await;
        sent += 4_096;
        kind = 9;
        if told.is_err() {
            break;
        }
        // Whatever it says meanwhile; an end, or GOAWAY and then an end.
        let mut said = [0; 1_024];
        let read = timeout(Duration::from_millis(50), stream.read(&mut said)).await;
        if matches!(read, Ok(Ok(0) | Err(_))) {
            break;
        }
    }
}
