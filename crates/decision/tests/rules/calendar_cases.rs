//! The calendar within the order of the rules: who takes a place, when it comes back, and
//! what a fleet that fails at one instant gets.

use holdoff_decision::{
    Ask, DenialReason as R, Grant, MadeUnder, Nanos, Outcome, OutcomeKind, Permit, PermitKind,
    Policy, Previous, Priority, Question, Sample, Tally, Time,
    permit::Facts,
    policy::{Jitter, PushbackScope, RetryRate},
};

use crate::fleet::{FAIL, Fleet, IGNORED, OK, after, an_ask, at, plain, reason, retry_after, secs};

fn planned(per_second: f64) -> Policy {
    let mut policy = plain();
    policy.calendar.retry_rate = RetryRate::PerSecond(per_second);
    policy.calendar.horizon = secs(70.0);
    policy
}

fn draw(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A retry of a call that was made on pushed state.
fn a_retry(caller: u64) -> Ask {
    let previous = Previous {
        made_under: MadeUnder::Epoch(0),
        outcome: FAIL,
    };
    Ask {
        caller,
        ..an_ask(Question::Retry {
            attempt: 2,
            previous,
        })
    }
}

fn retried(fleet: &mut Fleet) -> Grant {
    fleet.ask(a_retry(1)).verdict.unwrap()
}

fn fullest(times: &mut [Time], within: Nanos) -> usize {
    times.sort_unstable();
    (0..times.len())
        .map(|first| {
            let inside = |other: &&Time| other.since(times[first]) < within;
            times[first..].iter().take_while(inside).count()
        })
        .max()
        .unwrap_or(0)
}

#[test]
fn b27_ten_thousand_that_fail_at_one_instant_are_spread_over_their_places() {
    for priority in [Priority::High, Priority::Normal] {
        let mut policy = planned(200.0);
        policy.retry.jitter = Jitter::Full;
        policy.retry.initial_delay = Nanos::from_millis(100);
        let max_delay = policy.retry.max_delay;
        let mut fleet = Fleet::new(policy);
        fleet.at(100.0);
        let (mut seed, mut places, mut drawn) = (1, Vec::new(), Vec::new());
        for caller in 0..10_000 {
            fleet.sample = Sample {
                jitter: draw(&mut seed),
                spread: draw(&mut seed),
            };
            let backoff = Nanos::from_millis(100).scaled(fleet.sample.jitter);
            let ask = Ask {
                priority,
                ..a_retry(caller)
            };
            let grant = fleet.ask(ask).verdict.unwrap();
            assert!(grant.delay >= backoff, "never before its backoff");
            assert_eq!(grant.permit.kind, PermitKind::Planned);
            places.push(fleet.now + grant.delay);
            drawn.push(fleet.now + backoff);
        }
        let last = places.iter().max().unwrap().since(fleet.now);
        let calendar = fullest(&mut places, Nanos::from_millis(100));
        let jitter = fullest(&mut drawn, Nanos::from_millis(100));
        println!(
            "10,000 retries at one instant, 200/s, {priority:?}: fullest 100 ms {calendar} (full \
             jitter alone {jitter}), the last after {last}"
        );
        assert!(last <= secs(10_000.0 / 200.0).saturating_add(max_delay));
        // Any 100 ms, also those that begin within a slot: ten slots, and a part of one more.
        assert!(calendar <= 20 + 2, "{calendar}");
        let mut aligned = std::collections::BTreeMap::new();
        for place in &places {
            *aligned.entry(place.0 / 100_000_000).or_insert(0) += 1;
        }
        assert!(aligned.values().all(|places| *places <= 21));
    }
}

#[test]
fn b27_a_hold_releases_its_callers_spread_over_the_places_after_it() {
    let mut policy = planned(200.0);
    policy.pushback.scope = PushbackScope::Dependency;
    let mut fleet = Fleet::new(policy);
    fleet.at(10.0);
    let throttled = fleet.first().unwrap().permit;
    let told = Outcome {
        pushback: Some(secs(20.0)),
        ..Outcome::of(OutcomeKind::Throttled)
    };
    fleet.report(throttled, told);
    let mut seed = 7;
    let mut begins: Vec<Time> = (0..1_000)
        .map(|_| {
            fleet.sample.spread = draw(&mut seed);
            let grant = fleet.first().unwrap();
            assert_eq!(grant.permit.kind, PermitKind::Planned);
            fleet.now + grant.delay
        })
        .collect();
    assert!(begins.iter().all(|begin| *begin >= at(30.0)));
    assert!(fullest(&mut begins, Nanos::from_millis(100)) <= 22);
    assert!(begins.iter().all(|begin| *begin <= at(30.0 + 1.0 + 5.6)));
}

#[test]
fn first_attempts_and_hedges_and_probes_take_no_place() {
    let mut fleet = Fleet::new(planned(1.0));
    fleet.at(1.0);
    fleet.calls(20, OK);
    assert_eq!(fleet.hedge(1).unwrap().permit.kind, PermitKind::Hedge);
    assert_eq!(fleet.view().planned, 0);
    fleet.trip();
    fleet.at(12.0);
    let probe = fleet.ask(a_retry(1)).verdict.unwrap();
    assert!(probe.probe && probe.delay.is_zero());
    assert_eq!(fleet.view().planned, 0);
}

#[test]
fn without_a_calendar_a_retry_goes_when_its_backoff_ends() {
    let mut policy = planned(1.0);
    policy.calendar.retry_rate = RetryRate::Off;
    let mut fleet = Fleet::new(policy);
    for _ in 0..50 {
        assert!(retried(&mut fleet).delay.is_zero());
    }
}

#[test]
fn a_report_before_its_time_gives_the_place_back() {
    for outcome in [OK, FAIL, IGNORED, Outcome::of(OutcomeKind::Cancelled)] {
        let mut fleet = Fleet::new(planned(10.0));
        let grants: Vec<Grant> = (0..5).map(|_| retried(&mut fleet)).collect();
        assert_eq!(fleet.view().planned, 5);
        fleet.report(grants[2].permit, outcome);
        assert_eq!(fleet.view().planned, 4);
        fleet.report(grants[2].permit, outcome);
        assert_eq!(fleet.view().planned, 4, "a duplicate gives nothing back");
        assert_eq!(retried(&mut fleet).delay, grants[2].delay);
    }
}

#[test]
fn a_report_after_its_time_gives_nothing_back() {
    let mut fleet = Fleet::new(planned(10.0));
    let grant = retried(&mut fleet);
    let other = retried(&mut fleet);
    fleet.now = fleet.now + grant.delay;
    fleet.report(grant.permit, OK);
    assert_eq!(fleet.view().planned, 2);
    fleet.now = fleet.now + other.delay + secs(1.0);
    fleet.first().unwrap();
    assert!(fleet.record.calendar().is_none(), "freed when it is over");
}

#[test]
fn a_retry_of_a_planned_attempt_that_ended_early_takes_another_place() {
    let mut fleet = Fleet::new(planned(10.0));
    let grants: Vec<Grant> = (0..3).map(|_| retried(&mut fleet)).collect();
    let next = fleet.retry(3, grants[0].permit, FAIL).verdict.unwrap();
    assert_eq!(
        next.delay, grants[0].delay,
        "its own was the first free one"
    );
    assert_eq!(fleet.view().planned, 3);
}

#[test]
fn a_confirmation_keeps_its_place_and_a_denied_one_gives_it_back() {
    let mut fleet = Fleet::new(planned(0.5));
    let grant = retried(&mut fleet);
    assert!(grant.confirm);
    fleet.at(1.0);
    let same = fleet.confirm(grant.permit).unwrap();
    assert_eq!(same.permit, grant.permit);
    fleet.trip();
    assert_eq!(reason(&fleet.confirm(grant.permit)), R::BreakerOpen);
    assert_eq!(fleet.view().planned, 0);
    assert_eq!(reason(&fleet.confirm(grant.permit)), R::PermitVoid);
}

#[test]
fn a_confirmation_in_another_epoch_moves_the_place_to_the_new_permit() {
    let mut fleet = Fleet::new(planned(0.5));
    let grant = retried(&mut fleet);
    holdoff_decision::operate::reset(&mut fleet.record, fleet.now);
    let moved = fleet.confirm(grant.permit).unwrap();
    assert_ne!(moved.permit, grant.permit);
    assert_eq!(moved.permit.kind, PermitKind::Planned);
    assert_eq!(moved.delay, grant.delay);
    assert_eq!(fleet.view().planned, 1);
    fleet.report(moved.permit, IGNORED);
    assert_eq!(fleet.view().planned, 0);
}

#[test]
fn a_hold_moves_a_confirmed_attempt_to_a_place_behind_it() {
    let mut fleet = Fleet::new(planned(0.5));
    let grant = retried(&mut fleet);
    fleet.at(1.0);
    fleet.record.hold_until(at(30.0));
    let moved = fleet.confirm(grant.permit).unwrap();
    assert!(fleet.now + moved.delay >= at(30.0));
    assert_eq!(moved.permit.kind, PermitKind::Planned);
    assert_eq!(fleet.view().planned, 1);
}

#[test]
fn a_full_horizon_denies_with_a_time_and_the_numbers() {
    let mut policy = planned(10.0);
    policy.calendar.horizon = secs(1.0);
    let mut fleet = Fleet::new(policy);
    let mut granted = 0;
    let verdict = loop {
        match fleet.ask(a_retry(1)).verdict {
            Ok(_) => granted += 1,
            verdict => break verdict,
        }
    };
    assert_eq!(granted, 9, "NORMAL has nine of ten places");
    assert_eq!(reason(&verdict), R::CalendarFull);
    let denial = verdict.unwrap_err();
    assert!(matches!(denial.facts, Facts::Calendar(_)));
    assert_eq!(
        denial.to_string(),
        "calendar: no place within 1.0 s; 9 retries are planned"
    );
    let told: Vec<Nanos> = (0..5)
        .map(|_| retry_after(&fleet.ask(a_retry(1)).verdict).unwrap())
        .collect();
    assert!(told.is_sorted() && told[0] > Nanos::ZERO);
    let urgent = Ask {
        priority: Priority::High,
        ..a_retry(1)
    };
    assert!(fleet.ask(urgent).verdict.is_ok(), "the tenth is HIGH's");
}

#[test]
fn a_place_that_would_miss_the_deadline_is_told_now_and_takes_nothing() {
    let mut fleet = Fleet::new(planned(1.0));
    for _ in 0..5 {
        retried(&mut fleet);
    }
    let hasty = Ask {
        time_left: Some(secs(3.0)),
        ..a_retry(1)
    };
    let verdict = fleet.ask(hasty).verdict;
    assert_eq!(reason(&verdict), R::Deadline);
    assert_eq!(fleet.view().planned, 5);
}

#[test]
fn a_denied_budget_takes_no_place() {
    let mut policy = planned(10.0);
    policy.budget.floor_micros_per_second = 0;
    policy.budget.ratio = holdoff_decision::Share::ZERO;
    let mut fleet = Fleet::new(policy);
    let verdict = fleet.ask(a_retry(1)).verdict;
    assert_eq!(reason(&verdict), R::BudgetExhausted);
    assert_eq!(fleet.view().planned, 0);
}

#[test]
fn a_pushback_is_never_cut_short_by_the_calendar() {
    let mut fleet = Fleet::new(planned(10.0));
    let permit = fleet.first().unwrap().permit;
    let told = Outcome {
        pushback: Some(secs(45.0)),
        ..FAIL
    };
    let previous = after(permit, told);
    let question = Question::Retry {
        attempt: 2,
        previous,
    };
    let grant = fleet.ask(an_ask(question)).verdict.unwrap();
    assert!(grant.delay >= secs(45.0) && grant.delay < secs(45.3));
}

#[test]
fn unconfigured_the_calendar_plans_ten_a_second_or_what_succeeds() {
    let mut policy = planned(1.0);
    policy.calendar.retry_rate = RetryRate::Auto;
    let mut fleet = Fleet::new(policy);
    let spread_over = |fleet: &mut Fleet| {
        let fleet = &mut fleet.clone();
        let places: Vec<Nanos> = (0..90).map(|_| retried(fleet).delay).collect();
        places.into_iter().max().unwrap().as_secs_f64()
    };
    assert!((9.5..10.5).contains(&spread_over(&mut fleet)));
    for tenth in 0..600 {
        fleet.at(f64::from(tenth) / 10.0);
        let epoch = fleet.epoch();
        fleet.tally(Tally {
            epoch,
            successes: 20,
            ..Tally::default()
        });
    }
    assert!(
        (0.4..0.6).contains(&spread_over(&mut fleet)),
        "200 a second"
    );
    fleet.trip();
    fleet.at(600.0);
    let usual = fleet.view().throughput.unwrap();
    assert!(
        (190.0..210.0).contains(&usual),
        "frozen while open: {usual}"
    );
}

#[test]
fn a_rate_wait_behind_a_place_finds_a_later_place() {
    let mut policy = planned(10.0);
    policy.rate = Some(holdoff_decision::policy::Rate {
        per_second: 1.0,
        burst: 1,
        max_wait: secs(60.0),
        per_caller: false,
    });
    let mut fleet = Fleet::new(policy);
    let mut begins = Vec::new();
    for _ in 0..4 {
        let grant = retried(&mut fleet);
        let permit: Permit = grant.permit;
        let slot = |time: Time| time.0 / 10_000_000;
        assert_eq!(permit.kind, PermitKind::Planned);
        assert_eq!(
            slot(permit.issued + permit.delay),
            slot(fleet.now + grant.delay)
        );
        begins.push(grant.delay);
    }
    assert!(
        begins[3] >= secs(3.0) && begins[3] < secs(3.3),
        "{begins:?}"
    );
}
