//! What comes back after an orderly or abrupt end, and what a stored time is worth then.

use std::sync::Arc;

use tempfile::tempdir;

use super::*;
use crate::durable::{
    AuditHead, DurableError, LastWrite, OpenError,
    batch::Batch,
    datafile::DataFile,
    queue::{MOST_COMMITS, Queue},
};

const HOUR: Duration = Duration::from_secs(3_600);

fn later(by: Duration) -> SystemTime {
    noon() + by
}

#[tokio::test]
async fn everything_acknowledged_comes_back() {
    let home = tempdir().unwrap();
    let Opened { durable, state } = open(home.path());
    assert!(state.first_start && state.last_write.is_none());
    let put = Change::PutPolicy(key("p*"), policy("retry: {max_attempts: 4}"));
    durable.commit(put, entry("PutPolicy", "p*")).await.unwrap();
    durable
        .commit(set_override("a"), entry("SetOverride", "a"))
        .await
        .unwrap();
    durable
        .commit(set_override("b"), entry("SetOverride", "b"))
        .await
        .unwrap();
    let clear = Change::ClearOverride(key("a"));
    let last = durable
        .commit(clear, entry("ClearOverride", "a"))
        .await
        .unwrap();
    let open_breaker = breaker(BreakerPhase::Open, 3, HOUR);
    durable.checkpoint(key("x"), open_breaker);
    durable.checkpoint(key("y"), breaker(BreakerPhase::HalfOpen, 4, Duration::ZERO));
    durable.checkpoint(key("z"), breaker(BreakerPhase::Open, 5, HOUR));
    durable.flushed().await.unwrap();
    durable.checkpoint(key("z"), breaker(BreakerPhase::Closed, 6, Duration::ZERO));
    durable.close(noon()).await.unwrap();

    let state = open(home.path()).state;
    assert!(!state.first_start);
    assert_eq!(state.permit_key, PermitKey([7; 16]));
    assert_eq!(state.overrides, [(key("b"), forced_open(None))]);
    assert_eq!(
        state.policies,
        [(key("p*"), policy("retry: {max_attempts: 4}"))]
    );
    let half_open = breaker(BreakerPhase::HalfOpen, 4, Duration::ZERO);
    assert_eq!(
        state.breakers,
        [(key("x"), open_breaker), (key("y"), half_open)]
    );
    assert_eq!(state.audit_head, last.head());
    assert_eq!(state.audit_head.sequence, 4);
    assert_eq!(
        state.last_write,
        Some(LastWrite {
            at: noon(),
            clean: true
        })
    );
}

#[test]
fn the_boot_epoch_rises_with_every_open_and_the_permit_key_stays() {
    let home = tempdir().unwrap();
    for boot in 1..=5 {
        let fresh_permit_key = PermitKey([boot as u8; 16]);
        let start = Start {
            wall_now: noon(),
            fresh_permit_key,
        };
        let state = Durable::open(home.path(), start).unwrap().state;
        assert_eq!((state.boot, state.first_start), (boot, boot == 1));
        assert_eq!(state.permit_key, PermitKey([1; 16]));
    }
}

#[tokio::test]
async fn an_owner_that_goes_away_leaves_its_checkpoints_and_an_unclean_mark() {
    let home = tempdir().unwrap();
    let durable = open(home.path()).durable;
    durable.checkpoint(key("x"), breaker(BreakerPhase::Open, 1, HOUR));
    drop(durable);
    let state = open(home.path()).state;
    assert_eq!(state.breakers.len(), 1);
    assert_eq!(
        state.last_write,
        Some(LastWrite {
            at: noon(),
            clean: false
        })
    );
}

#[test]
fn of_a_dependency_only_the_newest_checkpoint_waits() {
    let queue = Queue::default();
    for epoch in 1..=10_000 {
        let name = format!("d{}", epoch % 10);
        queue.checkpoint(key(&name), breaker(BreakerPhase::Open, epoch, HOUR));
    }
    queue.checkpoint(key("d0"), breaker(BreakerPhase::Open, 3, HOUR));
    let waiting = queue.take(HOUR).checkpoints;
    assert_eq!(waiting.len(), 10);
    assert!(waiting.values().all(|(_, saved)| saved.epoch > 9_990));
}

#[test]
fn an_unwritten_checkpoint_waits_on_unless_a_newer_one_came_meanwhile() {
    let queue = Queue::default();
    let trip = |name, epoch| queue.checkpoint(key(name), breaker(BreakerPhase::Open, epoch, HOUR));
    trip("x", 1);
    trip("y", 1);
    let unwritten = queue.take(HOUR).checkpoints;
    trip("x", 2);
    assert!(queue.failed(unwritten, "full".into()));
    let waiting = queue.take(Duration::ZERO).checkpoints;
    let epoch = |name| waiting[&key(name)].1.epoch;
    assert_eq!((waiting.len(), epoch("x"), epoch("y")), (2, 2, 1));
}

/// The checkpoint of before the reset, the reset and the one of after it, in one transaction.
#[tokio::test]
async fn a_reset_voids_the_checkpoints_before_it_and_not_those_after() {
    for (trips_after, kept) in [(false, 0), (true, 1)] {
        let home = tempdir().unwrap();
        drop(open(home.path()));
        let queue = Queue::default();
        queue.checkpoint(key("x"), breaker(BreakerPhase::Open, 1, HOUR));
        let reset = Change::ForgetBreaker(key("x"));
        queue.commit(reset, entry("ResetDependency", "x")).unwrap();
        if trips_after {
            queue.checkpoint(key("x"), breaker(BreakerPhase::Open, 3, HOUR));
        }
        let taken = queue.take(HOUR);
        let batch = Batch {
            commits: &taken.commits,
            checkpoints: &taken.checkpoints,
            number: 9,
            head: AuditHead::EMPTY,
            stop: None,
        };
        let path = home.path().join("holdoff.redb");
        let file = DataFile::open(&path, Arc::default()).unwrap();
        batch.write(&file, &mut Vec::new()).unwrap();
        drop(file);
        assert_eq!(open(home.path()).state.breakers.len(), kept);
    }
}

#[test]
fn restored_time_left_is_never_negative_and_never_more_than_was_saved() {
    let saved = TimeLeft {
        left: Duration::from_secs(600),
        at: noon(),
    };
    let table = [
        (later(Duration::ZERO), 600),
        (later(Duration::from_secs(1)), 599),
        (later(Duration::from_secs(599)), 1),
        (later(Duration::from_secs(600)), 0),
        (later(HOUR), 0),
        (noon() - Duration::from_secs(1), 600),
        (noon() - HOUR, 600),
        (UNIX_EPOCH, 600),
    ];
    for (now, left) in table {
        assert_eq!(saved.restored(now), Duration::from_secs(left), "{now:?}");
    }
}

#[tokio::test]
async fn a_wall_clock_that_stepped_back_does_not_give_the_time_anew_at_each_start() {
    let home = tempdir().unwrap();
    let durable = open(home.path()).durable;
    let ten_minutes = Duration::from_secs(600);
    durable.checkpoint(key("x"), breaker(BreakerPhase::Open, 1, ten_minutes));
    let change = Change::SetOverride(key("x"), forced_open(Some(ten_minutes)));
    durable
        .commit(change, entry("SetOverride", "x"))
        .await
        .unwrap();
    drop(durable);
    let back = noon() - HOUR;
    let minutes = |count: u64| Duration::from_secs(60 * count);
    for (now, left) in [
        (back, 10),
        (back + minutes(4), 6),
        (back - HOUR, 6),
        (back - HOUR + minutes(5), 1),
    ] {
        let state = Durable::open(home.path(), start_at(now)).unwrap().state;
        assert_eq!(
            state.breakers[0].1.open,
            TimeLeft {
                left: minutes(left),
                at: now
            }
        );
        assert_eq!(
            state.overrides[0].1.expires,
            Some(TimeLeft {
                left: minutes(left),
                at: now
            })
        );
    }
    let state = Durable::open(home.path(), start_at(noon() + HOUR))
        .unwrap()
        .state;
    assert!(state.overrides.is_empty(), "the override has lapsed");
    assert_eq!(
        state.breakers[0].1.open.left,
        Duration::ZERO,
        "due for a probe, not forgotten"
    );
}

#[test]
fn a_directory_in_use_is_refused_with_the_number_of_its_user() {
    let home = tempdir().unwrap();
    let held = open(home.path());
    let refused = Durable::open(home.path(), start_at(noon())).unwrap_err();
    let me = std::process::id();
    assert!(
        matches!(refused, OpenError::Locked { holder: Some(pid), .. } if pid == me),
        "{refused}"
    );
    assert!(
        refused
            .to_string()
            .contains(&format!("in use by another holdoff (process {me})"))
    );
    drop(held);
    assert_eq!(open(home.path()).state.boot, 2);
}

#[test]
fn a_file_in_the_place_of_the_directory_is_refused() {
    let home = tempdir().unwrap();
    let path = home.path().join("data");
    std::fs::write(&path, "x").unwrap();
    let error = Durable::open(&path, start_at(noon())).unwrap_err();
    assert!(matches!(error, OpenError::NotADirectory { .. }), "{error}");
    let error = Durable::open(&path.join("below"), start_at(noon())).unwrap_err();
    assert!(matches!(error, OpenError::NotADirectory { .. }), "{error}");
}

#[cfg(unix)]
#[test]
fn the_directory_and_its_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempdir().unwrap();
    let path = home.path().join("a/b");
    drop(open(&path));
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in std::fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[tokio::test]
async fn after_the_close_everything_is_refused_and_nothing_waits() {
    let home = tempdir().unwrap();
    let durable = open(home.path()).durable;
    durable.close(noon()).await.unwrap();
    durable.close(noon()).await.unwrap();
    durable.checkpoint(key("x"), breaker(BreakerPhase::Open, 1, HOUR));
    let refused = durable
        .commit(set_override("x"), entry("SetOverride", "x"))
        .await;
    assert_eq!(refused, Err(DurableError::Closed));
    assert_eq!(durable.flushed().await, Err(DurableError::Closed));
    assert_eq!(
        durable.audit_verify("default").await,
        Err(DurableError::Closed)
    );
}

#[tokio::test]
async fn many_commits_at_once_all_land_in_order_or_are_refused_as_busy() {
    let home = tempdir().unwrap();
    let durable = open(home.path()).durable;
    let all: Vec<_> = (0..3 * MOST_COMMITS)
        .map(|n| {
            let name = format!("d{n}");
            Box::pin(durable.commit(set_override(&name), entry("SetOverride", &name)))
        })
        .collect();
    let (mut landed, mut busy) = (0, 0);
    for answer in join_all(all).await {
        match answer {
            Ok(record) => {
                landed += 1;
                assert_eq!(
                    record.sequence, landed,
                    "acknowledged in the order of the calls"
                );
            }
            Err(DurableError::Busy { .. }) => busy += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(landed + busy, 3 * MOST_COMMITS as u64);
    drop(durable);
    assert_eq!(open(home.path()).state.overrides.len() as u64, landed);
}

/// Polls all of them before it waits for any.
async fn join_all<F: Future + Unpin>(mut all: Vec<F>) -> Vec<F::Output> {
    let mut done: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in all.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(output) = std::pin::Pin::new(future).poll(context)
            {
                *done = Some(output);
            }
        }
        match done.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test]
async fn a_hold_is_kept_beside_any_breaker_until_it_ends_and_never_grows() {
    let home = tempdir().unwrap();
    let durable = open(home.path()).durable;
    let minute = Duration::from_secs(60);
    durable.checkpoint(key("closed"), held(BreakerPhase::Closed, 1, minute));
    durable.checkpoint(key("open"), held(BreakerPhase::Open, 2, minute));
    durable.flushed().await.unwrap();
    drop(durable);
    let left_at = |now: SystemTime| {
        let state = Durable::open(home.path(), start_at(now)).unwrap().state;
        let of = |(key, kept): &(Key, BreakerCheckpoint)| {
            (key.name.to_string(), kept.hold.map(|hold| hold.left))
        };
        state.breakers.iter().map(of).collect::<Vec<_>>()
    };
    let kept = |left: u64| {
        let left = Some(Duration::from_secs(left));
        vec![("closed".to_owned(), left), ("open".to_owned(), left)]
    };
    assert_eq!(left_at(later(Duration::from_secs(20))), kept(40));
    assert_eq!(
        left_at(noon() - HOUR),
        kept(40),
        "a clock that was set back"
    );
    assert_eq!(left_at(noon()), [("open".to_owned(), None)]);
}

/// As an operator ends it: alone, with what waits, and beside a breaker that stays.
#[tokio::test]
async fn a_hold_that_was_ended_does_not_come_back_and_its_breaker_stays() {
    for waits in [false, true] {
        let home = tempdir().unwrap();
        drop(open(home.path()));
        let path = home.path().join("holdoff.redb");
        let queue = Queue::default();
        let write = |number| {
            let taken = queue.take(HOUR);
            let batch = Batch {
                commits: &taken.commits,
                checkpoints: &taken.checkpoints,
                number,
                head: AuditHead::EMPTY,
                stop: None,
            };
            let file = DataFile::open(&path, Arc::default()).unwrap();
            batch.write(&file, &mut Vec::new()).unwrap();
        };
        queue.checkpoint(key("closed"), held(BreakerPhase::Closed, 1, HOUR));
        queue.checkpoint(key("open"), held(BreakerPhase::Open, 2, HOUR));
        if !waits {
            write(9);
        }
        for name in ["closed", "open", "unknown"] {
            let end = Change::ForgetHold(key(name));
            drop(queue.commit(end, entry("ClearHold", name)).unwrap());
        }
        write(10);
        let open_breaker = breaker(BreakerPhase::Open, 2, Duration::ZERO);
        let kept = open(home.path()).state.breakers;
        assert_eq!(kept, [(key("open"), open_breaker)], "{waits}");
    }
}

#[test]
fn the_text_on_disk_stays_readable_by_the_version_before() {
    let texts = [
        serde_json::to_string(&forced_open(Some(HOUR))).unwrap(),
        serde_json::to_string(&breaker(BreakerPhase::HalfOpen, 9, HOUR)).unwrap(),
        serde_json::to_string(&held(BreakerPhase::Closed, 3, HOUR)).unwrap(),
        serde_json::to_string(&policy("a: 1")).unwrap(),
    ];
    let at = 1_780_000_000_000_000_000u64;
    let left = 3_600_000_000_000u64;
    let expected = [
        format!(
            r#"{{"kind":"force_open","owner":"ada","reason":"maintenance","set_at_ns":{at},"expires":{{"left_ns":{left},"at_ns":{at}}}}}"#
        ),
        format!(
            r#"{{"phase":"half_open","epoch":9,"trips":1,"open":{{"left_ns":{left},"at_ns":{at}}}}}"#
        ),
        format!(
            r#"{{"phase":"closed","epoch":3,"trips":1,"open":{{"left_ns":0,"at_ns":{at}}},"hold":{{"left_ns":{left},"at_ns":{at}}}}}"#
        ),
        format!(r#"{{"document":"a: 1","owner":"ada","put_at_ns":{at}}}"#),
    ];
    assert_eq!(texts, expected);
    // As it was written before there were holds.
    let before: BreakerCheckpoint = serde_json::from_str(&texts[1]).unwrap();
    assert_eq!(before, breaker(BreakerPhase::HalfOpen, 9, HOUR));
}
