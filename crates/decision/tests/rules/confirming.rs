//! Asking again just before a call that was delayed for long.

use holdoff_decision::{
    Ask, DenialReason as R, Nanos, Outcome, OutcomeKind, Permit, Question, Reported, Share, State,
    Tally,
    operate::{reset, set_override},
    policy::{AppliesTo, PushbackScope},
    record::{Override, OverrideKind},
};

use crate::fleet::{FAIL, Fleet, OK, an_ask, at, plain, reason, secs};

/// A retry promised at 0 for 5 s later, one token taken.
fn promised() -> (Fleet, Permit) {
    let mut policy = plain();
    policy.retry.initial_delay = secs(5.0);
    policy.budget.ratio = Share::ZERO;
    policy.budget.floor_micros_per_second = 1_000_000;
    let mut fleet = Fleet::new(policy);
    let first = fleet.first().unwrap().permit;
    let grant = fleet.retry(2, first, FAIL).verdict.unwrap();
    assert!(grant.confirm && grant.delay == secs(5.0));
    assert_eq!(fleet.view().budget.retries, 1);
    (fleet, grant.permit)
}

#[test]
fn only_delays_above_one_second_are_confirmed() {
    let mut fleet = Fleet::new(plain());
    for (delay, confirm) in [(0, false), (1_000_000_000, false), (1_000_000_001, true)] {
        fleet.policy.retry.initial_delay = Nanos(delay);
        let first = fleet.first().unwrap().permit;
        assert_eq!(
            fleet
                .retry(2, first, Outcome::of(OutcomeKind::NotSent))
                .verdict
                .unwrap()
                .confirm,
            confirm
        );
    }
}

#[test]
fn a_confirmation_that_holds_costs_and_changes_nothing_however_often() {
    let (mut fleet, permit) = promised();
    let before = fleet.at(4.0).view();
    for _ in 0..3 {
        let kept = fleet.confirm(permit).unwrap();
        assert_eq!((kept.permit, kept.delay), (permit, secs(1.0)));
        assert_eq!(kept.permit_ttl, secs(60.0));
        assert!(!kept.confirm);
    }
    assert_eq!(fleet.view(), before);
    assert_eq!(
        fleet.at(7.0).confirm(permit).unwrap().permit_ttl,
        secs(58.0)
    );
}

#[test]
fn a_confirmation_refused_by_the_breaker_gives_the_token_back_and_voids_the_permit() {
    let (mut fleet, permit) = promised();
    fleet.trip();
    assert_eq!(reason(&fleet.at(4.0).confirm(permit)), R::BreakerOpen);
    assert_eq!(fleet.view().budget.retries, 0);
    assert_eq!(reason(&fleet.confirm(permit)), R::PermitVoid);
    assert_eq!(fleet.view().budget.retries, 0, "and only once");
    assert_eq!(fleet.report(permit, OK), Reported::Duplicate);
}

#[test]
fn a_confirmation_in_another_closed_epoch_gives_a_permit_of_this_one_for_the_same_token() {
    let (mut fleet, permit) = promised();
    reset(&mut fleet.record, at(1.0));
    let kept = fleet.at(3.0).confirm(permit).unwrap();
    assert_ne!(kept.permit.serial, permit.serial);
    assert_eq!((kept.permit.epoch, kept.delay), (fleet.epoch(), secs(2.0)));
    assert_eq!(kept.permit.retry, permit.retry);
    assert_eq!(fleet.view().budget.retries, 1);
    assert_eq!(fleet.report(permit, FAIL), Reported::Duplicate);
    assert_eq!(fleet.at(5.0).report(kept.permit, FAIL), Reported::Ok);
}

#[test]
fn the_answer_of_a_lost_confirmation_is_the_same_permit() {
    let (mut fleet, permit) = promised();
    reset(&mut fleet.record, at(1.0));
    let kept = fleet.at(3.0).confirm(permit).unwrap();
    let again = fleet.at(3.5).confirm(permit).unwrap();
    assert_eq!((again.permit, again.delay), (kept.permit, secs(1.5)));
    let own = fleet.confirm(kept.permit).unwrap();
    assert_eq!(own.permit, kept.permit);
}

#[test]
fn a_lost_confirmation_is_judged_by_what_is_true_now() {
    let (mut fleet, permit) = promised();
    reset(&mut fleet.record, at(1.0));
    fleet.at(3.0).confirm(permit).unwrap();
    fleet.trip();
    assert_eq!(reason(&fleet.confirm(permit)), R::BreakerOpen);
    assert_eq!(reason(&fleet.confirm(permit)), R::PermitVoid);
    assert_eq!(fleet.view().budget.retries, 0);
}

#[test]
fn a_token_returns_to_the_window_it_was_taken_in() {
    let (mut fleet, permit) = promised();
    reset(&mut fleet.record, at(1.0));
    let kept = fleet.at(4.0).confirm(permit).unwrap();
    let other = fleet.first().unwrap().permit;
    fleet.retry(2, other, FAIL).verdict.unwrap();
    assert_eq!(fleet.view().budget.retries, 2);
    fleet.trip();
    assert_eq!(reason(&fleet.at(4.5).confirm(kept.permit)), R::BreakerOpen);
    assert_eq!(fleet.view().budget.retries, 1);
    assert_eq!(
        fleet.at(12.0).view().budget.retries,
        1,
        "the other one, granted at 4"
    );
}

#[test]
fn in_half_open_a_confirmation_leases_a_probe_or_is_refused() {
    let (mut fleet, permit) = promised();
    fleet.trip();
    let probe = fleet.at(10.0).confirm(permit).unwrap();
    assert!(probe.probe && probe.delay.is_zero());
    assert_eq!(fleet.view().probes_out, 1);
    assert_eq!(fleet.report(probe.permit, OK), Reported::Ok);
    assert_eq!(fleet.state(), State::Closed);
}

#[test]
fn in_half_open_without_a_free_lease_a_confirmation_is_refused() {
    let (mut fleet, permit) = promised();
    fleet.trip();
    assert!(fleet.at(10.0).first().unwrap().probe);
    assert_eq!(reason(&fleet.confirm(permit)), R::ProbeInProgress);
    assert_eq!(fleet.view().budget.retries, 0);
}

#[test]
fn the_confirmation_of_a_live_probe_holds() {
    let mut fleet = Fleet::new(plain());
    fleet.trip();
    let probe = fleet.at(10.0).first().unwrap();
    let kept = fleet.at(11.0).confirm(probe.permit).unwrap();
    assert!(kept.probe);
    assert_eq!((kept.permit, kept.permit_ttl), (probe.permit, secs(4.0)));
    assert!(kept.attempt_timeout.unwrap() <= secs(3.6));
    assert_eq!(fleet.view().probes_out, 1);
    assert_eq!(reason(&fleet.at(15.0).confirm(probe.permit)), R::PermitVoid);
}

#[test]
fn a_probe_that_is_confirmed_after_a_reset_is_an_ordinary_call() {
    let mut fleet = Fleet::new(plain());
    fleet.trip();
    let probe = fleet.at(10.0).first().unwrap().permit;
    reset(&mut fleet.record, at(11.0));
    let kept = fleet.at(11.0).confirm(probe).unwrap();
    assert!(!kept.probe && kept.attempt_timeout.is_none());
    assert_eq!(fleet.view().probes_out, 0, "its lease returned");
    assert_eq!(fleet.report(kept.permit, OK), Reported::Ok);
}

#[test]
fn a_forced_breaker_refuses_a_confirmation_and_an_expired_permit_is_void() {
    let (mut fleet, permit) = promised();
    let mut late = fleet.clone();
    assert_eq!(reason(&late.at(65.0).confirm(permit)), R::PermitVoid);
    let order = Override {
        kind: OverrideKind::ForceOpen,
        owner: "ops".into(),
        reason: String::new(),
        set_at: at(1.0),
        expires: None,
    };
    set_override(&mut fleet.record, order, at(1.0));
    assert_eq!(reason(&fleet.at(4.0).confirm(permit)), R::ForcedOpen);
    assert_eq!(fleet.view().budget.retries, 0);
}

#[test]
fn a_confirmation_that_no_longer_fits_is_refused_and_refunded() {
    let (mut fleet, permit) = promised();
    let ask = |left| Ask {
        time_left: Some(left),
        ..an_ask(Question::Confirm(permit))
    };
    assert!(fleet.at(4.0).ask(ask(secs(1.000_000_001))).verdict.is_ok());
    assert_eq!(reason(&fleet.ask(ask(secs(1.0))).verdict), R::Deadline);
    assert_eq!(fleet.view().budget.retries, 0);
}

#[test]
fn a_used_or_unknown_permit_cannot_be_confirmed() {
    let (mut fleet, permit) = promised();
    fleet.at(5.0).report(permit, FAIL);
    assert_eq!(reason(&fleet.confirm(permit)), R::PermitVoid);
    for serial in [permit.serial + 1, 64, u64::MAX] {
        let forged = Permit { serial, ..permit };
        assert_eq!(reason(&fleet.confirm(forged)), R::PermitVoid);
    }
    assert_eq!(fleet.view().budget.retries, 1);
}

#[test]
fn a_hold_that_was_waited_for_already_moves_no_place() {
    let mut policy = plain();
    policy.pushback.scope = PushbackScope::Dependency;
    let mut fleet = Fleet::new(policy);
    let told = fleet.first().unwrap().permit;
    let throttled = Outcome {
        pushback: Some(secs(10.0)),
        ..Outcome::of(OutcomeKind::Throttled)
    };
    fleet.report(told, throttled);
    fleet.sample.spread = 0.1;
    let place = fleet.first().unwrap();
    assert_eq!(place.delay, secs(10.1));
    fleet.sample.spread = 0.9;
    let kept = fleet.at(5.0).confirm(place.permit).unwrap();
    assert_eq!((kept.permit, kept.delay), (place.permit, secs(5.1)));
}

#[test]
fn a_new_hold_moves_a_promise_behind_it_with_a_permit_that_lives_so_long() {
    let (mut fleet, permit) = promised();
    fleet.policy.pushback.scope = PushbackScope::Dependency;
    fleet.policy.pushback.max = secs(600.0);
    fleet.policy.breaker.permit_ttl = secs(20.0);
    let told = fleet.first().unwrap().permit;
    let throttled = Outcome {
        pushback: Some(secs(300.0)),
        ..Outcome::of(OutcomeKind::Throttled)
    };
    fleet.at(1.0).report(told, throttled);
    let moved = fleet.at(4.0).confirm(permit).unwrap();
    assert_eq!(moved.delay, secs(297.0));
    assert!(moved.confirm && moved.permit.serial != permit.serial);
    assert_eq!(fleet.at(302.0).report(moved.permit, OK), Reported::Ok);
}

#[test]
fn a_spared_first_attempt_is_confirmed_behind_a_new_hold() {
    let mut policy = plain();
    policy.breaker.applies_to = AppliesTo::Retries;
    let mut fleet = Fleet::new(policy);
    fleet.record.hold_until(at(3.0));
    let early = fleet.first().unwrap();
    assert_eq!(early.delay, secs(3.0));
    let epoch = fleet.epoch();
    fleet.tally(Tally {
        epoch,
        failures: 10,
        ..Tally::default()
    });
    assert_eq!(fleet.state(), State::Open);
    fleet.record.breaker.past_mut().open_until = at(1.0);
    fleet.record.hold_until(at(9.0));
    let kept = fleet.at(2.0).confirm(early.permit).unwrap();
    assert!(!kept.probe);
    assert_eq!(kept.delay, secs(7.0));
}

#[test]
fn a_denied_first_attempt_refunds_no_token() {
    let mut policy = plain();
    policy.pushback.scope = PushbackScope::Dependency;
    let mut fleet = Fleet::new(policy);
    let told = fleet.first().unwrap().permit;
    let throttled = Outcome {
        pushback: Some(secs(3.0)),
        ..Outcome::of(OutcomeKind::Throttled)
    };
    fleet.report(told, throttled);
    let other = fleet.first().unwrap();
    fleet.record.hold_until(holdoff_decision::Time::ORIGIN);
    fleet.hedge(1).unwrap();
    fleet.trip();
    assert_eq!(reason(&fleet.at(2.0).confirm(other.permit)), R::BreakerOpen);
    assert_eq!(fleet.view().budget.retries, 1, "the hedge keeps its own");
}
