//! When each checker runs its next health check, for a whole fleet of checkers.
//!
//! ```text
//! run k starts at   phase + k * period + j      0 <= j <= offset, drawn for each run
//! ```
//!
//! The grid is absolute, so jitter does not accumulate and nothing falls into step: timers
//! that are armed again after each run do (Floyd and Jacobson, 1994). A check that is late
//! or long takes the next grid time, so there is no overlap and no burst to catch up. Under
//! `phase: spread` j is at most a twelfth of the place that each has, since a larger one would
//! undo the spread. The grid is that of the clock that is handed in: it survives a restart
//! where the clock's origin does.
//!
//! The first run is within `first_within`: on the grid where that is soon enough, otherwise
//! once beside it, in the order of the phases. `max_concurrent` may start a run later than
//! its grid time. With `observers` some check and all know; a result of any checker counts
//! for the one verdict. Nothing is healthy or unhealthy before it was seen to be.
//!
//! At most 4,096 checkers are planned for each dependency; further ones get the shared
//! verdict and do not check. One that has not asked for two periods after it should have is
//! forgotten.

mod bytes;
mod observers;
mod phases;
mod places;
mod seen;

use std::collections::BTreeMap;

use self::{
    observers::{Observers, observes},
    phases::{JITTER_PARTS, Phases, part_of},
    places::Places,
};
pub use self::{phases::checker_name, seen::Summary};
use crate::{
    Nanos, Sample, Time,
    policy::{Check, Phase},
};

/// Checkers that are planned for one dependency.
pub const CHECKERS_MAX: usize = 4_096;

/// The checkers of one dependency, and what they have found.
#[derive(Clone, Debug)]
pub struct Checks {
    checkers: BTreeMap<u64, Checker>,
    phases: Phases,
    kind: Phase,
    places: Places,
    observers: Observers,
    next_serial: u64,
    swept: Time,
    /// The first plan, from which a verdict is awaited.
    began: Time,
    verdict: Verdict,
    /// In a row.
    failures: u32,
    seen: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Checker {
    phase: u64,
    /// The grid time that was planned last.
    grid: Time,
    next: Next,
    /// A result of this run is awaited.
    awaited: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Run { serial: u64, start: Time },
    Ask { at: Time },
}

/// What a checker is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plan {
    /// Check after `delay`, for `timeout` at most, then ask again with the result.
    Run {
        delay: Nanos,
        timeout: Nanos,
        serial: u64,
    },
    /// Others check. Ask again after `ask_again`.
    Shared {
        verdict: Verdict,
        /// `None`: there was no result yet.
        age: Option<Nanos>,
        ask_again: Nanos,
    },
}

/// What the checks have found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Unknown,
    Healthy,
    Unhealthy,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    pub serial: u64,
    pub healthy: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            checkers: BTreeMap::new(),
            phases: Phases::new(Phase::Hash),
            kind: Phase::Hash,
            places: Places::default(),
            observers: Observers::default(),
            next_serial: 0,
            swept: Time::ORIGIN,
            began: Time::MAX,
            verdict: Verdict::Unknown,
            failures: 0,
            seen: None,
        }
    }
}

/// Takes the result of a checker's last run and plans its next one. `checker` is its
/// [`checker_name`].
pub fn plan(
    policy: &Check,
    checks: &mut Checks,
    checker: u64,
    last: Option<Finished>,
    now: Time,
    sample: Sample,
) -> Plan {
    checks.begin(policy, checker, now);
    if let Some(finished) = last {
        checks.take_result(policy, checker, finished, now);
    }
    match checks.checkers.get(&checker).copied() {
        Some(known) => match known.pending(last, now) {
            Some(_) => checks.tell(policy, &known, now),
            None => checks.plan_next(policy, checker, known, now, sample),
        },
        None if checks.has_room(policy, checker, now) => {
            checks.plan_first(policy, checker, now, sample)
        }
        None => {
            let grid = next_grid(policy, checker, now + Nanos(1));
            checks.shared(now, grid)
        }
    }
}

impl Checks {
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The time since the last result; `None`: there was none.
    pub fn age(&self, now: Time) -> Option<Nanos> {
        self.seen.map(|seen| now.since(seen))
    }

    pub fn checkers(&self) -> usize {
        self.checkers.len()
    }

    /// Checks that are out at `now`.
    pub fn out(&self, now: Time) -> usize {
        self.places.out(now)
    }

    /// The largest gap between neighbouring phases, in even ones.
    pub fn unevenness(&self) -> f64 {
        self.phases.unevenness()
    }

    /// Forgets a checker that ends.
    pub fn leave(&mut self, checker: u64, now: Time) {
        if let Some(gone) = self.checkers.remove(&checker) {
            self.phases.leave(gone.phase, checker, now);
            if let Next::Run { start, .. } = gone.next {
                self.places.give_back(start, checker);
            }
        }
    }

    fn begin(&mut self, policy: &Check, asking: u64, now: Time) {
        self.began = self.began.min(now);
        self.places.end(policy.timeout, now);
        if self.kind != policy.phase {
            self.kind = policy.phase;
            self.phases = Phases::new(policy.phase);
            for (name, checker) in &mut self.checkers {
                checker.phase = self.phases.join(*name, period(policy), now);
            }
        }
        if now.since(self.swept) >= period(policy) {
            self.sweep(policy, asking, now);
        }
    }

    fn has_room(&mut self, policy: &Check, asking: u64, now: Time) -> bool {
        if self.checkers.len() >= CHECKERS_MAX {
            self.sweep(policy, asking, now);
        }
        self.checkers.len() < CHECKERS_MAX
    }

    /// Forgets the checkers that have not asked for long, but for the one that asks now.
    fn sweep(&mut self, policy: &Check, asking: u64, now: Time) {
        self.swept = now;
        let grace = Nanos(period(policy).0.saturating_mul(2));
        let gone: Vec<u64> = (self.checkers.iter())
            .filter(|(name, checker)| {
                let due = match checker.next {
                    Next::Run { start, .. } => start + policy.timeout,
                    Next::Ask { at } => at,
                };
                **name != asking && now >= due + grace
            })
            .map(|(name, _)| *name)
            .collect();
        for name in gone {
            self.leave(name, now);
        }
    }

    /// A run counts once.
    fn take_result(&mut self, policy: &Check, checker: u64, finished: Finished, now: Time) {
        let Some(known) = self.checkers.get_mut(&checker) else {
            return;
        };
        if known.awaited != Some(finished.serial) {
            return;
        }
        known.awaited = None;
        self.seen = Some(now);
        if finished.healthy {
            (self.failures, self.verdict) = (0, Verdict::Healthy);
        } else {
            self.failures = self.failures.saturating_add(1);
            if self.failures >= policy.unhealthy_after {
                self.verdict = Verdict::Unhealthy;
            }
        }
    }

    fn plan_first(&mut self, policy: &Check, checker: u64, now: Time, sample: Sample) -> Plan {
        let phase = self.phases.join(checker, period(policy), now);
        let grid = next_grid(policy, phase, now);
        let new = Checker {
            phase,
            grid,
            next: Next::Ask { at: now },
            awaited: None,
        };
        let turn = turn_of(policy, grid);
        if grid > now + policy.first_within && self.checks_first(policy, turn) {
            // Its place on the grid is still to come.
            let grid = Time::ORIGIN;
            let beside = now + part_of(phase, policy.first_within);
            return self.run(policy, checker, Checker { grid, ..new }, turn, beside, now);
        }
        // The first to come do not know yet how many share the period: no jitter.
        let jitter = match policy.phase {
            Phase::Hash => sample.jitter,
            Phase::Spread => 0.0,
        };
        self.run_or_share(policy, checker, new, now, Sample { jitter, ..sample })
    }

    fn plan_next(
        &mut self,
        policy: &Check,
        checker: u64,
        mut known: Checker,
        now: Time,
        sample: Sample,
    ) -> Plan {
        if let Next::Run { start, .. } = known.next {
            self.places.give_back(start, checker);
        }
        let period = period(policy);
        known.phase = self.phases.settle(known.phase, checker, period, now);
        let grid = next_grid(policy, known.phase, now);
        // It asked early, or its place has moved: not twice for one turn.
        let again = known.grid.until(grid) < Nanos(period.0 / 2) && known.grid > Time::ORIGIN;
        known.grid = if again { grid + period } else { grid };
        self.run_or_share(policy, checker, known, now, sample)
    }

    fn run_or_share(
        &mut self,
        policy: &Check,
        checker: u64,
        mut known: Checker,
        now: Time,
        sample: Sample,
    ) -> Plan {
        let (turn, grid) = (turn_of(policy, known.grid), known.grid);
        if self.checks_in(policy, checker, &known, turn, now) {
            let wanted = grid + self.jitter(policy, sample);
            return self.run(policy, checker, known, turn, wanted, now);
        }
        known.next = Next::Ask { at: grid };
        known.awaited = None;
        self.checkers.insert(checker, known);
        self.shared(now, grid)
    }

    /// Whether a checker that is new checks once beside the grid.
    fn checks_first(&self, policy: &Check, turn: u64) -> bool {
        policy.observers == 0
            || (self.seen.is_none() && self.observers.has_room(turn, policy.observers))
    }

    /// Whether a checker checks in the turn that it is planned for.
    fn checks_in(
        &self,
        policy: &Check,
        checker: u64,
        known: &Checker,
        turn: u64,
        now: Time,
    ) -> bool {
        if policy.observers == 0 {
            return true;
        }
        let stale = now.since(self.seen.unwrap_or(self.began)).0 / 2 >= period(policy).0;
        let rank = self.phases.rank(known.phase, checker);
        let assigned = observes(turn, rank, self.phases.len(), policy.observers);
        (assigned || stale) && self.observers.has_room(turn, policy.observers)
    }

    fn run(
        &mut self,
        policy: &Check,
        checker: u64,
        mut known: Checker,
        turn: u64,
        wanted: Time,
        now: Time,
    ) -> Plan {
        let start = (self.places).first_free(wanted, policy.timeout, policy.max_concurrent);
        self.places.take(start, checker);
        self.observers.take(turn);
        self.next_serial = self.next_serial.wrapping_add(1);
        let serial = self.next_serial;
        known.next = Next::Run { serial, start };
        known.awaited = Some(serial);
        self.checkers.insert(checker, known);
        self.tell(policy, &known, now)
    }

    fn tell(&self, policy: &Check, known: &Checker, now: Time) -> Plan {
        match known.next {
            Next::Run { serial, start } => Plan::Run {
                delay: now.until(start),
                timeout: policy.timeout,
                serial,
            },
            Next::Ask { at } => self.shared(now, at),
        }
    }

    fn shared(&self, now: Time, at: Time) -> Plan {
        Plan::Shared {
            verdict: self.verdict,
            age: self.age(now),
            ask_again: now.until(at),
        }
    }

    fn jitter(&self, policy: &Check, sample: Sample) -> Nanos {
        let most = match policy.phase {
            Phase::Hash => policy.offset,
            Phase::Spread => {
                let place = period(policy).0 / self.phases.len().max(1) as u64;
                policy.offset.min(Nanos(place / JITTER_PARTS))
            }
        };
        most.scaled(sample.jitter)
    }
}

impl Checker {
    /// What was planned and is still to come, when it is asked for again.
    fn pending(&self, last: Option<Finished>, now: Time) -> Option<Time> {
        let at = match self.next {
            Next::Run { start, .. } => start,
            Next::Ask { at } => at,
        };
        (last.is_none() && now < at).then_some(at)
    }
}

fn period(policy: &Check) -> Nanos {
    policy.period.max(Nanos(1))
}

/// The first grid time of this phase at or after `now`.
fn next_grid(policy: &Check, phase: u64, now: Time) -> Time {
    let (period, phase) = (period(policy), part_of(phase, period(policy)));
    let turn = now.0.saturating_sub(phase.0).div_ceil(period.0);
    Time(turn.saturating_mul(period.0).saturating_add(phase.0))
}

/// The number of the period that this grid time is in.
fn turn_of(policy: &Check, grid: Time) -> u64 {
    grid.0 / period(policy).0
}
