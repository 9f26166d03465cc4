//! No input makes a rule panic: policies far outside of what can be loaded, times at both
//! ends of the clock, draws that are no numbers.

use holdoff_decision::{
    Ask, MadeUnder, Nanos, Outcome, Permit, PermitKind, Policy, Previous, Question, Record,
    Restart, Sample, Share, Tally, Time,
    operate::{clear_hold, clear_override, reset, set_override},
    policy::{Detect, MaxAttempts, RetryRate, WindowSize},
    record::{Override, OverrideKind},
};
use proptest::prelude::*;

use super::events::{Event, event, policy};
use crate::fleet::{Fleet, after, an_ask};

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
        policy.calendar.slot = span(3);
        policy.calendar.horizon = span(17);
        if n[9] % 2 == 0 {
            policy.calendar.retry_rate = RetryRate::PerSecond(f[3]);
        }
        policy.ramp.start = Share(small(16));
        policy.ramp.step = span(4);
        policy.ramp.max_duration = span(9);
        policy.ramp.horizon = span(14);
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
        fleet.restarted = restarted.map(|at| Restart::after_another(Time(at)));
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
        time_left: number.is_multiple_of(3).then_some(Nanos(number)),
        call: number.is_multiple_of(2).then_some(number % 5),
        ..an_ask(question)
    };
    match fleet.ask(ask).verdict {
        Ok(grant) => permits.push(grant.permit),
        Err(denial) => drop(denial.to_string()),
    }
}
