//! The plan of a dependency's future retries: so many a slot, and no slot more than it has.
//!
//! A retry that is granted reserves one place in the first slot with room at or after its
//! wanted time. A thousand callers that fail at once are so spread over a thousand places,
//! instead of over what their draws happen to leave. A place is a promise of the plan and
//! no more: whether the breaker still lets the attempt pass is another rule's matter.
//!
//! A place needs no entry that names it: it is the slot that its time lies in, and the
//! permit carries that time. So a place comes back by its time alone ([`Calendar::release`]).
//!
//! The rules that the contract leaves open:
//!
//! - The horizon is counted from the wanted time. A retry that is asked to wait for a minute
//!   must not be refused since the plan reaches half a minute.
//! - A slot that was promised at another rate keeps its places; new ones are given up to
//!   what it has at the rate in force. When the slot's length changes, what is promised
//!   counts in every new slot it may fall into.
//! - An instance holds at most `max(1, 2 * places / instances)` of the places that the
//!   horizon has, `instances` being those that hold one. Instances are told apart by 64
//!   groups: those of one group share its part. A place given back counts for its group
//!   until its time, so nobody jumps the line by cancelling.
//! - Who is refused is remembered as a line: the next one is told a later time, up to a
//!   horizon ahead; beyond that, callers are spread over the horizon.
//! - A slot that the clock has passed is never promised again, also when the clock goes back.
//!
//! Why not a counter per slot in one array: a record would have kilobytes for what most
//! dependencies use for seconds. Pages of 64 slots come with the first place in them and go
//! when the clock has passed them.

mod bytes;
mod grid;
mod marks;

use std::{collections::BTreeMap, fmt};

pub use self::grid::{Grid, PER_SLOT_MAX, Priority};
use self::marks::Marks;
use crate::{Nanos, Time};

/// Slots in a page.
const PAGE: u64 = 64;
/// A longer horizon is taken as so many slots.
pub const SLOTS_MAX: u64 = 1_000_000;
/// Groups that caller instances are told apart by.
const GROUPS: u64 = 64;
/// A learned rate is taken up at most once in so long,
const ADAPTS_EVERY: Nanos = Nanos::from_secs(1);
/// and where it differs by this part: each time, what is known of full slots is forgotten.
const ADAPTS_FROM_PART: u64 = 16;

/// The places that are promised.
#[derive(Clone, Debug)]
pub struct Calendar {
    grid: Grid,
    /// The first slot that is still given.
    from: u64,
    /// The latest time that was read.
    latest: Time,
    /// When the rate was last taken up.
    adapted: Time,
    pages: BTreeMap<u64, Page>,
    marks: Marks,
    planned: u64,
    /// Places whose time has not come, by group of instances.
    held: [u32; GROUPS as usize],
    /// Those that were refused last were told to ask again before this time.
    line: Time,
}

/// 64 slots.
#[derive(Clone, Debug)]
struct Page {
    used: [u16; PAGE as usize],
    /// Slot within the page and group, of each place that was given.
    holders: Vec<(u8, u8)>,
}

/// How many retries a second are planned, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Set by an operator.
    Fixed(u64),
    /// Learned, so it moves all the time.
    Learned(u64),
}

/// One place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub at: Time,
    pub caller: u64,
}

/// Who wants a place, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// At or after this time.
    pub at: Time,
    /// At most so long after it.
    pub horizon: Nanos,
    pub priority: Priority,
    /// Hash of the caller's instance.
    pub caller: u64,
    /// A draw in [0, 1): where in its slot.
    pub unit: f64,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Every slot of the horizon is; a place may be free when it has moved by `wait`.
    Horizon {
        planned: u64,
        horizon: Nanos,
        wait: Nanos,
    },
    /// This instance has its part of the `places`.
    Caller { held: u64, part: u64, wait: Nanos },
}

impl Pace {
    pub fn micros(self) -> u64 {
        match self {
            Self::Fixed(micros) | Self::Learned(micros) => micros,
        }
    }
}

impl Calendar {
    pub fn new(slot: Nanos, pace: Pace, now: Time) -> Self {
        let grid = Grid::new(slot, pace.micros());
        Self {
            grid,
            from: now.0 / grid.slot().0,
            latest: now,
            adapted: now,
            pages: BTreeMap::new(),
            marks: Marks::default(),
            planned: 0,
            held: [0; GROUPS as usize],
            line: Time::ORIGIN,
        }
    }

    /// The place that `wish` would get. Promises nothing; what it learns of full slots is
    /// remembered, so the next search is quicker and finds the same.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(&mut self, wish: &Wish) -> Result<Place, Full> {
        self.look_at_part(wish)?;
        let slot = self.grid.slot().0;
        let reach = Nanos(wish.horizon.0.min(slot.saturating_mul(SLOTS_MAX)));
        let first = (wish.at.0 / slot).max(self.from);
        let last = (wish.at + reach).0 / slot;
        match self.search(first, last, wish.priority) {
            Ok(found) => Ok(Place {
                at: self.within(found, wish),
                caller: wish.caller,
            }),
            Err(beyond) => Err(Full::Horizon {
                planned: self.planned,
                horizon: wish.horizon,
                wait: self.moved_to(beyond, last),
            }),
        }
    }

    /// Promises a place that [`Self::find`] found at this instant.
    pub fn take(&mut self, place: Place) {
        let slot = place.at.0 / self.grid.slot().0;
        let group = place.caller % GROUPS;
        let page = self.pages.entry(slot / PAGE).or_default();
        let used = &mut page.used[(slot % PAGE) as usize];
        if *used < u16::MAX {
            *used += 1;
            self.planned += 1;
        }
        page.holders.push(((slot % PAGE) as u8, group as u8));
        let held = &mut self.held[group as usize];
        *held = held.saturating_add(1);
    }

    /// Gives back the place at `at`; nothing where the clock has passed its slot.
    pub fn release(&mut self, at: Time) {
        let slot = at.0 / self.grid.slot().0;
        if slot < self.from {
            return;
        }
        if let Some(page) = self.pages.get_mut(&(slot / PAGE)) {
            let used = &mut page.used[(slot % PAGE) as usize];
            if *used > 0 {
                *used -= 1;
                self.planned = self.planned.saturating_sub(1);
                self.marks.clear(slot);
            }
        }
    }

    /// When a caller that was refused may ask again, after `wait` at least, and the line
    /// behind it. `unit` spreads those that find the line full.
    pub fn line_up(&mut self, wait: Nanos, horizon: Nanos, unit: f64, now: Time) -> Nanos {
        let soonest = now + wait;
        let latest = soonest + horizon;
        let interval = match self.grid.rate_micros() {
            0 => horizon.0,
            micros => 1_000_000_000_000_000 / micros,
        };
        let turn = self.line.max(soonest);
        if turn + Nanos(interval) > latest {
            return wait.saturating_add(horizon.scaled(unit));
        }
        self.line = turn + Nanos(interval);
        now.until(turn + Nanos(interval).scaled(unit))
    }

    /// Forgets the slots that the clock has passed.
    pub fn advance(&mut self, now: Time) {
        self.latest = self.latest.max(now);
        let to = now.0 / self.grid.slot().0;
        if to <= self.from {
            return;
        }
        while let Some(entry) = self.pages.first_entry()
            && *entry.key() < to / PAGE
        {
            let page = entry.remove();
            self.pass(&page.used, &page.holders);
        }
        if let Some(mut page) = self.pages.remove(&(to / PAGE)) {
            let behind = (to % PAGE) as usize;
            let (passed, kept) = page
                .holders
                .iter()
                .partition(|(slot, _)| usize::from(*slot) < behind);
            self.pass(&page.used[..behind], &passed);
            page.used[..behind].fill(0);
            page.holders = kept;
            if page.used.iter().any(|used| *used > 0) || !page.holders.is_empty() {
                self.pages.insert(to / PAGE, page);
            }
        }
        self.from = to;
        self.marks.forget_before(to);
    }

    fn pass(&mut self, used: &[u16], holders: &Vec<(u8, u8)>) {
        let used: u64 = used.iter().map(|used| u64::from(*used)).sum();
        self.planned = self.planned.saturating_sub(used);
        for (_, group) in holders {
            if let Some(held) = self.held.get_mut(usize::from(*group)) {
                *held = held.saturating_sub(1);
            }
        }
    }

    /// Takes up what the policy says now. A learned rate moves with every success, so it
    /// is taken up seldom.
    pub fn adapt(&mut self, slot: Nanos, pace: Pace, now: Time) {
        let old = self.grid.rate_micros();
        let rate = match pace {
            Pace::Fixed(micros) => micros,
            Pace::Learned(micros) => {
                let soon = now.since(self.adapted) < ADAPTS_EVERY;
                let little = micros.abs_diff(old) <= old / ADAPTS_FROM_PART;
                if soon || little { old } else { micros }
            }
        };
        let former = self.grid;
        let mut grid = Grid::new(slot, rate);
        if grid.slot() != former.slot() && !self.can_cut_anew(grid, now) {
            grid = Grid::new(former.slot(), rate);
        }
        if grid == former {
            return;
        }
        self.grid = grid;
        self.adapted = now;
        self.marks.forget_all();
        if former.slot() != grid.slot() {
            self.cut_anew(former, now);
        }
    }

    /// Whether nothing is planned for `now` or later.
    pub fn is_empty_at(&self, now: Time) -> bool {
        let slot = now.0 / self.grid.slot().0;
        self.pages.iter().rev().all(|(number, page)| {
            let first = number * PAGE;
            let behind = slot.saturating_sub(first).min(PAGE) as usize;
            page.used[behind..].iter().all(|used| *used == 0)
                && page.holders.iter().all(|(at, _)| usize::from(*at) < behind)
        })
    }

    /// Places that are promised and whose slot has not passed.
    pub fn planned(&self) -> u64 {
        self.planned
    }

    /// The slots at or after `now` that have places, with when each begins and how many are
    /// promised, in order.
    pub fn ahead(&self, now: Time) -> impl Iterator<Item = (Time, u16)> {
        let slot = self.grid.slot().0;
        let first = now.0 / slot;
        let pages = self.pages.range(first / PAGE..);
        let slots = pages.flat_map(|(page, of)| (page * PAGE..).zip(of.used));
        slots
            .filter(move |(number, used)| *number >= first && *used > 0)
            .map(move |(number, used)| (Time(number.saturating_mul(slot)), used))
    }

    pub fn grid(&self) -> Grid {
        self.grid
    }

    fn look_at_part(&self, wish: &Wish) -> Result<(), Full> {
        let group = (wish.caller % GROUPS) as usize;
        let own = u64::from(self.held[group]);
        let others = self.held.iter().enumerate();
        let others = others
            .filter(|(at, held)| *at != group && **held > 0)
            .count();
        let horizon = wish.horizon.0;
        let places =
            u128::from(self.grid.rate_micros()) * u128::from(horizon) / 1_000_000_000_000_000;
        let part = (2 * places / (others as u128 + 1)).max(1);
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        match own >= part {
            true => Err(Full::Caller {
                held: own,
                part,
                wait: self.grid.slot(),
            }),
            false => Ok(()),
        }
    }

    /// The first slot from `first` to `last` with room for `priority`, else the first one
    /// beyond that may have room.
    fn search(&mut self, first: u64, last: u64, priority: Priority) -> Result<u64, Option<u64>> {
        let mut at = first;
        while let Some(unmarked) = self.marks.next(at, last, priority) {
            let found = self.grid.next_with_place(unmarked, priority);
            let found = found.ok_or(None)?;
            if u64::from(self.used(found)) < self.grid.capacity(found, priority) && found <= last {
                return Ok(found);
            }
            // What has no place at this rate is as good as full.
            self.marks.mark(unmarked, found.min(last), priority);
            match found.checked_add(1) {
                Some(next) if next <= last => at = next,
                Some(_) | None => break,
            }
        }
        let beyond = last.saturating_add(1).max(self.from);
        Err(self.grid.next_with_place(beyond, priority))
    }

    fn used(&self, slot: u64) -> u16 {
        let page = self.pages.get(&(slot / PAGE));
        page.map_or(0, |page| page.used[(slot % PAGE) as usize])
    }

    /// The instant in `slot`, not before the wanted one.
    fn within(&self, slot: u64, wish: &Wish) -> Time {
        let begin = slot.saturating_mul(self.grid.slot().0);
        let low = begin.max(wish.at.0);
        let width = begin.saturating_add(self.grid.slot().0).saturating_sub(low);
        let inside = Nanos(width).scaled(wish.unit).0;
        Time(low.saturating_add(inside.min(width.saturating_sub(1))))
    }

    /// How long until a horizon that ends with the slot `last` reaches `beyond`.
    fn moved_to(&self, beyond: Option<u64>, last: u64) -> Nanos {
        let slots = beyond.map_or(u64::MAX, |beyond| beyond.saturating_sub(last));
        Nanos(slots.saturating_mul(self.grid.slot().0))
    }

    /// Whether all that is promised spans few enough slots of the new length. If not, the
    /// old length stays until enough has passed.
    fn can_cut_anew(&self, grid: Grid, now: Time) -> bool {
        let end = self.pages.last_key_value().map_or(0, |(number, _)| {
            (number.saturating_add(1).saturating_mul(PAGE)).saturating_mul(self.grid.slot().0)
        });
        now.until(Time(end)).0 / grid.slot().0 <= SLOTS_MAX
    }

    /// Moves what is promised into slots of another length. Where in its old slot a place
    /// lies is not known, so it counts in every new slot that it may lie in.
    fn cut_anew(&mut self, former: Grid, now: Time) {
        let (old, new) = (former.slot().0, self.grid.slot().0);
        let pages = std::mem::take(&mut self.pages);
        let latest = self.latest.max(now).0;
        // What was promised of a slot that has begun is no longer known in full.
        self.from = self.from.saturating_mul(old).max(latest).div_ceil(new);
        self.planned = 0;
        self.held = [0; GROUPS as usize];
        for (number, page) in pages {
            for (within, used) in (0..).zip(page.used).filter(|(_, used)| *used > 0) {
                let begin = (number * PAGE + within).saturating_mul(old);
                let end = begin.saturating_add(old - 1);
                for slot in begin.max(latest) / new..=end / new {
                    self.carry(slot, used);
                }
            }
        }
    }

    fn carry(&mut self, slot: u64, places: u16) {
        let page = self.pages.entry(slot / PAGE).or_default();
        let used = &mut page.used[(slot % PAGE) as usize];
        let carried = places.min(u16::MAX - *used);
        *used += carried;
        self.planned += u64::from(carried);
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Horizon {
                planned, horizon, ..
            } => write!(
                f,
                "no place within {horizon}; {planned} retries are planned"
            ),
            Self::Caller { held, part, .. } => write!(
                f,
                "this instance holds {held} of the {part} places that are its part"
            ),
        }
    }
}

impl Full {
    /// How long at least until there may be a place.
    pub fn wait(&self) -> Nanos {
        match *self {
            Self::Horizon { wait, .. } | Self::Caller { wait, .. } => wait,
        }
    }
}

impl Default for Page {
    fn default() -> Self {
        Self {
            used: [0; PAGE as usize],
            holders: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
