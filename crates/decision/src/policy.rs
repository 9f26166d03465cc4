//! What an operator may set, as the rules read it: checked, complete, in exact units.
//!
//! Reading a file, telling a field's allowed range and saying where a value came from is
//! the service's work (`src/policy`). The rules stay total for values outside of those
//! ranges too; they are then merely odd.

use crate::{Nanos, Share, bytes::variants};

/// The policy of one dependency. The defaults are the documented ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    pub retry: Retry,
    pub pushback: Pushback,
    pub breaker: Breaker,
    pub ramp: Ramp,
    pub budget: Budget,
    pub calendar: Calendar,
    /// `None`: no rate limit.
    pub rate: Option<Rate>,
    /// `None`: no coordinated health checks.
    pub check: Option<Check>,
}

/// How many attempts a call has and how long it waits between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    pub max_attempts: MaxAttempts,
    pub strategy: Strategy,
    /// The first delay; 0 to `max_delay`.
    pub initial_delay: Nanos,
    /// The growth per retry of [`Strategy::Exponential`]; 1 to 100.
    pub multiplier: f64,
    /// No backoff delay is longer; at most 24 h.
    pub max_delay: Nanos,
    /// No delay before a retry is shorter; 0 to `max_delay`.
    pub min_delay: Nanos,
    pub jitter: Jitter,
    /// The time that an attempt needs at least; one that would have less is not granted.
    pub min_attempt_time: Nanos,
}

/// Counts the first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxAttempts {
    /// 1 to 1,000.
    Limited(u32),
    /// For supervisors.
    Unlimited,
}

/// How the ceiling of a delay grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Fixed,
    Linear,
    Exponential,
}

/// How a delay is drawn below its ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    None,
    Full,
    Equal,
    /// 0 to 1: the ceiling plus or minus this share of it, within `max_delay`.
    Proportional(f64),
    Decorrelated,
}

/// What a wait that the dependency asked for does.
#[derive(Clone, Debug, PartialEq)]
pub struct Pushback {
    pub scope: PushbackScope,
    /// A longer one ends the call.
    pub max: Nanos,
    /// Callers that were told the same time are spread over so long after it.
    pub spread: Nanos,
}

/// Whom a pushback binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushbackScope {
    Caller,
    /// The whole fleet: one throttled call holds all of them.
    Dependency,
}

/// When the breaker opens, for how long, and how it closes again.
#[derive(Clone, Debug, PartialEq)]
pub struct Breaker {
    pub mode: Mode,
    pub applies_to: AppliesTo,
    pub detect: Detect,
    /// A call that takes at least so long is slow; zero: none is.
    pub slow_after: Nanos,
    pub slow_counts_as_failure: bool,
    /// Whether rejected outcomes count as failures; otherwise they count as nothing.
    pub count_rejected: bool,
    /// Whether throttled outcomes count as failures; otherwise they count as nothing.
    pub count_throttled: bool,
    /// The first open period.
    pub open_for: Nanos,
    /// The growth of the open period with each re-trip; at least 1.
    pub open_multiplier: f64,
    /// The longest open period.
    pub open_max: Nanos,
    /// Closed for so long, the next trip is a first one again.
    pub healthy_reset: Nanos,
    /// Callers that are refused are told to come back spread over so long.
    pub spread: Nanos,
    /// Probe leases that may be out at once over the whole fleet; 1 to 100.
    pub probes: u32,
    pub probe_lease: Nanos,
    /// Successful probes that close the breaker; at least 1.
    pub probe_successes: u32,
    /// How long a permit lives after its delay.
    pub permit_ttl: Nanos,
    /// Caller instances that must see failures before a trip.
    pub min_reporters: u32,
    /// The most that one caller instance can add to what a trip needs.
    pub max_reporter_share: Share,
}

/// What the breaker's verdict does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Refuses.
    Enforce,
    /// Records what it would have done, and lets everything through.
    Shadow,
    /// Keeps no evidence.
    Off,
}

/// Which attempts an open breaker refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliesTo {
    All,
    /// First attempts always pass.
    Retries,
    /// Retries, until nearly everything fails and calls time out or are slow; then all.
    Auto,
}

/// What trips the breaker.
#[derive(Clone, Debug, PartialEq)]
pub enum Detect {
    /// A cumulative sum of evidence for "failing" against "healthy".
    Adaptive,
    /// Thresholds over a window of calls.
    Window(Window),
}

/// Thresholds over a window of calls. Any of them trips.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    pub size: WindowSize,
    /// No ratio is looked at below so many counted calls.
    pub min_calls: u32,
    /// Above 0, at most 1.
    pub failure_ratio: Share,
    /// So many failures without a success between them; 0: not looked at.
    pub consecutive_failures: u32,
    /// Above 0, at most 1; looked at where `slow_after` is above zero.
    pub slow_ratio: Share,
}

/// How much a window holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSize {
    /// The calls of `(now - span, now]`.
    Time(Nanos),
    /// The last so many calls; 1 to 10,000.
    Calls(u32),
}

/// How the admitted share grows after a recovery.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp {
    /// Of the throughput before the outage; 1 switches the ramp off.
    pub start: Share,
    pub step: Nanos,
    pub max_duration: Nanos,
    /// How far ahead places are promised.
    pub horizon: Nanos,
}

/// How many retries the fleet may make.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Of the first attempts in the window.
    pub ratio: Share,
    /// On top, per second of the window, in millionths of a retry.
    pub floor_micros_per_second: u64,
    /// The window.
    pub ttl: Nanos,
    /// The most of it that one caller instance may take while others ask; above 0, at most 1.
    pub max_caller_share: Share,
}

/// The plan of future retries.
#[derive(Clone, Debug, PartialEq)]
pub struct Calendar {
    pub retry_rate: RetryRate,
    pub slot: Nanos,
    /// How far ahead places are given.
    pub horizon: Nanos,
}

/// How many retries a second the calendar plans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RetryRate {
    /// No calendar.
    Off,
    /// Learned from the throughput of successes.
    Auto,
    /// So many.
    PerSecond(f64),
}

/// A limit on calls per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Above 0.
    pub per_second: f64,
    /// Calls that may come at once; at least 1.
    pub burst: u32,
    /// The longest wait for room; zero: refuse at once.
    pub max_wait: Nanos,
    /// One limit for each caller service, instead of one for all.
    pub per_caller: bool,
}

/// Coordinated periodic health checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub period: Nanos,
    pub offset: Nanos,
    pub phase: Phase,
    pub first_within: Nanos,
    pub timeout: Nanos,
    pub unhealthy_after: u32,
    pub max_concurrent: u32,
    pub detection_budget: Nanos,
    /// Checkers that check in each period; 0: all of them.
    pub observers: u32,
}

variants!(WindowSize { Time(span) = 0, Calls(calls) = 1 });
variants!(Phase { Hash = 0, Spread = 1 });

/// How checkers are placed within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Hash,
    Spread,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: MaxAttempts::Limited(3),
            strategy: Strategy::Exponential,
            initial_delay: Nanos::from_millis(100),
            multiplier: 2.0,
            max_delay: Nanos::from_secs(10),
            min_delay: Nanos::ZERO,
            jitter: Jitter::Full,
            min_attempt_time: Nanos::ZERO,
        }
    }
}

impl Default for Pushback {
    fn default() -> Self {
        Self {
            scope: PushbackScope::Caller,
            max: Nanos::from_secs(60),
            spread: Nanos::from_secs(1),
        }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            applies_to: AppliesTo::All,
            detect: Detect::Adaptive,
            slow_after: Nanos::ZERO,
            slow_counts_as_failure: false,
            count_rejected: false,
            count_throttled: false,
            open_for: Nanos::from_secs(10),
            open_multiplier: 2.0,
            open_max: Nanos::from_secs(60),
            healthy_reset: Nanos::from_secs(60),
            spread: Nanos::from_secs(2),
            probes: 1,
            probe_lease: Nanos::from_secs(5),
            probe_successes: 2,
            permit_ttl: Nanos::from_secs(60),
            min_reporters: 2,
            max_reporter_share: Share(500_000),
        }
    }
}

impl Default for Window {
    fn default() -> Self {
        Self {
            size: WindowSize::Time(Nanos::from_secs(10)),
            min_calls: 20,
            failure_ratio: Share(500_000),
            consecutive_failures: 0,
            slow_ratio: Share::ONE,
        }
    }
}

impl Default for Ramp {
    fn default() -> Self {
        Self {
            start: Share(500_000),
            step: Nanos::from_millis(250),
            max_duration: Nanos::from_secs(60),
            horizon: Nanos::from_millis(300),
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            ratio: Share(200_000),
            floor_micros_per_second: 1_000_000,
            ttl: Nanos::from_secs(10),
            max_caller_share: Share(500_000),
        }
    }
}

impl Default for Calendar {
    fn default() -> Self {
        Self {
            retry_rate: RetryRate::Auto,
            slot: Nanos::from_millis(10),
            horizon: Nanos::from_secs(30),
        }
    }
}

impl Default for Check {
    fn default() -> Self {
        Self {
            period: Nanos::from_secs(30),
            offset: Nanos::from_secs(3),
            phase: Phase::Hash,
            first_within: Nanos::from_secs(30),
            timeout: Nanos::from_secs(2),
            unhealthy_after: 3,
            max_concurrent: 10,
            detection_budget: Nanos::from_secs(120),
            observers: 0,
        }
    }
}
