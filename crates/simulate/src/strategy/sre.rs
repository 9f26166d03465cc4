//! Full jitter, and the client-side adaptive throttling of the SRE book: each client refuses an
//! attempt itself with the probability `max(0, (requests - K * accepts) / (requests + 1))` over the
//! last two minutes, K = 2. What it refuses itself counts as a request.

use super::{
    alone::{Alone, Asked, Decision, Ended},
    backoff::{Backoff, Kind},
};
use crate::{measure::End, random::Stream, scenario::Baselines};

const K: f64 = 2.0;
const PARTS: u64 = 12;
const PART: u64 = 10_000_000_000;

/// The windows of all clients.
#[derive(Debug)]
pub struct Throttles {
    backoff: Backoff,
    waits: bool,
    all: Vec<Window>,
}

/// Requests and accepts in twelve parts of two minutes.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    parts: [(u16, u16); PARTS as usize],
    current: u64,
}

impl Throttles {
    pub fn new(baselines: &Baselines, waits: bool, count: usize) -> Self {
        Self {
            backoff: Backoff::new(Kind::FullJitter, baselines),
            waits,
            all: vec![Window::default(); count],
        }
    }
}

impl Alone for Throttles {
    fn ask(&mut self, asked: &Asked, random: &mut Stream) -> Decision {
        if asked.attempt > 1 && !asked.again {
            let wait = self.backoff.wait(asked.attempt, random).unwrap_or(0);
            return Decision::AskAfter(wait);
        }
        let window = &mut self.all[asked.who];
        let (requests, accepts) = window.turn(asked.now);
        let refuses = ((requests - K * accepts) / (requests + 1.0)).max(0.0);
        window.here().0 = window.here().0.saturating_add(1);
        match (random.chance(refuses), self.waits) {
            (false, _) => Decision::Go,
            (true, false) => Decision::Refused,
            (true, true) => {
                let next = asked.attempt.saturating_add(1);
                let wait = self.backoff.wait(next, random).unwrap_or(0);
                Decision::AskAfter(wait.max(1_000_000))
            }
        }
    }

    fn ended(&mut self, ended: &Ended, _: &mut Stream) -> bool {
        let Ended { who, end, now, .. } = *ended;
        if end == End::Served {
            let window = &mut self.all[who];
            window.turn(now);
            window.here().1 = window.here().1.saturating_add(1);
        }
        false
    }

    fn forget(&mut self, who: usize) {
        self.all[who] = Window::default();
    }
}

impl Window {
    /// Forgets what is older than the window, and sums what is not.
    fn turn(&mut self, now: u64) -> (f64, f64) {
        let current = now / PART;
        for ago in 0..(current - self.current).min(PARTS) {
            self.parts[((current - ago) % PARTS) as usize] = (0, 0);
        }
        self.current = current;
        let sum = |sums: (f64, f64), it: &(u16, u16)| {
            (sums.0 + f64::from(it.0), sums.1 + f64::from(it.1))
        };
        self.parts.iter().fold((0.0, 0.0), sum)
    }

    fn here(&mut self) -> &mut (u16, u16) {
        &mut self.parts[(self.current % PARTS) as usize]
    }
}
