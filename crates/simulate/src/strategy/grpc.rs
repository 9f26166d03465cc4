//! Retry throttling of gRPC (proposal A6): each failure takes a token, each success brings a tenth
//! of one back; retries happen only while more than half of ten tokens are there.

use super::{
    alone::{Alone, Asked, Decision, Ended},
    backoff::{Backoff, Kind},
};
use crate::{measure::End, random::Stream, scenario::Baselines};

const TOKENS: f32 = 10.0;
const PER_SUCCESS: f32 = 0.1;
const LOOKS_AGAIN_AFTER: u64 = 1_000_000_000;

/// The tokens of all clients.
#[derive(Debug)]
pub struct Throttles {
    backoff: Backoff,
    waits: bool,
    tokens: Vec<f32>,
}

impl Throttles {
    pub fn new(baselines: &Baselines, waits: bool, count: usize) -> Self {
        Self {
            backoff: Backoff::new(Kind::FullJitter, baselines),
            waits,
            tokens: vec![TOKENS; count],
        }
    }
}

impl Alone for Throttles {
    fn ask(&mut self, asked: &Asked, random: &mut Stream) -> Decision {
        if asked.attempt == 1 {
            return Decision::Go;
        }
        if self.tokens[asked.who] > TOKENS / 2.0 {
            let wait = self.backoff.wait(asked.attempt, random).unwrap_or(0);
            return Decision::After(wait);
        }
        // One that must not give up tries as seldom as its backoff allows, as a new call would.
        match (self.waits, asked.again) {
            (false, _) => Decision::Refused,
            (true, false) => {
                let wait = self.backoff.wait(asked.attempt, random).unwrap_or(0);
                Decision::AskAfter(wait.max(LOOKS_AGAIN_AFTER))
            }
            (true, true) => Decision::Go,
        }
    }

    fn ended(&mut self, ended: &Ended, _: &mut Stream) -> bool {
        let Ended { who, end, .. } = *ended;
        let tokens = &mut self.tokens[who];
        *tokens = match end {
            End::Served => (*tokens + PER_SUCCESS).min(TOKENS),
            End::Failed | End::Throttled(_) | End::TimedOut | End::GivenUpBelow { .. } => {
                (*tokens - 1.0).max(0.0)
            }
        };
        false
    }

    fn forget(&mut self, who: usize) {
        self.tokens[who] = TOKENS;
    }
}
