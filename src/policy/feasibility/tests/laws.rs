//! What the check says of the rules is so: here they are driven as a fleet would, with
//! other phases, callers and draws than the check's own runs.

use std::collections::BinaryHeap;

use holdoff_decision::breaker::Phase;
use holdoff_decision::{
    Ask, Context, DenialReason, MadeUnder, Outcome, OutcomeKind, Permit, Previous, Priority,
    Question, Record, Sample, Time, acquire, report,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::super::budget::grants;
use super::super::calendar::too_short;
use super::super::opening::{Verdict, verdict};
use super::*;

/// A fleet at a rate, every attempt of which fails.
struct Fleet<'a> {
    policy: &'a Policy,
    record: Record,
    clients: u64,
    deadline: Option<Nanos>,
    seed: u64,
    denied: Vec<DenialReason>,
    granted_retries: u32,
}

/// An attempt that will end, the earliest first.
type Pending = (std::cmp::Reverse<(Time, u64)>, u64, u32, Time, u64);

#[derive(Clone, Copy, PartialEq)]
enum Clients {
    GiveUp,
    Retry,
}

impl<'a> Fleet<'a> {
    fn new(policy: &'a Policy, facts: &Facts, seed: u64) -> Self {
        Self {
            policy,
            record: Record::new(7, Time(0)),
            clients: u64::from(facts.clients.unwrap_or(1)),
            deadline: facts.deadline,
            seed,
            denied: Vec::new(),
            granted_retries: 0,
        }
    }

    fn draw(&mut self) -> f64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn context(&mut self, now: Time) -> Context {
        let sample = Sample {
            jitter: self.draw(),
            spread: self.draw(),
        };
        Context {
            now,
            sample,
            restarted: None,
        }
    }

    fn ask(
        &mut self,
        question: Question,
        client: u64,
        left: Option<Nanos>,
        now: Time,
    ) -> Option<(Time, Permit)> {
        let ask = Ask {
            question,
            caller: client.wrapping_mul(0x517C_C1B7_2722_0A95),
            service: 3,
            call: None,
            idempotent: true,
            time_left: left,
            priority: Priority::Normal,
            cost: 1,
        };
        let context = self.context(now);
        match acquire(self.policy, &mut self.record, &ask, &context).verdict {
            Ok(grant) => {
                self.granted_retries += u32::from(matches!(question, Question::Retry { .. }));
                Some((now + grant.delay, grant.permit))
            }
            Err(denial) => {
                self.denied.push(denial.reason);
                None
            }
        }
    }

    /// Lets calls begin every `apart` until `until`; whether the breaker opened.
    fn run(&mut self, apart: Nanos, until: Nanos, clients: Clients) -> bool {
        let mut pending: BinaryHeap<Pending> = BinaryHeap::new();
        let mut permits: Vec<Permit> = Vec::new();
        let mut next = Time(5_000_000_000_000) + apart.scaled(self.draw());
        let ends = next + until;
        let mut call = (self.draw() * 1000.0) as u64;
        while next < ends {
            let due = pending.peek().map(|pending| pending.0.0.0);
            if let Some(now) = due.filter(|due| *due <= next) {
                let (_, client, attempt, began, permit) = pending.pop().unwrap();
                self.end(
                    &mut pending,
                    &mut permits,
                    (client, attempt, began, permit),
                    now,
                    clients,
                );
            } else {
                let (client, now) = (call % self.clients, next);
                if let Some((at, permit)) = self.ask(Question::First, client, self.deadline, now) {
                    permits.push(permit);
                    let index = permits.len() as u64 - 1;
                    pending.push((std::cmp::Reverse((at, index)), client, 1, now, index));
                }
                call += 1;
                next = next + apart;
            }
            if self.record.breaker.phase == Phase::Open {
                return true;
            }
        }
        false
    }

    fn end(
        &mut self,
        pending: &mut BinaryHeap<Pending>,
        permits: &mut Vec<Permit>,
        (client, attempt, began, index): (u64, u32, Time, u64),
        now: Time,
        clients: Clients,
    ) {
        let permit = permits[index as usize];
        let outcome = Outcome::of(OutcomeKind::Failure);
        if clients == Clients::GiveUp {
            let reporter = client.wrapping_mul(0x517C_C1B7_2722_0A95);
            let context = self.context(now);
            report(
                self.policy,
                &mut self.record,
                &permit,
                &outcome,
                reporter,
                &context,
            );
            return;
        }
        let made_under = MadeUnder::Permit(permit);
        let question = Question::Retry {
            attempt: attempt + 1,
            previous: Previous {
                made_under,
                outcome,
            },
        };
        let left = self
            .deadline
            .map(|all| all.saturating_sub(now.since(began)));
        if let Some((at, permit)) = self.ask(question, client, left, now) {
            permits.push(permit);
            let index = permits.len() as u64 - 1;
            pending.push((
                std::cmp::Reverse((at, index)),
                client,
                attempt + 1,
                began,
                index,
            ));
        }
    }
}

/// Policies and traffic near the edge of what opens.
fn near_the_edge() -> impl Strategy<Value = (Policy, Facts)> {
    let size = prop_oneof![
        3 => (100_u64..60_000).prop_map(|ms| WindowSize::Time(Nanos::from_millis(ms))),
        1 => (1_u32..60).prop_map(WindowSize::Calls),
    ];
    let detector = (
        any::<bool>(),
        size,
        1_u32..40,
        prop_oneof![3 => Just(0), 1 => 1_u32..30],
    );
    let retry = (1_u32..5, 1_u64..3_000, 0_usize..3);
    let evidence = (1_u32..6, prop_oneof![Just(0.2), Just(0.5), Just(1.0)]);
    let budget = (
        prop_oneof![Just(0.0), Just(0.2), Just(1.0)],
        prop_oneof![Just(0_u64), Just(1_000_000)],
    );
    let traffic = (-2.5_f64..2.0, 1_u32..12);
    (detector, retry, evidence, budget, traffic).prop_map(
        |(detector, retry, evidence, budget, traffic)| {
            let (adaptive, size, min_calls, row) = detector;
            let min_calls = match size {
                WindowSize::Calls(calls) => min_calls.min(calls),
                WindowSize::Time(_) => min_calls,
            };
            let mut policy = match adaptive {
                true => Policy::default(),
                false => window(size, min_calls, row),
            };
            policy.retry.max_attempts = holdoff_decision::policy::MaxAttempts::Limited(retry.0);
            policy.retry.initial_delay = Nanos::from_millis(retry.1);
            policy.retry.jitter = [
                holdoff_decision::policy::Jitter::Full,
                holdoff_decision::policy::Jitter::None,
                holdoff_decision::policy::Jitter::Equal,
            ][retry.2];
            policy.breaker.min_reporters = evidence.0;
            policy.breaker.max_reporter_share =
                holdoff_decision::Share::from_ratio(evidence.1).unwrap();
            policy.budget.ratio = holdoff_decision::Share::from_ratio(budget.0).unwrap();
            policy.budget.floor_micros_per_second = budget.1;
            let facts = Facts {
                calls_per_second: Some(10_f64.powf(traffic.0)),
                clients: Some(traffic.1),
                ..Facts::default()
            };
            (policy, facts)
        },
    )
}

/// Long enough for a full window, for the evidence to settle, and for a few calls.
fn long_enough(policy: &Policy, apart: Nanos) -> Nanos {
    let calls = 100_u64;
    let span = match &policy.breaker.detect {
        Detect::Window(Window {
            size: WindowSize::Time(span),
            ..
        }) => Nanos(span.0 * 4),
        Detect::Window(_) | Detect::Adaptive => Nanos::from_secs(400),
    };
    Nanos(apart.0 * calls).saturating_add(span)
}

#[test]
fn the_edge_is_met_from_both_sides() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let verdicts: Vec<Verdict> = (0..300)
        .map(|_| {
            let (policy, facts) = near_the_edge().new_tree(&mut runner).unwrap().current();
            verdict(&policy, &facts).unwrap()
        })
        .collect();
    for each in [Verdict::Opens, Verdict::Barely, Verdict::Never] {
        let count = verdicts.iter().filter(|verdict| **verdict == each).count();
        assert!(count >= 10, "{each:?}: {count} of 300");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_breaker_opens_just_where_the_check_says_that_it_can((policy, facts) in near_the_edge(), seed in any::<u64>()) {
        let apart = secs(1.0 / facts.calls_per_second.unwrap());
        let until = long_enough(&policy, apart);
        let opens = |clients, seed| Fleet::new(&policy, &facts, seed).run(apart, until, clients);
        match verdict(&policy, &facts).unwrap() {
            Verdict::Never => for seed in seed..seed.saturating_add(3) {
                prop_assert!(!opens(Clients::Retry, seed), "it opened");
                prop_assert!(!opens(Clients::GiveUp, seed), "it opened without retries");
            },
            Verdict::Opens => {
                prop_assert!(opens(Clients::GiveUp, seed), "it never opened on first attempts");
                prop_assert!(opens(Clients::Retry, seed), "it never opened");
            }
            // It takes retries, or luck: nothing is promised.
            Verdict::Barely => {}
        }
    }

    #[test]
    fn a_budget_never_grants_where_the_check_says_so(ratio in 0_u32..300_000, floor in prop_oneof![Just(0_u64), 1_000_u64..1_000_000], ttl in 100_u64..20_000, rate in -1.0_f64..2.0, seed in any::<u64>()) {
        let mut policy = Policy::default();
        policy.breaker.mode = holdoff_decision::policy::Mode::Off;
        policy.budget.ratio = holdoff_decision::Share(ratio);
        policy.budget.floor_micros_per_second = floor;
        policy.budget.ttl = Nanos::from_millis(ttl);
        let facts = Facts { calls_per_second: Some(10_f64.powf(rate)), clients: Some(1), ..Facts::default() };
        if !grants(&policy.budget, facts.calls_per_second) {
            let apart = secs(1.0 / facts.calls_per_second.unwrap());
            let mut fleet = Fleet::new(&policy, &facts, seed);
            fleet.run(apart, Nanos(apart.0 * 500), Clients::Retry);
            prop_assert_eq!(fleet.granted_retries, 0);
            prop_assert!(fleet.denied.contains(&DenialReason::BudgetExhausted));
        }
    }

    #[test]
    fn a_herd_finds_no_place_where_the_check_says_so_and_all_of_it_does_elsewhere(
        clients in 1_u32..3_000, rate in 1_u32..300, horizon in 1_u64..40, ratio in prop_oneof![Just(0.2), Just(1.0)], seed in any::<u64>()
    ) {
        let mut policy = Policy::default();
        policy.breaker.mode = holdoff_decision::policy::Mode::Off;
        policy.calendar.retry_rate = holdoff_decision::policy::RetryRate::PerSecond(f64::from(rate));
        policy.calendar.horizon = Nanos::from_secs(horizon);
        policy.budget.ratio = holdoff_decision::Share::from_ratio(ratio).unwrap();
        policy.budget.max_caller_share = holdoff_decision::Share::ONE;
        let facts = Facts { clients: Some(clients), ..Facts::default() };
        let mut fleet = Fleet::new(&policy, &facts, seed);
        // All of them fail within a millisecond, and ask.
        fleet.run(Nanos(1_000_000 / u64::from(clients)), Nanos::from_millis(1), Clients::GiveUp);
        let now = Time(6_000_000_000_000);
        let mut fleet = Fleet::new(&policy, &facts, seed);
        let failed: Vec<_> = (0..u64::from(clients))
            .map(|client| fleet.ask(Question::First, client, None, now).unwrap().1)
            .collect();
        for (client, permit) in failed.into_iter().enumerate() {
            let outcome = Outcome::of(OutcomeKind::Failure);
            let previous = Previous { made_under: MadeUnder::Permit(permit), outcome };
            fleet.ask(Question::Retry { attempt: 2, previous }, client as u64, None, now + Nanos(1));
        }
        let no_place = fleet.denied.iter().filter(|reason| **reason == DenialReason::CalendarFull).count();
        if !too_short(&policy, &facts).is_empty() {
            prop_assert!(no_place > 0, "{} retries were granted", fleet.granted_retries);
        }
        let needed = super::super::calendar::herd(&policy, &facts, clients) / (0.9 * f64::from(rate));
        if needed < 0.9 * horizon as f64 - 1.0 {
            prop_assert_eq!(no_place, 0, "{} retries were granted", fleet.granted_retries);
        }
    }
}
