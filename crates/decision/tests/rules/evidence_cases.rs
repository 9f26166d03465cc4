//! One bad instance must not open the breaker for the fleet, and a bad dependency must:
//! whole fleets against the rules.

use holdoff_decision::{
    DenialReason, Nanos, Outcome, OutcomeKind, Permit, Policy, Reported, Share, State, Tally, Time,
    evidence::{News, REPORTERS_MAX},
    policy::{AppliesTo, Detect, Mode, Window, WindowSize},
    record::Change,
    standing::{FirstAttempts, standing_of},
};

use crate::{
    check_cases::Draws,
    fleet::{FAIL, Fleet, OK, TIMEOUT, plain, reason, retry_after, secs},
};

const INSTANCES: u64 = 100;

fn adaptive() -> Policy {
    let mut policy = plain();
    policy.breaker.detect = Detect::Adaptive;
    policy
}

fn windowed(size: WindowSize) -> Policy {
    let mut policy = plain();
    policy.breaker.detect = Detect::Window(Window {
        size,
        min_calls: 20,
        consecutive_failures: 6,
        ..Window::default()
    });
    policy
}

fn policies() -> [Policy; 3] {
    [
        adaptive(),
        windowed(WindowSize::Time(secs(10.0))),
        windowed(WindowSize::Calls(100)),
    ]
}

/// What a lying instance does.
#[derive(Clone, Copy, Debug)]
enum Lie {
    AlwaysFails,
    AlwaysSucceeds,
    Flaps,
    /// Reports its failures over and over.
    Replays,
    /// Asks and never reports.
    Silent,
    /// Does any of these.
    Anything,
}

const LIES: [Lie; 6] = [
    Lie::AlwaysFails,
    Lie::AlwaysSucceeds,
    Lie::Flaps,
    Lie::Replays,
    Lie::Silent,
    Lie::Anything,
];

fn lies(fleet: &mut Fleet, lie: Lie, draws: &mut Draws, used: &mut Vec<Permit>) {
    let lie = match lie {
        Lie::Anything => LIES[draws.below(5) as usize],
        other => other,
    };
    let granted = fleet.first();
    let Ok(grant) = granted else {
        return;
    };
    let failed = match lie {
        Lie::AlwaysFails | Lie::Replays => true,
        Lie::AlwaysSucceeds | Lie::Silent | Lie::Anything => false,
        Lie::Flaps => draws.below(2) == 0,
    };
    match lie {
        Lie::Silent => return,
        Lie::Replays => used.iter().for_each(|permit| {
            assert_ne!(fleet.report(*permit, TIMEOUT), Reported::Ok);
        }),
        Lie::AlwaysFails | Lie::AlwaysSucceeds | Lie::Flaps | Lie::Anything => {}
    }
    let outcome = if failed { FAIL } else { OK };
    fleet.report(grant.permit, outcome);
    used.push(grant.permit);
    if used.len() > 8 {
        used.remove(0);
    }
}

/// Whether a fleet's breaker opens in which `liars` lie, and call much more often, and the
/// others succeed.
fn opens(policy: Policy, liars: u64, seed: u64) -> bool {
    let mut draws = Draws(seed);
    let lie = LIES[(seed % 6) as usize];
    let mut fleet = Fleet::new(policy);
    let mut used = vec![Vec::new(); liars as usize];
    let eager = 1 + draws.below(20);
    for honest in liars..INSTANCES {
        fleet.now = fleet.now + Nanos(draws.below(20_000_000));
        fleet.by(honest).call(OK);
    }
    for _ in 0..400 {
        fleet.now = fleet.now + Nanos(draws.below(20_000_000));
        let honest = liars + draws.below(INSTANCES - liars);
        if let Ok(grant) = fleet.by(honest).first() {
            fleet.report(grant.permit, OK);
        }
        for _ in 0..draws.below(eager + 1) {
            let liar = draws.below(liars);
            fleet.by(liar);
            lies(&mut fleet, lie, &mut draws, &mut used[liar as usize]);
        }
        if fleet.state() != State::Closed {
            println!("seed {seed}: {lie:?} of {liars}");
            return true;
        }
    }
    false
}

#[test]
fn fewer_liars_than_the_quorum_of_100_never_open_the_breaker() {
    println!("seeds 0 to 999");
    for seed in 0..1000 {
        let liars = 1 + seed % 5;
        let mut policy = policies()[(seed / 6 % 3) as usize].clone();
        policy.breaker.min_reporters = liars as u32 + 1;
        policy.breaker.permit_ttl = secs(2.0);
        assert!(!opens(policy, liars, seed), "seed {seed}");
    }
}

#[test]
fn the_same_liars_open_it_where_the_rules_are_off() {
    let opened = (0..60).filter(|seed| {
        let mut policy = policies()[(seed / 6 % 3) as usize].clone();
        policy.breaker.min_reporters = 1;
        policy.breaker.max_reporter_share = Share::ONE;
        opens(policy, 1 + seed % 5, *seed)
    });
    let opened = opened.count();
    assert!(opened >= 20, "{opened} of 60");
}

#[test]
fn a_true_outage_opens_it_with_the_threshold_and_what_is_in_flight() {
    for seed in 0..100 {
        for (policy, threshold) in [(adaptive(), 5), (windowed(WindowSize::Calls(100)), 6)] {
            let mut draws = Draws(seed);
            let mut fleet = Fleet::new(policy);
            // Healthy for a while.
            for call in 0..500 {
                fleet.now = fleet.now + Nanos(1_000_000);
                fleet.by(call % INSTANCES).call(OK);
            }
            // Each instance has one call in flight, always.
            let mut flying: Vec<(u64, Permit)> = (0..INSTANCES)
                .map(|name| (name, fleet.by(name).first().unwrap().permit))
                .collect();
            let (mut failed, mut at_trip) = (0, 0);
            while !flying.is_empty() {
                fleet.now = fleet.now + Nanos(draws.below(2_000_000));
                let (name, permit) = flying.swap_remove(draws.below(flying.len() as u64) as usize);
                fleet.by(name).report(permit, FAIL);
                failed += 1;
                if at_trip == 0 && fleet.state() == State::Open {
                    at_trip = failed;
                }
                if let Ok(next) = fleet.first() {
                    flying.push((name, next.permit));
                }
            }
            assert_eq!(fleet.state(), State::Open, "seed {seed}");
            assert_eq!(at_trip, threshold, "seed {seed}");
            let most = threshold + INSTANCES;
            assert!(
                failed <= most,
                "seed {seed}: {failed} calls failed, at most {most}"
            );
        }
    }
}

#[test]
fn one_client_alone_still_trips_its_breaker() {
    for policy in policies() {
        let mut fleet = Fleet::new(policy);
        fleet.calls(20, OK);
        for call in 0..20 {
            fleet.now = fleet.now + Nanos::from_millis(100);
            if fleet.first().is_err() {
                break;
            }
            let permit = fleet.first().unwrap().permit;
            fleet.report(permit, FAIL);
            assert!(call < 19, "20 failures did not trip it");
        }
        assert_eq!(fleet.state(), State::Open);
        assert_eq!(fleet.view().caller_faults, 0);
    }
}

#[test]
fn the_figures_of_the_detector_are_unchanged_for_one_instance() {
    let mut fleet = Fleet::new(adaptive());
    fleet.calls(4, FAIL);
    assert_eq!(fleet.state(), State::Closed);
    fleet.call(FAIL);
    assert_eq!(fleet.state(), State::Open);
    let mut total = 0;
    for seed in 0..1000 {
        let (mut fleet, mut draws) = (Fleet::new(adaptive()), Draws(seed));
        while let Ok(grant) = fleet.first() {
            let failed = draws.below(2) == 0;
            fleet.report(grant.permit, if failed { FAIL } else { OK });
            total += 1;
        }
    }
    assert!(total <= 11_600, "{total} samples in 1000 outages at 50 %");
}

#[test]
fn two_of_two_that_fail_trip_it() {
    for policy in policies() {
        for pace_ms in [1, 300] {
            let mut fleet = Fleet::new(policy.clone());
            (0..20).for_each(|call| {
                fleet.by(call % 2).call(OK);
            });
            let tripped = (0..20).position(|call| {
                fleet.now = fleet.now + Nanos::from_millis(pace_ms);
                let permit = fleet.by(call % 2).first().map(|grant| grant.permit);
                permit.is_ok_and(|permit| {
                    fleet.report(permit, FAIL);
                    fleet.state() == State::Open
                })
            });
            let calls = tripped.map_or(0, |call| call + 1);
            assert!((5..=6).contains(&calls), "{calls} calls at {pace_ms} ms");
        }
    }
}

#[test]
fn one_bad_node_of_100_is_refused_alone_and_recovers_when_it_succeeds() {
    for policy in policies() {
        let mut fleet = Fleet::new(policy);
        let lease = fleet.policy.breaker.probe_lease;
        let bad = 7;
        let mut refused = None;
        for call in 0..2_000 {
            fleet.now = fleet.now + Nanos(1_000_000);
            fleet.by(10 + call % 90).call(OK);
            let asked = fleet.by(bad).first();
            match asked {
                Ok(grant) => drop(fleet.report(grant.permit, FAIL)),
                Err(_) => refused = Some(asked),
            }
            assert_eq!(fleet.state(), State::Closed);
        }
        let refused = refused.expect("the bad one is refused");
        assert_eq!(reason(&refused), DenialReason::CallerFault);
        assert!(retry_after(&refused).unwrap() <= fleet.policy.breaker.open_for);
        assert_eq!(fleet.view().caller_faults, 1);
        let epoch = fleet.epoch();
        // Refused for open_for, then one try for each lease; the others pass all the time.
        let end = fleet.now + retry_after(&refused).unwrap();
        fleet.now = end;
        let first = fleet.by(bad).first().unwrap();
        assert!(!first.probe, "it is no probe of the fleet");
        assert_eq!(reason(&fleet.first()), DenialReason::CallerFault);
        fleet.report(first.permit, FAIL);
        assert_eq!(reason(&fleet.first()), DenialReason::CallerFault);
        fleet.by(11).call(OK);
        fleet.now = end + lease;
        let second = fleet.by(bad).first().unwrap();
        fleet.report(second.permit, OK);
        fleet.calls(50, OK);
        assert_eq!((fleet.view().caller_faults, fleet.epoch()), (0, epoch));
        let news: Vec<News> = (fleet.record.take_changes().into_iter())
            .filter_map(|change| match change {
                Change::Caller(news) => Some(news),
                Change::Transition { .. } | Change::Held(_) => None,
            })
            .collect();
        let refused_for = fleet.policy.breaker.open_for;
        let expected = [
            News::Refused {
                caller: bad,
                refused_for,
            },
            News::Recovered { caller: bad },
        ];
        assert_eq!(news, expected);
    }
}

#[test]
fn churn_of_instances_neither_holds_a_trip_back_nor_grows_memory() {
    for policy in policies() {
        let mut fleet = Fleet::new(policy.clone());
        (0..1000).for_each(|name| {
            fleet.by(name).call(OK);
        });
        let tripped = (1000..1200).position(|name| match fleet.by(name).first() {
            Ok(grant) => {
                fleet.report(grant.permit, FAIL);
                false
            }
            Err(_) => true,
        });
        assert!(tripped.is_some_and(|calls| calls <= 6), "{tripped:?}");
        // As many names as there are calls, some of which fail.
        let mut fleet = Fleet::new(policy);
        for name in 0..20_000 {
            fleet.now = fleet.now + Nanos(1_000_000);
            fleet.by(name).call(if name % 20 == 0 { FAIL } else { OK });
            assert!(fleet.record.breaker.reporters_tracked() <= REPORTERS_MAX);
        }
        assert_eq!(fleet.state(), State::Closed);
        fleet.now = fleet.now + secs(70.0);
        fleet.call(OK);
        assert_eq!(fleet.record.breaker.reporters_tracked(), 0);
    }
}

#[test]
fn nothing_is_kept_of_instances_before_the_first_failure_and_after_a_transition() {
    let mut fleet = Fleet::new(adaptive());
    (0..1000).for_each(|name| {
        fleet.by(name).call(OK);
    });
    assert!(!fleet.record.breaker.tracks_reporters());
    fleet.call(FAIL);
    assert!(fleet.record.breaker.tracks_reporters());
    (0..5).for_each(|name| {
        if let Ok(grant) = fleet.by(name).first() {
            fleet.report(grant.permit, FAIL);
        }
    });
    assert_eq!(fleet.state(), State::Open);
    assert!(!fleet.record.breaker.tracks_reporters());
}

#[test]
fn an_empty_instance_name_is_one_anonymous_instance() {
    let mut fleet = Fleet::new(adaptive());
    fleet.by(9).call(OK);
    fleet.by(0);
    for _ in 0..20 {
        if let Ok(grant) = fleet.first() {
            fleet.report(grant.permit, FAIL);
        }
    }
    assert_eq!(fleet.state(), State::Closed);
    assert_eq!(fleet.view().caller_faults, 1);
}

#[test]
fn a_retry_carries_its_instance_and_so_does_a_tally() {
    let mut fleet = Fleet::new(adaptive());
    fleet.by(9).call(OK);
    fleet.by(1);
    let mut permit = fleet.first().unwrap().permit;
    for attempt in 2..=3 {
        permit = fleet.retry(attempt, permit, FAIL).verdict.unwrap().permit;
    }
    fleet.report(permit, FAIL);
    let epoch = fleet.epoch();
    let tally = Tally {
        epoch,
        first_attempts: 2,
        failures: 2,
        ..Tally::default()
    };
    assert_eq!(fleet.tally(tally), Reported::Ok);
    assert_eq!(fleet.state(), State::Closed);
    assert_eq!(reason(&fleet.first()), DenialReason::CallerFault);
}

#[test]
fn a_fault_binds_what_the_breaker_binds_and_nothing_in_shadow_or_under_an_order() {
    for (mode, applies_to) in [
        (Mode::Shadow, AppliesTo::All),
        (Mode::Off, AppliesTo::All),
        (Mode::Enforce, AppliesTo::Retries),
    ] {
        let mut policy = adaptive();
        (policy.breaker.mode, policy.breaker.applies_to) = (mode, applies_to);
        let mut fleet = Fleet::new(policy);
        fleet.by(9).call(OK);
        fleet.by(1).calls(20, FAIL);
        let refusal = fleet.hedge(1);
        assert_eq!(refusal.is_err(), mode == Mode::Enforce);
        assert_eq!(fleet.state(), State::Closed);
    }
}

#[test]
fn a_refused_instance_is_pushed_a_refusal_then_asks_and_the_others_go() {
    let mut fleet = Fleet::new(adaptive());
    fleet.by(9).call(OK);
    fleet.by(1).calls(5, FAIL);
    let told = |fleet: &Fleet, caller| {
        let pushed = standing_of(&fleet.policy, &fleet.record, caller, &fleet.context());
        pushed.first_attempts
    };
    assert_eq!(told(&fleet, 1), FirstAttempts::Refuse);
    assert_eq!(told(&fleet, 9), FirstAttempts::Go);
    fleet.now = fleet.now + fleet.policy.breaker.open_for;
    assert_eq!(told(&fleet, 1), FirstAttempts::Ask);
    fleet.call(OK);
    assert_eq!(told(&fleet, 1), FirstAttempts::Go);
}

#[test]
fn rejected_and_throttled_calls_of_one_instance_are_no_evidence_of_it() {
    let mut fleet = Fleet::new(adaptive());
    fleet.by(9).call(OK);
    fleet.by(1);
    fleet.calls(20, Outcome::of(OutcomeKind::Rejected));
    fleet.calls(20, Outcome::of(OutcomeKind::Throttled));
    assert!(fleet.first().is_ok());
    assert!(!fleet.record.breaker.tracks_reporters());
}

#[test]
fn a_share_of_one_and_one_reporter_switch_the_rules_off() {
    let mut policy = adaptive();
    policy.breaker.min_reporters = 1;
    policy.breaker.max_reporter_share = Share::ONE;
    let mut fleet = Fleet::new(policy);
    fleet.by(9).call(OK);
    fleet.by(1).calls(5, FAIL);
    assert_eq!(fleet.state(), State::Open);
}

#[test]
fn no_policy_no_clock_and_no_count_is_an_edge() {
    for seed in 0..3_000 {
        let mut draws = Draws(seed);
        let mut odd = |usual: u64| match draws.below(4) {
            0 => 0,
            1 => u64::MAX,
            _ => usual,
        };
        let mut policy = policies()[(seed % 3) as usize].clone();
        policy.breaker.min_reporters = odd(2) as u32;
        policy.breaker.max_reporter_share = Share(odd(500_000) as u32);
        policy.breaker.open_for = Nanos(odd(10_000_000_000));
        policy.breaker.probe_lease = Nanos(odd(5_000_000_000));
        policy.breaker.slow_after = Nanos(odd(0));
        if let Detect::Window(window) = &mut policy.breaker.detect {
            window.min_calls = odd(20) as u32;
            window.failure_ratio = Share(odd(500_000) as u32);
            window.consecutive_failures = odd(6) as u32;
            window.size = match window.size {
                WindowSize::Time(span) => WindowSize::Time(Nanos(odd(span.0))),
                WindowSize::Calls(calls) => WindowSize::Calls(odd(u64::from(calls)) as u32),
            };
        }
        let counts = [odd(3) as u32, odd(2) as u32, odd(1) as u32];
        let mut fleet = Fleet::new(policy);
        for step in 0..60 {
            fleet.now = match draws.below(30) {
                0 => Time::MAX,
                1 => Time::ORIGIN,
                _ => Time(step * 400_000_000),
            };
            fleet.by(draws.below(70));
            let outcome = if draws.below(3) == 0 { OK } else { FAIL };
            if let Ok(grant) = fleet.first() {
                fleet.report(grant.permit, outcome);
            }
            let epoch = fleet.epoch();
            let tally = Tally {
                epoch,
                successes: counts[draws.below(3) as usize],
                failures: counts[draws.below(3) as usize],
                slow: counts[draws.below(3) as usize],
                ..Tally::default()
            };
            if draws.below(4) == 0 {
                fleet.tally(tally);
            }
            let suspicion = fleet.view().suspicion;
            assert!((0.0..=1.0).contains(&suspicion), "seed {seed}: {suspicion}");
        }
    }
}
