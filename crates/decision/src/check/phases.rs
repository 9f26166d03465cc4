//! Where in a period each checker has its place. Phases are parts of 2^64 of a period, so a
//! new period keeps them.
//!
//! `hash`: a hash of dependency and checker: the same after any restart, another for each
//! replica, and as uneven as chance is (the largest of n gaps is about `ln n + 0.58` even
//! ones).
//!
//! `spread`: a checker that joins divides the largest gap, at `log2(1 + 1/2n) / log2(1 +
//! 1/n)` of it. From an empty period this is the sequence `log2(2k - 1) mod 1` of de Bruijn
//! and Erdős (1949): no gap is ever above `1.443 / n`, and no way to add points one by one
//! does better (halving goes to 2). A checker that leaves makes the largest gap, which the
//! next one takes.
//!
//! Checkers that stay are moved into an even row: when nobody has come or gone for a period
//! and a gap is above 1.1 even ones, or at any time when one is above 2. The row begins with
//! the checker that asks then, and each takes its place when it asks next, so all of them
//! do within a period, in order, and no gap between probes gets larger on the way. Places
//! are only earlier than the phases were, so no probe comes late for it.

use std::collections::BTreeMap;

use crate::{Nanos, Time, policy::Phase};

/// The phases of all checkers, in order.
#[derive(Clone, Debug)]
pub struct Phases {
    kind: Phase,
    sorted: Vec<(u64, u64)>,
    changed: Time,
    /// Places in an even row that were not taken yet, and how long they are open.
    row: Option<(BTreeMap<u64, u64>, Time)>,
}

/// The stable name of a checker: FNV-1a of the three, each behind its length, then mixed.
pub fn checker_name(dependency: &str, service: &str, instance: &str) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    for part in [dependency, service, instance] {
        (part.len() as u64)
            .to_le_bytes()
            .into_iter()
            .for_each(&mut add);
        part.bytes().for_each(&mut add);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

impl Phases {
    pub fn new(kind: Phase) -> Self {
        Self {
            kind,
            sorted: Vec::new(),
            changed: Time::ORIGIN,
            row: None,
        }
    }

    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Gives a checker its phase.
    pub fn join(&mut self, checker: u64, now: Time) -> u64 {
        let phase = match self.kind {
            Phase::Spread if !self.sorted.is_empty() => self.in_largest_gap(),
            // The first of a row is at its hash, so that dependencies differ.
            Phase::Spread | Phase::Hash => checker,
        };
        self.insert(phase, checker);
        self.changed = now;
        phase
    }

    pub fn leave(&mut self, phase: u64, checker: u64, now: Time) {
        if let Ok(at) = self.sorted.binary_search(&(phase, checker)) {
            self.sorted.remove(at);
            self.changed = now;
            if let Some((row, _)) = &mut self.row {
                row.remove(&checker);
            }
        }
    }

    /// Of how many checkers this one is which, by phase.
    pub fn rank(&self, phase: u64, checker: u64) -> usize {
        match self.sorted.binary_search(&(phase, checker)) {
            Ok(rank) | Err(rank) => rank,
        }
    }

    /// The phase of a checker from now on: its place in an even row, where there is one.
    pub fn settle(&mut self, phase: u64, checker: u64, period: Nanos, now: Time) -> u64 {
        if self.kind == Phase::Hash {
            return phase;
        }
        if self.row.as_ref().is_some_and(|(_, end)| now >= *end) {
            self.row = None;
        }
        if self.row.is_none() && self.is_uneven(period, now) {
            let open = Nanos(period.0.saturating_mul(2));
            self.row = Some((self.even_row(phase, checker), now + open));
        }
        let Some(place) = self.row.as_mut().and_then(|(row, _)| row.remove(&checker)) else {
            return phase;
        };
        if let Ok(at) = self.sorted.binary_search(&(phase, checker)) {
            self.sorted.remove(at);
        }
        self.insert(place, checker);
        place
    }

    fn is_uneven(&self, period: Nanos, now: Time) -> bool {
        let settled = now.since(self.changed) >= period;
        self.unevenness() > if settled { 1.1 } else { 2.0 }
    }

    /// A place for each checker, from this one on: even gaps, none later than its phase.
    fn even_row(&self, phase: u64, checker: u64) -> BTreeMap<u64, u64> {
        let first = self.rank(phase, checker);
        let (count, even) = (self.sorted.len(), even_gap(self.sorted.len()));
        let from_first = || self.sorted.iter().cycle().skip(first).take(count);
        // How much each is behind its place, if the row began at the first.
        let behind = from_first()
            .zip(0_i128..)
            .map(|((at, _), rank)| i128::from(at.wrapping_sub(phase)) - rank * i128::from(even));
        let begin = phase.wrapping_add(behind.min().unwrap_or_default() as u64);
        from_first()
            .zip(0_u64..)
            .map(|((_, name), rank)| (*name, begin.wrapping_add(rank.wrapping_mul(even))))
            .collect()
    }

    /// The largest gap in even ones.
    pub fn unevenness(&self) -> f64 {
        let (_, gap) = self.largest_gap();
        gap * self.sorted.len() as f64
    }

    fn insert(&mut self, phase: u64, checker: u64) {
        let at = self.rank(phase, checker);
        self.sorted.insert(at, (phase, checker));
    }

    /// Where the largest gap begins, and its part of a period.
    fn largest_gap(&self) -> (u64, f64) {
        let next = self.sorted.iter().cycle().skip(1);
        let gaps = self.sorted.iter().zip(next).map(|(one, next)| {
            // The one gap of a lone checker is all of the period.
            let gap = next.0.wrapping_sub(one.0).wrapping_sub(1);
            (one.0, (gap as f64 + 1.0) / 2_f64.powi(64))
        });
        // Two of one phase have no gap between them, which looks like all of it.
        let gaps = gaps.filter(|(_, gap)| *gap < 1.0 || self.sorted.len() == 1);
        gaps.fold(
            (0, 0.0),
            |most, gap| if gap.1 > most.1 { gap } else { most },
        )
    }

    fn in_largest_gap(&self) -> u64 {
        let (begin, gap) = self.largest_gap();
        let count = self.sorted.len() as f64;
        let at = (0.5 / count).ln_1p() / (1.0 / count).ln_1p();
        begin.wrapping_add((gap * at * 2_f64.powi(64)) as u64)
    }
}

fn even_gap(count: usize) -> u64 {
    ((1_u128 << 64) / count.max(1) as u128).min(u128::from(u64::MAX)) as u64
}

/// A part of 2^64 of `whole`.
pub fn part_of(part: u64, whole: Nanos) -> Nanos {
    Nanos(((u128::from(part) * u128::from(whole.0)) >> 64) as u64)
}
