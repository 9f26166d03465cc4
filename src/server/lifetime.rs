//! How many connections there may be to the gRPC port, and how long each of them lasts.
//!
//! One on which nothing happens for long is told to go, and so is one that is as old as it may get,
//! which spreads clients behind a balancer over replicas that came later. Told to go is GOAWAY: what
//! runs there runs to its end, and what is new goes over another connection. Streams would run for
//! ever, so they are ended. Each age is drawn from a tenth around what was set: a fleet that connected
//! together must not come back together.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Semaphore, watch},
    time::sleep,
};

use crate::{entropy::Entropy, settings::ConnectionSettings};

/// Connections that a process may have, unless it is told.
const CONNECTIONS_MAX: usize = 12_000;
/// An age is drawn from so much below and above it.
const AGE_SPREAD: f64 = 0.1;
/// An idle connection is found after so many looks at least, and one more at most.
const LOOKS: u32 = 8;

/// See the module. All listeners of a service share it.
#[derive(Clone, Debug)]
pub struct Connections {
    pub(super) places: Arc<Semaphore>,
    pub(super) most: usize,
    idle: Option<Duration>,
    age: Option<Duration>,
    grace: Duration,
}

impl Connections {
    pub fn new(settings: ConnectionSettings) -> Self {
        let most = match settings.most {
            Some(most) => usize::try_from(most.get()).unwrap_or(usize::MAX),
            None => (descriptors_max() / 10 * 6).min(CONNECTIONS_MAX),
        };
        Self {
            places: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            most,
            idle: settings.idle,
            age: settings.age,
            grace: settings.grace,
        }
    }

    /// The age at which a new connection is told to go; `None`: at none.
    pub(super) fn draw_age(&self) -> Option<Duration> {
        let unit = Entropy::System.sample().jitter;
        let factor = 1.0 + AGE_SPREAD * (2.0 * unit - 1.0);
        self.age.map(|age| age.mul_f64(factor))
    }

    /// How long one that was told to go may last.
    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    pub(super) fn idle(&self) -> Option<Duration> {
        self.idle
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self::new(ConnectionSettings::default())
    }
}

/// What this process may open: files, sockets.
pub(super) fn descriptors_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    usize::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX)
}

/// One connection, while it lasts.
#[derive(Debug)]
pub struct Life {
    /// Calls that have begun and not ended.
    running: AtomicU32,
    /// Goes up with each that begins, and over.
    begun: AtomicU32,
    over: watch::Sender<bool>,
}

impl Default for Life {
    fn default() -> Self {
        Self {
            running: AtomicU32::new(0),
            begun: AtomicU32::new(0),
            over: watch::Sender::new(false),
        }
    }
}

impl Life {
    /// A call begins; it ends with what this returns.
    pub fn begin(self: &Arc<Self>) -> Running {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(self))
    }

    /// Says when streams are to end.
    pub fn leaving(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }

    /// Until the connection is to go.
    pub async fn over(&self, idle: Option<Duration>, age: Option<Duration>) {
        let old = async {
            match age {
                Some(age) => sleep(age).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = old => {}
            () = self.idle(idle) => {}
        }
        self.over.send_replace(true);
    }

    /// Until nothing has happened for so long.
    async fn idle(&self, span: Option<Duration>) {
        let Some(span) = span else {
            return pending().await;
        };
        let (mut seen, mut still) = (self.begun.load(Ordering::Relaxed), 0);
        while still < LOOKS {
            sleep(span / LOOKS).await;
            let begun = self.begun.load(Ordering::Relaxed);
            let is_quiet = begun == seen && self.running.load(Ordering::Relaxed) == 0;
            still = if is_quiet { still + 1 } else { 0 };
            seen = begun;
        }
    }
}

/// A call that runs.
#[derive(Debug)]
pub struct Running(Arc<Life>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance};

    use super::*;

    const IDLE: Option<Duration> = Some(Duration::from_secs(600));

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_call_is_over_after_a_while_and_one_with_calls_is_not() {
        let life = Arc::new(Life::default());
        let began = Instant::now();
        let over = tokio::spawn({
            let life = Arc::clone(&life);
            async move { life.over(IDLE, None).await }
        });
        for _ in 0..60 {
            advance(Duration::from_secs(60)).await;
            drop(life.begin());
        }
        assert!(!over.is_finished(), "an hour of calls");
        let stream = life.begin();
        advance(Duration::from_secs(7_200)).await;
        assert!(!over.is_finished() && !*life.leaving().borrow(), "a stream");
        let quiet = Instant::now();
        drop(stream);
        over.await.unwrap();
        let took = quiet.elapsed().as_secs();
        assert!((600..=675).contains(&took), "{took} s");
        assert!(*life.leaving().borrow());
        assert!(began.elapsed() > quiet.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_over_at_its_age_whatever_runs_there() {
        let life = Arc::new(Life::default());
        let _stream = life.begin();
        let began = Instant::now();
        life.over(IDLE, Some(Duration::from_secs(300))).await;
        assert_eq!(began.elapsed(), Duration::from_secs(300));
    }

    #[test]
    fn ages_are_spread_by_a_tenth_either_way() {
        let connections = Connections::new(ConnectionSettings {
            age: Some(Duration::from_secs(100)),
            ..ConnectionSettings::default()
        });
        let ages: Vec<f64> = (0..2_000)
            .map(|_| connections.draw_age().unwrap().as_secs_f64())
            .collect();
        assert!(
            ages.iter().all(|age| (90.0..110.0).contains(age)),
            "{ages:?}"
        );
        let below = |most: f64| ages.iter().filter(|age| **age < most).count();
        assert!((350..650).contains(&below(95.0)), "{}", below(95.0));
        assert!((850..1_150).contains(&below(100.0)), "{}", below(100.0));
        assert_eq!(Connections::default().draw_age(), None);
    }
}
