//! A desk whose store is away, played by the test: every order in which an answer may be lost.

use holdoff_decision::{
    Ask, Context, Outcome as Ended, OutcomeKind, Permit, Priority, Question, Sample, acquire,
    breaker::Phase, report,
};

use super::*;
use crate::store::{
    redis::{
        desk::{Departure, Joined, Lifetimes},
        script::{Act, Outcome, Version},
    },
    stored,
    tests::a_slot,
};

const NOW: Time = Time(1_700_000_000_000_000_000);
const LIFETIMES: Lifetimes = Lifetimes {
    usual_ms: 1_000,
    protected_ms: 9_000,
};

fn how() -> Alone {
    Alone {
        terms: Terms {
            since: NOW,
            replicas: 1,
            knows_all: false,
        },
        number: 9,
        next_look: Nanos::from_millis(250),
        is_doubted: false,
    }
}

fn away() -> StoreError {
    StoreError::Unavailable("away".to_owned())
}

fn context() -> Context {
    Context {
        now: NOW,
        sample: Sample::default(),
        restarted: None,
    }
}

fn first(slot: &mut Slot) -> Permit {
    let granted = grant(slot, Question::First);
    granted.expect("it is closed")
}

fn grant(slot: &mut Slot, question: Question) -> Option<Permit> {
    let ask = Ask {
        question,
        caller: 1,
        service: 1,
        call: None,
        idempotent: true,
        time_left: None,
        priority: Priority::Normal,
        cost: 1,
    };
    let policy = slot.policy.clone();
    let answer = acquire(&policy, &mut slot.record, &ask, &context());
    answer.verdict.ok().map(|grant| grant.permit)
}

fn fail(slot: &mut Slot, permit: &Permit) {
    let (policy, ended) = (slot.policy.clone(), Ended::of(OutcomeKind::Failure));
    report(&policy, &mut slot.record, permit, &ended, 1, &context());
}

fn first_attempts(slot: &Slot) -> u64 {
    let policy = &slot.policy.budget;
    (slot.record.budget)
        .level(policy, Time::ORIGIN, NOW)
        .first_attempts
}

fn make(_: u64) -> Result<Slot, StoreError> {
    Ok(a_slot("default", "payments"))
}

fn bytes_of(slot: &Slot) -> Vec<u8> {
    let mut bytes = Vec::new();
    stored::write(slot, &mut bytes);
    bytes
}

fn version(text: &str) -> Version {
    Some(text.into())
}

fn found(at: &str, bytes: Vec<u8>) -> Result<Outcome, StoreError> {
    let version = at.into();
    Ok(Outcome::Other { version, bytes })
}

/// A desk that holds a record of this version.
fn held(at: &str) -> Desk {
    let mut desk = Desk::default();
    desk.join(make, |_| ()).unwrap();
    desk.depart(LIFETIMES, NOW).unwrap();
    desk.land(found(at, bytes_of(&make(0).unwrap())), NOW);
    desk
}

/// What a question does whose store is there again.
fn ask(desk: &mut Desk) -> Joined {
    desk.rejoin();
    desk.join(make, |slot| {
        first(slot);
    })
    .unwrap()
}

fn put(desk: &mut Desk) -> (Version, Vec<u8>) {
    let Departure { expected, act, .. } = desk.depart(LIFETIMES, NOW).unwrap();
    match act {
        Act::Put { bytes, .. } => (expected, bytes),
        act => panic!("{act:?}"),
    }
}

fn look(desk: &mut Desk) {
    let departure = desk.depart(LIFETIMES, NOW).unwrap();
    assert_eq!(departure.act, Act::Look);
}

/// Three first attempts alone, and the store is looked at: it is as it was.
fn back_after_three() -> Desk {
    let mut desk = held("10");
    for _ in 0..3 {
        desk.apply_alone(how(), |slot| {
            first(slot);
        })
        .unwrap();
    }
    ask(&mut desk);
    look(&mut desk);
    desk.land(Ok(Outcome::Done(version("10"))), NOW);
    desk
}

#[test]
fn what_is_known_of_nothing_is_not_decided_alone() {
    let mut desk = Desk::default();
    assert!(desk.apply_alone(how(), |_| ()).is_none());
    assert!(!desk.is_alone());
}

#[test]
fn what_happened_alone_is_drafted_before_whatever_is_asked_next() {
    let mut desk = back_after_three();
    let mut joined = ask(&mut desk);
    assert_eq!(first_attempts(joined.before.as_ref().unwrap()), 3);
    let (expected, bytes) = put(&mut desk);
    assert_eq!(expected, version("10"));
    let stored = stored::read(&bytes).unwrap();
    assert_eq!(first_attempts(&stored), 4);
    desk.land(Ok(Outcome::Done(version("11"))), NOW);
    assert_eq!(joined.landing.try_recv(), Ok(Landing::Swapped));
    assert!(!desk.is_alone());
    desk.rejoin();
    assert!(desk.is_idle(), "it is taken once");
}

#[test]
fn the_stored_record_of_another_goes_on_with_what_happened_here() {
    let mut desk = back_after_three();
    ask(&mut desk);
    put(&mut desk);
    let mut theirs = make(0).unwrap();
    for _ in 0..5 {
        first(&mut theirs);
    }
    desk.land(found("12", bytes_of(&theirs)), NOW);
    ask(&mut desk);
    let (expected, bytes) = put(&mut desk);
    assert_eq!(expected, version("12"));
    assert_eq!(first_attempts(&stored::read(&bytes).unwrap()), 5 + 3 + 1);
}

#[test]
fn a_swap_that_arrived_unanswered_is_recognised() {
    let mut desk = back_after_three();
    desk.rejoin();
    let (_, bytes) = put(&mut desk);
    desk.land(Err(away()), NOW);
    // One more meanwhile.
    desk.apply_alone(how(), |slot| {
        first(slot);
    })
    .unwrap();
    desk.rejoin();
    assert!(desk.is_idle(), "the store is looked at first");
    ask(&mut desk);
    look(&mut desk);
    desk.land(found("11", bytes), NOW);
    ask(&mut desk);
    let (_, bytes) = put(&mut desk);
    assert_eq!(first_attempts(&stored::read(&bytes).unwrap()), 3 + 1 + 1);
}

#[test]
fn a_swap_that_arrives_after_the_look_is_recognised_too() {
    let mut desk = back_after_three();
    desk.rejoin();
    let (_, late) = put(&mut desk);
    desk.land(Err(away()), NOW);
    ask(&mut desk);
    look(&mut desk);
    desk.land(Ok(Outcome::Done(version("10"))), NOW);
    desk.rejoin();
    let (expected, again) = put(&mut desk);
    assert_eq!((expected, &again), (version("10"), &late));
    // The late one was faster.
    desk.land(found("11", late), NOW);
    ask(&mut desk);
    let (_, bytes) = put(&mut desk);
    assert_eq!(first_attempts(&stored::read(&bytes).unwrap()), 3 + 1);
}

#[test]
fn where_nobody_can_tell_whether_it_arrived_nothing_counts_twice() {
    let mut desk = back_after_three();
    desk.rejoin();
    let (_, sent) = put(&mut desk);
    desk.land(Err(away()), NOW);
    // It arrived, and another replica went on with it.
    let mut theirs = stored::read(&sent).unwrap();
    first(&mut theirs);
    ask(&mut desk);
    look(&mut desk);
    desk.land(found("12", bytes_of(&theirs)), NOW);
    ask(&mut desk);
    let (_, bytes) = put(&mut desk);
    assert_eq!(first_attempts(&stored::read(&bytes).unwrap()), 3 + 1 + 1);
}

#[test]
fn a_question_whose_swap_may_have_arrived_is_answered_alone_and_deposits_once() {
    let mut desk = held("10");
    let mut asked = ask(&mut desk);
    let (_, sent) = put(&mut desk);
    desk.land(Err(away()), NOW);
    assert_eq!(asked.landing.try_recv(), Ok(Landing::Doubtful(away())));
    let doubted = Alone {
        is_doubted: true,
        ..how()
    };
    desk.apply_alone(doubted, |slot| {
        first(slot);
    })
    .unwrap();
    ask(&mut desk);
    look(&mut desk);
    desk.land(found("11", sent), NOW);
    ask(&mut desk);
    let (_, bytes) = put(&mut desk);
    assert_eq!(first_attempts(&stored::read(&bytes).unwrap()), 1 + 1);
}

#[test]
fn what_was_not_sent_is_not_doubted() {
    let mut desk = held("10");
    let mut asked = ask(&mut desk);
    put(&mut desk);
    desk.stay(away(), NOW);
    assert_eq!(asked.landing.try_recv(), Ok(Landing::Failed(away())));
}

#[test]
fn a_trip_here_is_told_when_it_is_the_fleets() {
    let mut desk = held("10");
    for _ in 0..5 {
        desk.apply_alone(how(), |slot| {
            let permit = first(slot);
            fail(slot, &permit);
        })
        .unwrap();
    }
    let phase = |desk: &Desk| desk.slot().unwrap().record.breaker.phase;
    assert_eq!(phase(&desk), Phase::Open, "those who look on see it");
    assert!(desk.take_news(), "who follows it here is told at once");
    let record = &desk.slot().unwrap().record;
    assert!(record.is_unshared() && record.has_changes());
    ask_nothing(&mut desk);
    look(&mut desk);
    desk.land(Ok(Outcome::Done(version("10"))), NOW);
    ask_nothing(&mut desk);
    put(&mut desk);
    assert!(!desk.take_news());
    desk.land(Ok(Outcome::Done(version("11"))), NOW);
    assert!(desk.take_news());
    let told = desk.slot_mut().unwrap().record.take_changes();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(phase(&desk), Phase::Open);
}

fn ask_nothing(desk: &mut Desk) {
    desk.rejoin();
    // What comes of it is at the desk.
    let _ = desk.join(make, |_| ()).unwrap();
}

/// A name that nobody had: one first attempt alone, the store is back, and has `theirs` or nothing.
fn back_after_a_beginning(theirs: Option<Vec<u8>>) -> Vec<u8> {
    let mut desk = Desk::default();
    assert!(desk.is_blank());
    desk.begin_here(make(0).unwrap());
    assert!(!desk.is_blank());
    desk.apply_alone(how(), |slot| {
        first(slot);
    })
    .unwrap();
    ask(&mut desk);
    let departure = desk.depart(LIFETIMES, NOW).unwrap();
    assert_eq!((departure.expected, departure.act), (None, Act::Look));
    let (answer, at) = match theirs {
        Some(bytes) => (found("7", bytes), version("7")),
        None => (Ok(Outcome::Done(None)), None),
    };
    desk.land(answer, NOW);
    ask(&mut desk);
    let (expected, bytes) = put(&mut desk);
    assert_eq!(expected, at);
    bytes
}

#[test]
fn a_name_that_began_alone_is_made_in_the_store_when_it_is_back() {
    let made = stored::read(&back_after_a_beginning(None)).unwrap();
    assert_eq!(first_attempts(&made), 2);
}

#[test]
fn a_name_that_began_alone_is_added_to_what_another_has_made_meanwhile() {
    let mut theirs = make(0).unwrap();
    for _ in 0..3 {
        first(&mut theirs);
    }
    theirs.record.breaker.epoch = 5;
    let together = stored::read(&back_after_a_beginning(Some(bytes_of(&theirs)))).unwrap();
    assert_eq!(first_attempts(&together), 5);
    assert_eq!(together.record.breaker.epoch, 5);
}

#[test]
fn a_name_that_began_alone_has_no_part_of_the_floor_at_first() {
    for path in [super::super::Path::Strict, super::super::Path::Leased(3)] {
        let mut desk = Desk::new(path);
        desk.begin_here(make(0).unwrap());
        let hedged = desk.apply_alone(how(), |slot| grant(slot, Question::Hedge { attempt: 1 }));
        let permit = hedged.expect("it goes on alone");
        assert_eq!(permit, None, "{path:?}: others may have begun it too");
        let mut known = held("10");
        let hedged = known.apply_alone(how(), |slot| grant(slot, Question::Hedge { attempt: 1 }));
        assert!(hedged.unwrap().is_some(), "else the test shows nothing");
    }
}
