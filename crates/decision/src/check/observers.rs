//! Which checkers check in a period when `observers` of them are enough.
//!
//! Of n checkers in the order of their phases the r observers of turn k are those of rank
//! `k + floor(o * n / r) mod n`, o from 0 to r - 1: evenly spread, one on with each turn, so
//! each checks once in n / r turns. No turn has more than r, also while checkers come and go;
//! one may then have fewer, and where no result has come for two periods, whoever asks
//! checks.

use crate::bytes::fields;

/// Checks planned for each of the last turns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observers {
    turns: [(u64, u32); 4],
}

fields!(Observers { turns });

impl Observers {
    /// Whether this turn may have one more check.
    pub fn has_room(&self, turn: u64, observers: u32) -> bool {
        let (of, count) = self.turns[(turn % 4) as usize];
        of != turn || count < observers
    }

    pub fn take(&mut self, turn: u64) {
        let slot = &mut self.turns[(turn % 4) as usize];
        *slot = match *slot {
            (of, count) if of == turn => (of, count.saturating_add(1)),
            _ => (turn, 1),
        };
    }
}

/// Whether the checker of this rank among `count` observes in this turn.
pub fn observes(turn: u64, rank: usize, count: usize, observers: u32) -> bool {
    let (count, observers) = (count.max(1) as u64, u64::from(observers));
    if observers >= count {
        return true;
    }
    let distance = (rank as u64 % count + count - turn % count) % count;
    let near = distance * observers / count;
    (near..=near + 1).any(|which| which < observers && which * count / observers == distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_so_many_observe_in_each_turn_and_each_gets_its_turn() {
        for (count, observers) in [(500, 3), (7, 3), (10, 10), (2, 5), (1, 1), (100, 99)] {
            let mut seen = vec![0_u32; count];
            for turn in 0..count as u64 {
                let of_turn = (0..count).filter(|rank| observes(turn, *rank, count, observers));
                let observing: Vec<usize> = of_turn.collect();
                assert_eq!(
                    observing.len(),
                    count.min(observers as usize),
                    "{count} {turn}"
                );
                observing.into_iter().for_each(|rank| seen[rank] += 1);
            }
            let each = (observers as usize).min(count) as u32;
            assert!(seen.iter().all(|times| *times == each), "{seen:?}");
        }
    }
}
