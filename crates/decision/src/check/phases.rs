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
//! Nobody knows how many will come, and a place once run at cannot be changed before its
//! checker asks again. So the first run of each is where the sequence puts it, and its place
//! from then on is decided when it comes back: all are moved into an even row, each when it
//! asks next, so all of them are within a period, in order, and no gap between probes gets
//! larger on the way. Places are only earlier than the phases were, so no probe comes late.
//! An even row is made where the largest gap is above
//!
//! - 1.01 even ones, and all have come: none for ten times as long as three or more needed on
//!   average (at once for those that start together), or nobody came or went for a period;
//! - 1.2, since so many have come after the last row was made, half a period ago or more;
//! - 2, at any time.
//!
//! Until all have come there is no row: where growth goes on, one that is even has gaps of
//! two even ones before all of them are divided, and the sequence has not. For the same
//! reason two checkers stay as they are, at 1.17. Nothing is moved where nobody comes or
//! goes, or where one that comes takes the place of one that has gone.

use std::collections::BTreeMap;

use crate::{Nanos, Time, bytes::fields, policy::Phase};

/// Of an even gap, the jitter of a run under `spread` is one of so many parts at most.
pub const JITTER_PARTS: u64 = 12;
/// Of gaps in even ones: what the sequence never reaches.
const GAP_OF_SEQUENCE: f64 = 1.45;
/// So many even ones may a gap have where nobody comes or goes. With the jitter of a twelfth
/// of a place no two runs are then further apart than 1.1.
const GAP_OF_ROW: f64 = 1.01;
/// Where more have come since the last row was made.
const GAP_IN_GROWTH: f64 = 1.2;
const GAP_MOST: f64 = 2.0;

/// The places of all checkers, in order.
#[derive(Clone, Debug)]
pub struct Phases {
    kind: Phase,
    sorted: Vec<(u64, u64)>,
    /// Places of an even row, by checker, that were not taken yet: until it asks, its phase
    /// is the one before.
    moves: BTreeMap<u64, u64>,
    arrivals: Arrivals,
    changed: Time,
    /// When the last even row was made, and for how many.
    evened: Option<(Time, usize)>,
    /// Where the largest gap begins, and its part of a period.
    largest_gap: (u64, f64),
}

/// Those that came one after another.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    count: u64,
    began: Time,
    last: Time,
}

fields!(Arrivals { count, began, last } if |arrivals| arrivals.count < u64::MAX / 2);
fields!(Phases { kind, sorted, moves, arrivals, changed, evened, largest_gap } if |phases| {
    phases.sorted.is_sorted() && phases.moves.len() <= phases.sorted.len()
});

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
            moves: BTreeMap::new(),
            arrivals: Arrivals::default(),
            changed: Time::ORIGIN,
            evened: None,
            largest_gap: (0, 0.0),
        }
    }

    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Gives a checker its phase.
    pub fn join(&mut self, checker: u64, period: Nanos, now: Time) -> u64 {
        let phase = match self.kind {
            Phase::Spread if !self.sorted.is_empty() => self.in_largest_gap(),
            // The first of a row is at its hash, so that dependencies differ.
            Phase::Spread | Phase::Hash => checker,
        };
        let at = self.rank(phase, checker);
        self.sorted.insert(at, (phase, checker));
        self.arrivals.one_came(period, now);
        self.have_changed(now);
        phase
    }

    pub fn leave(&mut self, phase: u64, checker: u64, now: Time) {
        let place = self.moves.remove(&checker).unwrap_or(phase);
        if let Ok(at) = self.sorted.binary_search(&(place, checker)) {
            self.sorted.remove(at);
            self.have_changed(now);
        }
    }

    /// Of how many checkers this one is which, by phase.
    pub fn rank(&self, phase: u64, checker: u64) -> usize {
        match self.sorted.binary_search(&(phase, checker)) {
            Ok(rank) | Err(rank) => rank,
        }
    }

    /// The phase of a checker that asks again: its place in an even row, where there is one.
    pub fn settle(&mut self, phase: u64, checker: u64, period: Nanos, now: Time) -> u64 {
        if self.kind == Phase::Spread && self.is_uneven(period, now) {
            let place = self.moves.get(&checker).copied().unwrap_or(phase);
            self.make_even(place, checker, now);
        }
        self.moves.remove(&checker).unwrap_or(phase)
    }

    /// The largest gap in even ones.
    pub fn unevenness(&self) -> f64 {
        self.largest_gap.1 * self.sorted.len() as f64
    }

    fn is_uneven(&self, period: Nanos, now: Time) -> bool {
        let all_have_come =
            self.arrivals.are_over(period, now) && self.changed == self.arrivals.last;
        let most = if self.sorted.len() <= 2 {
            GAP_OF_SEQUENCE
        } else if all_have_come || now.since(self.changed) >= period {
            GAP_OF_ROW
        } else if self.has_grown(period, now) {
            GAP_IN_GROWTH
        } else {
            GAP_MOST
        };
        self.unevenness() > most
    }

    /// Whether gaps are large because of those that came after the last row was made.
    fn has_grown(&self, period: Nanos, now: Time) -> bool {
        self.evened.is_some_and(|(at, count)| {
            let grown = self.sorted.len() as f64 > GAP_IN_GROWTH * count as f64;
            grown && now.since(at).0 >= period.0 / 2
        })
    }

    /// Gives each checker a place from this one on: even gaps, none later than before.
    fn make_even(&mut self, place: u64, checker: u64, now: Time) {
        let first = self.rank(place, checker);
        let (count, even) = (self.sorted.len(), even_gap(self.sorted.len()));
        self.sorted.rotate_left(first.min(count));
        // How much each is behind its place, if the row began at the first.
        let behind = (self.sorted.iter().zip(0_i128..))
            .map(|((at, _), rank)| i128::from(at.wrapping_sub(place)) - rank * i128::from(even));
        // Earlier by what jitter may make of it.
        let begin = behind.min().unwrap_or_default() - i128::from(even / JITTER_PARTS);
        let mut next = place.wrapping_add(begin as u64);
        for (at, name) in &mut self.sorted {
            *at = next;
            self.moves.insert(*name, next);
            next = next.wrapping_add(even);
        }
        self.sorted.sort_unstable();
        self.evened = Some((now, count));
        self.find_largest_gap();
    }

    fn have_changed(&mut self, now: Time) {
        self.changed = now;
        self.find_largest_gap();
    }

    fn find_largest_gap(&mut self) {
        let next = self.sorted.iter().cycle().skip(1);
        let gaps = self.sorted.iter().zip(next).map(|(one, next)| {
            // The one gap of a lone checker is all of the period.
            let gap = next.0.wrapping_sub(one.0).wrapping_sub(1);
            (one.0, (gap as f64 + 1.0) / 2_f64.powi(64))
        });
        // Two of one phase have no gap between them, which looks like all of it.
        let gaps = gaps.filter(|(_, gap)| *gap < 1.0 || self.sorted.len() == 1);
        self.largest_gap = gaps.fold(
            (0, 0.0),
            |most, gap| if gap.1 > most.1 { gap } else { most },
        );
    }

    fn in_largest_gap(&self) -> u64 {
        let (begin, gap) = self.largest_gap;
        let count = self.sorted.len() as f64;
        let at = (0.5 / count).ln_1p() / (1.0 / count).ln_1p();
        begin.wrapping_add((gap * at * 2_f64.powi(64)) as u64)
    }
}

impl Arrivals {
    fn one_came(&mut self, period: Nanos, now: Time) {
        if self.count == 0 || self.are_over(period, now) {
            *self = Self {
                began: now,
                ..Self::default()
            };
        }
        self.count += 1;
        self.last = now;
    }

    /// Whether nobody is to be expected who belongs to them.
    fn are_over(&self, period: Nanos, now: Time) -> bool {
        let silent = now.since(self.last);
        let took = self.last.since(self.began).0 / self.count.saturating_sub(1).max(1);
        let came_together = self.count >= 3 && now > self.last;
        silent >= period || (came_together && silent.0 >= took.saturating_mul(10))
    }
}

fn even_gap(count: usize) -> u64 {
    ((1_u128 << 64) / count.max(1) as u128).min(u128::from(u64::MAX)) as u64
}

/// A part of 2^64 of `whole`.
pub fn part_of(part: u64, whole: Nanos) -> Nanos {
    Nanos(((u128::from(part) * u128::from(whole.0)) >> 64) as u64)
}
