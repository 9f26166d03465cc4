//! The order of a decision, its edges, and what each denial says.

use holdoff_decision::{
    Ask, DenialReason as R, MadeUnder, Nanos, Outcome, OutcomeKind, PermitKind, Previous, Question,
    Record, Share, Time,
    operate::set_override,
    policy::{Jitter, MaxAttempts, Mode, PushbackScope, Rate},
    record::{Override, OverrideKind},
};

use crate::fleet::{FAIL, Fleet, OK, after, an_ask, at, plain, reason, retry_after, secs};

fn waiting(seconds: f64) -> Fleet {
    let mut policy = plain();
    policy.retry.initial_delay = secs(seconds);
    Fleet::new(policy)
}

#[test]
fn b01c_a_retry_near_the_end_of_time_does_not_wrap_into_the_past() {
    let mut fleet = waiting(10.0);
    fleet.now = Time(u64::MAX - 1_000_000_000);
    fleet.record = Record::new(1, fleet.now);
    let first = fleet.first().unwrap().permit;
    let grant = fleet.retry(2, first, FAIL).verdict.unwrap();
    assert_eq!(grant.delay, secs(10.0));
    assert_eq!(fleet.now + grant.delay, Time::MAX);
    assert_eq!(grant.permit.expires, Time::MAX);
}

#[test]
fn b04a_max_attempts_counts_the_first_call() {
    for max in [1, 2, 4, 1000] {
        let mut fleet = waiting(0.0);
        fleet.policy.retry.max_attempts = MaxAttempts::Limited(max);
        fleet.policy.breaker.mode = Mode::Off;
        let mut permit = fleet.first().unwrap().permit;
        let mut ran = 1;
        let denial = loop {
            match fleet.retry(ran + 1, permit, FAIL).verdict {
                Ok(grant) => permit = grant.permit,
                Err(denial) => break denial,
            }
            ran += 1;
        };
        assert_eq!((ran, denial.reason), (max, R::AttemptsExhausted));
        assert_eq!(
            denial.retry_after, None,
            "b04d: a final answer carries no time"
        );
    }
}

#[test]
fn b04b_a_last_attempt_that_succeeds_is_done() {
    let mut fleet = waiting(0.0);
    let mut permit = fleet.first().unwrap().permit;
    for attempt in 2..=3 {
        permit = fleet.retry(attempt, permit, FAIL).verdict.unwrap().permit;
    }
    assert_eq!(fleet.report(permit, OK), holdoff_decision::Reported::Ok);
}

#[test]
fn b04c_an_attempt_beyond_the_last_is_exhausted_and_spends_nothing() {
    let mut fleet = waiting(0.0);
    for attempt in [4, 5, u32::MAX] {
        let permit = fleet.first().unwrap().permit;
        assert_eq!(
            reason(&fleet.retry(attempt, permit, OUT).verdict),
            R::AttemptsExhausted
        );
    }
    assert_eq!(fleet.view().budget.retries, 0);
    fleet.policy.retry.max_attempts = MaxAttempts::Unlimited;
    let permit = fleet.first().unwrap().permit;
    assert!(fleet.retry(u32::MAX, permit, OUT).verdict.is_ok());
}

const OUT: Outcome = Outcome::of(OutcomeKind::NotSent);

#[test]
fn b15_a_call_that_may_have_been_executed_is_retried_only_where_that_is_safe() {
    use OutcomeKind as K;
    for (idempotent, kind, expected) in [
        (false, K::Timeout, Some(R::RetryUnsafe)),
        (false, K::Failure, Some(R::RetryUnsafe)),
        (false, K::Throttled, Some(R::RetryUnsafe)),
        (false, K::NotSent, None),
        (true, K::Timeout, None),
        (true, K::Failure, None),
        (true, K::Throttled, None),
        (true, K::NotSent, None),
        (true, K::Rejected, Some(R::NotRetryable)),
        (true, K::Ignored, Some(R::NotRetryable)),
        (true, K::Cancelled, Some(R::NotRetryable)),
        (true, K::Success, Some(R::NotRetryable)),
        (false, K::Rejected, Some(R::NotRetryable)),
        (false, K::Ignored, Some(R::NotRetryable)),
        (false, K::Cancelled, Some(R::NotRetryable)),
    ] {
        let mut fleet = waiting(0.0);
        fleet.first().unwrap();
        let question = Question::Retry {
            attempt: 2,
            previous: Previous {
                made_under: MadeUnder::Epoch(1),
                outcome: Outcome::of(kind),
            },
        };
        let verdict = fleet
            .ask(Ask {
                idempotent,
                ..an_ask(question)
            })
            .verdict;
        assert_eq!(
            verdict.err().map(|denial| denial.reason),
            expected,
            "{idempotent} {kind}"
        );
        let spent = u64::from(expected.is_none());
        assert_eq!(
            fleet.view().budget.retries,
            spent,
            "a refused retry spends no token"
        );
    }
    let mut fleet = waiting(0.0);
    let unsafe_hedge = Ask {
        idempotent: false,
        ..an_ask(Question::Hedge { attempt: 1 })
    };
    assert_eq!(reason(&fleet.ask(unsafe_hedge).verdict), R::HedgeRefused);
    let told = Outcome {
        pushback: Some(secs(1.0)),
        ..FAIL
    };
    let permit = fleet.first().unwrap().permit;
    let question = Question::Retry {
        attempt: 2,
        previous: after(permit, told),
    };
    let verdict = fleet
        .ask(Ask {
            idempotent: false,
            ..an_ask(question)
        })
        .verdict;
    assert_eq!(
        reason(&verdict),
        R::RetryUnsafe,
        "a hint says when, not whether it is safe"
    );
}

/// Every rule is made to deny; then the first one is taken away, and the next one must show.
#[test]
fn the_first_rule_that_denies_wins_in_the_order_of_the_contract() {
    let mut fleet = waiting(10.0);
    fleet.policy.rate = Some(Rate {
        per_second: 1.0,
        burst: 1,
        max_wait: secs(0.0),
        per_caller: false,
    });
    fleet.policy.retry.initial_delay = secs(0.0);
    fleet.policy.budget.floor_micros_per_second = 0;
    fleet.policy.budget.ratio = Share::ZERO;
    fleet.policy.pushback.scope = PushbackScope::Dependency;
    let permit = fleet.first().unwrap().permit;
    for _ in 0..5 {
        let epoch = fleet.epoch();
        fleet.tally(holdoff_decision::Tally {
            epoch,
            failures: 1,
            ..Default::default()
        });
    }
    assert_eq!(reason(&fleet.first()), R::BreakerOpen);
    fleet.record.hold_until(at(5.0));
    let order = Override {
        kind: OverrideKind::ForceOpen,
        owner: "ops".into(),
        reason: String::new(),
        set_at: at(0.0),
        expires: None,
    };
    let mut forced = fleet.clone();
    set_override(&mut forced.record, order, at(0.0));

    let mut outcome = Outcome {
        do_not_retry: true,
        retried_below: true,
        pushback: Some(secs(61.0)),
        ..Outcome::of(OutcomeKind::Rejected)
    };
    let ask = |fleet: &mut Fleet, outcome: Outcome, attempt, idempotent, left| {
        let question = Question::Retry {
            attempt,
            previous: after(permit, outcome),
        };
        let ask = Ask {
            idempotent,
            time_left: Some(left),
            ..an_ask(question)
        };
        reason(&fleet.ask(ask).verdict)
    };
    let none = Nanos::ZERO;
    assert_eq!(ask(&mut forced, outcome, 9, false, none), R::ForcedOpen);
    assert_eq!(ask(&mut fleet, outcome, 9, false, none), R::Pushback);
    outcome.do_not_retry = false;
    assert_eq!(ask(&mut fleet, outcome, 9, false, none), R::NotRetryable);
    outcome.kind = OutcomeKind::Failure;
    assert_eq!(ask(&mut fleet, outcome, 9, false, none), R::RetriedBelow);
    outcome.retried_below = false;
    assert_eq!(
        ask(&mut fleet, outcome, 9, false, none),
        R::AttemptsExhausted
    );
    assert_eq!(ask(&mut fleet, outcome, 2, false, none), R::RetryUnsafe);
    assert_eq!(ask(&mut fleet, outcome, 2, true, none), R::Held);
    fleet.record.hold_until(Time::ORIGIN);
    assert_eq!(ask(&mut fleet, outcome, 2, true, none), R::BreakerOpen);
    holdoff_decision::operate::reset(&mut fleet.record, at(0.0));
    assert_eq!(ask(&mut fleet, outcome, 2, true, none), R::PushbackTooLong);
    outcome.pushback = None;
    assert_eq!(ask(&mut fleet, outcome, 2, true, none), R::RateLimited);
    fleet.at(1.0);
    assert_eq!(ask(&mut fleet, outcome, 2, true, none), R::Deadline);
    assert_eq!(
        ask(&mut fleet, outcome, 2, true, secs(60.0)),
        R::BudgetExhausted
    );
    fleet.policy.budget.ratio = Share::ONE;
    let question = Question::Retry {
        attempt: 2,
        previous: after(permit, outcome),
    };
    assert!(fleet.ask(an_ask(question)).verdict.is_ok());
}

#[test]
fn a_delay_that_reaches_the_deadline_is_refused_and_never_shortened() {
    for (delay, need, left, granted) in [
        (1.0, 0.0, 1.0, false),
        (1.0, 0.0, 1.000_000_001, true),
        (1.0, 0.5, 1.5, false),
        (1.0, 0.5, 1.500_000_001, true),
        (0.0, 0.0, 0.0, false),
        (0.0, 0.0, 0.000_000_001, true),
    ] {
        let mut fleet = waiting(delay);
        fleet.policy.retry.min_attempt_time = secs(need);
        let permit = fleet.first().unwrap().permit;
        let question = Question::Retry {
            attempt: 2,
            previous: after(permit, FAIL),
        };
        let verdict = fleet
            .ask(Ask {
                time_left: Some(secs(left)),
                ..an_ask(question)
            })
            .verdict;
        match verdict {
            Ok(grant) => assert!(granted && grant.delay == secs(delay)),
            Err(denial) => assert!(!granted && denial.reason == R::Deadline),
        }
    }
}

#[test]
fn a_first_attempt_without_time_is_refused_and_a_hedge_too() {
    let mut fleet = waiting(0.0);
    let none = Some(Nanos::ZERO);
    assert_eq!(
        reason(
            &fleet
                .ask(Ask {
                    time_left: none,
                    ..an_ask(Question::First)
                })
                .verdict
        ),
        R::Deadline
    );
    let hedge = an_ask(Question::Hedge { attempt: 1 });
    assert_eq!(
        reason(
            &fleet
                .ask(Ask {
                    time_left: none,
                    ..hedge
                })
                .verdict
        ),
        R::HedgeRefused
    );
    assert_eq!(fleet.view().budget.first_attempts, 0);
}

#[test]
fn a_hold_delays_those_who_have_the_time_and_denies_the_others() {
    let mut fleet = waiting(0.0);
    fleet.policy.pushback.scope = PushbackScope::Dependency;
    let told = fleet.first().unwrap().permit;
    let throttled = Outcome {
        pushback: Some(secs(4.0)),
        ..Outcome::of(OutcomeKind::Throttled)
    };
    fleet.report(told, throttled);
    fleet.sample.spread = 0.5;
    let patient = fleet.at(1.0).first().unwrap();
    assert_eq!(patient.delay, secs(3.5));
    assert!(patient.confirm);
    let hasty = fleet
        .ask(Ask {
            time_left: Some(secs(3.5)),
            ..an_ask(Question::First)
        })
        .verdict;
    assert_eq!(
        (reason(&hasty), retry_after(&hasty)),
        (R::Held, Some(secs(3.5)))
    );
    assert_eq!(
        reason(&fleet.hedge(1)),
        R::HedgeRefused,
        "a hedge runs at once or not at all"
    );
    assert_eq!(fleet.at(4.0).first().unwrap().delay, Nanos::ZERO);
}

#[test]
fn a_shorter_hold_does_not_shorten_a_longer_one_and_a_callers_pushback_holds_nobody() {
    let mut fleet = waiting(0.0);
    let told = fleet.first().unwrap().permit;
    let throttled = |seconds| Outcome {
        pushback: Some(secs(seconds)),
        ..Outcome::of(OutcomeKind::Throttled)
    };
    fleet.report(told, throttled(4.0));
    assert_eq!(fleet.view().held_for, None);
    fleet.policy.pushback.scope = PushbackScope::Dependency;
    let permits = [fleet.first().unwrap().permit, fleet.first().unwrap().permit];
    fleet.report(permits[0], throttled(4.0));
    fleet.report(permits[1], throttled(1.0));
    assert_eq!(fleet.view().held_for, Some(secs(4.0)));
    // Also above `pushback.max`, a minute; a day at most.
    for (asked, held) in [(61.0, 61.0), (86_399.0, 86_399.0), (1e6, 86_400.0)] {
        let long = fleet.first().unwrap().permit;
        fleet.report(long, throttled(asked));
        assert_eq!(fleet.view().held_for, Some(secs(held)));
    }
}

#[test]
fn a_pushback_is_a_floor_that_is_spread_upwards() {
    let mut fleet = waiting(0.4);
    fleet.sample.spread = 0.5;
    for (told, expected) in [(0.0, 0.4), (0.2, 0.4), (0.4, 0.9), (2.0, 2.5), (60.0, 60.5)] {
        let permit = fleet.first().unwrap().permit;
        let outcome = Outcome {
            pushback: Some(secs(told)),
            ..Outcome::of(OutcomeKind::Throttled)
        };
        let grant = fleet.retry(2, permit, outcome).verdict.unwrap();
        assert_eq!(grant.delay, secs(expected));
    }
    let permit = fleet.first().unwrap().permit;
    let outcome = Outcome {
        pushback: Some(secs(60.000_000_001)),
        ..Outcome::of(OutcomeKind::Throttled)
    };
    let denied = fleet.retry(2, permit, outcome).verdict;
    assert_eq!(reason(&denied), R::PushbackTooLong);
    assert!(retry_after(&denied).unwrap() >= secs(60.000_000_001));
}

#[test]
fn b07_a_grpc_pushback_restarts_the_backoff_and_the_permit_carries_it() {
    let mut fleet = waiting(1.0);
    fleet.policy.breaker.mode = Mode::Off;
    fleet.policy.retry.max_attempts = MaxAttempts::Limited(10);
    let mut permit = fleet.first().unwrap().permit;
    for (attempt, expected) in [(2, 1), (3, 2), (4, 4)] {
        let grant = fleet.retry(attempt, permit, OUT).verdict.unwrap();
        assert_eq!(grant.delay, secs(f64::from(expected)));
        permit = grant.permit;
    }
    let told = Outcome {
        pushback: Some(Nanos::ZERO),
        restarts_backoff: true,
        ..OUT
    };
    let grant = fleet.retry(5, permit, told).verdict.unwrap();
    assert_eq!((grant.delay, grant.permit.retry), (secs(1.0), 1));
    let next = fleet.retry(6, grant.permit, OUT).verdict.unwrap();
    assert_eq!((next.delay, next.permit.retry), (secs(2.0), 2));
}

#[test]
fn decorrelated_jitter_grows_from_the_delay_that_the_permit_carries() {
    let mut fleet = waiting(0.1);
    fleet.policy.retry.jitter = Jitter::Decorrelated;
    fleet.sample.jitter = 0.5;
    let first = fleet.first().unwrap().permit;
    let second = fleet.retry(2, first, OUT).verdict.unwrap();
    assert_eq!(second.delay, secs(0.2));
    let third = fleet.retry(3, second.permit, OUT).verdict.unwrap();
    assert_eq!(third.delay, secs(0.35));
}

#[test]
fn a_cost_is_spent_from_the_rate_only_and_the_largest_cost_never_has_room() {
    let mut fleet = waiting(0.0);
    fleet.policy.rate = Some(Rate {
        per_second: 10.0,
        burst: 5,
        max_wait: secs(0.0),
        per_caller: false,
    });
    let of = |cost| Ask {
        cost,
        ..an_ask(Question::First)
    };
    assert!(fleet.ask(of(5)).verdict.is_ok());
    assert_eq!(fleet.view().budget.first_attempts, 1);
    let denied = fleet.ask(of(1)).verdict;
    assert_eq!(
        (reason(&denied), retry_after(&denied)),
        (R::RateLimited, Some(secs(0.1)))
    );
    for cost in [6, u32::MAX] {
        let never = fleet.ask(of(cost)).verdict;
        assert_eq!(
            (reason(&never), retry_after(&never)),
            (R::RateLimited, None)
        );
    }
    assert!(fleet.at(0.1).ask(of(1)).verdict.is_ok());
    assert!(fleet.at(0.1).ask(of(0)).verdict.is_ok(), "no cost");
}

#[test]
fn a_wait_for_the_rate_is_hidden_in_the_backoff_or_allowed_up_to_max_wait() {
    let mut fleet = waiting(1.0);
    fleet.policy.rate = Some(Rate {
        per_second: 1.0,
        burst: 1,
        max_wait: secs(0.5),
        per_caller: false,
    });
    let first = fleet.first().unwrap().permit;
    let retry = fleet.retry(2, first, FAIL).verdict.unwrap();
    assert_eq!(retry.delay, secs(1.0));
    assert_eq!(
        reason(&fleet.at(0.5).first()),
        R::RateLimited,
        "room in 1.5 s"
    );
    assert_eq!(fleet.at(1.5).first().unwrap().delay, secs(0.5));
}

#[test]
fn a_call_of_a_forced_closed_breaker_skips_the_breaker_only() {
    let mut fleet = waiting(0.0);
    fleet.trip();
    let order = Override {
        kind: OverrideKind::ForceClosed,
        owner: "ops".into(),
        reason: String::new(),
        set_at: at(0.0),
        expires: None,
    };
    set_override(&mut fleet.record, order, at(0.0));
    let call = fleet.first().unwrap();
    assert_eq!((call.probe, call.permit.kind), (false, PermitKind::Call));
    fleet.record.hold_until(at(9.0));
    assert_eq!(
        fleet.first().unwrap().delay,
        secs(9.0),
        "a hold binds all the same"
    );
    fleet.record.hold_until(Time::ORIGIN);
    fleet.policy.budget.floor_micros_per_second = 0;
    fleet.policy.budget.ratio = Share::ZERO;
    assert_eq!(
        reason(&fleet.retry(2, call.permit, FAIL).verdict),
        R::BudgetExhausted
    );
}

#[test]
fn only_denials_that_will_end_say_when_and_never_before_it() {
    let timed = [
        R::Held,
        R::BreakerOpen,
        R::ProbeInProgress,
        R::RateLimited,
        R::PushbackTooLong,
    ];
    let mut fleet = waiting(0.0);
    fleet.trip();
    for spread in [0.0, 0.3, 0.999] {
        fleet.sample.spread = spread;
        let open = fleet.at(4.0).first();
        assert!(timed.contains(&reason(&open)));
        assert_eq!(
            retry_after(&open),
            Some(secs(6.0).saturating_add(secs(2.0).scaled(spread)))
        );
    }
}

#[test]
fn every_denial_is_a_sentence_with_its_numbers() {
    let mut fleet = waiting(0.0);
    fleet.policy.budget.floor_micros_per_second = 0;
    fleet.policy.budget.ratio = Share::ZERO;
    let permit = fleet.first().unwrap().permit;
    let denial = fleet.retry(2, permit, FAIL).verdict.unwrap_err();
    assert!(
        denial
            .to_string()
            .starts_with("retry budget: 0 of 0 tokens"),
        "{denial}"
    );
    let denial = fleet.retry(7, permit, FAIL).verdict.unwrap_err();
    assert_eq!(denial.to_string(), "attempt 7 of at most 3");
    fleet.trip();
    let denial = fleet.at(2.5).first().unwrap_err();
    assert_eq!(denial.to_string(), "breaker open; first probe in 7.5 s");
    fleet.at(10.0).first().unwrap();
    let denial = fleet.first().unwrap_err();
    assert_eq!(denial.to_string(), "breaker half-open; 1 of 1 probes out");
}
