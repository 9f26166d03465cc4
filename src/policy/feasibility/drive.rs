//! The rules of the service, run on stated traffic with a clock of their own: does the
//! breaker open?
//!
//! Calls begin evenly, by one caller instance after the other, and the stated share of their
//! attempts fails, spread evenly. A run ends when the breaker opens, or when it never will:
//! its windows are full, and its evidence decays as fast as it comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use holdoff_decision::breaker::Phase;
use holdoff_decision::policy::{Detect, WindowSize};
use holdoff_decision::{
    Ask, Context, MadeUnder, Nanos, Outcome, OutcomeKind, Permit, Policy, Previous, Priority,
    Question, Record, Sample, Share, Tally, Time, acquire, report, tally,
};

/// Traffic to run with.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// Between two first attempts. `None`: each caller makes one call, and retries it.
    pub interval: Option<Nanos>,
    pub callers: u64,
    pub failing: Share,
    /// `None`: not known, so no attempt is slow.
    pub takes: Option<Nanos>,
    pub deadline: Option<Nanos>,
}

/// How a run without retries ended.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub opened: bool,
    /// The most that the adaptive detector saw of what it needs, 0 to 1.
    pub suspicion: f32,
}

/// How a run with retries ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Opened,
    Never,
    /// It would take more attempts than are worth it.
    TooLong,
}

const STARTS: Time = Time(1_000_000_000_000);
/// Reports of a run without retries; with more calls each stands for several.
const REPORTS: u64 = 4_000;
/// Attempts of a run with retries.
const ATTEMPTS: u32 = 4_000;
/// Ten half-lives of the adaptive evidence: a thousandth of it is left.
const EVIDENCE: Nanos = Nanos::from_secs(300);
/// Calls that come on top, so that the last of a full window is among them.
const MORE: u64 = 20;

/// Runs first attempts alone, told in tallies.
pub fn without_retries(policy: &Policy, calls: &Calls) -> Seen {
    let mut seen = Seen {
        opened: false,
        suspicion: 0.0,
    };
    let Some(interval) = calls.interval.map(|interval| interval.0.max(1)) else {
        return seen;
    };
    let all = (length(policy, calls).0 / interval).max(1);
    let each = all.div_ceil(REPORTS);
    let mut record = Record::new(1, STARTS);
    for turn in 0..all.div_ceil(each) {
        let now = STARTS + Nanos(interval.saturating_mul(each).saturating_mul(turn));
        let failures = failing(calls, turn * each, each);
        let slow = is_slow(policy, calls);
        let told = Tally {
            epoch: record.breaker.epoch,
            first_attempts: narrow(each),
            failures: narrow(failures),
            successes: narrow(each - failures),
            slow: if slow { narrow(each) } else { 0 },
            ..Tally::default()
        };
        let caller = 1 + turn % calls.callers.max(1);
        tally(policy, &mut record, &told, caller, &context(now, 0.5));
        seen.suspicion = seen.suspicion.max(record.breaker.suspicion(now));
        if record.breaker.phase == Phase::Open {
            seen.opened = true;
            break;
        }
    }
    seen
}

/// Runs first attempts and every retry that the policy grants, asked for one by one; `unit`
/// is what each delay draws.
pub fn with_retries(policy: &Policy, calls: &Calls, unit: f64) -> Ended {
    let ends = STARTS + length(policy, calls);
    let mut run = Run {
        policy,
        calls,
        record: Record::new(1, STARTS),
        events: BinaryHeap::new(),
        sequence: 0,
        ended: 0,
        unit,
    };
    match calls.interval {
        Some(_) => run.plan(STARTS, Event::Begins(0)),
        None => (0..calls.callers.min(u64::from(ATTEMPTS)))
            .for_each(|call| run.plan(STARTS, Event::Begins(call))),
    }
    let mut latest = STARTS;
    for _ in 0..ATTEMPTS {
        let Some(Reverse((now, _, event))) = run.events.pop() else {
            return Ended::Never;
        };
        if now > ends {
            return Ended::Never;
        }
        run.happen(now, event);
        if run.record.breaker.phase == Phase::Open {
            return Ended::Opened;
        }
        latest = now;
    }
    match is_settled(policy, calls, latest.since(STARTS), run.ended) {
        true => Ended::Never,
        false => Ended::TooLong,
    }
}

/// Whether all that may open the breaker is as it will be from then on: windows are full, and
/// no row of failures grows.
fn is_settled(policy: &Policy, calls: &Calls, passed: Nanos, ended: u64) -> bool {
    match &policy.breaker.detect {
        // So many attempts without a trip: successes keep the evidence down.
        Detect::Adaptive => true,
        Detect::Window(window) => {
            let row = u64::from(window.consecutive_failures);
            let full = match window.size {
                WindowSize::Time(span) => passed.0 >= span.0.saturating_add(span.0 / 2),
                WindowSize::Calls(calls) => ended >= 2 * u64::from(calls),
            };
            full && (row < ended || calls.failing < Share::ONE)
        }
    }
}

struct Run<'a> {
    policy: &'a Policy,
    calls: &'a Calls,
    record: Record,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
    /// Attempts that have ended.
    ended: u64,
    unit: f64,
}

/// Ordered only so that it can stand in the queue behind its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The first attempt of the call of this number.
    Begins(u64),
    Ends(Attempt),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attempt {
    permit: Permit,
    number: u32,
    call: u64,
    began: Time,
}

impl PartialOrd for Attempt {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Attempt {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.permit.serial.cmp(&other.permit.serial)
    }
}

impl Run<'_> {
    fn plan(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Begins(call) => {
                if let Some(interval) = self.calls.interval {
                    self.plan(now + Nanos(interval.0.max(1)), Event::Begins(call + 1));
                }
                self.ask(Question::First, 1, call, now, now);
            }
            Event::Ends(attempt) => self.end(attempt, now),
        }
    }

    fn end(&mut self, attempt: Attempt, now: Time) {
        let fails = failing(self.calls, self.ended, 1) == 1;
        self.ended += 1;
        let kind = match fails {
            true => OutcomeKind::Failure,
            false => OutcomeKind::Success,
        };
        let outcome = Outcome {
            latency: self.calls.takes,
            ..Outcome::of(kind)
        };
        let caller = self.caller(attempt.call);
        if !fails {
            let context = context(now, self.unit);
            report(
                self.policy,
                &mut self.record,
                &attempt.permit,
                &outcome,
                caller,
                &context,
            );
            return;
        }
        let previous = Previous {
            made_under: MadeUnder::Permit(attempt.permit),
            outcome,
        };
        let number = attempt.number.saturating_add(1);
        let question = Question::Retry {
            attempt: number,
            previous,
        };
        self.ask(question, number, attempt.call, attempt.began, now);
    }

    fn ask(&mut self, question: Question, number: u32, call: u64, began: Time, now: Time) {
        let ask = Ask {
            question,
            caller: self.caller(call),
            service: 1,
            call: None,
            idempotent: true,
            time_left: (self.calls.deadline).map(|all| all.saturating_sub(now.since(began))),
            priority: Priority::Normal,
            cost: 1,
        };
        let answer = acquire(
            self.policy,
            &mut self.record,
            &ask,
            &context(now, self.unit),
        );
        if let Ok(grant) = answer.verdict {
            let takes = self.calls.takes.unwrap_or_default();
            let attempt = Attempt {
                permit: grant.permit,
                number,
                call,
                began,
            };
            self.plan(now + grant.delay + takes, Event::Ends(attempt));
        }
    }

    fn caller(&self, call: u64) -> u64 {
        1 + call % self.calls.callers.max(1)
    }
}

/// How long a run can say anything new.
fn length(policy: &Policy, calls: &Calls) -> Nanos {
    let apart = calls.interval.unwrap_or(policy.retry.max_delay).0.max(1);
    let (span, of_calls) = match &policy.breaker.detect {
        Detect::Adaptive => (EVIDENCE, 0),
        Detect::Window(window) => {
            let row = u64::from(window.consecutive_failures);
            match window.size {
                WindowSize::Time(span) => (Nanos(span.0.saturating_mul(3)), row),
                WindowSize::Calls(calls) => (Nanos::ZERO, row.max(u64::from(calls))),
            }
        }
    };
    Nanos(apart.saturating_mul(of_calls + MORE)).saturating_add(span)
}

/// How many of the `count` attempts after the first `before` fail, evenly spread.
fn failing(calls: &Calls, before: u64, count: u64) -> u64 {
    let until = |attempts: u64| calls.failing.micros_of(attempts) / 1_000_000;
    u64::try_from(until(before + count) - until(before)).unwrap_or(u64::MAX)
}

fn is_slow(policy: &Policy, calls: &Calls) -> bool {
    let slow_after = policy.breaker.slow_after;
    !slow_after.is_zero() && calls.takes.is_some_and(|takes| takes >= slow_after)
}

fn context(now: Time, unit: f64) -> Context {
    Context {
        now,
        sample: Sample {
            jitter: unit,
            spread: unit,
        },
        restarted: None,
    }
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
