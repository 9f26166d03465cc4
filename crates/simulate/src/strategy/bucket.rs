//! Full jitter, and a bucket of retry tokens in each client. A retry takes some; successes and time
//! bring some back. Empty, an operation that does not wait ends.

use super::{
    alone::{Alone, Asked, Decision, Ended},
    backoff::{Backoff, Kind},
};
use crate::{
    measure::End,
    random::Stream,
    scenario::{Baselines, Bucket},
};

/// Looked into again after so long, where nothing but successes fills it.
const LOOKS_AGAIN_AFTER: u64 = 1_000_000_000;

/// The buckets of all clients.
#[derive(Debug)]
pub struct Buckets {
    policy: Bucket,
    backoff: Backoff,
    waits: bool,
    /// Tokens, and when they were counted.
    all: Vec<(f32, u64)>,
}

impl Buckets {
    pub fn new(baselines: &Baselines, waits: bool, count: usize) -> Self {
        let policy = baselines.bucket.clone();
        Self {
            all: vec![(policy.tokens as f32, 0); count],
            policy,
            backoff: Backoff::new(Kind::FullJitter, baselines),
            waits,
        }
    }

    /// Puts in what time brings, and `more`.
    fn fill(&mut self, who: usize, more: f64, now: u64) -> &mut f32 {
        let (tokens, since) = &mut self.all[who];
        let seconds = now.saturating_sub(*since) as f64 / 1e9;
        let full = f64::from(*tokens) + seconds * self.policy.per_second + more;
        *tokens = full.min(self.policy.tokens) as f32;
        *since = now;
        tokens
    }
}

impl Alone for Buckets {
    fn ask(&mut self, asked: &Asked, random: &mut Stream) -> Decision {
        if asked.attempt == 1 {
            return Decision::Go;
        }
        let price = self.policy.per_retry as f32;
        let tokens = self.fill(asked.who, 0.0, asked.now);
        if *tokens >= price {
            *tokens -= price;
            return match asked.again {
                true => Decision::Go,
                false => Decision::After(self.backoff.wait(asked.attempt, random).unwrap_or(0)),
            };
        }
        let missing = f64::from(price - *tokens);
        match (self.waits, self.policy.per_second > 0.0) {
            (false, _) => Decision::Refused,
            (true, true) => {
                let seconds = missing / self.policy.per_second;
                Decision::AskAfter((seconds * 1e9) as u64 + 1_000_000)
            }
            (true, false) => Decision::AskAfter(LOOKS_AGAIN_AFTER),
        }
    }

    fn ended(&mut self, ended: &Ended, _: &mut Stream) -> bool {
        let Ended { who, end, now, .. } = *ended;
        if end == End::Served {
            self.fill(who, self.policy.per_success, now);
        }
        false
    }

    fn forget(&mut self, who: usize) {
        self.all[who] = (self.policy.tokens as f32, self.all[who].1);
    }
}
