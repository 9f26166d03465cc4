//! The dependency: answers 200, and 503 while it fails and to each tenth first attempt, and
//! keeps what came.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// A process of any language is there by then.
const PATIENCE: Duration = Duration::from_secs(60);

/// Long enough that probes which are out together are seen together.
const PROBE_TAKES: Duration = Duration::from_millis(150);

/// One call as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// From the dependency's beginning.
    pub at: Duration,
    pub language: String,
    pub attempt: u32,
    pub is_probe: bool,
    pub was_answered_well: bool,
}

#[derive(Debug)]
struct Shared {
    begun: Instant,
    arrivals: Mutex<Vec<Arrival>>,
    outage: Mutex<Option<(Duration, Duration)>>,
    firsts: AtomicUsize,
    probes: AtomicUsize,
    probes_at_once: AtomicUsize,
}

#[derive(Debug)]
pub struct Dependency {
    address: String,
    shared: Arc<Shared>,
    serving: tokio::task::AbortHandle,
}

impl Dependency {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let shared = Arc::new(Shared {
            begun: Instant::now(),
            arrivals: Mutex::default(),
            outage: Mutex::default(),
            firsts: AtomicUsize::new(0),
            probes: AtomicUsize::new(0),
            probes_at_once: AtomicUsize::new(0),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self {
            address,
            shared,
            serving,
        })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// When a client of each language had called.
    pub async fn has_heard_of(&self, languages: HashSet<&str>) -> Result<Duration> {
        let heard = async {
            loop {
                let seen: HashSet<_> = self.arrivals().into_iter().map(|it| it.language).collect();
                if languages.iter().all(|language| seen.contains(*language)) {
                    return self.shared.begun.elapsed();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let heard = tokio::time::timeout(PATIENCE, heard).await;
        heard.with_context(|| format!("not all of {languages:?} have called"))
    }

    pub async fn fails(&self, from: Duration, to: Duration) {
        *lock(&self.shared.outage) = Some((from, to));
    }

    pub fn probes_at_once(&self) -> usize {
        self.shared.probes_at_once.load(SeqCst)
    }

    /// In their order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        lock(&self.shared.arrivals).clone()
    }
}

impl Drop for Dependency {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(answer(socket, Arc::clone(&shared)));
    }
}

/// One request a connection.
async fn answer(mut socket: TcpStream, shared: Arc<Shared>) {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match socket.read(&mut piece).await {
            Ok(read) if read > 0 && head.len() < 16_384 => {
                head.extend(piece.iter().take(read));
            }
            Ok(_) | Err(_) => return,
        }
    }
    let line = String::from_utf8_lossy(&head);
    let target = line.split(' ').nth(1).unwrap_or_default();
    let arrival = shared.take(target);
    if arrival.is_probe {
        let out = shared.probes.fetch_add(1, SeqCst) + 1;
        shared.probes_at_once.fetch_max(out, SeqCst);
        tokio::time::sleep(PROBE_TAKES).await;
        shared.probes.fetch_sub(1, SeqCst);
    }
    let status = match arrival.was_answered_well {
        true => "200 OK",
        false => "503 Service Unavailable",
    };
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    // Whoever has gone needs no answer.
    let _ = socket.write_all(text.as_bytes()).await;
}

impl Shared {
    /// `/LANGUAGE?attempt=N&probe=0`.
    fn take(&self, target: &str) -> Arrival {
        let at = self.begun.elapsed();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let of = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find_map(|(key, value)| (key == name).then_some(value))
        };
        let is_down = lock(&self.outage).is_some_and(|(from, to)| from <= at && at < to);
        let attempt = of("attempt").and_then(|it| it.parse().ok()).unwrap_or(0);
        let is_probe = of("probe") == Some("1");
        let is_unlucky = attempt == 1 && !is_probe && self.firsts.fetch_add(1, SeqCst) % 10 == 9;
        let arrival = Arrival {
            at,
            language: path.trim_matches('/').to_owned(),
            attempt,
            is_probe,
            was_answered_well: !is_down && !is_unlucky,
        };
        lock(&self.arrivals).push(arrival.clone());
        arrival
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
