use super::*;
use crate::wire;

fn pushed() -> Pushed {
    Pushed::new(Clock::new(), Policy::default(), Vec::new())
}

fn update(first_attempts: proto::FirstAttempts, valid_secs: u64) -> proto::Update {
    proto::Update {
        dependency: "payments".into(),
        state: proto::BreakerState::Closed.into(),
        epoch: 3,
        first_attempts: first_attempts.into(),
        valid_for: Some(wire::write_duration(Duration::from_secs(valid_secs))),
        ..Default::default()
    }
}

fn go() -> proto::Update {
    update(proto::FirstAttempts::Go, 15)
}

fn open(epoch: u64) -> proto::Update {
    proto::Update {
        state: proto::BreakerState::Open.into(),
        epoch,
        ..update(proto::FirstAttempts::Refuse, 10)
    }
}

fn goes(pushed: &Pushed) -> bool {
    matches!(pushed.word("payments"), Word::Go(_))
}

fn refusal(pushed: &Pushed) -> Denied {
    match pushed.word("payments") {
        Word::Refuse(denied) => denied,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_holds_for_as_long_as_it_is_valid_and_then_the_client_asks() {
    let pushed = pushed();
    assert_eq!(pushed.word("payments"), Word::Ask);
    pushed.store(go());
    tokio::time::advance(Duration::from_millis(14_999)).await;
    assert!(goes(&pushed));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(pushed.word("payments"), Word::Ask);
    pushed.store(go());
    assert!(goes(&pushed), "renewed");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_why_and_for_how_long_and_lapses_after_five_minutes_at_most() {
    use proto::BreakerState::{Closed, ForcedOpen, Open, Recovering};
    let pushed = pushed();
    for (state, reason) in [
        (Open, DenialReason::BreakerOpen),
        (ForcedOpen, DenialReason::ForcedOpen),
        (Closed, DenialReason::Held),
        (Recovering, DenialReason::Held),
    ] {
        pushed.store(proto::Update {
            state: state.into(),
            ..update(proto::FirstAttempts::Refuse, 86_400)
        });
        let denied = refusal(&pushed);
        assert_eq!((denied.reason, denied.by), (reason, DeniedBy::Fleet));
        assert_eq!(denied.retry_after, Some(Duration::from_secs(300)));
    }
    tokio::time::advance(Duration::from_secs(300)).await;
    assert_eq!(pushed.word("payments"), Word::Ask);
}

#[tokio::test(start_paused = true)]
async fn first_attempts_are_obeyed_and_not_derived_from_the_state() {
    let pushed = pushed();
    pushed.store(proto::Update {
        state: proto::BreakerState::Open.into(),
        ..go()
    });
    assert!(goes(&pushed), "a breaker that binds retries only");
    pushed.store(update(proto::FirstAttempts::Ask, 15));
    assert_eq!(pushed.word("payments"), Word::Ask);
}

#[tokio::test(start_paused = true)]
async fn cl4_what_is_unknown_or_unsaid_is_asked_for() {
    let odd = |change: fn(&mut proto::Update)| {
        let mut update = go();
        change(&mut update);
        update
    };
    for update in [
        odd(|update| update.first_attempts = 99),
        odd(|update| update.first_attempts = -1),
        odd(|update| update.first_attempts = 0),
        odd(|update| update.state = 99),
        odd(|update| update.state = 0),
        odd(|update| update.valid_for = None),
        odd(|update| {
            update.valid_for = Some(prost_types::Duration {
                seconds: -1,
                nanos: 0,
            })
        }),
        odd(|update| {
            update.valid_for = Some(prost_types::Duration {
                seconds: 1,
                nanos: -1,
            })
        }),
        odd(|update| {
            update.valid_for = Some(prost_types::Duration {
                seconds: i64::MAX,
                nanos: 0,
            })
        }),
        odd(|update| update.dependency = "x".repeat(201)),
    ] {
        let pushed = pushed();
        pushed.store(update.clone());
        assert_eq!(pushed.word(&update.dependency), Word::Ask, "{update:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_trip_drops_what_was_granted_before_it_and_not_what_was_granted_in_it() {
    let pushed = pushed();
    pushed.store(go());
    assert!(pushed.stands_by("payments", 3));
    assert!(!pushed.stands_by("payments", 2), "something happened since");
    pushed.store(open(4));
    let why = pushed.tripped_since("payments", 3, 2).unwrap();
    assert_eq!(why.reason, DenialReason::BreakerOpen);
    assert_eq!(pushed.tripped_since("payments", 4, 2), None);
    assert!(!pushed.stands_by("payments", 3));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(
        pushed.tripped_since("payments", 3, 2),
        None,
        "no longer valid"
    );
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_spares_first_attempts_drops_retries_alone() {
    let pushed = pushed();
    pushed.store(proto::Update {
        first_attempts: proto::FirstAttempts::Go.into(),
        ..open(4)
    });
    assert!(pushed.tripped_since("payments", 3, 2).is_some());
    assert!(pushed.tripped_since("payments", 3, 1).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_trip_wakes_those_who_wait_and_a_renewal_does_not() {
    let pushed = pushed();
    let mut trip = Box::pin(pushed.trip());
    trip.as_mut().enable();
    let has_woken = |trip: &mut std::pin::Pin<Box<Notified<'_>>>| trip.as_mut().enable();
    pushed.store(go());
    assert!(!has_woken(&mut trip));
    pushed.store(open(4));
    assert!(has_woken(&mut trip));
    let mut next = Box::pin(pushed.trip());
    next.as_mut().enable();
    pushed.store(open(4));
    assert!(!has_woken(&mut next), "the same trip");
    pushed.store(open(6));
    assert!(has_woken(&mut next));
}

#[tokio::test(start_paused = true)]
async fn a_next_session_follows_what_was_wished_and_what_was_called_lately() {
    let pushed = Pushed::new(Clock::new(), Policy::default(), vec!["wished".into()]);
    for dependency in ["idle", "payments"] {
        pushed.store(proto::Update {
            dependency: dependency.into(),
            ..go()
        });
    }
    tokio::time::advance(Duration::from_secs(599)).await;
    pushed.word("payments");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(pushed.followed(), ["payments", "wished"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_called_no_longer_is_left_once_and_its_policy_is_kept() {
    let pushed = pushed();
    let ten = proto::ClientPolicy {
        max_attempts: 10,
        ..Default::default()
    };
    pushed.store(proto::Update {
        policy: Some(ten),
        ..go()
    });
    let kept = || pushed.kept("payments").unwrap().policies;
    let before = kept();
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(pushed.leave_idle(), ["payments"]);
    assert!(pushed.leave_idle().is_empty(), "once");
    assert!(pushed.followed().is_empty());
    assert!(Arc::ptr_eq(&before, &kept()));
    assert_eq!(pushed.word("payments"), Word::Ask, "no longer valid");
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(pushed.leave_idle(), ["payments"], "it was called meanwhile");
}

#[tokio::test(start_paused = true)]
async fn cl5_ten_thousand_dependencies_are_held_and_idle_ones_make_room() {
    let pushed = pushed();
    let store = |number: usize| {
        pushed.store(proto::Update {
            dependency: format!("d{number}"),
            ..go()
        });
    };
    (0..DEPENDENCIES_MAX).for_each(store);
    store(DEPENDENCIES_MAX);
    assert_eq!(pushed.read().len(), DEPENDENCIES_MAX);
    assert_eq!(pushed.word(&format!("d{DEPENDENCIES_MAX}")), Word::Ask);
    tokio::time::advance(Duration::from_secs(600)).await;
    store(DEPENDENCIES_MAX);
    assert!(matches!(
        pushed.word(&format!("d{DEPENDENCIES_MAX}")),
        Word::Go(_)
    ));
}
