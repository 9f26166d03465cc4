//! What the service tells of itself: counters and histograms, their one table, and the ways out.
//!
//! The path of a decision only ever adds to plain atomics, in a few copies, so that two cores
//! that count do not share a cache line; they are added up when somebody reads. OpenTelemetry's
//! instruments read the same sums. Its own counters are not used on that path: an SDK histogram
//! takes a lock and hashes its attributes for each value, and shows no series before the first.
//!
//! | part | is |
//! |---|---|
//! | `table` | names, units, labels and help of every metric |
//! | `counters` | what is counted, and under which labels it is shown |
//! | `histogram` | how spans of time are counted |
//! | `family` | a metric with its values |
//! | `exposition` | families as Prometheus reads them |
//! | `otlp`, `exporter` | families and spans to a collector |
//! | `trace` | a span for a decision |
//! | `process` | memory, files and CPU of this process |

mod counters;
mod exporter;
mod exposition;
mod family;
mod histogram;
mod otlp;
mod process;
pub mod table;
mod trace;

use std::{
    cell::Cell,
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

pub use counters::{Counter, Export, Granted, Refused, Signal, TripCause};
pub use exposition::{CONTENT_TYPE, exposition};
pub use family::{Family, Value};
pub use histogram::Timed;
pub use otlp::{Misconfigured, Otlp, Switches};
pub use process::families as process_families;
pub use table::Metric;
pub use trace::{RpcSpan, attribute};

use prost::Message as _;

const SHARDS: usize = 16;
/// gRPC's status codes.
const CODES: usize = 17;

/// All that is counted, and the way to a collector where there is one.
#[derive(Debug)]
pub struct Telemetry {
    shards: Box<[Shard; SHARDS]>,
    /// Milliseconds since 1970.
    started: AtomicU64,
    policies_taken: AtomicU64,
    policies_refused: AtomicBool,
    access_refused: AtomicBool,
    certificate_refused: AtomicBool,
    otlp: OnceLock<Otlp>,
}

#[repr(align(128))]
#[derive(Debug)]
struct Shard(Box<[AtomicU64]>);

impl Default for Telemetry {
    fn default() -> Self {
        let cells = counters::COUNT + histogram::CELLS * Timed::ALONE + METHODS.len() * RPC_CELLS;
        let shard = |_| Shard((0..cells).map(|_| AtomicU64::new(0)).collect());
        Self {
            shards: Box::new(std::array::from_fn(shard)),
            started: AtomicU64::new(0),
            policies_taken: AtomicU64::new(0),
            policies_refused: AtomicBool::new(false),
            access_refused: AtomicBool::new(false),
            certificate_refused: AtomicBool::new(false),
            otlp: OnceLock::new(),
        }
    }
}

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// This thread's shard: threads take them in turn.
fn shard() -> usize {
    SHARD.with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        shard.get()
    })
}

/// One RPC by its place in [`METHODS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method(usize);

const RPC_CELLS: usize = CODES + histogram::CELLS;
/// What is no RPC of ours, as OpenTelemetry names it. Always the last one.
const OTHER: &str = "_OTHER";
/// What Envoy asks.
pub const ENVOY: &str = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The RPCs that are told apart: those of the contract, Envoy's and health. What else is asked for is
/// the caller's text, and becomes one series.
static METHODS: LazyLock<Vec<Known>> = LazyLock::new(|| {
    // They are the build's own; a set that does not decode would leave `_OTHER` alone.
    let files = prost_types::FileDescriptorSet::decode(crate::proto::DESCRIPTORS);
    let mut methods = Vec::new();
    for file in files.unwrap_or_default().file {
        for service in &file.service {
            methods.extend(service.method.iter().map(|method| Known {
                name: format!("{}.{}/{}", file.package(), service.name(), method.name()),
                streams: method.server_streaming(),
            }));
        }
    }
    for (name, streams) in [
        (ENVOY, false),
        ("grpc.health.v1.Health/Check", false),
        ("grpc.health.v1.Health/Watch", true),
        (OTHER, true),
    ] {
        let name = name.to_owned();
        methods.push(Known { name, streams });
    }
    methods
});

#[derive(Debug)]
struct Known {
    name: String,
    /// Its answer is a stream.
    streams: bool,
}

impl Method {
    /// Of the path of a request.
    pub fn of(path: &str) -> Self {
        let named = path.strip_prefix('/').unwrap_or(path);
        let known = METHODS.iter().position(|method| method.name == named);
        Self(known.unwrap_or(METHODS.len() - 1))
    }

    pub fn name(self) -> &'static str {
        &METHODS[self.0].name
    }

    /// Whether its answer is a stream.
    pub fn streams(self) -> bool {
        METHODS[self.0].streams
    }

    const fn cells(self) -> usize {
        counters::COUNT + histogram::CELLS * Timed::ALONE + self.0 * RPC_CELLS
    }
}

impl Telemetry {
    pub fn add(&self, counter: Counter) {
        self.add_many(counter, 1);
    }

    /// As [`Self::add`], for what is also shown as it is now. Not on the path of a decision.
    pub fn add_noted(&self, counter: Counter) {
        self.add(counter);
        let (cell, is_refused) = match counter {
            Counter::AccessReload => (&self.access_refused, false),
            Counter::AccessReloadRefused => (&self.access_refused, true),
            Counter::CertificateReload => (&self.certificate_refused, false),
            Counter::CertificateReloadRefused => (&self.certificate_refused, true),
            _ => return,
        };
        cell.store(is_refused, Ordering::Relaxed);
    }

    pub fn add_many(&self, counter: Counter, count: u64) {
        self.add_at(counters::place(counter), count);
    }

    pub fn get(&self, counter: Counter) -> u64 {
        self.sum(counters::place(counter))
    }

    /// What has begun and not ended.
    pub fn open(&self, begun: Counter, ended: Counter) -> u64 {
        // Read in this order the difference is never below nothing, but for what is under way.
        let ended = self.get(ended);
        self.get(begun).saturating_sub(ended)
    }

    /// Counts how long something took.
    pub fn time(&self, timed: Timed, took: Duration) {
        self.add_time(timed.cells(), took);
        if let Some(otlp) = self.otlp.get() {
            otlp.time(timed, took);
        }
    }

    /// Counts one RPC. `code`: its gRPC status as a number.
    pub fn rpc(&self, method: Method, code: usize, took: Duration) {
        let code = code.min(CODES - 1);
        self.add_at(method.cells() + code, 1);
        self.add_time(method.cells() + CODES, took);
        if let Some(otlp) = self.otlp.get() {
            otlp.rpc(method, code, took);
        }
    }

    /// The span of an RPC, where somebody wants it.
    pub fn span(&self, name: &'static str, headers: Option<&http::HeaderMap>) -> RpcSpan {
        match self.otlp.get() {
            Some(otlp) => otlp.span(name, headers),
            None => RpcSpan::none(),
        }
    }

    /// From now on to a collector, too. Once.
    pub fn attach(&self, otlp: Otlp) {
        // Who was first stays.
        let _ = self.otlp.set(otlp);
    }

    /// Sends what waits and ends. Blocks for a few seconds at most.
    pub fn end(&self) {
        if let Some(otlp) = self.otlp.get() {
            otlp.end();
        }
    }

    pub fn started(&self, at: SystemTime) {
        self.started.store(millis(at), Ordering::Relaxed);
    }

    /// The policies in force are of now.
    pub fn policies_taken(&self, at: SystemTime) {
        self.policies_taken.store(millis(at), Ordering::Relaxed);
    }

    /// Whether the newest reading of the policy files was refused.
    pub fn policy_files(&self, result: Result<(), ()>) {
        let refused = result.is_err();
        self.policies_refused.store(refused, Ordering::Relaxed);
        self.add(match result {
            Ok(()) => Counter::Reload,
            Err(()) => Counter::ReloadRefused,
        });
    }

    /// All that is counted here, each series from the first time on.
    pub fn families(&self) -> Vec<Family> {
        let mut families = counters::families(self);
        families.extend(self.times());
        families.extend(self.rpcs());
        let whole = |metric, value: u64| Family::alone(metric, Value::Whole(value));
        let seconds = |cell: &AtomicU64| cell.load(Ordering::Relaxed) as f64 / 1e3;
        let taken = Value::Number(seconds(&self.policies_taken));
        let started = Value::Number(seconds(&self.started));
        let now = |cell: &AtomicBool| u64::from(cell.load(Ordering::Relaxed));
        families.extend([
            whole(
                &table::CONNECTIONS,
                self.open(Counter::ConnectionOpened, Counter::ConnectionClosed),
            ),
            whole(
                &table::SESSIONS,
                self.open(Counter::SessionOpened, Counter::SessionClosed),
            ),
            Family::alone(&table::POLICY_LOADED, taken),
            whole(&table::POLICY_REFUSED, now(&self.policies_refused)),
            whole(&table::ACCESS_REFUSED_NOW, now(&self.access_refused)),
            whole(
                &table::CERTIFICATE_REFUSED_NOW,
                now(&self.certificate_refused),
            ),
            Family::alone(&table::START_TIME, started),
            Family::of(&table::BUILD_INFO, [([env!("CARGO_PKG_VERSION")], 1)]),
        ]);
        families
    }

    /// As Prometheus reads it; without what only others know.
    pub fn exposition(&self) -> String {
        exposition(&self.families())
    }

    fn times(&self) -> impl Iterator<Item = Family> {
        Timed::ALL
            .map(|timed| {
                let value = Value::Times(self.histogram(timed.cells()));
                Family::alone(timed.metric(), value)
            })
            .into_iter()
    }

    fn rpcs(&self) -> [Family; 2] {
        let methods = || (0..METHODS.len()).map(Method);
        let durations = methods().map(|method| {
            let times = self.histogram(method.cells() + CODES);
            ([method.name()], Value::Times(times))
        });
        let calls = methods().flat_map(|method| {
            let count = move |code| self.sum(method.cells() + code);
            (0..CODES).map(move |code| ([method.name(), CODE_NAMES[code]], count(code)))
        });
        [
            Family::of(&table::RPC_DURATION, durations),
            Family::of(&table::RPC_CALLS, calls),
        ]
    }

    fn histogram(&self, from: usize) -> histogram::Times {
        histogram::Times::read(|cell| self.sum(from + cell))
    }

    fn add_time(&self, from: usize, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.add_at(from + histogram::bucket(nanos), 1);
        self.add_at(from + histogram::SUM, nanos);
    }

    fn add_at(&self, cell: usize, count: u64) {
        self.shards[shard()].0[cell].fetch_add(count, Ordering::Relaxed);
    }

    fn sum(&self, cell: usize) -> u64 {
        let shards = self.shards.iter();
        shards
            .map(|shard| shard.0[cell].load(Ordering::Relaxed))
            .fold(0, u64::wrapping_add)
    }
}

fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// By number, as gRPC spells them.
const CODE_NAMES: [&str; CODES] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

#[cfg(test)]
mod tests;
