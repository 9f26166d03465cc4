//! How many places a slot has, and for whom: arithmetic on numbers, no memory.
//!
//! Time is cut into slots of length `s`, numbered from the origin; places are numbered
//! from it too. Before slot `k` lie `N(k) = floor(k * r * s)` places at the rate `r`, so
//! slot `k` has `N(k + 1) - N(k)` and a rate below one per slot has a place now and then.
//!
//! | r * s | places of slots 0, 1, 2, ... |
//! |---|---|
//! | 2 | 2 2 2 2 2 2 |
//! | 0.5 | 0 1 0 1 0 1 |
//! | 1.25 | 1 1 1 2 1 1 1 2 |
//!
//! Of each ten places in a row NORMAL may use nine (not those numbered 1, 11, 21, ...), LOW
//! seven (not those that end in 1, 4 or 7), HIGH all. So a slot of twenty places gives LOW
//! fourteen, and at one place in a hundred slots LOW still gets seven of ten. Why not a
//! share of each slot: of one place 70 % is none, and LOW would wait for ever.

use crate::Nanos;

/// How much a caller's retries matter to its service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    Low,
    #[default]
    Normal,
    High,
}

impl Priority {
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];

    /// Of ten places in a row.
    const fn tenths(self) -> u128 {
        match self {
            Self::Low => 7,
            Self::Normal => 9,
            Self::High => 10,
        }
    }

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Low => 0,
            Self::Normal => 1,
            Self::High => 2,
        }
    }
}

/// The most that one slot holds, whatever the rate.
pub const PER_SLOT_MAX: u64 = u16::MAX as u64;
/// A billion retries a second; more is taken as this.
const RATE_MAX_MICROS: u64 = 1_000_000_000_000_000;
/// Millionths of a place per second, times nanoseconds.
const ONE_PLACE: u128 = 1_000_000_000_000_000;

/// Slots of one length at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    slot: u64,
    /// Millionths of a place per second.
    rate_micros: u64,
}

impl Grid {
    /// A slot is at least a nanosecond long.
    pub fn new(slot: Nanos, rate_micros: u64) -> Self {
        Self {
            slot: slot.0.max(1),
            rate_micros: rate_micros.min(RATE_MAX_MICROS),
        }
    }

    pub fn slot(&self) -> Nanos {
        Nanos(self.slot)
    }

    pub fn rate_micros(&self) -> u64 {
        self.rate_micros
    }

    /// Places of slot `k` that `priority` may use.
    pub fn capacity(&self, k: u64, priority: Priority) -> u64 {
        let places = self.before(u128::from(k) + 1, priority) - self.before(k.into(), priority);
        u64::try_from(places).map_or(PER_SLOT_MAX, |places| places.min(PER_SLOT_MAX))
    }

    /// The first slot from `k` on in which `priority` has a place at all. `None`: at this
    /// rate there never is one.
    pub fn next_with_place(&self, k: u64, priority: Priority) -> Option<u64> {
        let per_slot = self.per_slot();
        if per_slot == 0 {
            return None;
        }
        let tenths = priority.tenths();
        let place = ((self.before(k.into(), priority) + 1) * 10).div_ceil(tenths);
        let end = place.saturating_mul(ONE_PLACE).div_ceil(per_slot);
        // Beyond all numbers the count of places stands still, so the end may lie before `k`.
        Some(u64::try_from(end - 1).ok()?.max(k))
    }

    /// Places of `priority` before slot `k`.
    fn before(&self, k: u128, priority: Priority) -> u128 {
        let places = k.saturating_mul(self.per_slot()) / ONE_PLACE;
        places * priority.tenths() / 10
    }

    fn per_slot(&self) -> u128 {
        u128::from(self.rate_micros) * u128::from(self.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(per_second: f64, slot_ms: u64) -> Grid {
        Grid::new(Nanos::from_millis(slot_ms), (per_second * 1e6) as u64)
    }

    fn capacities(grid: Grid, priority: Priority, slots: u64) -> Vec<u64> {
        (0..slots).map(|k| grid.capacity(k, priority)).collect()
    }

    #[test]
    fn a_rate_below_one_per_slot_has_a_place_now_and_then() {
        assert_eq!(capacities(grid(200.0, 10), Priority::High, 4), [2, 2, 2, 2]);
        assert_eq!(
            capacities(grid(50.0, 10), Priority::High, 6),
            [0, 1, 0, 1, 0, 1]
        );
        assert_eq!(
            capacities(grid(125.0, 10), Priority::High, 8),
            [1, 1, 1, 2, 1, 1, 1, 2]
        );
        let slow = capacities(grid(0.001, 10), Priority::High, 300_000);
        assert_eq!(slow.iter().sum::<u64>(), 3);
    }

    #[test]
    fn of_ten_places_in_a_row_low_has_seven_and_normal_nine() {
        for (per_second, slots) in [(2000.0, 100), (100.0, 100), (1.0, 100_000)] {
            let of = |priority| {
                capacities(grid(per_second, 10), priority, slots)
                    .iter()
                    .sum::<u64>()
            };
            let all = of(Priority::High);
            assert!(of(Priority::Low).abs_diff(all * 7 / 10) <= 1);
            assert!(of(Priority::Normal).abs_diff(all * 9 / 10) <= 1);
        }
    }

    #[test]
    fn a_lower_priority_never_has_more_of_a_slot() {
        for per_second in [0.3, 7.0, 99.0, 100.0, 101.0, 1733.0] {
            let grid = grid(per_second, 10);
            for k in 0..2000 {
                let [low, normal, high] = Priority::ALL.map(|of| grid.capacity(k, of));
                assert!(low <= normal && normal <= high, "{per_second} {k}");
            }
        }
    }

    #[test]
    fn the_next_slot_with_a_place_is_the_first_whose_capacity_is_not_zero() {
        for per_second in [0.5, 3.0, 10.0, 99.0, 700.0] {
            let grid = grid(per_second, 10);
            for priority in Priority::ALL {
                for k in 0..300 {
                    let expected = (k..).find(|slot| grid.capacity(*slot, priority) > 0);
                    assert_eq!(grid.next_with_place(k, priority), expected);
                }
            }
        }
    }

    #[test]
    fn no_number_overflows() {
        for slot in [0, 1, u64::MAX] {
            for rate in [0, 1, u64::MAX] {
                let grid = Grid::new(Nanos(slot), rate);
                for k in [0, 1, u64::MAX - 1, u64::MAX] {
                    for priority in Priority::ALL {
                        assert!(grid.capacity(k, priority) <= PER_SLOT_MAX);
                        let next = grid.next_with_place(k, priority);
                        assert!(next.is_none_or(|next| next >= k && rate > 0));
                    }
                }
            }
        }
    }
}
