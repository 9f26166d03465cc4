//! Backoff alone: nothing is remembered from one operation to the next.
//!
//! ```text
//! ceiling(n) = min(cap, base * 2^(n-1))        after the n-th failure
//! exponential: the ceiling      full jitter: uniform below it
//! equal jitter: uniform in its upper half
//! ```

use super::alone::{Alone, Asked, Decision};
use crate::{random::Stream, scenario::Baselines};

/// How long is waited after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no retry.
    Never,
    AtOnce,
    /// One second.
    Second,
    Ceiling,
    FullJitter,
    /// Half the ceiling, and a draw below the other half.
    EqualJitter,
}

/// One curve, for all clients.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    kind: Kind,
    base: u64,
    cap: u64,
}

impl Backoff {
    pub fn new(kind: Kind, baselines: &Baselines) -> Self {
        Self {
            kind,
            base: baselines.base.nanos(),
            cap: baselines.cap.nanos(),
        }
    }

    /// The wait before this attempt, which is no first one. `None`: there is none.
    pub fn wait(&self, attempt: u32, random: &mut Stream) -> Option<u64> {
        let doublings = attempt.saturating_sub(2).min(40);
        let ceiling = self.base.saturating_mul(1 << doublings).min(self.cap);
        match self.kind {
            Kind::Never => None,
            Kind::AtOnce => Some(0),
            Kind::Second => Some(1_000_000_000),
            Kind::Ceiling => Some(ceiling),
            Kind::FullJitter => Some(random.between(0, ceiling)),
            Kind::EqualJitter => Some(random.between(ceiling / 2, ceiling)),
        }
    }
}

impl Alone for Backoff {
    fn ask(&mut self, asked: &Asked, random: &mut Stream) -> Decision {
        if asked.attempt == 1 {
            return Decision::Go;
        }
        match self.wait(asked.attempt, random) {
            Some(wait) => Decision::After(wait),
            None => Decision::Refused,
        }
    }
}
