//! Whether periodic health checks can find a fault in time.
//!
//! A fault begins just after a good check. The k-th check after it begins k periods later,
//! at most `offset` late, waits for room and needs `timeout` to fail:
//! `k * period + offset + queueing + timeout`, where `queueing = (ceil(n / c) - 1) * timeout`
//! for n targets and c at a time. Offsets lie on a fixed grid, so they do not add up. A
//! check that is still running at its next turn skips it, so a period counts as often as
//! `offset + timeout` takes of it.

use holdoff_decision::Nanos;
use holdoff_decision::policy::Check;

use super::duration::written;

/// # Errors
/// Why `check` cannot keep its `detection_budget` for `targets` things, or cannot run them
/// at all under `max_concurrent`, and the largest period that can.
pub fn feasible(check: &Check, targets: u32) -> Result<(), String> {
    let advice = || match largest_period(check, targets) {
        Some(period) => format!("the largest period that fits is {}", written(period)),
        None => "no period fits".to_owned(),
    };
    let concurrent = u64::from(check.max_concurrent.max(1));
    if !fits_concurrency(check, targets) {
        return Err(format!(
            "{targets} checks of {} do not fit period {} with max_concurrent {concurrent}; {}",
            written(check.timeout),
            written(check.period),
            advice(),
        ));
    }
    let worst = worst_case(check, targets);
    if worst > check.detection_budget {
        return Err(format!(
            "a fault is found after {} at worst, detection_budget is {}; {}",
            written(worst),
            written(check.detection_budget),
            advice(),
        ));
    }
    Ok(())
}

/// Whether all checks of a period can run under `max_concurrent`, if every one times out.
pub fn fits_concurrency(check: &Check, targets: u32) -> bool {
    let busy = check.timeout.0.saturating_mul(u64::from(targets));
    busy <= check
        .period
        .0
        .saturating_mul(u64::from(check.max_concurrent.max(1)))
}

/// The longest time from a fault to the verdict.
pub fn worst_case(check: &Check, targets: u32) -> Nanos {
    let period = check.period.0.max(1);
    let turns = longest_run(check).div_ceil(period).max(1);
    let failures = u64::from(check.unhealthy_after);
    let waited = period.saturating_mul(turns).saturating_mul(failures);
    Nanos(waited.saturating_add(overhead(check, targets)))
}

/// The largest period that fits. `None`: not even the shortest does.
pub fn largest_period(check: &Check, targets: u32) -> Option<Nanos> {
    let rest = check
        .detection_budget
        .0
        .checked_sub(overhead(check, targets))?;
    // In whole milliseconds, as a person would write it.
    let longest = rest / u64::from(check.unhealthy_after.max(1)) / 1_000_000 * 1_000_000;
    let busy = check.timeout.0.saturating_mul(u64::from(targets));
    let shortest = busy
        .div_ceil(u64::from(check.max_concurrent.max(1)))
        .max(longest_run(check));
    (longest >= shortest.max(check.offset.0 + 1)).then_some(Nanos(longest))
}

fn longest_run(check: &Check) -> u64 {
    check.offset.0.saturating_add(check.timeout.0)
}

/// What comes on top of the periods.
fn overhead(check: &Check, targets: u32) -> u64 {
    let rounds = u64::from(targets).div_ceil(u64::from(check.max_concurrent.max(1)));
    let queueing = check.timeout.0.saturating_mul(rounds.saturating_sub(1));
    longest_run(check).saturating_add(queueing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> Check {
        Check::default()
    }

    #[test]
    fn the_worst_case_is_k_periods_an_offset_and_a_timeout() {
        assert_eq!(worst_case(&check(), 1), Nanos::from_secs(95));
        assert_eq!(feasible(&check(), 1), Ok(()));
    }

    #[test]
    fn queueing_counts_for_many_targets() {
        // 100 targets, 10 at a time: nine rounds wait before the last.
        assert_eq!(worst_case(&check(), 100), Nanos::from_secs(95 + 18));
    }

    #[test]
    fn a_missed_budget_names_the_largest_period_that_fits() {
        let slow = Check {
            period: Nanos::from_secs(60),
            ..check()
        };
        let refusal = feasible(&slow, 1).unwrap_err();
        assert_eq!(
            refusal,
            "a fault is found after 3m5s at worst, detection_budget is 2m; the largest period that fits is 38s333ms"
        );
        let fits = Check {
            period: Nanos::from_millis(38_333),
            ..check()
        };
        assert_eq!(feasible(&fits, 1), Ok(()));
    }

    #[test]
    fn what_cannot_run_under_max_concurrent_is_told() {
        let crowded = Check {
            max_concurrent: 1,
            ..check()
        };
        let refusal = feasible(&crowded, 1_000).unwrap_err();
        assert_eq!(
            refusal,
            "1000 checks of 2s do not fit period 30s with max_concurrent 1; no period fits"
        );
    }

    #[test]
    fn a_check_that_outlasts_its_period_is_counted_with_the_turns_it_skips() {
        let long = Check {
            period: Nanos::from_secs(4),
            timeout: Nanos::from_secs(3),
            ..check()
        };
        assert_eq!(worst_case(&long, 1), Nanos::from_secs(3 * 8 + 6));
    }
}
