//! The fleet: clients of several services, each an instance with a connection of its own, that call
//! the dependency again and again. Most use the Rust client and its session; every fourth asks
//! call by call, as a generated stub does (`unary`).
//!
//! They take the two steps of [`Permit`] rather than `Client::call`, which does the same, so that the
//! places they are given can be shown.

use std::{sync::Arc, time::Duration};

use holdoff_client::{Client, Denied, OutcomeKind, Permit, Question, Safety};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    super::exit::Failure,
    counts::{Counting, No},
    dependency::{Dependency, PATIENCE, between},
    unary::Unary,
};
use crate::entropy::Entropy;

/// What is called.
pub const DEPENDENCY: &str = "payments";
/// A call every half second or so, each.
const PAUSE_MS: (u64, u64) = (250, 750);
/// The longest that the service is waited for. The whole demo shares this machine's processors.
const ANSWER: Duration = Duration::from_millis(500);
/// No denial is waited for longer.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A kind of caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: &'static str,
    pub safety: Safety,
    /// For a call with all its retries.
    pub deadline: Duration,
}

const SERVICES: [Service; 4] = [
    Service {
        name: "checkout",
        safety: Safety::Keyed,
        deadline: Duration::from_secs(3),
    },
    Service {
        name: "invoices",
        safety: Safety::Idempotent,
        deadline: Duration::from_secs(10),
    },
    Service {
        name: "refunds",
        safety: Safety::Unsafe,
        deadline: Duration::from_secs(3),
    },
    // Asks call by call.
    Service {
        name: "reports",
        safety: Safety::Idempotent,
        deadline: Duration::from_secs(10),
    },
];

/// What all clients share.
#[derive(Debug)]
pub struct World {
    pub dependency: Dependency,
    pub counting: Counting,
    /// When whoever calls next.
    pub pauses: Entropy,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            dependency: Dependency::new(seed),
            counting: Counting::default(),
            pauses: Entropy::seeded(seed.wrapping_add(1)),
        }
    }

    /// An attempt may be made, after a delay.
    pub fn granted(&self, attempt: u32, delay: Duration, is_probe: bool) {
        let mut counts = self.counting.lock();
        if !delay.is_zero() {
            counts.due.push(self.dependency.age() + delay);
        }
        counts.retries += u64::from(attempt > 1);
        counts.probes += u64::from(is_probe);
    }

    pub fn denied(&self, no: No) {
        self.counting.lock().deny(no);
    }
}

/// Starts so many clients of the service at `url`. They end with what is returned.
///
/// # Errors
/// [`Failure::Usage`] for what is no address.
pub fn start(url: &str, clients: u32, world: &Arc<World>) -> Result<JoinSet<()>, Failure> {
    let mut tasks = JoinSet::new();
    for (number, service) in (0..clients).zip(SERVICES.into_iter().cycle()) {
        let instance = format!("{}-{}", service.name, number / 4 + 1);
        let world = Arc::clone(world);
        if service.name == "reports" {
            let unary = Unary::new(url, service, instance)?;
            tasks.spawn(async move { unary_life(&world, unary).await });
        } else {
            let client = Client::builder()
                .endpoints([url])
                .service(service.name)
                .instance(instance)
                .timeout(ANSWER)
                .follow([DEPENDENCY])
                .build()
                .map_err(|error| Failure::Usage(error.to_string()))?;
            tasks.spawn(async move { session_life(&world, &client, service).await });
        }
    }
    Ok(tasks)
}

async fn session_life(world: &World, client: &Client, service: Service) {
    client.connect(ANSWER).await;
    loop {
        pause(world).await;
        let succeeded = session_call(world, client, service).await;
        ended(world, succeeded);
    }
}

async fn unary_life(world: &World, mut unary: Unary) {
    loop {
        pause(world).await;
        let succeeded = unary.call(world).await;
        ended(world, succeeded);
    }
}

async fn pause(world: &World) {
    let (least, most) = PAUSE_MS;
    sleep(between(least, most, world.pauses.sample().jitter)).await;
}

fn ended(world: &World, succeeded: bool) {
    let mut counts = world.counting.lock();
    counts.calls += 1;
    match succeeded {
        true => counts.succeeded += 1,
        false => counts.given_up += 1,
    }
}

/// One call with all its attempts; whether it succeeded.
async fn session_call(world: &World, client: &Client, service: Service) -> bool {
    let begun = Instant::now();
    let question = || {
        Question::new(DEPENDENCY)
            .safety(service.safety)
            .attempt_timeout(PATIENCE + Duration::from_millis(50))
            .deadline(service.deadline.saturating_sub(begun.elapsed()))
    };
    let mut asked = client.acquire(question()).await;
    loop {
        let permit = match usable(world, asked).await {
            Ok(permit) => permit,
            Err(denied) => match time_to_ask_again(service, begun, denied.retry_after) {
                Some(wait) => {
                    sleep(wait).await;
                    asked = client.acquire(question()).await;
                    continue;
                }
                None => return false,
            },
        };
        let end = world.dependency.call().await;
        if end.kind == OutcomeKind::Success {
            permit.report(end.outcome());
            return true;
        }
        asked = permit.retry(end.outcome()).await;
    }
}

/// The permit, once its time has come.
async fn usable(world: &World, asked: Result<Permit, Denied>) -> Result<Permit, Denied> {
    let count = |denied: Denied| {
        world.denied(denied.reason.into());
        denied
    };
    let permit = asked.map_err(count)?;
    world.granted(permit.attempt(), permit.delay(), permit.is_probe());
    if permit.is_local() {
        world.counting.lock().alone += 1;
    }
    permit.wait().await.map_err(count)
}

/// Who has time waits and asks again; the others take the "no" at once.
pub fn time_to_ask_again(
    service: Service,
    begun: Instant,
    retry_after: Option<Duration>,
) -> Option<Duration> {
    let left = service.deadline.saturating_sub(begun.elapsed());
    let is_patient = service.deadline > WAIT_MAX;
    retry_after.filter(|wait| is_patient && *wait < left.min(WAIT_MAX))
}
