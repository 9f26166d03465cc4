//! A way to a store that fails as the test wants: it holds what comes from either side, is slow, is
//! cut, says garbage, an end too soon, an error, or another time. It knows as much of the protocol as
//! that takes, and keeps no state but the way it fails now.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// How the way fails.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    Pass,
    /// What is sent to the store waits, what comes from it, or both; nobody is told.
    Hold {
        to_store: bool,
        to_replica: bool,
    },
    /// Answers come so much later.
    Slow(Duration),
    /// Nobody is let in, and who is in is thrown out.
    Cut,
    /// Answers are no answers.
    Garbage,
    /// Half of an answer comes, and then the end.
    Truncate,
    /// Each command is answered with this error, and does not reach the store.
    Refuse(&'static str),
    /// The store's clock is so many microseconds ahead.
    Ahead(i64),
}

pub struct Proxy {
    pub port: u16,
    way: Arc<watch::Sender<Way>>,
    target: Arc<watch::Sender<u16>>,
    /// Of its own: a test waits for processes, too. Dropped, it ends.
    _runtime: Background,
}

/// A runtime that is not waited for when it is dropped.
struct Background(Option<tokio::runtime::Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Proxy {
    pub fn start(target: u16) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let way = Arc::new(watch::Sender::new(Way::Pass));
        let target = Arc::new(watch::Sender::new(target));
        let (ways, targets) = (Arc::clone(&way), Arc::clone(&target));
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((replica, _)) = listener.accept().await {
                if *ways.borrow() == Way::Cut {
                    continue;
                }
                tokio::spawn(carry(replica, ways.subscribe(), targets.subscribe()));
            }
        });
        Self {
            port,
            way,
            target,
            _runtime: Background(Some(runtime)),
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// From now on it leads to another server; all connections to the former one end.
    pub fn lead_to(&self, port: u16) {
        self.target.send_replace(port);
    }
}

async fn carry(replica: TcpStream, ways: watch::Receiver<Way>, mut targets: watch::Receiver<u16>) {
    let port = *targets.borrow_and_update();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let Ok(store) = TcpStream::connect(address).await else {
        return;
    };
    let (from_replica, to_replica) = replica.into_split();
    let (from_store, to_store) = store.into_split();
    let to_replica = Arc::new(tokio::sync::Mutex::new(to_replica));
    let mut cut = ways.clone();
    tokio::select! {
        () = upward(from_replica, to_store, Arc::clone(&to_replica), ways.clone()) => {}
        () = downward(from_store, to_replica, ways) => {}
        _ = cut.wait_for(|way| *way == Way::Cut) => {}
        _ = targets.changed() => {}
    }
}

async fn upward<W: AsyncWrite + Unpin>(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    back: Arc<tokio::sync::Mutex<W>>,
    mut ways: watch::Receiver<Way>,
) {
    let (mut chunk, mut unparsed) = (vec![0; 65_536], Vec::new());
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        let held = |way: &Way| matches!(way, Way::Hold { to_store: true, .. });
        if ways.wait_for(|way| !held(way)).await.is_err() {
            return;
        }
        let refusal = match &*ways.borrow() {
            Way::Refuse(error) => Some(*error),
            _ => None,
        };
        let sent = match refusal {
            None => to.write_all(&chunk[..length]).await,
            Some(error) => {
                unparsed.extend_from_slice(&chunk[..length]);
                let commands = take_commands(&mut unparsed);
                let answers = format!("-{error}\r\n").repeat(commands);
                back.lock().await.write_all(answers.as_bytes()).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a network that is slow is what is tested"
)]
async fn downward<W: AsyncWrite + Unpin>(
    mut from: impl AsyncRead + Unpin,
    to: Arc<tokio::sync::Mutex<W>>,
    mut ways: watch::Receiver<Way>,
) {
    let mut chunk = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        let held = |way: &Way| {
            matches!(
                way,
                Way::Hold {
                    to_replica: true,
                    ..
                }
            )
        };
        if ways.wait_for(|way| !held(way)).await.is_err() {
            return;
        }
        let way = ways.borrow().clone();
        let mut told = chunk[..length].to_vec();
        match way {
            Way::Slow(span) => tokio::time::sleep(span).await,
            Way::Garbage => told.fill(b'?'),
            Way::Truncate => told.truncate(length / 2),
            Way::Ahead(micros) => step_time(&mut told, micros),
            Way::Pass | Way::Hold { .. } | Way::Cut | Way::Refuse(_) => {}
        }
        let mut to = to.lock().await;
        if to.write_all(&told).await.is_err() || *ways.borrow() == Way::Truncate {
            return;
        }
    }
}

/// Takes the whole commands from the front and says how many they were.
fn take_commands(bytes: &mut Vec<u8>) -> usize {
    let mut commands = 0;
    while let Some(end) = end_of_command(bytes) {
        bytes.drain(..end);
        commands += 1;
    }
    commands
}

/// `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`
fn end_of_command(bytes: &[u8]) -> Option<usize> {
    let number = |at: usize| {
        let line = bytes.get(at + 1..)?;
        let length = line.windows(2).position(|two| two == b"\r\n")?;
        let number: usize = std::str::from_utf8(&line[..length]).ok()?.parse().ok()?;
        Some((number, at + 1 + length + 2))
    };
    let (parts, mut at) = number(0)?;
    for _ in 0..parts {
        let (length, begin) = number(at)?;
        at = begin + length + 2;
    }
    (at <= bytes.len()).then_some(at)
}

/// Changes integers of sixteen digits: no others are times.
fn step_time(bytes: &mut [u8], micros: i64) {
    let mut at = 0;
    while at + 19 <= bytes.len() {
        let (head, end) = (bytes[at], &bytes[at + 17..at + 19]);
        let digits = &bytes[at + 1..at + 17];
        if head == b':' && end == b"\r\n" && digits.iter().all(u8::is_ascii_digit) {
            let text = std::str::from_utf8(digits).unwrap();
            let stepped = text.parse::<i64>().unwrap() + micros;
            bytes[at + 1..at + 17].copy_from_slice(format!("{stepped:016}").as_bytes());
            at += 18;
        }
        at += 1;
    }
}

#[test]
fn commands_are_counted_however_they_are_cut() {
    let mut bytes = b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPI".to_vec();
    assert_eq!(take_commands(&mut bytes), 2);
    bytes.extend(b"NG\r\n");
    assert_eq!(take_commands(&mut bytes), 1);
    assert!(bytes.is_empty());
}

#[test]
fn only_times_are_stepped() {
    let mut bytes = b"*3\r\n:1\r\n$16\r\n1700000000000000\r\n:1700000000000000\r\n".to_vec();
    step_time(&mut bytes, 3_600_000_000);
    let told = String::from_utf8(bytes).unwrap();
    assert_eq!(
        told,
        "*3\r\n:1\r\n$16\r\n1700000000000000\r\n:1700003600000000\r\n"
    );
}
