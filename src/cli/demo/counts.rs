//! What the fleet has met: plain numbers that its clients add to and the screen reads.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdoff_client::{DenialReason, proto};

/// The calendar's default slot; arrivals are counted by it.
const SLOT: Duration = Duration::from_millis(10);

/// Why not; what a demo does not show by itself is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum No {
    BreakerOpen,
    ProbeInProgress,
    Recovering,
    Held,
    BudgetExhausted,
    RetryUnsafe,
    Deadline,
    Other,
}

impl No {
    pub fn word(self) -> &'static str {
        match self {
            Self::BreakerOpen => "breaker open",
            Self::ProbeInProgress => "probe in progress",
            Self::Recovering => "recovering",
            Self::Held => "held",
            Self::BudgetExhausted => "budget exhausted",
            Self::RetryUnsafe => "retry unsafe",
            Self::Deadline => "deadline",
            Self::Other => "other",
        }
    }
}

impl From<DenialReason> for No {
    fn from(reason: DenialReason) -> Self {
        match reason {
            DenialReason::BreakerOpen => Self::BreakerOpen,
            DenialReason::ProbeInProgress => Self::ProbeInProgress,
            DenialReason::Recovering => Self::Recovering,
            DenialReason::Held => Self::Held,
            DenialReason::BudgetExhausted => Self::BudgetExhausted,
            DenialReason::RetryUnsafe => Self::RetryUnsafe,
            DenialReason::Deadline => Self::Deadline,
            _ => Self::Other,
        }
    }
}

impl From<proto::DenialReason> for No {
    fn from(reason: proto::DenialReason) -> Self {
        match reason {
            proto::DenialReason::BreakerOpen => Self::BreakerOpen,
            proto::DenialReason::ProbeInProgress => Self::ProbeInProgress,
            proto::DenialReason::Recovering => Self::Recovering,
            proto::DenialReason::Held => Self::Held,
            proto::DenialReason::BudgetExhausted => Self::BudgetExhausted,
            proto::DenialReason::RetryUnsafe => Self::RetryUnsafe,
            proto::DenialReason::Deadline => Self::Deadline,
            _ => Self::Other,
        }
    }
}

/// Since the start.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub calls: u64,
    pub succeeded: u64,
    pub given_up: u64,
    /// Answers "no".
    pub denied: BTreeMap<No, u64>,
    /// Retries that were made.
    pub retries: u64,
    pub probes: u64,
    /// Attempts that were decided without the service.
    pub alone: u64,
    /// When attempts that were given a place are due, since the start; in no order.
    pub due: Vec<Duration>,
}

/// Attempts with a place in the calendar, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    pub attempts: usize,
    /// Between the first and the last.
    pub over: Duration,
    /// The most in one slot.
    pub most_in_slot: usize,
}

/// Shared by all clients.
#[derive(Debug, Default)]
pub struct Counting(Mutex<Counts>);

impl Counting {
    /// What was counted last is right, also where somebody panicked meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    pub fn deny(&mut self, no: No) {
        *self.denied.entry(no).or_default() += 1;
    }

    /// The places that lie in a stretch of time.
    pub fn spread(&self, from: Duration, to: Duration) -> Spread {
        let mut due = self.due.clone();
        due.retain(|at| (from..to).contains(at));
        due.sort_unstable();
        let (Some(first), Some(last)) = (due.first(), due.last()) else {
            return Spread::default();
        };
        let mut slots = BTreeMap::<u128, usize>::new();
        for at in &due {
            *slots.entry(at.as_nanos() / SLOT.as_nanos()).or_default() += 1;
        }
        Spread {
            attempts: due.len(),
            over: *last - *first,
            most_in_slot: slots.into_values().max().unwrap_or(0),
        }
    }

    /// How many are due in each of so many steps from now on.
    pub fn planned(&self, now: Duration, step: Duration, steps: usize) -> Vec<usize> {
        let mut bins = vec![0; steps];
        for at in self.due.iter().filter(|at| **at >= now) {
            let bin = (*at - now).as_nanos() / step.as_nanos().max(1);
            if let Some(count) = usize::try_from(bin).ok().and_then(|bin| bins.get_mut(bin)) {
                *count += 1;
            }
        }
        bins
    }

    /// Forgets places that nobody asks about any more.
    pub fn forget_before(&mut self, at: Duration) {
        self.due.retain(|due| *due >= at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn counts() -> Counts {
        Counts {
            due: vec![ms(1_250), ms(1_003), ms(1_009), ms(1_010), ms(9_000)],
            ..Counts::default()
        }
    }

    #[test]
    fn a_spread_is_of_the_places_within_its_stretch() {
        let spread = counts().spread(ms(1_000), ms(2_000));
        assert_eq!((spread.attempts, spread.most_in_slot), (4, 2));
        assert_eq!(spread.over, ms(247));
        assert_eq!(counts().spread(ms(0), ms(10)), Spread::default());
    }

    #[test]
    fn what_is_planned_is_counted_from_now_on() {
        let planned = counts().planned(ms(1_005), ms(100), 3);
        assert_eq!(planned, [2, 0, 1]);
        let mut later = counts();
        later.forget_before(ms(1_010));
        assert_eq!(later.due.len(), 3);
    }
}
