//! The leased and the strict path over a real server beside the embedded store and beside what
//! they are measured by: a plain client's token bucket, one EVALSHA a decision.
//!
//! `cargo bench --bench store` (needs redis-server; `bash tests/stores`)

#![recursion_limit = "256"]

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use holdoff::{
    clock::Clock,
    coordinator::{Caller, Coordinator, Inquiry, Key, Parts, Subject},
    durable::{Durable, PermitKey, Start},
    entropy::Entropy,
    store::{
        MemoryStore, RedisStore, Store,
        redis::{Address, Decisions, Timing},
    },
};
use holdoff_decision::Priority;

const MEASURED: Duration = Duration::from_secs(2);
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
    runtime.block_on(measure(port));
}

async fn measure(port: u16) {
    let url = format!("redis://127.0.0.1:{port}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    for callers in [1, 50, 500] {
        for dependencies in [1, 50] {
            let memory = coordinator(MemoryStore::default(), Clock::system()).await;
            let embedded = decisions(Arc::new(memory), callers, dependencies).await;
            let leased = over(&url, "l", Decisions::Leased, callers, dependencies).await;
            let before = calls(&url).await;
            let strict = over(&url, "s", Decisions::Strict, callers, dependencies).await;
            let swaps = calls(&url).await - before;
            let bucket = buckets(&url, callers, dependencies).await;
            println!(
                "{callers:>4} callers, {dependencies:>3} dependencies: embedded {embedded:>9.0}/s, \
                 leased {leased:>9.0}/s, strict {strict:>8.0}/s ({:.1} decisions a swap), plain EVALSHA bucket {bucket:>8.0}/s",
                strict * MEASURED.as_secs_f64() / swaps.max(1) as f64
            );
        }
    }
}

async fn over(url: &str, name: &str, decisions: Decisions, callers: u32, dependencies: u32) -> f64 {
    let prefix = format!("{url}?prefix={name}{callers}d{dependencies}:");
    let address: Address = prefix.parse().expect("a URL");
    let timing = Timing {
        answer_within: Duration::from_secs(5),
        ..Timing::default()
    };
    let store = RedisStore::connect(&address, timing, decisions, [7; 16]).await;
    let store = store.expect("the store answers");
    let clock = Clock::Fleet(store.clock());
    let shared = coordinator(store, clock).await;
    self::decisions(Arc::new(shared), callers, dependencies).await
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

async fn decisions<S: Store>(on: Arc<Coordinator<S>>, callers: u32, dependencies: u32) -> f64 {
    let end = Instant::now() + MEASURED;
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let on = Arc::clone(&on);
            let (name, instance) = (format!("d{}", caller % dependencies), format!("i{caller}"));
            tokio::spawn(async move {
                let mut done = 0_u64;
                while Instant::now() < end {
                    let inquiry = Inquiry {
                        key: Key {
                            namespace: "default",
                            dependency: &name,
                        },
                        caller: Caller {
                            service: "shop",
                            instance: &instance,
                        },
                        subject: Subject::First,
                        call_id: "",
                        idempotent: true,
                        time_left: None,
                        cost: 1,
                        priority: Priority::Normal,
                    };
                    let decision = on.acquire(&inquiry).await.expect("it is decided");
                    if let Some(permit) = decision.permit {
                        std::hint::black_box(permit);
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

async fn buckets(url: &str, callers: u32, dependencies: u32) -> f64 {
    let client = redis::Client::open(url).expect("a URL");
    let connection = client.get_multiplexed_async_connection().await;
    let connection = connection.expect("the store answers");
    let script = Arc::new(redis::Script::new(BUCKET));
    let end = Instant::now() + MEASURED;
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (mut connection, script) = (connection.clone(), Arc::clone(&script));
            let key = format!("bucket{}", caller % dependencies);
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
