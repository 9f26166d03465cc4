//! What is simulated: a dependency, a fleet that calls it, what happens to them, and what is
//! expected. These are the types of the YAML form; reading text is the command line's.
//!
//! Every field but `name`, `clients`, `duration` and `dependency` has a default. Unknown fields
//! are refused by the types, values out of range by [`Scenario::check`], which names field,
//! value and allowed range.

mod check;
mod span;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::{check::Invalid, span::Span};
use crate::strategy::Strategy;

/// One scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// 1 to 1,000,000.
    pub clients: u32,
    /// Of the run; 1 s to 24 h.
    pub duration: Span,
    pub dependency: Dependency,
    #[serde(default)]
    pub traffic: Traffic,
    #[serde(default)]
    pub operation: Operation,
    #[serde(default)]
    pub network: Network,
    #[serde(default)]
    pub coordinator: Coordinator,
    /// What happens, in any order.
    #[serde(default)]
    pub events: Vec<Event>,
    /// How the strategies other than holdoff are set.
    #[serde(default)]
    pub baselines: Baselines,
    /// Compared where the command line names none; empty: all.
    #[serde(default)]
    pub strategies: Vec<Strategy>,
    /// The policy of `holdoff`, as under a dependency in a policy file; the command line
    /// resolves it. Absent: the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<serde_json::Value>,
    #[serde(default)]
    pub assertions: BTreeMap<Strategy, Expectations>,
}

/// The service that is called: one queue, served in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dependency {
    /// Calls a second that it can serve. This or the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_per_second: Option<f64>,
    /// The same for each client of the fleet, so that a scenario scales.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_per_client: Option<f64>,
    /// Rejects at once where the work queued lasts for so long. Zero: never.
    #[serde(default)]
    pub rejects_above: Span,
    /// Work that a rejection costs, as a share of a call's; 0 to 1.
    #[serde(default)]
    pub rejection_cost: f64,
    /// Is silent where the work queued lasts for so long. Zero: never.
    #[serde(default)]
    pub silent_above: Span,
    /// The time that each call takes on top of waiting and service, whatever the load.
    #[serde(default)]
    pub latency: Span,
    /// After a disturbance it serves this share of its capacity, and all of it after `cold_for`.
    #[serde(default = "one")]
    pub cold_share: f64,
    #[serde(default)]
    pub cold_for: Span,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// A provider's limit; what is above is answered with "too many".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    pub per_second: f64,
    pub burst: u32,
    /// Sent along as `Retry-After`; zero: nothing is.
    #[serde(default)]
    pub retry_after: Span,
}

/// Where operations come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Traffic {
    /// Each client has one operation at a time, and thinks between two of them, exponentially
    /// distributed.
    Closed { think: Span },
    /// Operations arrive by themselves, as a Poisson process over all clients.
    Open { per_second: f64 },
}

/// What a client wants done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Operation {
    /// It is tried until it succeeds; `max_attempts` is then not looked at.
    pub persistent: bool,
    /// The first call counted; 1 to 1000.
    pub max_attempts: u32,
    /// An attempt is given up after so long.
    pub attempt_timeout: Span,
    /// The operation is given up after so long. Zero: never.
    pub deadline: Span,
    /// What a client does when holdoff denies: `fail`, or `wait` for the time it is told.
    pub on_denied: OnDenied,
    /// Services on the way of a call, each of which retries; 1 to 5. Only the last one calls the
    /// dependency.
    pub layers: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDenied {
    Fail,
    Wait,
}

/// Between a client and the dependency, one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    pub least: Span,
    pub most: Span,
    /// Share of messages that are lost, 0 to 1.
    pub loss: f64,
}

/// The coordinator and the way to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Coordinator {
    /// One way between it and a client.
    pub least: Span,
    pub most: Span,
    /// Share of messages that are lost, 0 to 1.
    pub loss: f64,
    /// Its work for one message; they are taken one after the other. By default that of a
    /// session that sends one question a message (docs/performance.md), rounded up.
    pub service: Span,
    /// A client waits so long for an answer, and then decides itself.
    pub patience: Span,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    pub at: Span,
    /// Zero for what does not last.
    #[serde(default, rename = "for")]
    pub lasts: Span,
    /// On top, between nothing and this, by the seed, so that its end meets every phase of
    /// whatever is periodic.
    #[serde(default)]
    pub varies: Span,
    /// Again so often, so long after its last begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    pub every: Span,
    /// Times in all; 1 to 10,000.
    pub times: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum What {
    /// The dependency refuses connections: an error after one round trip.
    Refuse,
    /// It takes calls and says nothing.
    Blackhole,
    /// It stops working; what it queues is served afterwards.
    Stall,
    /// This share of the calls fails, 0 to 1.
    Fail { share: f64 },
    /// Each call takes longer by this.
    Slow { by: Span },
    /// It serves only this share of its capacity, above 0 to 1.
    Weaken { to: f64 },
    /// This share of the clients starts anew within `within`: what they had in hand is lost,
    /// and they remember nothing.
    RestartClients { share: f64, within: Span },
    /// What this share of the clients has in hand fails within `within`, or, if they had
    /// nothing, something new does: their sessions broke.
    BreakSessions { share: f64, within: Span },
    /// The coordinator is away. `keeps_state`: it comes back with what it had written down.
    LoseCoordinator { keeps_state: bool },
    /// This share of the clients reaches neither of those that are named.
    Partition { share: f64, from: Vec<Party> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    Dependency,
    Coordinator,
}

/// How the other strategies are set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Baselines {
    /// The first ceiling of a backoff.
    pub base: Span,
    pub cap: Span,
    pub breaker: LocalBreaker,
    pub bucket: Bucket,
}

/// A breaker in each client: by failures in a row, or by a ratio over a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalBreaker {
    /// 0: the ratio counts.
    pub consecutive_failures: u32,
    pub window: Span,
    pub min_calls: u32,
    pub failure_ratio: f64,
    pub open_for: Span,
}

/// A bucket of retry tokens in each client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bucket {
    pub tokens: f64,
    pub per_retry: f64,
    pub per_success: f64,
    pub per_second: f64,
}

/// What a strategy must reach. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expectations {
    /// The breaker opens so soon after the first disturbance begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opens_within: Option<Span>,
    /// Nearly all goes well again so soon after the last disturbance ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovers_within: Option<Span>,
    /// Calls at the dependency in its fullest second after the last disturbance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rps: Option<f64>,
    /// The same as a share of its capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_of_capacity: Option<f64>,
    /// Calls that brought no timely success, in the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wasted_calls: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_while_down: Option<f64>,
    /// At least this share of the operations that ended succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput: Option<f64>,
    /// At most this share of the operations after the last disturbance failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_after: Option<f64>,
    /// At most so many calls per operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amplification: Option<f64>,
}

fn one() -> f64 {
    1.0
}

impl Default for Traffic {
    fn default() -> Self {
        Self::Closed {
            think: Span::from_secs(10),
        }
    }
}

impl Default for Operation {
    fn default() -> Self {
        Self {
            persistent: false,
            max_attempts: 3,
            attempt_timeout: Span::from_secs(1),
            deadline: Span::ZERO,
            on_denied: OnDenied::Fail,
            layers: 1,
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self {
            least: Span::from_millis(4),
            most: Span::from_millis(6),
            loss: 0.0,
        }
    }
}

impl Default for Coordinator {
    fn default() -> Self {
        Self {
            least: Span::from_micros(500),
            most: Span::from_micros(1_500),
            loss: 0.0,
            service: Span::from_micros(2),
            patience: Span::from_millis(50),
        }
    }
}

impl Default for Baselines {
    fn default() -> Self {
        Self {
            base: Span::from_millis(100),
            cap: Span::from_secs(20),
            breaker: LocalBreaker::default(),
            bucket: Bucket::default(),
        }
    }
}

impl Default for LocalBreaker {
    fn default() -> Self {
        Self {
            consecutive_failures: 5,
            window: Span::from_secs(10),
            min_calls: 20,
            failure_ratio: 0.5,
            open_for: Span::from_secs(10),
        }
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            tokens: 10.0,
            per_retry: 1.0,
            per_success: 0.1,
            per_second: 0.0,
        }
    }
}

impl Scenario {
    /// Calls a second that the dependency can serve in health.
    pub fn capacity(&self) -> f64 {
        let each = self.dependency.capacity_per_client.unwrap_or(0.0);
        (self.dependency.capacity_per_second).unwrap_or(each * f64::from(self.clients))
    }
}
