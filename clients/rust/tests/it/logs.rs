//! What the log says: once that the service is away, once that it is back, and nothing per call.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use holdoff_client::Client;
use tracing::subscriber::DefaultGuard;

use crate::server::{Reply, Scripted, grant};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Of this test alone, which runs on one thread.
    fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The client's own lines since the last time.
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        let lines = text.lines().filter(|line| line.contains("holdoff_client"));
        lines.map(str::to_owned).collect()
    }
}

async fn call_for(client: &Client, seconds: u64) {
    for _ in 0..seconds * 10 {
        let call = client.call("payments");
        drop(call.run(|_| async { Err::<(), _>("boom") }).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn is_one(lines: &[String], level: &str, words: &str) -> bool {
    let [line] = lines else { return false };
    let all = [level, words, "http://127.0.0.1:7460/"];
    all.iter().all(|part| line.contains(part))
}

#[tokio::test(start_paused = true)]
async fn a_refused_or_killed_service_is_told_once_with_its_address_and_its_return_once() {
    let (log, _guard) = Log::begin();
    let service = Scripted::granting();
    service.kill();
    let client = service.client();
    call_for(&client, 90).await;
    let lines = log.lines();
    assert!(is_one(&lines, "WARN", "not reachable"), "{lines:#?}");
    service.start();
    call_for(&client, 60).await;
    let lines = log.lines();
    assert!(is_one(&lines, "INFO", "answers again"), "{lines:#?}");
    service.kill();
    call_for(&client, 60).await;
    let lines = log.lines();
    assert!(is_one(&lines, "WARN", "the connection broke"), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_service_is_told_once_with_its_address_and_its_return_once() {
    let (log, _guard) = Log::begin();
    let service = Scripted::new(|_| Reply::Never);
    let client = service.client();
    call_for(&client, 90).await;
    let lines = log.lines();
    assert!(is_one(&lines, "WARN", "does not answer"), "{lines:#?}");
    service.script(|_| grant(Duration::ZERO));
    call_for(&client, 60).await;
    let lines = log.lines();
    assert!(is_one(&lines, "INFO", "answers again"), "{lines:#?}");
}
