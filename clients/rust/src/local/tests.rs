use super::*;

const UNIT: f64 = 0.5;

fn at(millis: u64) -> Time {
    Time::ORIGIN + Nanos::from_millis(millis)
}

fn first(dependency: &Arc<str>) -> Asked<'_> {
    Asked {
        dependency,
        attempt: 1,
        is_hedge: false,
        previous: None,
        time_left: None,
        strictness: Strictness::All,
    }
}

fn retry<'a>(
    dependency: &'a Arc<str>,
    attempt: u32,
    ticket: &'a Ticket,
    outcome: &'a Outcome,
) -> Asked<'a> {
    Asked {
        attempt,
        previous: Some((Some(ticket), outcome)),
        ..first(dependency)
    }
}

fn reason(answer: Result<Granted, Denied>) -> DenialReason {
    answer.unwrap_err().reason
}

/// Fails calls until one is denied; how many were made.
fn fail_until_denied(local: &Local, name: &Arc<str>, now: Time) -> u32 {
    let mut calls = 0;
    while let Ok(granted) = local.ask(&first(name), now, UNIT) {
        local.report(name, &granted.ticket, &Outcome::failure(), now);
        calls += 1;
        assert!(calls < 100, "it never opens");
    }
    calls
}

#[test]
fn b31g_alone_retries_wait_by_the_policys_jittered_backoff() {
    let (local, name) = (Local::new(policy()), Arc::from("payments"));
    let granted = local.ask(&first(&name), at(0), UNIT).unwrap();
    assert_eq!(granted.delay, Duration::ZERO);
    let failed = Outcome::failure();
    let second = local
        .ask(&retry(&name, 2, &granted.ticket, &failed), at(0), UNIT)
        .unwrap();
    assert_eq!(second.delay, Duration::from_millis(50));
    let third = local
        .ask(&retry(&name, 3, &second.ticket, &failed), at(0), UNIT)
        .unwrap();
    assert_eq!(third.delay, Duration::from_millis(100));
    let fourth = local.ask(&retry(&name, 4, &third.ticket, &failed), at(0), UNIT);
    assert_eq!(reason(fourth), DenialReason::AttemptsExhausted);
}

#[test]
fn b07_a_pushback_is_a_floor_and_grpcs_restarts_the_backoff() {
    let (local, name) = (Local::new(policy()), Arc::from("payments"));
    let granted = local.ask(&first(&name), at(0), UNIT).unwrap();
    let told = Outcome::failure().grpc_pushback(Duration::from_secs(1));
    let second = local
        .ask(&retry(&name, 2, &granted.ticket, &told), at(0), UNIT)
        .unwrap();
    assert_eq!(second.delay, Duration::from_millis(1_500));
    let third = local
        .ask(&retry(&name, 3, &second.ticket, &told), at(0), UNIT)
        .unwrap();
    assert_eq!(third.ticket.retry, 1);
    let long = Outcome::failure().pushback(Duration::from_secs(61));
    let denied = local
        .ask(&retry(&name, 2, &granted.ticket, &long), at(0), UNIT)
        .unwrap_err();
    assert_eq!(denied.reason, DenialReason::PushbackTooLong);
    assert_eq!(denied.retry_after, Some(Duration::from_secs(61)));
}

#[test]
fn cl3_alone_retries_are_at_most_a_tenth_of_the_calls_and_one_a_second() {
    let (local, name) = (Local::new(policy()), Arc::from("payments"));
    let throttled = Outcome::new(OutcomeKind::Throttled);
    let mut retries = 0;
    for _ in 0..1_000 {
        let granted = local.ask(&first(&name), at(0), UNIT).unwrap();
        let again = local.ask(&retry(&name, 2, &granted.ticket, &throttled), at(0), UNIT);
        retries += u32::from(again.is_ok());
    }
    assert!((100..=110).contains(&retries), "{retries}");
}

#[test]
fn alone_five_straight_failures_open_it_and_one_caller_probes() {
    let (local, name) = (Local::new(policy()), Arc::from("payments"));
    assert_eq!(fail_until_denied(&local, &name, at(0)), 5);
    let denied = local.ask(&first(&name), at(0), UNIT).unwrap_err();
    assert_eq!(denied.reason, DenialReason::BreakerOpen);
    assert_eq!(denied.retry_after, Some(Duration::from_secs(11)));

    let probe = local.ask(&first(&name), at(11_000), UNIT).unwrap();
    assert_eq!(probe.lease, Some(Duration::from_secs(5)));
    let second = local.ask(&first(&name), at(11_001), UNIT);
    assert_eq!(reason(second), DenialReason::ProbeInProgress);
    local.report(&name, &probe.ticket, &Outcome::failure(), at(11_100));
    let longer = local.ask(&first(&name), at(11_100), UNIT).unwrap_err();
    assert_eq!(longer.retry_after, Some(Duration::from_secs(21)));
}

#[test]
fn alone_a_probe_that_never_reports_leaves_the_next_one_free_and_two_successes_close() {
    let (local, name) = (Local::new(policy()), Arc::from("payments"));
    fail_until_denied(&local, &name, at(0));
    local.ask(&first(&name), at(11_000), UNIT).unwrap();
    for millis in [16_000, 16_100] {
        let probe = local.ask(&first(&name), at(millis), UNIT).unwrap();
        assert!(probe.lease.is_some());
        local.report(&name, &probe.ticket, &Outcome::success(), at(millis + 50));
    }
    assert_eq!(
        local.ask(&first(&name), at(16_200), UNIT).unwrap().lease,
        None
    );
}

#[test]
fn b19_a_late_outcome_of_an_earlier_epoch_changes_nothing() {
    let (local, name) = (Local::new(policy()), Arc::from("payments"));
    let late = local.ask(&first(&name), at(0), UNIT).unwrap();
    fail_until_denied(&local, &name, at(0));
    local.ask(&first(&name), at(11_000), UNIT).unwrap();
    local.report(&name, &late.ticket, &Outcome::success(), at(11_001));
    let answer = local.ask(&first(&name), at(11_002), UNIT);
    assert_eq!(reason(answer), DenialReason::ProbeInProgress);
}

#[test]
fn an_open_state_that_the_fleet_told_is_kept_to_its_end_and_five_minutes_at_most() {
    let (local, name) = (Local::new(policy()), Arc::from("payments"));
    let told = |wait| Denied::new(DeniedBy::Fleet, DenialReason::BreakerOpen, "").after(wait);
    local.remember(&name, &told(Some(Duration::from_secs(8))), at(0));
    let denied = local.ask(&first(&name), at(3_000), UNIT).unwrap_err();
    assert_eq!(denied.by, DeniedBy::Local);
    assert_eq!(denied.retry_after, Some(Duration::from_secs(5)));
    assert!(local.ask(&first(&name), at(8_000), UNIT).is_ok());

    for wait in [None, Some(Duration::MAX)] {
        local.remember(&name, &told(wait), at(10_000));
        assert!(local.ask(&first(&name), at(309_999), UNIT).is_err());
        assert!(local.ask(&first(&name), at(310_000), UNIT).is_ok());
    }
}

#[test]
fn alone_a_delay_is_never_shortened_to_fit_the_deadline() {
    let (local, name) = (Local::new(policy()), Arc::from("payments"));
    let granted = local.ask(&first(&name), at(0), UNIT).unwrap();
    let failed = Outcome::failure();
    let asked = Asked {
        time_left: Some(Duration::from_millis(50)),
        ..retry(&name, 2, &granted.ticket, &failed)
    };
    assert_eq!(
        reason(local.ask(&asked, at(0), UNIT)),
        DenialReason::Deadline
    );
}

#[test]
fn a_bypass_lets_all_first_attempts_through() {
    let (local, name) = (Local::new(policy()), Arc::from("payments"));
    fail_until_denied(&local, &name, at(0));
    let asked = Asked {
        strictness: Strictness::RetriesOnly,
        ..first(&name)
    };
    assert!((0..100).all(|_| local.ask(&asked, at(0), UNIT).is_ok()));
}
