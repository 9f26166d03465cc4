//! What the shared store counts: plain atomics, read by whoever shows them.
//!
//! What is decided in place is counted in cells by dependency, so that two cores that decide
//! about different ones do not share a cache line.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{permit::DependencyId, store::Figures};

const CELLS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Swap,
    Look,
    Drop,
    Publish,
    /// What is neither: keys that are renewed, looked for or claimed.
    Keep,
    SwapLost,
    DecidedBySwap,
    Told,
    Heard,
    Lost,
}

const KINDS: usize = Counted::Lost as usize + 1;

/// See the module.
#[derive(Debug)]
pub struct Counts {
    of: [AtomicU64; KINDS],
    in_place: Box<[Cell; CELLS]>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Cell(AtomicU64);

impl Default for Counts {
    fn default() -> Self {
        Self {
            of: Default::default(),
            in_place: Box::new(std::array::from_fn(|_| Cell::default())),
        }
    }
}

impl Counts {
    pub fn add(&self, counted: Counted) {
        self.add_many(counted, 1);
    }

    pub fn add_many(&self, counted: Counted, count: u64) {
        self.of[counted as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub fn add_in_place(&self, id: DependencyId) {
        let cell = &self.in_place[id.0 as usize % CELLS];
        cell.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> Figures {
        let of = |counted| self.of[counted as usize].load(Ordering::Relaxed);
        let in_place = self.in_place.iter();
        Figures {
            swaps: of(Counted::Swap),
            looks: of(Counted::Look),
            drops: of(Counted::Drop),
            publishes: of(Counted::Publish),
            keeps: of(Counted::Keep),
            swaps_lost: of(Counted::SwapLost),
            decided_in_place: in_place.map(|cell| cell.0.load(Ordering::Relaxed)).sum(),
            decided_by_swap: of(Counted::DecidedBySwap),
            told: of(Counted::Told),
            heard: of(Counted::Heard),
            lost: of(Counted::Lost),
            copies: 0,
            is_away: false,
        }
    }
}
