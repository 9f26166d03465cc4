//! How long to wait before a retry, from the policy, the number of the retry and one draw.
//!
//! Retry `n` is attempt `n + 1`; the first retry is 1. The range is clamped to `min_delay` and
//! `max_delay` *before* the draw, never after it: a delay that is drawn first and clamped then
//! puts most of a fleet on exactly `max_delay` or `min_delay`, where it is a herd again.
//!
//! | strategy | ceiling(n), never above `max_delay` | 100 ms, multiplier 2, cap 1 s |
//! |---|---|---|
//! | fixed | `initial_delay` | 100 100 100 100 100 ms |
//! | linear | `initial_delay * n` | 100 200 300 400 500 ms |
//! | exponential | `initial_delay * multiplier^(n-1)` | 100 200 400 800 1000 ms |
//!
//! | jitter | delay, u uniform in [0, 1) |
//! |---|---|
//! | none | ceiling |
//! | full | u * ceiling |
//! | equal | ceiling/2 + u * (ceiling - ceiling/2) |
//! | proportional(r) | lo + u * (hi - lo), lo = ceiling * (1 - r), hi = min(max_delay, ceiling * (1 + r)) |
//! | decorrelated | initial + u * (hi - initial), hi = min(max_delay, 3 * previous delay) |
//!
//! Each is `lo + u * (hi - lo)`; where there is a `min_delay`, `lo` is at least that, and `hi` at
//! least `lo`. Full jitter with ceiling 100 ms and `min_delay` 80 ms: 80 to 100 ms.
//!
//! Full, equal and decorrelated jitter are those of Brooker, "Exponential Backoff And
//! Jitter" (2015), but for the range of decorrelated jitter, which he clamps after the draw.
//! Delays are whole nanoseconds, rounded down. Powers are built by squaring in IEEE double
//! precision, so that every language gets the same digits.

use crate::{
    Nanos,
    policy::{Jitter, Retry, Strategy},
};

/// The delay before retry `n` (1-based; 0 is taken as 1), from `unit` in [0, 1).
/// `previous` is the delay before the attempt that failed; only decorrelated jitter reads it.
///
/// Never below `min_delay` nor above `max_delay`.
pub fn delay(retry: &Retry, n: u32, previous: Nanos, unit: f64) -> Nanos {
    let ceiling = ceiling(retry, n);
    let (low, high) = match retry.jitter {
        Jitter::None => (ceiling, ceiling),
        Jitter::Full => (Nanos::ZERO, ceiling),
        Jitter::Equal => (Nanos(ceiling.0 / 2), ceiling),
        Jitter::Proportional(share) => {
            let share = share.clamp(0.0, 1.0);
            let above = Nanos((ceiling.0 as f64 * (1.0 + share)) as u64);
            (ceiling.scaled(1.0 - share), above.min(retry.max_delay))
        }
        Jitter::Decorrelated => {
            let initial = retry.initial_delay.min(retry.max_delay);
            let reach = Nanos(previous.max(initial).0.saturating_mul(3));
            (initial, reach.min(retry.max_delay))
        }
    };
    let low = low.max(retry.min_delay.min(retry.max_delay));
    let high = high.max(low);
    // Only doubles' rounding, of centuries, can still reach above.
    let drawn = low.saturating_add(high.saturating_sub(low).scaled(unit));
    drawn.min(retry.max_delay)
}

/// The ceiling under the delay before retry `n` (1-based; 0 is taken as 1).
pub fn ceiling(retry: &Retry, n: u32) -> Nanos {
    let n = n.max(1);
    let raw = match retry.strategy {
        Strategy::Fixed => retry.initial_delay,
        Strategy::Linear => Nanos(retry.initial_delay.0.saturating_mul(u64::from(n))),
        // A float becomes an integer by saturation: infinity is the largest, and zero
        // times infinity, which is no number, is zero.
        Strategy::Exponential => {
            Nanos((retry.initial_delay.0 as f64 * power(retry.multiplier, n - 1)) as u64)
        }
    };
    raw.min(retry.max_delay)
}

/// `base` to the `exponent`, by squaring.
fn power(base: f64, mut exponent: u32) -> f64 {
    let (mut product, mut square) = (1.0, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(initial_ms: u64, multiplier: f64, max_ms: u64, jitter: Jitter) -> Retry {
        Retry {
            initial_delay: Nanos::from_millis(initial_ms),
            multiplier,
            max_delay: Nanos::from_millis(max_ms),
            jitter,
            ..Retry::default()
        }
    }

    const EVERY_JITTER: [Jitter; 5] = [
        Jitter::None,
        Jitter::Full,
        Jitter::Equal,
        Jitter::Proportional(0.5),
        Jitter::Decorrelated,
    ];

    #[test]
    fn b01a_the_ceiling_saturates_at_the_cap_for_every_retry_number() {
        let retry = policy(30, 2.0, 1000, Jitter::None);
        let numbers = [
            1,
            2,
            6,
            7,
            39,
            40,
            63,
            64,
            65,
            1025,
            i32::MAX as u32,
            u32::MAX,
        ];
        let delays = numbers.map(|n| delay(&retry, n, Nanos::ZERO, 0.0).0 / 1_000_000);
        assert_eq!(
            delays,
            [
                30, 60, 960, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000
            ]
        );
    }

    #[test]
    fn b01b_an_infinite_power_is_the_cap() {
        let retry = policy(1, 1.5, 60_000, Jitter::None);
        assert_eq!(delay(&retry, 5000, Nanos::ZERO, 0.0), Nanos::from_secs(60));
    }

    #[test]
    fn b02a_zero_stays_zero_and_a_floor_stays_a_floor() {
        for strategy in [Strategy::Fixed, Strategy::Linear, Strategy::Exponential] {
            let mut retry = Retry {
                strategy,
                ..policy(0, 2.0, 1000, Jitter::Full)
            };
            for n in [1, 1025, u32::MAX] {
                retry.min_delay = Nanos::ZERO;
                assert_eq!(delay(&retry, n, Nanos::ZERO, 0.9), Nanos::ZERO);
                retry.min_delay = Nanos::from_millis(5);
                assert_eq!(delay(&retry, n, Nanos::ZERO, 0.9), Nanos::from_millis(5));
            }
        }
    }

    #[test]
    fn b02b_a_range_of_one_nanosecond_has_members() {
        let retry = Retry {
            initial_delay: Nanos(1),
            max_delay: Nanos(1),
            jitter: Jitter::Equal,
            ..Retry::default()
        };
        for n in [1, 2, 64, u32::MAX] {
            for unit in [0.0, 0.999_999] {
                assert!(delay(&retry, n, Nanos::ZERO, unit).0 <= 1);
            }
        }
    }

    #[test]
    fn b02c_decorrelated_with_an_empty_range_has_one_member() {
        let retry = policy(200, 2.0, 200, Jitter::Decorrelated);
        let mut previous = Nanos::ZERO;
        for step in 0..50 {
            previous = delay(&retry, step + 1, previous, f64::from(step) / 50.0);
            assert_eq!(previous, Nanos::from_millis(200));
        }
    }

    #[test]
    fn b03a_no_jitter_exceeds_the_cap() {
        for jitter in EVERY_JITTER {
            let retry = policy(800, 1.5, 1200, jitter);
            let mut previous = Nanos::ZERO;
            for n in 1..=100 {
                for unit in [0.0, 0.5, 0.999_999_9] {
                    let drawn = delay(&retry, n, previous, unit);
                    assert!(
                        drawn <= Nanos::from_millis(1200),
                        "{jitter:?} {n} {unit}: {drawn}"
                    );
                    previous = drawn;
                }
            }
        }
        let equal = policy(800, 1.5, 1200, Jitter::Equal);
        assert_eq!(delay(&equal, 2, Nanos::ZERO, 0.0), Nanos::from_millis(600));
    }

    #[test]
    fn b03c_the_range_is_clamped_and_then_drawn_at_its_lower_end_too() {
        for jitter in EVERY_JITTER {
            for min_ms in [0, 1, 49, 80, 100, 149, 200, 300, 5_000] {
                let retry = Retry {
                    min_delay: Nanos::from_millis(min_ms),
                    ..policy(100, 2.0, 300, jitter)
                };
                let end = |unit| delay(&retry, 1, Nanos::ZERO, unit);
                let (low, high) = (end(0.0), end(1.0));
                assert!(low >= retry.min_delay.min(retry.max_delay));
                assert!(high <= retry.max_delay);
                // Evenly over what is left of the range: no draw stands on an end.
                let mut drawn: Vec<Nanos> = (0..1000).map(|at| end(f64::from(at) / 1e3)).collect();
                drawn.dedup();
                let expected = if low == high { 1 } else { 1000 };
                assert_eq!(drawn.len(), expected, "{jitter:?} from {min_ms} ms");
            }
        }
        let retry = Retry {
            min_delay: Nanos::from_millis(80),
            ..policy(100, 2.0, 1_000, Jitter::Full)
        };
        let drawn = [0.0, 0.5, 1.0].map(|unit| delay(&retry, 1, Nanos::ZERO, unit).0 / 1_000_000);
        assert_eq!(drawn, [80, 90, 100]);
    }

    #[test]
    fn b03b_no_herd_stands_on_the_cap() {
        for (jitter, bound) in [
            (Jitter::Full, 200),
            (Jitter::Equal, 300),
            (Jitter::Decorrelated, 200),
        ] {
            let retry = policy(1000, 2.0, 10_000, jitter);
            let mut buckets = [0_u32; 101];
            let mut on_the_cap = 0;
            for client in 0..10_000_u64 {
                let mut previous = Nanos::ZERO;
                for n in 1..=20 {
                    previous = delay(&retry, n, previous, uniform(client * 20 + u64::from(n)));
                }
                on_the_cap += u32::from(previous == retry.max_delay);
                buckets[(previous.0 / 100_000_000) as usize] += 1;
            }
            assert!(on_the_cap < 10, "{jitter:?}: {on_the_cap} on the cap");
            let fullest = buckets.iter().max().unwrap();
            assert!(*fullest <= bound, "{jitter:?}: {fullest} in 100 ms");
        }
    }

    /// A fixed sequence of draws, well spread (splitmix64).
    fn uniform(seed: u64) -> f64 {
        let mut z = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
