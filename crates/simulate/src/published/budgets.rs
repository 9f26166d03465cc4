//! How much load retries add, and how many calls they save, when a share of all attempts fails:
//! the experiment of Brooker, "Fixing retries with token buckets and circuit breakers" (2022),
//! and the question that it leaves open: what if clients shared their state?
//!
//! 100 calls a second for 100 s over all clients, Poisson; an attempt fails by chance; a message
//! takes Exp(10 ms). Load is attempts a call, success the share of calls that came through.
//!
//! holdoff is one record that every client asks before each attempt. Its budget is set to the
//! source's tenth, with no floor, so that the two are of one size.

use std::{cmp::Reverse, collections::BinaryHeap};

use holdoff_decision::{
    Ask, Context, MadeUnder, Nanos, Outcome, OutcomeKind, Permit, Policy, Previous, Priority,
    Question, Record, Sample, Share, Time, acquire,
    policy::{AppliesTo, MaxAttempts, Mode},
    report,
};

use super::{
    budgets_of_others::{Keeper, Local},
    draws::Draws,
};

pub const CALLS_PER_SECOND: f64 = 100.0;
const SECONDS: f64 = 100.0;

/// Who decides over retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retrying {
    /// Each client for itself.
    Local(Local),
    /// All clients share one state.
    Shared(Local),
    Holdoff(Rules),
}

/// Which rules of holdoff are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The budget alone.
    Budget,
    /// The budget, and a breaker that refuses retries only.
    RetriesBroken,
    /// The budget, and the breaker as it is by default: an open one refuses every call.
    AllBroken,
}

/// What came of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcomes {
    pub calls: u32,
    pub attempts: u32,
    pub succeeded: u32,
}

impl Outcomes {
    pub fn load(&self) -> f64 {
        f64::from(self.attempts) / f64::from(self.calls.max(1))
    }

    pub fn success(&self) -> f64 {
        f64::from(self.succeeded) / f64::from(self.calls.max(1))
    }
}

/// One run.
pub fn run(clients: u32, failing: f64, retrying: Retrying, seed: u64) -> Outcomes {
    let keepers = match retrying {
        Retrying::Local(kind) => vec![Keeper::new(kind); clients as usize],
        Retrying::Shared(kind) => vec![Keeper::new(kind)],
        Retrying::Holdoff(_) => Vec::new(),
    };
    let rules = match retrying {
        Retrying::Holdoff(rules) => rules,
        Retrying::Local(_) | Retrying::Shared(_) => Rules::Budget,
    };
    let mut world = World {
        keepers,
        policy: policy(rules),
        record: Record::new(1, Time::ORIGIN),
        failing,
        draws: Draws::seeded(seed),
        now: Time::ORIGIN,
        queue: BinaryHeap::new(),
        calls: Vec::new(),
        outcomes: Outcomes::default(),
    };
    world.start_calls(clients);
    while let Some(Reverse((now, call, ends))) = world.queue.pop() {
        world.now = now;
        match ends {
            false => world.begin(call),
            true => world.end(call),
        }
    }
    world.outcomes
}

fn policy(rules: Rules) -> Policy {
    let mut policy = Policy::default();
    policy.retry.max_attempts = MaxAttempts::Limited(4);
    policy.budget.ratio = Share(100_000);
    policy.budget.floor_micros_per_second = 0;
    match rules {
        Rules::Budget => policy.breaker.mode = Mode::Off,
        Rules::RetriesBroken => policy.breaker.applies_to = AppliesTo::Retries,
        Rules::AllBroken => {}
    }
    policy
}

#[derive(Clone, Copy, Debug)]
struct Call {
    client: u32,
    retries: u32,
    permit: Option<Permit>,
}

struct World {
    keepers: Vec<Keeper>,
    policy: Policy,
    record: Record,
    failing: f64,
    draws: Draws,
    now: Time,
    /// When, which call, and whether an attempt of it ends or the call begins.
    queue: BinaryHeap<Reverse<(Time, usize, bool)>>,
    calls: Vec<Call>,
    outcomes: Outcomes,
}

impl World {
    /// A Poisson stream; each call belongs to any of the clients.
    fn start_calls(&mut self, clients: u32) {
        let mut at = 0.0;
        loop {
            at += self.draws.exponential(1.0 / CALLS_PER_SECOND);
            if at > SECONDS {
                return;
            }
            let client = self.draws.index(clients as usize) as u32;
            self.queue
                .push(Reverse((Time((at * 1e9) as u64), self.calls.len(), false)));
            self.calls.push(Call {
                client,
                retries: 0,
                permit: None,
            });
        }
    }

    fn begin(&mut self, number: usize) {
        self.outcomes.calls += 1;
        match self.keeper(number) {
            Some(keeper) => {
                keeper.starts();
                self.attempt(number, Nanos::ZERO);
            }
            None => self.ask(number, Question::First),
        }
    }

    fn attempt(&mut self, number: usize, delay: Nanos) {
        self.outcomes.attempts += 1;
        let there_and_back = self.draws.exponential(0.01) + self.draws.exponential(0.01);
        let ends = self.now + delay + Nanos((there_and_back * 1e9) as u64);
        self.queue.push(Reverse((ends, number, true)));
    }

    fn end(&mut self, number: usize) {
        let failed = self.draws.happens(self.failing);
        let Some(call) = self.calls.get(number).copied() else {
            return;
        };
        if !failed {
            self.outcomes.succeeded += 1;
            if let Some(permit) = call.permit {
                let context = self.context();
                let outcome = Outcome::of(OutcomeKind::Success);
                let client = u64::from(call.client);
                report(
                    &self.policy,
                    &mut self.record,
                    &permit,
                    &outcome,
                    client,
                    &context,
                );
            }
            return;
        }
        let again = self
            .keeper(number)
            .map(|keeper| keeper.retries(call.retries));
        if let Some(call) = self.calls.get_mut(number) {
            call.retries += 1;
        }
        match (again, call.permit) {
            (Some(true), _) => self.attempt(number, Nanos::ZERO),
            (Some(false), _) | (None, None) => {}
            (None, Some(permit)) => self.ask(
                number,
                Question::Retry {
                    attempt: call.retries + 2,
                    previous: Previous {
                        made_under: MadeUnder::Permit(permit),
                        outcome: Outcome::of(OutcomeKind::Failure),
                    },
                },
            ),
        }
    }

    fn keeper(&mut self, number: usize) -> Option<&mut Keeper> {
        let client = self.calls.get(number)?.client as usize;
        let shared = self.keepers.len() == 1;
        self.keepers.get_mut(if shared { 0 } else { client })
    }

    fn context(&mut self) -> Context {
        Context {
            now: self.now,
            sample: Sample {
                jitter: self.draws.unit(),
                spread: self.draws.unit(),
            },
            restarted: None,
        }
    }

    /// A denial ends the call: this experiment has no clients that wait for a better answer.
    fn ask(&mut self, number: usize, question: Question) {
        let context = self.context();
        let Some(call) = self.calls.get_mut(number) else {
            return;
        };
        let ask = Ask {
            question,
            caller: u64::from(call.client),
            service: 1,
            call: None,
            idempotent: true,
            time_left: None,
            priority: Priority::Normal,
            cost: 1,
        };
        if let Ok(grant) = acquire(&self.policy, &mut self.record, &ask, &context).verdict {
            call.permit = Some(grant.permit);
            self.attempt(number, grant.delay);
        }
    }
}
