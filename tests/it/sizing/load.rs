//! A fleet's load on replicas in this process, even over time: first attempts and their reports
//! round all dependencies, and a retry for what failed. Used over a real store and over the one
//! in this process, so that their costs can be compared.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use holdoff::{
    clock::Clock,
    coordinator::{Caller, Coordinator, Entry, Inquiry, Key, Made, Parts, Subject},
    durable::{Durable, PermitKey, Start},
    entropy::Entropy,
    store::RedisStore,
};
use holdoff_decision::{Nanos, Outcome, OutcomeKind, Priority};
use tokio::time::Instant;

pub const FAIL: Outcome = Outcome::of(OutcomeKind::Failure);
const OK: Outcome = Outcome::of(OutcomeKind::Success);
const TICK: Duration = Duration::from_millis(10);

pub type Replica = Arc<Coordinator<RedisStore>>;

/// What the clients of one replica do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub dependencies: u32,
    /// First attempts a second, each with its report.
    pub pairs_per_second: u32,
    /// One attempt in so many fails, and is asked to be retried; 0: none does.
    pub fails_one_in: u32,
    pub lasts: Duration,
}

/// A replica over `store`, with the default policy.
pub async fn replica(store: RedisStore) -> Replica {
    let clock = Clock::Fleet(store.clock());
    let now = Nanos(clock.now().0);
    let mut opened = Durable::in_memory(Start {
        wall_now: UNIX_EPOCH + Duration::from_nanos(now.0),
        fresh_permit_key: PermitKey(store.permit_key()),
    });
    opened.state.boot = 1;
    let parts = Parts {
        store,
        clock,
        entropy: Entropy::System,
        opened,
    };
    let begun = Coordinator::start(parts, Vec::new()).await;
    let coordinator = Arc::new(begun.expect("there are no policies").coordinator);
    coordinator.follow_store();
    coordinator
}

impl Load {
    /// Even over the dependencies, without a pattern.
    fn fails(self, made: u64, number: u32) -> bool {
        let mixed = (made ^ u64::from(number) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32;
        self.fails_one_in > 0 && mixed.is_multiple_of(self.fails_one_in.into())
    }

    /// Puts it on one replica, and says how many decisions that were.
    pub async fn put_on(self, replica: Replica, number: u32) -> u64 {
        let begun = Instant::now();
        let ticks = self.lasts.as_millis() as u64 / TICK.as_millis() as u64;
        let each_second = u64::from(self.pairs_per_second);
        let (mut made, mut decisions) = (0_u64, 0_u64);
        let mut retries = tokio::task::JoinSet::new();
        for tick in 1..=ticks {
            let due = each_second * tick * TICK.as_millis() as u64 / 1_000;
            while made < due {
                let at = (made + u64::from(number)) % u64::from(self.dependencies);
                let name: Arc<str> = format!("dependency-{at}").into();
                let instance: Arc<str> = format!("client-{number}-{}", made % 20).into();
                made += 1;
                decisions += 1;
                let asked = inquiry(&name, &instance, Subject::First);
                let decision = replica.acquire(&asked).await.expect("it is decided");
                let Some(permit) = decision.permit else {
                    continue;
                };
                let fails = self.fails(made, number);
                if fails {
                    decisions += 1;
                    let replica = Arc::clone(&replica);
                    retries.spawn(async move {
                        let subject = Subject::Retry {
                            attempt: 2,
                            made: Made::Permit(&permit),
                            outcome: FAIL,
                        };
                        let asked = inquiry(&name, &instance, subject);
                        let decision = replica.acquire(&asked).await.expect("it is decided");
                        if let Some(permit) = decision.permit {
                            ended(&replica, &permit, &instance).await;
                        }
                    });
                } else {
                    ended(&replica, &permit, &instance).await;
                }
                if made.is_multiple_of(64) {
                    tokio::task::yield_now().await;
                }
            }
            tokio::time::sleep_until(begun + TICK * u32::try_from(tick).expect("it is short"))
                .await;
        }
        while let Some(retry) = retries.join_next().await {
            retry.expect("no task panics");
        }
        decisions
    }
}

async fn ended(replica: &Replica, permit: &[u8], instance: &str) {
    let entries = [Entry::Permit(permit, OK)];
    let told = replica.report("default", caller(instance), &entries, 0);
    told.await.expect("it is taken");
}

fn caller(instance: &str) -> Caller<'_> {
    Caller {
        service: "shop",
        instance,
    }
}

fn inquiry<'a>(dependency: &'a str, instance: &'a str, subject: Subject<'a>) -> Inquiry<'a> {
    Inquiry {
        key: Key {
            namespace: "default",
            dependency,
        },
        caller: caller(instance),
        subject,
        call_id: "",
        idempotent: true,
        time_left: None,
        cost: 1,
        priority: Priority::Normal,
    }
}
