//! A shared store that loses all it had, or a part of it, or is not the only fleet's: what was ordered
//! holds at all replicas, also at one that starts just then, and nothing is there twice. Real time and
//! real servers, since those are what is tested.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use holdoff::{
    coordinator::{Actor, Caller, Coordinator, Decision, Filter, Inquiry, Key, Subject},
    store::{RedisStore, Store, redis::Decisions},
};
use holdoff_decision::{DenialReason, Priority, record::OverrideKind};

use crate::{
    harness::PATIENCE,
    stores::{Make, Server, connect_with, coordinate},
};

const BOTH: [Decisions; 2] = [Decisions::Strict, Decisions::Leased];
/// Beside the one that is forced open: what is brought back one after the other takes a while.
const OTHERS: usize = 400;
const POLICIES: &str = "\
version: 1
namespaces:
  default:
    dependencies:
      \"*\": {retry: {max_attempts: 3}}
";

type Replica = Arc<Coordinator<RedisStore>>;

async fn replica(url: &str, decisions: Decisions) -> (Replica, RedisStore) {
    let store = connect_with(url, decisions).await;
    (coordinate(store.clone(), POLICIES).await, store)
}

fn key(dependency: &str) -> Key<'_> {
    Key {
        namespace: "default",
        dependency,
    }
}

async fn first(on: &Replica, dependency: &str) -> Decision {
    let inquiry = Inquiry {
        key: key(dependency),
        caller: Caller {
            service: "shop",
            instance: "one",
        },
        subject: Subject::First,
        call_id: "",
        idempotent: true,
        time_left: None,
        cost: 1,
        priority: Priority::Normal,
    };
    on.acquire(&inquiry).await.unwrap()
}

async fn is_forced_open(on: &Replica, dependency: &str) -> bool {
    let verdict = first(on, dependency).await.answer.verdict;
    verdict.is_err_and(|denial| denial.reason == DenialReason::ForcedOpen)
}

/// Names, as often as they are there.
async fn names(store: &RedisStore) -> Vec<String> {
    let mut all = Vec::new();
    store.visit(&mut |_, slot| all.push(slot.name.dependency.to_string()));
    all.sort();
    all
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        pause(10).await;
    }
}

#[allow(clippy::disallowed_methods, reason = "what is tested takes real time")]
async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

fn keys(server: &Server, pattern: &str) -> Vec<String> {
    let mut keys = redis::cmd("KEYS");
    keys.arg(pattern).query(&mut server.connection()).unwrap()
}

fn flush(server: &Server) {
    let flushed = redis::cmd("FLUSHALL").query::<()>(&mut server.connection());
    flushed.unwrap();
}

/// Only the first replica knows of it.
#[tokio::test]
async fn what_is_forced_holds_at_a_replica_that_starts_over_a_store_that_was_just_emptied() {
    for decisions in BOTH {
        let server = Server::start(Make::Redis, &[]);
        let (one, store) = replica(&server.url(), decisions).await;
        for at in 0..OTHERS {
            first(&one, &format!("other-{at}")).await;
        }
        let ana = Actor {
            owner: "ana",
            reason: "drill",
        };
        let forced = one.set_override(key("forced"), OverrideKind::ForceOpen, ana, None);
        forced.await.unwrap();
        let number = keys(&server, "holdoff:{0}n*");
        for round in 0..3 {
            flush(&server);
            let (two, its_store) = replica(&server.url(), decisions).await;
            let how = format!("{decisions:?}, round {round}");
            assert_eq!(its_store.permit_key(), store.permit_key(), "{how}");
            assert!(
                is_forced_open(&two, "forced").await,
                "{how}: at the one that starts"
            );
            pause(1_500).await;
            assert!(
                is_forced_open(&one, "forced").await,
                "{how}: at the one that knew it"
            );
            assert!(is_forced_open(&two, "forced").await, "{how}: later");
            let claimed = keys(&server, "holdoff:{0}n*");
            let ours = number.iter().all(|ours| claimed.contains(ours));
            assert!(ours, "{how}: {claimed:?} is without {number:?}");
        }
    }
}

#[tokio::test]
async fn fleets_on_different_databases_of_one_server_hear_nothing_of_each_other() {
    for decisions in BOTH {
        let server = Server::start(Make::Redis, &[]);
        let (one, _) = replica(&server.url(), decisions).await;
        let (two, its_store) = replica(&format!("{}/3", server.url()), decisions).await;
        first(&two, "shared-name").await;
        first(&one, "shared-name").await;
        let ana = Actor {
            owner: "ana",
            reason: "drill",
        };
        for name in ["shared-name", "of-one"] {
            let forced = one.set_override(key(name), OverrideKind::ForceOpen, ana, None);
            forced.await.unwrap();
        }
        pause(700).await;
        assert_eq!(names(&its_store).await, ["shared-name"], "{decisions:?}");
        assert!(!is_forced_open(&two, "shared-name").await, "{decisions:?}");
    }
}

/// As after a start over a store that was emptied, when nobody could say which key it was.
#[tokio::test]
async fn a_name_is_there_once_also_where_two_replicas_have_different_keys() {
    for decisions in BOTH {
        let server = Server::start(Make::Redis, &[]);
        let (one, store) = replica(&server.url(), decisions).await;
        first(&one, "before").await;
        let other_key = [9_u8; 16];
        let mut set = redis::cmd("SET");
        set.arg("holdoff:{0}key").arg(&other_key[..]);
        set.query::<()>(&mut server.connection()).unwrap();
        let (two, its_store) = replica(&server.url(), decisions).await;
        assert_ne!(its_store.permit_key(), store.permit_key());
        let ana = Actor {
            owner: "ana",
            reason: "drill",
        };
        for on in [&one, &two] {
            first(on, "both").await;
            let forced = on.set_override(key("both"), OverrideKind::ForceOpen, ana, None);
            forced.await.unwrap();
        }
        // A sweep of the strict path, too.
        pause(6_000).await;
        for store in [&store, &its_store] {
            let all = names(store).await;
            let once: BTreeSet<_> = all.iter().collect();
            assert_eq!(once.len(), all.len(), "{decisions:?}: {all:?}");
            assert!(all.contains(&"both".to_owned()), "{decisions:?}: {all:?}");
        }
    }
}

/// More entries in a shard than are read at once, the ones that nobody needs first.
#[tokio::test]
async fn a_replica_that_starts_loads_every_name_however_many_a_shard_has() {
    let server = Server::start(Make::Redis, &[]);
    let (one, _) = replica(&server.url(), Decisions::Leased).await;
    first(&one, "late").await;
    let index = until_index(&server).await;
    let mut dead = redis::cmd("ZADD");
    dead.arg(&index);
    for at in 0..2_500 {
        // Some of one time, more than are read at once.
        dead.arg(if at < 1_200 { 7 } else { at })
            .arg(format!("{at:016x}"));
    }
    dead.query::<()>(&mut server.connection()).unwrap();
    let (two, store) = replica(&server.url(), Decisions::Leased).await;
    until("it has loaded it", async || names(&store).await == ["late"]).await;
    let filter = Filter {
        namespace: "default",
        name_prefix: "",
        after: "",
        states: &[],
        limit: 10,
    };
    let listed = two.list(filter).await.unwrap();
    assert!(
        listed
            .shown
            .iter()
            .any(|shown| shown.name == "late" && shown.live)
    );
}

/// The one index that has an entry.
async fn until_index(server: &Server) -> String {
    until("there is an index", async || {
        !keys(server, "holdoff:{*}i").is_empty()
    })
    .await;
    keys(server, "holdoff:{*}i").remove(0)
}

/// The store's address as a user sees it whose rights [`set_user`] changes; it has all at first.
fn url_of_a_user(server: &Server) -> String {
    set_user(server, &["on", ">secret", "~*", "&*", "+@all"]);
    format!("redis://fleet:secret@127.0.0.1:{}", server.port)
}

fn set_user(server: &Server, rules: &[&str]) {
    let mut set = redis::cmd("ACL");
    set.arg("SETUSER").arg("fleet").arg(rules);
    set.query::<()>(&mut server.connection()).unwrap();
}

/// The right to run scripts, one command of theirs, or the keys.
#[tokio::test]
async fn a_store_that_refuses_its_user_is_away_until_it_does_not() {
    for decisions in BOTH {
        let server = Server::start(Make::Redis, &[]);
        let set_user = |rules: &[&str]| set_user(&server, rules);
        let url = url_of_a_user(&server);
        let (one, store) = replica(&url, decisions).await;
        first(&one, "payments").await;
        for (rule, back) in [
            ("-@scripting", "+@all"),
            ("-hset", "+@all"),
            ("resetkeys", "~*"),
        ] {
            let how = format!("{decisions:?} {rule}");
            set_user(&[rule]);
            until(&how, async || store.is_away()).await;
            // The keeper tries it several times.
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(1_500) {
                assert!(store.is_away(), "{how}: it is not back");
                let answer = first(&one, "payments").await;
                assert!(answer.answer.verdict.is_ok(), "{how}");
                pause(20).await;
            }
            set_user(&[back]);
            until(&format!("{how} no more"), async || !store.is_away()).await;
        }
    }
}

/// What it may not tell must hold and be shown all the same.
#[tokio::test]
async fn what_is_ordered_over_a_store_that_tells_nobody_holds_at_all_replicas_and_is_a_trouble() {
    let [strict, leased] = BOTH;
    tokio::join!(
        order_untold(strict, "-publish"),
        order_untold(strict, "resetchannels"),
        order_untold(leased, "-publish"),
        order_untold(leased, "resetchannels"),
    );
}

async fn order_untold(decisions: Decisions, rule: &'static str) {
    let how = format!("{decisions:?} {rule}");
    let server = Server::start(Make::Redis, &[]);
    let set_user = |rules: &[&str]| set_user(&server, rules);
    let url = url_of_a_user(&server);
    let (one, store) = replica(&url, decisions).await;
    let (two, its_store) = replica(&url, decisions).await;
    for on in [&one, &two] {
        first(on, "payments").await;
    }
    set_user(&[rule]);
    let ana = Actor {
        owner: "ana",
        reason: "drill",
    };
    let forced = one.set_override(key("payments"), OverrideKind::ForceOpen, ana, None);
    assert!(forced.await.is_ok(), "{how}");
    until(&how, async || is_forced_open(&two, "payments").await).await;
    until(&how, async || {
        assert!(!store.is_away() && !its_store.is_away(), "{how}");
        !store.troubles().is_empty() && !its_store.troubles().is_empty()
    })
    .await;
    let cleared = two.clear_override(key("payments"), ana);
    assert!(cleared.await.is_ok(), "{how}");
    until(&how, async || !is_forced_open(&one, "payments").await).await;
    set_user(&["+@all", "&*"]);
    until(&how, async || {
        store.troubles().is_empty() && its_store.troubles().is_empty()
    })
    .await;
}

/// A command that the script needs behind others.
#[tokio::test]
async fn an_order_that_the_store_refuses_holds_nowhere() {
    for decisions in BOTH {
        let server = Server::start(Make::Redis, &[]);
        let set_user = |rules: &[&str]| set_user(&server, rules);
        let url = url_of_a_user(&server);
        let (one, store) = replica(&url, decisions).await;
        first(&one, "payments").await;
        for rule in ["-zadd", "-pexpire"] {
            let how = format!("{decisions:?} {rule}");
            set_user(&[rule]);
            let ana = Actor {
                owner: "ana",
                reason: "drill",
            };
            let forced = one.set_override(key("payments"), OverrideKind::ForceOpen, ana, None);
            assert!(forced.await.is_err(), "{how}");
            set_user(&["+@all"]);
            until(&how, async || !store.is_away()).await;
            let (two, _) = replica(&url, decisions).await;
            for on in [&one, &two] {
                assert!(!is_forced_open(on, "payments").await, "{how}");
            }
        }
    }
}

/// Too quick to be away, and a replica that starts asks first.
#[tokio::test]
async fn what_was_ordered_last_holds_over_a_store_that_comes_back_without_its_last_writes() {
    for decisions in BOTH {
        let how = format!("{decisions:?}");
        let mut server = Server::start(Make::Redis, &[]);
        let (one, store) = replica(&server.url(), decisions).await;
        let ana = Actor {
            owner: "ana",
            reason: "drill",
        };
        for name in ["forced", "released"] {
            first(&one, name).await;
        }
        let open = OverrideKind::ForceOpen;
        let released = one.set_override(key("released"), open, ana, None);
        released.await.unwrap();
        let saved = redis::cmd("SAVE").query::<()>(&mut server.connection());
        saved.unwrap();
        one.clear_override(key("released"), ana).await.unwrap();
        let forced = one.set_override(key("forced"), open, ana, None);
        forced.await.unwrap();
        server.lose_the_last(Make::Redis);
        let (two, its_store) = replica(&server.url(), decisions).await;
        for name in ["forced", "released"] {
            first(&two, name).await;
        }
        until(&how, async || {
            let two_obeys = is_forced_open(&two, "forced").await;
            two_obeys && !is_forced_open(&two, "released").await
        })
        .await;
        assert!(is_forced_open(&one, "forced").await, "{how}");
        assert!(!is_forced_open(&one, "released").await, "{how}");
        assert!(!store.is_away() && !its_store.is_away(), "{how}");
    }
}

#[tokio::test]
async fn a_replica_says_that_its_store_has_the_key_of_another_fleet() {
    for decisions in BOTH {
        let how = format!("{decisions:?}");
        let server = Server::start(Make::Redis, &[]);
        let (_one, store) = replica(&server.url(), decisions).await;
        assert!(store.troubles().is_empty(), "{how}");
        let mut taken = redis::pipe();
        taken.atomic().cmd("FLUSHALL").cmd("SET");
        taken.arg("holdoff:{0}key").arg(&[9_u8; 16][..]);
        taken
            .query::<redis::Value>(&mut server.connection())
            .unwrap();
        until(&how, async || {
            store.troubles().iter().any(|it| it.contains("key"))
        })
        .await;
    }
}
