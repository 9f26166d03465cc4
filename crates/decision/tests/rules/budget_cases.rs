//! Budgets through whole decisions: who is charged, when, and what comes back.

use holdoff_decision::{
    Ask, DenialReason as R, Nanos, Outcome, OutcomeKind, Permit, Policy, Question, Share, State,
    Tally,
    policy::{Detect, MaxAttempts, Window, WindowSize},
};

use crate::fleet::{FAIL, Fleet, OK, after, an_ask, plain, reason, secs};

/// Nothing trips, nothing waits.
fn budgeted(ratio: f64, floor_per_second: f64) -> Policy {
    let mut policy = plain();
    policy.breaker.detect = Detect::Window(Window {
        size: WindowSize::Calls(10),
        min_calls: u32::MAX,
        ..Window::default()
    });
    policy.budget.ratio = Share::from_ratio(ratio).unwrap();
    policy.budget.floor_micros_per_second = (floor_per_second * 1e6) as u64;
    policy
}

fn permits(fleet: &mut Fleet, count: u32) -> Vec<Permit> {
    (0..count).map(|_| fleet.first().unwrap().permit).collect()
}

/// Retries granted of those that fail now.
fn retried(fleet: &mut Fleet, permits: &[Permit]) -> Vec<Permit> {
    let verdicts = permits
        .iter()
        .map(|permit| fleet.retry(2, *permit, FAIL).verdict);
    let mut granted = Vec::new();
    for verdict in verdicts {
        match verdict {
            Ok(grant) => granted.push(grant.permit),
            Err(denial) => {
                assert_eq!(
                    (denial.reason, denial.retry_after),
                    (R::BudgetExhausted, None)
                );
            }
        }
    }
    granted
}

#[test]
fn b09a_the_very_first_call_that_fails_is_retried() {
    let mut fleet = Fleet::new(budgeted(0.2, 1.0));
    let first = permits(&mut fleet, 1);
    assert_eq!(retried(&mut fleet, &first).len(), 1);
}

#[test]
fn b09b_five_failing_calls_in_a_row_pay_for_one_retry() {
    let mut fleet = Fleet::new(budgeted(0.2, 0.0));
    let granted: Vec<usize> = (0..5)
        .map(|call| {
            let first = permits(fleet.at(f64::from(call)), 1);
            retried(&mut fleet, &first).len()
        })
        .collect();
    assert_eq!(granted, [0, 0, 0, 0, 1]);
}

#[test]
fn b09c_a_ratio_of_one_retries_a_single_call_with_nothing_in_flight() {
    let mut fleet = Fleet::new(budgeted(1.0, 0.0));
    let first = permits(&mut fleet, 1);
    assert_eq!(retried(&mut fleet, &first).len(), 1);
}

#[test]
fn b09d_the_floor_is_that_of_the_dependency_not_of_each_client() {
    let mut fleet = Fleet::new(budgeted(0.2, 1.0));
    let mut granted = 0;
    for client in 0..500 {
        let first = fleet.first().unwrap().permit;
        let question = Question::Retry {
            attempt: 2,
            previous: after(first, FAIL),
        };
        let ask = Ask {
            caller: client,
            service: client,
            ..an_ask(question)
        };
        granted += u32::from(fleet.ask(ask).verdict.is_ok());
    }
    assert_eq!(granted, 110);
}

#[test]
fn b10a_two_hundred_of_a_thousand_at_once_and_twenty_of_a_hundred_later() {
    let mut fleet = Fleet::new(budgeted(0.2, 0.0));
    let all = permits(&mut fleet, 1000);
    assert_eq!(retried(fleet.at(0.01), &all).len(), 200);
    let more = permits(fleet.at(5.0), 100);
    assert_eq!(retried(&mut fleet, &more).len(), 20);
}

#[test]
fn b10b_a_retry_deposits_nothing() {
    let mut fleet = Fleet::new(budgeted(0.2, 0.0));
    let all = permits(&mut fleet, 1000);
    let granted = retried(fleet.at(0.01), &all);
    let third: Vec<_> = granted
        .iter()
        .map(|permit| fleet.retry(3, *permit, FAIL).verdict)
        .collect();
    assert!(
        third
            .iter()
            .all(|verdict| reason(verdict) == R::BudgetExhausted)
    );
}

#[test]
fn b10c_a_retry_that_is_never_made_is_not_refunded_and_leaves_with_the_window() {
    let mut fleet = Fleet::new(budgeted(0.0, 1.0));
    let all = permits(&mut fleet, 40);
    assert_eq!(retried(&mut fleet, &all[..20]).len(), 10);
    assert_eq!(retried(fleet.at(9.99), &all[20..21]).len(), 0);
    assert_eq!(retried(fleet.at(11.0), &all[21..]).len(), 10);
}

#[test]
fn b12d_a_call_that_used_up_its_attempts_takes_nothing_from_the_next() {
    let mut fleet = Fleet::new(budgeted(0.2, 1.0));
    let mut permit = fleet.first().unwrap().permit;
    for attempt in 2..=3 {
        permit = fleet.retry(attempt, permit, FAIL).verdict.unwrap().permit;
    }
    assert_eq!(
        reason(&fleet.retry(4, permit, FAIL).verdict),
        R::AttemptsExhausted
    );
    let other = permits(&mut fleet, 1);
    assert_eq!(retried(&mut fleet, &other).len(), 1);
}

#[test]
fn b13a_a_hedge_is_one_withdrawal_and_the_call_one_deposit_and_one_success() {
    let mut fleet = Fleet::new(budgeted(1.0, 0.0));
    let original = fleet.first().unwrap().permit;
    let hedge = fleet.at(0.05).hedge(1).unwrap();
    assert!(hedge.delay.is_zero());
    fleet.at(0.08).report(original, OK);
    fleet.report(hedge.permit, Outcome::of(OutcomeKind::Cancelled));
    let view = fleet.view();
    assert_eq!((view.counts.calls, view.counts.failures), (1, 0));
    assert_eq!((view.budget.first_attempts, view.budget.retries), (1, 1));
}

#[test]
fn b13b_when_both_fail_two_attempts_failed_and_the_call_gets_one_answer() {
    let mut fleet = Fleet::new(budgeted(1.0, 10.0));
    let call = |question| Ask {
        call: Some(42),
        ..an_ask(question)
    };
    let original = fleet.ask(call(Question::First)).verdict.unwrap().permit;
    let hedge = fleet
        .ask(call(Question::Hedge { attempt: 1 }))
        .verdict
        .unwrap()
        .permit;
    assert_eq!(fleet.view().budget.retries, 1);
    let after_one = call(Question::Retry {
        attempt: 2,
        previous: after(original, FAIL),
    });
    let after_other = call(Question::Retry {
        attempt: 2,
        previous: after(hedge, FAIL),
    });
    let one = fleet.at(0.06).ask(after_one).verdict.unwrap();
    let answer = fleet.at(0.09).ask(after_other);
    assert_eq!(answer.verdict.unwrap().permit, one.permit);
    assert_eq!(answer.previous, Some(holdoff_decision::Reported::Ok));
    let view = fleet.view();
    assert_eq!(view.counts.failures, 2);
    assert_eq!((view.budget.first_attempts, view.budget.retries), (1, 2));
}

#[test]
fn b13c_a_hedge_without_a_token_is_refused_and_the_call_ends_once() {
    let mut fleet = Fleet::new(budgeted(0.0, 0.0));
    let original = fleet.first().unwrap().permit;
    let denied = fleet.at(0.05).hedge(1);
    assert_eq!(reason(&denied), R::BudgetExhausted);
    let end = fleet.at(0.2).retry(2, original, FAIL);
    assert_eq!(reason(&end.verdict), R::BudgetExhausted);
    assert_eq!(fleet.view().counts.failures, 1);
}

#[test]
fn b13d_a_hedge_that_is_told_not_to_retry_ends_that_and_leaves_the_original() {
    let mut fleet = Fleet::new(budgeted(1.0, 10.0));
    let original = fleet.first().unwrap().permit;
    let hedge = fleet.hedge(1).unwrap().permit;
    let told = Outcome {
        do_not_retry: true,
        ..FAIL
    };
    assert_eq!(reason(&fleet.retry(2, hedge, told).verdict), R::Pushback);
    assert_eq!(fleet.report(original, OK), holdoff_decision::Reported::Ok);
}

#[test]
fn a_hedge_of_an_attempt_beyond_the_last_is_refused() {
    let mut fleet = Fleet::new(budgeted(1.0, 100.0));
    assert!(fleet.hedge(3).is_ok());
    for attempt in [4, u32::MAX] {
        assert_eq!(reason(&fleet.hedge(attempt)), R::HedgeRefused);
    }
    fleet.policy.retry.max_attempts = MaxAttempts::Unlimited;
    assert!(fleet.hedge(u32::MAX).is_ok());
}

#[test]
fn b14a_what_a_layer_below_retried_is_not_retried_above() {
    let mut fleet = Fleet::new(budgeted(1.0, 100.0));
    let call = fleet.first().unwrap().permit;
    let answer = fleet.retry(
        2,
        call,
        Outcome {
            retried_below: true,
            ..FAIL
        },
    );
    assert_eq!(reason(&answer.verdict), R::RetriedBelow);
    assert_eq!(answer.verdict.unwrap_err().retry_after, None);
    assert_eq!(fleet.view().budget.retries, 0);
}

#[test]
fn b14b_a_thousand_failing_calls_are_at_most_twelve_hundred_attempts() {
    for max in [2, 3, 1000] {
        let mut fleet = Fleet::new(budgeted(0.2, 0.0));
        fleet.policy.retry.max_attempts = MaxAttempts::Limited(max);
        let mut attempts = 0;
        for call in 0..1000 {
            let mut permit = fleet.at(f64::from(call) * 0.009).first().unwrap().permit;
            attempts += 1;
            let mut attempt = 2;
            while let Ok(grant) = fleet.retry(attempt, permit, FAIL).verdict {
                permit = grant.permit;
                attempt += 1;
                attempts += 1;
            }
        }
        assert!(attempts <= 1200, "{attempts}");
        assert_eq!(attempts, 1200, "and not fewer");
    }
}

#[test]
fn b14c_the_breaker_counts_attempts_not_calls() {
    let mut fleet = Fleet::new(plain());
    fleet.policy.breaker.detect = Detect::Window(Window {
        consecutive_failures: 5,
        min_calls: 1000,
        ..Window::default()
    });
    let mut failures = 0;
    for _ in 0..2 {
        let mut permit = fleet.first().unwrap().permit;
        for attempt in 2..=4 {
            failures += 1;
            let answer = fleet.retry(attempt, permit, FAIL);
            assert_eq!(answer.state == State::Open, failures >= 5);
            match answer.verdict {
                Ok(grant) => permit = grant.permit,
                Err(denial) if failures < 5 => assert_eq!(denial.reason, R::AttemptsExhausted),
                Err(_) => return,
            }
        }
    }
    panic!("six failures did not open it");
}

#[test]
fn a_refused_retry_spends_no_token_whatever_refused_it() {
    let mut fleet = Fleet::new(budgeted(0.0, 1.0));
    let all = permits(&mut fleet, 8);
    let told = |change: fn(&mut Outcome)| {
        let mut outcome = FAIL;
        change(&mut outcome);
        outcome
    };
    for (permit, outcome) in all.iter().zip([
        told(|outcome| outcome.do_not_retry = true),
        told(|outcome| outcome.kind = OutcomeKind::Rejected),
        told(|outcome| outcome.kind = OutcomeKind::Ignored),
        told(|outcome| outcome.kind = OutcomeKind::Cancelled),
        told(|outcome| outcome.retried_below = true),
        told(|outcome| outcome.pushback = Some(secs(61.0))),
    ]) {
        assert!(fleet.retry(2, *permit, outcome).verdict.is_err());
    }
    let question = Question::Retry {
        attempt: 2,
        previous: after(all[6], FAIL),
    };
    let late = Ask {
        time_left: Some(Nanos::ZERO),
        ..an_ask(question)
    };
    assert_eq!(reason(&fleet.ask(late).verdict), R::Deadline);
    assert_eq!(fleet.view().budget.retries, 0);
}

#[test]
fn a_clock_that_goes_backwards_gives_no_token_twice() {
    let mut fleet = Fleet::new(budgeted(0.0, 1.0));
    let all = permits(fleet.at(100.0), 40);
    assert_eq!(retried(&mut fleet, &all[..20]).len(), 10);
    assert_eq!(retried(fleet.at(0.0), &all[20..25]).len(), 0);
    assert_eq!(retried(fleet.at(100.5), &all[25..30]).len(), 0);
    assert_eq!(retried(fleet.at(111.0), &all[30..]).len(), 10);
}

#[test]
fn a_stale_tally_deposits_and_does_nothing_else() {
    let mut fleet = Fleet::new(budgeted(0.2, 0.0));
    let stale = Tally {
        epoch: 99,
        first_attempts: 10,
        failures: 1000,
        ..Tally::default()
    };
    assert_eq!(fleet.tally(stale), holdoff_decision::Reported::StaleEpoch);
    let view = fleet.view();
    assert_eq!((view.budget.allowed, view.counts.calls), (2, 0));
}

#[test]
fn a_longer_window_is_not_full_of_floor_when_it_is_loaded() {
    let mut fleet = Fleet::new(budgeted(0.0, 1.0));
    let mut granted = 0;
    for second in 0..100 {
        let call = permits(fleet.at(f64::from(second)), 1);
        granted += retried(&mut fleet, &call).len();
    }
    assert!(granted >= 90);
    fleet.policy.budget.ttl = secs(100.0);
    let all = permits(fleet.at(100.0), 100);
    assert!(granted + retried(&mut fleet, &all).len() <= 101);
}
