//! What a fleet costs its store, counted by a real one and by the one in this process that
//! docs/sizing.md goes by for fleets that fit no machine.

#[path = "sizing/load.rs"]
pub mod load;

use std::{sync::Arc, time::Duration};

use holdoff::store::{
    RedisStore,
    redis::{Decisions, here::Here},
};
use holdoff_decision::Time;

use self::load::{Load, Replica, replica};
use crate::stores::{Make, PATIENT, Server, connect_with};

const REPLICAS: u32 = 4;

#[derive(Debug)]
struct Cost {
    commands: f64,
    received: f64,
    sent: f64,
}

async fn under(load: Load, replicas: Vec<Replica>) -> u64 {
    let tasks: Vec<_> = (1..)
        .zip(replicas)
        .map(|(number, replica)| tokio::spawn(load.put_on(replica, number)))
        .collect();
    let mut decisions = 0;
    for task in tasks {
        decisions += task.await.unwrap();
    }
    decisions
}

/// What a start costs is not counted.
fn begun(load: Load) -> Load {
    Load {
        lasts: Duration::from_secs(1),
        ..load
    }
}

/// Of the server's own counters.
fn counted(server: &Server) -> Cost {
    let info = |section: &str| -> String {
        redis::cmd("INFO")
            .arg(section)
            .query(&mut server.connection())
            .unwrap()
    };
    let (commands, stats) = (info("commandstats"), info("stats"));
    let number = |text: &str, name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split(',').next()?.parse().ok())
            .unwrap_or_default()
    };
    let all = ["evalsha", "zrangebyscore", "set", "getex", "publish"];
    let calls = |name: &&str| number(&commands, &format!("cmdstat_{name}:calls="));
    // Those that the script makes itself are counted with the others.
    let within = number(&commands, "cmdstat_zadd:calls=");
    Cost {
        commands: all.iter().map(calls).sum::<f64>() - within,
        received: number(&stats, "total_net_input_bytes:"),
        sent: number(&stats, "total_net_output_bytes:"),
    }
}

async fn really(load: Load) -> (Cost, u64) {
    let server = Server::start(Make::Redis, &[]);
    let mut replicas = Vec::new();
    for _ in 0..REPLICAS {
        replicas.push(replica(connect_with(&server.url(), Decisions::Leased).await).await);
    }
    under(begun(load), replicas.clone()).await;
    let before = counted(&server);
    let decisions = under(load, replicas).await;
    let after = counted(&server);
    let cost = Cost {
        commands: after.commands - before.commands,
        received: after.received - before.received,
        sent: after.sent - before.sent,
    };
    (cost, decisions)
}

async fn by_the_model(load: Load) -> (Cost, u64) {
    let origin = Time(1_700_000_000_000_000_000);
    let here = Arc::new(Here::new(origin, Duration::from_micros(200)));
    let mut replicas = Vec::new();
    for number in 1..=REPLICAS {
        let key = [number as u8; 16];
        let store = RedisStore::over(&here, PATIENT, Decisions::Leased, key).await;
        replicas.push(replica(store.unwrap()).await);
    }
    under(begun(load), replicas.clone()).await;
    let before = here.cost();
    let decisions = under(load, replicas).await;
    let cost = here.cost().since(&before);
    let cost = Cost {
        commands: cost.commands() as f64,
        received: cost.received as f64,
        sent: (cost.answered + cost.told) as f64,
    };
    (cost, decisions)
}

/// Loads that a debug build bears on a busy machine.
const LOADS: [(&str, u32, u32); 3] = [
    ("one dependency, all well", 1, 0),
    ("a hundred dependencies, all well", 100, 0),
    (
        "a hundred dependencies, one attempt in fifty fails",
        100,
        50,
    ),
];

#[test]
fn the_store_in_this_process_counts_what_a_real_one_counts() {
    let mut told = Vec::new();
    for (name, dependencies, fails_one_in) in LOADS {
        let load = Load {
            dependencies,
            pairs_per_second: 500,
            fails_one_in,
            lasts: Duration::from_secs(3),
        };
        let threads = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all();
            builder
        };
        let (real, decided) = threads().build().unwrap().block_on(really(load));
        let paused = threads().start_paused(true).build().unwrap();
        let (model, modelled) = paused.block_on(by_the_model(load));
        assert!(
            decided.abs_diff(modelled) * 20 < decided,
            "{decided} {modelled}"
        );
        println!("{name}: {decided} decisions, really {real:.0?}, by the model {model:.0?}");
        for (what, real, model) in [
            ("commands", real.commands, model.commands),
            ("bytes received", real.received, model.received),
            ("bytes sent", real.sent, model.sent),
        ] {
            let ratio = model / real;
            if !(0.8..=1.25).contains(&ratio) {
                told.push(format!(
                    "{name}: {what}: {model:.0} by the model, really {real:.0}"
                ));
            }
        }
    }
    assert!(told.is_empty(), "{told:#?}");
}
