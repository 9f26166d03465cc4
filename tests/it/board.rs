//! What operators do and see at any replica of a shared store: policies that are put, events in
//! one order, changes that are told to those who follow. Real time and real servers, since those
//! are what is tested.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, UNIX_EPOCH},
};

use holdoff::{
    clock::Clock,
    coordinator::{
        Actor, Caller, Coordinator, Entry, Event, EventKind, Inquiry, Key, Parts, Refusal, Subject,
    },
    durable::{Durable, PermitKey, Start},
    entropy::Entropy,
    policy::Finding,
    store::{
        RedisStore,
        redis::{Decisions, Timing},
    },
};
use holdoff_decision::{
    Nanos, Outcome, OutcomeKind, Priority, State, record::OverrideKind, standing::FirstAttempts,
};

use crate::{
    harness::{PATIENCE, source},
    stores::{Cluster, Make, Server, connect_timed},
};

const FAIL: Outcome = Outcome::of(OutcomeKind::Failure);
const BOTH: [Decisions; 2] = [Decisions::Strict, Decisions::Leased];
const POLICIES: &str = "\
version: 1
namespaces:
  default:
    defaults:
      breaker: {spread: 0s, open_for: 60s}
    dependencies:
      named: {retry: {max_attempts: 4}}
";
/// Long enough for a busy machine, and short enough for a store that is stopped.
const TIMING: Timing = Timing {
    grouped_for: Duration::from_millis(20),
    answer_within: Duration::from_secs(1),
    kept_for: Duration::from_secs(1_800),
};

/// A replica that runs until it is dropped.
struct Replica {
    on: Arc<Coordinator<RedisStore>>,
    upkeep: [tokio::task::JoinHandle<()>; 3],
}

impl std::ops::Deref for Replica {
    type Target = Coordinator<RedisStore>;

    fn deref(&self) -> &Self::Target {
        &self.on
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.upkeep.iter().for_each(|it| it.abort());
    }
}

async fn replica(server: &Server, decisions: Decisions) -> Replica {
    replica_with(server, decisions, None).await
}

async fn replica_with(server: &Server, decisions: Decisions, data: Option<&Path>) -> Replica {
    let begun = begin(server, decisions, data, POLICIES).await;
    begun.unwrap_or_else(|findings| panic!("{findings:?}"))
}

async fn begin(
    server: &Server,
    decisions: Decisions,
    data: Option<&Path>,
    policies: &str,
) -> Result<Replica, Vec<Finding>> {
    begin_at(&server.url(), decisions, data, policies).await
}

async fn begin_at(
    url: &str,
    decisions: Decisions,
    data: Option<&Path>,
    policies: &str,
) -> Result<Replica, Vec<Finding>> {
    let store = connect_timed(url, TIMING, decisions).await;
    let key = PermitKey(store.permit_key());
    let clock = Clock::Fleet(store.clock());
    let start = Start {
        wall_now: UNIX_EPOCH + Duration::from_nanos(clock.now().0),
        fresh_permit_key: key,
    };
    let mut opened = match data {
        Some(path) => Durable::open(path, start).unwrap(),
        None => Durable::in_memory(start),
    };
    (opened.state.boot, opened.state.permit_key) = (1, key);
    let parts = Parts {
        store,
        clock,
        entropy: Entropy::System,
        opened,
    };
    let begun = Coordinator::start(parts, vec![source(policies)]).await?;
    let on = Arc::new(begun.coordinator);
    on.follow_store();
    let tasks = [Arc::clone(&on), Arc::clone(&on), Arc::clone(&on)];
    let [publishes, follows, ends] = tasks;
    let upkeep = [
        tokio::spawn(async move { publishes.publish_events().await }),
        tokio::spawn(async move { follows.follow_replicas().await }),
        tokio::spawn(async move { ends.end_overrides().await }),
    ];
    Ok(Replica { on, upkeep })
}

/// An orderly end, so that the data directory is free.
async fn end(replica: Replica) {
    replica.upkeep.iter().for_each(|it| it.abort());
    replica.tell_last().await;
    let closed = replica.durable().close(replica.wall_now()).await;
    closed.unwrap();
}

fn key(dependency: &str) -> Key<'_> {
    Key {
        namespace: "default",
        dependency,
    }
}

fn by(owner: &str) -> Actor<'_> {
    Actor {
        owner,
        reason: "a test",
    }
}

fn attempts(max: u32) -> String {
    format!("retry: {{max_attempts: {max}}}")
}

impl Replica {
    async fn put(&self, name: &str, document: &str, owner: &str) -> Result<(), Refusal> {
        let put = self.put_policy("default", name, document, by(owner));
        put.await.map(|_| ())
    }

    fn max_attempts(&self, dependency: &str) -> String {
        let (_, values) = self.explain_policy(key(dependency)).unwrap();
        let of = |it: &&holdoff::policy::Explained| it.field == "retry.max_attempts";
        values.iter().find(of).unwrap().value.clone()
    }

    fn happened(&self) -> Vec<Event> {
        self.events().listen(|_| true).0
    }

    async fn trip(&self, dependency: &str) {
        let caller = Caller {
            service: "shop",
            instance: "one",
        };
        for _ in 0..5 {
            let asked = Inquiry {
                key: key(dependency),
                caller,
                subject: Subject::First,
                call_id: "",
                idempotent: true,
                time_left: None,
                cost: 1,
                priority: Priority::Normal,
            };
            let decision = self.acquire(&asked).await.unwrap();
            let permit = decision.permit.expect("it is granted");
            let entries = [Entry::Permit(&permit, FAIL)];
            self.report("default", caller, &entries, 0).await.unwrap();
        }
    }
}

/// Waits until it holds, and says how long that took.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "it never comes: {what}");
        pause(5).await;
    }
    begun.elapsed()
}

#[allow(clippy::disallowed_methods, reason = "real servers are waited for")]
async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

#[tokio::test]
async fn a_policy_that_is_put_on_one_replica_holds_on_all_and_on_those_that_start_late() {
    let server = Server::start(Make::Redis, &[]);
    let one = replica(&server, Decisions::Strict).await;
    let two = replica(&server, Decisions::Strict).await;
    one.put("named", &attempts(7), "ana").await.unwrap();
    assert_eq!(one.max_attempts("named"), "7", "at once where it was put");
    until("it is taken", async || two.max_attempts("named") == "7").await;
    let late = replica(&server, Decisions::Strict).await;
    assert_eq!(late.max_attempts("named"), "7", "before it serves");
    two.delete_policy("default", "named", by("ben"))
        .await
        .unwrap();
    for replica in [&one, &late] {
        until("it goes", async || replica.max_attempts("named") == "4").await;
    }
}

/// Policies, events and who is there travel by a cluster's keys and by the master that Sentinels
/// name as they do by one server's.
#[tokio::test]
async fn operators_see_one_fleet_over_a_cluster_and_by_sentinels() {
    let cluster = Cluster::start();
    let master = Server::start(Make::Redis, &[]);
    let sentinel = Server::sentinel(master.port);
    let by_sentinel = format!("redis+sentinel://127.0.0.1:{}/primary", sentinel.port);
    for url in [cluster.url(), by_sentinel] {
        for decisions in BOTH {
            let url = format!("{url}?prefix={decisions:?}:");
            let mut replicas = Vec::new();
            for _ in 0..2 {
                let begun = begin_at(&url, decisions, None, POLICIES).await;
                replicas.push(begun.unwrap_or_else(|findings| panic!("{findings:?}")));
            }
            let [one, two] = &replicas[..] else {
                panic!("there are two");
            };
            one.put("named", &attempts(7), "ana").await.unwrap();
            until("it is taken", async || two.max_attempts("named") == "7").await;
            one.trip("tripped").await;
            let forced = two.set_override(key("forced"), OverrideKind::ForceOpen, by("ben"), None);
            forced.await.unwrap();
            let cleared = one.clear_override(key("forced"), by("ana"));
            cleared.await.unwrap();
            let kinds = |replica: &Replica| -> Vec<EventKind> {
                let all = seen(replica).into_iter().map(|it| it.1);
                all.filter(|it| *it != EventKind::Started).collect()
            };
            let wanted = [
                EventKind::PolicyPut,
                EventKind::Tripped,
                EventKind::OverrideSet,
                EventKind::OverrideCleared,
            ];
            for replica in &replicas {
                until("all is told", async || kinds(replica).len() >= 4).await;
                replica.catch_up_with_events().await;
                let mut kinds = kinds(replica);
                kinds.sort_by_key(|kind| wanted.iter().position(|it| it == kind));
                assert_eq!(kinds, wanted, "{url}");
                until("both are listed", async || {
                    replica.replicas().await.len() == 2
                })
                .await;
            }
            assert_eq!(seen(one), seen(two), "in one order");
        }
    }
}

#[tokio::test]
async fn a_candidate_is_tried_at_all_replicas_and_promoted_once_for_all() {
    let server = Server::start(Make::Redis, &[]);
    let one = replica(&server, Decisions::Strict).await;
    let two = replica(&server, Decisions::Strict).await;
    let document = attempts(2);
    let put = one.put_candidate("default", "named", &document, by("ana"));
    put.await.unwrap();
    let tried = async || two.list_candidates("default").unwrap().len() == 1;
    until("it is tried", tried).await;
    let promoted = two.promote_candidate("default", "named", by("ben")).await;
    promoted.unwrap();
    until("it holds", async || one.max_attempts("named") == "2").await;
    assert!(one.list_candidates("default").unwrap().is_empty());
}

#[tokio::test]
async fn of_those_who_put_the_same_at_once_one_is_first_and_the_others_are_told() {
    let server = Server::start(Make::Redis, &[]);
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(replica(&server, Decisions::Strict).await);
    }
    let mut refused = 0;
    for round in 0..10 {
        let owners = ["ana", "ben", "eva"];
        let documents: Vec<String> = (0..3).map(|at| attempts(10 * round + at + 1)).collect();
        let [a, b, c] = [0, 1, 2].map(|at| replicas[at].put("named", &documents[at], owners[at]));
        let (a, b, c) = tokio::join!(a, b, c);
        let all = [a, b, c];
        assert!(all.iter().any(Result::is_ok), "{all:?}");
        for refusal in all.iter().filter_map(|it| it.as_ref().err()) {
            assert!(matches!(refusal, Refusal::Rival { .. }), "{refusal}");
            let text = refusal.to_string();
            assert!(text.contains("the policy `named`"), "{text}");
            assert!(text.contains("meanwhile, at another replica"), "{text}");
            refused += 1;
        }
        until("all have the same", async || {
            let held: Vec<String> = replicas.iter().map(|it| it.max_attempts("named")).collect();
            let winner = (0..3).find(|at| {
                let value = (10 * round + *at as u32 + 1).to_string();
                all[*at].is_ok() && held[0] == value
            });
            winner.is_some() && held.iter().all(|value| *value == held[0])
        })
        .await;
    }
    assert!(refused > 0, "nobody ever met anybody");
}

#[tokio::test]
async fn those_who_put_different_entries_at_once_all_succeed() {
    let server = Server::start(Make::Redis, &[]);
    let one = replica(&server, Decisions::Strict).await;
    let two = replica(&server, Decisions::Strict).await;
    for round in 1..=10 {
        let (left, right) = (attempts(round), attempts(round + 20));
        let (a, b) = tokio::join!(
            one.put("left", &left, "ana"),
            two.put("right", &right, "ben")
        );
        a.unwrap();
        b.unwrap();
    }
    for replica in [&one, &two] {
        until("both hold", async || {
            replica.max_attempts("left") == "10" && replica.max_attempts("right") == "30"
        })
        .await;
    }
}

#[tokio::test]
async fn a_message_that_is_lost_costs_seconds_and_a_store_that_is_emptied_nothing() {
    let server = Server::start(Make::Redis, &[]);
    let one = replica(&server, Decisions::Strict).await;
    let two = replica(&server, Decisions::Strict).await;
    let mut connection = server.connection();
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("pubsub");
    assert!(kill.query::<u64>(&mut connection).unwrap() > 0);
    one.put("named", &attempts(9), "ana").await.unwrap();
    until("it is found", async || two.max_attempts("named") == "9").await;

    redis::cmd("FLUSHALL").query::<()>(&mut connection).unwrap();
    let back = async || {
        let key = "holdoff:{0}policies";
        let mut exists = redis::cmd("EXISTS");
        exists
            .arg(key)
            .query::<bool>(&mut server.connection())
            .unwrap()
    };
    until("a replica puts them back", back).await;
    assert_eq!(
        (one.max_attempts("named"), two.max_attempts("named")),
        ("9".into(), "9".into())
    );
}

#[tokio::test]
async fn what_cannot_hold_with_the_files_of_a_replica_is_refused_there_and_shown() {
    let server = Server::start(Make::Redis, &[]);
    let one = replica(&server, Decisions::Strict).await;
    let other = "\
version: 1
namespaces:
  default:
    defaults:
      retry: {initial_delay: 5s}
";
    let two = begin(&server, Decisions::Strict, None, other).await;
    let two = two.unwrap_or_else(|findings| panic!("{findings:?}"));
    let fits_here = "retry: {max_delay: 1s}";
    one.put("named", fits_here, "ana").await.unwrap();
    let refused = async || {
        let all = one.replicas().await;
        all.iter().any(|it| {
            it.troubles
                .iter()
                .any(|trouble| trouble.contains("refused"))
        })
    };
    until("it is shown", refused).await;
    let told = two.happened();
    assert!(
        told.iter().any(|it| it.kind == EventKind::PoliciesRefused),
        "{told:?}"
    );
    let late = begin(&server, Decisions::Strict, None, other).await;
    assert!(
        late.is_err(),
        "it does not begin with less than the fleet has"
    );
}

#[tokio::test]
async fn the_store_wins_over_a_data_directory_and_an_empty_store_takes_what_that_has() {
    let server = Server::start(Make::Redis, &[]);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, two] = [folders[0].path(), folders[1].path()];
    let first = replica_with(&server, Decisions::Strict, Some(one)).await;
    first.put("named", &attempts(5), "ana").await.unwrap();
    end(first).await;
    redis::cmd("FLUSHALL")
        .query::<()>(&mut server.connection())
        .unwrap();

    let first = replica_with(&server, Decisions::Strict, Some(one)).await;
    assert_eq!(first.max_attempts("named"), "5", "what was put is not lost");
    let second = replica_with(&server, Decisions::Strict, Some(two)).await;
    assert_eq!(second.max_attempts("named"), "5", "and is the fleet's");
    second.put("named", &attempts(6), "ben").await.unwrap();
    until("taken", async || first.max_attempts("named") == "6").await;
    end(first).await;
    second.put("named", &attempts(8), "ben").await.unwrap();

    let first = replica_with(&server, Decisions::Strict, Some(one)).await;
    assert_eq!(first.max_attempts("named"), "8", "the store has newer ones");
    let records = first.audit("default", 0, 100).await.unwrap();
    let last = records.last().unwrap();
    assert_eq!(
        (&*last.record.action, &*last.record.owner),
        ("TakeFromFleet", "ben")
    );
    assert!(
        first
            .durable()
            .audit_verify("default")
            .await
            .unwrap()
            .broken
            .is_none()
    );
    end(first).await;
    end(second).await;
}

/// Sequence, kind, dependency: what is the same at all of them.
fn seen(replica: &Replica) -> Vec<(u64, EventKind, String)> {
    let events = replica.happened().into_iter();
    let seen = events.map(|it| (it.sequence, it.kind, it.dependency));
    seen.collect()
}

#[tokio::test]
async fn all_replicas_show_the_same_events_once_each_and_in_one_order() {
    for decisions in BOTH {
        let server = Server::start(Make::Redis, &[]);
        let mut replicas = Vec::new();
        for _ in 0..3 {
            replicas.push(replica(&server, decisions).await);
        }
        let (_, mut listener) = replicas[2].events().listen(|_| false);
        for (at, replica) in replicas.iter().enumerate() {
            replica.trip(&format!("tripped-{at}")).await;
            let forced = format!("forced-{at}");
            let kind = OverrideKind::ForceOpen;
            let set = replica.set_override(key(&forced), kind, by("ana"), None);
            set.await.unwrap();
            // Also before the other has heard of it.
            let next = &replicas[(at + 1) % 3];
            let cleared = next.clear_override(key(&forced), by("ben"));
            cleared.await.unwrap();
        }
        let wanted = |events: &[(u64, EventKind, String)]| {
            let of = |kind| events.iter().filter(|it| it.1 == kind).count();
            [
                of(EventKind::Started),
                of(EventKind::Tripped),
                of(EventKind::OverrideSet),
                of(EventKind::OverrideCleared),
            ]
        };
        for replica in &replicas {
            until("all is told", async || {
                wanted(&seen(replica)) == [3, 3, 3, 3]
            })
            .await;
        }
        // Whatever is told twice would come with the next look.
        for replica in &replicas {
            replica.catch_up_with_events().await;
        }
        let all = seen(&replicas[0]);
        assert_eq!(wanted(&all), [3, 3, 3, 3], "{all:?}");
        let numbers: Vec<u64> = all.iter().map(|it| it.0).collect();
        let expected: Vec<u64> = (1..=all.len() as u64).collect();
        assert_eq!(numbers, expected, "they rise by one");
        assert_eq!(seen(&replicas[1]), all);
        assert_eq!(seen(&replicas[2]), all);
        let late = replica(&server, decisions).await;
        assert_eq!(seen(&late)[..all.len()], all);
        let (mut heard, mut numbers) = (BTreeSet::new(), Vec::new());
        while let Ok(event) = listener.try_recv() {
            let teller = (event.teller.run, event.teller.number);
            assert!(heard.insert(teller), "told twice: {event:?}");
            // A busy machine may take the store for away.
            numbers.extend((!event.is_pending()).then_some(event.sequence));
        }
        assert!(
            numbers.is_sorted(),
            "who listens hears them in order: {numbers:?}"
        );
    }
}

#[tokio::test]
async fn while_the_store_is_away_own_events_are_shown_and_then_merged_once() {
    let mut server = Server::start(Make::Redis, &[]);
    let one = replica(&server, Decisions::Strict).await;
    let two = replica(&server, Decisions::Strict).await;
    for replica in [&one, &two] {
        until("both began", async || seen(replica).len() == 2).await;
    }
    let (_, mut listener) = one.events().listen(|_| false);
    server.stop();
    one.reload(Ok(vec![source(POLICIES)])).await;
    two.reload(Ok(vec![source(POLICIES)])).await;
    for replica in [&one, &two] {
        until("its own is shown", async || {
            let last = replica.happened().pop().unwrap();
            last.kind == EventKind::PoliciesReloaded && last.is_pending()
        })
        .await;
        assert_eq!(replica.happened().len(), 3, "and not the other's");
    }
    until("it knows that it is degraded", async || {
        let here = one.replicas().await.remove(0);
        here.troubles == ["the store does not answer"]
    })
    .await;
    server.go_on();
    for replica in [&one, &two] {
        until("both are there", async || {
            let all = seen(replica);
            let reloaded = all.iter().filter(|it| it.1 == EventKind::PoliciesReloaded);
            reloaded.count() == 2 && all.iter().all(|it| it.0 > 0)
        })
        .await;
    }
    assert_eq!(seen(&one), seen(&two));
    let mut heard = Vec::new();
    while let Ok(event) = listener.try_recv() {
        heard.push(event.teller);
    }
    assert_eq!(heard.len(), 2, "each is told once: {heard:?}");
    assert_ne!(heard[0].replica, heard[1].replica);
}

/// A machine took over that lacks the last events: a copy of the stream from before is put back. Whoever
/// tells first after it knows of the lost ones, or does not.
#[tokio::test]
async fn after_a_loss_of_the_last_events_new_ones_are_told_to_all_and_old_ones_to_nobody_again() {
    for is_told_by_who_knows in [true, false] {
        let server = Server::start(Make::Redis, &[]);
        let mut connection = server.connection();
        let one = replica(&server, Decisions::Strict).await;
        let two = replica(&server, Decisions::Strict).await;
        let reload = async |on: &Replica| on.reload(Ok(vec![source(POLICIES)])).await;
        reload(&one).await;
        reload(&two).await;
        for replica in [&one, &two] {
            until("the first are told", async || seen(replica).len() == 4).await;
        }
        let stream = "holdoff:{0}e";
        let dump = redis::cmd("DUMP")
            .arg(stream)
            .query::<Vec<u8>>(&mut connection);
        let dump = dump.unwrap();
        reload(&one).await;
        reload(&one).await;
        for replica in [&one, &two] {
            until("more are told", async || seen(replica).len() == 6).await;
        }
        let mut restore = redis::cmd("RESTORE");
        restore.arg(stream).arg(0).arg(dump).arg("REPLACE");
        restore.query::<()>(&mut connection).unwrap();
        let late = replica(&server, Decisions::Strict).await;
        let mut listeners = [&one, &two].map(|it| it.events().listen(|_| false).1);
        if is_told_by_who_knows {
            reload(&one).await;
        } else {
            reload(&late).await;
            until("it is told", async || {
                seen(&late)
                    .last()
                    .is_some_and(|it| it.1 == EventKind::PoliciesReloaded)
            })
            .await;
            reload(&one).await;
        }
        pause(4_000).await;
        // Of the late one its start, and what it was told to read.
        let expected: usize = if is_told_by_who_knows { 2 } else { 3 };
        for (replica, listener) in [&one, &two].into_iter().zip(&mut listeners) {
            let mut heard = BTreeSet::new();
            while let Ok(event) = listener.try_recv() {
                let teller = (event.teller.run, event.teller.number);
                assert!(heard.insert(teller), "told twice: {event:?}");
            }
            let all = seen(replica);
            assert_eq!(all.len(), 6 + expected, "{is_told_by_who_knows}: {all:?}");
            assert!(heard.len() <= expected, "{heard:?}");
            let tellers: BTreeSet<_> = replica
                .happened()
                .iter()
                .map(|it| (it.teller.run, it.teller.number))
                .collect();
            assert_eq!(tellers.len(), all.len(), "each once");
        }
        let numbers: Vec<u64> = seen(&one).iter().map(|it| it.0).collect();
        if is_told_by_who_knows {
            let last = *numbers.last().unwrap();
            assert!(last > 1_000, "above what was seen: {numbers:?}");
        }
    }
}

#[tokio::test]
async fn a_trip_at_one_replica_is_pushed_to_who_follows_at_another() {
    for decisions in BOTH {
        let server = Server::start(Make::Redis, &[]);
        let one = replica(&server, decisions).await;
        let two = replica(&server, decisions).await;
        let mut all = Vec::new();
        for round in 0..10 {
            let dependency = format!("tripped-{round}");
            let watcher = two.subscriber();
            two.subscribe(&watcher, key(&dependency)).await.unwrap();
            // What it is told at first.
            let told = watcher.changed().await.unwrap();
            let (id, _) = told.into_iter().next().unwrap();
            one.trip(&dependency).await;
            let begun = Instant::now();
            let refused = async {
                loop {
                    watcher.changed().await;
                    let pushed = two.pushed(id, &watcher).await.unwrap();
                    if pushed.standing.first_attempts == FirstAttempts::Refuse {
                        return pushed.standing.state;
                    }
                }
            };
            let state = tokio::time::timeout(PATIENCE, refused).await;
            assert_eq!(state.expect("it is pushed"), State::Open);
            all.push(begun.elapsed());
            two.close(&watcher);
        }
        all.sort();
        println!("{decisions:?}: median {:?}, most {:?}", all[5], all[9]);
        // 250 ms on a machine that has nothing else to do.
        assert!(all[5] < Duration::from_secs(1), "{all:?}");
    }
}

#[tokio::test]
async fn who_is_there_is_listed_at_each_replica_and_who_ends_in_order_is_gone_at_once() {
    let server = Server::start(Make::Redis, &[]);
    let one = replica(&server, Decisions::Strict).await;
    let two = replica(&server, Decisions::Leased).await;
    for replica in [&one, &two] {
        until("both are listed", async || {
            replica.replicas().await.len() == 2
        })
        .await;
        let all = replica.replicas().await;
        assert!(all[0].is_here && !all[1].is_here);
        assert_ne!(all[0].number, all[1].number);
        assert!(all.iter().all(|it| it.troubles.is_empty()), "{all:?}");
        assert!(all[1].seen_ago < Nanos::from_secs(10));
    }
    let ttl: i64 = redis::cmd("PTTL")
        .arg("holdoff:{0}h")
        .query(&mut server.connection())
        .unwrap();
    assert!(ttl > 0, "all keys have a lifetime");
    end(two).await;
    assert_eq!(one.replicas().await.len(), 1);
}

#[tokio::test]
async fn every_key_of_the_board_has_a_lifetime_and_a_bound() {
    let server = Server::start(Make::Redis, &[]);
    let one = replica(&server, Decisions::Strict).await;
    one.put("named", &attempts(7), "ana").await.unwrap();
    one.trip("payments").await;
    until("it is told", async || {
        seen(&one).iter().any(|it| it.1 == EventKind::Tripped)
    })
    .await;
    until("it is listed", async || {
        let mut exists = redis::cmd("EXISTS");
        exists
            .arg("holdoff:{0}h")
            .query::<bool>(&mut server.connection())
            .unwrap()
    })
    .await;
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    assert!(keys.len() >= 8, "{keys:?}");
    for key in keys {
        let ttl: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        assert!(ttl > 0, "{key} has no lifetime");
    }
    let large = format!("# {}\n{}", "x".repeat(60_000), attempts(3));
    let mut refused = None;
    for at in 0..20 {
        refused = one.put(&format!("large-{at}"), &large, "ana").await.err();
        if refused.is_some() {
            break;
        }
    }
    let text = refused.expect("a mebibyte is the most").to_string();
    assert!(text.contains("1048576"), "{text}");
}

/// The floor of the budget is one for the fleet, also while its clients are alone.
#[tokio::test]
async fn the_offline_allowances_of_all_replicas_add_up_to_one_floor() {
    let server = Server::start(Make::Redis, &[]);
    let all = [
        replica(&server, Decisions::Leased).await,
        replica(&server, Decisions::Leased).await,
    ];
    let mut parts = 0.0;
    for (replica, clients) in all.iter().zip([1, 3]) {
        let knows = async || replica.replicas().await.len() == all.len();
        until("it knows the other", knows).await;
        let mut told = Vec::new();
        for _ in 0..clients {
            let watcher = replica.subscriber();
            replica.subscribe(&watcher, key("payments")).await.unwrap();
            told.push(watcher);
        }
        for watcher in &told {
            let news = watcher.changed().await.unwrap();
            let (id, _) = news.into_iter().next().unwrap();
            let pushed = replica.pushed(id, watcher).await.unwrap();
            parts += 1.0 / f64::from(pushed.clients);
        }
    }
    assert!((parts - 1.0).abs() < 1e-9, "{parts} floors");
}
