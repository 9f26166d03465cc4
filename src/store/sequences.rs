//! Which numbered reports each instance has sent, so that one that is sent again counts once.
//!
//! For each instance the highest number and the 64 below it; what is older counts as seen.
//! Bounded: the instances that have been silent longest are forgotten first.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use holdoff_decision::Time;

const SHARDS: usize = 16;
/// Instances remembered in each shard.
const INSTANCES_MAX: usize = 8_192;

/// See the module.
#[derive(Debug, Default)]
pub struct Sequences {
    shards: [Mutex<HashMap<u64, Seen>>; SHARDS],
}

/// The numbers of one instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    highest: u64,
    /// Bit k: `highest - k` was seen.
    recent: u64,
    at: Time,
}

impl Sequences {
    /// Notes a number. False: it was noted before.
    pub fn note(&self, instance: u64, sequence: u64, now: Time) -> bool {
        let shard = &self.shards[(instance % SHARDS as u64) as usize];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = shard.get_mut(&instance) {
            seen.at = now;
            return seen.note(sequence);
        }
        if shard.len() >= INSTANCES_MAX {
            forget_half(&mut shard);
        }
        shard.insert(instance, Seen::first(sequence, now));
        true
    }

    /// Takes a number back whose report was not taken.
    pub fn forget(&self, instance: u64, sequence: u64) {
        let shard = &self.shards[(instance % SHARDS as u64) as usize];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = shard.get_mut(&instance) {
            seen.forget(sequence);
        }
    }
}

impl Seen {
    pub fn first(sequence: u64, at: Time) -> Self {
        Self {
            highest: sequence,
            recent: 1,
            at,
        }
    }

    /// As a store that is shared keeps it, without the time: its key has a lifetime.
    pub fn to_bytes(self) -> Vec<u8> {
        [self.highest.to_le_bytes(), self.recent.to_le_bytes()].concat()
    }

    /// `None`: the bytes are none of ours.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (highest, recent) = bytes.split_first_chunk()?;
        Some(Self {
            highest: u64::from_le_bytes(*highest),
            recent: u64::from_le_bytes(recent.try_into().ok()?),
            at: Time::ORIGIN,
        })
    }

    /// False: it was noted before.
    pub fn note(&mut self, sequence: u64) -> bool {
        if sequence > self.highest {
            let ahead = sequence - self.highest;
            self.recent = if ahead < 64 {
                self.recent << ahead | 1
            } else {
                1
            };
            self.highest = sequence;
            return true;
        }
        let back = self.highest - sequence;
        let new = back < 64 && self.recent & 1 << back == 0;
        if new {
            self.recent |= 1 << back;
        }
        new
    }

    /// False: it was not noted, or is too old to be told apart.
    pub fn forget(&mut self, sequence: u64) -> bool {
        match self.highest.checked_sub(sequence) {
            Some(back) if back < 64 && self.recent & 1 << back != 0 => {
                self.recent &= !(1 << back);
                true
            }
            Some(_) | None => false,
        }
    }
}

/// Forgets the half that has been silent longest: the cost is spread over as many insertions.
fn forget_half(shard: &mut HashMap<u64, Seen>) {
    let mut times: Vec<Time> = shard.values().map(|seen| seen.at).collect();
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let median = *median;
    let mut excess = shard.len() - middle;
    shard.retain(|_, seen| {
        let goes = excess > 0 && seen.at <= median;
        excess -= usize::from(goes);
        !goes
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b22a_a_numbered_report_counts_once_in_any_order() {
        let sequences = Sequences::default();
        for (sequence, new) in [
            (5, true),
            (5, false),
            (7, true),
            (6, true),
            (6, false),
            (300, true),
            (7, false),
        ] {
            assert_eq!(sequences.note(1, sequence, Time(0)), new, "{sequence}");
        }
        assert!(
            sequences.note(2, 5, Time(0)),
            "another instance has numbers of its own"
        );
    }

    #[test]
    fn a_number_that_is_taken_back_is_new_once_more_and_its_neighbours_are_not() {
        let sequences = Sequences::default();
        for sequence in 5..9 {
            assert!(sequences.note(1, sequence, Time(0)));
        }
        for taken_back in [8, 6] {
            sequences.forget(1, taken_back);
            sequences.forget(2, taken_back);
            for sequence in 5..9 {
                let new = sequences.note(1, sequence, Time(0));
                assert_eq!(new, sequence == taken_back, "{sequence}");
            }
        }
    }

    #[test]
    fn the_memory_of_instances_is_bounded() {
        let sequences = Sequences::default();
        for instance in 0..SHARDS as u64 * INSTANCES_MAX as u64 * 2 {
            sequences.note(instance, 1, Time(instance));
        }
        let kept: usize = sequences
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap().len())
            .sum();
        assert!(kept <= SHARDS * INSTANCES_MAX);
    }
}
