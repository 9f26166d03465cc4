//! Invariants 2 and 7 under real concurrency: many threads on the store that serves, with a
//! history that is checked, and every interleaving of a small case on a model of the store.
//!
//! The explorer does not see inside the sharded map, whose locks are its own: there the record
//! stands behind one lock of the explorer's, which is what the map promises its callers. That
//! the map keeps the promise is what the threads below are for.

use std::{
    collections::HashMap,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
};

use holdoff::{
    permit::DependencyId,
    store::{Limits, MemoryStore, Seed, Slot},
};
use holdoff_decision::{
    Ask, Context, Nanos, Outcome, OutcomeKind, Permit, Policy, Question, Record, Reported, Sample,
    Share, Time, acquire,
    policy::{Detect, Window, WindowSize},
    report,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const PROBES: u32 = 3;
const LEASE: Nanos = Nanos(1_000_000);

fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.breaker.detect = Detect::Window(Window {
        size: WindowSize::Calls(10),
        min_calls: 5,
        ..Window::default()
    });
    policy.breaker.open_for = Nanos(200_000);
    policy.breaker.open_max = Nanos(200_000);
    policy.breaker.probes = PROBES;
    policy.breaker.probe_lease = LEASE;
    policy.breaker.probe_successes = 4;
    policy.breaker.permit_ttl = Nanos(50_000_000);
    // No ramp: calls pass again at once.
    policy.ramp.start = Share::ONE;
    policy
}

fn ask() -> Ask {
    Ask {
        question: Question::First,
        caller: 0,
        service: 0,
        call: None,
        idempotent: true,
        time_left: None,
        cost: 1,
        priority: holdoff_decision::calendar::Priority::Normal,
    }
}

fn at(now: Time) -> Context {
    Context {
        now,
        sample: Sample::default(),
        restarted: None,
    }
}

fn ended(kind: OutcomeKind) -> Outcome {
    Outcome {
        kind,
        latency: None,
        pushback: None,
        do_not_retry: false,
        retried_below: false,
        restarts_backoff: false,
    }
}

/// What one thread saw, in the order in which the record was changed.
#[derive(Clone, Copy, Debug)]
enum Seen {
    Leased {
        serial: u64,
        at: Time,
        ends: Time,
    },
    /// A report that was applied.
    Applied {
        serial: u64,
        epoch: u64,
        now: u64,
    },
    /// A report that held a lease until now, whatever it was answered.
    Returned {
        serial: u64,
    },
}

#[test]
fn invariants_2_and_7_hold_under_threads_that_ask_report_and_repeat_at_random() {
    const THREADS: u64 = 8;
    const STEPS: usize = 20_000;
    for seed in 0..4 {
        let store = Arc::new(MemoryStore::default());
        let (clock, order) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let barrier = Arc::new(Barrier::new(THREADS as usize));
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let store = Arc::clone(&store);
                let (clock, order) = (Arc::clone(&clock), Arc::clone(&order));
                let barrier = Arc::clone(&barrier);
                let random = StdRng::seed_from_u64(seed * 100 + thread);
                std::thread::spawn(move || {
                    barrier.wait();
                    hammer(&store, &clock, &order, random, STEPS)
                })
            })
            .collect();
        let mut history: Vec<(u64, Seen)> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        history.sort_by_key(|(order, _)| *order);
        check(&history);
    }
}

/// Asks, reports and repeats at random on the one record that all threads share.
fn hammer(
    store: &MemoryStore,
    clock: &AtomicU64,
    order: &AtomicU64,
    mut random: StdRng,
    steps: usize,
) -> Vec<(u64, Seen)> {
    let policy = policy();
    let shared = Arc::new(policy.clone());
    let (mut history, mut held) = (Vec::new(), Vec::<Permit>::new());
    let transact = |rule: &mut dyn FnMut(&mut Slot)| {
        let seed = |epoch| {
            Ok(Seed {
                dependency: "d".into(),
                policy: Arc::clone(&shared),
                generation: 1,
                record: Record::new(epoch, Time(1)),
                limits: Limits {
                    in_namespace: 1,
                    in_all: 1,
                    namespaces: 1,
                },
            })
        };
        store
            .transact_now(DependencyId(1), "default", seed, |slot| rule(slot))
            .unwrap();
    };
    for _ in 0..steps {
        // Read before the lock is taken: threads see times that go backwards, as they do.
        let now = Time(clock.fetch_add(random.random_range(0..2_000), Ordering::Relaxed));
        if held.is_empty() || random.random_bool(0.5) {
            transact(&mut |slot| {
                let answer = acquire(&policy, &mut slot.record, &ask(), &at(now));
                if let Ok(grant) = answer.verdict {
                    if grant.probe {
                        let (serial, ends) = (grant.permit.serial, now + LEASE);
                        history.push((
                            order.fetch_add(1, Ordering::Relaxed),
                            Seen::Leased {
                                serial,
                                at: now,
                                ends,
                            },
                        ));
                    }
                    held.push(grant.permit);
                }
            });
            continue;
        }
        let index = random.random_range(0..held.len());
        let permit = held[index];
        // Most reports are sent once, some again and again, some never.
        if random.random_bool(0.7) {
            held.swap_remove(index);
        }
        let kind = match random.random_range(0..10) {
            0..4 => OutcomeKind::Success,
            4..8 => OutcomeKind::Failure,
            8 => OutcomeKind::Ignored,
            _ => continue,
        };
        transact(&mut |slot| {
            let epoch = slot.record.breaker.epoch;
            let answered = report(
                &policy,
                &mut slot.record,
                &permit,
                &ended(kind),
                1,
                &at(now),
            );
            let serial = permit.serial;
            if answered == Reported::Ok {
                let seen = Seen::Applied {
                    serial,
                    epoch: permit.epoch,
                    now: epoch,
                };
                history.push((order.fetch_add(1, Ordering::Relaxed), seen));
            }
            if matches!(answered, Reported::Ok | Reported::StaleEpoch) {
                let seen = Seen::Returned { serial };
                history.push((order.fetch_add(1, Ordering::Relaxed), seen));
            }
        });
    }
    history
}

/// Never more than `PROBES` leases live, no permit applied twice or to another epoch.
fn check(history: &[(u64, Seen)]) {
    let mut live: HashMap<u64, Time> = HashMap::new();
    let mut applied = HashMap::new();
    let (mut leased, mut most) = (0, 0);
    for (_, seen) in history {
        match *seen {
            Seen::Leased { serial, at, ends } => {
                live.retain(|_, ends| at < *ends);
                assert!(
                    live.insert(serial, ends).is_none(),
                    "serial {serial} leased twice"
                );
                assert!(
                    live.len() <= PROBES as usize,
                    "{} probes at {at:?}",
                    live.len()
                );
                leased += 1;
                most = most.max(live.len());
            }
            Seen::Applied { serial, epoch, now } => {
                assert_eq!(epoch, now, "serial {serial} changed another epoch");
                assert!(
                    applied.insert(serial, ()).is_none(),
                    "serial {serial} applied twice"
                );
            }
            Seen::Returned { serial } => {
                live.remove(&serial);
            }
        }
    }
    assert!(
        leased > 50 && most == PROBES as usize,
        "{leased} leases, {most} at once"
    );
    assert!(applied.len() > 1_000, "{} reports", applied.len());
}

/// Open since 0, half-open from here on.
fn half_open() -> Record {
    let (policy, mut record) = (policy(), Record::new(1, Time(1)));
    for _ in 0..5 {
        let permit = acquire(&policy, &mut record, &ask(), &at(Time(1)))
            .verdict
            .unwrap()
            .permit;
        report(
            &policy,
            &mut record,
            &permit,
            &ended(OutcomeKind::Failure),
            1,
            &at(Time(1)),
        );
    }
    record
}

#[test]
fn invariants_2_and_7_hold_in_every_explored_schedule_of_three_threads() {
    shuttle::check_random(explore, 10_000);
    shuttle::check_pct(explore, 2_000, 3);
}

/// Three callers, each asking, reporting twice (once as another outcome) and asking again.
fn explore() {
    use shuttle::{sync::Mutex, thread};
    let policy = Arc::new({
        let mut policy = policy();
        policy.breaker.probes = 1;
        policy.breaker.probe_successes = 2;
        policy
    });
    let record = Arc::new(Mutex::new(half_open()));
    let applied = Arc::new(Mutex::new(HashMap::<u64, u32>::new()));
    let callers: Vec<_> = (0..3)
        .map(|caller| {
            let (policy, record) = (Arc::clone(&policy), Arc::clone(&record));
            let applied = Arc::clone(&applied);
            thread::spawn(move || {
                let now = Time(300_000 + caller);
                for _ in 0..2 {
                    let granted = {
                        let mut record = record.lock().unwrap();
                        let granted = acquire(&policy, &mut record, &ask(), &at(now)).verdict.ok();
                        assert!(record.breaker.probes_out(now) <= 1);
                        granted
                    };
                    let Some(grant) = granted else { continue };
                    let kinds = match caller {
                        0 => [OutcomeKind::Success, OutcomeKind::Failure],
                        1 => [OutcomeKind::Failure, OutcomeKind::Success],
                        _ => [OutcomeKind::Ignored, OutcomeKind::Ignored],
                    };
                    for kind in kinds {
                        let mut record = record.lock().unwrap();
                        let epoch = record.breaker.epoch;
                        let answered = report(
                            &policy,
                            &mut record,
                            &grant.permit,
                            &ended(kind),
                            1,
                            &at(now),
                        );
                        assert!(record.breaker.probes_out(now) <= 1);
                        drop(record);
                        if answered == Reported::Ok {
                            assert_eq!(grant.permit.epoch, epoch);
                            *applied
                                .lock()
                                .unwrap()
                                .entry(grant.permit.serial)
                                .or_default() += 1;
                        }
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    assert!(applied.lock().unwrap().values().all(|times| *times == 1));
}
