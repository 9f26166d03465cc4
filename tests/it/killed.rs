//! The service is killed in the middle of an outage, with a fleet of clients, and comes back.
//!
//! A real process, real sockets and therefore real time. Two dependencies: `orders` fails
//! every call, and its breaker is open before the kill and after it; `payments` throttles most
//! of its calls, which trips no breaker, so that only budget and allowance hold its retries
//! back.
//!
//! What a call waited because of holdoff is the time it spent in the client, less the delays
//! it was granted, and less the time in which this process itself stood still.

use std::{
    net::TcpListener,
    ops::Range,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use holdoff_client::{
    Client, DenialReason, Denied, DeniedBy, Outcome, OutcomeKind, Permit, Question, Safety,
    proto::{self, BreakerState, ClearHoldRequest},
};
use rand::RngExt;

use crate::{
    harness::{self, PATIENCE, denial_of, first, grant_of, ms, outcome, seconds},
    process::{Running, written},
};

const CLIENTS: usize = 100;
const SECOND: Duration = Duration::from_secs(1);
/// The pause of a client between two calls.
const PAUSE: Duration = Duration::from_millis(150);
/// Longer than the range from which a client draws its next try, so that each has tried.
const AWAY: Duration = Duration::from_secs(6);
/// What the contract allows a call to wait, and the grain of the timer that ends the wait.
const WAIT_MAX: Duration = Duration::from_millis(50);
const TIMER: Duration = Duration::from_millis(3);
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// Retries a second of the whole fleet, as in the policy.
const FLOOR: usize = 20;
const TTL: Duration = Duration::from_secs(5);

const POLICIES: &str = "
version: 1
namespaces:
  default:
    dependencies:
      orders: {breaker: {window: 10, min_calls: 5, open_for: 10m, open_max: 10m}}
      payments:
        retry: {max_attempts: 3, initial_delay: 20ms, max_delay: 100ms}
        budget: {ratio: 0.1, floor_per_second: 20, ttl: 5s, max_caller_share: 1}
        calendar: {retry_rate: off}
";

/// What one client did.
#[derive(Default)]
struct Seen {
    calls: Vec<Vec<InClient>>,
    firsts: Vec<Instant>,
    retries: Vec<Retry>,
    /// The service has decided a question that was asked of it.
    decided: Vec<Instant>,
    /// Calls of `orders` that were let through.
    orders: Vec<Instant>,
    /// What no caller should see.
    faults: Vec<String>,
}

/// A span in the client's code.
#[derive(Clone, Copy)]
struct InClient {
    from: Instant,
    to: Instant,
    granted: Duration,
}

struct Retry {
    promised: Instant,
    is_local: bool,
}

impl Seen {
    /// Calls until it is told to end, a few times a second.
    async fn collect(client: Client, until: Arc<Mutex<Option<Instant>>>) -> Self {
        let mut seen = Self::default();
        let begin = rand::rng().random_range(0.0..1.0);
        tokio::time::sleep(PAUSE.mul_f64(begin)).await;
        while until.lock().unwrap().is_none_or(|end| Instant::now() < end) {
            seen.call_payments(&client).await;
            seen.call_orders(&client).await;
            tokio::time::sleep(PAUSE).await;
        }
        seen
    }

    async fn call_payments(&mut self, client: &Client) {
        let mut spent = Vec::new();
        let question = Question::new("payments").safety(Safety::Idempotent);
        let mut asked = timed(&mut spent, client.acquire(question)).await;
        let mut attempt = 1;
        loop {
            let permit = match asked {
                Ok(permit) => permit,
                Err(denied) => break self.note_denied(attempt, &denied),
            };
            if attempt == 1 {
                self.firsts.push(Instant::now());
            }
            let (from, granted) = (Instant::now(), permit.delay());
            let waited = permit.wait().await;
            let to = Instant::now();
            spent.push(InClient { from, to, granted });
            let permit = match waited {
                Ok(permit) => permit,
                Err(denied) => break self.note_denied(attempt, &denied),
            };
            tokio::time::sleep(Duration::from_millis(5)).await;
            if rand::rng().random_bool(0.3) {
                permit.report(Outcome::success());
                break;
            }
            attempt += 1;
            let throttled = Outcome::new(OutcomeKind::Throttled);
            asked = timed(&mut spent, permit.retry(throttled)).await;
            self.note_retry(&asked);
        }
        self.calls.push(spent);
    }

    async fn call_orders(&mut self, client: &Client) {
        let mut spent = Vec::new();
        match timed(&mut spent, client.acquire("orders")).await {
            Ok(permit) => {
                self.orders.push(Instant::now());
                permit.report(Outcome::failure());
            }
            Err(denied) if denied.reason == DenialReason::BreakerOpen => {}
            Err(denied) => self.faults.push(format!("orders: {denied}")),
        }
        self.calls.push(spent);
    }

    fn note_retry(&mut self, asked: &Result<Permit, Denied>) {
        let is_local = match asked {
            Ok(permit) => permit.is_local(),
            Err(denied) => denied.by != DeniedBy::Fleet,
        };
        let now = Instant::now();
        if asked.is_ok() {
            let promised = now;
            self.retries.push(Retry { promised, is_local });
        }
        if !is_local {
            self.decided.push(now);
        }
    }

    /// The first attempt of `payments` is never denied, and a retry for its budget or its
    /// limit of attempts only.
    fn note_denied(&mut self, attempt: u32, denied: &Denied) {
        let is_fair = attempt > 1
            && matches!(
                denied.reason,
                DenialReason::BudgetExhausted | DenialReason::AttemptsExhausted
            );
        if !is_fair {
            self.faults.push(format!("attempt {attempt}: {denied}"));
        }
    }
}

async fn timed<T>(spent: &mut Vec<InClient>, step: impl Future<Output = T>) -> T {
    let from = Instant::now();
    let done = step.await;
    spent.push(InClient {
        from,
        to: Instant::now(),
        granted: Duration::ZERO,
    });
    done
}

/// The times in which this process did not get to run what was due: the machine is busy.
async fn note_stalls(stalls: Arc<Mutex<Vec<(Instant, Instant)>>>) {
    loop {
        let due = Instant::now() + Duration::from_millis(1);
        tokio::time::sleep_until(due.into()).await;
        let now = Instant::now();
        if now > due + TIMER {
            stalls.lock().unwrap().push((due, now));
        }
    }
}

/// When each connection was made.
async fn note_connections(clients: Vec<Client>, times: Arc<Mutex<Vec<Instant>>>) {
    let count = |clients: &[Client]| -> u64 {
        let each = clients.iter().map(|client| client.counters().connections);
        each.sum()
    };
    let mut known = count(&clients);
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let now = count(&clients);
        let new = usize::try_from(now - known).unwrap();
        known = now;
        let mut times = times.lock().unwrap();
        times.extend(std::iter::repeat_n(Instant::now(), new));
    }
}

/// The most of these times, which rise, that lie within one span of this length.
fn fullest(times: &[Instant], span: Duration) -> usize {
    let within = |from: usize| times[from..].partition_point(|at| *at < times[from] + span);
    (0..times.len()).map(within).max().unwrap_or(0)
}

fn sorted(times: impl Iterator<Item = Instant>) -> Vec<Instant> {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times
}

/// A free port that no outgoing connection is given: while nobody listens there, a client
/// that dials it could otherwise be connected to itself, or somebody else could take it.
fn port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let lowest: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
    loop {
        let port = rand::rng().random_range(lowest / 2..lowest);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

async fn state_of_orders(url: &str) -> (BreakerState, u64) {
    let mut operator = harness::Client::connect(url).await;
    let orders = operator.get("orders").await;
    (orders.state(), orders.epoch)
}

#[tokio::test]
async fn a_service_killed_in_an_outage_fails_and_delays_no_call_and_its_fleet_returns_spread() {
    let dir = tempfile::tempdir().unwrap();
    let policies = written(dir.path(), "policies.yaml", POLICIES);
    let data = dir.path().join("data");
    let listen = format!("127.0.0.1:{}", port());
    let mut running = Running::start_at(&listen, &data, &policies);
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|n| {
            let client = Client::builder().endpoints([&running.url]).service("fleet");
            let client = client.instance(format!("i-{n}"));
            client.follow(["payments", "orders"]).build().unwrap()
        })
        .collect();
    for client in &clients {
        assert!(client.connect(PATIENCE).await);
    }
    let stalls = Arc::<Mutex<Vec<_>>>::default();
    tokio::spawn(note_stalls(Arc::clone(&stalls)));
    let until = Arc::<Mutex<Option<Instant>>>::default();
    let mut calling = tokio::task::JoinSet::new();
    for client in clients.clone() {
        calling.spawn(Seen::collect(client, Arc::clone(&until)));
    }
    tokio::time::sleep(3 * SECOND).await;
    let before = state_of_orders(&running.url).await;
    assert_eq!(before.0, BreakerState::Open);
    let killed = Instant::now();
    running.kill();
    tokio::time::sleep(AWAY).await;
    let connections = Arc::<Mutex<Vec<Instant>>>::default();
    tokio::spawn(note_connections(clients, Arc::clone(&connections)));
    let starting = tokio::task::spawn_blocking(move || {
        let running = Running::start_at(&listen, &data, &policies);
        (Instant::now(), running)
    });
    let (restarted, running) = starting.await.unwrap();
    *until.lock().unwrap() = Some(restarted + BACK_WITHIN + SECOND);
    let fleet: Vec<Seen> = calling.join_all().await;

    assert_eq!(
        state_of_orders(&running.url).await,
        before,
        "it is still open"
    );
    let stalls = stalls.lock().unwrap();
    no_call_fails_or_waits(&fleet, killed..killed + AWAY, &stalls);
    nothing_goes_through_the_open_breaker(&fleet, killed);
    retries_stay_within(&fleet, killed, restarted);
    all_are_back_and_spread(&fleet, &connections.lock().unwrap(), restarted, &stalls);
}

/// How long this process stood still between two instants.
fn stalled(stalls: &[(Instant, Instant)], from: Instant, to: Instant) -> Duration {
    let overlaps = stalls.iter().map(|(begin, end)| {
        let (begin, end) = (from.max(*begin), to.min(*end));
        end.saturating_duration_since(begin)
    });
    overlaps.sum()
}

/// No question is waited for longer than the contract says, however busy the machine is; and a
/// whole call while the service is away not either.
fn no_call_fails_or_waits(fleet: &[Seen], away: Range<Instant>, stalls: &[(Instant, Instant)]) {
    let faults: Vec<_> = fleet.iter().flat_map(|seen| &seen.faults).collect();
    assert!(faults.is_empty(), "{} calls: {faults:?}", faults.len());
    let waited = |step: &InClient| {
        let spent = step.to - step.from;
        spent.saturating_sub(step.granted + stalled(stalls, step.from, step.to))
    };
    let calls: Vec<_> = fleet.iter().flat_map(|seen| &seen.calls).collect();
    let slowest_step = calls.iter().copied().flatten().map(waited).max().unwrap();
    let sum = |call: &&Vec<InClient>| -> Duration { call.iter().map(waited).sum() };
    let mut all: Vec<Duration> = calls.iter().map(sum).collect();
    all.sort_unstable();
    let while_away = calls.iter().filter(|call| away.contains(&call[0].from));
    let slowest_away = while_away.map(sum).max().unwrap();
    let longest_stall = stalls.iter().map(|(from, to)| *to - *from).max();
    println!(
        "{} calls; waited for holdoff: half {:?}, 99 of 100 {:?}, the longest {:?}, while it was \
         away {slowest_away:?}, for one answer {slowest_step:?}; this process stood still for \
         {:?} at most",
        all.len(),
        all[all.len() / 2],
        all[all.len() * 99 / 100],
        all[all.len() - 1],
        longest_stall.unwrap_or_default(),
    );
    assert!(all.len() > 10 * CLIENTS, "the fleet has called");
    assert!(slowest_away <= WAIT_MAX, "{slowest_away:?}");
    assert!(slowest_step <= WAIT_MAX + TIMER, "{slowest_step:?}");
}

fn nothing_goes_through_the_open_breaker(fleet: &[Seen], killed: Instant) {
    let orders = fleet.iter().flat_map(|seen| &seen.orders);
    let (before, after): (Vec<&Instant>, Vec<&Instant>) = orders.partition(|at| **at < killed);
    println!(
        "{} calls of the dead dependency before the kill, none since",
        before.len()
    );
    assert_eq!(after.len(), 0);
}

fn retries_stay_within(fleet: &[Seen], killed: Instant, restarted: Instant) {
    let floor = FLOOR * TTL.as_secs() as usize;
    let retries = || fleet.iter().flat_map(|seen| &seen.retries);
    let firsts = sorted(fleet.iter().flat_map(|seen| seen.firsts.iter().copied()));
    let until_back = retries().filter(|retry| retry.promised < restarted);
    let until_back = sorted(until_back.map(|retry| retry.promised));
    let alone = retries().filter(|retry| retry.is_local);
    let alone = sorted(alone.map(|retry| retry.promised));
    // A first attempt is told of a second later at most.
    let share = fullest(&firsts, TTL + SECOND) / 10;
    let (budget, allowances) = (share + floor, share + floor);
    let (most, most_alone) = (fullest(&until_back, TTL), fullest(&alone, TTL));
    assert!(most_alone <= allowances, "{most_alone} of {allowances}");
    assert!(
        most <= budget + allowances,
        "{most} of {}",
        budget + allowances
    );
    let away = alone.iter().filter(|at| (killed..restarted).contains(*at));
    assert!(away.count() > CLIENTS / 2, "the allowance is used");

    // After the restart the floor counts as spent for one `ttl`, and what was called while
    // the service was away deposits nothing when it is told.
    let within = |at: &Instant| (restarted..restarted + TTL).contains(at);
    let granted = retries().filter(|retry| !retry.is_local && within(&retry.promised));
    let granted = granted.count();
    let deposited = firsts.iter().filter(|at| within(at)).count() / 10;
    println!(
        "in the fullest {TTL:?} up to the restart {most} retries of {} (budget and allowances), \
         alone {most_alone} of {allowances}; in the first {TTL:?} after it {granted} of \
         {deposited}",
        budget + allowances,
    );
    assert!(granted <= deposited, "{granted} of {deposited}");
}

fn all_are_back_and_spread(
    fleet: &[Seen],
    connections: &[Instant],
    restarted: Instant,
    stalls: &[(Instant, Instant)],
) {
    let returns: Vec<Duration> = fleet
        .iter()
        .map(|seen| {
            let back = seen.decided.iter().find(|at| **at > restarted);
            let back = back.expect("it is back");
            *back - restarted - stalled(stalls, restarted, *back)
        })
        .collect();
    let last = returns.iter().max().unwrap();
    let busiest = fullest(connections, SECOND);
    let mean = connections.len() as f64 / BACK_WITHIN.as_secs_f64();
    println!(
        "back within {last:?}; {} connections, {busiest} in the busiest second, {:.2} times the \
         mean",
        connections.len(),
        busiest as f64 / mean,
    );
    // A client whose caller asks nothing has nothing to be back for.
    assert!(*last <= BACK_WITHIN + 2 * PAUSE, "{last:?}");
    assert!(connections.len() >= CLIENTS);
    assert!(busiest as f64 <= 3.0 * mean, "{busiest} of {mean}");
}

const HELD_SECS: u64 = 300;

/// The dependency tells one caller to wait, which holds all.
async fn hold(client: &mut harness::Client, dependency: &str) {
    let permit = client.granted(first(dependency)).await.permit;
    let throttled = proto::Outcome {
        pushback: Some(seconds(HELD_SECS)),
        ..outcome(proto::OutcomeKind::Throttled)
    };
    assert!(client.report(&permit, throttled).await.applied);
}

async fn clear_hold(client: &mut harness::Client, dependency: &str) {
    let request = ClearHoldRequest {
        dependency: dependency.into(),
        owner: "ada".into(),
        ..Default::default()
    };
    client.operates.clear_hold(request).await.unwrap();
}

#[tokio::test]
async fn a_hold_survives_a_kill_for_no_longer_than_it_had_left_and_one_that_was_ended_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let text = "version: 1
namespaces: {default: {defaults: {
  pushback: {scope: dependency, max: 10m, spread: 1s},
  breaker: {window: 10, min_calls: 5, open_for: 10m, open_max: 10m}}}}
";
    let policies = written(dir.path(), "policies.yaml", text);
    let data = dir.path().join("data");
    let mut running = Running::start(&data, &policies);
    let mut client = harness::Client::connect(&running.url).await;
    client.trip("open", 5).await;
    for dependency in ["held", "ended"] {
        hold(&mut client, dependency).await;
    }
    clear_hold(&mut client, "ended").await;
    let before = ms(client.get("held").await.held_for);
    let seen = Instant::now();
    running.kill();

    let mut running = Running::start(&data, &policies);
    let mut client = harness::Client::connect(&running.url).await;
    let asked = Instant::now();
    let held = client.get("held").await;
    let left = ms(held.held_for);
    let gone = (asked - seen).as_secs_f64() * 1e3;
    println!("held for {before} ms, killed, {gone:.0} ms later held for {left} ms");
    assert!(left <= before && left >= before - gone - 2_000.0, "{left}");
    assert_eq!(held.state(), BreakerState::Closed, "{}", held.detail);
    let impatient = proto::AcquireRequest {
        time_left: Some(seconds(2)),
        ..first("held")
    };
    let denial = denial_of(client.ask(impatient).await);
    assert_eq!(denial.reason(), proto::DenialReason::Held);
    let grant = grant_of(client.ask(first("held")).await);
    assert!(
        ms(grant.delay) > left - 2_000.0,
        "a patient caller is placed behind it"
    );
    assert_eq!(ms(client.granted(first("ended")).await.delay), 0.0);
    assert_eq!(client.get("ended").await.held_for, None);
    assert_eq!(client.get("open").await.state(), BreakerState::Open);

    clear_hold(&mut client, "held").await;
    running.kill();
    let running = Running::start(&data, &policies);
    let mut client = harness::Client::connect(&running.url).await;
    assert_eq!(ms(client.granted(first("held")).await.delay), 0.0);
    assert_eq!(client.get("held").await.held_for, None);
}
