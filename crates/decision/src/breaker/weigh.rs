//! What the evidence comes to: the detector's word, under the rules of whom it comes from.

use super::{Breaker, Cause, watches_slow};
use crate::{
    Nanos, Time,
    detector::{Detector, THRESHOLD},
    evidence::{Heard, Judged, News, RECENT, Reporters},
    policy::{self, Detect},
    report::NOBODY,
    window::Window,
};

impl Breaker {
    /// Notes that an attempt of this instance ended; [`NOBODY`] is none.
    pub fn note_reporter(&mut self, reporter: u64, now: Time) {
        if reporter == NOBODY {
            return;
        }
        self.recent.note(reporter, RECENT, now);
        if let Some(reporters) = self.reporters_mut() {
            reporters.note(reporter, now);
        }
    }

    /// How long calls of this instance are refused on their own; `None`: they are not.
    pub fn refused(&self, caller: u64, now: Time) -> Option<Nanos> {
        self.reporters()?.refused(caller, now)
    }

    /// As [`Self::refused`], for a call that was granted before.
    pub fn refused_still(&self, caller: u64, now: Time) -> Option<Nanos> {
        self.reporters()?.refused_still(caller, now)
    }

    /// Whether this instance has a breaker of its own: its calls are refused, or are tries.
    pub fn has_fault(&self, caller: u64) -> bool {
        self.reporters()
            .is_some_and(|reporters| reporters.has_fault(caller))
    }

    /// Notes that an instance was granted a call, which may take until `until`.
    pub fn note_try(&mut self, caller: u64, until: Time) {
        if let Some(reporters) = self.reporters_mut() {
            reporters.try_once(caller, until);
        }
    }

    /// Instances that have a breaker of their own.
    pub fn faults(&self) -> usize {
        self.reporters().map_or(0, |reporters| reporters.faults())
    }

    /// Whether anything is kept of instances.
    pub fn tracks_reporters(&self) -> bool {
        self.reporters().is_some()
    }

    /// Instances that have failed lately, of which something is kept.
    pub fn reporters_tracked(&self) -> usize {
        self.reporters().map_or(0, |reporters| reporters.tracks())
    }

    /// Whose fault began or ended since this was last called.
    pub fn take_news(&mut self) -> Option<News> {
        self.reporters_mut()?.take_news()
    }

    /// Frees what is kept of instances when nothing has failed for long.
    pub fn forget_quiet(&mut self, now: Time) {
        if (self.reporters()).is_some_and(|reporters| reporters.is_quiet(now)) {
            self.forget_rare(|rare| rare.reporters = None);
        }
    }

    /// Adds evidence and says whether it is enough.
    pub(super) fn weigh(
        &mut self,
        policy: &policy::Breaker,
        heard: &Heard,
        now: Time,
    ) -> Option<Cause> {
        let at = heard.at;
        self.track(policy, heard, now);
        let counts = heard.counts;
        match &policy.detect {
            Detect::Adaptive => {
                if self.window().is_some() {
                    self.forget_rare(|rare| rare.window = None);
                }
                let (detector, recent) = (&mut self.detector, &self.recent);
                let reporters = (self.rare.as_mut()).and_then(|rare| rare.reporters.as_deref_mut());
                // Two logarithms that a success without evidence does not need; taken before
                // the record, which may teach other weights.
                let known = reporters.map(|known| (known, detector.weights()));
                let good = counts.calls.saturating_sub(counts.failures);
                let mut trips = detector.record(good, counts.failures, at);
                let judged =
                    known.map(|(known, weights)| known.weigh(policy, weights, heard, recent));
                if let Some(Judged::Fleet(judged)) = judged {
                    detector.set(judged.sum);
                    trips = judged.trips;
                }
                trips.then(|| Cause::Suspicion(detector.suspicion(at)))
            }
            Detect::Window(thresholds) => {
                self.leave_other_evidence(thresholds);
                let (rare, recent) = (self.rare.get_or_insert_default(), &self.recent);
                let new = || Box::new(Window::new(thresholds.size, now));
                let window = rare.window.get_or_insert_with(new);
                let reporters = rare.reporters.as_deref_mut();
                match heard.reporter {
                    Some(_) => window.record_all(counts, at),
                    None => window.record_silent(counts.failures > 0, counts.calls, at),
                }
                let reached = match reporters
                    .map(|known| known.judge(policy, thresholds, window, heard, recent, now))
                {
                    Some(Judged::Fleet(reached)) => reached,
                    Some(Judged::Alone) | None => {
                        window.reached(thresholds, watches_slow(policy), now)
                    }
                };
                reached.map(Cause::Window)
            }
        }
    }

    /// Tracks instances from the first failure on.
    fn track(&mut self, policy: &policy::Breaker, heard: &Heard, now: Time) {
        let bad = heard.counts.failures > 0 || (watches_slow(policy) && heard.counts.slow > 0);
        if !bad || self.reporters().is_some() {
            return;
        }
        let sum = self.suspicion(heard.at) * THRESHOLD;
        let mut reporters = Box::new(Reporters::new(sum, now));
        if let Some(reporter) = heard.reporter {
            reporters.note(reporter, now);
        }
        self.rare_mut().reporters = Some(reporters);
    }

    /// Forgets what the detector has learned, or a window of another size.
    fn leave_other_evidence(&mut self, thresholds: &policy::Window) {
        let fits = (self.window()).is_some_and(|window| window.fits(thresholds.size));
        if !fits {
            self.detector = Detector::default();
            self.rare_mut().window = None;
        }
    }
}
