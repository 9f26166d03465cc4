//! The retry quota of the AWS SDKs in their mode of 2026: 500 tokens in each client, 14 for a retry,
//! given back where the retry succeeds, one more where a first attempt does. A wait that the
//! service asks for is obeyed.

use super::{
    alone::{Alone, Asked, Decision, Ended},
    backoff::{Backoff, Kind},
};
use crate::{measure::End, random::Stream, scenario::Baselines};

const TOKENS: u16 = 500;
const PER_RETRY: u16 = 14;
const LOOKS_AGAIN_AFTER: u64 = 1_000_000_000;

/// The quotas of all clients.
#[derive(Debug)]
pub struct Quotas {
    backoff: Backoff,
    waits: bool,
    tokens: Vec<u16>,
}

impl Quotas {
    pub fn new(baselines: &Baselines, waits: bool, count: usize) -> Self {
        Self {
            backoff: Backoff::new(Kind::FullJitter, baselines),
            waits,
            tokens: vec![TOKENS; count],
        }
    }
}

impl Alone for Quotas {
    fn ask(&mut self, asked: &Asked, random: &mut Stream) -> Decision {
        if asked.attempt == 1 {
            return Decision::Go;
        }
        let tokens = &mut self.tokens[asked.who];
        if *tokens < PER_RETRY {
            return match (self.waits, asked.again) {
                (false, _) => Decision::Refused,
                (true, false) => Decision::AskAfter(LOOKS_AGAIN_AFTER),
                // A new call, as far as the quota is concerned.
                (true, true) => Decision::Go,
            };
        }
        *tokens -= PER_RETRY;
        let backoff = self.backoff.wait(asked.attempt, random).unwrap_or(0);
        let asked_for = match asked.last {
            End::Throttled(wait) => wait.unwrap_or(0),
            End::Served | End::Failed | End::TimedOut | End::GivenUpBelow { .. } => 0,
        };
        Decision::After(backoff.max(asked_for))
    }

    fn ended(&mut self, ended: &Ended, _: &mut Stream) -> bool {
        let Ended {
            who, attempt, end, ..
        } = *ended;
        if end == End::Served {
            let back = if attempt == 1 { 1 } else { PER_RETRY };
            let tokens = &mut self.tokens[who];
            *tokens = tokens.saturating_add(back).min(TOKENS);
        }
        false
    }

    fn forget(&mut self, who: usize) {
        self.tokens[who] = TOKENS;
    }
}
