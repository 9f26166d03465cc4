//! Settings for slow calls where no call counts as slow.

use holdoff_decision::policy::Detect;
use holdoff_decision::{Policy, Share};

use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::Doubt;

pub fn unseen(policy: &Policy, _: &Facts) -> Vec<Doubt> {
    let breaker = &policy.breaker;
    if !breaker.slow_after.is_zero() {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    if breaker.slow_counts_as_failure {
        let fields = &["breaker.slow_counts_as_failure", "breaker.slow_after"];
        let message = "no call is slow: slow_after is 0s".to_owned();
        let doubt = Doubt::warning("slow-unseen", fields, message).with("slow_after_seconds", 0.0);
        doubts.push(doubt.or([("breaker.slow_counts_as_failure", Value::Flag(false))]));
    }
    if let Detect::Window(window) = &breaker.detect
        && window.slow_ratio < Share::ONE
    {
        let fields = &["breaker.slow_ratio", "breaker.slow_after"];
        let message = "slow_ratio is not looked at: slow_after is 0s".to_owned();
        let doubt = Doubt::warning("slow-unseen", fields, message).with("slow_after_seconds", 0.0);
        doubts.push(doubt.or([("breaker.slow_ratio", Value::Number(1.0))]));
    }
    // Both at once need both changes.
    if doubts.len() > 1 {
        let all: Vec<_> = doubts
            .iter()
            .flat_map(|doubt| doubt.candidates.concat())
            .collect();
        doubts
            .iter_mut()
            .for_each(|doubt| doubt.candidates.push(all.clone()));
    }
    doubts
}
