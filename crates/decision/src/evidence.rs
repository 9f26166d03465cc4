//! Who the evidence comes from: one bad instance must not open the breaker for the fleet.
//!
//! ```text
//! active   instances that ended an attempt in the last 2 s, or since the evidence began
//! alone    active <= 1: the detector's own word stands, nothing here applies
//! share    max(max_reporter_share, 1 / active): all of them together can always trip
//! part     the most that one instance adds: share * 13.3 of the adaptive sum (windows: `clip`)
//! quorum   min(min_reporters, active, 64) distinct instances have a part in the evidence
//! trip     the sum of the parts is enough, and there is a quorum
//! fault    one instance's own detector trips while the fleet's does not, or the fleet's would
//!          but for these rules and this instance is at its part
//! ```
//!
//! The adaptive sum is kept by instance. A failure adds to its instance's part; what it adds
//! above the most is a reserve that counts for nothing, but keeps the part full while it
//! decays. A success of anyone first drops the reserves and then takes from all parts in
//! proportion, so that without an instance at its most the sum is the plain one.
//!
//! Nothing is kept before the first failure but ten bytes that tell one active instance from
//! several: without them five failures in a burst would come from "the only active" one. At
//! most 64 instances are tracked, the one that was silent longest going first; its part of
//! the sum stays, without a name or a limit. So an instance that comes back after 63 others
//! have failed may count to twice its share, which needs 65 failing instances, and more
//! than 64 reporters are never asked for. Names are believed: who may call itself a new
//! name for each call is many instances.
//!
//! Permits that were never reported have no known instance. They are one unknown one, which
//! counts towards the quorum only where no other has failed.

mod clip;
mod sketch;
mod summed;
mod trail;
mod windowed;

pub use self::sketch::Sketch;
pub(crate) use self::sketch::mixed;
use self::trail::Trail;
use crate::{
    Nanos, Time,
    bytes::fields,
    detector::THRESHOLD,
    policy::{self, WindowSize},
    window::{Counts, Window},
};

/// Failing instances that are tracked for each dependency.
pub const REPORTERS_MAX: usize = 64;
/// An instance is active for one to two of these after an attempt.
pub const RECENT: Nanos = Nanos::from_secs(2);
/// While there is evidence: for one to two of these, so that the evidence of a fleet that has
/// shrunk to one instance is that one's.
pub const SINCE: Nanos = Nanos::from_secs(30);
/// Up to so many active instances the failing ones are counted by name.
const FEW: u32 = 10;
/// Without a failure for so long, and without a fault, nobody is tracked any more.
const QUIET: Nanos = Nanos::from_secs(60);

/// Instances that have failed, and how many are active.
#[derive(Clone, Debug)]
pub struct Reporters {
    names: Vec<u64>,
    /// Of the same index.
    held: Vec<Reporter>,
    /// Permits that were never reported.
    silence: Reporter,
    /// The part of the sum of instances that are not tracked any more.
    nameless: f32,
    active: Sketch<32>,
    at: Time,
    last_bad: Time,
    /// The row of failures since the last success of anyone, by number.
    row: u32,
    /// Calls counted.
    calls: u64,
    size: Option<WindowSize>,
    news: Option<News>,
}

/// One instance that has failed.
#[derive(Clone, Debug, Default)]
struct Reporter {
    /// Of the adaptive sum, with its reserve: 0 to [`THRESHOLD`].
    part: f32,
    /// Its own adaptive sum: 0 to [`THRESHOLD`].
    own: f32,
    heard: Time,
    fault: Option<Fault>,
    trail: Trail,
    /// Failures in the fleet's row of this number.
    row: (u32, u32),
    /// Its own window, under `detect: window`.
    own_window: Option<Box<Window>>,
}

/// A breaker of one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    refused_until: Time,
    /// Its last try may take so long.
    tried_until: Time,
}

fields!(Fault {
    refused_until,
    tried_until
});
fields!(Reporter {
    part,
    own,
    heard,
    fault,
    trail,
    row,
    own_window
});
// News is told by the step that makes it.
fields!(Reporters { names, held, silence, nameless, active, at, last_bad, row, calls, size }
without { news: None }
if |reporters| {
    reporters.names.len() == reporters.held.len() && reporters.names.len() <= REPORTERS_MAX
});

/// Calls that ended, as one instance reported them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// `None`: permits that nobody reported.
    pub reporter: Option<u64>,
    pub counts: Counts,
    /// When they ended.
    pub at: Time,
}

/// An instance got a breaker of its own, or lost it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    Refused { caller: u64, refused_for: Nanos },
    Recovered { caller: u64 },
}

/// The word of these rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Judged<T> {
    /// One instance is active: they do not apply.
    Alone,
    Fleet(T),
}

/// The adaptive sum in which no instance has more than its part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sum {
    pub sum: f32,
    pub trips: bool,
}

/// What the rules come to with so many active instances.
#[derive(Clone, Copy, Debug)]
struct Limits {
    share: f64,
    /// Of the adaptive sum.
    part: f32,
    quorum: usize,
}

impl Limits {
    fn new(policy: &policy::Breaker, active: u32) -> Self {
        let share = policy.max_reporter_share.as_ratio();
        let share = share.max(1.0 / f64::from(active.max(1))).min(1.0);
        Self {
            share,
            part: THRESHOLD * share as f32,
            quorum: (policy.min_reporters.min(active) as usize).min(REPORTERS_MAX),
        }
    }
}

impl Reporters {
    /// `sum`: the adaptive evidence of before.
    pub fn new(sum: f32, now: Time) -> Self {
        Self {
            names: Vec::new(),
            held: Vec::new(),
            silence: Reporter::default(),
            nameless: sum,
            active: Sketch::default(),
            at: now,
            last_bad: now,
            row: 0,
            calls: 0,
            size: None,
            news: None,
        }
    }

    /// Notes that an attempt of this instance ended.
    pub fn note(&mut self, reporter: u64, now: Time) {
        self.active.note(reporter, SINCE, now);
    }

    /// Instances that are active; `recent`: those that ended an attempt lately. Never more
    /// than there are. Exact for those that fail; of the others what their bits show.
    pub fn active(&self, recent: &Sketch<2>, now: Time) -> u32 {
        let counted = self.active.count(SINCE, now).max(recent.count(RECENT, now));
        if counted > FEW {
            return counted;
        }
        let named = self.names.iter().zip(&self.held);
        let named = named.filter(|(_, held)| now.since(held.heard) < SINCE);
        let names = || named.clone().map(|(name, _)| *name);
        let others = (self.active.count_others(names(), SINCE, now)).max(recent.count_others(
            names(),
            RECENT,
            now,
        ));
        counted.max(names().count() as u32 + others)
    }

    /// How long this instance is still refused; `None`: it is not.
    pub fn refused(&self, name: u64, now: Time) -> Option<Nanos> {
        let fault = self.held.get(self.index(name)?)?.fault?;
        let left = now.until(fault.refused_until.max(fault.tried_until));
        (!left.is_zero()).then_some(left)
    }

    /// As [`Self::refused`], for an attempt that was granted before.
    pub fn refused_still(&self, name: u64, now: Time) -> Option<Nanos> {
        let left = now.until(self.held.get(self.index(name)?)?.fault?.refused_until);
        (!left.is_zero()).then_some(left)
    }

    /// Notes that an instance with a fault was granted one attempt, which may take until
    /// `until`.
    pub fn try_once(&mut self, name: u64, until: Time) {
        if let Some(reporter) = self.find(Some(name))
            && let Some(fault) = &mut reporter.fault
        {
            fault.tried_until = until;
        }
    }

    /// Whether this instance has a breaker of its own.
    pub fn has_fault(&self, name: u64) -> bool {
        let held = self.index(name).and_then(|index| self.held.get(index));
        held.is_some_and(|held| held.fault.is_some())
    }

    /// Whose fault began or ended since this was last called.
    pub fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    /// Instances that have a breaker of their own.
    pub fn faults(&self) -> usize {
        let faults = self.held.iter().filter(|held| held.fault.is_some());
        faults.count()
    }

    pub fn tracks(&self) -> usize {
        self.names.len()
    }

    /// Whether nothing here can still matter.
    pub fn is_quiet(&self, now: Time) -> bool {
        let span = match self.size {
            Some(WindowSize::Time(span)) => span.max(QUIET),
            Some(WindowSize::Calls(_)) | None => QUIET,
        };
        now.since(self.last_bad) >= span
            && self.held.iter().all(|held| {
                held.fault
                    .is_none_or(|fault| now.since(fault.refused_until.max(held.heard)) >= QUIET)
            })
    }

    fn index(&self, name: u64) -> Option<usize> {
        self.names.iter().position(|known| *known == name)
    }

    fn find(&mut self, name: Option<u64>) -> Option<&mut Reporter> {
        match name {
            None => Some(&mut self.silence),
            Some(name) => {
                let index = self.index(name)?;
                self.held.get_mut(index)
            }
        }
    }

    /// The entry of an instance that has just failed.
    fn tracked(&mut self, name: Option<u64>, at: Time) -> &mut Reporter {
        self.last_bad = self.last_bad.max(at);
        let Some(name) = name else {
            return &mut self.silence;
        };
        let index = self.index(name).unwrap_or_else(|| {
            if self.names.len() >= REPORTERS_MAX {
                self.forget_one();
            }
            self.names.push(name);
            self.held.push(Reporter::default());
            self.names.len() - 1
        });
        let reporter = &mut self.held[index];
        reporter.heard = reporter.heard.max(at);
        reporter
    }

    /// Forgets the instance that was silent longest; one that is refused stays while there
    /// are others.
    fn forget_one(&mut self) {
        let oldest = (self.held.iter().enumerate())
            .min_by_key(|(_, held)| (held.fault.is_some(), held.heard))
            .map(|(index, _)| index);
        if let Some(index) = oldest {
            self.names.swap_remove(index);
            self.nameless += self.held.swap_remove(index).part;
        }
    }

    fn has_quorum(&self, limits: Limits, has_part: impl Fn(&Reporter) -> bool) -> bool {
        let named = self.held.iter().filter(|held| has_part(held)).count();
        named.max(usize::from(has_part(&self.silence))) >= limits.quorum
    }

    /// Gives an instance a breaker of its own, unless it has one.
    fn refuse(&mut self, policy: &policy::Breaker, caller: u64, at: Time) {
        if let Some(reporter) = self.find(Some(caller))
            && reporter.fault.is_none()
        {
            reporter.fault = Some(Fault {
                refused_until: at + policy.open_for,
                tried_until: Time::ORIGIN,
            });
            let refused_for = policy.open_for;
            self.news = Some(News::Refused {
                caller,
                refused_for,
            });
        }
    }

    /// A success in a try ends a fault.
    fn end_fault(&mut self, heard: &Heard) {
        let at = heard.at;
        let succeeded = heard.counts.calls > 0 && heard.counts.failures == 0;
        if let Some(reporter) = self.find(heard.reporter) {
            reporter.heard = reporter.heard.max(at);
            if succeeded
                && reporter
                    .fault
                    .is_some_and(|fault| at >= fault.refused_until)
            {
                (reporter.fault, reporter.own, reporter.own_window) = (None, 0.0, None);
                self.news = heard.reporter.map(|caller| News::Recovered { caller });
            }
        }
    }
}

impl Reporter {
    fn in_row(&self, row: u32) -> u32 {
        if self.row.0 == row { self.row.1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_instances_take_less_than_eight_kilobytes() {
        let each = size_of::<Reporter>() + size_of::<u64>();
        let all = size_of::<Reporters>() + REPORTERS_MAX * each;
        assert!(all <= 8_192, "{all} bytes");
    }
}
