//! How periodic timers fall into step: the model of Floyd and Jacobson, "The Synchronization of
//! Periodic Routing Messages" (1994).
//!
//! Each of N nodes sends when its timer ends; every node, the sender too, needs Tc to process a
//! message. A timer is armed again for Tp ± Tr when its node has nothing left to process. So
//! nodes whose timers end while others are being processed end with them, and arm their timers
//! at the same instant: from then on they are one. With Tr below Tc whole fleets become one.
//!
//! Under holdoff a node is told its next time on an absolute grid, whenever it asks: the rules
//! of `holdoff_decision::check`, with no jitter at all.

use holdoff_decision::{
    Nanos, Sample, Time,
    check::{Checks, Finished, Plan, checker_name, plan},
    policy::{Check, Phase},
};

use super::draws::Draws;

pub const NODES: u32 = 20;
const PERIOD_S: f64 = 121.0;
/// Seconds that a message takes.
pub const WORK_S: f64 = 0.11;

/// Seconds until all timers end together; `None`: not within `horizon_s`.
pub fn falls_into_step(jitter_s: f64, horizon_s: f64, seed: u64) -> Option<f64> {
    let mut draws = Draws::seeded(seed);
    let mut timers: Vec<f64> = (0..NODES).map(|_| draws.unit() * PERIOD_S).collect();
    loop {
        let together = cluster(&timers);
        let (size, end) = (together.len(), end_of(&timers, &together));
        if size == timers.len() {
            return Some(end);
        }
        if end > horizon_s {
            return None;
        }
        for at in together {
            if let Some(timer) = timers.get_mut(at) {
                *timer = end + PERIOD_S + jitter_s * (2.0 * draws.unit() - 1.0);
            }
        }
    }
}

/// Whose timers end next, in order, each while those before are being processed.
fn cluster(timers: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..timers.len()).collect();
    order.sort_by(|one, other| timers[*one].total_cmp(&timers[*other]));
    let mut together: Vec<usize> = Vec::new();
    let mut busy_until = f64::INFINITY;
    for at in order {
        if timers[at] > busy_until {
            break;
        }
        let from = if together.is_empty() {
            timers[at]
        } else {
            busy_until
        };
        busy_until = from + WORK_S;
        together.push(at);
    }
    together
}

fn end_of(timers: &[f64], together: &[usize]) -> f64 {
    let first = together.first().and_then(|at| timers.get(*at));
    first.map_or(f64::INFINITY, |first| {
        first + WORK_S * together.len() as f64
    })
}

/// The most nodes of holdoff whose checks were in process at the same time, over the last tenth
/// of the horizon. Each asks again when it has nothing left to process, as above.
pub fn largest_cluster_on_the_grid(horizon_s: f64, seed: u64) -> usize {
    let policy = Check {
        period: Nanos((PERIOD_S * 1e9) as u64),
        offset: Nanos::ZERO,
        phase: Phase::Hash,
        first_within: Nanos((PERIOD_S * 1e9) as u64),
        timeout: Nanos(1),
        max_concurrent: u32::MAX,
        ..Check::default()
    };
    let mut checks = Checks::default();
    let names: Vec<u64> = (0..NODES)
        .map(|node| checker_name("routes", &seed.to_string(), &node.to_string()))
        .collect();
    let mut ask = |at: usize, last: Option<Finished>, now: f64| {
        let now = Time((now * 1e9) as u64);
        match plan(
            &policy,
            &mut checks,
            names[at],
            last,
            now,
            Sample::default(),
        ) {
            Plan::Run { delay, serial, .. } => ((now + delay).0 as f64 / 1e9, serial),
            Plan::Shared { ask_again, .. } => ((now + ask_again).0 as f64 / 1e9, 0),
        }
    };
    let mut next: Vec<(f64, u64)> = (0..names.len()).map(|at| ask(at, None, 1.0)).collect();
    let mut largest = 0;
    loop {
        let timers: Vec<f64> = next.iter().map(|next| next.0).collect();
        let together = cluster(&timers);
        let end = end_of(&timers, &together);
        if end > horizon_s {
            return largest;
        }
        if end > 0.9 * horizon_s {
            largest = largest.max(together.len());
        }
        for at in together {
            let serial = next[at].1;
            next[at] = ask(
                at,
                Some(Finished {
                    serial,
                    healthy: true,
                }),
                end,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_armed_after_the_work_fall_into_step_and_a_grid_does_not() {
        assert!(falls_into_step(0.05, 2e6, 1).is_some());
        // Of 20 draws within 121 s a few may lie within one message of each other.
        assert!(largest_cluster_on_the_grid(2e5, 1) <= 3);
    }

    #[test]
    fn jitter_of_twice_the_work_keeps_timers_apart() {
        assert_eq!(falls_into_step(2.0 * WORK_S, 5e5, 1), None);
    }
}
