//! What the service manager is told: ready, stopping and, where it asks, alive. Nothing where
//! there is none: who starts the service by hand sets no `NOTIFY_SOCKET`.
//!
//! Alive means that every worker's runtime still turns. A timer of the main thread alone would go
//! on telling so while the workers, which are what answers, hang.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

/// The manager's patience, over this, is how often it is told: one that is late is made good by
/// the next.
const TELLS: u32 = 4;
/// And this is how often each worker beats.
const BEATS: u32 = 8;

/// The beats of all workers, counted.
#[derive(Debug)]
pub struct Pulse {
    patience: Duration,
    beats: Vec<AtomicU64>,
}

impl Pulse {
    /// As the manager asks; `None` where nobody waits for it.
    pub fn asked(workers: usize) -> Option<Arc<Self>> {
        let patience = sd_notify::watchdog_enabled().filter(|patience| !patience.is_zero())?;
        Some(Self::new(patience, workers))
    }

    fn new(patience: Duration, workers: usize) -> Arc<Self> {
        let beats = (0..workers).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { patience, beats })
    }

    /// Runs on the runtime of a worker, as long as that does.
    pub async fn beat(self: Arc<Self>, worker: usize) {
        let Some(beats) = self.beats.get(worker) else {
            return;
        };
        let mut ticks = ticks(self.patience / BEATS);
        loop {
            ticks.tick().await;
            beats.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Calls `tell` as often as all workers have beaten since the last look.
    async fn watch(self: Arc<Self>, mut tell: impl FnMut()) {
        let mut ticks = ticks(self.patience / TELLS);
        let mut seen: Vec<u64> = self.read();
        loop {
            ticks.tick().await;
            let now = self.read();
            if now.iter().zip(&seen).all(|(now, seen)| now > seen) {
                tell();
            }
            seen = now;
        }
    }

    fn read(&self) -> Vec<u64> {
        let read = |beats: &AtomicU64| beats.load(Ordering::Relaxed);
        self.beats.iter().map(read).collect()
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    // A patience of less than that is no patience.
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Said once it listens; from here on it is told that the service is alive, where it asks.
pub fn ready(grpc: SocketAddr, http: Option<SocketAddr>) {
    let status = match http {
        Some(http) => format!("gRPC on {grpc}, HTTP on {http}"),
        None => format!("gRPC on {grpc}"),
    };
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// For ever.
pub async fn alive(pulse: Arc<Pulse>) {
    pulse.watch(|| tell(&[NotifyState::Watchdog])).await;
}

/// Said when a stop was asked for, before running requests are waited for.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}

/// A manager that cannot be told will act by itself: it is not the service's to end for it.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("the service manager cannot be told (NOTIFY_SOCKET): {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(8);

    /// How often the manager was told within `time`.
    async fn told_within(told: &AtomicU32, time: Duration) -> u32 {
        let before = told.load(Ordering::Relaxed);
        tokio::time::sleep(time).await;
        told.load(Ordering::Relaxed) - before
    }

    fn counted(pulse: &Arc<Pulse>) -> Arc<AtomicU32> {
        let told = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&told);
        let count = move || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        tokio::spawn(Arc::clone(pulse).watch(count));
        told
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_hangs_ends_the_pulse_of_all() {
        let pulse = Pulse::new(PATIENCE, 2);
        let told = counted(&pulse);
        tokio::spawn(Arc::clone(&pulse).beat(0));
        let other = tokio::spawn(Arc::clone(&pulse).beat(1));
        assert!(told_within(&told, PATIENCE).await >= 3, "alive");
        other.abort();
        // What had beaten before its end still counts once.
        assert!(told_within(&told, PATIENCE).await <= 1);
        assert_eq!(told_within(&told, PATIENCE * 10).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_manager_is_told_well_within_its_patience() {
        let pulse = Pulse::new(PATIENCE, 1);
        let told = counted(&pulse);
        tokio::spawn(Arc::clone(&pulse).beat(0));
        for _ in 0..100 {
            assert!(told_within(&told, PATIENCE / 2).await >= 1);
        }
    }
}
