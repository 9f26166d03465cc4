//! Trips, probes, leases, recoveries, restarts and orders.

use holdoff_decision::{
    DenialReason as R, MadeUnder, Nanos, Outcome, OutcomeKind, PermitKind, Previous, Question,
    Reported, Restart, Share, State, Tally, Time,
    breaker::{Cause, Phase},
    operate::{checkpoint, clear_override, reset, restore, set_override},
    policy::{AppliesTo, Detect, Mode, PushbackScope, Rate, Window, WindowSize},
    record::{Override, OverrideKind},
    view::is_idle,
};

use crate::fleet::{
    FAIL, Fleet, IGNORED, OK, TIMEOUT, an_ask, at, plain, reason, retry_after, secs,
};

fn order(kind: OverrideKind, now: Time, expires: Option<Time>) -> Override {
    Override {
        kind,
        owner: "ops".into(),
        reason: "a drill".into(),
        set_at: now,
        expires,
    }
}

fn with_probes(probes: u32) -> Fleet {
    let mut policy = plain();
    policy.breaker.probes = probes;
    Fleet::new(policy)
}

/// Open until 10 s.
fn opened(probes: u32) -> Fleet {
    let mut fleet = with_probes(probes);
    fleet.trip();
    fleet
}

#[test]
fn b16a_the_lease_of_a_probe_that_never_reports_is_free_again() {
    let mut fleet = opened(2);
    let first = fleet.at(10.0).first().unwrap();
    let second = fleet.at(10.1).first().unwrap();
    assert!(first.probe && second.probe);
    let epoch = fleet.epoch();
    for draw in [0.0, 0.5, 0.999_999_9] {
        fleet.sample.spread = draw;
        let denied = fleet.at(10.2).first();
        assert_eq!(reason(&denied), R::ProbeInProgress);
        let back = fleet.now + retry_after(&denied).unwrap();
        assert!(at(10.2) < back && back <= at(17.1), "{back:?}");
    }
    assert_eq!(
        reason(&fleet.at(14.999_999_999).first()),
        R::ProbeInProgress
    );
    assert!(fleet.at(15.0).first().unwrap().probe);
    assert_eq!((fleet.state(), fleet.epoch()), (State::HalfOpen, epoch));
}

#[test]
fn b16b_in_half_open_some_ask_succeeds_within_every_lease_whatever_clients_do() {
    let mut fleet = opened(2);
    let mut granted = Vec::new();
    for step in 0..1000 {
        fleet.at(10.0 + f64::from(step) * 0.1);
        if fleet.first().is_ok() {
            granted.push(fleet.now);
        }
    }
    let longest = granted.windows(2).map(|pair| pair[1].since(pair[0])).max();
    assert!(longest.unwrap() <= secs(5.0));
    for start in &granted {
        let end = *start + secs(4.9);
        let out = granted.iter().filter(|at| *start <= **at && **at <= end);
        assert!(out.count() <= 2);
    }
}

#[test]
fn b16c_a_success_after_the_lease_is_expired_and_changes_nothing() {
    let mut fleet = opened(2);
    let probe = fleet.at(10.0).first().unwrap();
    assert_eq!(fleet.at(16.0).report(probe.permit, OK), Reported::Expired);
    assert_eq!(fleet.state(), State::HalfOpen);
    assert_eq!(fleet.record.breaker.past().probe_successes, 0);
}

#[test]
fn a_report_at_the_very_end_of_the_lease_is_late_and_one_before_it_is_not() {
    let mut fleet = opened(1);
    let probe = fleet.at(10.0).first().unwrap();
    let mut other = fleet.clone();
    assert_eq!(fleet.at(15.0).report(probe.permit, OK), Reported::Expired);
    assert_eq!(
        other.at(14.999_999_999).report(probe.permit, OK),
        Reported::Ok
    );
    assert_eq!(other.state(), State::Closed);
}

#[test]
fn b18a_exactly_the_probes_pass_of_a_thousand_who_ask_at_once() {
    let mut fleet = opened(3);
    fleet.at(10.0);
    let mut probes = 0;
    for asker in 0..1000 {
        fleet.sample.spread = f64::from(asker) / 1000.0;
        match fleet.first() {
            Ok(grant) => {
                assert!(grant.probe && grant.delay.is_zero());
                probes += 1;
            }
            Err(denial) => {
                assert_eq!(denial.reason, R::ProbeInProgress);
                assert!(fleet.now + denial.retry_after.unwrap() > at(10.0));
            }
        }
    }
    assert_eq!(probes, 3);
}

#[test]
fn b18c_a_probe_that_is_ignored_twice_returns_one_lease() {
    for outcome in [
        IGNORED,
        Outcome::of(OutcomeKind::Cancelled),
        Outcome::of(OutcomeKind::Rejected),
    ] {
        let mut fleet = opened(3);
        fleet.at(10.0);
        let probes: Vec<_> = (0..3).map(|_| fleet.first().unwrap().permit).collect();
        assert_eq!(fleet.report(probes[0], outcome), Reported::Ok);
        assert_eq!(fleet.report(probes[0], outcome), Reported::Duplicate);
        assert_eq!(fleet.view().probes_out, 2);
        assert_eq!(fleet.state(), State::HalfOpen);
        assert!(fleet.first().unwrap().probe);
        assert_eq!(reason(&fleet.first()), R::ProbeInProgress);
    }
}

#[test]
fn a_late_report_of_a_probe_of_an_earlier_half_open_is_stale_and_frees_its_lease() {
    let mut policy = plain();
    policy.breaker.probes = 2;
    policy.breaker.open_for = secs(1.0);
    let mut fleet = Fleet::new(policy);
    fleet.trip();
    let early = fleet.at(1.0).first().unwrap().permit;
    let failed = fleet.first().unwrap().permit;
    fleet.at(1.5).report(failed, FAIL);
    assert_eq!(fleet.state(), State::Open);
    let third = fleet.at(2.5).first().unwrap();
    assert!(third.probe);
    assert_eq!(
        reason(&fleet.first()),
        R::ProbeInProgress,
        "the early lease still counts"
    );
    assert_eq!(fleet.at(2.6).report(early, FAIL), Reported::StaleEpoch);
    assert_eq!(fleet.state(), State::HalfOpen);
    assert!(fleet.first().unwrap().probe);
}

/// t=0 a permit N, t=1 five failures: open until 11, t=11 a probe P.
fn b19() -> (Fleet, holdoff_decision::Permit, holdoff_decision::Permit) {
    let mut fleet = with_probes(1);
    let early = fleet.first().unwrap().permit;
    assert_eq!(early.epoch, 1);
    fleet.at(1.0).trip();
    assert_eq!(fleet.epoch(), 2);
    assert_eq!(reason(&fleet.at(10.999).first()), R::BreakerOpen);
    let probe = fleet.at(11.0).first().unwrap();
    assert!(probe.probe);
    assert_eq!((fleet.epoch(), probe.permit.epoch), (3, 3));
    (fleet, early, probe.permit)
}

#[test]
fn b19a_a_late_success_of_an_earlier_epoch_does_not_close() {
    let (mut fleet, early, probe) = b19();
    assert_eq!(fleet.at(12.0).report(early, OK), Reported::StaleEpoch);
    assert_eq!(fleet.state(), State::HalfOpen);
    assert_eq!(fleet.at(13.0).report(probe, FAIL), Reported::Ok);
    assert_eq!(fleet.view().open_for, Some(secs(10.0)));
    assert_eq!(reason(&fleet.at(22.999).first()), R::BreakerOpen);
    assert!(fleet.at(23.0).first().unwrap().probe);
}

#[test]
fn b19b_a_late_failure_of_an_earlier_epoch_does_not_reopen() {
    let (mut fleet, early, probe) = b19();
    assert_eq!(fleet.at(12.0).report(early, FAIL), Reported::StaleEpoch);
    assert_eq!(fleet.at(13.0).report(probe, OK), Reported::Ok);
    assert_eq!(fleet.state(), State::Closed);
}

#[test]
fn b19c_a_late_failure_does_not_prolong_the_open_period() {
    let mut fleet = with_probes(1);
    let early = fleet.first().unwrap().permit;
    fleet.at(1.0).trip();
    assert_eq!(fleet.at(5.0).report(early, FAIL), Reported::StaleEpoch);
    assert_eq!(fleet.view().open_for, Some(secs(6.0)));
    assert_eq!(fleet.transitions(), [(State::Closed, State::Open)]);
    assert_eq!(fleet.view().trips, 1);
}

#[test]
fn b19d_a_late_failure_is_not_in_the_window_after_the_recovery() {
    let (mut fleet, early, probe) = b19();
    fleet.at(12.0).report(probe, OK);
    assert_eq!(fleet.epoch(), 4);
    assert_eq!(fleet.at(13.0).report(early, FAIL), Reported::StaleEpoch);
    assert_eq!(fleet.view().counts.calls, 0);
}

#[test]
fn b19e_the_caller_of_a_stale_attempt_gets_its_retry_decision() {
    let mut fleet = with_probes(1);
    fleet.policy.retry.initial_delay = secs(0.1);
    let early = fleet.first().unwrap().permit;
    fleet.at(1.0).trip();
    let probe = fleet.at(11.0).first().unwrap().permit;
    fleet.report(probe, OK);
    let answer = fleet.at(12.0).retry(2, early, FAIL);
    assert_eq!(answer.previous, Some(Reported::StaleEpoch));
    assert_eq!(answer.verdict.unwrap().delay, secs(0.1));
    let again = fleet.at(30.0).retry(2, early, FAIL);
    assert_eq!(reason(&again.verdict), R::Duplicate);
    let other = fleet.first().unwrap().permit;
    assert_eq!(
        reason(&fleet.retry(4, other, FAIL).verdict),
        R::AttemptsExhausted
    );
}

#[test]
fn b21a_a_restart_reads_the_state_and_changes_nothing_of_it() {
    let mut policy = plain();
    policy.breaker.open_for = secs(30.0);
    policy.breaker.open_max = secs(60.0);
    let mut fleet = Fleet::new(policy);
    fleet.trip();
    let epoch = fleet.epoch();
    for restart in 1..6 {
        let now = at(f64::from(restart) * 5.0);
        fleet.now = now;
        fleet.record = restore(&checkpoint(&fleet.record, now), now);
        fleet.restarted = Some(Restart::after_another(now));
        assert_eq!((fleet.epoch(), fleet.state()), (epoch, State::Open));
    }
    assert_eq!(reason(&fleet.at(29.999_999_999).first()), R::BreakerOpen);
    assert!(fleet.at(30.0).first().unwrap().probe);
}

#[test]
fn b21c_a_restart_in_half_open_leases_no_probe_for_one_lease() {
    let mut fleet = opened(2);
    fleet.at(10.0).first().unwrap();
    fleet.first().unwrap();
    fleet.at(12.0);
    fleet.record = restore(&checkpoint(&fleet.record, fleet.now), fleet.now);
    fleet.restarted = Some(Restart::after_another(fleet.now));
    assert_eq!(fleet.state(), State::HalfOpen);
    let denied = fleet.first();
    assert_eq!(reason(&denied), R::ProbeInProgress);
    assert!(retry_after(&denied).unwrap() >= secs(5.0));
    assert_eq!(
        reason(&fleet.at(16.999_999_999).first()),
        R::ProbeInProgress
    );
    assert!(fleet.at(17.0).first().unwrap().probe);
}

#[test]
fn a_restored_open_period_is_never_longer_than_what_was_left() {
    let fleet = opened(1);
    for seconds in [0.0, 3.0, 9.999, 10.0, 50.0] {
        let saved = checkpoint(&fleet.record, at(seconds));
        let record = restore(&saved, at(1000.0));
        let left = at(1000.0).until(record.breaker.past().open_until);
        assert!(left <= secs(10.0) && left == saved.left);
    }
}

#[test]
fn b24g_successes_of_an_earlier_episode_do_not_count() {
    let mut policy = plain();
    policy.breaker.probe_successes = 3;
    policy.breaker.probes = 2;
    let mut fleet = Fleet::new(policy);
    fleet.trip();
    fleet.at(10.0);
    fleet.calls(2, OK);
    fleet.call(FAIL);
    assert_eq!(fleet.state(), State::Open);
    fleet.at(20.0).call(OK);
    assert_eq!(fleet.state(), State::HalfOpen);
    fleet.call(OK);
    assert_eq!(fleet.state(), State::HalfOpen);
    fleet.call(OK);
    assert_eq!(fleet.state(), State::Closed);
}

#[test]
fn b26a_the_wall_clock_is_nobodys_business_and_a_backward_step_opens_nothing_early() {
    let mut fleet = opened(1);
    fleet.at(5.0);
    assert_eq!(reason(&fleet.first()), R::BreakerOpen);
    assert_eq!(
        reason(&fleet.at(0.0).first()),
        R::BreakerOpen,
        "back by five seconds"
    );
    assert_eq!(reason(&fleet.at(9.999_999_999).first()), R::BreakerOpen);
    assert!(fleet.at(10.0).first().unwrap().probe);
}

#[test]
fn b26b_half_a_second_is_half_a_second() {
    let mut policy = plain();
    policy.breaker.open_for = secs(0.5);
    let mut fleet = Fleet::new(policy);
    fleet.at(0.5).trip();
    assert_eq!(reason(&fleet.at(0.6).first()), R::BreakerOpen);
    assert_eq!(reason(&fleet.at(0.999_999_999).first()), R::BreakerOpen);
    assert!(fleet.at(1.0).first().unwrap().probe);
}

#[test]
fn b26d_the_same_story_told_from_another_origin_has_the_same_answers() {
    let story = |origin: f64| {
        let mut fleet = with_probes(1);
        fleet.record = holdoff_decision::Record::new(1, at(origin));
        fleet.sample.spread = 0.25;
        let mut delays = Vec::new();
        fleet.at(origin).trip();
        for step in 0..40 {
            let verdict = fleet.at(origin + f64::from(step)).first();
            delays.push(
                verdict
                    .map(|grant| grant.delay)
                    .map_err(|no| no.retry_after),
            );
        }
        delays
    };
    assert_eq!(story(0.0), story(3600.0));
}

#[test]
fn b26e_time_that_goes_backwards_is_no_time() {
    let mut fleet = opened(1);
    let probe = fleet.at(10.0).first().unwrap().permit;
    assert_eq!(fleet.at(2.0).report(probe, OK), Reported::Ok);
    assert_eq!(fleet.state(), State::Closed);
    assert_eq!(fleet.view().in_state_for, Nanos::ZERO);
    fleet.at(0.0).trip();
    assert_eq!(fleet.view().open_for, Some(secs(10.0)));
}

fn fullest_bucket(times: &[Time]) -> usize {
    let mut buckets = std::collections::BTreeMap::new();
    for time in times {
        *buckets.entry(time.0 / 100_000_000).or_insert(0) += 1;
    }
    buckets.into_values().max().unwrap()
}

/// A fixed sequence of draws, well spread.
fn draw(seed: u64) -> f64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[test]
fn b27a_those_who_were_refused_come_back_spread_after_the_open_period() {
    let mut fleet = opened(1);
    fleet.at(3.0);
    let back: Vec<Time> = (0..1000)
        .map(|client| {
            fleet.sample.spread = draw(client);
            fleet.now + retry_after(&fleet.first()).unwrap()
        })
        .collect();
    assert!(
        back.iter()
            .all(|time| at(10.0) <= *time && *time <= at(12.0))
    );
    assert!(fullest_bucket(&back) <= 100);
}

#[test]
fn b27b_those_who_find_the_probes_taken_are_spread_again() {
    let mut fleet = opened(1);
    fleet.at(10.0).first().unwrap();
    fleet.at(10.5);
    let back: Vec<Time> = (0..1000)
        .map(|client| {
            fleet.sample.spread = draw(client);
            fleet.now + retry_after(&fleet.first()).unwrap()
        })
        .collect();
    assert!(
        back.iter()
            .all(|time| fleet.now < *time && *time <= at(17.0))
    );
    assert!(fullest_bucket(&back) <= 100);
}

#[test]
fn b29a_a_forced_open_breaker_stays_open_past_its_own_time() {
    let mut fleet = opened(1);
    set_override(
        &mut fleet.record,
        order(OverrideKind::ForceOpen, at(5.0), None),
        at(5.0),
    );
    for seconds in [5.0, 10.0, 1000.0, 1e9] {
        let denied = fleet.at(seconds).first();
        assert_eq!(reason(&denied), R::ForcedOpen);
        assert_eq!(retry_after(&denied), None);
        assert_eq!(
            (fleet.state(), fleet.view().probes_out),
            (State::ForcedOpen, 0)
        );
    }
}

#[test]
fn b29b_after_a_reset_and_a_new_trip_the_old_time_means_nothing() {
    let mut fleet = opened(1);
    reset(&mut fleet.record, at(2.0));
    fleet.at(3.0).trip();
    assert_eq!(reason(&fleet.at(10.5).first()), R::BreakerOpen);
    assert_eq!(reason(&fleet.at(12.999_999_999).first()), R::BreakerOpen);
    assert!(fleet.at(13.0).first().unwrap().probe);
}

#[test]
fn b29c_forced_closed_counts_and_never_opens_and_its_release_forgets() {
    let mut fleet = with_probes(1);
    set_override(
        &mut fleet.record,
        order(OverrideKind::ForceClosed, at(0.0), None),
        at(0.0),
    );
    let forced = fleet.epoch();
    fleet.calls(50, FAIL);
    assert_eq!(fleet.state(), State::ForcedClosed);
    assert_eq!(fleet.view().counts.failures, 10);
    assert!(clear_override(&mut fleet.record, at(1.0)));
    assert!(!clear_override(&mut fleet.record, at(1.0)));
    assert_eq!(fleet.at(1.0).state(), State::Closed);
    assert_eq!(fleet.view().counts.calls, 0);
    assert!(fleet.epoch() > forced);
}

#[test]
fn b29d_a_probe_that_is_out_at_a_reset_reports_into_another_epoch() {
    let mut fleet = opened(1);
    let probe = fleet.at(10.0).first().unwrap().permit;
    reset(&mut fleet.record, at(11.0));
    assert_eq!(fleet.at(11.0).state(), State::Closed);
    assert_eq!(fleet.report(probe, FAIL), Reported::StaleEpoch);
    assert_eq!(
        (fleet.state(), fleet.view().counts.calls),
        (State::Closed, 0)
    );
}

#[test]
fn a_lease_outlives_a_reset_and_counts_against_the_probes() {
    let mut policy = plain();
    policy.breaker.open_for = secs(1.0);
    let mut fleet = Fleet::new(policy);
    fleet.trip();
    let probe = fleet.at(1.0).first().unwrap().permit;
    reset(&mut fleet.record, at(1.5));
    fleet.at(1.5).trip();
    assert_eq!(reason(&fleet.at(2.5).first()), R::ProbeInProgress);
    assert_eq!(fleet.epoch(), 5, "half-open begins with its first lease");
    let mut reported = fleet.clone();
    assert_eq!(reported.at(3.0).report(probe, OK), Reported::StaleEpoch);
    assert!(reported.first().unwrap().probe);
    assert!(fleet.at(6.0).first().unwrap().probe);
}

#[test]
fn b29e_an_override_ends_at_its_expiry_and_says_when() {
    let mut fleet = opened(1);
    let until = Some(at(20.0));
    set_override(
        &mut fleet.record,
        order(OverrideKind::ForceOpen, at(5.0), until),
        at(5.0),
    );
    let denied = fleet.at(15.0).first();
    assert_eq!(
        (reason(&denied), retry_after(&denied)),
        (R::ForcedOpen, Some(secs(5.0)))
    );
    assert_eq!(reason(&fleet.at(19.999_999_999).first()), R::ForcedOpen);
    fleet.at(20.0);
    assert_eq!(fleet.state(), State::Closed);
    assert!(fleet.first().is_ok());
    let (from, to) = *fleet.transitions().last().unwrap();
    assert_eq!((from, to), (State::ForcedOpen, State::Closed));
}

#[test]
fn an_override_that_expires_in_half_open_leaves_the_breaker_closed() {
    let mut fleet = opened(1);
    let probe = fleet.at(10.0).first().unwrap().permit;
    let until = Some(at(12.0));
    set_override(
        &mut fleet.record,
        order(OverrideKind::ForceClosed, at(11.0), until),
        at(11.0),
    );
    assert!(!fleet.at(11.0).first().unwrap().probe);
    assert_eq!(fleet.at(12.5).report(probe, FAIL), Reported::StaleEpoch);
    assert_eq!(
        (fleet.state(), fleet.view().in_state_for),
        (State::Closed, secs(0.5))
    );
}

#[test]
fn an_expired_override_is_shown_as_ended_before_any_event_meets_it() {
    let mut fleet = with_probes(1);
    let until = Some(at(2.0));
    set_override(
        &mut fleet.record,
        order(OverrideKind::ForceOpen, at(1.0), until),
        at(1.0),
    );
    fleet.at(7.0);
    let before = fleet.view();
    assert_eq!(
        (before.state, before.in_state_for),
        (State::Closed, secs(5.0))
    );
    assert!(
        !clear_override(&mut fleet.record, at(7.0)),
        "there is none any more"
    );
    assert_eq!(fleet.view().in_state_for, secs(5.0));
    assert_eq!(
        fleet.transitions().last(),
        Some(&(State::ForcedOpen, State::Closed))
    );
}

#[test]
fn b29c_what_was_counted_under_an_override_is_not_shown_once_it_has_expired() {
    let mut fleet = with_probes(1);
    let until = Some(at(2.0));
    set_override(
        &mut fleet.record,
        order(OverrideKind::ForceClosed, at(1.0), until),
        at(1.0),
    );
    fleet.at(1.5).calls(6, FAIL);
    assert_eq!(fleet.view().counts.failures, 6);
    fleet.at(2.1);
    let view = fleet.view();
    assert_eq!(
        (view.counts.calls, view.suspicion, view.cause),
        (0, 0.0, Cause::OverrideExpired)
    );
}

#[test]
fn b37a_reading_shows_half_open_and_takes_nothing() {
    let mut fleet = opened(1);
    fleet.at(60.0);
    let before = format!("{:?}", fleet.record);
    let view = fleet.view();
    assert_eq!(
        (view.state, view.in_state_for),
        (State::HalfOpen, secs(50.0))
    );
    assert_eq!((view.probes_out, view.epoch), (0, 2));
    assert_eq!(format!("{:?}", fleet.record), before);
    assert!(fleet.first().unwrap().probe);
    assert_eq!(fleet.epoch(), 3);
}

#[test]
fn b37c_a_breaker_tells_open_to_half_open_to_closed() {
    let mut fleet = opened(1);
    fleet.at(10.0).call(OK);
    let told = fleet.transitions();
    let expected = [
        (State::Closed, State::Open),
        (State::Open, State::HalfOpen),
        (State::HalfOpen, State::Closed),
    ];
    assert_eq!(told, expected);
}

#[test]
fn each_open_period_is_longer_up_to_the_longest_and_short_again_after_health() {
    let mut policy = plain();
    policy.breaker.open_multiplier = 2.0;
    let mut fleet = Fleet::new(policy);
    fleet.trip();
    let mut now = 0.0;
    for expected in [10.0, 20.0, 40.0, 60.0, 60.0] {
        assert_eq!(fleet.view().open_for, Some(secs(expected)));
        now += expected;
        fleet.at(now).call(FAIL);
    }
    now += 60.0;
    fleet.at(now).call(OK);
    assert_eq!(fleet.state(), State::Closed);
    let mut soon = fleet.clone();
    soon.at(now + 59.9).trip();
    assert_eq!(soon.view().open_for, Some(secs(60.0)));
    fleet.at(now + 60.0).trip();
    assert_eq!(fleet.view().open_for, Some(secs(10.0)));
}

#[test]
fn a_reload_lets_an_open_period_end_at_its_time_and_the_next_one_is_the_new_one() {
    let mut fleet = opened(1);
    fleet.policy.breaker.open_for = secs(1.0);
    assert_eq!(reason(&fleet.at(9.999).first()), R::BreakerOpen);
    fleet.at(10.0).call(FAIL);
    assert_eq!(fleet.view().open_for, Some(secs(1.0)));
}

#[test]
fn a_reload_to_fewer_probes_leases_none_until_enough_have_ended() {
    let mut fleet = opened(3);
    fleet.at(10.0);
    let probes: Vec<_> = (0..3).map(|_| fleet.first().unwrap().permit).collect();
    fleet.policy.breaker.probes = 1;
    assert_eq!(reason(&fleet.first()), R::ProbeInProgress);
    fleet.report(probes[0], IGNORED);
    fleet.report(probes[1], IGNORED);
    assert_eq!(reason(&fleet.first()), R::ProbeInProgress);
    fleet.report(probes[2], IGNORED);
    assert!(fleet.first().unwrap().probe);
}

#[test]
fn a_reload_that_changes_the_window_begins_a_new_one_and_never_panics() {
    let mut fleet = with_probes(1);
    fleet.calls(4, FAIL);
    for size in [
        WindowSize::Calls(3),
        WindowSize::Time(secs(10.0)),
        WindowSize::Time(Nanos(1)),
        WindowSize::Calls(10_000),
    ] {
        fleet.policy.breaker.detect = Detect::Window(Window {
            size,
            ..Window::default()
        });
        fleet.call(FAIL);
        assert_eq!(fleet.view().counts.calls, 1);
    }
    fleet.policy.breaker.detect = Detect::Adaptive;
    fleet.call(FAIL);
    assert_eq!(fleet.view().counts.calls, 0);
}

#[test]
fn in_shadow_everything_passes_and_the_would_be_state_is_shown() {
    let mut policy = plain();
    policy.breaker.mode = Mode::Shadow;
    let mut fleet = Fleet::new(policy);
    for _ in 0..5 {
        let permit = fleet.first().unwrap().permit;
        fleet.report(permit, FAIL);
    }
    assert_eq!(
        (fleet.state(), fleet.view().shadow),
        (State::Closed, Some(State::Open))
    );
    assert!(fleet.at(5.0).first().is_ok());
    fleet.at(10.0);
    assert!(fleet.hedge(1).is_ok(), "a hedge passes too");
    let would_be = fleet.first().unwrap();
    assert!(!would_be.probe && would_be.permit.kind == PermitKind::Call);
    assert!(fleet.first().is_ok() && fleet.hedge(1).is_ok());
    fleet.report(would_be.permit, OK);
    assert_eq!(fleet.view().shadow, Some(State::Closed));
}

#[test]
fn off_keeps_no_evidence_and_orders_still_hold() {
    let mut policy = plain();
    policy.breaker.mode = Mode::Off;
    let mut fleet = Fleet::new(policy);
    fleet.calls(50, FAIL);
    assert_eq!(
        (fleet.state(), fleet.view().counts.calls),
        (State::Closed, 0)
    );
    set_override(
        &mut fleet.record,
        order(OverrideKind::ForceOpen, at(0.0), None),
        at(0.0),
    );
    assert_eq!(reason(&fleet.first()), R::ForcedOpen);
}

#[test]
fn a_breaker_of_retries_spares_first_attempts_and_refuses_retries_and_hedges() {
    let mut fleet = with_probes(1);
    fleet.policy.breaker.applies_to = AppliesTo::Retries;
    let early = fleet.first().unwrap().permit;
    fleet.trip();
    assert!(!fleet.at(1.0).first().unwrap().probe);
    assert_eq!(reason(&fleet.retry(2, early, FAIL).verdict), R::BreakerOpen);
    assert_eq!(reason(&fleet.hedge(1)), R::HedgeRefused);
    let probe = fleet.at(10.0).first().unwrap();
    assert!(probe.probe, "a first attempt takes a free lease");
    let uncounted = fleet.first().unwrap();
    assert!(!uncounted.probe, "or passes uncounted");
    assert_eq!(fleet.report(uncounted.permit, FAIL), Reported::Ok);
    assert_eq!(fleet.state(), State::HalfOpen);
    fleet.report(probe.permit, OK);
    assert_eq!(fleet.state(), State::Closed);
    set_override(
        &mut fleet.record,
        order(OverrideKind::ForceOpen, at(10.0), None),
        at(10.0),
    );
    assert_eq!(
        reason(&fleet.first()),
        R::ForcedOpen,
        "an order refuses both"
    );
}

#[test]
fn a_spared_first_attempt_that_has_to_wait_passes_without_a_lease() {
    let mut fleet = opened(1);
    fleet.policy.breaker.applies_to = AppliesTo::Retries;
    fleet.policy.rate = Some(Rate {
        per_second: 1.0,
        burst: 1,
        max_wait: secs(5.0),
        per_caller: false,
    });
    fleet.at(5.0).first().unwrap();
    fleet.first().unwrap();
    let waiting = fleet.at(10.0 - 4.0).first().unwrap();
    assert!(!waiting.delay.is_zero());
    fleet.record.breaker.past_mut().open_until = fleet.now;
    let waiting = fleet.first().unwrap();
    assert!(!waiting.probe && !waiting.delay.is_zero());
}

#[test]
fn auto_spares_first_attempts_until_nearly_everything_hangs() {
    let mut fleet = with_probes(1);
    fleet.policy.breaker.applies_to = AppliesTo::Auto;
    for _ in 0..10 {
        let permit = fleet.first().unwrap().permit;
        fleet.report(permit, TIMEOUT);
    }
    assert_eq!(fleet.state(), State::Open);
    assert!(fleet.at(0.9).first().is_ok(), "the second is not over");
    assert_eq!(reason(&fleet.at(1.0).first()), R::BreakerOpen);
    fleet.at(10.0).call(OK);
    for _ in 0..10 {
        let permit = fleet.first().unwrap().permit;
        fleet.report(permit, FAIL);
    }
    assert_eq!(fleet.state(), State::Open);
    assert!(
        fleet.at(12.0).first().is_ok(),
        "they fail at once: nothing queues"
    );
}

#[test]
fn auto_counts_the_successes_that_come_in_tallies() {
    let mut fleet = with_probes(1);
    fleet.policy.breaker.applies_to = AppliesTo::Auto;
    let epoch = fleet.epoch();
    fleet.tally(Tally {
        epoch,
        first_attempts: 100,
        successes: 100,
        ..Tally::default()
    });
    let permits: Vec<_> = (0..10).map(|_| fleet.first().unwrap().permit).collect();
    for permit in permits {
        fleet.report(permit, TIMEOUT);
    }
    assert_eq!(fleet.state(), State::Open);
    assert!(
        fleet.at(1.0).first().is_ok(),
        "a tenth of the second failed"
    );
}

#[test]
fn a_slow_probe_reopens_only_where_slowness_can_open() {
    let slow = Outcome {
        latency: Some(secs(1.0)),
        ..OK
    };
    let mut windowed = opened(1);
    windowed.policy.breaker.slow_after = secs(1.0);
    let mut adaptive = windowed.clone();
    adaptive.policy.breaker.detect = Detect::Adaptive;
    windowed.at(10.0).call(slow);
    assert_eq!(windowed.state(), State::Open);
    adaptive.at(10.0).call(slow);
    assert_eq!(adaptive.state(), State::Closed);
    let mut counted = opened(1);
    counted.policy.breaker.detect = Detect::Adaptive;
    counted.policy.breaker.slow_after = secs(1.0);
    counted.policy.breaker.slow_counts_as_failure = true;
    counted.at(10.0).call(slow);
    assert_eq!(counted.state(), State::Open);
}

#[test]
fn a_hedge_is_never_a_probe() {
    let mut fleet = opened(3);
    let denied = fleet.at(10.0).hedge(1);
    assert_eq!(
        (reason(&denied), retry_after(&denied)),
        (R::HedgeRefused, None)
    );
    assert_eq!((fleet.epoch(), fleet.view().probes_out), (2, 0));
}

#[test]
fn a_probe_has_no_delay_and_a_pending_pushback_denies_it() {
    let mut fleet = with_probes(1);
    fleet.policy.retry.initial_delay = secs(3.0);
    let early = fleet.first().unwrap().permit;
    let told = fleet.first().unwrap().permit;
    fleet.trip();
    let probe = fleet.at(10.0).retry(2, early, FAIL).verdict.unwrap();
    assert!(probe.probe && probe.delay.is_zero());
    fleet.report(probe.permit, IGNORED);
    let outcome = Outcome {
        pushback: Some(secs(2.0)),
        ..FAIL
    };
    let denied = fleet.retry(2, told, outcome);
    assert_eq!(reason(&denied.verdict), R::Held);
    assert!(retry_after(&denied.verdict).unwrap() >= secs(2.0));
    assert_eq!(fleet.view().probes_out, 0);
}

#[test]
fn a_probe_at_attempt_two_takes_a_token_and_is_denied_without_one() {
    let mut fleet = with_probes(1);
    fleet.policy.budget.floor_micros_per_second = 0;
    fleet.policy.budget.ratio = Share::ZERO;
    let early = fleet.first().unwrap().permit;
    fleet.trip();
    let denied = fleet.at(10.0).retry(2, early, FAIL);
    assert_eq!(reason(&denied.verdict), R::BudgetExhausted);
    assert_eq!(
        (fleet.view().probes_out, fleet.epoch()),
        (0, 2),
        "and nothing is leased"
    );
    fleet.policy.budget.floor_micros_per_second = 100_000;
    let granted = fleet.retry(2, early, FAIL).verdict.unwrap();
    assert!(granted.probe);
    assert_eq!(fleet.view().budget.retries, 1);
}

#[test]
fn a_probe_that_is_throttled_gives_no_verdict() {
    let mut fleet = opened(1);
    fleet.policy.pushback.scope = PushbackScope::Dependency;
    let probe = fleet.at(10.0).first().unwrap().permit;
    let throttled = Outcome {
        pushback: Some(secs(7.0)),
        ..Outcome::of(OutcomeKind::Throttled)
    };
    assert_eq!(fleet.report(probe, throttled), Reported::Ok);
    assert_eq!(fleet.state(), State::HalfOpen);
    assert_eq!(fleet.view().held_for, Some(secs(7.0)));
    assert_eq!(
        reason(&fleet.first()),
        R::Held,
        "a probe runs at once or not at all"
    );
    assert!(fleet.at(17.0).first().unwrap().probe);
}

#[test]
fn a_client_gives_its_probe_up_before_the_lease_ends() {
    let mut fleet = opened(1);
    let probe = fleet.at(10.0).first().unwrap();
    assert_eq!(probe.permit_ttl, secs(5.0));
    assert_eq!(probe.attempt_timeout, Some(secs(4.5)));
}

#[test]
fn a_breaker_at_the_end_of_time_does_not_wrap() {
    let mut fleet = with_probes(2);
    fleet.record = holdoff_decision::Record::new(u64::MAX - 1, Time(u64::MAX - 5));
    fleet.now = Time(u64::MAX - 5);
    let permits: Vec<_> = (0..5).map(|_| fleet.first().unwrap().permit).collect();
    for permit in permits {
        fleet.report(permit, FAIL);
    }
    assert_eq!(fleet.record.breaker.phase, Phase::Open);
    assert_eq!(reason(&fleet.first()), R::BreakerOpen);
    fleet.now = Time::MAX;
    let _ = fleet.first();
    let _ = fleet.view();
}

#[test]
fn b35b_a_record_that_holds_anything_is_not_idle() {
    let idle = |fleet: &Fleet| is_idle(&fleet.record, secs(600.0), fleet.now);
    let mut fleet = with_probes(1);
    assert!(idle(fleet.at(600.0)));
    fleet.trip();
    assert!(!idle(fleet.at(10_000.0)), "open or half-open");
    let mut held = with_probes(1);
    held.record.hold_until(at(10_000.0));
    assert!(!idle(held.at(9_999.0)));
    let mut ordered = with_probes(1);
    set_override(
        &mut ordered.record,
        order(OverrideKind::ForceClosed, at(0.0), None),
        at(0.0),
    );
    assert!(!idle(ordered.at(10_000.0)));
    let mut out = with_probes(1);
    out.policy.breaker.permit_ttl = secs(3600.0);
    out.first().unwrap();
    assert!(!idle(out.at(3599.0)));
    let mut limited = with_probes(1);
    limited.policy.rate = Some(Rate {
        per_second: 0.001,
        burst: 1,
        max_wait: secs(0.0),
        per_caller: true,
    });
    limited.call(OK);
    assert!(
        !idle(limited.at(999.0)),
        "a new record would forget what the rate owes"
    );
    assert!(idle(limited.at(1000.0)));
}

#[test]
fn a_first_attempt_on_pushed_state_counts_once_and_only_in_its_epoch() {
    let mut fleet = with_probes(1);
    let ask = |epoch, call| holdoff_decision::Ask {
        call: Some(call),
        idempotent: false,
        ..an_ask(Question::Retry {
            attempt: 2,
            previous: Previous {
                made_under: MadeUnder::Epoch(epoch),
                outcome: FAIL,
            },
        })
    };
    let first = fleet.ask(ask(1, 7));
    assert_eq!(
        (first.previous, reason(&first.verdict)),
        (Some(Reported::Ok), R::RetryUnsafe)
    );
    let again = fleet.ask(ask(1, 7));
    assert_eq!(again.previous, Some(Reported::Duplicate));
    assert_eq!(reason(&again.verdict), R::RetryUnsafe, "judged afresh");
    assert_eq!(fleet.view().counts.failures, 1);
    assert_eq!(fleet.view().budget.first_attempts, 1);
    assert_eq!(fleet.ask(ask(9, 8)).previous, Some(Reported::StaleEpoch));
    assert_eq!(fleet.view().counts.failures, 1);
    assert_eq!(
        fleet.view().budget.first_attempts,
        2,
        "it was a first attempt all the same"
    );
}

#[test]
fn only_what_was_a_first_attempt_deposits() {
    let mut fleet = with_probes(1);
    fleet.ask(an_ask(Question::Retry {
        attempt: 3,
        previous: Previous {
            made_under: MadeUnder::Epoch(1),
            outcome: FAIL,
        },
    }));
    assert_eq!(fleet.view().budget.first_attempts, 0);
}

/// A service that is started anew in the middle of an outage still knows what to climb back to.
#[test]
fn a_restart_forgets_neither_what_the_dependency_did_in_health_nor_its_ramp() {
    let mut policy = plain();
    policy.ramp.start = Share::from_ratio(0.5).unwrap();
    let mut fleet = Fleet::new(policy);
    for _ in 0..3_000 {
        fleet.now = fleet.now + Nanos::from_millis(10);
        let permit = fleet.first().unwrap().permit;
        fleet.report(permit, OK);
    }
    while fleet.state() == State::Closed {
        let permit = fleet.first().unwrap().permit;
        fleet.report(permit, FAIL);
    }
    let kept = checkpoint(&fleet.record, fleet.now);
    let usual = kept.usual.unwrap();
    assert!(
        (90_000..=110_000).contains(&usual.per_kilosecond),
        "{usual:?}"
    );
    fleet.record = restore(&kept, fleet.now);
    fleet.restarted = Some(Restart::after_another(fleet.now));
    fleet.now = fleet.now + secs(60.0);
    while fleet.state() != State::Recovering {
        let probe = fleet.first().unwrap();
        assert!(probe.probe);
        fleet.report(probe.permit, OK);
    }
    let curve = fleet.view().curve.unwrap();
    assert!((40.0..=60.0).contains(&curve.per_second), "{curve:?}");
}
