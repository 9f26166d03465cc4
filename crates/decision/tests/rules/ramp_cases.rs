//! The climb after a recovery within the order of the rules.

use holdoff_decision::{
    DenialReason as R, MadeUnder, Nanos, Outcome, OutcomeKind, Permit, Policy, Previous, Question,
    Share, State, Tally,
    operate::{checkpoint, reset, restore},
    permit::Facts,
    policy::{AppliesTo, Mode},
    standing::{FirstAttempts, standing},
};

use crate::fleet::{FAIL, Fleet, OK, an_ask, at, plain, reason, retry_after, secs};

fn climbing() -> Policy {
    let mut policy = plain();
    policy.ramp.start = Share(500_000);
    policy
}

/// A dependency that did 100 a second, failed at 60 s and was closed again at 80 s.
fn recovered(policy: Policy) -> Fleet {
    let mut fleet = Fleet::new(policy);
    for tenth in 0..600 {
        fleet.at(f64::from(tenth) / 10.0);
        fleet.tally(Tally {
            epoch: 1,
            successes: 9,
            ..Tally::default()
        });
        let latency = Some(Nanos::from_millis(20));
        fleet.call(Outcome { latency, ..OK });
    }
    fleet.at(60.0);
    let permits: Vec<Permit> = (0..11).map(|_| fleet.first().unwrap().permit).collect();
    for permit in permits {
        fleet.report(permit, FAIL);
    }
    assert_eq!(fleet.record.inner_state(fleet.now), State::Open);
    fleet.at(80.0);
    fleet.call(OK);
    fleet
}

/// A first attempt per step for so many seconds, so that nobody waits.
fn go_on(fleet: &mut Fleet, seconds: f64) {
    let begin = fleet.now;
    for quarter in 0..(seconds * 4.0) as u32 {
        fleet.now = begin + secs(f64::from(quarter) / 4.0);
        fleet.call(OK);
    }
    fleet.now = begin + secs(seconds);
}

#[test]
fn a_close_begins_the_ramp_with_a_new_epoch_and_its_end_has_none() {
    let mut fleet = recovered(climbing());
    assert_eq!((fleet.state(), fleet.epoch()), (State::Recovering, 4));
    let pushed = standing(&fleet.policy, &fleet.record, &fleet.context());
    assert_eq!(pushed.first_attempts, FirstAttempts::Ask);
    fleet.transitions();
    go_on(&mut fleet, 3.0);
    assert_eq!((fleet.state(), fleet.epoch()), (State::Closed, 4));
    assert_eq!(
        fleet.transitions(),
        [(State::Recovering, State::Closed)],
        "those who follow are told"
    );
    assert!(fleet.record.ramp().is_none());
}

#[test]
fn without_earlier_throughput_or_with_a_whole_start_there_is_no_ramp() {
    let mut fleet = Fleet::new(climbing());
    fleet.trip();
    fleet.at(20.0);
    fleet.call(OK);
    assert_eq!(fleet.state(), State::Closed);
    let mut policy = climbing();
    policy.ramp.start = Share::ONE;
    assert_eq!(recovered(policy).state(), State::Closed);
}

#[test]
fn a_breaker_in_shadow_has_no_ramp() {
    let mut policy = climbing();
    policy.breaker.mode = Mode::Shadow;
    let fleet = recovered(policy);
    assert!(fleet.record.ramp().is_none());
}

#[test]
fn the_ramp_admits_then_delays_then_denies_with_a_time() {
    let mut fleet = recovered(climbing());
    let mut delays = Vec::new();
    let verdict = loop {
        match fleet.first() {
            Ok(grant) => delays.push(grant.delay.0 / 1_000_000),
            denied => break denied,
        }
    };
    assert_eq!(
        delays.len(),
        17,
        "a little less than 50 a second up to 250 ms, then twice as many up to 300"
    );
    assert!(delays[..3] == [0, 20, 40], "{delays:?}");
    assert_eq!(reason(&verdict), R::Recovering);
    let told = retry_after(&verdict).unwrap();
    assert!(told >= Nanos::from_millis(150), "{told}");
    assert_eq!(
        verdict.unwrap_err().to_string(),
        "recovering; 50 calls a second are admitted, 100 before the outage; 0 callers wait"
    );
    assert!(matches!(fleet.first().unwrap_err().facts, Facts::Curve(curve) if curve.waiting == 1));
}

#[test]
fn under_retries_the_ramp_binds_retries_only() {
    let mut policy = climbing();
    policy.breaker.applies_to = AppliesTo::Retries;
    let mut fleet = recovered(policy);
    assert_eq!(fleet.state(), State::Recovering);
    for _ in 0..100 {
        assert!(fleet.first().unwrap().delay.is_zero());
    }
    let pushed = standing(&fleet.policy, &fleet.record, &fleet.context());
    assert_eq!(pushed.first_attempts, FirstAttempts::Go);
    let retry = |fleet: &mut Fleet| {
        let previous = Previous {
            made_under: MadeUnder::Epoch(1),
            outcome: FAIL,
        };
        let question = Question::Retry {
            attempt: 2,
            previous,
        };
        fleet.ask(an_ask(question)).verdict
    };
    let granted = (0..100).filter(|_| retry(&mut fleet).is_ok()).count();
    assert_eq!(granted, 17);
}

#[test]
fn a_hedge_runs_at_once_or_not_at_all() {
    let mut fleet = recovered(climbing());
    assert!(fleet.hedge(1).unwrap().delay.is_zero());
    assert_eq!(reason(&fleet.hedge(1)), R::HedgeRefused);
    assert_eq!(fleet.view().curve.unwrap().waiting, 0);
}

#[test]
fn what_failed_before_the_close_has_no_backoff_and_what_failed_since_has() {
    let mut policy = climbing();
    policy.retry.initial_delay = secs(2.0);
    let mut fleet = recovered(policy);
    let mut delay = |epoch| {
        let previous = Previous {
            made_under: MadeUnder::Epoch(epoch),
            outcome: FAIL,
        };
        let question = Question::Retry {
            attempt: 2,
            previous,
        };
        fleet.ask(an_ask(question)).verdict.unwrap().delay
    };
    assert_eq!(delay(1), Nanos::ZERO);
    assert_eq!(delay(4), secs(2.0));
}

#[test]
fn a_trip_ends_the_ramp_and_opens_for_longer() {
    let mut policy = climbing();
    policy.breaker.open_multiplier = 2.0;
    let mut fleet = recovered(policy);
    for _ in 0..6 {
        fleet.now = fleet.now + secs(0.05);
        if let Ok(grant) = fleet.first() {
            fleet.report(grant.permit, FAIL);
        }
    }
    assert_eq!(fleet.state(), State::Open);
    assert!(fleet.record.ramp().is_none());
    assert!(fleet.view().open_for.unwrap() > secs(19.0));
}

#[test]
fn b27c_a_thousand_that_wait_come_back_over_the_ramp() {
    let mut fleet = recovered(climbing());
    let closed = fleet.now;
    let mut waiting: Vec<(holdoff_decision::Time, u32)> =
        (0..1_000).map(|client| (closed, client)).collect();
    let (mut begun, mut running) = (Vec::new(), Vec::new());
    while let Some(next) = waiting.iter().min().copied() {
        waiting.retain(|other| *other != next);
        fleet.now = next.0;
        fleet.sample.spread = f64::from(next.1 % 97) / 97.0;
        match fleet.first() {
            Ok(grant) => {
                begun.push((fleet.now + grant.delay).since(closed).as_secs_f64());
                running.push(grant.permit);
            }
            Err(denial) => waiting.push((fleet.now + denial.retry_after.unwrap(), next.1)),
        }
        running.retain(|permit| {
            let over = fleet.now >= permit.issued + permit.delay;
            if over {
                let latency = Some(Nanos::from_millis(20));
                fleet.report(*permit, Outcome { latency, ..OK });
            }
            !over
        });
    }
    let within = |seconds: f64| begun.iter().filter(|at| **at <= seconds).count();
    println!(
        "1,000 wait, 100 a second before: {} within 1 s, {} within 10 s",
        within(1.0),
        within(10.0)
    );
    assert!(within(1.0) <= 150, "{}", within(1.0));
    assert_eq!(within(10.0), 1_000);
}

#[test]
fn operators_and_restarts_end_the_ramp() {
    let mut fleet = recovered(climbing());
    let saved = checkpoint(&fleet.record, fleet.now);
    assert_eq!(
        restore(&saved, at(90.0)).state(&fleet.policy, at(90.0)),
        State::Closed
    );
    reset(&mut fleet.record, fleet.now);
    assert_eq!(fleet.state(), State::Closed);
    assert_eq!(fleet.view().curve, None);
}

#[test]
fn a_ramp_without_calls_is_seen_to_be_over_and_noted_with_the_next_call() {
    let mut fleet = recovered(climbing());
    fleet.transitions();
    fleet.at(80.0 + 1.249);
    assert_eq!(fleet.state(), State::Recovering);
    fleet.at(80.0 + 1.25);
    assert_eq!(fleet.state(), State::Closed);
    assert_eq!(fleet.view().state, State::Closed);
    assert_eq!(fleet.view().curve, None);
    let pushed = standing(&fleet.policy, &fleet.record, &fleet.context());
    assert_eq!(pushed.first_attempts, FirstAttempts::Go);
    assert!(fleet.transitions().is_empty(), "looking changes nothing");
    assert!(fleet.first().unwrap().delay.is_zero());
    assert_eq!(fleet.transitions(), [(State::Recovering, State::Closed)]);
}

#[test]
fn a_ramp_whose_callers_wait_is_not_seen_to_be_over_before_they_came() {
    let mut fleet = recovered(climbing());
    while fleet.first().is_ok() {}
    let waits = retry_after(&fleet.first()).unwrap();
    let told = fleet.now + waits;
    fleet.now = told;
    assert_eq!(fleet.state(), State::Recovering);
    fleet.now = told + secs(3.0);
    assert_eq!(fleet.state(), State::Closed);
}

#[test]
fn a_permit_from_before_the_outage_needs_a_place_on_the_curve() {
    let mut policy = climbing();
    policy.retry.initial_delay = secs(40.0);
    policy.retry.max_delay = secs(40.0);
    let mut fleet = recovered(policy);
    // As if promised before.
    let kept = fleet.first().unwrap().permit;
    let before = Permit { epoch: 1, ..kept };
    while fleet.first().is_ok() {}
    assert_eq!(reason(&fleet.confirm(before)), R::Recovering);
    assert_eq!(reason(&fleet.confirm(before)), R::PermitVoid);
    let rejected = Outcome::of(OutcomeKind::Rejected);
    assert_eq!(
        fleet.report(kept, rejected),
        holdoff_decision::Reported::Duplicate
    );
}
