//! A hundred clients that write the same row under optimistic concurrency control: the
//! experiment of Brooker, "Exponential Backoff And Jitter" (2015).
//!
//! A client reads the version of the row, writes with it, and starts again where another came
//! between. A message takes |N(10, 2)| ms; a write is a call; the time is that of the last
//! answer. Base 5 ms, cap 2 s, the first failure waits `base * 2`.
//!
//! With holdoff the wait is the answer of a coordinator that is one such message away. Asked
//! after a failure only, it plans retries in its calendar; asked first, its rate limit gives
//! each attempt a place. Its breaker is off: a conflict says nothing about the health of a row.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use holdoff_decision::{
    Ask, Context, MadeUnder, Nanos, Outcome, OutcomeKind, Permit, Policy, Previous, Priority,
    Question, Record, Sample, Share, Time, acquire, backoff,
    policy::{Jitter, MaxAttempts, Mode, Rate, Retry, RetryRate, Strategy},
};

use super::draws::Draws;

/// How a client waits before it tries again.
#[derive(Clone, Debug)]
pub enum Wait {
    Backoff(Retry),
    /// Decorrelated jitter as its source has it: `min(cap, U(base, 3 * previous))`, which clamps
    /// what was drawn where ours clamps the range.
    DecorrelatedOfItsSource,
    /// It asks after a failure; the calendar has a place every so long.
    Planned(Nanos),
    /// It asks before every attempt.
    AskFirst(Nanos),
}

/// What came of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Writes.
    pub calls: u32,
    /// Until the last answer.
    pub millis: f64,
    pub questions: u32,
    /// Clients that were refused for good; none is, under these policies.
    pub refused: u32,
}

/// The five policies of the source, as policies of ours where ours are the same, and behind them
/// our own decorrelated jitter.
pub fn published_policies() -> [(&'static str, Wait); 6] {
    let of = |strategy, initial_ms, jitter| {
        Wait::Backoff(Retry {
            max_attempts: MaxAttempts::Unlimited,
            strategy,
            initial_delay: Nanos::from_millis(initial_ms),
            multiplier: 2.0,
            max_delay: Nanos::from_secs(2),
            jitter,
            ..Retry::default()
        })
    };
    [
        ("none", of(Strategy::Fixed, 0, Jitter::None)),
        (
            "exp, no jitter",
            of(Strategy::Exponential, 10, Jitter::None),
        ),
        ("decorrelated", Wait::DecorrelatedOfItsSource),
        ("equal", of(Strategy::Exponential, 10, Jitter::Equal)),
        ("full", of(Strategy::Exponential, 10, Jitter::Full)),
        (
            "decorrelated, of holdoff",
            of(Strategy::Exponential, 5, Jitter::Decorrelated),
        ),
    ]
}

/// Runs `clients` clients to their end.
pub fn run(clients: u32, wait: &Wait, seed: u64) -> Run {
    let mut row = Row::new(clients, wait, seed);
    for client in 0..clients {
        match wait {
            Wait::AskFirst(_) => row.send(client, Step::Ask),
            Wait::Backoff(_) | Wait::DecorrelatedOfItsSource | Wait::Planned(_) => {
                row.send(client, Step::Read);
            }
        }
    }
    while let Some(Reverse((now, number))) = row.queue.pop() {
        row.now = now;
        if let Some((client, step)) = row.steps.remove(&number) {
            row.step(client, step);
        }
    }
    row.run.millis = row.now.0 as f64 / 1e6;
    row.run
}

/// A message that arrives.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask,
    Answer(Result<(Permit, Nanos), Option<Nanos>>),
    Read,
    Version(u32),
    Write(u32),
    Written { good: bool },
}

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    failures: u32,
    waited: Nanos,
    permit: Option<Permit>,
}

struct Row<'a> {
    wait: &'a Wait,
    coordinator: Option<(Policy, Record)>,
    draws: Draws,
    now: Time,
    version: u32,
    clients: Vec<Client>,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    steps: BTreeMap<u64, (u32, Step)>,
    sent: u64,
    run: Run,
}

impl<'a> Row<'a> {
    fn new(clients: u32, wait: &'a Wait, seed: u64) -> Self {
        let policy = match wait {
            Wait::Backoff(_) | Wait::DecorrelatedOfItsSource => None,
            Wait::Planned(space) => Some(planned(*space)),
            Wait::AskFirst(space) => Some(ask_first(*space)),
        };
        Self {
            wait,
            coordinator: policy.map(|policy| (policy, Record::new(1, Time::ORIGIN))),
            draws: Draws::seeded(seed),
            now: Time::ORIGIN,
            version: 0,
            clients: vec![Client::default(); clients as usize],
            queue: BinaryHeap::new(),
            steps: BTreeMap::new(),
            sent: 0,
            run: Run::default(),
        }
    }

    fn send(&mut self, client: u32, step: Step) {
        self.send_after(Nanos::ZERO, client, step);
    }

    fn send_after(&mut self, wait: Nanos, client: u32, step: Step) {
        let hop = Nanos((self.draws.normal(10.0, 2.0).abs() * 1e6) as u64);
        self.queue.push(Reverse((self.now + wait + hop, self.sent)));
        self.steps.insert(self.sent, (client, step));
        self.sent += 1;
    }

    fn step(&mut self, client: u32, step: Step) {
        match step {
            Step::Ask => {
                let answer = self.ask(client);
                self.send(client, Step::Answer(answer));
            }
            Step::Answer(Ok((permit, delay))) => {
                if let Some(asking) = self.clients.get_mut(client as usize) {
                    asking.permit = Some(permit);
                }
                self.send_after(delay, client, Step::Read);
            }
            Step::Answer(Err(Some(later))) => self.send_after(later, client, Step::Ask),
            Step::Answer(Err(None)) => self.run.refused += 1,
            Step::Read => self.send(client, Step::Version(self.version)),
            Step::Version(version) => self.send(client, Step::Write(version)),
            Step::Write(version) => {
                self.run.calls += 1;
                let good = version == self.version;
                self.version += u32::from(good);
                self.send(client, Step::Written { good });
            }
            Step::Written { good: true } => {}
            Step::Written { good: false } => self.try_again(client),
        }
    }

    fn try_again(&mut self, client: u32) {
        let unit = self.draws.unit();
        let Some(failed) = self.clients.get_mut(client as usize) else {
            return;
        };
        failed.failures += 1;
        match self.wait {
            Wait::Backoff(retry) => {
                let delay = backoff::delay(retry, failed.failures, failed.waited, unit);
                failed.waited = delay;
                self.send_after(delay, client, Step::Read);
            }
            Wait::DecorrelatedOfItsSource => {
                let base = Nanos::from_millis(5);
                let reach = Nanos(failed.waited.max(base).0 * 3);
                let drawn = base.saturating_add(reach.saturating_sub(base).scaled(unit));
                failed.waited = drawn.min(Nanos::from_secs(2));
                let delay = failed.waited;
                self.send_after(delay, client, Step::Read);
            }
            Wait::Planned(_) | Wait::AskFirst(_) => self.send(client, Step::Ask),
        }
    }

    fn ask(&mut self, client: u32) -> Result<(Permit, Nanos), Option<Nanos>> {
        self.run.questions += 1;
        let context = Context {
            now: self.now,
            sample: Sample {
                jitter: self.draws.unit(),
                spread: self.draws.unit(),
            },
            restarted: None,
        };
        let known = self
            .clients
            .get(client as usize)
            .copied()
            .unwrap_or_default();
        let (Some((policy, record)), ask) = (&mut self.coordinator, ask_of(client, &known)) else {
            return Err(None);
        };
        let verdict = acquire(policy, record, &ask, &context).verdict;
        verdict
            .map(|grant| (grant.permit, grant.delay))
            .map_err(|denial| denial.retry_after)
    }
}

fn ask_of(client: u32, known: &Client) -> Ask {
    let made_under = known.permit.map_or(MadeUnder::Epoch(1), MadeUnder::Permit);
    let question = match known.failures {
        0 => Question::First,
        failures => Question::Retry {
            attempt: failures + 1,
            previous: Previous {
                made_under,
                outcome: Outcome::of(OutcomeKind::Failure),
            },
        },
    };
    Ask {
        question,
        caller: u64::from(client),
        service: 1,
        call: None,
        idempotent: true,
        time_left: None,
        priority: Priority::High,
        cost: 1,
    }
}

/// No delay but that of a place, and no bound on retries: here each client has to come through.
fn unbounded() -> Policy {
    let mut policy = Policy::default();
    policy.retry.max_attempts = MaxAttempts::Unlimited;
    policy.retry.initial_delay = Nanos::ZERO;
    policy.breaker.mode = Mode::Off;
    policy.budget.floor_micros_per_second = 1_000_000_000_000;
    policy.budget.max_caller_share = Share::ONE;
    policy.calendar.retry_rate = RetryRate::Off;
    policy
}

fn planned(space: Nanos) -> Policy {
    let mut policy = unbounded();
    policy.calendar.retry_rate = RetryRate::PerSecond(1e9 / space.0.max(1) as f64);
    // Places are drawn within their slot; a short slot keeps them evenly spaced.
    policy.calendar.slot = Nanos::from_millis(1);
    policy
}

fn ask_first(space: Nanos) -> Policy {
    let mut policy = unbounded();
    policy.rate = Some(Rate {
        per_second: 1e9 / space.0.max(1) as f64,
        burst: 1,
        max_wait: Nanos::from_secs(60),
        per_caller: false,
    });
    policy
}
