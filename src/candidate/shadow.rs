//! The trial of a candidate beside one live record, and how many there may be at once.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use holdoff_decision::{Policy, Record};

use super::Judge;

/// Trials at once. One holds a second record, and up to 400 KiB of permits while calls hang.
const TRIALS_MAX: usize = 1_000;

/// See the module.
#[derive(Clone, Debug)]
pub struct Shadow {
    /// Of which candidate: each that is put has another number.
    pub candidate: u64,
    pub policy: Arc<Policy>,
    pub judge: Judge,
    _place: Place,
}

/// How many trials there are.
#[derive(Clone, Debug, Default)]
pub struct Trials(Arc<AtomicUsize>);

#[derive(Debug)]
struct Place(Trials);

impl Shadow {
    /// Begins where the live record is; `None`: too many are tried already.
    pub fn begin(
        trials: &Trials,
        candidate: u64,
        policy: Arc<Policy>,
        live: &Record,
    ) -> Option<Self> {
        Some(Self {
            candidate,
            policy,
            judge: Judge::beside(live),
            _place: trials.place()?,
        })
    }
}

impl Trials {
    fn place(&self) -> Option<Place> {
        let place = Place::take(self);
        // Given back at once where there was no room.
        (self.0.load(Ordering::Relaxed) <= TRIALS_MAX).then_some(place)
    }
}

impl Place {
    fn take(trials: &Trials) -> Self {
        trials.0.fetch_add(1, Ordering::Relaxed);
        Self(trials.clone())
    }
}

impl Clone for Place {
    fn clone(&self) -> Self {
        Self::take(&self.0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use holdoff_decision::Time;

    use super::*;

    #[test]
    fn no_more_are_tried_than_there_is_room_for_and_an_end_makes_room() {
        let trials = Trials::default();
        let live = Record::new(1, Time(1));
        let begin = || Shadow::begin(&trials, 1, Arc::default(), &live);
        let mut tried: Vec<_> = (0..TRIALS_MAX).map(|_| begin().unwrap()).collect();
        assert!(begin().is_none());
        tried.pop();
        assert!(begin().is_some());
    }
}
