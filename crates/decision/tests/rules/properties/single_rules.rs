//! Laws of one rule each.

use holdoff_decision::{
    Nanos, Share, Time,
    budget::Budget,
    policy::{self, Jitter, Rate, Strategy as Growth, Window, WindowSize},
    window,
};
use proptest::prelude::*;

proptest! {
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

    /// Invariant 5, and that a refusal is right to a bucket.
    #[test]
    fn retries_granted_never_exceed_the_share_of_first_attempts_and_the_floor(
        ratio in prop_oneof![0..3_000_000_u32, Just(200_000), Just(1_000_000)],
        floor in prop_oneof![Just(0), 0..3_000_000_u64],
        bucket in 1..2_000_000_000_u64,
        steps in proptest::collection::vec((0..30_u64, 0..4_u32, 0..6_u32), 1..120),
    ) {
        let policy = policy::Budget {
            ratio: Share(ratio),
            floor_micros_per_second: floor,
            ttl: Nanos(bucket * 10),
            max_caller_share: Share::ONE,
        };
        let mut budget = Budget::default();
        let (mut now, mut firsts, mut retries) = (Time(7), Vec::new(), Vec::new());
        for (tenths, deposits, asks) in steps {
            now = now + Nanos(tenths * bucket / 10);
            budget.deposit(&policy, deposits, now);
            firsts.extend((0..deposits).map(|_| now));
            for _ in 0..asks {
                let within = |times: &Vec<Time>, span: u64| {
                    times.iter().filter(|at| now.since(**at).0 < span).count() as u128
                };
                let allowed = |firsts: u128| {
                    (u128::from(ratio) * firsts
                        + u128::from(floor) * u128::from(bucket) * 10 / 1_000_000_000)
                        / 1_000_000
                };
                if budget.look(&policy, 1, Time::ORIGIN, now).is_ok() {
                    budget.withdraw(&policy, 1, now);
                    retries.push(now);
                    prop_assert!(within(&retries, bucket * 10) <= allowed(within(&firsts, bucket * 10)));
                } else {
                    let sure = allowed(within(&firsts, bucket * 9));
                    prop_assert!(within(&retries, bucket * 11) + 1 > sure);
                }
            }
        }
    }
}
