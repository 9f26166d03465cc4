//! The policies of the two headline scenarios, as values, for those who run them without policy
//! files. A test of the command line holds them to what the shipped files resolve to.

use holdoff_decision::{
    Nanos, Policy, Share,
    policy::{Jitter, MaxAttempts, RetryRate, Strategy},
};

/// Of the herd: sessions that must come back. They are tried for ever, so that no budget may end
/// them; a probe a second, and three that succeed.
pub fn herd(probe_every: Nanos) -> Policy {
    let mut policy = Policy::default();
    policy.retry.max_attempts = MaxAttempts::Unlimited;
    policy.retry.strategy = Strategy::Exponential;
    policy.retry.jitter = Jitter::Full;
    policy.retry.max_delay = Nanos::from_secs(20);
    policy.breaker.open_for = probe_every;
    policy.breaker.open_max = probe_every;
    policy.breaker.open_multiplier = 1.0;
    policy.breaker.spread = Nanos::from_millis(500);
    policy.breaker.probe_lease = Nanos::from_millis(1_200);
    policy.breaker.probe_successes = 3;
    policy.budget.floor_micros_per_second = 1_000_000_000_000;
    policy.budget.max_caller_share = Share::ONE;
    policy
}

/// Of the storm: three attempts, a probe every half second, and a budget of a tenth and ten a
/// second.
pub fn storm() -> Policy {
    let mut policy = Policy::default();
    policy.retry.max_delay = Nanos::from_secs(20);
    policy.breaker.open_for = Nanos::from_millis(500);
    policy.breaker.open_max = Nanos::from_millis(500);
    policy.breaker.open_multiplier = 1.0;
    policy.breaker.spread = Nanos::from_millis(100);
    policy.breaker.probe_lease = Nanos::from_millis(1_200);
    policy.breaker.probe_successes = 3;
    policy.budget.ratio = Share(100_000);
    policy.budget.floor_micros_per_second = 10_000_000;
    policy.calendar.retry_rate = RetryRate::Auto;
    policy
}
