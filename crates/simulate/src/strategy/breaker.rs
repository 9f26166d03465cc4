//! Full jitter, and a breaker in each client: by failures in a row, or by a ratio over a window of
//! ten parts (the defaults of Hystrix: 20 calls in 10 s, half of them failed, 5 s, one probe).

use super::{
    alone::{Alone, Asked, Decision, Ended},
    backoff::{Backoff, Kind},
};
use crate::{
    measure::End,
    random::Stream,
    scenario::{Baselines, LocalBreaker},
};

/// How long a breaker stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoolDown {
    Fixed,
    /// Half to one and a half times.
    Jittered,
}

/// The breakers of all clients.
#[derive(Debug)]
pub struct Breakers {
    policy: LocalBreaker,
    cool_down: CoolDown,
    backoff: Backoff,
    waits: bool,
    all: Vec<Breaker>,
    open: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Breaker {
    phase: Phase,
    failures_in_a_row: u32,
    window: Window,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Closed,
    /// Until then; from then on one may probe.
    Open(u64),
    /// Since then.
    Probing(u64),
}

/// Calls and failures in ten parts of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    parts: [(u16, u16); 10],
    /// The part of now, counted from the begin of time.
    current: u64,
}

impl Breakers {
    pub fn new(baselines: &Baselines, cool_down: CoolDown, waits: bool, count: usize) -> Self {
        Self {
            policy: baselines.breaker.clone(),
            cool_down,
            backoff: Backoff::new(Kind::FullJitter, baselines),
            waits,
            all: vec![Breaker::default(); count],
            open: 0,
        }
    }

    /// A breaker that is open refuses an operation that does not wait, and tells one that does
    /// when to ask again.
    fn pass(&mut self, who: usize, now: u64) -> Decision {
        let breaker = &mut self.all[who];
        let wait = match breaker.phase {
            Phase::Closed => return Decision::Go,
            Phase::Open(until) if now >= until => {
                breaker.phase = Phase::Probing(now);
                return Decision::Go;
            }
            Phase::Open(until) => until - now,
            Phase::Probing(_) => self.policy.open_for.nanos() / 10,
        };
        match self.waits {
            true => Decision::AskAfter(wait.max(1)),
            false => Decision::Refused,
        }
    }

    fn open(&mut self, who: usize, now: u64, random: &mut Stream) {
        let whole = self.policy.open_for.nanos();
        let lasts = match self.cool_down {
            CoolDown::Fixed => whole,
            CoolDown::Jittered => random.between(whole / 2, whole / 2 * 3),
        };
        let breaker = &mut self.all[who];
        self.open += u32::from(breaker.phase == Phase::Closed);
        breaker.phase = Phase::Open(now + lasts);
    }

    /// Counts one end; true: that is too many.
    fn count(&mut self, who: usize, failed: bool, now: u64) -> bool {
        let policy = &self.policy;
        let breaker = &mut self.all[who];
        if policy.consecutive_failures > 0 {
            breaker.failures_in_a_row = if failed {
                breaker.failures_in_a_row + 1
            } else {
                0
            };
            return breaker.failures_in_a_row >= policy.consecutive_failures;
        }
        let (calls, failures) = breaker
            .window
            .count(failed, policy.window.nanos() / 10, now);
        calls >= policy.min_calls && f64::from(failures) >= policy.failure_ratio * f64::from(calls)
    }
}

impl Alone for Breakers {
    fn ask(&mut self, asked: &Asked, random: &mut Stream) -> Decision {
        // An open breaker's cool-down stands for the backoff.
        let is_closed = self.all[asked.who].phase == Phase::Closed;
        if asked.attempt > 1 && !asked.again && is_closed {
            let backoff = self.backoff.wait(asked.attempt, random).unwrap_or_default();
            return Decision::AskAfter(backoff);
        }
        self.pass(asked.who, asked.now)
    }

    fn ended(&mut self, ended: &Ended, random: &mut Stream) -> bool {
        let (who, now) = (ended.who, ended.now);
        let failed = ended.end != End::Served;
        let phase = self.all[who].phase;
        match phase {
            // What began before the probe says nothing.
            Phase::Probing(since) if ended.sent < since => false,
            Phase::Probing(_) if failed => {
                self.open(who, now, random);
                false
            }
            Phase::Probing(_) => {
                self.all[who] = Breaker::default();
                self.open -= 1;
                false
            }
            Phase::Closed if self.count(who, failed, now) => {
                self.open(who, now, random);
                true
            }
            // What began before it opened says nothing.
            Phase::Closed | Phase::Open(_) => false,
        }
    }

    fn forget(&mut self, who: usize) {
        self.open -= u32::from(self.all[who].phase != Phase::Closed);
        self.all[who] = Breaker::default();
    }

    fn open(&self) -> u32 {
        self.open
    }
}

impl Window {
    fn count(&mut self, failed: bool, part: u64, now: u64) -> (u32, u32) {
        let current = now / part.max(1);
        for ago in 0..(current - self.current).min(10) {
            self.parts[((current - ago) % 10) as usize] = (0, 0);
        }
        self.current = current;
        let here = &mut self.parts[(current % 10) as usize];
        here.0 = here.0.saturating_add(1);
        here.1 = here.1.saturating_add(u16::from(failed));
        let sum = |sums: (u32, u32), it: &(u16, u16)| {
            (sums.0 + u32::from(it.0), sums.1 + u32::from(it.1))
        };
        self.parts.iter().fold((0, 0), sum)
    }
}
