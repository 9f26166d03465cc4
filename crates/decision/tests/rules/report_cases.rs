//! What becomes of reports, and of questions that are asked twice.

use holdoff_decision::{
    Ask, DenialReason as R, MadeUnder, Nanos, Outcome, OutcomeKind, Permit, Previous, Question,
    Reported, State, Time,
};

use crate::fleet::{FAIL, Fleet, OK, TIMEOUT, after, an_ask, at, plain, reason, secs};

fn fleet() -> Fleet {
    let mut policy = plain();
    policy.retry.initial_delay = secs(2.0);
    Fleet::new(policy)
}

#[test]
fn b22a_a_repeated_question_gets_the_same_place_and_is_charged_once() {
    let mut fleet = fleet();
    fleet.policy.retry.jitter = holdoff_decision::policy::Jitter::Full;
    let first = fleet.first().unwrap().permit;
    fleet.sample.jitter = 0.8;
    let one = fleet.at(1.0).retry(2, first, FAIL);
    fleet.sample.jitter = 0.1;
    let two = fleet.at(1.2).retry(2, first, FAIL);
    let (one_grant, two_grant) = (one.verdict.unwrap(), two.verdict.unwrap());
    assert_eq!(one_grant.permit, two_grant.permit);
    assert_eq!(at(1.0) + one_grant.delay, at(1.2) + two_grant.delay);
    assert_eq!(
        (one.previous, two.previous),
        (Some(Reported::Ok), Some(Reported::Duplicate))
    );
    let view = fleet.view();
    assert_eq!((view.counts.failures, view.budget.retries), (1, 1));
    let late = fleet.at(9.0).retry(2, first, FAIL).verdict.unwrap();
    assert_eq!((late.permit, late.delay), (one_grant.permit, Nanos::ZERO));
    assert_eq!(
        reason(&fleet.at(11.0).retry(2, first, FAIL).verdict),
        R::Duplicate
    );
    assert_eq!(fleet.view().budget.retries, 1);
}

#[test]
fn b22a_a_repeated_first_attempt_of_a_call_is_one_first_attempt() {
    let mut fleet = fleet();
    let ask = Ask {
        call: Some(5),
        ..an_ask(Question::First)
    };
    let one = fleet.ask(ask).verdict.unwrap();
    let two = fleet.at(9.999).ask(ask).verdict.unwrap();
    assert_eq!(one.permit, two.permit);
    assert_eq!(fleet.view().budget.first_attempts, 1);
    let elsewhere = fleet.ask(Ask { caller: 2, ..ask }).verdict.unwrap();
    assert_ne!(
        elsewhere.permit, one.permit,
        "calls are those of an instance"
    );
}

#[test]
fn b22b_the_first_report_wins() {
    let mut fleet = fleet();
    let permit = fleet.first().unwrap().permit;
    assert_eq!(fleet.report(permit, FAIL), Reported::Ok);
    for outcome in [OK, FAIL, TIMEOUT, Outcome::of(OutcomeKind::Ignored)] {
        assert_eq!(fleet.report(permit, outcome), Reported::Duplicate);
    }
    let counts = fleet.view().counts;
    assert_eq!((counts.calls, counts.failures), (1, 1));
}

#[test]
fn b22c_a_duplicate_after_the_lifetime_counts_nothing() {
    let mut fleet = fleet();
    let permit = fleet.first().unwrap().permit;
    fleet.report(permit, FAIL);
    assert_eq!(fleet.at(60.0).report(permit, FAIL), Reported::Expired);
    assert_eq!(fleet.at(6000.0).report(permit, FAIL), Reported::Expired);
    assert_eq!(fleet.view().counts.calls, 1);
}

#[test]
fn b22d_a_late_response_after_a_timeout_is_a_duplicate() {
    let mut fleet = fleet();
    let permit = fleet.first().unwrap().permit;
    assert_eq!(fleet.report(permit, TIMEOUT), Reported::Ok);
    assert_eq!(fleet.at(0.5).report(permit, OK), Reported::Duplicate);
    let counts = fleet.view().counts;
    assert_eq!((counts.calls, counts.failures), (1, 1));
}

#[test]
fn a_success_settles_a_call_and_no_retry_is_granted_on_it() {
    let mut fleet = fleet();
    let permit = fleet.first().unwrap().permit;
    fleet.report(permit, OK);
    let answer = fleet.retry(2, permit, FAIL);
    assert_eq!(answer.previous, Some(Reported::Duplicate));
    assert_eq!(reason(&answer.verdict), R::Duplicate);
}

#[test]
fn after_a_denial_the_same_question_is_judged_afresh_and_counted_once() {
    let mut fleet = fleet();
    let permit = fleet.first().unwrap().permit;
    let question = Question::Retry {
        attempt: 2,
        previous: after(permit, FAIL),
    };
    let hasty = Ask {
        time_left: Some(secs(1.0)),
        ..an_ask(question)
    };
    let denied = fleet.ask(hasty);
    assert_eq!(
        (denied.previous, reason(&denied.verdict)),
        (Some(Reported::Ok), R::Deadline)
    );
    let granted = fleet.ask(Ask {
        time_left: Some(secs(3.0)),
        ..hasty
    });
    assert_eq!(granted.previous, Some(Reported::Duplicate));
    assert_eq!(granted.verdict.unwrap().delay, secs(2.0));
    assert_eq!(fleet.view().counts.failures, 1);
}

#[test]
fn what_is_left_of_a_repeated_grant_must_fit_into_the_time_that_is_left() {
    let mut fleet = fleet();
    let permit = fleet.first().unwrap().permit;
    let question = Question::Retry {
        attempt: 2,
        previous: after(permit, FAIL),
    };
    let ask = |left| Ask {
        time_left: Some(left),
        ..an_ask(question)
    };
    assert!(fleet.ask(ask(secs(2.1))).verdict.is_ok());
    assert_eq!(
        reason(&fleet.at(0.5).ask(ask(secs(1.5))).verdict),
        R::Deadline
    );
    assert_eq!(
        fleet.at(1.0).ask(ask(secs(1.1))).verdict.unwrap().delay,
        secs(1.0)
    );
    assert_eq!(fleet.view().budget.retries, 1);
}

#[test]
fn a_repeated_probe_has_only_the_rest_of_its_time() {
    let mut fleet = fleet();
    fleet.trip();
    let ask = Ask {
        call: Some(3),
        ..an_ask(Question::First)
    };
    let probe = fleet.at(10.0).ask(ask).verdict.unwrap();
    let again = fleet.at(13.0).ask(ask).verdict.unwrap();
    assert_eq!(again.permit, probe.permit);
    assert_eq!(
        (again.permit_ttl, again.attempt_timeout),
        (secs(2.0), Some(secs(1.5)))
    );
    let late = fleet.at(14.9).ask(ask).verdict.unwrap();
    assert_eq!(late.attempt_timeout, Some(Nanos::ZERO));
    let fresh = fleet.at(15.0).ask(ask).verdict.unwrap();
    assert_ne!(
        fresh.permit.serial, probe.permit.serial,
        "the lease has ended"
    );
    assert!(fresh.probe);
    assert_eq!(fleet.view().probes_out, 1);
}

#[test]
fn a_probe_that_was_reported_is_not_given_again() {
    let mut fleet = fleet();
    fleet.policy.breaker.probe_successes = 3;
    fleet.trip();
    let ask = Ask {
        call: Some(3),
        ..an_ask(Question::First)
    };
    let probe = fleet.at(10.0).ask(ask).verdict.unwrap();
    fleet.report(probe.permit, OK);
    let other = fleet.first().unwrap();
    assert!(other.probe);
    assert_eq!(reason(&fleet.ask(ask).verdict), R::ProbeInProgress);
    assert_eq!(fleet.view().probes_out, 1);
}

#[test]
fn a_permit_that_nobody_gave_is_unknown_and_moves_nothing() {
    let mut fleet = fleet();
    let permit = fleet.first().unwrap().permit;
    let before = fleet.view();
    for serial in [permit.serial + 1, 63, 64, 1 << 40, u64::MAX] {
        let forged = Permit { serial, ..permit };
        assert_eq!(fleet.report(forged, FAIL), Reported::Unknown);
    }
    let future = Permit {
        serial: 77,
        issued: Time::MAX,
        expires: Time::MAX,
        delay: Nanos::MAX,
        retry: u32::MAX,
        ..permit
    };
    assert_eq!(fleet.report(future, FAIL), Reported::Unknown);
    assert_eq!(fleet.view(), before);
    let answer = fleet.retry(2, future, FAIL);
    assert_eq!(answer.previous, Some(Reported::Unknown));
    assert!(answer.verdict.is_ok(), "the caller still gets its decision");
}

#[test]
fn a_permit_of_an_earlier_run_is_stale_or_expired_and_its_caller_gets_a_decision() {
    let mut fleet = fleet();
    let permit = fleet.first().unwrap().permit;
    let ask = an_ask(Question::Retry {
        attempt: 2,
        previous: Previous {
            made_under: MadeUnder::EarlierRun(permit),
            outcome: FAIL,
        },
    });
    let answer = fleet.at(1.0).ask(ask);
    assert_eq!(answer.previous, Some(Reported::StaleEpoch));
    assert_eq!(answer.verdict.unwrap().delay, secs(2.0));
    assert_eq!(fleet.at(61.0).ask(ask).previous, Some(Reported::Expired));
    assert_eq!(fleet.view().counts.failures, 0);
}

#[test]
fn the_lifetime_of_a_permit_runs_from_the_end_of_its_delay() {
    let mut fleet = fleet();
    let first = fleet.first().unwrap().permit;
    let retry = fleet.retry(2, first, FAIL).verdict.unwrap();
    assert_eq!(retry.permit_ttl, secs(60.0));
    assert_eq!(
        fleet.at(61.999_999_999).report(retry.permit, FAIL),
        Reported::Ok
    );
    assert_eq!(fleet.state(), State::Closed);
}

#[test]
fn an_outcome_before_the_end_of_the_delay_counts() {
    let mut fleet = fleet();
    let first = fleet.first().unwrap().permit;
    let retry = fleet.retry(2, first, FAIL).verdict.unwrap();
    assert_eq!(
        fleet.report(retry.permit, Outcome::of(OutcomeKind::Cancelled)),
        Reported::Ok
    );
    assert_eq!(fleet.view().counts.calls, 1);
}
