mod vectors;

use std::time::Duration;

use holdoff_decision::{DenialReason as Rule, Permit};

use super::*;
use crate::outcome::OutcomeKind;

const MIDDLE: Sample = Sample {
    jitter: 0.5,
    spread: 0.5,
};

fn at(millis: u64) -> Time {
    Time::ORIGIN + Nanos::from_millis(millis)
}

fn first() -> Asked {
    Asked {
        kept: None,
        question: Question::First,
        idempotent: true,
        time_left: None,
        cost: 0,
        priority: Priority::Normal,
        strictness: Strictness::All,
    }
}

fn retry(attempt: u32, permit: Permit, outcome: &Outcome) -> Asked {
    Asked {
        question: Question::Retry {
            attempt,
            previous: Previous {
                made_under: MadeUnder::Permit(permit),
                outcome: outcome.as_decision(),
            },
        },
        ..first()
    }
}

/// A process on its own that calls one dependency.
struct Alone {
    local: Local,
    name: Arc<str>,
}

impl Alone {
    fn new() -> Self {
        Self {
            local: Local::new(policy()),
            name: Arc::from("payments"),
        }
    }

    fn ask(&self, asked: &Asked, millis: u64) -> Result<Grant, Denied> {
        self.local.ask(&self.name, asked, at(millis), MIDDLE)
    }

    fn first(&self, millis: u64) -> Result<Grant, Denied> {
        self.ask(&first(), millis)
    }

    fn report(&self, grant: &Grant, outcome: &Outcome, millis: u64) {
        self.local
            .report(&self.name, &grant.permit, outcome, at(millis));
    }

    /// Fails calls until one is denied; how many were made.
    fn fail_until_denied(&self, millis: u64) -> u32 {
        let mut calls = 0;
        while let Ok(grant) = self.first(millis) {
            self.report(&grant, &Outcome::failure(), millis);
            calls += 1;
            assert!(calls < 100, "it never opens");
        }
        calls
    }
}

#[test]
fn b31g_alone_retries_wait_by_the_policys_jittered_backoff() {
    let alone = Alone::new();
    let failed = Outcome::failure();
    let mut grant = alone.first(0).unwrap();
    assert_eq!(grant.delay, Nanos::ZERO);
    for (attempt, millis) in [(2, 50), (3, 100)] {
        grant = alone
            .ask(&retry(attempt, grant.permit, &failed), 0)
            .unwrap();
        assert_eq!(grant.delay, Nanos::from_millis(millis));
    }
    let fourth = alone.ask(&retry(4, grant.permit, &failed), 0).unwrap_err();
    assert_eq!(fourth.reason, DenialReason::AttemptsExhausted);
}

#[test]
fn b07_alone_a_pushback_is_a_floor_and_grpcs_restarts_the_backoff() {
    let alone = Alone::new();
    let grant = alone.first(0).unwrap();
    let told = Outcome::failure().grpc_pushback(Duration::from_secs(1));
    let second = alone.ask(&retry(2, grant.permit, &told), 0).unwrap();
    assert_eq!(second.delay, Nanos::from_millis(1_500));
    let third = alone.ask(&retry(3, second.permit, &told), 0).unwrap();
    assert_eq!(third.permit.retry, 1);
    let grant = alone.first(0).unwrap();
    let long = Outcome::failure().pushback(Duration::from_secs(61));
    let denied = alone.ask(&retry(2, grant.permit, &long), 0).unwrap_err();
    assert_eq!(denied.reason, DenialReason::PushbackTooLong);
    assert!(denied.retry_after >= Some(Duration::from_secs(61)));
}

#[test]
fn cl3_alone_retries_are_at_most_a_tenth_of_the_calls_and_one_a_second() {
    let alone = Alone::new();
    let throttled = Outcome::new(OutcomeKind::Throttled);
    let mut retries = 0;
    for _ in 0..1_000 {
        let grant = alone.first(0).unwrap();
        retries += u32::from(alone.ask(&retry(2, grant.permit, &throttled), 0).is_ok());
    }
    assert!((100..=110).contains(&retries), "{retries}");
}

#[test]
fn alone_five_straight_failures_open_it_and_one_caller_probes() {
    let alone = Alone::new();
    assert_eq!(alone.fail_until_denied(0), 5);
    let denied = alone.first(0).unwrap_err();
    assert_eq!(
        (denied.reason, denied.by),
        (DenialReason::BreakerOpen, DeniedBy::Local)
    );
    assert_eq!(denied.retry_after, Some(Duration::from_secs(11)));

    let probe = alone.first(10_000).unwrap();
    assert!(probe.probe);
    assert_eq!(probe.permit_ttl, Nanos::from_secs(5));
    let second = alone.first(10_001).unwrap_err();
    assert_eq!(second.reason, DenialReason::ProbeInProgress);
    alone.report(&probe, &Outcome::failure(), 10_100);
    let longer = alone.first(10_100).unwrap_err();
    assert_eq!(longer.retry_after, Some(Duration::from_secs(21)));
}

#[test]
fn alone_a_probe_that_never_reports_leaves_the_next_one_free_and_two_successes_close() {
    let alone = Alone::new();
    alone.fail_until_denied(0);
    alone.first(10_000).unwrap();
    for millis in [15_000, 15_100] {
        let probe = alone.first(millis).unwrap();
        assert!(probe.probe);
        alone.report(&probe, &Outcome::success(), millis + 50);
    }
    assert!(!alone.first(15_200).unwrap().probe);
}

#[test]
fn b19_alone_a_late_outcome_of_an_earlier_epoch_changes_nothing() {
    let alone = Alone::new();
    let late = alone.first(0).unwrap();
    alone.fail_until_denied(0);
    alone.first(10_000).unwrap();
    alone.report(&late, &Outcome::success(), 10_001);
    let answer = alone.first(10_002).unwrap_err();
    assert_eq!(answer.reason, DenialReason::ProbeInProgress);
}

#[test]
fn an_open_state_that_the_fleet_told_is_kept_to_its_end_and_five_minutes_at_most() {
    let alone = Alone::new();
    let told = |wait| {
        let denied = Denied::new(DeniedBy::Fleet, DenialReason::BreakerOpen, "").after(wait);
        alone.local.remember(&alone.name, &denied, at(0));
    };
    told(Some(Duration::from_secs(8)));
    let denied = alone.first(3_000).unwrap_err();
    assert_eq!(denied.by, DeniedBy::Local);
    assert_eq!(denied.retry_after, Some(Duration::from_secs(5)));
    assert!(alone.first(8_000).is_ok());

    for wait in [None, Some(Duration::MAX)] {
        told(wait);
        assert!(alone.first(299_999).is_err());
        assert!(alone.first(300_000).is_ok());
    }
}

#[test]
fn an_outcome_counts_here_also_while_the_fleets_denial_holds() {
    let alone = Alone::new();
    let grants: Vec<Grant> = (0..5).map(|_| alone.first(0).unwrap()).collect();
    let denied = Denied::new(DeniedBy::Fleet, DenialReason::Held, "");
    let denied = denied.after(Some(Duration::from_secs(1)));
    alone.local.remember(&alone.name, &denied, at(0));
    for grant in grants {
        let asked = retry(2, grant.permit, &Outcome::failure());
        assert_eq!(alone.ask(&asked, 0).unwrap_err().reason, DenialReason::Held);
    }
    let after = alone.first(1_000).unwrap_err();
    assert_eq!(after.reason, DenialReason::BreakerOpen);
}

#[test]
fn what_the_fleet_let_go_and_no_question_tells_counts_in_this_epoch() {
    let alone = Alone::new();
    let count =
        |outcome: &Outcome, millis| alone.local.count(&alone.name, None, outcome, at(millis));
    for _ in 0..4 {
        count(&Outcome::failure(), 0);
    }
    assert!(alone.first(0).is_ok());
    for _ in 0..20 {
        count(&Outcome::success(), 0);
    }
    count(&Outcome::failure(), 0);
    assert!(alone.first(0).is_ok(), "successes were counted");
    for _ in 0..4 {
        count(&Outcome::failure(), 0);
    }
    let denied = alone.first(0).unwrap_err();
    assert_eq!(denied.reason, DenialReason::BreakerOpen);
    // A probe of its own decides, whatever else ends.
    let probe = alone.first(10_000).unwrap();
    count(&Outcome::failure(), 10_000);
    alone.report(&probe, &Outcome::success(), 10_001);
    assert!(alone.first(10_002).unwrap().probe);
}

#[test]
fn what_the_fleet_let_go_deposits_here_too() {
    let retries = |counted| {
        let alone = Alone::new();
        for _ in 0..counted {
            alone
                .local
                .count(&alone.name, None, &Outcome::success(), at(0));
        }
        let throttled = Outcome::new(OutcomeKind::Throttled);
        let permits: Vec<Permit> = (0..100).map(|_| alone.first(0).unwrap().permit).collect();
        let is_granted = |permit: &&Permit| alone.ask(&retry(2, **permit, &throttled), 0).is_ok();
        permits.iter().take_while(is_granted).count()
    };
    assert_eq!(retries(100), retries(0) + 10, "a tenth");
}

#[test]
fn what_the_fleet_denied_binds_nothing_that_it_let_go_but_the_own_breaker_does() {
    let alone = Alone::new();
    let denied = Denied::new(DeniedBy::Fleet, DenialReason::BreakerOpen, "");
    alone.local.remember(&alone.name, &denied, at(0));
    let let_go = Asked {
        strictness: Strictness::OwnRecord,
        ..first()
    };
    for _ in 0..5 {
        let grant = alone.ask(&let_go, 0).unwrap();
        alone.report(&grant, &Outcome::failure(), 0);
    }
    let denied = alone.ask(&let_go, 0).unwrap_err();
    assert_eq!(denied.retry_after, Some(Duration::from_secs(11)));
    assert!(alone.first(299_999).is_err(), "the fleet's word stands");
}

#[test]
fn a_bypass_lets_all_first_attempts_through() {
    let alone = Alone::new();
    alone.fail_until_denied(0);
    let asked = Asked {
        strictness: Strictness::RetriesOnly,
        ..first()
    };
    assert!((0..100).all(|_| alone.ask(&asked, 0).is_ok()));
}

#[test]
fn the_rules_reasons_are_this_clients_words() {
    let denial = decision::Denial {
        reason: Rule::BudgetExhausted,
        retry_after: None,
        facts: decision::permit::Facts::None,
    };
    assert_eq!(Denied::local(&denial).reason, DenialReason::BudgetExhausted);
}

#[test]
fn more_dependencies_than_are_kept_share_one_record_and_memory_stays_bounded() {
    let local = Local::new(policy());
    for number in 0..DEPENDENCIES_MAX + 100 {
        let name = Arc::from(format!("d{number}"));
        local.ask(&name, &first(), at(0), MIDDLE).unwrap();
    }
    assert!(local.lock().len() <= DEPENDENCIES_MAX + 1);
}
