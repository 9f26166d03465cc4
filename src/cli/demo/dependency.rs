//! The flaky dependency: a function that sleeps and fails as the script says. It has no socket,
//! so that nothing but holdoff itself is between it and its callers.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use holdoff_client::{Outcome, OutcomeKind};
use tokio::time::{Instant, sleep};

use super::course::{BROWNOUT_SHARE, Phase, RETRY_AFTER};
use crate::entropy::Entropy;

/// So long a caller waits for an answer.
pub const PATIENCE: Duration = Duration::from_millis(300);

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub kind: OutcomeKind,
    pub latency: Duration,
    /// What a throttled call is told.
    pub retry_after: Option<Duration>,
    /// 0 where nobody answered.
    pub status: u32,
}

impl End {
    /// As the Rust client takes it.
    pub fn outcome(self) -> Outcome {
        let outcome = Outcome::new(self.kind)
            .latency(self.latency)
            .status_code(self.status);
        match self.retry_after {
            Some(wait) => outcome.pushback(wait),
            None => outcome,
        }
    }
}

#[derive(Debug)]
pub struct Dependency {
    begun: Instant,
    entropy: Entropy,
    /// Calls that have reached it.
    reached: AtomicU64,
}

impl Dependency {
    pub fn new(seed: u64) -> Self {
        Self {
            begun: Instant::now(),
            entropy: Entropy::seeded(seed),
            reached: AtomicU64::new(0),
        }
    }

    /// Since it began to run.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    pub fn phase(&self) -> Phase {
        Phase::at(self.age())
    }

    pub fn reached(&self) -> u64 {
        self.reached.load(Relaxed)
    }

    /// One call, as its caller sees it.
    pub async fn call(&self) -> End {
        self.reached.fetch_add(1, Relaxed);
        let drawn = self.entropy.sample();
        let phase = self.phase();
        let (kind, status) = match phase {
            Phase::Brownout if drawn.spread < BROWNOUT_SHARE => (OutcomeKind::Failure, 503),
            Phase::Well | Phase::Brownout => (OutcomeKind::Success, 200),
            Phase::Down => (OutcomeKind::Timeout, 0),
            Phase::Throttling => (OutcomeKind::Throttled, 429),
        };
        let latency = match phase {
            Phase::Well => between(20, 60, drawn.jitter),
            Phase::Brownout => between(60, 150, drawn.jitter),
            Phase::Down => PATIENCE,
            Phase::Throttling => between(2, 8, drawn.jitter),
        };
        sleep(latency).await;
        End {
            kind,
            latency,
            retry_after: (phase == Phase::Throttling).then_some(RETRY_AFTER),
            status,
        }
    }
}

/// `unit` is in 0..1.
pub fn between(least_ms: u64, most_ms: u64, unit: f64) -> Duration {
    let width = Duration::from_millis(most_ms.saturating_sub(least_ms));
    Duration::from_millis(least_ms) + width.mul_f64(unit)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_phase_is_felt_by_its_callers() {
        let dependency = Dependency::new(1);
        assert_eq!(dependency.call().await.kind, OutcomeKind::Success);
        for (second, kind) in [
            (11, OutcomeKind::Timeout),
            (18, OutcomeKind::Success),
            (32, OutcomeKind::Throttled),
            (40, OutcomeKind::Success),
        ] {
            let at = dependency.begun + Duration::from_secs(second);
            tokio::time::sleep_until(at).await;
            assert_eq!(dependency.call().await.kind, kind, "{second} s");
        }
        assert_eq!(dependency.reached(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_brownout_fails_about_one_call_in_twenty() {
        let dependency = Arc::new(Dependency::new(7));
        tokio::time::sleep(Duration::from_secs(6)).await;
        let mut calls = JoinSet::new();
        for _ in 0..2_000 {
            let dependency = Arc::clone(&dependency);
            calls.spawn(async move { dependency.call().await.kind });
        }
        let ends = calls.join_all().await;
        let failed = ends.iter().filter(|end| **end == OutcomeKind::Failure);
        let failed = failed.count();
        assert!((60..=150).contains(&failed), "{failed} of 2000");
    }
}
