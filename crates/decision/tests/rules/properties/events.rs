//! What may happen to a record, drawn at random.

use holdoff_decision::{
    Nanos, Outcome, OutcomeKind, Policy, Share, Tally,
    policy::{
        AppliesTo, Detect, Jitter, MaxAttempts, Mode, PushbackScope, Rate, RetryRate,
        Strategy as Growth, Window, WindowSize,
    },
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Event {
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

pub(super) fn outcome() -> impl Strategy<Value = Outcome> {
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

pub(super) fn call() -> impl Strategy<Value = Option<u64>> {
    proptest::option::weighted(0.3, 0..6_u64)
}

pub(super) fn left() -> impl Strategy<Value = Option<u64>> {
    proptest::option::weighted(0.3, 0..5000_u64)
}

pub(super) fn event() -> impl Strategy<Value = Event> {
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

pub(super) fn policy() -> impl Strategy<Value = Policy> {
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
    let plans = (
        prop_oneof![
            Just(RetryRate::Off),
            Just(RetryRate::Auto),
            (0.2..80.0_f64).prop_map(RetryRate::PerSecond),
        ],
        1..600_u64,
        10..9000_u64,
        0..1_200_000_u32,
        20..2000_u64,
    );
    (
        breaker,
        budget,
        retry,
        any::<bool>(),
        proptest::option::weighted(0.3, (1..50_u32, 1..6_u32)),
        plans,
    )
        .prop_map(|(breaker, budget, retry, scope, rate, plans)| {
            let mut policy = Policy::default();
            let (retry_rate, slot, horizon, start, step) = plans;
            policy.calendar.retry_rate = retry_rate;
            policy.calendar.slot = Nanos::from_millis(slot);
            policy.calendar.horizon = Nanos::from_millis(horizon);
            policy.ramp.start = Share(start);
            policy.ramp.step = Nanos::from_millis(step);
            policy.ramp.max_duration = Nanos::from_millis(horizon);
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
