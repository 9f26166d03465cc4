//! The leased and the strict path over a real server beside the embedded store and beside what
//! they are measured by: a plain client's token bucket, one EVALSHA a decision.
//!
//! `cargo bench --bench store` (needs redis-server; `bash tests/stores`). The four take turns, five
//! times over; what is printed are medians. `-- embedded`, `leased` or `strict` has its one caller run
//! alone, for a profiler.

#![recursion_limit = "256"]

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use holdoff::{
    clock::Clock,
    coordinator::{Caller, Coordinator, Entry, Inquiry, Key, Parts, Subject},
    durable::{Durable, PermitKey, Start},
    entropy::Entropy,
    store::{
        MemoryStore, RedisStore, Store,
        redis::{Address, Decisions, Timing},
    },
};
use holdoff_decision::{Outcome, OutcomeKind, Priority};

const MEASURED: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;
const BUCKET: &str = "\
local tokens = tonumber(redis.call('HGET', KEYS[1], 't') or ARGV[1])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local at = tonumber(redis.call('HGET', KEYS[1], 'a') or now)
tokens = math.min(tonumber(ARGV[1]), tokens + (now - at) * tonumber(ARGV[2]))
local granted = tokens >= 1
if granted then tokens = tokens - 1 end
redis.call('HSET', KEYS[1], 't', tokens, 'a', now)
redis.call('PEXPIRE', KEYS[1], 60000)
return granted and 1 or 0";

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("there is a free port")
        .port();
    let server = Command::new("redis-server")
        .args([
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ])
        .stdout(Stdio::null())
        .spawn();
    let _server = Server(server.expect("redis-server is installed: bash tests/stores"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    runtime.block_on(async {
        let url = format!("redis://127.0.0.1:{port}");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let load = Load {
            callers: 1,
            dependencies: 1,
        };
        match only.as_deref() {
            None => measure(&url).await,
            Some("embedded") => alone(embedded().await, load).await,
            Some("leased") => alone(over(&url, "l", Decisions::Leased, load).await, load).await,
            Some("strict") => alone(over(&url, "s", Decisions::Strict, load).await, load).await,
            Some(other) => panic!("{other} is none of embedded, leased, strict"),
        }
    });
}

/// A store to itself, and what has to stay as it is while it is measured.
struct Measured<S> {
    on: Arc<Coordinator<S>>,
    found: [Vec<f64>; 2],
}

impl<S: Store> Measured<S> {
    fn new(on: Coordinator<S>) -> Self {
        let on = Arc::new(on);
        on.follow_store();
        let found = Default::default();
        Self { on, found }
    }

    async fn turn(&mut self, load: Load) {
        for (asks, found) in [Asks::Alone, Asks::AndReports].iter().zip(&mut self.found) {
            found.push(decisions(Arc::clone(&self.on), load, *asks).await);
        }
    }

    fn medians(&mut self) -> [f64; 2] {
        self.found.each_mut().map(|found| median(found))
    }
}

#[derive(Clone, Copy)]
struct Load {
    callers: u32,
    dependencies: u32,
}

/// What a caller does, over and over.
#[derive(Clone, Copy)]
enum Asks {
    Alone,
    AndReports,
}

async fn alone<S: Store>(on: Coordinator<S>, load: Load) {
    let mut measured = Measured::new(on);
    for _ in 0..ROUNDS {
        measured.turn(load).await;
    }
    println!("{:.0?}", measured.medians());
}

async fn measure(url: &str) {
    println!("a second: first attempts, and first attempts with their reports");
    for (callers, dependencies) in [(1, 1), (50, 1), (50, 50), (500, 50)] {
        let load = Load {
            callers,
            dependencies,
        };
        let mut embedded = Measured::new(embedded().await);
        let mut leased = Measured::new(over(url, "l", Decisions::Leased, load).await);
        let mut strict = Measured::new(over(url, "s", Decisions::Strict, load).await);
        let (mut scripted, mut swaps) = (Vec::new(), 0);
        for _ in 0..ROUNDS {
            embedded.turn(load).await;
            leased.turn(load).await;
            let before = calls(url).await;
            strict.turn(load).await;
            swaps += calls(url).await - before;
            scripted.push(buckets(url, load).await);
        }
        let of_strict: f64 = strict.found.iter().flatten().sum();
        let in_a_swap = of_strict * MEASURED.as_secs_f64() / swaps.max(1) as f64;
        let scripted = median(&mut scripted);
        println!("{callers} callers, {dependencies} dependencies: EVALSHA bucket {scripted:.0}");
        let (embedded, leased, strict) = (embedded.medians(), leased.medians(), strict.medians());
        for at in 0..2 {
            println!(
                "    embedded {:>9.0}, leased {:>9.0} ({:.3} of it, {:>5.1} buckets), strict {:>8.0} \
                 ({:.2} buckets, {in_a_swap:.1} in a swap)",
                embedded[at],
                leased[at],
                leased[at] / embedded[at],
                leased[at] / scripted,
                strict[at],
                strict[at] / scripted,
            );
        }
    }
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

async fn embedded() -> Coordinator<MemoryStore> {
    coordinator(MemoryStore::default(), Clock::system()).await
}

async fn over(url: &str, name: &str, decisions: Decisions, load: Load) -> Coordinator<RedisStore> {
    let Load {
        callers,
        dependencies,
    } = load;
    let prefix = format!("{url}?prefix={name}{callers}d{dependencies}:");
    let address: Address = prefix.parse().expect("a URL");
    let timing = Timing {
        answer_within: Duration::from_secs(5),
        ..Timing::default()
    };
    let store = RedisStore::connect(&address, timing, decisions, [7; 16]).await;
    let store = store.expect("the store answers");
    let clock = Clock::Fleet(store.clock());
    coordinator(store, clock).await
}

async fn coordinator<S: Store>(store: S, clock: Clock) -> Coordinator<S> {
    let opened = Durable::in_memory(Start {
        wall_now: SystemTime::now(),
        fresh_permit_key: PermitKey([7; 16]),
    });
    let parts = Parts {
        store,
        clock,
        entropy: Entropy::System,
        opened,
    };
    let begun = Coordinator::start(parts, Vec::new()).await;
    begun.expect("there are no policies").coordinator
}

async fn decisions<S: Store>(on: Arc<Coordinator<S>>, load: Load, asks: Asks) -> f64 {
    let end = Instant::now() + MEASURED;
    let tasks: Vec<_> = (0..load.callers)
        .map(|caller| {
            let on = Arc::clone(&on);
            let name = format!("d{}", caller % load.dependencies);
            let instance = format!("i{caller}");
            tokio::spawn(async move {
                let mut done = 0_u64;
                let caller = Caller {
                    service: "shop",
                    instance: &instance,
                };
                while Instant::now() < end {
                    let inquiry = Inquiry {
                        key: Key {
                            namespace: "default",
                            dependency: &name,
                        },
                        caller,
                        subject: Subject::First,
                        call_id: "",
                        idempotent: true,
                        time_left: None,
                        cost: 1,
                        priority: Priority::Normal,
                    };
                    let decision = on.acquire(&inquiry).await.expect("it is decided");
                    let permit = decision.permit.expect("it is granted");
                    if let Asks::AndReports = asks {
                        let ended = Outcome::of(OutcomeKind::Success);
                        let entries = [Entry::Permit(&permit, ended)];
                        let told = on.report("default", caller, &entries, 0).await;
                        told.expect("it is taken");
                    }
                    done += 1;
                    if done.is_multiple_of(64) {
                        tokio::task::yield_now().await;
                    }
                }
                done
            })
        })
        .collect();
    total(tasks).await
}

async fn buckets(url: &str, load: Load) -> f64 {
    let client = redis::Client::open(url).expect("a URL");
    let connection = client.get_multiplexed_async_connection().await;
    let connection = connection.expect("the store answers");
    let script = Arc::new(redis::Script::new(BUCKET));
    let end = Instant::now() + MEASURED;
    let tasks: Vec<_> = (0..load.callers)
        .map(|caller| {
            let (mut connection, script) = (connection.clone(), Arc::clone(&script));
            let key = format!("bucket{}", caller % load.dependencies);
            tokio::spawn(async move {
                let mut done = 0_u64;
                while Instant::now() < end {
                    let mut call = script.key(&key);
                    call.arg(1_000_000).arg(1_000_000);
                    let granted = call.invoke_async::<u8>(&mut connection).await;
                    assert_eq!(granted.expect("the store answers"), 1);
                    done += 1;
                }
                done
            })
        })
        .collect();
    total(tasks).await
}

async fn total(tasks: Vec<tokio::task::JoinHandle<u64>>) -> f64 {
    let mut all = 0;
    for task in tasks {
        all += task.await.expect("no task panics");
    }
    all as f64 / MEASURED.as_secs_f64()
}

/// EVALSHA calls that the server has seen.
async fn calls(url: &str) -> u64 {
    let client = redis::Client::open(url).expect("a URL");
    let connection = client.get_multiplexed_async_connection().await;
    let mut connection = connection.expect("the store answers");
    let mut info = redis::cmd("INFO");
    info.arg("commandstats");
    let told: String = info.query_async(&mut connection).await.expect("it tells");
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok())
        .unwrap_or(0)
}
