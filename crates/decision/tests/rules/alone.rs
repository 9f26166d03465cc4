//! A replica that is alone with a record: what it answers, and what the store makes of it when it
//! is back. On the strict path a copy goes on beside the stored record; on the leased path the
//! replica's own record does.

use holdoff_decision::{
    Answer, Context, DenialReason, Nanos, Outcome, OutcomeKind, Permit, Policy, Question, Record,
    Reported, Sample, State, Tally, Time, acquire,
    alone::Terms,
    breaker::Phase,
    operate,
    policy::{AppliesTo, PushbackScope},
    record::{Arrived, Override, OverrideKind},
    report, tally,
};

use crate::fleet::{OK, after, an_ask};

const FAIL: Outcome = Outcome::of(OutcomeKind::Failure);
const START: Time = Time(1_000_000_000_000_000);

fn at(ms: u64) -> Time {
    START + Nanos::from_millis(ms)
}

fn context(now: Time) -> Context {
    Context {
        now,
        sample: Sample {
            jitter: 0.5,
            spread: 0.5,
        },
        restarted: None,
    }
}

fn terms(now: Time) -> Terms {
    Terms {
        since: now,
        replicas: 2,
        knows_all: true,
    }
}

fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.breaker.open_for = Nanos::from_secs(1);
    policy.breaker.probe_lease = Nanos::from_secs(5);
    policy.breaker.probe_successes = 1;
    policy.ramp.start = holdoff_decision::Share::ONE;
    policy
}

fn ask(policy: &Policy, record: &mut Record, question: Question, now: Time) -> Answer {
    acquire(policy, record, &an_ask(question), &context(now))
}

fn first(policy: &Policy, record: &mut Record, now: Time) -> Answer {
    ask(policy, record, Question::First, now)
}

fn tell(
    policy: &Policy,
    record: &mut Record,
    permit: &Permit,
    outcome: Outcome,
    now: Time,
) -> Reported {
    report(policy, record, permit, &outcome, 1, &context(now))
}

fn permit(answer: &Answer) -> Permit {
    answer.verdict.expect("it was granted").permit
}

fn reason(answer: &Answer) -> Option<DenialReason> {
    answer.verdict.err().map(|denial| denial.reason)
}

fn trip(policy: &Policy, record: &mut Record, now: Time) {
    for _ in 0..5 {
        let granted = permit(&first(policy, record, now));
        tell(policy, record, &granted, FAIL, now);
    }
    assert_eq!(record.breaker.phase, Phase::Open);
}

/// What the store has, and a copy of it that is alone from now on.
fn stored_and_alone(stored: &Record, now: Time) -> (Record, Record) {
    let mut alone = stored.clone();
    alone.take_changes();
    alone.become_alone(7, 0, terms(now));
    (stored.clone(), alone)
}

#[test]
fn no_probe_is_leased_while_the_store_is_unknown() {
    let policy = policy();
    let mut record = Record::new(1, START);
    trip(&policy, &mut record, at(0));
    let (_, mut alone) = stored_and_alone(&record, at(0));
    alone.look_again_in(Nanos::from_millis(300));
    assert_eq!(
        reason(&first(&policy, &mut alone, at(500))),
        Some(DenialReason::BreakerOpen),
        "it refuses as known"
    );
    for ms in [1_100, 10_000, 3_600_000] {
        let answer = first(&policy, &mut alone, at(ms));
        let denial = answer.verdict.unwrap_err();
        assert_eq!(denial.reason, DenialReason::ProbeInProgress);
        assert_eq!(answer.state, State::HalfOpen);
        let again = denial.retry_after.unwrap();
        assert!(again >= Nanos::from_millis(300), "{again}");
        assert_eq!(alone.breaker.probes_out(at(ms)), 0);
    }
}

#[test]
fn first_attempts_that_the_breaker_spares_pass_without_a_lease() {
    let mut policy = policy();
    let mut record = Record::new(1, START);
    trip(&policy, &mut record, at(0));
    policy.breaker.applies_to = AppliesTo::Retries;
    let (_, mut alone) = stored_and_alone(&record, at(0));
    let granted = first(&policy, &mut alone, at(5_000)).verdict.unwrap();
    assert!(!granted.probe);
    assert_eq!(alone.breaker.probes_out(at(5_000)), 0);
}

#[test]
fn an_override_and_a_hold_are_obeyed_from_the_copy() {
    let policy = policy();
    let mut forced = Record::new(1, START);
    let order = Override {
        kind: OverrideKind::ForceOpen,
        owner: "ada".to_owned(),
        reason: "drill".to_owned(),
        set_at: at(0),
        expires: None,
    };
    operate::set_override(&mut forced, order, at(0));
    let (_, mut alone) = stored_and_alone(&forced, at(0));
    assert_eq!(
        reason(&first(&policy, &mut alone, at(9_000_000))),
        Some(DenialReason::ForcedOpen)
    );

    let mut held = Record::new(1, START);
    held.hold_until(at(60_000));
    let (_, mut alone) = stored_and_alone(&held, at(0));
    let granted = first(&policy, &mut alone, at(1_000)).verdict.unwrap();
    assert!(granted.delay >= Nanos::from_millis(59_000));
}

#[test]
fn a_local_trip_denies_at_once_and_becomes_the_fleets_where_nobody_was_faster() {
    let policy = policy();
    let (mut stored, mut alone) = stored_and_alone(&Record::new(4, START), at(0));
    trip(&policy, &mut alone, at(10));
    assert_eq!(
        reason(&first(&policy, &mut alone, at(11))),
        Some(DenialReason::BreakerOpen)
    );
    let mut others = stored.clone();
    stored.take_alone(&policy, &alone);
    assert_eq!(
        (stored.breaker.phase, stored.breaker.epoch),
        (Phase::Open, 5)
    );
    assert_eq!(stored.take_changes().len(), 1, "it is told once");
    assert!(!stored.is_alone());

    operate::reset(&mut others, at(5));
    operate::reset(&mut others, at(6));
    let epoch = others.breaker.epoch;
    others.take_alone(&policy, &alone);
    assert_eq!(
        (others.breaker.phase, others.breaker.epoch),
        (Phase::Closed, epoch),
        "the stored epoch wins"
    );
}

#[test]
fn failures_told_to_two_replicas_that_are_alone_trip_together() {
    let policy = policy();
    let mut stored = Record::new(1, START);
    let permits: Vec<Permit> = (0..6)
        .map(|_| permit(&first(&policy, &mut stored, at(0))))
        .collect();
    let (_, mut one) = stored_and_alone(&stored, at(1));
    let (_, mut two) = stored_and_alone(&stored, at(1));
    for (number, permit) in permits.iter().enumerate() {
        let on = if number % 2 == 0 { &mut one } else { &mut two };
        assert_eq!(tell(&policy, on, permit, FAIL, at(2)), Reported::Ok);
        assert_eq!(on.breaker.phase, Phase::Closed, "three are too few");
    }
    stored.take_alone(&policy, &one);
    stored.take_alone(&policy, &two);
    assert_eq!(stored.breaker.phase, Phase::Open);
}

#[test]
fn a_permit_that_was_reported_to_two_counts_once() {
    let policy = policy();
    let mut stored = Record::new(1, START);
    let permits: Vec<Permit> = (0..3)
        .map(|_| permit(&first(&policy, &mut stored, at(0))))
        .collect();
    let (_, mut one) = stored_and_alone(&stored, at(1));
    let (_, mut two) = stored_and_alone(&stored, at(1));
    for permit in &permits {
        for on in [&mut one, &mut two] {
            assert_eq!(tell(&policy, on, permit, FAIL, at(2)), Reported::Ok);
            assert_eq!(tell(&policy, on, permit, FAIL, at(3)), Reported::Duplicate);
        }
    }
    stored.take_alone(&policy, &one);
    stored.take_alone(&policy, &two);
    assert_eq!(stored.breaker.phase, Phase::Closed, "three failed, not six");
    for permit in &permits {
        let told = tell(&policy, &mut stored, permit, FAIL, at(4));
        assert_eq!(told, Reported::Duplicate);
    }
}

#[test]
fn a_permit_of_a_replica_that_was_alone_testifies_to_nobody_else() {
    let policy = policy();
    let (mut stored, mut alone) = stored_and_alone(&Record::new(1, START), at(0));
    let given = permit(&first(&policy, &mut alone, at(1)));
    stored.take_alone(&policy, &alone);
    for _ in 0..2 {
        let told = tell(&policy, &mut stored, &given, FAIL, at(2));
        assert_eq!(told, Reported::Unknown);
        assert_eq!(
            given.told(told),
            Reported::StaleEpoch,
            "as its caller hears"
        );
    }
    let retry = Question::Retry {
        attempt: 2,
        previous: after(given, FAIL),
    };
    let answer = ask(&policy, &mut stored, retry, at(3));
    assert!(answer.verdict.is_ok(), "its caller gets a decision");
}

#[test]
fn serials_go_on_when_a_replica_is_alone_again() {
    let policy = policy();
    let record = Record::new(1, START);
    let (_, mut alone) = stored_and_alone(&record, at(0));
    let given = permit(&first(&policy, &mut alone, at(1)));
    let mut again = record.clone();
    again.become_alone(7, alone.tickets.next_serial(), terms(at(2)));
    let next = permit(&first(&policy, &mut again, at(2)));
    assert!(
        next.serial > given.serial,
        "{} {}",
        next.serial,
        given.serial
    );
    assert_ne!(tell(&policy, &mut again, &given, OK, at(3)), Reported::Ok);
}

#[test]
fn the_verdict_of_a_probe_waits_for_the_store_and_counts_then() {
    let policy = policy();
    let mut stored = Record::new(1, START);
    trip(&policy, &mut stored, at(0));
    let probe = permit(&first(&policy, &mut stored, at(1_100)));
    let (_, mut alone) = stored_and_alone(&stored, at(1_200));
    assert_eq!(
        tell(&policy, &mut alone, &probe, OK, at(1_300)),
        Reported::Ok
    );
    assert_eq!(alone.breaker.phase, Phase::HalfOpen);
    assert_eq!(alone.breaker.probes_out(at(1_300)), 1, "it is the fleet's");
    stored.take_alone(&policy, &alone);
    assert_eq!(stored.breaker.phase, Phase::Closed);

    let mut own = Record::new(1, START);
    own.become_of_replica(3);
    trip(&policy, &mut own, at(0));
    let probe = permit(&first(&policy, &mut own, at(1_100)));
    own.begin_alone(terms(at(1_200)));
    assert_eq!(tell(&policy, &mut own, &probe, OK, at(1_300)), Reported::Ok);
    assert_eq!(own.breaker.phase, Phase::HalfOpen);
    own.end_alone(&policy);
    assert_eq!(own.breaker.phase, Phase::Closed);
}

#[test]
fn what_was_granted_alone_is_in_the_budget_afterwards() {
    let mut policy = policy();
    policy.budget.floor_micros_per_second = 1_000_000;
    let (mut stored, mut alone) = stored_and_alone(&Record::new(1, START), at(0));
    let given = permit(&first(&policy, &mut alone, at(1)));
    let retry = |previous| Question::Retry {
        attempt: 2,
        previous: after(previous, FAIL),
    };
    assert!(
        ask(&policy, &mut alone, retry(given), at(2))
            .verdict
            .is_ok()
    );
    stored.take_alone(&policy, &alone);
    let level = stored.budget.level(&policy.budget, Time::ORIGIN, at(3));
    assert_eq!((level.first_attempts, level.retries), (1, 1));
}

#[test]
fn retries_alone_are_this_replicas_part() {
    let mut policy = policy();
    policy.budget.floor_micros_per_second = 1_000_000;
    let (_, mut alone) = stored_and_alone(&Record::new(1, START), at(0));
    let mut granted = 0;
    for _ in 0..20 {
        let hedge = Question::Hedge { attempt: 2 };
        granted += u32::from(ask(&policy, &mut alone, hedge, at(1)).verdict.is_ok());
    }
    assert_eq!(granted, 5, "the floor of ten for two");
}

#[test]
fn what_has_arrived_unanswered_is_not_counted_again() {
    let policy = policy();
    for (arrived, first_attempts, retries) in [(Arrived::Yes, 1, 1), (Arrived::Unknown, 1, 2)] {
        let (stored, mut alone) = stored_and_alone(&Record::new(1, START), at(0));
        let given = permit(&first(&policy, &mut alone, at(1)));
        let retry = Question::Retry {
            attempt: 2,
            previous: after(given, FAIL),
        };
        assert!(ask(&policy, &mut alone, retry, at(2)).verdict.is_ok());
        let mut sent = stored.clone();
        sent.take_alone(&policy, &alone);
        alone.doubt(&policy);
        // It is there all the same.
        alone.settle_doubt(&policy, arrived);
        sent.take_alone(&policy, &alone);
        let level = sent.budget.level(&policy.budget, Time::ORIGIN, at(3));
        assert_eq!(
            (level.first_attempts, level.retries),
            (first_attempts, retries),
            "{arrived:?}"
        );
    }
}

#[test]
fn what_has_not_arrived_is_sent_again() {
    let policy = policy();
    let (mut stored, mut alone) = stored_and_alone(&Record::new(1, START), at(0));
    for _ in 0..3 {
        first(&policy, &mut alone, at(1));
    }
    alone.doubt(&policy);
    first(&policy, &mut alone, at(2));
    stored.take_alone(&policy, &alone);
    let level = stored.budget.level(&policy.budget, Time::ORIGIN, at(3));
    assert_eq!(level.first_attempts, 4);
}

#[test]
fn a_call_that_may_be_in_the_store_deposits_nothing_and_is_not_noted() {
    let policy = policy();
    let (mut stored, mut alone) = stored_and_alone(&Record::new(1, START), at(0));
    alone.doubt_call(true);
    assert!(first(&policy, &mut alone, at(1)).verdict.is_ok());
    let counts = Tally {
        epoch: 1,
        first_attempts: 9,
        failures: 9,
        ..Tally::default()
    };
    tally(&policy, &mut alone, &counts, 1, &context(at(1)));
    alone.doubt_call(false);
    stored.take_alone(&policy, &alone);
    let level = stored.budget.level(&policy.budget, Time::ORIGIN, at(3));
    assert_eq!(level.first_attempts, 0);
}

#[test]
fn a_hold_that_was_asked_of_one_holds_all_when_the_store_is_back() {
    let mut policy = policy();
    policy.pushback.scope = PushbackScope::Dependency;
    let (mut stored, mut alone) = stored_and_alone(&Record::new(1, START), at(0));
    let given = permit(&first(&policy, &mut alone, at(1)));
    let throttled = Outcome {
        pushback: Some(Nanos::from_secs(20)),
        ..Outcome::of(OutcomeKind::Throttled)
    };
    tell(&policy, &mut alone, &given, throttled, at(2));
    stored.take_alone(&policy, &alone);
    assert_eq!(stored.held_until(), at(20_002));
}

#[test]
fn who_was_alone_is_not_told_as_silence() {
    let policy = policy();
    let mut stored = Record::new(1, START);
    for ms in 0..100 {
        first(&policy, &mut stored, at(ms * 100));
    }
    let (_, mut alone) = stored_and_alone(&stored, at(10_000));
    // Their reports went to others that are alone.
    first(&policy, &mut alone, at(200_000));
    stored.take_alone(&policy, &alone);
    stored.advance(&policy, &context(at(200_001)));
    assert_eq!(stored.breaker.phase, Phase::Closed);
}

#[test]
fn an_answer_that_was_given_alone_is_given_again_by_all() {
    let policy = policy();
    let (mut stored, mut alone) = stored_and_alone(&Record::new(1, START), at(0));
    let named = holdoff_decision::Ask {
        call: Some(99),
        ..an_ask(Question::First)
    };
    let answer = acquire(&policy, &mut alone, &named, &context(at(1)));
    stored.take_alone(&policy, &alone);
    let again = acquire(&policy, &mut stored, &named, &context(at(2)));
    assert_eq!(permit(&again).serial, permit(&answer).serial);
    let level = stored.budget.level(&policy.budget, Time::ORIGIN, at(3));
    assert_eq!(level.first_attempts, 1);
}
