//! The invariants under random stories: any policy, any events in any order, permits that
//! are used, used twice, lost, stale or forged, and a clock that sometimes goes backwards.
//!
//! Beside the record a naive model keeps every lease, grant and deposit with its time.

use std::collections::{BTreeMap, BTreeSet};

use holdoff_decision::{
    Answer, Ask, DenialReason as R, Grant, MadeUnder, Nanos, Outcome, OutcomeKind, Permit,
    PermitKind, Policy, Previous, Question, Record, Reported, Sample, Share, State, Tally, Time,
    budget::Empty,
    operate::{clear_hold, clear_override, reset, set_override},
    permit::Facts,
    policy::{
        AppliesTo, Detect, Jitter, MaxAttempts, Mode, PushbackScope, Rate, Strategy as Growth,
        Window, WindowSize,
    },
    record::{Override, OverrideKind},
    view::View,
    window,
};
use proptest::prelude::*;

use crate::fleet::{Fleet, after, an_ask, secs};

#[derive(Clone, Debug)]
enum Event {
    First {
        caller: u64,
        call: Option<u64>,
        left: Option<u64>,
        cost: u32,
    },
    Retry {
        of: usize,
        attempt: u32,
        outcome: Outcome,
        call: Option<u64>,
        left: Option<u64>,
    },
    RetryOther {
        made_under: u8,
        attempt: u32,
        outcome: Outcome,
        call: Option<u64>,
    },
    Hedge {
        attempt: u32,
        call: Option<u64>,
    },
    Confirm {
        of: usize,
        left: Option<u64>,
    },
    Report {
        of: usize,
        outcome: Outcome,
    },
    Forged {
        serial: u64,
        outcome: Outcome,
    },
    Tally(Tally, u64),
    Order {
        open: bool,
        lasts: Option<u64>,
    },
    ClearOrder,
    Reset,
    ClearHold,
    Forward(u64),
    Backward(u64),
    Reload(u8),
    Draw(f64, f64),
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let kinds = prop_oneof![
        4 => Just(OutcomeKind::Success),
        6 => Just(OutcomeKind::Failure),
        3 => Just(OutcomeKind::Timeout),
        1 => Just(OutcomeKind::NotSent),
        1 => Just(OutcomeKind::Throttled),
        1 => Just(OutcomeKind::Rejected),
        1 => Just(OutcomeKind::Ignored),
        1 => Just(OutcomeKind::Cancelled),
    ];
    let pushback = proptest::option::weighted(0.1, (0..3000_u64).prop_map(Nanos::from_millis));
    let latency = proptest::option::of((0..300_u64).prop_map(Nanos::from_millis));
    (kinds, pushback, latency, 0..40_u8).prop_map(|(kind, pushback, latency, odd)| Outcome {
        kind,
        latency,
        pushback,
        do_not_retry: odd == 0,
        retried_below: odd == 1,
        restarts_backoff: odd == 2,
    })
}

fn call() -> impl Strategy<Value = Option<u64>> {
    proptest::option::weighted(0.3, 0..6_u64)
}

fn left() -> impl Strategy<Value = Option<u64>> {
    proptest::option::weighted(0.3, 0..5000_u64)
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0..3_u64, call(), left(), 0..4_u32)
            .prop_map(|(caller, call, left, cost)| Event::First { caller, call, left, cost }),
        12 => (any::<usize>(), 1..6_u32, outcome(), call(), left())
            .prop_map(|(of, attempt, outcome, call, left)| Event::Retry { of, attempt, outcome, call, left }),
        3 => (0..4_u8, 2..4_u32, outcome(), call())
            .prop_map(|(made_under, attempt, outcome, call)| Event::RetryOther { made_under, attempt, outcome, call }),
        3 => (1..5_u32, call()).prop_map(|(attempt, call)| Event::Hedge { attempt, call }),
        4 => (any::<usize>(), left()).prop_map(|(of, left)| Event::Confirm { of, left }),
        16 => (any::<usize>(), outcome()).prop_map(|(of, outcome)| Event::Report { of, outcome }),
        1 => (any::<u64>(), outcome()).prop_map(|(serial, outcome)| Event::Forged { serial, outcome }),
        2 => ((0..9_u32, 0..9_u32, 0..9_u32, 0..3_u32), 0..3_u64).prop_map(
            |((first_attempts, successes, failures, timeouts), behind)| Event::Tally(
                Tally { first_attempts, successes, failures, timeouts, ..Tally::default() },
                behind,
            )
        ),
        1 => (any::<bool>(), proptest::option::of(0..8000_u64))
            .prop_map(|(open, lasts)| Event::Order { open, lasts }),
        1 => Just(Event::ClearOrder),
        1 => Just(Event::Reset),
        1 => Just(Event::ClearHold),
        12 => (0..2500_u64).prop_map(Event::Forward),
        1 => (0..5000_u64).prop_map(Event::Backward),
        1 => any::<u8>().prop_map(Event::Reload),
        6 => (0.0..1.0, 0.0..1.0).prop_map(|(jitter, spread)| Event::Draw(jitter, spread)),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let detect = prop_oneof![
        Just(Detect::Adaptive),
        (1..30_u32, 1..8_u32, 0..6_u32, any::<bool>()).prop_map(
            |(calls, min_calls, consecutive_failures, time)| Detect::Window(Window {
                size: match time {
                    true => WindowSize::Time(Nanos::from_millis(u64::from(calls) * 200)),
                    false => WindowSize::Calls(calls),
                },
                min_calls,
                failure_ratio: Share(500_000),
                consecutive_failures,
                slow_ratio: Share(800_000),
            })
        ),
    ];
    let breaker = (
        detect,
        1..4_u32,
        1..3_u32,
        500..6000_u64,
        500..4000_u64,
        500..9000_u64,
        0..8_u8,
        0..3_u8,
    );
    let budget = (0..2_000_000_u32, 0..3_000_000_u64, 1..50_u64, any::<bool>());
    let retry = (0..5_u8, 0..3_u8, 0..2000_u64, 1..6_u32);
    (
        breaker,
        budget,
        retry,
        any::<bool>(),
        proptest::option::weighted(0.3, (1..50_u32, 1..6_u32)),
    )
        .prop_map(|(breaker, budget, retry, scope, rate)| {
            let mut policy = Policy::default();
            let (detect, probes, successes, open_for, lease, ttl, mode, applies) = breaker;
            policy.breaker.detect = detect;
            policy.breaker.probes = probes;
            policy.breaker.probe_successes = successes;
            policy.breaker.open_for = Nanos::from_millis(open_for);
            policy.breaker.open_max = Nanos::from_secs(20);
            policy.breaker.probe_lease = Nanos::from_millis(lease);
            policy.breaker.permit_ttl = Nanos::from_millis(ttl);
            policy.breaker.mode = match mode {
                0 => Mode::Shadow,
                1 => Mode::Off,
                _ => Mode::Enforce,
            };
            policy.breaker.applies_to = match applies {
                0 => AppliesTo::Retries,
                1 => AppliesTo::Auto,
                _ => AppliesTo::All,
            };
            policy.breaker.slow_after = Nanos::from_millis(200);
            let (ratio, floor, ttl, whole) = budget;
            policy.budget.ratio = Share(ratio);
            policy.budget.floor_micros_per_second = floor;
            policy.budget.ttl = Nanos::from_millis(ttl * 200);
            policy.budget.max_caller_share = if whole { Share::ONE } else { Share(500_000) };
            let (jitter, growth, initial, max) = retry;
            policy.retry.jitter = [
                Jitter::None,
                Jitter::Full,
                Jitter::Equal,
                Jitter::Proportional(0.3),
                Jitter::Decorrelated,
            ][usize::from(jitter)];
            policy.retry.strategy =
                [Growth::Fixed, Growth::Linear, Growth::Exponential][usize::from(growth)];
            policy.retry.initial_delay = Nanos::from_millis(initial);
            policy.retry.max_delay = Nanos::from_millis(initial * 3);
            policy.retry.max_attempts = match max {
                5 => MaxAttempts::Unlimited,
                max => MaxAttempts::Limited(max + 1),
            };
            policy.pushback.max = Nanos::from_millis(2500);
            policy.pushback.scope = if scope {
                PushbackScope::Dependency
            } else {
                PushbackScope::Caller
            };
            policy.rate = rate.map(|(per_second, burst)| Rate {
                per_second: f64::from(per_second),
                burst,
                max_wait: Nanos::from_millis(700),
                per_caller: per_second % 2 == 0,
            });
            policy
        })
}

/// What a naive observer remembers.
#[derive(Clone, Debug, Default)]
struct Model {
    /// The latest time that was ever read.
    latest: Time,
    permits: Vec<Permit>,
    known: BTreeSet<u64>,
    /// Live leases by serial, with their ends.
    leases: BTreeMap<u64, Time>,
    /// Reports that were applied.
    applied: BTreeSet<u64>,
    first_attempts: Vec<(Time, u32)>,
    /// Tokens by serial of their permit, in the order they were taken.
    tokens: Vec<(Time, u64)>,
    /// The latest time at which the budget was looked at: there its clock stands.
    budget_at: Time,
    went_back: bool,
}

impl Model {
    fn tokens_since(&self, span: Nanos) -> u128 {
        let now = self.budget_at;
        self.tokens
            .iter()
            .filter(|(at, _)| now.since(*at) < span)
            .count() as u128
    }

    fn firsts_since(&self, span: Nanos) -> u128 {
        let now = self.budget_at;
        let inside = self
            .first_attempts
            .iter()
            .filter(|(at, _)| now.since(*at) < span);
        inside.map(|(_, count)| u128::from(*count)).sum()
    }

    fn end(&mut self, serial: u64) {
        self.leases.remove(&serial);
    }
}

fn allowed(policy: &Policy, firsts: u128) -> u128 {
    let budget = &policy.budget;
    let floor = u128::from(budget.floor_micros_per_second) * u128::from(budget.ttl.0);
    (u128::from(budget.ratio.0) * firsts + floor / 1_000_000_000) / 1_000_000
}

struct Story {
    fleet: Fleet,
    model: Model,
}

impl Story {
    fn new(policy: Policy) -> Self {
        Self {
            fleet: Fleet::new(policy),
            model: Model::default(),
        }
    }

    fn run(&mut self, event: &Event) {
        let moves = matches!(
            event,
            Event::Forward(_) | Event::Backward(_) | Event::Draw(..)
        );
        if !moves {
            self.model.latest = self.model.latest.max(self.fleet.now);
        }
        let latest = self.model.latest;
        self.model.leases.retain(|_, end| latest < *end);
        let pick = |of: &usize, permits: &Vec<Permit>| match permits.len() {
            0 => None,
            many => Some(permits[of % many]),
        };
        let millis = |left: &Option<u64>| left.map(Nanos::from_millis);
        let now = self.fleet.now;
        match event {
            Event::First {
                caller,
                call,
                left,
                cost,
            } => {
                let ask = Ask {
                    caller: *caller,
                    service: *caller,
                    call: *call,
                    time_left: millis(left),
                    cost: *cost,
                    ..an_ask(Question::First)
                };
                self.ask(ask);
            }
            Event::Retry {
                of,
                attempt,
                outcome,
                call,
                left,
            } => {
                if let Some(permit) = pick(of, &self.model.permits) {
                    let question = Question::Retry {
                        attempt: *attempt,
                        previous: after(permit, *outcome),
                    };
                    let ask = Ask {
                        call: *call,
                        time_left: millis(left),
                        ..an_ask(question)
                    };
                    self.ask(ask);
                }
            }
            Event::RetryOther {
                made_under,
                attempt,
                outcome,
                call,
            } => {
                let permit = self.model.permits.last().copied();
                let made_under = match (made_under, permit) {
                    (0, Some(permit)) => MadeUnder::EarlierRun(permit),
                    (1, _) => MadeUnder::Unknown,
                    (2, _) => MadeUnder::Epoch(self.fleet.epoch().saturating_sub(1)),
                    _ => MadeUnder::Epoch(self.fleet.epoch()),
                };
                let previous = Previous {
                    made_under,
                    outcome: *outcome,
                };
                let question = Question::Retry {
                    attempt: *attempt,
                    previous,
                };
                self.ask(Ask {
                    call: *call,
                    ..an_ask(question)
                });
            }
            Event::Hedge { attempt, call } => {
                self.ask(Ask {
                    call: *call,
                    ..an_ask(Question::Hedge { attempt: *attempt })
                });
            }
            Event::Confirm { of, left } => {
                if let Some(permit) = pick(of, &self.model.permits) {
                    let ask = Ask {
                        time_left: millis(left),
                        ..an_ask(Question::Confirm(permit))
                    };
                    self.ask(ask);
                }
            }
            Event::Report { of, outcome } => {
                if let Some(permit) = pick(of, &self.model.permits) {
                    self.report(permit, *outcome);
                }
            }
            Event::Forged { serial, outcome } => {
                if let Some(permit) = self.model.permits.first()
                    && !self.model.known.contains(serial)
                {
                    let forged = Permit {
                        serial: *serial,
                        expires: Time::MAX,
                        ..*permit
                    };
                    self.report(forged, *outcome);
                }
            }
            Event::Tally(tally, behind) => {
                let epoch = self.fleet.epoch().saturating_sub(*behind);
                self.fleet.tally(Tally { epoch, ..*tally });
                self.budget_clock();
                self.model
                    .first_attempts
                    .push((self.model.budget_at, tally.first_attempts));
            }
            Event::Order { open, lasts } => {
                let order = Override {
                    kind: if *open {
                        OverrideKind::ForceOpen
                    } else {
                        OverrideKind::ForceClosed
                    },
                    owner: "ops".into(),
                    reason: String::new(),
                    set_at: now,
                    expires: lasts.map(|lasts| now + Nanos::from_millis(lasts)),
                };
                set_override(&mut self.fleet.record, order, now);
            }
            Event::ClearOrder => {
                clear_override(&mut self.fleet.record, now);
            }
            Event::Reset => reset(&mut self.fleet.record, now),
            Event::ClearHold => {
                clear_hold(&mut self.fleet.record, now);
            }
            Event::Forward(millis) => self.fleet.now = now + Nanos::from_millis(*millis),
            Event::Backward(millis) => {
                self.model.went_back = true;
                self.fleet.now = Time(now.0.saturating_sub(millis * 1_000_000));
            }
            Event::Reload(seed) => {
                let breaker = &mut self.fleet.policy.breaker;
                breaker.probes = u32::from(seed % 3) + 1;
                breaker.probe_lease = Nanos::from_millis(u64::from(*seed) * 20 + 100);
                breaker.permit_ttl = Nanos::from_millis(u64::from(*seed) * 50 + 100);
                if let Detect::Window(window) = &mut breaker.detect {
                    window.size = WindowSize::Calls(u32::from(*seed));
                }
            }
            Event::Draw(jitter, spread) => {
                self.fleet.sample = Sample {
                    jitter: *jitter,
                    spread: *spread,
                };
            }
        }
        self.watch();
    }

    fn ask(&mut self, ask: Ask) {
        let before = self.fleet.clone();
        let mut twin = self.fleet.clone();
        let answer = self.fleet.ask(ask);
        // Invariant 9.
        assert_eq!(twin.ask(ask), answer);
        assert_eq!(
            format!("{:?}", twin.record),
            format!("{:?}", self.fleet.record)
        );
        self.note_previous(&ask, &answer, &before);
        match answer.verdict {
            Ok(grant) => self.granted(&ask, &answer, &grant, &before),
            Err(_) => self.denied(&ask, &answer, before),
        }
    }

    fn note_previous(&mut self, ask: &Ask, answer: &Answer, before: &Fleet) {
        let Question::Retry { previous, attempt } = ask.question else {
            assert_eq!(answer.previous, None);
            return;
        };
        match previous.made_under {
            MadeUnder::Permit(permit) => {
                self.reported(permit, answer.previous.unwrap(), before.epoch());
            }
            MadeUnder::Epoch(_) => {
                if answer.previous != Some(Reported::Duplicate) && attempt == 2 {
                    self.budget_clock();
                    self.model.first_attempts.push((self.model.budget_at, 1));
                }
            }
            MadeUnder::EarlierRun(_) | MadeUnder::Unknown => {
                assert_ne!(answer.previous, Some(Reported::Ok));
            }
        }
    }

    /// Invariant 7: at most once, and only in its own epoch.
    fn reported(&mut self, permit: Permit, reported: Reported, epoch: u64) {
        if matches!(reported, Reported::Ok | Reported::StaleEpoch) {
            assert!(
                self.model.applied.insert(permit.serial),
                "used twice: {permit:?}"
            );
            assert!(self.model.known.contains(&permit.serial));
            self.model.end(permit.serial);
        }
        if reported == Reported::Ok {
            assert!(
                permit.epoch >= epoch,
                "of another epoch: {permit:?} at {epoch}"
            );
        }
    }

    fn report(&mut self, permit: Permit, outcome: Outcome) {
        let mut before = self.fleet.clone();
        let context = self.fleet.context();
        before.record.advance(&before.policy, &context);
        let reported = self.fleet.report(permit, outcome);
        self.reported(permit, reported, before.epoch());
        if reported != Reported::Ok {
            assert_eq!(
                state_of(&before.view()),
                state_of(&self.fleet.view()),
                "{reported:?}"
            );
        }
        if !self.model.known.contains(&permit.serial) {
            assert_eq!(reported, Reported::Unknown);
        }
    }

    fn granted(&mut self, ask: &Ask, answer: &Answer, grant: &Grant, before: &Fleet) {
        let policy = &self.fleet.policy;
        // Invariant 1.
        if let Some(left) = ask.time_left {
            assert!(grant.delay < left, "{grant:?} in {left}");
        }
        let new = self.model.known.insert(grant.permit.serial);
        if let Question::Confirm(permit) = ask.question
            && permit.serial != grant.permit.serial
        {
            // The token moves to the new permit; the chain of lost answers too.
            let newest = self
                .model
                .tokens
                .iter_mut()
                .find(|(_, serial)| *serial == permit.serial);
            if let Some(token) = newest {
                token.1 = grant.permit.serial;
            }
            self.model.end(permit.serial);
        }
        if !new {
            return;
        }
        self.model.permits.push(grant.permit);
        // Invariant 3: an open breaker grants nothing, a forced-open one never.
        let spared = policy.breaker.applies_to != AppliesTo::All
            && (ask.question == Question::First
                || matches!(ask.question, Question::Confirm(permit) if permit.retry == 0));
        assert_ne!(answer.state, State::ForcedOpen);
        assert!(answer.state != State::Open || spared, "{ask:?} {answer:?}");
        // Invariant 2.
        if grant.probe {
            assert!(grant.delay.is_zero() && grant.permit.kind == PermitKind::Probe);
            let ends = self.fleet.now + policy.breaker.probe_lease;
            self.model.leases.insert(grant.permit.serial, ends);
            let live = self.model.leases.len();
            assert!(live <= policy.breaker.probes as usize, "{live} probes");
        } else if answer.state == State::HalfOpen {
            assert!(spared, "{ask:?} {answer:?}");
        }
        self.charged(ask, grant, before);
    }

    /// Invariants 1 and 5.
    fn charged(&mut self, ask: &Ask, grant: &Grant, before: &Fleet) {
        if !matches!(ask.question, Question::Confirm(_)) {
            self.budget_clock();
        }
        let policy = &self.fleet.policy;
        match ask.question {
            Question::First => self.model.first_attempts.push((self.model.budget_at, 1)),
            Question::Confirm(_) => {}
            Question::Retry { .. } | Question::Hedge { .. } => {
                self.model
                    .tokens
                    .push((self.model.budget_at, grant.permit.serial));
                let firsts = self.model.firsts_since(policy.budget.ttl);
                let granted = self.model.tokens_since(policy.budget.ttl);
                let allowed = allowed(policy, firsts);
                assert!(granted <= allowed, "{granted} retries of {allowed}");
            }
        }
        if let Question::Retry { previous, .. } = ask.question {
            let held = self.fleet.record.held_until.max(before.record.held_until);
            let told = previous.outcome.pushback.is_some() || held > self.fleet.now;
            let only_backoff = !told && policy.rate.is_none();
            assert!(
                !only_backoff || grant.delay <= policy.retry.max_delay,
                "{grant:?}"
            );
        }
    }

    /// Invariant 8: but for the outcome that came with it, a denial changes nothing.
    fn denied(&mut self, ask: &Ask, answer: &Answer, mut before: Fleet) {
        let denial = answer.verdict.unwrap_err();
        let context = self.fleet.context();
        let refunds = matches!(ask.question, Question::Confirm(_));
        if refunds || denial.reason == R::BudgetExhausted {
            self.budget_clock();
        }
        match ask.question {
            Question::Confirm(permit) if denial.reason != R::PermitVoid => {
                self.model
                    .tokens
                    .retain(|(_, serial)| *serial != permit.serial);
                self.model.end(permit.serial);
                self.forget_void_chain();
                return;
            }
            Question::Retry { previous, .. } => match previous.made_under {
                MadeUnder::Permit(permit) => {
                    before.report(permit, previous.outcome);
                }
                MadeUnder::Epoch(_) => return,
                MadeUnder::EarlierRun(_) | MadeUnder::Unknown => {
                    before.record.advance(&before.policy, &context);
                }
            },
            Question::First | Question::Hedge { .. } | Question::Confirm(_) => {
                before.record.advance(&before.policy, &context);
            }
        }
        assert_eq!(before.view(), self.fleet.view(), "{denial:?}");
        for next in [
            Question::First,
            Question::Hedge { attempt: 1 },
            ask.question,
        ] {
            let next = Ask {
                question: next,
                call: None,
                time_left: None,
                ..*ask
            };
            let after = self.fleet.clone().ask(next);
            assert_eq!(
                before.clone().ask(next).verdict,
                after.verdict,
                "{denial:?}"
            );
        }
        if let (R::BudgetExhausted, Facts::Budget(Empty::Fleet { .. })) =
            (denial.reason, denial.facts)
        {
            self.is_exact_to_a_bucket();
        }
    }

    /// A confirmation of an old permit may have voided the one that had replaced it.
    fn forget_void_chain(&mut self) {
        let record = &self.fleet.record;
        let applied = &self.model.applied;
        let void = |serial: u64| {
            record.tickets.look(serial) == holdoff_decision::tickets::Ticket::Followed
                && !applied.contains(&serial)
        };
        let latest = self.model.latest;
        let expired: BTreeSet<u64> = self
            .model
            .permits
            .iter()
            .filter(|permit| permit.expires <= latest)
            .map(|permit| permit.serial)
            .collect();
        self.model
            .tokens
            .retain(|(_, serial)| expired.contains(serial) || !void(*serial));
    }

    /// A refusal for want of a token is right to a bucket.
    fn is_exact_to_a_bucket(&self) {
        if self.model.went_back {
            return;
        }
        let policy = &self.fleet.policy;
        let bucket = policy.budget.ttl.0 / 10;
        let sure = Nanos(policy.budget.ttl.0 - bucket);
        let long = Nanos(policy.budget.ttl.0 + bucket);
        let firsts = self.model.firsts_since(sure);
        let granted = self.model.tokens_since(long);
        assert!(
            granted + 1 > allowed(policy, firsts),
            "{granted} of {}",
            allowed(policy, firsts)
        );
    }

    fn budget_clock(&mut self) {
        self.model.budget_at = self.model.budget_at.max(self.fleet.now);
    }

    fn watch(&self) {
        let view = self.fleet.view();
        let before = format!("{:?}", self.fleet.record);
        let _ = self.fleet.view();
        assert_eq!(
            format!("{:?}", self.fleet.record),
            before,
            "reading changes nothing"
        );
        assert!(view.counts.failures <= view.counts.calls);
        assert!((0.0..=1.0).contains(&view.suspicion));
    }

    /// Invariant 4.
    fn closes_when_healthy(&mut self) {
        clear_override(&mut self.fleet.record, self.fleet.now);
        self.fleet.policy.breaker.mode = Mode::Enforce;
        self.fleet.policy.rate = None;
        self.fleet.sample = Sample::default();
        self.fleet.now = self.fleet.now.max(self.model.latest);
        for _ in 0..200 {
            if self.fleet.record.inner_state(self.fleet.now) == State::Closed {
                return;
            }
            if let Ok(grant) = self.fleet.ask(an_ask(Question::First)).verdict {
                let healthy = Outcome::of(OutcomeKind::Success);
                self.fleet.report(grant.permit, healthy);
            }
            self.fleet.now = self.fleet.now + secs(0.5);
        }
        panic!("stuck: {:?}", self.fleet.record);
    }
}

/// What a report that does not count may not change.
fn state_of(view: &View) -> (State, u64, window::Counts, f32, u64) {
    (
        view.state,
        view.epoch,
        view.counts,
        view.suspicion,
        view.trips,
    )
}

proptest! {
    /// 1 delays end before deadlines, 2 never more probes than `probes`, 3 open grants nothing,
    /// 5 the budget is never exceeded, 7 a report counts once and in its epoch, 8 a denial
    /// consumes nothing, 9 the same inputs give the same answer, 4 and it closes in the end.
    #[test]
    fn every_invariant_holds_in_every_story(
        policy in policy(),
        events in proptest::collection::vec(event(), 1..120),
    ) {
        let mut story = Story::new(policy);
        for event in &events {
            story.run(event);
        }
        story.closes_when_healthy();
    }

    #[test]
    fn a_backoff_delay_is_never_negative_and_never_above_max_delay(
        growth in 0..3_usize,
        jitter in 0..5_usize,
        initial in any::<u64>(),
        max in any::<u64>(),
        min in any::<u64>(),
        multiplier in prop_oneof![Just(1.0), Just(0.0), Just(f64::NAN), Just(f64::INFINITY), -5.0..200.0_f64],
        share in prop_oneof![Just(f64::NAN), -1.0..2.0_f64],
        n in any::<u32>(),
        previous in any::<u64>(),
        unit in prop_oneof![Just(0.0), Just(0.999_999_999_999), Just(f64::NAN), -1.0..2.0_f64],
    ) {
        let retry = holdoff_decision::policy::Retry {
            strategy: [Growth::Fixed, Growth::Linear, Growth::Exponential][growth],
            jitter: [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Proportional(share), Jitter::Decorrelated][jitter],
            initial_delay: Nanos(initial),
            max_delay: Nanos(max),
            min_delay: Nanos(min),
            multiplier,
            ..holdoff_decision::policy::Retry::default()
        };
        let delay = holdoff_decision::backoff::delay(&retry, n, Nanos(previous), unit);
        prop_assert!(delay <= retry.max_delay);
        prop_assert!(delay >= retry.min_delay.min(retry.max_delay));
    }

    #[test]
    fn a_ceiling_never_falls_from_one_retry_to_the_next(
        growth in 0..3_usize,
        initial in 0..10_000_000_000_u64,
        max in 0..86_400_000_000_000_u64,
        tenths in 10..1000_u32,
        n in prop_oneof![1..200_u32, 1..u32::MAX],
    ) {
        let retry = holdoff_decision::policy::Retry {
            strategy: [Growth::Fixed, Growth::Linear, Growth::Exponential][growth],
            initial_delay: Nanos(initial),
            max_delay: Nanos(max),
            multiplier: f64::from(tenths) / 10.0,
            ..holdoff_decision::policy::Retry::default()
        };
        let ceiling = |n| holdoff_decision::backoff::ceiling(&retry, n);
        prop_assert!(ceiling(n) <= ceiling(n + 1));
        prop_assert!(initial == 0 || max == 0 || ceiling(n).0 > 0);
    }

    #[test]
    fn a_window_holds_exactly_what_a_list_would(
        size in prop_oneof![
            (1..40_u32).prop_map(WindowSize::Calls),
            (1..60_u64).prop_map(|tenths| WindowSize::Time(Nanos(tenths * 100_000_000))),
        ],
        calls in proptest::collection::vec((any::<bool>(), any::<bool>(), 0..2000_u64, 1..4_u32), 0..80),
    ) {
        let mut window = window::Window::new(size, Time::ORIGIN);
        let (mut list, mut now) = (Vec::new(), Time::ORIGIN);
        let mut consecutive = 0;
        for (failed, slow, millis, count) in calls {
            now = now + Nanos::from_millis(millis);
            window.record(window::Call { failed, slow }, count, now);
            consecutive = if failed { consecutive + count } else { 0 };
            list.extend((0..count).map(|_| (now, failed, slow)));
            let inside: Vec<_> = match size {
                WindowSize::Calls(limit) => list.iter().rev().take(limit as usize).collect(),
                WindowSize::Time(span) => {
                    let bucket = span.0 / 10;
                    let oldest = (now.0 / bucket).saturating_sub(9);
                    list.iter().filter(|(at, _, _)| at.0 / bucket >= oldest).collect()
                }
            };
            let expected = window::Counts {
                calls: inside.len() as u32,
                failures: inside.iter().filter(|call| call.1).count() as u32,
                slow: inside.iter().filter(|call| call.2).count() as u32,
            };
            prop_assert_eq!(window.counts(now), expected);
            let policy = Window {
                consecutive_failures: consecutive.max(1),
                min_calls: u32::MAX,
                ..Window::default()
            };
            prop_assert_eq!(window.reached(&policy, true, now).is_some(), consecutive > 0);
        }
    }

    #[test]
    fn a_rate_admits_at_most_its_burst_and_what_has_accrued(
        per_second in prop_oneof![0.1..2000.0_f64, 1.0..20.0_f64],
        burst in 1..20_u32,
        asks in proptest::collection::vec((1..5_u32, 0..400_000_000_u64), 1..100),
    ) {
        let policy = Rate { per_second, burst, max_wait: Nanos::ZERO, per_caller: false };
        let mut rate = holdoff_decision::rate::Rate::default();
        let (mut now, mut taken) = (Time(1_000_000_000_000), Vec::new());
        for (cost, pause) in asks {
            now = now + Nanos(pause);
            let room = rate.room(&policy, 1, cost, now);
            if room == holdoff_decision::rate::Room::After(Nanos::ZERO) {
                rate.take(&policy, 1, cost, now);
                taken.push((now, cost));
            }
            for start in 0..taken.len() {
                let admitted: u32 = taken[start..].iter().map(|(_, cost)| cost).sum();
                let span = now.since(taken[start].0).as_secs_f64();
                prop_assert!(f64::from(admitted) <= f64::from(burst) + per_second * span + 1e-6);
            }
        }
    }
}

/// Any number at all, with the edges more often.
fn wild() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        0..100_u64,
        0..100_000_000_000_u64,
        any::<u64>(),
    ]
}

fn wild_float() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MIN_POSITIVE),
        any::<f64>(),
        -10.0..10.0_f64,
    ]
}

fn wild_policy() -> impl Strategy<Value = Policy> {
    let numbers = proptest::collection::vec(wild(), 24);
    let floats = proptest::collection::vec(wild_float(), 4);
    (numbers, floats, policy()).prop_map(|(n, f, mut policy)| {
        let span = |at: usize| Nanos(n[at]);
        let small = |at: usize| n[at] as u32;
        policy.retry.initial_delay = span(0);
        policy.retry.max_delay = span(1);
        policy.retry.min_delay = span(2);
        policy.retry.min_attempt_time = span(3);
        policy.retry.multiplier = f[0];
        policy.retry.max_attempts = MaxAttempts::Limited(small(4));
        policy.pushback.max = span(5);
        policy.pushback.spread = span(6);
        let breaker = &mut policy.breaker;
        breaker.open_for = span(7);
        breaker.open_max = span(8);
        breaker.open_multiplier = f[1];
        breaker.healthy_reset = span(9);
        breaker.spread = span(10);
        breaker.probes = small(11);
        breaker.probe_lease = span(12);
        breaker.probe_successes = small(13);
        breaker.permit_ttl = span(14);
        breaker.slow_after = span(15);
        breaker.slow_counts_as_failure = n[23] % 2 == 0;
        breaker.count_rejected = n[22] % 2 == 0;
        breaker.count_throttled = n[21] % 2 == 0;
        if let Detect::Window(window) = &mut breaker.detect {
            window.size = match n[16] % 2 {
                0 => WindowSize::Calls(small(17)),
                _ => WindowSize::Time(span(17)),
            };
            window.min_calls = small(18);
            window.failure_ratio = Share(small(19));
            window.consecutive_failures = small(20);
        }
        policy.budget.ratio = Share(small(21));
        policy.budget.floor_micros_per_second = n[22];
        policy.budget.ttl = span(23);
        policy.budget.max_caller_share = Share(small(20));
        if let Some(rate) = &mut policy.rate {
            rate.per_second = f[2];
            rate.burst = small(19);
            rate.max_wait = span(18);
        }
        policy
    })
}

proptest! {
    /// Totality: no policy, no event, no time makes a rule panic or overflow.
    #[test]
    fn no_input_makes_a_rule_panic(
        policies in proptest::collection::vec(wild_policy(), 1..3),
        events in proptest::collection::vec((event(), wild(), 0..8_u8), 1..60),
        restarted in proptest::option::of(wild()),
    ) {
        let mut fleet = Fleet::new(policies[0].clone());
        fleet.restarted = restarted.map(Time);
        let mut permits = Vec::new();
        for (step, (event, number, change)) in events.into_iter().enumerate() {
            match change {
                0 => fleet.now = Time(number),
                1 => fleet.policy = policies[step % policies.len()].clone(),
                2 => fleet.record = Record::new(number, fleet.now),
                3 => fleet.sample = Sample { jitter: f64::from_bits(number), spread: f64::from_bits(!number) },
                _ => {}
            }
            wild_event(&mut fleet, &mut permits, event, number);
            let _ = fleet.view();
            if let Some(denial) = permits.last() {
                let _ = format!("{denial:?}");
            }
            let saved = holdoff_decision::operate::checkpoint(&fleet.record, fleet.now);
            let _ = holdoff_decision::operate::restore(&saved, fleet.now);
            let _ = holdoff_decision::view::is_idle(&fleet.record, Nanos(number), fleet.now);
        }
    }
}

fn wild_event(fleet: &mut Fleet, permits: &mut Vec<Permit>, event: Event, number: u64) {
    let permit = |of: usize, permits: &Vec<Permit>| match permits.len() {
        0 => None,
        many => Some(permits[of % many]),
    };
    let question = match event {
        Event::First { .. } => Question::First,
        Event::Retry { of, outcome, .. } => match permit(of, permits) {
            None => return,
            Some(permit) => {
                let outcome = Outcome {
                    pushback: Some(Nanos(number)),
                    ..outcome
                };
                Question::Retry {
                    attempt: number as u32,
                    previous: after(permit, outcome),
                }
            }
        },
        Event::RetryOther { outcome, .. } => Question::Retry {
            attempt: number as u32,
            previous: Previous {
                made_under: MadeUnder::Epoch(number),
                outcome,
            },
        },
        Event::Hedge { .. } => Question::Hedge {
            attempt: number as u32,
        },
        Event::Confirm { of, .. } => match permit(of, permits) {
            None => return,
            Some(permit) => Question::Confirm(permit),
        },
        Event::Report { of, outcome } => {
            if let Some(permit) = permit(of, permits) {
                fleet.report(permit, outcome);
            }
            return;
        }
        Event::Forged { serial, outcome } => {
            let forged = Permit {
                epoch: number,
                serial,
                issued: Time(number),
                delay: Nanos(serial),
                expires: Time(!number),
                retry: serial as u32,
                kind: PermitKind::Probe,
            };
            fleet.report(forged, outcome);
            fleet.ask(an_ask(Question::Confirm(forged)));
            Question::Retry {
                attempt: 2,
                previous: after(forged, outcome),
            }
        }
        Event::Tally(tally, _) => {
            let epoch = fleet.epoch();
            let n = number as u32;
            fleet.tally(Tally {
                epoch,
                successes: n,
                failures: !n,
                slow: n.rotate_left(7),
                throttled: n.rotate_left(16),
                rejected: n,
                ..tally
            });
            return;
        }
        Event::Order { open, lasts } => {
            let order = Override {
                kind: if open {
                    OverrideKind::ForceOpen
                } else {
                    OverrideKind::ForceClosed
                },
                owner: String::new(),
                reason: String::new(),
                set_at: Time(number),
                expires: lasts.map(|_| Time(number)),
            };
            return set_override(&mut fleet.record, order, fleet.now);
        }
        Event::ClearOrder => {
            clear_override(&mut fleet.record, fleet.now);
            return;
        }
        Event::Reset => return reset(&mut fleet.record, fleet.now),
        Event::ClearHold => {
            clear_hold(&mut fleet.record, fleet.now);
            return;
        }
        Event::Forward(millis) => {
            fleet.now = fleet.now + Nanos::from_millis(millis);
            return;
        }
        Event::Backward(_) | Event::Reload(_) | Event::Draw(..) => return,
    };
    let ask = Ask {
        cost: number as u32,
        time_left: (number % 3 == 0).then_some(Nanos(number)),
        call: (number % 2 == 0).then_some(number % 5),
        ..an_ask(question)
    };
    match fleet.ask(ask).verdict {
        Ok(grant) => permits.push(grant.permit),
        Err(denial) => drop(denial.to_string()),
    }
}
