//! Real sockets, and therefore real time.

use std::time::{Duration, Instant};

use holdoff_client::{Client, Outcome, operator};
use tokio::net::TcpListener;

/// What a bound of 50 ms may become on a busy machine.
const BOUND: Duration = Duration::from_millis(250);

fn client(port: u16) -> Client {
    let endpoint = format!("http://127.0.0.1:{port}");
    Client::builder().endpoints([endpoint]).build().unwrap()
}

async fn unused_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
async fn cl2_a_refused_connection_costs_no_call_anything() {
    let client = client(unused_port().await);
    for _ in 0..100 {
        let begun = Instant::now();
        let permit = client.acquire("payments").await.unwrap();
        assert!(permit.is_local() && begun.elapsed() < BOUND);
        permit.report(Outcome::success());
    }
}

#[tokio::test]
async fn cl2_a_black_hole_that_accepts_and_never_answers_costs_three_calls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            held.push(socket);
        }
    });
    let mut slow = 0;
    for _ in 0..100 {
        let begun = Instant::now();
        let permit = client.acquire("payments").await.unwrap();
        assert!(permit.is_local() && begun.elapsed() < BOUND);
        slow += u32::from(begun.elapsed() >= Duration::from_millis(45));
        permit.report(Outcome::success());
    }
    assert!((1..=3).contains(&slow), "{slow}");
}

#[tokio::test]
async fn cl2_a_peer_that_resets_or_speaks_garbage_costs_no_call_anything() {
    use tokio::io::AsyncWriteExt;
    for garbage in [&b""[..], b"HTTP/1.1 200 OK\r\n\r\n", &[0xff; 4096]] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client(listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                drop(socket.write_all(garbage).await);
            }
        });
        for _ in 0..50 {
            let begun = Instant::now();
            let permit = client.acquire("payments").await.unwrap();
            assert!(permit.is_local() && begun.elapsed() < BOUND);
            permit.report(Outcome::success());
        }
    }
}

#[tokio::test]
async fn an_operator_is_told_that_the_service_is_away_and_why() {
    let endpoint = format!("http://127.0.0.1:{}", unused_port().await);
    let error = operator::connect(&endpoint, None).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    let error = operator::connect("nonsense", None).await.unwrap_err();
    assert!(matches!(error, operator::ConnectError::Malformed(_)));
}
